//! `sprat-loadgen hold`: opens connections, asks once on each, and holds them.

use std::io::Write as _;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use crate::cli;
use crate::replay::{Target, target};

/// The most connections that are being opened at once.
const OPENING_MAX: usize = 64;

/// The most bytes of a response that are read before its head must have ended.
const HEAD_MAX: usize = 16 << 10;

/// Open connections, ask once on each, and hold them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints `holding N connections` once each has had a response, then waits until
standard input ends, or for --for. Exits with an error if one was closed
meanwhile. Over https any certificate will do.

Example:
  sprat-loadgen hold --target https://127.0.0.1:8443 --connections 10000")]
pub struct HoldArgs {
    /// The server to connect to
    #[arg(long, value_name = "http[s]://HOST:PORT", value_parser = target)]
    target: Target,
    /// Number of connections to hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// Path that each connection requests once
    #[arg(long, value_name = "PATH", default_value = "/size/100/hold")]
    path: String,
    /// How long to hold them [default: until standard input ends]
    #[arg(long = "for", value_name = "SPAN", value_parser = cli::span)]
    span: Option<Duration>,
}

/// A stream that holds a connection open, over TLS or plain TCP.
trait Held: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Held for T {}

/// Runs `sprat-loadgen hold`.
///
/// # Errors
/// When a connection cannot be opened, is not answered, or is closed.
pub fn run(args: &HoldArgs) -> anyhow::Result<()> {
    cli::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the client")?;
    LocalSet::new().block_on(&runtime, hold(args))
}

async fn hold(args: &HoldArgs) -> anyhow::Result<()> {
    let places = Rc::new(Semaphore::new(OPENING_MAX));
    let mut opening = JoinSet::new();
    for _ in 0..args.connections {
        let (target, path, places) = (args.target.clone(), args.path.clone(), places.clone());
        opening.spawn_local(async move {
            let _place = places.acquire().await?;
            open(&target, &path).await
        });
    }
    let mut held = Vec::new();
    while let Some(opened) = opening.join_next().await {
        held.push(opened??);
    }
    println!("holding {} connections", held.len());
    std::io::stdout().flush()?;
    match args.span {
        Some(span) => tokio::time::sleep(span).await,
        // An end and an error are the same here.
        None => drop(tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await),
    }
    let mut closed = 0;
    for stream in &mut held {
        closed += usize::from(is_closed(stream).await);
    }
    ensure!(closed == 0, "{closed} connections were closed meanwhile");
    Ok(())
}

/// Opens a connection and waits until it has had a response.
async fn open(target: &Target, path: &str) -> anyhow::Result<Box<dyn Held>> {
    let stream = TcpStream::connect(target.address).await;
    let stream = stream.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let mut stream: Box<dyn Held> = match &target.tls {
        None => Box::new(stream),
        Some(tls) => Box::new(tls.connect(stream).await.context("no TLS handshake")?),
    };
    let authority = &target.authority;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    answered(&mut stream).await?;
    Ok(stream)
}

/// Reads a whole response, whose head must have a `Content-Length`.
async fn answered(stream: &mut Box<dyn Held>) -> anyhow::Result<()> {
    let mut read = Vec::new();
    loop {
        let mut part = [0; 4096];
        let bytes = stream.read(&mut part).await?;
        ensure!(bytes > 0, "the connection was closed before the response");
        read.extend_from_slice(&part[..bytes]);
        let Some(head) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
            ensure!(read.len() < HEAD_MAX, "the response's head does not end");
            continue;
        };
        let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length
            .context("the response has no Content-Length")?
            .trim()
            .parse()?;
        if read.len() >= head + 4 + length {
            return Ok(());
        }
    }
}

/// Returns whether the server has closed the connection.
async fn is_closed(stream: &mut Box<dyn Held>) -> bool {
    let mut byte = [0];
    let reading = stream.read(&mut byte);
    // Nothing to read: it is open.
    tokio::time::timeout(Duration::ZERO, reading).await.is_ok()
}
