//! The rest of a request's body that no endpoint wants any more.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http_body::Body;

/// The most bytes that are read of a body so that its connection can be kept.
const MAX_BYTES: usize = 64 << 10;

/// The least bytes that a piece of a body counts for.
const PIECE_BYTES: usize = 512;

/// Reads and drops as much of a body as has come, within bounds; returns whether that was all of
/// it.
pub(super) async fn discard(mut body: impl Body<Data = Bytes> + Unpin) -> bool {
    let mut left = MAX_BYTES;
    let mut was_dry = false;
    poll_fn(|cx| {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(cx) else {
                if was_dry {
                    return Poll::Ready(false);
                }
                // hyper reads on when it sees that a task waits.
                was_dry = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            };
            let bytes = match frame {
                None => return Poll::Ready(true),
                Some(Err(_)) => return Poll::Ready(false),
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            };
            was_dry = false;
            match left.checked_sub(bytes.max(PIECE_BYTES)) {
                Some(rest) => left = rest,
                None => return Poll::Ready(false),
            }
        }
    })
    .await
}
