//! Numbers, bytes and times that several parts of the file have, each with its bounds.

use crate::scalars::{Bytes, Count, MAX_SIZE, Time};

/// A bound on a number of things in memory.
pub(crate) type Limit = Count<1, 10_000_000>;
/// Bytes of a head; an HTTP/1 parser needs 8 KB to work with.
pub(crate) type HeadBytes = Bytes<8_192, 16_777_216>;
/// A time-out: at least a millisecond.
pub(crate) type Timeout = Time<1>;
/// Bytes of a size class's bound or of ageing: at least one.
pub(crate) type SomeBytes = Bytes<1, MAX_SIZE>;
