//! A worker's hold on the uplink, and the way onto it that each connection has.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use socket2::SockRef;
use sprat_config::resolved::ClientBy;
use sprat_net::client::ClientNumbers;
use sprat_scheduler::station::ChannelBacklog;
use tokio::net::TcpStream;

use super::gauge::SocketGauge;
use super::kernel::{KernelLink, MAX_UNSENT_BYTES, SocketMark};
use super::link::WorkerLink;
use super::shared::SharedUplink;

/// The way of a connection's bytes onto the uplink.
pub enum Outlet {
    /// Bytes are written at once.
    Plain,
    /// Bytes are debited to the scheduler.
    Gauged(Rc<SocketGauge>),
    /// Bytes are written with a priority (`SO_PRIORITY`).
    Marked(Rc<SocketMark>),
}

/// A worker's hold on the uplink, through which it sends responses.
#[derive(Clone)]
pub enum Uplink {
    /// Everything is sent at once.
    Unlimited,
    /// Responses go in the scheduler's order, at the link's pace.
    Paced(Rc<WorkerLink>),
    /// Responses go in the order of the kernel's queueing discipline.
    Kernel(Arc<KernelLink>),
}

impl Uplink {
    /// Takes a worker's hold on the uplink. To be called on the worker's runtime.
    ///
    /// # Errors
    ///
    /// The kernel has no timer to give.
    pub fn new(shared: &SharedUplink) -> std::io::Result<Self> {
        Ok(match shared {
            SharedUplink::Unlimited => Self::Unlimited,
            SharedUplink::Paced(link) => Self::Paced(WorkerLink::new(Arc::clone(link))?),
            SharedUplink::Kernel(link) => Self::Kernel(Arc::clone(link)),
        })
    }

    /// Returns whether this is a hold on `shared`.
    pub fn is_of(&self, shared: &SharedUplink) -> bool {
        match (self, shared) {
            (Self::Unlimited, SharedUplink::Unlimited) => true,
            (Self::Paced(own), SharedUplink::Paced(link)) => own.is_of(link),
            (Self::Kernel(own), SharedUplink::Kernel(link)) => Arc::ptr_eq(own, link),
            _ => false,
        }
    }

    /// Returns the numbers by which clients that share the uplink are told apart; `None` if they
    /// do not share it.
    pub fn sharing(&self, by: Option<&ClientBy>) -> Option<ClientNumbers> {
        match self {
            Self::Unlimited | Self::Kernel(_) => None,
            Self::Paced(worker) => by.map(|by| ClientNumbers::new(by, worker.client_hasher())),
        }
    }

    /// Makes the grants that are due, since the order has changed.
    pub fn look(&self) {
        if let Self::Paced(worker) = self {
            worker.look();
        }
    }

    /// Prepares a client's socket that has just been accepted.
    ///
    /// The kernel holds little that it cannot send yet: `max_unsent_bytes`, or less if the order
    /// asks for that. So a connection that TCP holds back soon stops being ready, and the order
    /// is decided here. Nor can clients that do not read fill the kernel's memory, which all
    /// processes share.
    ///
    /// The bound is not left to what a listening socket hands down: connections may have come
    /// before that socket could be prepared, or while the rate was another.
    pub fn accept(&self, stream: &TcpStream, max_unsent_bytes: u32) -> Outlet {
        let (max_unsent_bytes, outlet) = match self {
            Self::Unlimited => (max_unsent_bytes, Outlet::Plain),
            Self::Paced(worker) => {
                let outlet = Outlet::Gauged(SocketGauge::new(worker, stream));
                (worker.max_unsent_bytes().min(max_unsent_bytes), outlet)
            }
            Self::Kernel(link) => {
                link.accept(stream.as_fd());
                (MAX_UNSENT_BYTES, Outlet::Marked(SocketMark::new(link)))
            }
        };
        if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(max_unsent_bytes) {
            tracing::debug!(%error, "an accepted socket does not take TCP_NOTSENT_LOWAT");
        }
        outlet
    }

    /// Returns the link's rate in bits per second, if it is known.
    pub fn rate_bits_per_s(&self) -> Option<f64> {
        match self {
            Self::Unlimited | Self::Kernel(_) => None,
            Self::Paced(worker) => worker.effective_rate_bits_per_s().map(|rate| rate as f64),
        }
    }

    /// Returns how long the link would be occupied by what open responses have left, and the
    /// part of that time for what goes before a class or with it.
    pub fn backlog(&self, class: usize) -> ChannelBacklog {
        match self {
            Self::Unlimited | Self::Kernel(_) => ChannelBacklog::default(),
            Self::Paced(worker) => worker.backlog(class),
        }
    }
}
