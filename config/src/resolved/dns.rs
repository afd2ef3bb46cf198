//! How the names of endpoints are resolved.

use std::net::SocketAddr;
use std::time::Duration;

/// The resolution of the endpoints' names, and when it is done again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dns {
    /// The endpoints that a name stands for.
    pub discovery: DnsType,
    /// The servers to ask, 8 at most; none for those that the system asks.
    pub resolvers: Option<Vec<SocketAddr>>,
    /// The addresses of a name that are used.
    pub lookup_family: LookupFamily,
    /// Whether an answer's time to live counts.
    pub respect_dns_ttl: bool,
    /// The time after which an answer is asked for again if its time to live does not count.
    pub refresh_rate: Duration,
    /// The shortest time to live.
    pub min_ttl: Duration,
    /// The longest time to live, not below the shortest.
    pub max_ttl: Duration,
    /// The percent by which a wait may be longer.
    pub jitter_percent: u8,
    /// The longest wait after the first failure.
    pub failure_base_interval: Duration,
    /// The longest wait after any failure; not below that after the first.
    pub failure_max_interval: Duration,
    /// The time for which addresses stand past their time to live, while no server gives new ones;
    /// `None` is without bound.
    pub max_stale: Option<Duration>,
    /// The bound on the wait for an answer, whichever server is asked.
    pub timeout: Duration,
    /// Addresses of a name that are used; at least 1.
    pub max_addresses: usize,
}

/// The endpoints that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsType {
    /// Each of its addresses is an endpoint.
    Strict,
    /// The name is one endpoint.
    Logical,
}

/// The addresses of a name that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupFamily {
    /// The addresses of IPv6, or those of IPv4 if there are none.
    Auto,
    /// Addresses of IPv4 alone.
    V4Only,
    /// Addresses of IPv6 alone.
    V6Only,
    /// The addresses of IPv4, or those of IPv6 if there are none.
    V4Preferred,
    /// All addresses, of IPv4 and IPv6.
    All,
}
