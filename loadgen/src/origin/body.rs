//! A body made of slices of the origin's content, paced if asked.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::recipe::Recipe;
use crate::content::{Content, SLICE_BYTES_MAX};

/// The pieces a second in which a paced body is sent.
const PIECES_PER_S: u64 = 100;

/// The trailer that `trailers=1` sends: the body's size.
pub(super) const TRAILER: &str = "x-body-bytes";

/// A body that streams the content of a recipe.
pub(super) struct ContentBody {
    content: Content,
    offset: u64,
    sized: bool,
    trailers: bool,
    pace: Option<Box<BodyPace>>,
}

/// The pace of a body, and the timer of its next piece.
struct BodyPace {
    wait: Pin<Box<Sleep>>,
    bits_per_s: Option<u64>,
    first: Option<Instant>,
}

impl ContentBody {
    pub(super) fn new(recipe: &Recipe) -> Self {
        let paced = recipe.rate_bits_per_s.is_some() || !recipe.body_delay.is_zero();
        Self {
            content: recipe.content,
            offset: 0,
            sized: !(recipe.chunked || recipe.trailers),
            trailers: recipe.trailers,
            pace: paced.then(|| {
                Box::new(BodyPace {
                    wait: Box::pin(tokio::time::sleep(recipe.body_delay)),
                    bits_per_s: recipe.rate_bits_per_s,
                    first: None,
                })
            }),
        }
    }
}

impl BodyPace {
    /// Waits until the piece at `offset` is due, then returns the most bytes that it may have. Due
    /// times count from the first piece, so that late wake-ups do not lower the rate.
    fn poll_piece(&mut self, offset: u64, cx: &mut Context<'_>) -> Poll<usize> {
        ready!(self.wait.as_mut().poll(cx));
        let Some(bits_per_s) = self.bits_per_s else {
            return Poll::Ready(SLICE_BYTES_MAX);
        };
        let first = *self.first.get_or_insert_with(Instant::now);
        let piece = (bits_per_s / 8 / PIECES_PER_S).clamp(1, SLICE_BYTES_MAX as u64);
        let sent_s = (offset + piece) as f64 * 8.0 / bits_per_s as f64;
        let due = Duration::try_from_secs_f64(sent_s)
            .ok()
            .and_then(|span| first.checked_add(span));
        if let Some(due) = due {
            self.wait.as_mut().reset(due);
        }
        Poll::Ready(piece as usize)
    }
}

impl Body for ContentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.offset < this.content.bytes {
            let piece = match &mut this.pace {
                Some(pace) => ready!(pace.poll_piece(this.offset, cx)),
                None => SLICE_BYTES_MAX,
            };
            let slice = this.content.slice(this.offset, piece);
            this.offset += slice.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(slice))));
        }
        if std::mem::take(&mut this.trailers) {
            let value = HeaderValue::from(this.content.bytes);
            let trailers = HeaderMap::from_iter([(http::HeaderName::from_static(TRAILER), value)]);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.offset >= self.content.bytes && !self.trailers
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized {
            SizeHint::with_exact(self.content.bytes - self.offset)
        } else {
            SizeHint::default()
        }
    }
}
