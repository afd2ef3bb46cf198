//! The driver of hyper, within a connection's bounds on time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use sprat_net::clock;
use tokio::time::{Instant, sleep_until};

use super::deadlines::rearm;
use super::end::End;
use super::state::Connection;

/// A connection as hyper drives it.
pub(super) trait Http: Future<Output = hyper::Result<()>> {
    /// Whether the client may turn out to speak HTTP/2 instead.
    const IS_FIRST: bool;

    /// Makes the connection take no further request.
    fn shut_down(self: Pin<&mut Self>);
}

/// Drives hyper until it is through, the connection is cut, or a deadline has passed.
pub(super) async fn drive<H: Http>(connection: &Rc<Connection>, mut http: Pin<&mut H>) -> End {
    let first = connection.next_deadline().unwrap_or_else(Instant::now);
    let mut sleep = pin!(sleep_until(first));
    let mut armed = false;
    poll_fn(|cx| {
        connection.register(cx);
        loop {
            if let Some(reason) = connection.cut_reason() {
                return Poll::Ready(End::Cut(reason));
            }
            let shuts_down = connection.may_shut_down();
            if shuts_down {
                http.as_mut().shut_down();
            }
            // A turn each: what a deadline has brought here sees that it has passed.
            let outcome = clock::turn(|| {
                let outcome = http.as_mut().poll(cx);
                if outcome.is_pending() {
                    connection.settle();
                }
                outcome
            });
            match outcome {
                Poll::Ready(Ok(())) => return Poll::Ready(End::Closed),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Failed(error)),
                Poll::Pending => {}
            }
            if H::IS_FIRST && connection.http2().is_some() {
                return Poll::Ready(End::Http2);
            }
            if connection.may_shut_down() != shuts_down {
                continue;
            }
            let next = connection.next_deadline();
            let later = connection.listener.config.stream_idle_timeout;
            if !rearm(next, later, sleep.as_mut(), &mut armed, cx) {
                return Poll::Pending;
            }
            if let Some(end) = connection.expired(Instant::now()) {
                return Poll::Ready(end);
            }
        }
    })
    .await
}
