//! A worker in a simulation: on its caller's event loop, with its caller's
//! clients, endpoints and time. All else is what [`crate::server`] runs.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use sprat_config::resolved::Config;
use tokio::net::TcpStream;

use crate::handover::Inherited;
use crate::network;
use crate::server::{Control, Parts};
use crate::worker::Order;

/// A server of one worker, whose connections the caller makes: a stream of any
/// kind that has a descriptor can stand for TCP.
pub struct Simulated {
    parts: Parts,
}

/// A worker, which ends when it has drained.
pub type Working = Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// What a connection to an endpoint comes to.
pub type Connecting = network::Connecting;

impl Simulated {
    /// Builds a server, on the event loop whose time it is to have. The worker
    /// is to be run on the same thread, within a `LocalSet`; `connect` makes
    /// its connections to endpoints.
    ///
    /// # Errors
    ///
    /// What the configuration names cannot be had.
    pub fn new(
        config: &Config,
        connect: impl Fn(SocketAddr) -> Connecting + Send + Sync + 'static,
    ) -> anyhow::Result<(Self, Working)> {
        let mut parts = Parts::build(config, &mut Inherited::default())?;
        anyhow::ensure!(parts.seeds.len() == 1, "a simulation has one worker");
        let seed = parts.seeds.pop().context("a server has a worker")?;
        let simulated = network::simulate(Arc::new(connect));
        let worker = async move {
            let _simulated = simulated;
            seed.serve().await
        };
        Ok((Self { parts }, Box::pin(worker)))
    }

    /// A client has connected to the listener with this place in the
    /// configuration.
    ///
    /// # Errors
    ///
    /// There is none, or the worker has ended.
    pub fn accept(
        &self,
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
        self.parts.control.order(order)
    }

    /// Serves requests that begin from now on by another configuration. The
    /// worker takes it over when its turn comes.
    ///
    /// # Errors
    ///
    /// Something that it names cannot be had: all is as before.
    pub fn reload(&self, config: &Config) -> anyhow::Result<()> {
        self.parts.control.begin_reload(config)
    }

    /// A handle that ends it.
    pub fn control(&self) -> Control {
        self.parts.control.clone()
    }

    /// The metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.parts.metrics.text()
    }
}
