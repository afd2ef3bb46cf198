//! A client's TLS handshake: bounded in time and number, counted, and ahead of responses on
//! the uplink.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustls::server::Acceptor;
use rustls::{ProtocolVersion, ServerConnection};
use sprat_net::tls::{ACME_TLS, ListenerTls, Outcome, PeerNames, PlainHttp, Secured, TlsTerms};
use sprat_uplink::go_ahead;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::conclusion::refuse_plain_http;
use super::io::{Io, Socket};
use super::service::Service;
use super::state::{ClientIo, ClientSocket, Connection};

/// The bytes that Sprat sends for a resumed handshake, the shorter kind. The further bytes
/// of a full one are debited as they are written.
const FLIGHT_BYTES: u64 = 250;

/// The time that a refused client has to hear why. Of what it sends meanwhile at
/// most `LINGER_BYTES` are dropped.
const LINGERS_FOR: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 10;

/// Performs the TLS handshake on a connection that has just been accepted, and counts its
/// outcome. Returns none if it fails, or if it was an authority's challenge.
pub(crate) async fn accept<S: Service>(
    connection: &Rc<Connection>,
    tls: &ListenerTls,
    stream: TcpStream,
) -> Option<ClientIo> {
    let stats = &connection.serving.stats.handshakes;
    let Some(place) = tls.begin() else {
        stats.count(Outcome::Overflow);
        return None;
    };
    let socket = Socket::new(stream, Rc::clone(connection));
    let work = timeout(
        tls.handshake_timeout(),
        begun_handshake(connection, tls, socket),
    );
    let (outcome, socket) = match connection.unless_cut(work).await {
        Err(_) | Ok(Ok(None)) => (Outcome::Shutdown, None),
        Ok(Err(_)) => (Outcome::Timeout, None),
        Ok(Ok(Some(Err((error, socket))))) => {
            tracing::debug!(peer = %connection.client.peer, %error, "no TLS handshake");
            let outcome = match Outcome::of_failure(&error) {
                Outcome::Malformed if !tls.has_certificate() => Outcome::NoCertificate,
                other => other,
            };
            (outcome, socket)
        }
        Ok(Ok(Some(Ok(stream)))) => {
            let session = stream.get_ref().1;
            stats.count(Outcome::of_success(session));
            if session.alpn_protocol() == Some(ACME_TLS) {
                let told = timeout(LINGERS_FOR, Box::pin(close(stream)));
                let _ = connection.unless_cut(told).await;
                return None;
            }
            connection.secure(Secured {
                peer: PeerNames::of_peer(session.peer_certificates()),
                protocol: session.alpn_protocol().map(<[u8]>::to_vec),
                terms: TlsTerms::of(session),
            });
            if let Some(gauge) = connection.wire.gauge() {
                gauge.seal(record_overhead(session));
            }
            return Some(Io::tls(stream));
        }
    };
    stats.count(outcome);
    drop(place);
    let socket = socket?;
    // However it ends, it was refused.
    if outcome == Outcome::PlainHttp {
        let told = refuse_plain_http::<S>(connection, socket);
        let _ = connection.unless_cut(Box::pin(told)).await;
    } else if outcome.is_told() {
        let told = timeout(LINGERS_FOR, Box::pin(linger(socket)));
        let _ = connection.unless_cut(told).await;
    }
    None
}

/// Closes the connection of a certificate authority, which has seen the answer that it came for.
async fn close(mut stream: TlsStream<ClientSocket>) -> io::Result<()> {
    stream.shutdown().await?;
    // Its own close, or all that it asks in vain.
    stream.read(&mut [0; 64]).await.map(drop)
}

/// Closes a connection on which a TLS alert was sent. A client that believes its handshake
/// complete sends its request. If the socket were closed before that is read, the client
/// would get a reset in place of the alert.
async fn linger(mut socket: ClientSocket) -> io::Result<()> {
    socket.shutdown().await?;
    let mut dropped = 0;
    let mut buffer = [0; 4 << 10];
    while dropped < LINGER_BYTES {
        match socket.read(&mut buffer).await? {
            0 => break,
            bytes => dropped += bytes,
        }
    }
    Ok(())
}

/// Returns the bytes that a TLS record has beside its payload (RFC 8446 5.2, RFC 5246 6.2.3.3).
fn record_overhead(session: &ServerConnection) -> u32 {
    const HEADER_AND_TAG: u32 = 5 + 16;
    const INNER_TYPE: u32 = 1;
    const EXPLICIT_NONCE: u32 = 8;
    use rustls::CipherSuite as Suite;
    let chacha = [
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    let suite = session.negotiated_cipher_suite().map(|own| own.suite());
    match session.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) if suite.is_some_and(|own| chacha.contains(&own)) => {
            HEADER_AND_TAG
        }
        Some(ProtocolVersion::TLSv1_2) => HEADER_AND_TAG + EXPLICIT_NONCE,
        _ => HEADER_AND_TAG + INNER_TYPE,
    }
}

/// Waits for the client to begin the handshake, and performs it. Returns none if the server
/// drains and the client does not mean to begin.
async fn begun_handshake(
    connection: &Rc<Connection>,
    tls: &ListenerTls,
    socket: ClientSocket,
) -> Option<Shaken> {
    let first = tokio::select! {
        biased;
        // What is wrong with a socket is found when it is read.
        first = socket.first_byte() => first.ok().flatten(),
        () = connection.is_late_to_begin() => return None,
    };
    // Records begin with a number below 32, methods with a letter.
    if first.is_some_and(|byte| byte.is_ascii_alphabetic()) {
        return Some(Err((io::Error::other(PlainHttp), Some(socket))));
    }
    Some(handshake(connection, tls, socket).await)
}

/// The outcome of a handshake: the TLS stream, or the error and the socket, if that is left.
type Shaken = Result<TlsStream<ClientSocket>, (io::Error, Option<ClientSocket>)>;

async fn handshake(connection: &Rc<Connection>, tls: &ListenerTls, socket: ClientSocket) -> Shaken {
    let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), socket);
    let hello = match (&mut acceptor).await {
        Ok(hello) => hello,
        Err(error) => return Err((error, acceptor.take_io())),
    };
    // As the SYN-ACK before it: until it is through, the client cannot ask.
    if let Some(gauge) = connection.wire.gauge() {
        let class = connection.serving.generation().classifier.default_class();
        go_ahead(gauge, class, FLIGHT_BYTES).await;
    }
    // An authority that asks whether a name is ours gets nothing but the answer.
    let challenges = &connection.serving.generation().challenges;
    let server = challenges.server(&hello.client_hello());
    let server = server.unwrap_or_else(|| tls.server());
    let accepted = hello.into_stream(server).into_fallible().await;
    accepted.map_err(|(error, socket)| (error, Some(socket)))
}
