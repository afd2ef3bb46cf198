//! Buffers of requests and responses, as they are resolved.

use super::values::{bytes, file, maybe};
use crate::containers::Or;
use crate::raw;
use crate::resolved::{BufferFile, BufferTotals, BufferedBody, ResponseBuffer, RouteBuffer};
use crate::words::{Auto, Off};

/// Resolves the bounds on what all buffered bodies take together.
pub(super) fn totals(raw: &raw::Buffer) -> Option<BufferTotals> {
    Some(BufferTotals {
        memory_bytes: bytes(&raw.max_total_memory)?,
        file_bytes: raw.max_total_file.copied()?.0,
    })
}

/// Resolves what is buffered for routes that do not say.
pub(super) fn of_file(raw: &raw::Buffer) -> Option<RouteBuffer> {
    Some(RouteBuffer {
        request: request(raw.request.get()?)?,
        response: response(raw.response.get()?)?,
    })
}

/// Resolves what a route buffers; it takes from `above`, the file's, what it does not say itself.
pub(super) fn of_route(raw: &raw::RouteBuffer, above: &RouteBuffer) -> Option<RouteBuffer> {
    Some(RouteBuffer {
        request: match raw.request.optional()? {
            Some(own) => request(own)?,
            None => above.request.clone(),
        },
        response: match raw.response.optional()? {
            Some(own) => response(own)?,
            None => above.response.clone(),
        },
    })
}

fn request(raw: &Or<Off, raw::BufferedBody>) -> Option<Option<BufferedBody>> {
    match raw.value() {
        None => Some(None),
        Some(raw) => body(raw).map(Some),
    }
}

fn response(raw: &Or<Auto, Or<Off, raw::BufferedBody>>) -> Option<ResponseBuffer> {
    Some(match raw {
        Or::Word(_) => ResponseBuffer::Auto,
        Or::Value(Or::Word(_)) => ResponseBuffer::Off,
        Or::Value(Or::Value(raw)) => ResponseBuffer::On(body(raw)?),
    })
}

fn body(raw: &raw::BufferedBody) -> Option<BufferedBody> {
    Some(BufferedBody {
        memory_bytes: bytes(&raw.memory)?,
        file: maybe(raw.file.get()?.value(), |raw| {
            Some(BufferFile {
                directory: file(&raw.path)?,
                max_bytes: raw.max_size.copied()?.0,
            })
        })?,
    })
}
