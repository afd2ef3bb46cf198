//! A host that is made up: what a stream has, and what a filter did to it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::{Fields, Host, Metric, Wake};

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Bell {
    /// How often since it was last asked.
    pub(crate) fn rung(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One stream.
#[derive(Default)]
pub(crate) struct FakeHost {
    request: BTreeMap<&'static str, String>,
    response: BTreeMap<&'static str, String>,
    /// See [`Host::connection`].
    pub(crate) connection: Option<u64>,
    /// See [`Host::client`].
    pub(crate) client: Option<IpAddr>,
    /// See [`Host::is_multiplexed`].
    pub(crate) multiplexed: bool,
    /// See [`Host::received_bytes`].
    pub(crate) received: Cell<u64>,
    /// See [`Host::held_bytes`].
    pub(crate) held: Cell<u64>,
    /// Its filter's waker.
    pub(crate) bell: Arc<Bell>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
}

impl FakeHost {
    /// A stream whose response has these fields.
    pub(crate) fn responding(fields: &[(&'static str, &str)]) -> Self {
        let fields = fields.iter().map(|&(name, value)| (name, value.to_owned()));
        Self {
            response: fields.collect(),
            ..Self::default()
        }
    }

    /// With a field in its request.
    pub(crate) fn asked(mut self, name: &'static str, value: &str) -> Self {
        self.request.insert(name, value.to_owned());
        self
    }

    /// What was counted.
    pub(crate) fn counted(&self, metric: Metric) -> u64 {
        self.counts
            .borrow()
            .get(metric.name())
            .copied()
            .unwrap_or_default()
    }
}

impl Host for FakeHost {
    fn value(&self, fields: Fields, name: &str, index: usize) -> Option<&[u8]> {
        let map = match fields {
            Fields::Request => &self.request,
            Fields::Response => &self.response,
        };
        let value = map.get(name).filter(|_| index == 0);
        value.map(|value| value.as_bytes())
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn response_head_bytes(&self) -> (u64, u64) {
        let bytes = self.response.iter().map(|(k, v)| k.len() + v.len());
        (bytes.sum::<usize>() as u64, self.response.len() as u64)
    }

    fn received_bytes(&self) -> u64 {
        self.received.get()
    }

    fn held_bytes(&self) -> u64 {
        self.held.get()
    }

    fn connection(&self) -> Option<u64> {
        self.connection
    }

    fn is_multiplexed(&self) -> bool {
        self.multiplexed
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }

    fn count(&self, metric: Metric, by: u64) {
        *self.counts.borrow_mut().entry(metric.name()).or_default() += by;
    }
}
