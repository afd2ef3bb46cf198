//! The loop that has hyper drive a connection.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use sprat_net::clock;
use sprat_net::error::Reason;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::conclusion::conclude;
use super::deadlines::rearm;
use super::io::{Io, Socket};
use super::preface::{self, Prefaced};
use super::{Connection, Service, Stream, handshake, http2};

/// The reason why a connection's loop ended.
pub(super) enum End {
    /// hyper is done with it.
    Closed,
    /// hyper gave it up.
    Failed(hyper::Error),
    /// A kept connection was not used again.
    Idle,
    /// A kept connection is not used for now.
    Parked,
    /// The head did not arrive.
    HeadTimeout,
    /// The connection must end in the middle.
    Cut(Reason),
    /// The client turned out to speak HTTP/2.
    Http2,
}

/// A connection as hyper drives it.
pub(super) trait Http: Future<Output = hyper::Result<()>> {
    /// Whether the client may turn out to speak something else.
    const IS_FIRST: bool;

    /// Takes no further request.
    fn shut_down(self: Pin<&mut Self>);
}

/// Serves a connection to its end.
pub(crate) async fn serve<S: Service>(connection: Rc<Connection>, stream: TcpStream) {
    let io = match &connection.listener.shared.tls {
        None => Io::plain(Socket::new(stream, Rc::clone(&connection))),
        // Boxed: a connection does not carry a handshake's room.
        Some(tls) => match Box::pin(handshake::accept::<S>(&connection, tls, stream)).await {
            Some(io) => io,
            None => return,
        },
    };
    let required = preface::is_required(&connection);
    if connection
        .client
        .secured()
        .is_some_and(|secured| required || secured.is_http2())
    {
        connection.speak_http2(&[]);
        let io = Prefaced::known(io, &connection);
        return Box::pin(http2::serve::<S>(connection, io)).await;
    }
    let mut io = Prefaced::new(io, &connection);
    let mut service = service_fn({
        let connection = Rc::clone(&connection);
        move |request| {
            let stream = Stream::only(&connection);
            // Boxed: an idle connection does not carry a request's room. Where it
            // is going to be, or all of that room would be copied there.
            let place = Box::new_uninit();
            let work = async move { Ok::<_, Infallible>(S::answer(stream, request).await) };
            Box::into_pin(Box::write(place, work))
        }
    });
    let (end, early) = loop {
        let (end, parts) = {
            // Boxed: a connection that is parked does not carry its room.
            let http = &connection.listener.http;
            let mut http = Box::new(http.serve_connection(TokioIo::new(io), service));
            let end = drive(&connection, Pin::new(&mut *http)).await;
            if let End::Cut(reason) = &end {
                // Before hyper drops the response, whose record asks for it.
                connection.end_by(*reason);
            }
            (end, http.into_parts())
        };
        (io, service) = (parts.io.into_inner(), parts.service);
        let early = parts.read_buf;
        if !matches!(end, End::Parked) {
            break (end, early);
        }
        if early.is_empty() {
            // It keeps all of a buffer, even so.
            drop(early);
            if let Some(end) = connection.park(io.io()).await {
                break (end, Bytes::new());
            }
        } else {
            // It has come at the last moment.
            io.put_back(early);
        }
    };
    if let (End::Closed, Some(switched)) = (&end, connection.http1.switched.take()) {
        connection.settle();
        return switched.run(connection, io.into_inner(), early).await;
    }
    // Boxed: an idle connection does not carry the room that its end needs.
    if let End::Http2 = end {
        Box::pin(http2::serve::<S>(connection, io.rewound())).await;
    } else {
        Box::pin(conclude::<S>(&connection, end, io.into_inner())).await;
    }
}

impl<S, B> Http for http1::Connection<TokioIo<Prefaced>, S>
where
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    const IS_FIRST: bool = true;

    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Drives hyper until it is through, or a deadline has passed.
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
            if H::IS_FIRST && connection.http2.get().is_some() {
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
