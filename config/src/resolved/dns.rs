//! How the names of endpoints are resolved.

use std::net::SocketAddr;
use std::time::Duration;

/// How the endpoints' names are resolved, and when that is done again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dns {
    /// What a name stands for.
    pub discovery: DnsType,
    /// Whom to ask; none for whom the system asks. 8 at most.
    pub resolvers: Option<Vec<SocketAddr>>,
    /// Which addresses of a name are used.
    pub lookup_family: LookupFamily,
    /// Whether an answer's time to live counts.
    pub respect_dns_ttl: bool,
    /// Until an answer is asked for again whose time to live does not count.
    pub refresh_rate: Duration,
    /// The shortest time to live.
    pub min_ttl: Duration,
    /// The longest, not below the shortest.
    pub max_ttl: Duration,
    /// By how much a wait may be longer, in percent.
    pub jitter_percent: u8,
    /// After the first failure, at most.
    pub failure_base_interval: Duration,
    /// After any failure, at most; not below the first.
    pub failure_max_interval: Duration,
    /// How long addresses stand past their time, while no server gives new ones;
    /// `None` is without bound.
    pub max_stale: Option<Duration>,
    /// The bound on the wait for an answer, whichever server is asked.
    pub timeout: Duration,
    /// Addresses of a name that are used; at least 1.
    pub max_addresses: usize,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsType {
    /// Each of its addresses is an endpoint.
    Strict,
    /// The name is one endpoint.
    Logical,
}

/// Which addresses of a name are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupFamily {
    /// Those of IPv6, or of IPv4 if there are none.
    Auto,
    /// Addresses of IPv4 alone.
    V4Only,
    /// Addresses of IPv6 alone.
    V6Only,
    /// Those of IPv4, or of IPv6 if there are none.
    V4Preferred,
    /// All addresses, of IPv4 and IPv6.
    All,
}
