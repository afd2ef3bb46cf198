//! Size-based scheduling as pure logic.
//!
//! The proxy, the Envoy filters and the simulator all drive this crate, so
//! that what is simulated is what runs. It has no clock, no sockets, no
//! threads and no randomness of its own: the caller passes `now` (a [`Time`])
//! and gets decisions back as values. The same calls always give the same
//! answers.

#![forbid(unsafe_code)]

pub mod discipline;
pub mod dispatch;
mod size;
mod time;
mod wire;

pub use discipline::Discipline;
pub use size::Size;
pub use time::Time;
pub use wire::WireCost;
