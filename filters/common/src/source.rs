//! The sources of sizes: the layers that are asked in turn, and a probe.

/// The source that knows a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Earlier responses that this worker has seen.
    Learnt,
    /// Earlier responses that another worker has seen.
    Shared,
    /// The manifest of the configuration.
    Manifest,
    /// A HEAD request to a pool.
    HeadProbe,
    /// Other responses of the same kind.
    Estimator,
    /// The size is known to no layer.
    Unknown,
}

impl Source {
    /// All sources, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Learnt,
        Self::Shared,
        Self::Manifest,
        Self::HeadProbe,
        Self::Estimator,
        Self::Unknown,
    ];

    /// Returns the source's name in metrics and in the response's header field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Learnt => "learnt",
            Self::Shared => "shared",
            Self::Manifest => "manifest",
            Self::HeadProbe => "head_probe",
            Self::Estimator => "estimator",
            Self::Unknown => "unknown",
        }
    }
}
