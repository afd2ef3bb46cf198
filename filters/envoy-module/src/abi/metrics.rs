//! The metrics of a configuration, under the numbers that Envoy gives them.

use sprat_filter::Source;
use sprat_filter::metrics::{Counter, Gauge};

use super::callbacks::{SUCCESS, callbacks};
use super::lent::{Buffer, Envoy};
use crate::host::Metric;

/// The metrics' numbers in Envoy; none for one that Envoy refused.
pub(super) struct Metrics {
    pub(super) own: [Option<usize>; Metric::ALL.len()],
    pub(super) classes: usize,
    /// Envoy's numbers of the counters, by [`Counter::index`].
    pub(super) counters: Vec<Option<usize>>,
    pub(super) gauges: [Option<usize>; Gauge::ALL.len()],
}

impl Metrics {
    /// Defines the metrics of a configuration in Envoy.
    ///
    /// # Safety
    /// Envoy is creating the configuration.
    pub(super) unsafe fn define(envoy: Envoy, classes: &[String]) -> Self {
        let (counter, gauge) = (callbacks().define_counter, callbacks().define_gauge);
        let define = |define: Define, name: &str| {
            let (mut id, name) = (0, Buffer::of(name.as_bytes()));
            // SAFETY: the caller vouches for the configuration; no labels.
            let result = unsafe { define(envoy, name, std::ptr::null_mut(), 0, &raw mut id) };
            (result == SUCCESS).then_some(id)
        };
        let all = Counter::all(classes.len()).into_iter();
        Self {
            own: Metric::ALL.map(|own| define(counter, own.name())),
            classes: classes.len(),
            counters: all
                .map(|own| is_ours(own).then(|| define(counter, &own.name(classes)))?)
                .collect(),
            gauges: Gauge::ALL.map(|own| match own {
                Gauge::Waiting => define(gauge, own.name()),
                Gauge::HeldResponses => None,
            }),
        }
    }
}

/// Returns whether the module counts this event at all: sizes are not shared between workers, and
/// the link paces responses.
fn is_ours(counter: Counter) -> bool {
    use Counter::{Conflicts, Held, HeldChunks, Shared, Size, Unscheduled};
    let elsewhere = [
        Conflicts,
        Held,
        HeldChunks,
        Shared,
        Unscheduled,
        Size(Source::Shared),
    ];
    !elsewhere.contains(&counter)
}

type Define = unsafe extern "C" fn(Envoy, Buffer, *mut Buffer, usize, *mut usize) -> u32;
