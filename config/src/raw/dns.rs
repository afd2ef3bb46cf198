//! How the names of endpoints are resolved, as it is written.

use super::{Percent, System, Timeout};
use crate::addresses::DnsServer;
use crate::containers::{List, Or};
use crate::record::{choices, record};
use crate::resolved::{DnsType, LookupFamily};
use crate::scalars::{Count, Flag, Unlimited};

record! {
    /// How the endpoints' names are resolved, and when that is done again.
    closed struct Dns {
        /// What a name stands for.
        default("strict_dns") discovery as "type": DnsType,
        /// Whom to ask: `system` is whom the system asks, by its hosts file and
        /// resolv.conf. Servers given here are asked in turn, and no others; names are then
        /// looked up as they stand. 8 at most.
        default("system") resolvers: Or<System, List<DnsServer, 1>>,
        /// Which addresses of a name are used.
        default("v4_preferred") lookup_family: LookupFamily,
        /// Ask again when an answer's time to live is over. `false` asks again
        /// after `refresh_rate`.
        default("true") respect_dns_ttl: Flag,
        /// Until an answer is asked for again that has no time to live, such
        /// as one of the hosts file, or whose time to live does not count.
        default("5s") refresh_rate: Timeout,
        /// A shorter time to live counts as this.
        default("1s") min_ttl: Timeout,
        /// A longer time to live counts as this.
        default("30s") max_ttl: Timeout,
        /// Each wait is longer by up to this share, at random, so that the
        /// names are not all asked for at once.
        default("10") jitter_percent: Percent,
        /// When to ask again after no answer, or one that the name has no
        /// address. What was known of it still stands.
        default("{}") failure_refresh_rate: FailureRefreshRate,
        /// How long an answer stands past its time, while no server gives a new one.
        default("unlimited") max_stale: Or<Unlimited, Timeout>,
        /// For an answer, whichever server is asked. A server gets a quarter of it, until
        /// another one is asked.
        default("5s") timeout: Timeout,
        /// Addresses of a name that are used: the lowest, if it has more.
        default("64") max_addresses: Count<1, 1000>,
    }

    /// The wait before a name is asked for again: at random, up to a bound that
    /// doubles.
    closed struct FailureRefreshRate {
        /// The bound for the first.
        default("1s") base_interval: Timeout,
        /// The bound for any.
        default("30s") max_interval: Timeout,
    }
}

choices! {
    DnsType as "DnsType": "what a name stands for" {
        /// Each of its addresses is an endpoint.
        "strict_dns" => Self::Strict,
        /// The name is one endpoint, whose connections go to the first of its addresses
        /// that accepts them.
        "logical_dns" => Self::Logical,
    }

    LookupFamily as "LookupFamily": "which addresses" {
        /// Those of IPv6, or of IPv4 if there are none.
        "auto" => Self::Auto,
        /// Addresses of IPv4 alone.
        "v4_only" => Self::V4Only,
        /// Addresses of IPv6 alone.
        "v6_only" => Self::V6Only,
        /// Those of IPv4, or of IPv6 if there are none.
        "v4_preferred" => Self::V4Preferred,
        /// Addresses of both families.
        "all" => Self::All,
    }
}
