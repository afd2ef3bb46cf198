//! A refusal on its way to the client.

use super::Reason;
use super::advice::Advice;

/// A request that is not served: why, and what its client is to do.
#[derive(Clone, Debug)]
pub struct Denial {
    /// The reason why the request is not served.
    pub reason: Reason,
    /// The advice that the client gets; none if there is nothing to say.
    pub advice: Option<Box<Advice>>,
}

impl Denial {
    /// Returns a denial whose client is advised.
    pub fn with(reason: Reason, advice: Advice) -> Self {
        let advice = Some(Box::new(advice));
        Self { reason, advice }
    }
}

impl From<Reason> for Denial {
    fn from(reason: Reason) -> Self {
        let advice = None;
        Self { reason, advice }
    }
}
