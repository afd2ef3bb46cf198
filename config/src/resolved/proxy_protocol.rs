//! The PROXY protocol after every check.

use std::time::Duration;

use super::Network;

/// The PROXY protocol of a listener, by which load balancers in front tell each connection's
/// client.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyProtocol {
    /// The addresses of the load balancers that Sprat trusts.
    pub trusted: Vec<Network>,
    /// Whether connections from other addresses are served, without a header; if not, they are
    /// closed.
    pub others_direct: bool,
    /// The longest time from the connection's start to the end of the header.
    pub timeout: Duration,
    /// The most bytes of a header.
    pub max_bytes: usize,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// Version 1, which is a line of text.
    V1,
    /// Version 2, which is binary.
    V2,
}
