//! The order in which flows get the uplink.

/// A scheduling discipline and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First come, first served: the null policy.
    Fcfs,
    /// Round robin by bytes, what an unmodified server and kernel amount to
    /// (TOCS03's FAIR).
    Fair,
    /// Shortest remaining size first (Schrage and Miller 1966).
    Srpt,
    /// SRPT with a key that ages: remaining bytes + `ageing` x arrival time.
    /// The key of a waiting flow does not change, so ageing needs no re-sort.
    SrptAged {
        /// Bytes of advantage that each second of waiting gives.
        ageing_bytes_per_s: u64,
    },
    /// Strict priority between size classes, fair within each (TOCS03 2.2).
    Bands(Cutoffs),
}

/// Where one size class of [`Discipline::Bands`] ends and the next begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Cutoffs {
    /// Ascending bounds in bytes: a flow is in the first class whose bound is
    /// at least its remaining size, or past the last.
    Fixed(Vec<u64>),
    /// Learnt from the sizes seen, by the rules of thumb of TOCS03 2.2.2: the
    /// lowest at the median, the highest above all but the largest 0.5-1%,
    /// logarithmic spacing between.
    Learnt {
        /// Number of classes, 2 to 16.
        classes: u8,
    },
}

impl Cutoffs {
    /// TOCS03 2.2.4's table: 1K, 2K, 5K, 20K, 50K.
    pub fn paper() -> Self {
        Self::Fixed([1, 2, 5, 20, 50].map(|k| k * 1024).to_vec())
    }

    /// TOCS03 3.4: two classes, split at 1K.
    pub fn two_class() -> Self {
        Self::Fixed(vec![1024])
    }
}
