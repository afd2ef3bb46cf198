//! A simulated client that sends several requests at a time, and resets some of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::Request;
use tokio::io::duplex;
use tokio::time::{sleep, timeout};

use super::{Tasks, advance, head, pipe, send};
use crate::judge::Got;
use crate::plan::{self, ClientPlan, Http2Plan, RequestPlan};
use crate::wire::Halves;
use crate::world::World;

struct Client<'a> {
    world: &'a World,
    name: &'a str,
    requests: &'a [RequestPlan],
    resets: &'a [Option<u64>],
    opened_ms: u64,
    /// Whether the connection's fault has come.
    has_failed: &'a Cell<bool>,
    /// The number of requests that were begun.
    begun: Cell<usize>,
}

/// Sends a client's requests, and judges the answers.
pub(crate) async fn speak(
    (world, name): (&World, &str),
    plan: &ClientPlan,
    http2: &Http2Plan,
    halves: Halves<'_>,
) {
    let client = Client {
        world,
        name,
        requests: &plan.requests,
        resets: &http2.resets_ms,
        opened_ms: world.mark(),
        has_failed: halves.reader.failure(),
        begun: Cell::default(),
    };
    let (ours, theirs) = duplex(pipe::BUFFER_BYTES);
    let work = async {
        let builder = Builder::new()
            .initial_window_size(http2.stream_window_bytes)
            .initial_connection_window_size(http2.connection_window_bytes)
            .enable_push(false)
            .handshake::<_, Bytes>(ours);
        let Ok((sender, connection)) = builder.await else {
            return;
        };
        let rows = (0..http2.at_a_time).map(|_| Box::pin(client.row(sender.clone())) as _);
        let mut rows: Tasks<'_, ()> = rows.collect();
        drop(sender);
        let asking = poll_fn(|cx| {
            advance(&mut rows, cx);
            match rows.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        // It says goodbye when all is answered.
        let (ended, ()) = tokio::join!(connection, asking);
        if let Err(error) = ended {
            // What it means for them, its streams tell.
            world.trace(name, &format!("ends: {error}"));
        }
    };
    pipe::serve(halves, theirs, work).await;
}

impl Client<'_> {
    /// Makes one request after another, until none is left.
    async fn row(&self, sender: SendRequest<Bytes>) {
        loop {
            let index = self.begun.replace(self.begun.get() + 1);
            let Some(request) = self.requests.get(index) else {
                return;
            };
            sleep(Duration::from_millis(request.pause_ms)).await;
            self.one(request, self.resets[index], sender.clone()).await;
        }
    }

    async fn one(&self, request: &RequestPlan, reset_ms: Option<u64>, sender: SendRequest<Bytes>) {
        let begun = self.world.mark();
        self.world.trace(self.name, &format!("begins {request:?}"));
        let got = RefCell::new(Got::Nothing);
        let asked = ask(request, sender, &got);
        let was_reset = match reset_ms {
            None => {
                asked.await;
                false
            }
            // Dropped, it resets its stream.
            Some(bound) => timeout(Duration::from_millis(bound), asked).await.is_err(),
        };
        if was_reset {
            self.world
                .trace(self.name, &format!("resets {}", request.id));
        }
        let got = got.into_inner();
        let mut excused =
            was_reset || self.has_failed.get() || self.world.explains(request.id, begun);
        if matches!(got, Got::Nothing) {
            excused |= self.world.drained(self.opened_ms, begun);
        }
        got.judge((self.world, self.name), request, Some(begun), excused);
    }
}

/// Makes a request of the plan. The part of the answer that has come is in `got` at all times.
async fn ask(request: &RequestPlan, sender: SendRequest<Bytes>, got: &RefCell<Got>) {
    let asked = Request::builder()
        .method(request.method)
        .uri(format!("http://a.example/r/{}", request.id));
    let uploads = request.method == "POST";
    let asked = match uploads && !request.is_chunked {
        true => asked.header("content-length", request.upload),
        false => asked,
    };
    let Ok(mut sender) = sender.ready().await else {
        return;
    };
    let Ok((answer, mut stream)) = sender.send_request(asked.body(()).unwrap(), !uploads) else {
        return;
    };
    let upload = async {
        if uploads {
            let body = plan::body(request.id, false, request.upload);
            // The answer tells what became of it.
            let _ = send(&mut stream, &body, true).await;
        }
    };
    let download = async {
        let Ok(answer) = answer.await else {
            return;
        };
        let (parts, mut stream) = answer.into_parts();
        got.replace(Got::Part(head(&parts), Vec::new()));
        while let Some(piece) = stream.data().await {
            let Ok(piece) = piece else { return };
            // An error shows when it is read on.
            let _ = stream.flow_control().release_capacity(piece.len());
            got.borrow_mut().add(&piece);
        }
        got.borrow_mut().complete();
    };
    tokio::join!(upload, download);
}
