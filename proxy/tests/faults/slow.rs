//! A client that takes the end of a response slowly is late with nothing.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::time::Duration;

use socket2::SockRef;
use sprat::simulation::Simulated;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::time;

/// What the proxy's socket holds for a client.
const SOCKET_BYTES: usize = 200_000;
const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A head has a second, an answer takes nine.
const CONFIG: &str = "
version: 1
admin: off
listeners:
  - {address: 127.0.0.1:0, request_headers_timeout: 1s, min_rates: {response: off}}
clusters: {farm: {endpoints: [10.0.0.1:80]}}
routes: [{cluster: farm}]
";

/// The proxy's end of a connection, and the other.
fn pair() -> io::Result<(TcpStream, UnixStream)> {
    let (ours, theirs) = Pair::pair()?;
    SockRef::from(&theirs).set_send_buffer_size(SOCKET_BYTES)?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let theirs = std::net::TcpStream::from(OwnedFd::from(theirs));
    Ok((TcpStream::from_std(theirs)?, UnixStream::from_std(ours)?))
}

/// Answers all requests of a connection.
async fn backend(mut stream: UnixStream, body_bytes: usize) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n");
    let answer = [head.as_bytes(), &vec![b'a'; body_bytes]].concat();
    let mut asked = Vec::new();
    while stream
        .read_buf(&mut asked)
        .await
        .is_ok_and(|count| count > 0)
    {
        if asked.ends_with(b"\r\n\r\n") {
            asked.clear();
            stream.write_all(&answer).await.unwrap();
        }
    }
}

/// Reads a kilobyte each 20 ms until so many bytes have come, or the end.
async fn read_slowly(stream: &mut UnixStream, until: usize, total: &mut usize) {
    let mut piece = [0; 1_000];
    while *total < until {
        sleep(Duration::from_millis(20)).await;
        match stream.read(&mut piece).await {
            Ok(count @ 1..) => *total += count,
            _ => return,
        }
    }
}

/// Asks twice, once while the first answer comes; what is read in all.
async fn ask_early(body_bytes: usize) -> usize {
    let config = sprat_config::parse(CONFIG, "slow", &|_| None);
    let config = config.unwrap_or_else(|errors| panic!("{errors}")).config;
    let connect = move |_| {
        let stream = pair().map(|(theirs, ours)| {
            spawn_local(backend(ours, body_bytes));
            theirs
        });
        Box::pin(async { stream }) as _
    };
    let (proxy, workers) = Simulated::new(&config, connect).unwrap();
    for worker in workers {
        spawn_local(worker);
    }
    let (theirs, mut client) = pair().unwrap();
    let address = SocketAddr::from(([192, 168, 0, 1], 50_000));
    proxy.accept(0, 0, theirs, address).unwrap();
    let mut total = 0;
    client.write_all(REQUEST).await.unwrap();
    read_slowly(&mut client, body_bytes / 4, &mut total).await;
    client.write_all(REQUEST).await.unwrap();
    read_slowly(&mut client, 2 * body_bytes, &mut total).await;
    proxy.control().drain();
    total
}

#[test]
fn a_client_is_not_late_with_a_request_before_it_has_the_answer() {
    // With some of them, the proxy has given the first answer away and the
    // socket has not taken all of it when the second request comes.
    for body_bytes in (250_000..450_000).step_by(5_000) {
        let (total, _) = time::run(ask_early(body_bytes));
        assert!(
            total >= 2 * body_bytes,
            "{total} of {body_bytes} bytes twice"
        );
    }
}
