//! Compression of responses, as it is resolved.

use super::values::{bytes, count, each};
use crate::containers::{Or, Seldom};
use crate::raw;
use crate::resolved::Compressor;

/// Resolves the compression of responses; `Some(None)` if they are not compressed.
pub(super) fn compressor<W>(raw: &Or<W, Seldom<raw::Compressor>>) -> Option<Option<Compressor>> {
    let Some(raw) = raw.value() else {
        return Some(None);
    };
    Some(Some(Compressor {
        algorithms: each(&raw.algorithms, |own| Some(*own))?,
        min_content_length: raw.min_content_length.copied()?.0,
        content_types: each(&raw.content_types, |own| Some(own.0.clone()))?,
        exact_up_to: bytes(&raw.exact_up_to)?,
        max_streams: count(&raw.max_streams)?,
    }))
}
