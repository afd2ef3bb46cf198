//! The catalogue of sizes as it is written.

use super::Timeout;
use crate::containers::{List, Or};
use crate::names::{FieldName, FilePath};
use crate::record::record;
use crate::scalars::{Bytes, Off, Time};

record! {
    /// What is known of sizes before a response begins.
    closed struct Catalogue {
        /// Memory for sizes learnt from earlier responses, 18 bytes each; 0
        /// switches them off.
        default("32MB") max_size: Bytes<0, 1_099_511_627_776>,
        /// How long a learnt size is believed.
        default("1h") ttl: Timeout,
        /// Request header fields by which the variants of a resource are told
        /// apart, where the response's `Vary` names them; at most 4.
        default("[accept-encoding]") vary: List<FieldName, 0>,
        /// A file that keeps learnt sizes over a restart.
        default("off") snapshot: Or<Off, Snapshot>,
    }

    /// A file that keeps learnt sizes over a restart.
    closed struct Snapshot {
        /// Where it is. Sprat writes a new one beside it, and renames that.
        required path: FilePath,
        /// How often it is written; it is written at shutdown as well.
        default("5m") interval: Time<1000>,
    }
}
