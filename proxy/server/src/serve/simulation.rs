//! Workers in a simulation: on their caller's event loop, with its clients,
//! endpoints and time. All else is what [`crate::serve::server`] runs.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use sprat_config::resolved::Config;
use sprat_net::handover::Inherited;
use sprat_net::network;
use tokio::net::TcpStream;

use crate::serve::server::{Control, Parts};
use crate::serve::worker::Order;

/// A server whose workers share a thread, and whose connections the caller
/// makes: a stream of any kind that has a descriptor can stand for TCP.
pub struct Simulated {
    parts: Parts,
}

/// A worker, which ends when it has drained.
pub type Working = Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// A connection to an endpoint that is being made.
pub type Connecting = network::Connecting;

impl Simulated {
    /// Builds a server, on the event loop whose time it is to have. Its workers
    /// are to be run on the same thread, within a `LocalSet`; `connect` makes
    /// their connections to endpoints.
    ///
    /// # Errors
    ///
    /// Fails if what the configuration names cannot be had.
    pub fn new(
        config: &Config,
        connect: impl Fn(SocketAddr) -> Connecting + Send + Sync + 'static,
    ) -> anyhow::Result<(Self, Vec<Working>)> {
        // Until the last of the workers has ended.
        let simulated = Rc::new(network::simulate(Arc::new(connect)));
        let mut parts = Parts::build(config, &mut Inherited::default())?;
        let seeds = std::mem::take(&mut parts.seeds).into_iter();
        let workers = seeds.map(|seed| {
            let simulated = Rc::clone(&simulated);
            let work = async move {
                let _simulated = simulated;
                seed.serve().await
            };
            Box::pin(work) as Working
        });
        let workers = workers.collect();
        Ok((Self { parts }, workers))
    }

    /// Hands a worker the connection of a client to the listener with this place in
    /// the configuration.
    ///
    /// # Errors
    ///
    /// Fails if there is no such listener, or if the worker has ended.
    pub fn accept(
        &self,
        worker: usize,
        listener: usize,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> anyhow::Result<()> {
        let listener = self.parts.control.listener(listener);
        let order = Order::Accepted {
            listener: listener.context("no such listener")?,
            stream,
            peer,
        };
        self.parts.control.order(worker, order)
    }

    /// Makes the server serve requests that begin from now on by another configuration.
    /// Each worker takes it over when its turn comes.
    ///
    /// # Errors
    ///
    /// Fails if something that it names cannot be had: all is as before.
    pub fn reload(&self, config: &Config) -> anyhow::Result<()> {
        self.parts.control.begin_reload(config)
    }

    /// Returns a handle that ends the server.
    pub fn control(&self) -> Control {
        self.parts.control.clone()
    }

    /// Returns the bytes on the wire that the uplink was debited for, less what was taken
    /// back; none where the uplink is not paced. The counter of them among the metrics never
    /// falls, and so is above this until further debits have made up for what was taken back.
    pub fn debited_wire_bytes(&self) -> Option<u64> {
        self.parts.control.debited_wire_bytes()
    }

    /// Returns the metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.parts
            .metrics
            .text(crate::observe::metrics::Exposition::Text)
    }
}
