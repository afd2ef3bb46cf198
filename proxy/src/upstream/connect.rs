//! Opening a connection to an endpoint.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use sprat_config::resolved::EndpointAddress;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Shared, Upstream, take_one};
use crate::error::Reason;
use crate::upload::RequestBody;

/// A connection's place among those that the cluster allows.
struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// Opens a connection within the cluster's bounds on number and time, and has
/// a task of its own drive it.
pub(super) async fn connect(
    upstream: &Upstream,
    endpoint: usize,
) -> Result<SendRequest<RequestBody>, Reason> {
    let shared = &upstream.endpoints[endpoint].shared;
    if !take_one(&shared.connections, upstream.config.max_connections) {
        return Err(Reason::ConnectionLimit);
    }
    let slot = Slot(Arc::clone(shared));
    let address = &upstream.config.endpoints[endpoint].address;
    let stream = timeout(upstream.config.connect_timeout, open(address))
        .await
        .map_err(|_| Reason::ConnectionTimeout)??;
    upstream.stats(endpoint).connects.increment();
    let handshake = upstream.http.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|_| Reason::ConnectionTerminated)?;
    tokio::task::spawn_local(async move {
        let _slot = slot;
        // The request in progress, if any, gets the error.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an upstream connection ended");
        }
    });
    Ok(sender)
}

async fn open(address: &EndpointAddress) -> Result<TcpStream, Reason> {
    let stream = match address {
        EndpointAddress::Ip(address) => TcpStream::connect(address).await,
        EndpointAddress::Name { host, port } => {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            let addresses: Vec<_> = found.map_err(|_| Reason::NameNotFound)?.collect();
            if addresses.is_empty() {
                return Err(Reason::NameNotFound);
            }
            TcpStream::connect(&*addresses).await
        }
    };
    let stream = stream.map_err(|error| reason(&error))?;
    // Without it a small request waits for the ACK of the last; a socket that
    // does not take the option has failed already.
    stream.set_nodelay(true).map_err(|error| reason(&error))?;
    Ok(stream)
}

fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::ConnectionRefused,
        io::ErrorKind::TimedOut => Reason::ConnectionTimeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Reason::ConnectionTerminated,
        _ => Reason::Unreachable,
    }
}
