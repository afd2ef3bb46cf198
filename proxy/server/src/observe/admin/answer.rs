//! Answers of the admin listener, each of which tells its client's seat when it has gone out.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use sprat_sizes::Dump;

use super::seats::Answering;
use super::watchers::Watching;

pub(super) fn typed(answer: AdminAnswer, content_type: &'static str) -> Response<AdminAnswer> {
    let mut response = Response::new(answer);
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

pub(super) fn plain(
    status: StatusCode,
    text: &'static str,
    answering: Answering,
) -> Response<AdminAnswer> {
    let answer = AdminAnswer::whole(Short(text, answering));
    let mut response = typed(answer, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

/// A page of one short text.
struct Short(
    &'static str,
    #[expect(dead_code, reason = "its end is told when it is dropped")] Answering,
);

impl AsRef<[u8]> for Short {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The body of a response of the admin listener.
pub(super) enum AdminAnswer {
    Text(Option<Bytes>),
    Dump(
        Dump,
        #[expect(dead_code, reason = "its end is told when it is dropped")] Answering,
    ),
    /// The events that a watcher gets as they happen.
    Events(Watching),
}

impl AdminAnswer {
    /// Makes an answer of a text, which is kept, with what else it holds, until the
    /// socket has it all.
    pub(super) fn whole(text: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::Text(Some(Bytes::from_owner(text)))
    }
}

impl Body for AdminAnswer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Dump(dump, _) => Pin::new(dump).poll_frame(cx),
            Self::Events(watching) => {
                let event = watching.poll_event(cx);
                event.map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Dump(..) | Self::Events(_) => SizeHint::default(),
        }
    }
}
