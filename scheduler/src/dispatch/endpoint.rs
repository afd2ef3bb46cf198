//! An endpoint as the configuration has it: what no request changes.

/// An endpoint's fixed properties.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSpec {
    /// The endpoint's weight, relative to the others; at least 1.
    pub weight: u32,
    /// Whether the endpoint is for the highest level alone.
    pub reserved: bool,
    /// The sizes in bytes, from and to (inclusive), that the endpoint is for under
    /// [`Dispatch::Sita`](super::Dispatch::Sita). If `None`, [`Intervals`](super::Intervals)
    /// decides.
    pub size_range: Option<(u64, u64)>,
    /// The number by which hashes and sessions know the endpoint, made of its address.
    pub identity: u64,
    /// The endpoint's priority: 0 serves first, others as far as those before have failed.
    pub priority: u8,
}
