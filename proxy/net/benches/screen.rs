//! What the screen of HTTP/2 costs for each header block, beside the library that it
//! stands before.
//!
//! `cargo bench -p sprat-net --bench screen`

use std::cell::RefCell;
use std::hint::black_box;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http::Request;
use sprat_net::screen::{Peer, Screened};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Requests of a connection, fewer than a client has before it knows the server's bound.
const REQUESTS: usize = 64;

/// As the proxy bounds the fields of a request by default.
const LIST_MAX: usize = 16 << 10;

/// Octets that a client begins with (RFC 9113 3.4).
const PREFACE_BYTES: usize = 24;

/// The frame that a header block begins in.
const HEADERS: u8 = 1;

/// A socket that has all bytes at once, and keeps what is written to it.
#[derive(Default)]
struct Wire {
    read: Bytes,
    written: Rc<RefCell<Vec<u8>>>,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let part = self.read.len().min(buffer.remaining());
        if part == 0 {
            return Poll::Pending;
        }
        buffer.put_slice(&self.read.split_to(part));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A peer that takes no notice of malformed messages.
struct Silent;

impl Peer for Silent {}

fn ready<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("all there is to wait for is there"),
    }
}

/// Makes the request of a number.
type Sender = fn(usize) -> Request<()>;

/// A request as browsers send them.
fn browser(number: usize) -> Request<()> {
    Request::get(format!(
        "https://www.example.com/assets/images/photo-{number}.webp"
    ))
    .header(
        "sec-ch-ua",
        "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\"",
    )
    .header("sec-ch-ua-mobile", "?0")
    .header(
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/140.0.0.0 Safari/537.36",
    )
    .header("sec-ch-ua-platform", "\"Linux\"")
    .header(
        "accept",
        "image/avif,image/webp,image/apng,image/*,*/*;q=0.8",
    )
    .header("sec-fetch-site", "same-origin")
    .header("sec-fetch-mode", "no-cors")
    .header("sec-fetch-dest", "image")
    .header("referer", "https://www.example.com/gallery/2026/november")
    .header("accept-encoding", "gzip, deflate, br, zstd")
    .header("accept-language", "en-GB,en;q=0.9,de;q=0.8")
    .header(
        "cookie",
        "session=4f2a9c0be1d84d6f9a7b; theme=dark; consent=all",
    )
    .header("priority", "u=2, i")
    .body(())
    .expect("a request")
}

/// A request with values of its own in most fields, so that the table is of little use.
fn changing(number: usize) -> Request<()> {
    let own = |field: usize| {
        format!(
            "{:032x}",
            (number * 31 + field) as u128 * 0x9e37_79b9_7f4a_7c15
        )
    };
    let mut request = Request::get(format!("https://www.example.com/api/v1/{}", own(0)));
    for field in 1..=10 {
        request = request.header(format!("x-field-{field}"), own(field));
    }
    request.body(()).expect("a request")
}

/// A request of a program that says little.
fn short(number: usize) -> Request<()> {
    let request = Request::get(format!("https://api.example.com/items/{number}"));
    request.header("accept", "*/*").body(()).expect("a request")
}

/// What a client writes that sends requests, as the library encodes them.
fn written(request: impl Fn(usize) -> Request<()>) -> Bytes {
    let mut cx = Context::from_waker(Waker::noop());
    let wire = Wire::default();
    let written = Rc::clone(&wire.written);
    let handshake = pin!(h2::client::Builder::new().handshake::<_, Bytes>(wire));
    let (mut client, mut connection) = ready(handshake.poll(&mut cx)).expect("a handshake");
    // Gone, a response would reset its stream.
    let mut kept = Vec::new();
    for number in 0..REQUESTS {
        ready(client.poll_ready(&mut cx)).expect("a stream");
        kept.push(
            client
                .send_request(request(number), true)
                .expect("a stream"),
        );
        assert!(Pin::new(&mut connection).poll(&mut cx).is_pending());
    }
    let written = written.borrow();
    Bytes::copy_from_slice(&written)
}

/// Octets in header blocks, and how many blocks there are.
fn blocks(written: &[u8]) -> (usize, usize) {
    let mut frames = &written[PREFACE_BYTES..];
    let (mut octets, mut count) = (0, 0);
    while let [high, middle, low, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        if *kind == HEADERS {
            octets += length;
            count += 1;
        }
        frames = &rest[length..];
    }
    (octets, count)
}

/// Has the library's server read all requests of a connection.
fn serve(stream: impl AsyncRead + AsyncWrite + Unpin) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let mut builder = h2::server::Builder::new();
    builder.max_header_list_size(LIST_MAX as u32);
    let handshake = pin!(builder.handshake::<_, Bytes>(stream));
    let mut connection = ready(handshake.poll(&mut cx)).expect("a handshake");
    // Dropped, a request would have its stream reset.
    let mut requests = Vec::with_capacity(REQUESTS);
    while let Poll::Ready(Some(request)) = connection.poll_accept(&mut cx) {
        requests.push(request.expect("a request"));
    }
    assert_eq!(requests.len(), REQUESTS);
    black_box(requests).len()
}

/// Reads all that there is.
fn read(stream: impl AsyncRead) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let mut stream = pin!(stream);
    let mut memory = vec![0; 16 << 10];
    let mut total = 0;
    loop {
        let mut buffer = ReadBuf::new(&mut memory);
        if stream.as_mut().poll_read(&mut cx, &mut buffer).is_pending() {
            return total;
        }
        total += black_box(buffer.filled()).len();
    }
}

fn screened(wire: Wire) -> Screened<Wire, Silent> {
    Screened::client(wire, LIST_MAX, Silent)
}

/// A connection is read bare, through the screen, by the library, and by the library
/// through the screen: the screen's part is the second less the first.
fn connections(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("header-blocks");
    group.measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements(REQUESTS as u64));
    let kinds: [(&str, Sender); 3] = [
        ("short", short),
        ("browser", browser),
        ("changing", changing),
    ];
    for (kind, request) in kinds {
        let bytes = written(request);
        let (octets, count) = blocks(&bytes);
        assert_eq!(count, REQUESTS);
        let name = format!("{kind}, {} octets", octets / count);
        let wire = || Wire {
            read: bytes.clone(),
            written: Rc::default(),
        };
        let mut bench = |what, each: &dyn Fn(Wire) -> usize| {
            group.bench_function(BenchmarkId::new(what, &name), |bencher| {
                bencher.iter(|| each(wire()));
            });
        };
        bench("bare", &|wire| black_box(read(wire)));
        bench("screen", &|wire| black_box(read(screened(wire))));
        bench("library", &|wire| serve(wire));
        bench("both", &|wire| serve(screened(wire)));
    }
    group.finish();
}

criterion_group!(benches, connections);
criterion_main!(benches);
