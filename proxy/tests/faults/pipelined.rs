//! Tests of a client that sends its next request before it has the answer to the last.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::time::Duration;

use socket2::SockRef;
use sprat_server::simulation::Simulated;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::time;

/// The bytes that the proxy's socket holds for a client.
const SOCKET_BYTES: usize = 200_000;
const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// The configuration: a request's head has a second, and an answer takes nine.
const CONFIG: &str = "
version: 1
admin: off
listeners:
  - {address: 127.0.0.1:0, request_headers_timeout: 1s, min_rates: {response: off}}
uplink: {rate: unlimited}
clusters: {farm: {endpoints: [10.0.0.1:80]}}
routes: [{cluster: farm}]
";

/// Returns the proxy's end of a connection, and the other end.
fn pair() -> io::Result<(TcpStream, UnixStream)> {
    let (ours, theirs) = Pair::pair()?;
    SockRef::from(&theirs).set_send_buffer_size(SOCKET_BYTES)?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let theirs = std::net::TcpStream::from(OwnedFd::from(theirs));
    Ok((TcpStream::from_std(theirs)?, UnixStream::from_std(ours)?))
}

/// Starts a proxy and its client, whose first request is sent. Each answer has `body_bytes` bytes,
/// and comes after `delay`.
async fn meet(body_bytes: usize, delay: Duration) -> (Simulated, UnixStream) {
    let config = sprat_config::parse(CONFIG, "pipelined", &|_| None);
    let config = config.unwrap_or_else(|errors| panic!("{errors}")).config;
    let connect = move |_| {
        let stream = pair().map(|(theirs, ours)| {
            spawn_local(backend(ours, body_bytes, delay));
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
    client.write_all(REQUEST).await.unwrap();
    (proxy, client)
}

/// Answers all requests of a connection.
async fn backend(mut stream: UnixStream, body_bytes: usize, delay: Duration) {
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
            sleep(delay).await;
            stream.write_all(&answer).await.unwrap();
        }
    }
}

/// Reads a kilobyte every 20 ms, until so many bytes have come, or the end.
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

#[test]
fn who_has_not_all_of_an_answer_is_not_late_with_the_next_request() {
    // With some of them, the proxy has given the first answer away and the
    // socket has not taken all of it when the second request comes.
    for body_bytes in (250_000..450_000).step_by(5_000) {
        let (total, _) = time::run(async {
            let (proxy, mut client) = meet(body_bytes, Duration::ZERO).await;
            let mut total = 0;
            read_slowly(&mut client, body_bytes / 4, &mut total).await;
            client.write_all(REQUEST).await.unwrap();
            read_slowly(&mut client, 2 * body_bytes, &mut total).await;
            proxy.control().drain();
            total
        });
        assert!(
            total >= 2 * body_bytes,
            "{total} of {body_bytes} bytes twice"
        );
    }
}

/// Checks that the proxy does not close a connection with unread bytes, which would reset it and
/// could lose the answer.
#[test]
fn who_is_told_that_the_connection_ends_is_not_reset() {
    let (answer, _) = time::run(async {
        let (proxy, mut client) = meet(10, Duration::from_millis(300)).await;
        sleep(Duration::from_millis(100)).await;
        proxy.control().drain();
        // The first of them is looked at, to see whether the client has gone.
        for _ in 0..2 {
            client.write_all(REQUEST).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.map(|_| answer)
    });
    let answer = answer.unwrap();
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.ends_with("aaaaaaaaaa"), "{answer}");
}
