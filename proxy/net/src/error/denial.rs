//! A refusal on its way to the client.

use super::Reason;
use super::advice::Advice;

/// A request that is not served: the reason, and advice for its client.
#[derive(Clone, Debug)]
pub struct Denial {
    /// The reason why the request is not served.
    pub reason: Reason,
    /// The advice that the client gets, if there is any.
    pub advice: Option<Box<Advice>>,
}

impl Denial {
    /// Returns a denial for a reason, with advice for the client.
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
