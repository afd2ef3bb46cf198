//! The uplink: responses go to clients in the scheduler's order.

#![forbid(unsafe_code)]

mod acknowledged;
mod auto;
mod bursts;
mod code_points;
mod counters;
mod course;
mod division;
mod flow;
mod flush;
mod gain;
mod gauge;
mod granting;
pub mod kernel;
mod ledger;
mod link;
mod metrics;
mod paced;
mod portions;
mod seldom;
mod shared;
mod survey;
mod timer;
mod uplink;
mod watch;

pub use acknowledged::Delivery;
pub use bursts::Bursts;
pub use code_points::{CodedMark, MarkedBytes, WireMark, WireMarks};
pub use course::Course;
pub use flow::Granted;
pub use flush::FlushGate;
pub use gain::Gain;
pub use gauge::SocketGauge;
pub use granting::Granting;
pub use kernel::Marked;
pub use metrics::{LinkView, TOPICS};
pub use paced::FirstTurn;
pub use paced::go_ahead;
pub use paced::{Paced, head_bytes, pace, send_ahead};
pub use shared::{PreparedUplink, SharedUplink};
pub use survey::{ClassFigures, Figures, Surveyed};
pub use uplink::{Outlet, Uplink};
