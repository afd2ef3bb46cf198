//! The loop that has hyper drive a connection.

use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::conclusion::conclude;
use super::drive::{Http, drive};
use super::end::End;
use super::io::{Io, Socket};
use super::preface::{self, Prefaced};
use super::service::Service;
use super::state::Connection;
use super::stream::Stream;
use super::{handshake, http2};

/// Serves a client's connection to its end: TLS, HTTP, and a protocol that follows HTTP.
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
            let stream = Stream::Only(Rc::clone(&connection));
            // Boxed: an idle connection does not carry a request's room. Where it
            // is going to be, or all of that room would be copied there.
            let place = Box::new_uninit();
            Box::into_pin(Box::write(place, S::answer(stream, request)))
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
    if let (End::Closed, Some(switched)) = (&end, connection.switched.take()) {
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
