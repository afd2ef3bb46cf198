//! A worker's listening sockets: connections are accepted and admitted here.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sprat_net::handover::Lent;
use sprat_net::listening::{Accepting, LOCAL_CLIENT, ListeningSocket};
use sprat_net::proxy_protocol::{self, Ends};
use sprat_scheduler::limits::HeapState;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use crate::client::connection::{self, Connection, NEW_WHILE_DRAINING};
use crate::exchange::service::Exchanges;
use crate::observe::stats::RefusedConnection;
use crate::serve::worker::Worker;
use crate::setup::limits::ConnectionPlace;
use crate::setup::listener::ListenerState;
use sprat_net::poll::now_or_never;

/// The pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A worker's listening socket, with the task that accepts from it.
pub(crate) struct Acceptor {
    /// The state of the listener, by which connections to come are served.
    listener: Rc<RefCell<Arc<ListenerState>>>,
    socket: Rc<Accepting>,
    /// The sender that is dropped when accepting is to end.
    end: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Acceptor {
    /// Begins to accept connections from a socket.
    ///
    /// # Errors
    ///
    /// Fails if the event loop does not take the socket.
    pub(crate) fn start(
        worker: &Rc<Worker>,
        listener: &Arc<ListenerState>,
        socket: ListeningSocket,
    ) -> io::Result<Self> {
        let socket = Rc::new(Accepting::from_socket(socket)?);
        let listener = Rc::new(RefCell::new(Arc::clone(listener)));
        let (end, ended) = watch::channel(());
        let (of, from) = (Rc::clone(&listener), Rc::clone(&socket));
        let task = spawn_local(accept(Rc::clone(worker), of, from, ended));
        Ok(Self {
            listener,
            socket,
            end,
            task,
        })
    }

    /// Returns the number of the socket's listener.
    pub(crate) fn id(&self) -> u64 {
        self.listener.borrow().id
    }

    /// Serves connections to come by another state of the listener.
    pub(crate) fn change(&self, listener: &Arc<ListenerState>) {
        self.listener.replace(Arc::clone(listener));
    }

    /// Serves a connection that has been accepted elsewhere.
    pub(crate) fn take(&self, worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
        let listener = Arc::clone(&self.listener.borrow());
        arrive(worker, &listener, stream, peer, &self.end.subscribe());
    }

    /// Returns a second hold on the socket, for the process that is to replace this one.
    ///
    /// # Errors
    ///
    /// Fails if no descriptor can be had.
    pub(crate) fn lend(&self) -> io::Result<Lent> {
        let listener = self.listener.borrow();
        Ok(Lent {
            name: listener.config.name.clone(),
            address: listener.config.address.clone(),
            socket: self.socket.as_fd().try_clone_to_owned()?,
            has_file: self.socket.file().is_some(),
        })
    }

    /// Accepts what the kernel has, and closes the socket.
    pub(crate) async fn stop(self) {
        drop(self.end);
        // The loop ends by itself; it does not panic.
        let _ = self.task.await;
    }
}

async fn accept(
    worker: Rc<Worker>,
    listener: Rc<RefCell<Arc<ListenerState>>>,
    socket: Rc<Accepting>,
    mut end: watch::Receiver<()>,
) {
    let mut complained = false;
    let present = || Arc::clone(&listener.borrow());
    loop {
        let accepted = tokio::select! {
            biased;
            // Never anything else than an error.
            _ = end.changed() => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                complained = false;
                arrive(&worker, &present(), stream, peer, &end);
            }
            Err(error) => {
                worker
                    .serving
                    .stats_of(&present())
                    .accept_errors
                    .increment();
                if !std::mem::replace(&mut complained, true) {
                    let listener = &present().config.name;
                    tracing::error!(%error, listener, "a connection cannot be accepted");
                }
                // Without descriptors the next accept would fail at once.
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // What the kernel has accepted for this socket would be reset otherwise.
    while let Some(Ok((stream, peer))) = now_or_never(socket.accept()).await {
        arrive(&worker, &present(), stream, peer, &end);
    }
}

/// Admits a connection, once the PROXY protocol has told the client's address, where it has to.
fn arrive(
    worker: &Rc<Worker>,
    listener: &Arc<ListenerState>,
    mut stream: TcpStream,
    peer: SocketAddr,
    end: &watch::Receiver<()>,
) {
    let ends = Ends {
        client: peer,
        local: local(&stream, listener),
    };
    if listener.config.proxy_protocol.is_none() {
        admit(worker, listener, stream, ends);
        return;
    }
    let Some(place) = listener.take_arrival() else {
        refuse(worker, listener, RefusedConnection::Listener);
        return;
    };
    worker.arriving.set(worker.arriving.get() + 1);
    let (worker, listener, mut end) = (Rc::clone(worker), Arc::clone(listener), end.clone());
    spawn_local(async move {
        let ends = tokio::select! {
            biased;
            ends = announced(&worker, &listener, &mut stream, ends) => ends,
            () = late(&mut end) => None,
        };
        drop(place);
        if let Some(ends) = ends
            && let Some(connection) = admit(&worker, &listener, stream, ends)
            && end.has_changed().is_err()
        {
            // It was not there yet when the others were told.
            connection.drain();
        }
        worker.arriving.set(worker.arriving.get() - 1);
        worker.left();
    });
}

/// Returns the address that a client is connected to.
fn local(stream: &TcpStream, listener: &ListenerState) -> SocketAddr {
    let configured = &listener.config.address;
    match configured.ip() {
        // Not to be had: the client has gone already.
        Some(address) => stream.local_addr().unwrap_or(address),
        None => LOCAL_CLIENT,
    }
}

/// Returns the ends of a connection, as the PROXY protocol tells them where it is expected;
/// none if the connection is not to be served.
async fn announced(
    worker: &Worker,
    listener: &ListenerState,
    stream: &mut TcpStream,
    ends: Ends,
) -> Option<Ends> {
    match &listener.config.proxy_protocol {
        None => Some(ends),
        Some(config) => {
            let stats = &worker.serving.stats.proxy_headers;
            proxy_protocol::receive(config, stats, stream, ends).await
        }
    }
}

/// Waits until accepting has ended, and the client has had its time to begin.
async fn late(end: &mut watch::Receiver<()>) {
    while end.changed().await.is_ok() {}
    sleep(NEW_WHILE_DRAINING).await;
}

/// Counts a connection that is closed at once.
fn refuse(worker: &Worker, listener: &ListenerState, why: RefusedConnection) {
    worker.serving.stats_of(listener).refused[why as usize].increment();
}

/// Takes a place for a connection of this client, if its listener counts them.
fn client_place(
    worker: &Worker,
    listener: &ListenerState,
    ip: IpAddr,
) -> Result<Option<ConnectionPlace>, ()> {
    let overload = worker.serving.overload.as_ref();
    if overload.is_some_and(|overload| overload.state() >= HeapState::NoConnections) {
        refuse(worker, listener, RefusedConnection::Heap);
        return Err(());
    }
    let Some(limits) = &listener.shared.limits else {
        return Ok(None);
    };
    let place = limits.connect(ip);
    if place.is_none() {
        refuse(worker, listener, RefusedConnection::Client);
    }
    place.map(Some).ok_or(())
}

fn admit(
    worker: &Rc<Worker>,
    listener: &Arc<ListenerState>,
    stream: TcpStream,
    ends: Ends,
) -> Option<Rc<Connection>> {
    let Some(place) = listener.take_place() else {
        refuse(worker, listener, RefusedConnection::Listener);
        return None;
    };
    let client_place = client_place(worker, listener, ends.client.ip()).ok()?;
    let is_unix = listener.config.address.path().is_some();
    if !is_unix && let Err(error) = stream.set_nodelay(true) {
        // The client has gone already.
        tracing::debug!(%error, "an accepted socket does not take TCP_NODELAY");
    }
    worker.serving.stats_of(listener).connections.increment();
    worker.serving.stats.open_connections.increment();
    let generation = worker.serving.generation();
    let dscp = (generation.classifier.wants_dscp())
        // Of the socket: the client may be elsewhere.
        .then(|| {
            // By the packets: those of IPv4 come to sockets of IPv6, too.
            let address = stream.local_addr().ok()?.ip().to_canonical();
            sprat_net::sys::received_tos(stream.as_fd(), address.is_ipv6()).ok()
        })
        .flatten()
        .map(|tos| tos >> 2);
    let max_unsent_bytes = listener.config.max_unsent_bytes;
    let outlet = generation.uplink.accept(&stream, max_unsent_bytes);
    let connection = Rc::new(Connection::new(
        Rc::clone(&worker.serving),
        Arc::clone(listener),
        ends,
        dscp,
        outlet,
    ));
    let key = worker
        .connections
        .borrow_mut()
        .insert(Rc::clone(&connection));
    let (worker, served) = (Rc::clone(worker), Rc::clone(&connection));
    spawn_local(async move {
        connection::serve::<Exchanges>(served, stream).await;
        worker.connections.borrow_mut().remove(key);
        worker.serving.stats.open_connections.decrement();
        drop((place, client_place));
        worker.left();
    });
    Some(connection)
}
