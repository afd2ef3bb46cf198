//! `sprat-loadgen origin`: an HTTP server whose answers are made to order
//! by the URL: any size, delays, framing, and faults.

mod body;
mod fault;
mod http2;
mod recipe;
mod reply;
mod server;
mod service;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cli;

pub(crate) use http2::LocalExecutor;
pub use server::{Running, start};
pub use service::{Order, Service};

/// Serve bodies of any size by URL, for proxies and load generators to fetch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
URLs:
  /size/<bytes>/<id>   a body of that many bytes; its content depends on the
                       path alone, so that a client can check it. <id> is any
                       token and may be left out.
  Knobs in the query, to be combined:
    delay=50ms         wait before the head
    body_delay=50ms    wait between head and body
    chunked=1          no Content-Length
    rate=1mbit         send the body at this rate
    status=503         another status
    close=1            close the connection after the response
    trailers=1         chunked, with a trailer if the request has TE: trailers
    fault=...          reset_head, reset_body, short, long, garbage,
                       stall_head, stall_body or header_flood
    at=<bytes>         where the fault happens: bytes of the head or body that
                       are sent before it; for `long`, bytes beyond the
                       announced length; for header_flood and garbage, bytes
                       sent in all
    attempts=N         fault and status hold for the first N attempts only, by
                       the X-Envoy-Attempt-Count of the request

HTTP/1.1 and HTTP/2 with prior knowledge, on the same address. Over HTTP/2,
reset_head, reset_body, short, long, stall_head and stall_body concern the
stream; garbage and header_flood are for HTTP/1.1.

Examples:
  # three origins in one process
  sprat-loadgen origin --listen 127.0.0.1:8001 --listen 127.0.0.1:8002 --listen 127.0.0.1:8003

  # a server that serves one request at a time, 10 Mbit of body in a second
  sprat-loadgen origin --listen 127.0.0.1:8001 --concurrency 1 --bandwidth 10mbit

  curl 'http://127.0.0.1:8001/size/100/a?delay=50ms&chunked=1'")]
pub struct OriginArgs {
    /// Address to serve; may be given several times, each a server of its own
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: Vec<SocketAddr>,
    /// Threads, each serving all addresses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// A header to add to each response, `Name: value`; may be repeated
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Service rate: each request takes the time that its body's bytes take at this rate
    #[arg(long, value_name = "RATE", value_parser = cli::rate)]
    bandwidth: Option<u64>,
    /// With --bandwidth: time that each request takes in addition
    #[arg(long, value_name = "TIME", requires = "bandwidth", value_parser = cli::span)]
    overhead: Option<Duration>,
    /// With --bandwidth: serve this many requests at a time, each at the full rate; others wait,
    /// first come, first served. Without this option all requests share the rate
    #[arg(long, value_name = "N", requires = "bandwidth", value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: Option<u16>,
    /// The most connections open at once; more wait to be accepted
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Bytes that the kernel may hold unsent for a connection
    #[arg(long = "notsent-lowat", value_name = "SIZE", default_value = "128KB", value_parser = cli::size)]
    max_unsent_bytes: u32,
}

/// The settings of an origin: one server, or several in one process.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Addresses to serve, each a server of its own; port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// Threads, each serving all addresses.
    pub threads: u16,
    /// Headers to add to each response.
    pub headers: HeaderMap,
    /// The time that each address takes for its requests; `None` for no time.
    pub service: Option<Service>,
    /// The most connections open at once, over all threads.
    pub connections_max: u32,
    /// The most bytes that the kernel may hold unsent for a connection. An origin elsewhere would
    /// have memory of its own; this one must not take that of the system that is measured.
    pub max_unsent_bytes: u32,
}

impl Default for Origin {
    /// Makes an origin with one thread on a free port of the loopback.
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            threads: 1,
            headers: HeaderMap::new(),
            service: None,
            connections_max: 50_000,
            max_unsent_bytes: 128 << 10,
        }
    }
}

/// Runs `sprat-loadgen origin`, which serves until SIGINT or SIGTERM.
///
/// # Errors
/// When an address cannot be served.
pub fn run(args: &OriginArgs) -> anyhow::Result<()> {
    let descriptors = cli::raise_open_files();
    let connections_max = descriptors
        .saturating_sub(64)
        .clamp(1, args.max_connections.into());
    let running = start(&Origin {
        listen: args.listen.clone(),
        threads: args.threads,
        headers: args.header.iter().cloned().collect(),
        service: args.bandwidth.map(|bits_per_s| Service {
            bits_per_s,
            overhead: args.overhead.unwrap_or_default(),
            order: match args.concurrency {
                Some(slots) => Order::Concurrent(slots.into()),
                None => Order::Shared,
            },
        }),
        connections_max: connections_max as u32,
        max_unsent_bytes: args.max_unsent_bytes,
    })?;
    for address in &running.addresses {
        println!("serving http://{address}/size/<bytes>/<id>");
    }
    wait_for_signal().context("cannot wait for signals")
}

fn wait_for_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a header is written `Name: value`")?;
    let name = name
        .trim()
        .parse()
        .map_err(|_| format!("`{name}` is not a header's name"))?;
    let value = value
        .trim()
        .parse()
        .map_err(|_| format!("`{value}` is not a header's value"))?;
    Ok((name, value))
}
