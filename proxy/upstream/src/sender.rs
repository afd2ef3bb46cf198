//! A connection to an endpoint as a request sees it, whatever the version of HTTP.

use std::future::Future;
use std::sync::Arc;

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use sprat_net::error::Reason;
use sprat_net::upload::RequestBody;
use tokio::sync::watch;

use super::heard::{Heard, Silence};
use super::multiplexed::StreamSender;

/// A sender of requests on a connection.
pub enum Sender {
    /// A connection of HTTP/1.1, which the request has for itself.
    Http1(Single),
    /// A stream beside others on an HTTP/2 connection.
    Http2(Box<StreamSender>),
}

/// A connection that carries one request at a time, wanted until this is dropped.
pub struct Single {
    sender: http1::SendRequest<RequestBody>,
    heard: Arc<Heard>,
    _wanted: watch::Sender<()>,
}

impl Single {
    /// Creates the sender on a connection that ends when `wanted` is dropped.
    pub(super) fn new(
        sender: http1::SendRequest<RequestBody>,
        heard: Arc<Heard>,
        wanted: watch::Sender<()>,
    ) -> Self {
        Self {
            sender,
            heard,
            _wanted: wanted,
        }
    }

    /// Returns whether the connection takes another request.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// The failure of a request that was sent, with the request if nothing of it has gone. Boxed: its
/// room would be an answer's as well.
pub type SendFailure = Box<TrySendError<Request<RequestBody>>>;

impl Sender {
    /// Prepares a request for the connection's version of HTTP; for HTTP/1.1 it is as it should
    /// be.
    ///
    /// # Errors
    ///
    /// The request's `Host` is no authority, or its target is invalid.
    pub fn prepare(&self, request: &mut Request<RequestBody>) -> Result<(), Reason> {
        match self {
            Self::Http1(_) => Ok(()),
            Self::Http2(stream) => translate(request, stream.scheme()),
        }
    }

    /// Sends a prepared request. Returns the endpoint's silence, which begins then, and the
    /// future of its answer, which borrows nothing of the connection.
    pub fn try_send_request(
        &mut self,
        mut request: Request<RequestBody>,
    ) -> (
        Silence,
        impl Future<Output = Result<Response<Incoming>, SendFailure>> + use<>,
    ) {
        let (silence, sent) = match self {
            Self::Http1(single) => (
                single.heard.silence(),
                Ok(single.sender.try_send_request(request)),
            ),
            Self::Http2(stream) => {
                request.body_mut().gather(stream.unheard());
                let hearing = stream.hears().begin(&mut request);
                let (silence, sender) = stream.begin();
                let answer = Box::pin(sender.try_send_request(request));
                (silence, Err((answer, hearing)))
            }
        };
        let answer = async move {
            let answered = match sent {
                Ok(http1) => http1.await,
                // It is heard until there is an answer, or the caller waits no longer.
                Err((http2, _hearing)) => http2.await,
            };
            answered.map_err(Box::new)
        };
        (silence, answer)
    }

    /// Gives up the request, which had the endpoint's time in vain. A connection of its own ends
    /// with it.
    pub(super) fn give_up(&mut self) {
        if let Self::Http2(stream) = self {
            stream.give_up();
        }
    }

    /// Waits until the connection can take another request.
    ///
    /// # Errors
    ///
    /// The connection takes no request any more.
    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(single) => single.sender.ready().await,
            Self::Http2(stream) => stream.sender().ready().await,
        }
    }
}

/// An endpoint's statement that it did nothing of a request, which may then be sent again,
/// whatever it is (RFC 9113 8.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The endpoint has enough to do: `RST_STREAM` with `REFUSED_STREAM`.
    Stream,
    /// The request came after the last that the connection serves: `GOAWAY` (6.8). A new
    /// connection will do.
    Connection,
}

impl Refused {
    /// Returns the refusal that an error tells of, if it tells of one.
    pub fn of(error: &hyper::Error) -> Option<Self> {
        let error = http2_error(error).filter(|error| error.is_remote())?;
        match error.reason() {
            // The library ends with this error what comes after the last
            // request, and nothing else, whatever the reason.
            _ if error.is_go_away() => Some(Self::Connection),
            Some(h2::Reason::REFUSED_STREAM) => Some(Self::Stream),
            _ => None,
        }
    }
}

/// Returns the reason why there was no answer over a connection.
pub fn reason(error: &hyper::Error) -> Reason {
    if error.is_parse_too_large() {
        Reason::ResponseHeadTooLarge
    } else if error.is_parse() {
        Reason::ProtocolError
    } else {
        http2_reason(error).unwrap_or(Reason::ConnectionTerminated)
    }
}

/// Returns the reason that an error of HTTP/2 tells, if it tells one.
fn http2_reason(error: &hyper::Error) -> Option<Reason> {
    let error = http2_error(error)?;
    if error.is_library() && error.reason() != Some(h2::Reason::NO_ERROR) {
        // What it has found wrong with what the endpoint said.
        return Some(Reason::ProtocolError);
    }
    (error.is_reset() && error.is_remote()).then_some(Reason::StreamReset)
}

fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

/// Turns a request of HTTP/1.1 into one of HTTP/2: the target gets the authority (RFC 9113
/// 8.3.1), and fields of the connection are removed (8.2.2).
pub(super) fn translate<B>(request: &mut Request<B>, scheme: &Scheme) -> Result<(), Reason> {
    let headers = request.headers_mut();
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    let Some(host) = headers.remove(HOST) else {
        // It has been prepared before.
        return Ok(());
    };
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(scheme.clone());
    let authority = Authority::try_from(host.as_bytes()).map_err(|_| Reason::InvalidHost)?;
    parts.authority = Some(authority);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Reason::InvalidTarget)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_target_has_the_authority() {
        for (target, absolute) in [
            ("/a?b=c", "http://a.example:80/a?b=c"),
            ("*", "http://a.example:80*"),
        ] {
            let mut request = Request::new(RequestBody::Empty);
            *request.uri_mut() = target.parse().unwrap();
            let headers = request.headers_mut();
            headers.insert(HOST, HeaderValue::from_static("a.example:80"));
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
            headers.insert("te", HeaderValue::from_static("trailers"));
            translate(&mut request, &Scheme::HTTP).unwrap();
            assert_eq!(request.uri().to_string(), absolute);
            assert_eq!(request.headers().len(), 1);
            assert_eq!(request.headers()["te"], "trailers");
            // Once more, as it is sent again.
            translate(&mut request, &Scheme::HTTP).unwrap();
            assert_eq!(request.uri().to_string(), absolute);
        }
    }

    #[test]
    fn a_host_that_is_none_is_refused() {
        let mut request = Request::new(RequestBody::Empty);
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("a b"));
        assert_eq!(
            translate(&mut request, &Scheme::HTTP),
            Err(Reason::InvalidHost)
        );
    }
}
