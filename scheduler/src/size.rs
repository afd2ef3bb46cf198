/// The size that a response is going to have, in bytes, as far as it is known.
///
/// A wrong size costs order, never correctness: a response that outgrows its
/// estimate is ranked by what it has sent so far, and never jumps ahead again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A size announced by the response itself (`Content-Length`).
    Exact(u64),
    /// A size predicted from earlier responses, a manifest or an estimator.
    Estimate {
        /// The predicted size in bytes.
        bytes: u64,
        /// The trust in the prediction, 0 to 1.
        confidence: f32,
    },
    /// The size is not known.
    Unknown,
}

impl Size {
    /// Returns the known or predicted number of bytes.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Exact(bytes) | Self::Estimate { bytes, .. } => Some(bytes),
            Self::Unknown => None,
        }
    }
}
