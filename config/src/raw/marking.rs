//! How responses are marked (SFD02), as it is written.

use sprat_scheduler::marking::Variant;

use super::{SomeBytes, Timeout};
use crate::numbers::OutShare;
use crate::patterns::Dscp;
use crate::record::{choices, record};
use crate::scalars::{Count, Flag};

/// One of so many is promoted.
pub(crate) type EveryK = Count<1, 1_000>;

record! {
    /// Short responses first, by the bytes that each has had.
    closed struct Sfd {
        /// How a response is marked beyond the threshold.
        default("s-sfd") variant: Variant,
        /// A response is short for as long as it has not had more bytes than this, its
        /// head included.
        default("15KB") threshold: SomeBytes,
        /// One that was sent nothing for longer, and had nothing to send, is new again.
        default("1s") idle: Timeout,
        /// With `s-sfd`, one of so many turns of a long response is that of a short one.
        default("4") k: EveryK,
        /// The part of the bytes for what is beyond the threshold, while what is not waits,
        /// too.
        default("0.3") out_share: OutShare,
        /// Whether a response that is known to be larger than the threshold is beyond it
        /// from its beginning.
        default("false") use_size: Flag,
    }

    /// Code points on the packets of responses, by the bytes that each has had.
    closed struct Marking {
        /// How a response is marked beyond the threshold.
        default("s-sfd") variant: Variant,
        /// A response is IN for as long as it has not had more bytes than this, its head
        /// included.
        default("15KB") threshold: SomeBytes,
        /// One that was sent nothing for longer is new again.
        default("1s") idle: Timeout,
        /// With `s-sfd`, one of so many writes of a long response is IN.
        default("4") k: EveryK,
        /// The code point of what is IN.
        default("af11") within as "in": Dscp,
        /// The code point of what is OUT. Packets of one AF class stay in order; those of
        /// different classes may overtake each other.
        default("af13") out: Dscp,
    }
}

choices! {
    Variant as "Variant": "a variant" {
        /// All of it is OUT.
        "sfd" => Self::Sfd,
        /// Each turn is IN with the probability of the threshold over the bytes sent.
        "p-sfd" => Self::PSfd,
        /// One of every `k` turns is IN.
        "s-sfd" => Self::SSfd,
    }
}
