/// What is known about how large a response is going to be, in bytes.
///
/// A wrong size costs order, never correctness: a response that outgrows its
/// estimate is ranked by what it has sent so far, and never jumps ahead again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Announced by the response itself (`Content-Length`).
    Exact(u64),
    /// Predicted from earlier responses, a manifest or an estimator.
    Estimate {
        /// The predicted size in bytes.
        bytes: u64,
        /// How far the prediction is trusted, 0 to 1.
        confidence: f32,
    },
    /// Nothing is known of the size.
    Unknown,
}

impl Size {
    /// The known or predicted number of bytes.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Exact(bytes) | Self::Estimate { bytes, .. } => Some(bytes),
            Self::Unknown => None,
        }
    }
}
