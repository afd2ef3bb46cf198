//! Opening a connection to an endpoint.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Scheme;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use sprat_config::resolved::{Cluster, UpstreamHttp2};
use sprat_net::error::Reason;
use sprat_net::network;
use sprat_net::permit::Permit;
use sprat_net::proxy_protocol::{self, Ends};
use sprat_net::screen::Screened;
use sprat_net::tls::ClusterTls;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

use super::counts::EndpointCounts;
use super::endpoint::Endpoint;
use super::hear_out::HearOut;
use super::heard::{Listening, Unproven};
use super::interim::Hears;
use super::members::{Logical, Member, Target};
use super::sender::Sender;
use super::sender::Single;
use super::transport::Transport;
use super::upstream::Upstream;

/// The interval at which a request asks the other workers for an idle connection.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The time in which a connection must end once it is not wanted any more.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A connection's place among those that the cluster allows.
pub struct Slot {
    _of_endpoint: Permit,
    _of_cluster: Permit,
    _tunnel: Option<Permit>,
    /// The guard that wakes a waiting request; it is dropped last, when the place is free.
    _freed: Freed,
}

/// A guard that, when it is dropped, wakes a request that waits for a connection.
struct Freed(Arc<EndpointCounts>);

impl Slot {
    fn take(upstream: &Upstream, shared: &Arc<EndpointCounts>) -> Option<Self> {
        let config = &upstream.config;
        Some(Self {
            _of_endpoint: shared.connections.take(1, config.max_connections)?,
            _of_cluster: (upstream.breaker).take(config.resilience.max_connections)?,
            _tunnel: None,
            _freed: Freed(Arc::clone(shared)),
        })
    }

    /// Takes a place for a connection that is no longer a request's but a tunnel's. It is open
    /// already, whatever the bound.
    pub(super) fn keep(upstream: &Upstream, shared: &Arc<EndpointCounts>) -> Self {
        Self {
            _of_endpoint: shared.connections.add(1),
            _of_cluster: upstream.breaker.add(),
            _tunnel: Some(shared.tunnels.add(1)),
            _freed: Freed(Arc::clone(shared)),
        }
    }

    /// Takes the place of a connection that is idle in another worker, or at another endpoint if
    /// the cluster has as many as it may. Returns `None` if all are busy. The caller bounds the
    /// wait.
    async fn reclaim(upstream: &Upstream, shared: &Arc<EndpointCounts>) -> Option<Self> {
        let bound = upstream.config.max_connections;
        let _wanted = shared.wanted.add(1);
        loop {
            // Before looking, or a connection closed meanwhile is missed.
            let freed = shared.freed.notified();
            if let Some(slot) = Self::take(upstream, shared) {
                return Some(slot);
            }
            // Each time: others may have taken the cluster's last place meanwhile.
            let whole = (upstream.breaker).is_open(upstream.config.resilience.max_connections);
            let _any = whole.then(|| upstream.breaker.want());
            let hope = match whole {
                true => {
                    let endpoints = upstream.endpoints.borrow();
                    let mut all = endpoints.iter();
                    all.any(|other| other.member.counts.has_spare())
                }
                false => shared.idle.used() > 0 || shared.is_closing(bound),
            };
            if !hope {
                return None;
            }
            upstream.reclaim.notify_waiters();
            // Another worker may have been between two waits: ask again soon.
            let _ = timeout(ASK_AGAIN, freed).await;
        }
    }
}

impl Drop for Freed {
    fn drop(&mut self) {
        if self.0.wanted.used() > 0 {
            self.0.freed.notify_one();
        }
    }
}

/// The executor of an HTTP/2 connection's tasks, which do most of its work, as long as the
/// connection is wanted.
#[derive(Clone)]
struct ConnectionTasks(watch::Receiver<()>);

impl<F: Future<Output = ()> + 'static> Executor<F> for ConnectionTasks {
    fn execute(&self, task: F) {
        let wanted = self.0.clone();
        spawn_local(async move {
            tokio::select! {
                biased;
                () = task => {}
                () = abandoned(wanted) => {}
            }
        });
    }
}

/// Waits until a connection is not wanted any more, and has had its time to end. By itself it
/// ends with a good-bye, but not while the endpoint takes nothing: hyper waits for that before
/// it looks at a body that is over, or ends.
async fn abandoned(mut wanted: watch::Receiver<()>) {
    while wanted.changed().await.is_ok() {}
    sleep(ENDS_WITHIN).await;
}

/// Returns a builder of HTTP/2 connections to a cluster; `executor` runs a connection's tasks.
/// All streams together may hold the sum of what each may, so that responses that wait for their
/// clients take nothing from the others.
pub(super) fn http2<E: Clone>(
    executor: E,
    cluster: &Cluster,
    config: &UpstreamHttp2,
) -> http2::Builder<E> {
    let streams = u32::try_from(config.max_streams).unwrap_or(u32::MAX);
    let all = config.stream_window_bytes.saturating_mul(streams);
    let mut builder = http2::Builder::new(executor);
    builder
        .initial_stream_window_size(config.stream_window_bytes)
        .initial_connection_window_size(all.min(WINDOW_MAX))
        .max_header_list_size(u32::try_from(cluster.max_response_headers).unwrap_or(u32::MAX));
    builder
}

/// The largest window of a stream or a connection (RFC 9113 6.9.1).
const WINDOW_MAX: u32 = 0x7fff_ffff;

/// Opens a connection, or takes room on one that another request has opened meanwhile.
///
/// An endpoint that is told of `ends` gets a connection for them alone. HTTP/2 is not combined
/// with that.
pub(super) async fn connect(
    upstream: &Upstream,
    endpoint: &Endpoint,
    ends: Option<&Ends>,
) -> Result<Sender, Reason> {
    let Some(config) = &upstream.config.http2 else {
        return connect_one(upstream, endpoint, ends).await;
    };
    let pool = &endpoint.pool;
    let opening = timeout(upstream.config.connect_timeout, pool.opening.lock());
    let _opening = opening.await.map_err(|_| Reason::ConnectionTimeout)?;
    match pool.take(config.max_streams) {
        Some(stream) => Ok(Sender::Http2(Box::new(stream))),
        None => connect_one(upstream, endpoint, None).await,
    }
}

/// Opens a connection within the cluster's bounds on number and time, and starts a task that
/// drives it.
async fn connect_one(
    upstream: &Upstream,
    endpoint: &Endpoint,
    ends: Option<&Ends>,
) -> Result<Sender, Reason> {
    let shared = &endpoint.member.counts;
    let bound = upstream.config.connect_timeout;
    let slot = match Slot::take(upstream, shared) {
        Some(slot) => slot,
        None => timeout(bound, Slot::reclaim(upstream, shared))
            .await
            .unwrap_or(None)
            .ok_or(Reason::ConnectionLimit)?,
    };
    let tls = upstream.tls.as_deref();
    let way = transport(&upstream.config, tls, &endpoint.member, ends, bound);
    let stream = timeout(bound, way)
        .await
        .map_err(|_| Reason::ConnectionTimeout)??;
    endpoint.stats.connects.increment();
    let unproven = upstream.tls.as_ref();
    let unproven = unproven.map(|tls| Unproven::new(tls, &endpoint.member));
    let (stream, heard) = Listening::new(stream, unproven);
    let (wanted, until) = watch::channel(());
    if let Some(http2) = &upstream.config.http2 {
        let http2 = self::http2(ConnectionTasks(until.clone()), &upstream.config, http2);
        let list_max = upstream.config.max_response_headers;
        let hears = Arc::new(Hears::default());
        let stream = Screened::endpoint(HearOut::new(stream), list_max, Arc::clone(&hears));
        let handshake = http2.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| Reason::ConnectionTerminated)?;
        spawn_local(drive(slot, connection, until));
        let scheme = match upstream.tls {
            None => Scheme::HTTP,
            Some(_) => Scheme::HTTPS,
        };
        let stream = endpoint
            .pool
            .add(sender, scheme, heard, hears, shared, wanted);
        return Ok(Sender::Http2(Box::new(stream)));
    }
    let handshake = upstream.http.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|_| Reason::ConnectionTerminated)?;
    spawn_local(drive(slot, connection.with_upgrades(), until));
    Ok(Sender::Http1(Single::new(sender, heard, wanted)))
}

/// Drives a connection to its end, which comes soon once it is not wanted any more.
async fn drive(
    _slot: Slot,
    connection: impl Future<Output = hyper::Result<()>>,
    wanted: watch::Receiver<()>,
) {
    let ended = tokio::select! {
        biased;
        ended = connection => Some(ended),
        () = abandoned(wanted) => None,
    };
    // The requests in progress, if any, get the error.
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "an upstream connection ended");
    }
}

/// Opens a connection on which HTTP can be spoken, for requests of `ends`. The caller bounds the
/// time to `within`, which the addresses of a name share.
pub(super) async fn transport(
    cluster: &Cluster,
    tls: Option<&ClusterTls>,
    member: &Member,
    ends: Option<&Ends>,
    within: Duration,
) -> Result<Transport, Reason> {
    let mut stream = open(&member.target, within).await?;
    if let Some(version) = cluster.proxy_protocol {
        let header = proxy_protocol::header(version, ends.copied());
        let written = stream.write_all(&header).await;
        written.map_err(|error| reason(&error))?;
    }
    match tls {
        None => Ok(Transport::Plain(stream)),
        // Boxed: a connection in plain text does not carry a handshake's room.
        Some(tls) => {
            let secured = Box::pin(tls.connect(&member.address, stream)).await?;
            Ok(Transport::Tls(Box::new(secured)))
        }
    }
}

async fn open(target: &Target, within: Duration) -> Result<TcpStream, Reason> {
    let stream = match target {
        Target::Address(address) => {
            let connected = network::connect(*address).await;
            connected.map_err(|error| failed(&error, *address))?
        }
        Target::Path(path) => {
            let connected = network::connect_unix(path).await;
            return connected.map_err(|error| match lacks_means(&error) {
                true => Reason::NoSocket,
                false => reason(&error),
            });
        }
        Target::Name(name) => open_first(name, within).await?,
    };
    // Without it a small request waits for the ACK of the last; a socket that
    // does not take the option has failed already.
    network::set_nodelay(&stream).map_err(|error| reason(&error))?;
    Ok(stream)
}

/// Connects to the first of a name's addresses that accepts. Each address gets its share of the
/// time that is left, so that one that does not answer leaves some to the others.
async fn open_first(name: &Logical, within: Duration) -> Result<TcpStream, Reason> {
    let until = Instant::now() + within;
    let mut failure = Reason::NameNotFound;
    let addresses = name.addresses();
    for (untried, address) in (1..=addresses.len() as u32).rev().zip(addresses) {
        let left = until.saturating_duration_since(Instant::now());
        match timeout(left / untried, network::connect(address)).await {
            Ok(Ok(stream)) => {
                name.has_accepted(address);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = failed(&error, address),
            Err(_) => failure = Reason::ConnectionTimeout,
        }
    }
    Err(failure)
}

fn failed(error: &io::Error, address: SocketAddr) -> Reason {
    match is_shortage(error, address) {
        true => Reason::NoSocket,
        false => reason(error),
    }
}

/// Returns whether this system lacks a descriptor, memory or a port for a connection, so that
/// the endpoint was not even asked.
fn is_shortage(error: &io::Error, address: SocketAddr) -> bool {
    match error.raw_os_error() {
        // Of ports, unless it is that this system has no address to go there from.
        Some(libc::EADDRNOTAVAIL) => is_routed(address),
        _ => lacks_means(error),
    }
}

/// Returns whether this system has no descriptor or no memory.
fn lacks_means(error: &io::Error) -> bool {
    let means = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error
        .raw_os_error()
        .is_some_and(|code| means.contains(&code))
}

/// Returns whether this system has an address from which to reach another. Nothing is sent.
fn is_routed(address: SocketAddr) -> bool {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let asked = UdpSocket::bind(any).and_then(|socket| socket.connect(address));
    asked.is_ok()
}

fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        // Of a Unix socket's file: the endpoint is not there, or not any more.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Reason::ConnectionRefused,
        io::ErrorKind::TimedOut => Reason::ConnectionTimeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Reason::ConnectionTerminated,
        _ => Reason::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio::sync::Notify;
    use tokio::time::advance;

    use super::*;
    use crate::dns::Names;
    use crate::{ClusterStats, SharedCluster};

    /// Makes a worker's part in a cluster of two endpoints, with one connection to each at most,
    /// and two in all.
    fn upstream() -> Upstream {
        let text = "version: 1\nlisteners: [{address: 127.0.0.1:0}]\nroutes: [{cluster: farm}]\n\
             clusters:\n  farm:\n    endpoints: [127.0.0.1:1, 127.0.0.1:2]\n    \
             max_connections: 1\n    max_idle_connections: 1\n    \
             circuit_breakers: {max_connections: 2}\n";
        let loaded = sprat_config::parse(text, "test.yaml", &|_| None);
        let config = loaded.unwrap().config;
        let shared = SharedCluster::new(&config.clusters[0], &config, &Names::default());
        let stats = Arc::new(ClusterStats::default());
        Upstream::new(
            &Arc::new(shared.unwrap()),
            stats,
            0,
            Arc::new(Notify::new()),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waits_sees_that_others_have_taken_the_clusters_last_place() {
        let upstream = upstream();
        let counts = |slot| Arc::clone(&upstream.endpoint(slot).member.counts);
        let (own, other) = (counts(0), counts(1));
        let there = Slot::take(&upstream, &own).unwrap();
        let mut waiting = pin!(Slot::reclaim(&upstream, &own));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        // The endpoint is not in the way any more, but the cluster is.
        let idle = Slot::take(&upstream, &other).unwrap();
        let more = upstream.breaker.add();
        drop(there);
        advance(2 * ASK_AGAIN).await;
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        assert!(upstream.breaker.is_wanted());
        // As when a worker gives way.
        drop(idle);
        advance(2 * ASK_AGAIN).await;
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
        assert!(!upstream.breaker.is_wanted());
        drop(more);
    }

    #[tokio::test]
    async fn what_this_system_lacks_is_told_from_an_endpoint_that_is_not_there() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        for (code, reason) in [
            (libc::EMFILE, Reason::NoSocket),
            (libc::ENFILE, Reason::NoSocket),
            (libc::ENOBUFS, Reason::NoSocket),
            (libc::ENOMEM, Reason::NoSocket),
            (libc::EADDRNOTAVAIL, Reason::NoSocket),
            (libc::ECONNREFUSED, Reason::ConnectionRefused),
            (libc::ETIMEDOUT, Reason::ConnectionTimeout),
            (libc::EHOSTUNREACH, Reason::Unreachable),
            (libc::ENETUNREACH, Reason::Unreachable),
        ] {
            let _simulated = network::simulate(Arc::new(move |_| {
                Box::pin(async move { Err(io::Error::from_raw_os_error(code)) })
            }));
            let opened = open(&Target::Address(here), Duration::MAX).await;
            assert_eq!(opened.err(), Some(reason), "{code}");
        }
        // Where no address of ours leads there, no port would help.
        let error = io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 80));
        assert!(!is_shortage(&error, nowhere));
    }
}
