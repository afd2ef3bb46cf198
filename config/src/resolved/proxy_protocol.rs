//! The PROXY protocol after every check.

use std::time::Duration;

use super::Network;

/// The protocol by which a load balancer in front tells whose connection each is.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyProtocol {
    /// The addresses of load balancers that are believed.
    pub trusted: Vec<Network>,
    /// Whether connections of others are served, without a header; closed if not.
    pub others_direct: bool,
    /// The time from the connection's start to the end of the header.
    pub timeout: Duration,
    /// Bytes of a header.
    pub max_bytes: usize,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Version 2, which is binary.
    V2,
}
