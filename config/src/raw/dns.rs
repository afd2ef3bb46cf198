//! How the names of endpoints are resolved, as it is written.

use super::{Percent, System, Timeout};
use crate::addresses::DnsServer;
use crate::containers::{List, Or};
use crate::record::{choices, record};
use crate::resolved::{DnsType, LookupFamily};
use crate::scalars::{Count, Flag};
use crate::words::Unlimited;

record! {
    /// How and when Sprat resolves the endpoints' names.
    closed struct Dns {
        /// Whether each address of a name is an endpoint, or the name as a whole.
        default("strict_dns") discovery as "type": DnsType,
        /// Name servers that Sprat asks, 8 at most. `system` takes those of the system: its hosts
        /// file and resolv.conf. Servers in a list are asked in turn, and no others. Names are then
        /// looked up as they are written, without a search list.
        default("system") resolvers: Or<System, List<DnsServer, 1>>,
        /// Which addresses of a name are used.
        default("v4_preferred") lookup_family: LookupFamily,
        /// Ask again when the answer's time to live (TTL) is over. `false` asks again after
        /// `refresh_rate`.
        default("true") respect_dns_ttl: Flag,
        /// Time until Sprat asks again, if the answer has no TTL (such as one from the hosts file)
        /// or `respect_dns_ttl` is `false`.
        default("5s") refresh_rate: Timeout,
        /// A shorter TTL counts as this.
        default("1s") min_ttl: Timeout,
        /// A longer TTL counts as this.
        default("30s") max_ttl: Timeout,
        /// Percentage by which each wait may be longer, at random, so that Sprat does not ask for
        /// all names at once.
        default("10") jitter_percent: Percent,
        /// When to ask again after a failure: no answer, or the answer that the name has no
        /// address. The addresses that were known stay in use.
        default("{}") failure_refresh_rate: FailureRefreshRate,
        /// How long addresses stay in use after their TTL, while no server gives a new answer.
        default("unlimited") max_stale: Or<Unlimited, Timeout>,
        /// Time for an answer, from all servers together. If a server does not answer within a
        /// quarter of it, Sprat asks the next one.
        default("5s") timeout: Timeout,
        /// Addresses of a name that are used. If it has more, the lowest are used.
        default("64") max_addresses: Count<1, 1000>,
    }

    /// The wait before Sprat asks for a name again: a random time, up to a bound that doubles with
    /// each failure.
    closed struct FailureRefreshRate {
        /// Bound on the first wait.
        default("1s") base_interval: Timeout,
        /// Bound on any wait.
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
        /// Addresses of IPv6, or of IPv4 if there are none.
        "auto" => Self::Auto,
        /// Addresses of IPv4 alone.
        "v4_only" => Self::V4Only,
        /// Addresses of IPv6 alone.
        "v6_only" => Self::V6Only,
        /// Addresses of IPv4, or of IPv6 if there are none.
        "v4_preferred" => Self::V4Preferred,
        /// Addresses of both families.
        "all" => Self::All,
    }
}
