//! A cluster as one worker sees it: its endpoints, the connections it keeps
//! to them, and the choice between them.

#![forbid(unsafe_code)]

mod absence;
mod account;
mod breaker;
mod check;
mod condition;
mod connect;
mod counts;
pub mod dns;
mod endpoint;
mod hear_out;
mod heard;
mod held;
mod interim;
mod keeper;
mod lease;
mod listed;
mod members;
mod multiplexed;
mod probe;
mod relist;
mod replace;
mod sender;
mod sessions;
mod shared;
mod sizes;
mod station;
mod stats;
mod transport;
mod upstream;
mod weights;

pub use absence::{Absence, Awaiting, WAIT_RESULTS};
pub use breaker::Breaker;
pub use condition::{Condition, EndpointCondition, PlaceQueues};
pub use connect::Slot as ConnectionPlace;
pub use counts::EndpointCounts;
pub use endpoint::Endpoint;
pub use heard::Silence;
pub use held::{Held, buffer, hold};
pub use interim::Hear;
pub use keeper::{Keeper as HealthKeeper, PreparedHealth};
pub use lease::{Lease, Place};
pub use listed::{LISTING_RESULTS, Listing};
pub use members::Member;
pub use sender::{Refused, SendFailure, Sender, reason as broken_reason};
pub use sessions::{SessionId, SessionOutcome, Sessions};
pub use shared::{SharedCluster, inspect};
pub use station::{SharedStation, station_config};
pub use stats::{ClusterStats, EndpointStats};
pub use upstream::{KeptSession, Upstream, affinity_hash};
