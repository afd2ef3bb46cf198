//! A stand-in for Envoy in tests: a stream with given properties, and a record of a filter's calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sprat_filter::metrics::{Counter, Gauge};

use crate::host::{Fields, Host, Metric, Wake};

/// A waker that counts how often it was called.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Bell {
    /// Returns the number of wake-ups since the last call.
    pub(crate) fn rung(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The host of one stream in tests.
#[derive(Default)]
pub(crate) struct FakeHost {
    request: BTreeMap<String, String>,
    /// The request's path, if that is no text.
    pub(crate) path: Option<Vec<u8>>,
    response: BTreeMap<String, String>,
    /// The metadata that the filter has set, by key.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The number of calls of [`Host::clear_route_cache`].
    pub(crate) routed: usize,
    /// The opposite of the answer to [`Host::holds_apart`].
    pub(crate) holds_together: bool,
    /// The answer to [`Host::is_resuming`].
    pub(crate) resuming: bool,
    /// The requests that the filter has sent, each with its cluster and its head.
    pub(crate) asked: RefCell<Vec<String>>,
    added: RefCell<BTreeMap<String, u64>>,
    /// The answer to [`Host::connection`].
    pub(crate) connection: Option<u64>,
    /// The answer to [`Host::client`].
    pub(crate) client: Option<IpAddr>,
    /// The answer to [`Host::is_multiplexed`].
    pub(crate) multiplexed: bool,
    /// The answer to [`Host::received_bytes`].
    pub(crate) received: Cell<u64>,
    /// The answer to [`Host::held_bytes`].
    pub(crate) held: Cell<u64>,
    /// The bell that wakes the stream's filter.
    pub(crate) bell: Arc<Bell>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
}

impl FakeHost {
    /// Creates a stream whose response has these fields.
    pub(crate) fn responding(fields: &[(&'static str, &str)]) -> Self {
        let fields = fields.iter();
        let fields = fields.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            response: fields.collect(),
            ..Self::default()
        }
    }

    /// Adds a field to the stream's request.
    pub(crate) fn asked(mut self, name: &'static str, value: &str) -> Self {
        self.request.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns the value of a field as text.
    pub(crate) fn text(&self, fields: Fields, name: &str) -> Option<&str> {
        let value = self.field(fields, name)?;
        std::str::from_utf8(value).ok()
    }

    /// Returns the value of a counter or gauge of this name.
    pub(crate) fn added(&self, name: &str) -> u64 {
        self.added.borrow().get(name).copied().unwrap_or_default()
    }

    /// Returns the value of one of the module's own metrics.
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
            Fields::Request if name == ":path" && self.path.is_some() => {
                return self.path.as_deref().filter(|_| index == 0);
            }
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

    fn add(&self, counter: Counter, by: u64) {
        let name = counter.name(&["0".to_owned(), "1".to_owned()]);
        *self.added.borrow_mut().entry(name).or_default() += by;
    }

    fn set_gauge(&self, gauge: Gauge, value: u64) {
        let name = gauge.name().to_owned();
        self.added.borrow_mut().insert(name, value);
    }

    fn request_fields(&self) -> Vec<(String, String)> {
        self.request.clone().into_iter().collect()
    }

    fn ask(&self, cluster: &str, head: &[(&str, &str)], _: Duration) -> bool {
        let head: Vec<String> = head.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let asked = format!("{cluster} {}", head.join(" "));
        self.asked.borrow_mut().push(asked);
        true
    }

    fn holds_apart(&self) -> bool {
        !self.holds_together
    }

    fn is_resuming(&self) -> bool {
        self.resuming
    }

    fn set_field(&mut self, fields: Fields, name: &str, value: Option<&str>) {
        let map = match fields {
            Fields::Request => &mut self.request,
            Fields::Response => &mut self.response,
        };
        match value {
            Some(value) => map.insert(name.to_owned(), value.to_owned()),
            None => map.remove(name),
        };
    }

    fn set_metadata(&mut self, key: &str, value: &str) {
        self.metadata.insert(key.to_owned(), value.to_owned());
    }

    fn clear_route_cache(&mut self) {
        self.routed += 1;
    }

    fn count(&self, metric: Metric, by: u64) {
        *self.counts.borrow_mut().entry(metric.name()).or_default() += by;
    }
}

/// The fields of a probe's answer.
pub(crate) struct List<'a>(pub(crate) &'a [(&'a str, &'a str)]);

impl sprat_config::fields::Fields for List<'_> {
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        self.0.any(name, see)
    }
}
