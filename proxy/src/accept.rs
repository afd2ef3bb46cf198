//! A worker's listening sockets: connections are accepted and admitted here.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sprat_scheduler::limits::HeapState;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use crate::connection::{self, Connection};
use crate::limits::ConnectionPlace;
use crate::listener::ListenerState;
use crate::worker::Worker;

/// After an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket that is listened on, in a task of its own.
pub(crate) struct Acceptor {
    /// What connections to come are served by.
    listener: Rc<RefCell<Arc<ListenerState>>>,
    socket: Rc<TcpListener>,
    /// Gone: the end.
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Acceptor {
    /// Accepts from a socket.
    ///
    /// # Errors
    ///
    /// The event loop does not take it.
    pub(crate) fn start(
        worker: &Rc<Worker>,
        listener: &Arc<ListenerState>,
        socket: StdListener,
    ) -> io::Result<Self> {
        let socket = Rc::new(TcpListener::from_std(socket)?);
        worker.generation().uplink.listen(&socket);
        let listener = Rc::new(RefCell::new(Arc::clone(listener)));
        let (end, ended) = oneshot::channel();
        let (of, from) = (Rc::clone(&listener), Rc::clone(&socket));
        let task = spawn_local(accept(Rc::clone(worker), of, from, ended));
        Ok(Self {
            listener,
            socket,
            end,
            task,
        })
    }

    /// What its listener goes by.
    pub(crate) fn id(&self) -> u64 {
        self.listener.borrow().id
    }

    /// Connections to come are served by another state of the listener, and
    /// the worker's present uplink.
    pub(crate) fn change(&self, worker: &Worker, listener: &Arc<ListenerState>) {
        self.listener.replace(Arc::clone(listener));
        worker.generation().uplink.listen(&self.socket);
    }

    /// A second hold on the socket, for whoever is to replace this process.
    ///
    /// # Errors
    ///
    /// No descriptor can be had.
    pub(crate) fn lend(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
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
    socket: Rc<TcpListener>,
    mut end: oneshot::Receiver<()>,
) {
    let mut complained = false;
    let present = || Arc::clone(&listener.borrow());
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut end => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                complained = false;
                admit(&worker, &present(), stream, peer);
            }
            Err(error) => {
                worker.stats.accept_errors.increment();
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
        admit(&worker, &present(), stream, peer);
    }
}

/// The future's output if it has one at once.
pub(crate) async fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

/// A place for a connection of this client, if its listener counts them.
fn client_place(
    worker: &Worker,
    listener: &ListenerState,
    ip: IpAddr,
) -> Result<Option<ConnectionPlace>, ()> {
    let overload = worker.overload.as_ref();
    if overload.is_some_and(|overload| overload.state() >= HeapState::NoConnections) {
        worker.stats.overload_connections.increment();
        return Err(());
    }
    let Some(limits) = &listener.shared.limits else {
        return Ok(None);
    };
    let place = limits.connect(ip);
    if place.is_none() {
        worker.stats.client_connections.increment();
    }
    place.map(Some).ok_or(())
}

fn admit(worker: &Rc<Worker>, listener: &Arc<ListenerState>, stream: TcpStream, peer: SocketAddr) {
    let Some(place) = listener.take_place() else {
        worker.stats.refused_connections.increment();
        return;
    };
    let Ok(client_place) = client_place(worker, listener, peer.ip()) else {
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        // The client has gone already.
        tracing::debug!(%error, "an accepted socket does not take TCP_NODELAY");
    }
    worker.stats.connections.increment();
    worker.stats.open_connections.increment();
    let generation = worker.generation();
    // Not to be had: the client has gone already.
    let dscp = (generation.classifier.wants_dscp())
        .then(|| crate::sys::received_tos(stream.as_fd(), peer.is_ipv6()).ok())
        .flatten()
        .map(|tos| tos >> 2);
    let outlet = generation.uplink.accept(&stream);
    let connection = Rc::new(Connection::new(
        Rc::clone(worker),
        Arc::clone(listener),
        peer,
        dscp,
        outlet,
    ));
    let key = worker
        .connections
        .borrow_mut()
        .insert(Rc::clone(&connection));
    let worker = Rc::clone(worker);
    spawn_local(async move {
        connection::serve(connection, stream).await;
        worker.connections.borrow_mut().remove(key);
        worker.stats.open_connections.decrement();
        drop((place, client_place));
        if worker.connections.borrow().is_empty() {
            worker.emptied.notify_one();
        }
    });
}
