//! The head of a response, and the class and size that its turn depends on.

use sprat_config::fields::Fields;
use sprat_scheduler::Size;

/// The head of a response.
pub struct ResponseHead<'a> {
    /// The status of the response.
    pub status: u16,
    /// The fields of the response.
    pub fields: &'a dyn Fields,
    /// Whether no body follows the head.
    pub end: bool,
}

/// The class of a response, and its size as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseSpec {
    /// The index of the class among the configuration's.
    pub class: usize,
    /// The size of the body.
    pub size: Size,
}
