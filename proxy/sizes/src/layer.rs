//! The layers that are asked for a size, in their order.

/// The source that a size comes from.
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
    /// Sizes that other proxies have learnt.
    Shared,
    /// Other responses of the same kind.
    Estimator,
}

impl Layer {
    /// All layers, in the order in which they are asked.
    pub(crate) const ALL: [Self; 6] = [
        Self::Learnt,
        Self::Manifest,
        Self::DocumentRoot,
        Self::HeadProbe,
        Self::Shared,
        Self::Estimator,
    ];

    /// Returns the name in metrics and logs.
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

    /// Returns the layer's index in [`Layer::ALL`], for tables with a value for each layer.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}
