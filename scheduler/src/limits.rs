//! Bounds on what one client may take: pure counters and clocks.
//!
//! [`Patience`] tells a client that is slow from one that is made to wait; [`RateTable`] holds a
//! token bucket for each of many clients in a fixed number of bytes; [`Tallies`] counts what each
//! has open; [`Shortage`] says whether requests lately found no place; [`HeapGuard`] says what to
//! stop doing as memory runs short.

mod heap;
mod patience;
mod rate_table;
mod shortage;
mod tallies;

pub use heap::{HeapBounds, HeapGuard, HeapState};
pub use patience::{MinRate, Patience};
pub use rate_table::{Bucket, Exceeded, RateTable};
pub use shortage::Shortage;
pub use tallies::Tallies;
