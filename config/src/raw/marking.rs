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
    /// Short responses first, by the bytes that each response has sent.
    closed struct Sfd {
        /// How the bytes of a response beyond `threshold` are marked.
        default("s-sfd") variant: Variant,
        /// A response is short until it has sent more bytes than this, its head included.
        default("15KB") threshold: SomeBytes,
        /// A response that had nothing to send, and was sent nothing, for longer than this is
        /// new again.
        default("1s") idle: Timeout,
        /// With `variant: s-sfd`, one of every `k` turns of a long response counts as a turn of
        /// a short one.
        default("4") k: EveryK,
        /// The share of the bytes for responses beyond the threshold while responses within it
        /// wait, too.
        default("0.3") out_share: OutShare,
        /// With `true`, a response that is known to be larger than the threshold is beyond it
        /// from its beginning.
        default("false") use_size: Flag,
    }

    /// Code points on the packets of responses, by the bytes that each response has sent.
    closed struct Marking {
        /// How the bytes of a response beyond `threshold` are marked.
        default("s-sfd") variant: Variant,
        /// A response is IN until it has sent more bytes than this, its head included.
        default("15KB") threshold: SomeBytes,
        /// A response that was sent nothing for longer than this is new again.
        default("1s") idle: Timeout,
        /// With `variant: s-sfd`, one of every `k` writes of a long response is IN.
        default("4") k: EveryK,
        /// The code point of packets that are IN.
        default("af11") within as "in": Dscp,
        /// The code point of packets that are OUT. Packets of one AF class stay in order; those
        /// of different classes may overtake each other.
        default("af13") out: Dscp,
    }
}

choices! {
    Variant as "Variant": "a variant" {
        /// All bytes beyond the threshold are OUT.
        "sfd" => Self::Sfd,
        /// Each turn beyond the threshold is IN with the probability `threshold` / bytes sent.
        "p-sfd" => Self::PSfd,
        /// One of every `k` turns beyond the threshold is IN.
        "s-sfd" => Self::SSfd,
    }
}
