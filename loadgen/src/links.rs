//! Links between hosts: what a router's queue, a rate, a delay and loss do to packets.
//!
//! Sans-IO and deterministic: times and seeds come in as arguments, and the same calls
//! give the same answers. The network lab drives these links with packets of the kernel,
//! and a simulation drives them in virtual time; what a packet carries beside its length
//! and [`Mark`] is the caller's.
//!
//! A [`Link`] is one direction: a [`Queue`], then serialisation at a rate, then
//! independent loss, then a delay. Its verbs are
//!
//! - [`Link::offer`]: a packet arrives at `now`; a refusal says why, and returns it;
//! - [`Link::next_event`]: when to call [`Link::take_due`] next, if no packet is offered
//!   before;
//! - [`Link::take_due`]: the next packet that has reached the far end by `now`, with the
//!   moment when it did; to be repeated until it returns none;
//! - [`Link::counters`]: the packets so far, counted by what the link did with them.
//!
//! Times do not go backwards. A caller may be late: a link keeps its own exact times, so
//! that a packet is due when it would have been, and the moment that `take_due` tells is
//! the one to offer it to the next link at. Between several links, call the one whose
//! event is the earliest.
//!
//! ```
//! use std::time::Duration;
//! use sprat_loadgen::links::{Link, LinkSettings, Mark, Packet};
//! use sprat_scheduler::Time;
//!
//! // 1,500 bytes at 12 Mbit/s take 1 ms, and arrive 20 ms later.
//! let settings = LinkSettings {
//!     rate_bits_per_s: Some(12_000_000),
//!     delay: Duration::from_millis(20),
//!     ..LinkSettings::default()
//! };
//! let mut link = Link::new(settings, 7, Time::ZERO);
//! let packet = Packet { bytes: 1500, mark: Mark::In, content: "data" };
//! link.offer(Time::ZERO, packet).unwrap();
//! while let Some(when) = link.next_event() {
//!     while let Some((due, packet)) = link.take_due(when) {
//!         assert_eq!((due, packet.content), (Time::from_nanos(21_000_000), "data"));
//!     }
//! }
//! ```

mod counters;
mod link;
mod queue;
mod red;
mod schedule;

pub use counters::{Amount, LengthCounters, LinkCounters, MarkCounters};
pub use link::{Link, LinkSettings};
pub use queue::{Average, Queue, QueueBound, QueueSettings, Refusal, Refused};
pub use red::{DropSpread, Red, RedSettings, RedVerdict};
pub use schedule::{Change, Schedule};
pub use sprat_scheduler::Mark;

/// A packet as links see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// The router's class of the packet.
    pub mark: Mark,
    /// The caller's own content, which comes back at the far end.
    pub content: T,
}
