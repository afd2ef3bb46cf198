//! The end of a connection, and the last answer that the client gets.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use sprat_config::fields::problem;
use sprat_net::error::Reason;
use tokio::io::{AsyncReadExt, AsyncWrite as _, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::end::End;
use super::io::Io;
use super::phase::Http1Phase;
use super::preface::NotHttp2;
use super::service::Service;
use super::state::{ClientIo, ClientSocket, Connection};
use super::stream::Stream;

/// The longest time without a byte from the client for which a connection that ends is
/// read. Such a connection is read after its last answer, so that a client that is sending
/// gets the answer instead of a reset (RFC 9112 9.6). While the server drains, the client
/// has about as long in all.
const SILENCE: Duration = Duration::from_secs(1);

/// The longest time, in all, for which a connection that ends is read.
const LINGER: Duration = Duration::from_secs(30);

/// Sends the client the last answer due, if any, and closes the connection.
pub(super) async fn conclude<S: Service>(connection: &Rc<Connection>, end: End, io: ClientIo) {
    tracing::trace!(peer = %connection.client.peer, bytes = connection.wire.written(), "connection ends");
    match &end {
        End::Closed | End::Idle | End::Parked | End::HeadTimeout => connection.settle(),
        // hyper has sent its answer to a bad head after what was before it.
        End::Failed(error) if error.is_parse() => connection.settle(),
        End::Failed(_) | End::Cut(_) | End::Http2 => {}
    }
    // A response that is still here was never taken by the socket as a whole.
    drop(connection.http1.finishing.take());
    match end {
        End::Closed if connection.http1.lingers.get() => linger(connection, io).await,
        End::Failed(error) => failed::<S>(connection, &error, io).await,
        End::HeadTimeout => refuse::<S>(connection, Reason::HeadTimeout, io).await,
        // Under TLS an end that is not said could be an attacker's.
        End::Idle if connection.client.secured().is_some() => farewell(io).await,
        End::Closed | End::Idle | End::Parked | End::Cut(_) | End::Http2 => {}
    }
}

/// Distinguishes a target that is too long, which hyper answers with 414, from a head that
/// is too large. The error's text alone tells them apart: hyper's own kind is private.
fn too_large(error: &hyper::Error) -> Reason {
    match error.to_string().as_str() {
        "URI too long" => Reason::TargetTooLong,
        _ => Reason::HeadTooLarge,
    }
}

async fn failed<S: Service>(connection: &Rc<Connection>, error: &hyper::Error, io: ClientIo) {
    let not_http2 = NotHttp2::is_cause_of(error);
    let reason = if not_http2 {
        Reason::MalformedHttp2
    } else if error.is_parse_too_large() {
        too_large(error)
    } else if error.is_parse() {
        Reason::MalformedHead
    } else if matches!(
        connection.http1.phase.get(),
        Http1Phase::Head { begun: true, .. }
    ) {
        Reason::TruncatedHead
    } else {
        // In the middle of a request: its record says what happened.
        return;
    };
    let mut record = S::unreadable(&Stream::Only(Rc::clone(connection)));
    let status = reason.facts().status;
    record.fail(reason);
    if error.is_parse() {
        // hyper has answered.
        record.respond(status);
        record.complete();
        linger(connection, io).await;
    } else if not_http2 {
        linger(connection, io).await;
    }
}

/// Answers a request whose head never came, and closes the connection.
async fn refuse<S: Service>(connection: &Rc<Connection>, reason: Reason, mut io: ClientIo) {
    let mut record = S::unreadable(&Stream::Only(Rc::clone(connection)));
    record.fail(reason);
    let status = reason.facts().status;
    let response = bare_response(status, reason);
    if timeout(SILENCE, io.write_all(&response))
        .await
        .is_ok_and(|r| r.is_ok())
    {
        record.respond(status);
        record.complete();
        linger(connection, io).await;
    }
}

/// Answers a client that speaks HTTP where it should have begun with TLS.
pub(crate) async fn refuse_plain_http<S: Service>(
    connection: &Rc<Connection>,
    socket: ClientSocket,
) {
    let mut io = Io::plain(socket);
    // The request line is for the log; what is wrong with the socket shows again.
    let _ = timeout(SILENCE, io.read(&mut [0; 1024])).await;
    refuse::<S>(connection, Reason::PlainHttp, io).await;
}

/// Returns a whole answer that is written without hyper; its body is plain text.
fn bare_response(status: StatusCode, reason: Reason) -> Vec<u8> {
    let facts = reason.facts();
    let title = status.canonical_reason().unwrap_or("Error");
    let (content_type, body) = problem(false, status.as_u16(), title, facts.detail, facts.name);
    format!(
        "HTTP/1.1 {} {title}\r\nproxy-status: {}\r\ncontent-type: {content_type}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        status.as_u16(),
        facts.proxy_status,
        body.len(),
    )
    .into_bytes()
}

/// Tells the client that nothing more comes, if its socket takes that at once.
async fn farewell(mut io: ClientIo) {
    poll_fn(|cx| {
        // The client has gone, or takes nothing: it is not waited for.
        let _ = Pin::new(&mut io).poll_shutdown(cx);
        Poll::Ready(())
    })
    .await;
}

/// Reads and drops what the client is still sending, within the bounds `SILENCE` and `LINGER`.
async fn linger(connection: &Connection, mut io: ClientIo) {
    let began = Instant::now();
    let drain = async {
        // An error means that the client has gone: nothing to wait for.
        if io.shutdown().await.is_err() {
            return;
        }
        let mut buffer = [0; 4096];
        while let Ok(Ok(1..)) = timeout(SILENCE, io.read(&mut buffer)).await {
            if connection.is_ending() && began.elapsed() > SILENCE {
                return;
            }
        }
    };
    // Elapsed: lingered long enough.
    let _ = timeout(LINGER, drain).await;
}
