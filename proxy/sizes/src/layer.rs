//! The catalogue's layers, and what they say.

use sprat_scheduler::Size;
use sprat_scheduler::catalogue::Known;

use super::probe::Prober;

/// How far a size is trusted that an operator or a build wrote down: files change, and
/// backends compress.
const WRITTEN_DOWN: f32 = 0.9;

/// Where a size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Sizes learnt from earlier responses.
    Learnt,
    /// A file that lists sizes.
    Manifest,
    /// The files that the backends serve.
    DocumentRoot,
    /// A HEAD request to the backend.
    HeadProbe,
    /// What other proxies have learnt.
    Shared,
    /// Other responses of the same kind.
    Estimator,
}

impl Layer {
    /// In the order in which they are asked.
    pub(crate) const ALL: [Self; 6] = [
        Self::Learnt,
        Self::Manifest,
        Self::DocumentRoot,
        Self::HeadProbe,
        Self::Shared,
        Self::Estimator,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Learnt => "learnt",
            Self::Manifest => "manifest",
            Self::DocumentRoot => "document_root",
            Self::HeadProbe => "head_probe",
            Self::Shared => "shared",
            Self::Estimator => "estimator",
        }
    }

    /// A small integer, for tables.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// What a layer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The size is so many bytes.
    Size(u64),
    /// The layer knows no size.
    Unknown,
    /// The layer could not be asked, or did not answer in time.
    Failed,
}

/// What was found, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// An estimate, whatever the layer: a response may differ from what was
    /// said of it.
    pub size: Size,
    /// The layer that knew the size.
    pub layer: Layer,
}

impl Found {
    pub(super) fn new(layer: Layer, known: Known) -> Self {
        let size = known.into();
        Self { size, layer }
    }

    /// Returns a size that an operator wrote down.
    pub(super) fn written_down(layer: Layer, bytes: u64) -> Self {
        let confidence = WRITTEN_DOWN;
        Self::new(layer, Known { bytes, confidence })
    }
}

/// What a size is worth waiting for.
pub enum Patience<'a> {
    /// Nothing: the layers in memory are asked alone.
    None,
    /// The budgets of the layers that make a request wait.
    Budgets,
    /// The same, and a request to the backend.
    Probe(Prober<'a>),
}
