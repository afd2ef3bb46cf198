//! A listener: what it takes from a client, and how its socket is opened.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use anyhow::Context as _;
use hyper::server::conn::http1;
use socket2::{Domain, Protocol, Socket, Type};
use sprat_config::resolved::{ListenAddress, Listener};
use sprat_net::handover::Inherited;
use sprat_net::headers::Forwarder;
use sprat_net::listening::{FileRights, ListeningSocket, SocketFile};
use sprat_net::permit::{Permit, Permits};
use sprat_net::tls::ListenerTls;

use crate::observe::stats::{ListenerStats, ListenerView};
use crate::setup::limits::ListenerLimits;
use crate::setup::request_ids::RequestIds;

/// The most connections that the kernel holds for a worker that has not accepted them.
const BACKLOG: i32 = 4096;

/// The number of header fields that hyper parses without an allocation.
const DEFAULT_MAX_HEADERS: usize = 100;

/// A listener as the workers see it.
pub(crate) struct ListenerState {
    /// The listener's number, which its sockets go by: the same while its address stays.
    pub(crate) id: u64,
    /// The configuration of the listener.
    pub(crate) config: Listener,
    /// The forwarder, which tells endpoints about the listener's clients.
    pub(crate) forwarder: Forwarder,
    /// The giver of identifiers to requests; none if they get none.
    pub(crate) request_ids: Option<RequestIds>,
    /// The listener's name, as access logs have it.
    pub(crate) name: Arc<str>,
    /// The builder by which hyper serves the listener's connections.
    pub(crate) http: http1::Builder,
    /// The parts that are kept when a reload changes the listener's bounds.
    pub(crate) shared: ListenerShared,
}

/// Returns, for each listener of a configuration, the place of the one before that goes on as it.
/// That is one on the same address and, where the kernel chooses the port, with the same name.
pub(crate) fn kept(before: &[&Listener], after: &[Listener]) -> Vec<Option<usize>> {
    let mut places: HashMap<_, VecDeque<_>> = HashMap::new();
    let key = |own: &Listener| {
        let named = own.address.is_any_port().then(|| own.name.clone());
        (own.address.clone(), named)
    };
    for (at, own) in before.iter().enumerate() {
        places.entry(key(own)).or_default().push_back(at);
    }
    let place = |own: &Listener| places.get_mut(&key(own))?.pop_front();
    after.iter().map(place).collect()
}

/// The parts of a listener that stay when its bounds change.
#[derive(Clone)]
pub(crate) struct ListenerShared {
    /// The listener's TLS; none for plain text.
    pub(crate) tls: Option<Arc<ListenerTls>>,
    /// The bounds on the listener's clients; none without any.
    pub(crate) limits: Option<Arc<ListenerLimits>>,
    /// The counters of the listener, by worker.
    pub(crate) stats: Arc<[Arc<ListenerStats>]>,
    /// The number of open connections.
    connections: Permits,
    /// The number of open connections that have switched to another protocol.
    tunnels: Permits,
    /// The number of connections that have yet to tell whose they are, by the PROXY protocol.
    arriving: Permits,
    /// The IP addresses that the listener's sockets stand on, once it has some; a Unix
    /// socket has none.
    stands_on: Arc<OnceLock<Vec<SocketAddr>>>,
    /// The file of the listener's Unix socket, if it has one; a hold on the socket is a
    /// hold on the file.
    file: Arc<OnceLock<Weak<SocketFile>>>,
}

impl ListenerShared {
    /// Makes the shared parts of a new listener, for this number of workers.
    ///
    /// # Errors
    ///
    /// Fails if certificates cannot be used.
    pub(crate) fn new(config: &Listener, workers: usize) -> anyhow::Result<Self> {
        Ok(Self {
            stats: (0..workers).map(|_| Arc::default()).collect(),
            tls: ListenerTls::of(config)?,
            limits: ListenerLimits::new(config),
            connections: Permits::default(),
            tunnels: Permits::default(),
            arriving: Permits::default(),
            stands_on: Arc::default(),
            file: Arc::default(),
        })
    }

    /// Returns the file of the listener's Unix socket, if this process has made it.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        self.file.get()?.upgrade()
    }
}

impl ListenerState {
    /// Returns whether requests were turned away for want of a place, and all are taken.
    pub(crate) fn is_short_of_places(&self) -> bool {
        let limits = self.shared.limits.as_ref();
        limits.is_some_and(|limits| limits.is_short_of_places())
    }

    /// Makes a listener with these bounds.
    ///
    /// # Errors
    ///
    /// Fails if no header field can hold the pseudonym for `Via`, or if no field has the
    /// name for identifiers.
    pub(crate) fn new(
        config: &Listener,
        id: u64,
        shared: ListenerShared,
    ) -> anyhow::Result<Arc<Self>> {
        let mut http = http1::Builder::new();
        // The connection has a timer of its own.
        http.header_read_timeout(None);
        http.max_header_size(config.max_request_headers);
        if config.max_headers_count != DEFAULT_MAX_HEADERS {
            http.max_headers(config.max_headers_count);
        }
        Ok(Arc::new(Self {
            id,
            forwarder: Forwarder::new(&config.forwarding)?,
            request_ids: RequestIds::of(config.request_id.as_ref())?,
            name: config.name.as_str().into(),
            config: config.clone(),
            http,
            shared,
        }))
    }

    /// Prepares the same listener with another configuration.
    ///
    /// # Errors
    ///
    /// Fails as [`ListenerState::new`] does, or if a file for TLS cannot be used.
    pub(crate) fn prepare(&self, config: &Listener) -> anyhow::Result<Arc<Self>> {
        let own = &self.config;
        let mut shared = self.shared.clone();
        if own.tls != config.tls || own.name != config.name {
            shared.tls = match &self.shared.tls {
                Some(before) => ListenerTls::prepare(before, config)?,
                None => ListenerTls::of(config)?,
            };
        }
        if own.limits != config.limits {
            // Who is counted already is not counted again.
            shared.limits = ListenerLimits::new(config);
        }
        Self::new(config, self.id, shared)
    }

    /// Returns the listener as the metrics see it.
    pub(crate) fn view(&self) -> ListenerView {
        ListenerView {
            name: self.config.name.clone(),
            open: self.shared.connections.clone(),
            stats: Arc::clone(&self.shared.stats),
        }
    }

    /// Takes room for one more connection; none if there are as many as may be.
    pub(crate) fn take_place(&self) -> Option<Permit> {
        self.shared.connections.take(1, self.config.max_connections)
    }

    /// Takes room for a connection that has to tell first whose it is, by the PROXY protocol.
    pub(crate) fn take_arrival(&self) -> Option<Permit> {
        self.shared.arriving.take(1, self.config.max_connections)
    }

    /// Takes room for a connection that switches to another protocol.
    pub(crate) fn take_tunnel(&self) -> Option<Permit> {
        self.shared.tunnels.take(1, self.config.max_tunnels)
    }
}

/// A listening socket, and the [`ListenerState::id`] of its listener.
pub(crate) type Bound = (u64, ListeningSocket);

/// Opens a socket or more of each of these listeners for each worker: those that are there
/// already, or new ones. `present` are the listeners that this process has.
///
/// # Errors
///
/// Fails if an address cannot be listened on.
pub(crate) fn bind_all(
    listeners: &[Arc<ListenerState>],
    workers: usize,
    inherited: &mut Inherited,
    present: &[Arc<ListenerState>],
) -> anyhow::Result<Vec<Vec<Bound>>> {
    let present = present.iter().filter_map(|own| own.shared.stands_on.get());
    let mut own: Vec<SocketAddr> = present.flatten().copied().collect();
    own.extend(inherited.addresses());
    let mut rows: Vec<Vec<Bound>> = (0..workers).map(|_| Vec::new()).collect();
    for listener in listeners {
        let (name, address) = (&listener.config.name, &listener.config.address);
        let there = inherited.take(name, address);
        there
            .first()
            .inspect(|own| renew_rights(own, name, rights(&listener.config)));
        let sockets = match (there.is_empty(), address) {
            (false, _) => share(there, workers),
            (true, ListenAddress::Ip(address)) => bind_shared(*address, workers, &own),
            (true, ListenAddress::Unix(path)) => {
                let rights = rights(&listener.config);
                let socket = rights.and_then(|rights| ListeningSocket::unix(path, rights));
                socket.and_then(|socket| share(vec![socket], workers))
            }
        };
        let sockets =
            sockets.with_context(|| format!("cannot listen on {address} (listener `{name}`)"))?;
        let stands_on = sockets.iter().map(|own| Ok(own.address()?.ip()));
        let stands_on = stands_on.collect::<io::Result<Vec<_>>>()?;
        let stands_on: Vec<_> = stands_on.into_iter().flatten().collect();
        own.extend(&stands_on);
        // A listener that is new has none.
        let _ = listener.shared.stands_on.set(stands_on);
        let file = sockets.first().and_then(ListeningSocket::file);
        file.inspect(|file| drop(listener.shared.file.set(Arc::downgrade(file))));
        for (index, socket) in sockets.into_iter().enumerate() {
            rows[index % workers].push((listener.id, socket));
        }
    }
    Ok(rows)
}

/// Returns the owner that the file of a listener's Unix socket is to have, and who may use it.
fn rights(config: &Listener) -> io::Result<FileRights> {
    FileRights::of(config.mode, &config.owner)
}

/// Gives the file of a Unix socket, which a Sprat before this one has opened, the rights of
/// this configuration, which may be others.
pub(crate) fn renew_rights(socket: &ListeningSocket, name: &str, rights: io::Result<FileRights>) {
    let (Some(_), Ok(address)) = (socket.file(), socket.address()) else {
        return;
    };
    if let Some(path) = address.path() {
        give(path, name, rights);
    }
}

/// Gives a socket's file other rights; it keeps those that it has where that cannot be.
fn give(path: &Path, name: &str, rights: io::Result<FileRights>) {
    if let Err(error) = rights.and_then(|rights| rights.give(path)) {
        tracing::warn!(listener = name, %error, "the rights of a socket's file stay as they are");
    }
}

/// Commits a reload to the files of Unix sockets that stay: gives them their new rights. They keep
/// those that they have where that cannot be, which is logged.
pub(crate) fn commit(before: &[Arc<ListenerState>], after: &[Arc<ListenerState>]) {
    for listener in after {
        let config = &listener.config;
        let wanted = (config.mode, &config.owner);
        let is_other = |own: &Arc<ListenerState>| {
            own.id == listener.id && (own.config.mode, &own.config.owner) != wanted
        };
        if let Some(path) = config.address.path()
            && before.iter().any(is_other)
        {
            give(path, &config.name, rights(config));
        }
    }
}

/// Opens a socket for each worker on one address; `own` are the addresses that this process has.
fn bind_shared(
    mut address: SocketAddr,
    workers: usize,
    own: &[SocketAddr],
) -> io::Result<Vec<ListeningSocket>> {
    if address.port() != 0 && !own.iter().any(|own| overlap(*own, address)) {
        // The workers' sockets would share it with another process's.
        unbound(address, false)?.bind(&address.into())?;
    }
    let mut sockets = Vec::new();
    for _ in 0..workers {
        let socket = bind(address, true)?;
        // Port 0: the other workers share the one that the kernel chose.
        address = socket.address()?.ip().unwrap_or(address);
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Returns whether the kernel lets sockets stand on both addresses only if they share them.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let any = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port() && (any || a.ip() == b.ip())
}

/// Gives all workers the sockets that are there. Each socket needs a worker, or
/// connections that the kernel gives to it would wait for ever. Where there are
/// fewer than workers, some are shared.
fn share(mut sockets: Vec<ListeningSocket>, workers: usize) -> io::Result<Vec<ListeningSocket>> {
    for index in 0..workers.saturating_sub(sockets.len()) {
        sockets.push(sockets[index].try_clone()?);
    }
    Ok(sockets)
}

/// Opens a socket that listens; `shared` with others on the same address.
///
/// # Errors
///
/// Fails if the address cannot be had.
pub(crate) fn bind(address: SocketAddr, shared: bool) -> io::Result<ListeningSocket> {
    let socket = unbound(address, shared)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(ListeningSocket::Tcp(socket.into()))
}

fn unbound(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Connections of before that are closing are no obstacle.
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}
