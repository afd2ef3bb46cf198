//! Bounds on what one client may take: pure counters and clocks.
//!
//! [`Patience`] tells a client that is slow from one that is made to wait;
//! [`RateTable`] holds a token bucket for each of many clients in a fixed
//! number of bytes; [`Tallies`] counts what each has open; [`HeapGuard`] says
//! what to stop doing as memory runs short.

mod heap;
mod patience;
mod rate_table;
mod tallies;

pub use heap::{HeapBounds, HeapGuard, HeapState};
pub use patience::{MinRate, Patience};
pub use rate_table::{Bucket, Exceeded, RateTable};
pub use tallies::Tallies;
