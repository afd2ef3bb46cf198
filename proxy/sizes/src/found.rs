//! The answers of the catalogue's layers.

use sprat_scheduler::Size;
use sprat_scheduler::catalogue::Known;

use super::layer::Layer;

/// The confidence in a size that is stated, not seen, by a manifest, a file or a probe's
/// answer: files change, and backends compress.
const WRITTEN_DOWN: f32 = 0.9;

/// The answer of a layer to a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The size is so many bytes.
    Size(u64),
    /// The layer knows no size.
    Unknown,
    /// The layer could not be asked, or did not answer in time.
    Failed,
}

/// A size that was found, and the layer that knew it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The size, always an estimate: the response may differ from what the layer said of it.
    pub size: Size,
    /// The layer that knew the size.
    pub layer: Layer,
}

impl Found {
    pub(super) fn new(layer: Layer, known: Known) -> Self {
        let size = known.into();
        Self { size, layer }
    }

    /// Creates the answer of a layer that states sizes: a manifest, a file or a probe.
    pub(super) fn written_down(layer: Layer, bytes: u64) -> Self {
        let confidence = WRITTEN_DOWN;
        Self::new(layer, Known { bytes, confidence })
    }
}
