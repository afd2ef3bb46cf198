//! The work of Sprat's Envoy filters, whatever host they run in: classes, the catalogue of sizes,
//! admission, waiting, dispatch, and the order in which responses are released.
//!
//! Sans-IO: the host tells [`Filter`] of each event of a stream, with `now`, and the filter acts
//! through a [`Host`]. The decisions are `sprat-scheduler`'s. Nothing blocks.
//! [`Filter::next_wakeup`] names the time of the next [`Filter::tick`], or none while nothing
//! waits.

#![forbid(unsafe_code)]

mod answer;
mod clock;
mod connections;
mod filter;
mod groups;
mod host;
mod keys;
pub mod metrics;
mod pacing;
mod probing;
mod reader;
mod release;
mod response;
mod sizes;
mod source;
mod stream;
mod uplink;

pub use answer::Answer;
pub use connections::Connections;
pub use filter::{Filter, Step};
pub use host::{Host, StreamId};
pub use reader::{Read, Reader, RequestHead};
pub use response::{ResponseHead, ResponseSpec};
pub use source::Source;
