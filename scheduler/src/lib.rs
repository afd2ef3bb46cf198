//! Size-based scheduling as pure logic.
//!
//! The proxy, the Envoy filters and the simulator all drive this crate, so
//! that what is simulated is what runs. It has no clock, no sockets, no
//! threads and no randomness of its own: the caller passes `now` (a [`Time`])
//! and gets decisions back as values. The same calls always give the same
//! answers.

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod classes;
pub mod counterfactual;
mod cutoffs;
pub mod desk;
mod discipline;
pub mod dispatch;
pub mod egress;
mod guard;
pub mod health;
mod histogram;
pub mod limits;
pub mod marking;
mod mix;
mod pacer;
mod queue;
pub mod rate_control;
pub mod resolution;
pub mod retries;
mod sfd;
mod size;
mod slots;
pub mod srq;
pub mod station;
mod time;
mod wire;

pub use classes::{ClassSpec, MAX_CLASSES};
pub use counterfactual::Counterfactual;
pub use cutoffs::{Cutoffs, SizeClasses};
pub use desk::{Desk, Turn};
pub use discipline::Discipline;
pub use egress::{
    AtCapacity, Egress, EgressClassStats, EgressPolicy, EgressStats, FlowId, FlowSpec, FlowState,
    Grant, Grants, GroupId, Lane, MADE_UP_MAX, MAX_FLOOR_PERCENT, Precedence, Survey, SurveyedFlow,
    Urgency,
};
pub use guard::Guard;
pub use marking::{Mark, Marking};
pub use pacer::Pacer;
pub use queue::Rank;
pub use rate_control::{Control, RateControl, RateControlConfig, SocketSample, Write};
pub use sfd::Sfd;
pub use size::Size;
pub use time::Time;
pub use wire::WireCost;
