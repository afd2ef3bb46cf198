//! The discipline of short flows first (SFD02), on a link that never drops.

use crate::Marking;

/// The parameters of [`Discipline::Sfd`](crate::Discipline::Sfd), short flows first.
///
/// SFD02's routers drop OUT packets before IN ones. A pacer drops nothing, so here IN goes
/// before OUT within a level, and the flows of one mark take turns. A strict order would
/// starve OUT, as the paper says of its PQ; so OUT has [`Sfd::out_share`] of the bytes for
/// as long as flows of both marks wait: with 0.3, the part of the room that the paper gives
/// it, long flows take at most some twice as long (4.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sfd {
    /// The marking of flows, in which a grant is the packet.
    pub marking: Marking,
    /// The part of the bytes, 0.9 at most, that OUT has while IN waits too; 0 is strict.
    pub out_share: f64,
    /// Whether a size that is known ([`Size::Exact`](crate::Size::Exact) or an estimate)
    /// counts as sent from the beginning, so that a large response is never within the
    /// threshold.
    pub use_size: bool,
}

impl Sfd {
    /// The paper's marking, with OUT's part after its section 4.3.
    pub const PAPER: Self = Self {
        marking: Marking::PAPER,
        out_share: 0.3,
        use_size: false,
    };

    /// The most that OUT may have while IN waits.
    pub const MAX_OUT_SHARE: f64 = 0.9;
}
