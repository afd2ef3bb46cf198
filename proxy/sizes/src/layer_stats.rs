//! A worker's counters of the layers' look-ups.

use sprat_net::counters::{Counter, Histogram, Scale};

use super::found::Answer;
use super::layer::Layer;

/// The buckets for the error of a size, in doublings: 1 is half or double.
#[derive(Debug, Default)]
pub(super) struct Doublings;

impl Scale for Doublings {
    const BOUNDS: &'static [f64] = &[
        0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0,
    ];
}

/// The outcomes of a worker's look-ups in one layer.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) hits: Counter,
    pub(super) misses: Counter,
    /// Look-ups in which the layer could not be asked, or did not answer in time.
    pub(super) errors: Counter,
    /// The errors of the sizes that the layer said, in doublings.
    pub(super) off: Histogram<Doublings>,
}

/// A worker's look-ups: the outcomes of each layer, in the order in which layers are asked.
#[derive(Debug, Default)]
pub struct LayerStats([Outcomes; Layer::ALL.len()]);

impl LayerStats {
    /// Returns the outcomes of a layer's look-ups.
    pub(super) fn of(&self, layer: Layer) -> &Outcomes {
        &self.0[layer.index()]
    }

    /// Counts a layer's look-up as a hit or a miss. The owning worker alone may call it.
    pub(super) fn count(&self, layer: Layer, hit: bool) {
        let outcomes = self.of(layer);
        match hit {
            true => outcomes.hits.increment(),
            false => outcomes.misses.increment(),
        }
    }

    /// Counts a layer's answer, which may be a failure. The owning worker alone may call it.
    pub(super) fn count_answer(&self, layer: Layer, answer: Answer) {
        match answer {
            Answer::Size(_) => self.count(layer, true),
            Answer::Unknown => self.count(layer, false),
            Answer::Failed => self.of(layer).errors.increment(),
        }
    }

    /// Counts how far the size that a layer said was from the response's. The owning worker alone
    /// may call it.
    pub fn compare(&self, layer: Layer, said: u64, bytes: u64) {
        let doublings = (said.max(1) as f64 / bytes.max(1) as f64).log2().abs();
        self.of(layer).off.observe(doublings);
    }
}
