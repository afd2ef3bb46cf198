//! The way in which endpoints' names are resolved.

use std::net::SocketAddr;
use std::time::Duration;

/// The settings by which endpoints' names are resolved, and resolved again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dns {
    /// The endpoints that a name stands for.
    pub discovery: DnsType,
    /// The DNS servers to ask, 8 at most; none for those that the system asks.
    pub resolvers: Option<Vec<SocketAddr>>,
    /// The family of a name's addresses that are used.
    pub lookup_family: LookupFamily,
    /// Whether Sprat asks again when an answer's time to live is over.
    pub respect_dns_ttl: bool,
    /// The time after which Sprat asks again, if the time to live does not count.
    pub refresh_rate: Duration,
    /// The least time to live: a shorter one counts as this.
    pub min_ttl: Duration,
    /// The longest time to live, not below the least: a longer one counts as this.
    pub max_ttl: Duration,
    /// The percent by which each wait may be longer, at random.
    pub jitter_percent: u8,
    /// The longest wait after the first failure.
    pub failure_base_interval: Duration,
    /// The longest wait after any failure; not below that after the first.
    pub failure_max_interval: Duration,
    /// The time for which addresses stay in use past their time to live, while no server gives new
    /// ones; `None` is without bound.
    pub max_stale: Option<Duration>,
    /// The longest wait for an answer, from all servers together.
    pub timeout: Duration,
    /// The most addresses of a name that are used; at least 1.
    pub max_addresses: usize,
}

/// The meaning of a name: one endpoint, or one for each address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsType {
    /// Each of its addresses is an endpoint.
    Strict,
    /// The name is one endpoint.
    Logical,
}

/// The family of a name's addresses that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupFamily {
    /// The addresses of IPv6, or those of IPv4 if there are none.
    Auto,
    /// The addresses of IPv4 alone.
    V4Only,
    /// The addresses of IPv6 alone.
    V6Only,
    /// The addresses of IPv4, or those of IPv6 if there are none.
    V4Preferred,
    /// All addresses, of IPv4 and IPv6.
    All,
}
