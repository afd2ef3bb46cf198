//! The reading of heads, and the bytes that a response costs on the wire.

use sprat_config::fields;
use sprat_filter::{Read, Reader, RequestHead};

use crate::host::{Fields, Host};

/// The bytes beside a field's name and value: `: ` and a line end.
const FIELD_FRAMING: u64 = 4;

/// The bytes that Envoy adds after the filters: `date`, `server`, the status line beyond `:status`,
/// the empty line; and `connection: close` or `transfer-encoding: chunked`.
const ADDED: u64 = 37 + 15 + 5 + 28;

/// The bytes of a frame's header in HTTP/2; HTTP/3 has about as many.
const FRAME_HEADER: u64 = 9;

/// The bytes around a chunk in chunked coding: the size in hex, and two line ends.
const CHUNK_FRAMING: u64 = 12;

/// Returns the bytes of the response's head, a few too many rather than too few.
pub(crate) fn head_bytes(host: &impl Host) -> u64 {
    let (bytes, fields) = host.response_head_bytes();
    let plain = bytes + fields * FIELD_FRAMING + ADDED;
    if host.is_multiplexed() {
        // Names are a byte or two once the table knows them, and values are
        // Huffman-coded: that leaves about half.
        FRAME_HEADER + plain / 2
    } else {
        plain
    }
}

/// Returns the bytes added to each chunk of a body.
pub(crate) fn framing_bytes(host: &impl Host) -> u64 {
    if host.is_multiplexed() {
        FRAME_HEADER
    } else if host.field(Fields::Response, "content-length").is_none() {
        CHUNK_FRAMING
    } else {
        0
    }
}

/// One of a stream's heads, in the form that rules look at.
pub(crate) struct HeadOf<'a, H>(pub(crate) &'a H, pub(crate) Fields);

impl<H: Host> fields::Fields for HeadOf<'_, H> {
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        (0..)
            .map_while(|index| self.0.value(self.1, name, index))
            .any(|value| see(&String::from_utf8_lossy(value)))
    }
}

/// Reads a request's head. The number `random` is drawn for this request. What is not UTF-8 is
/// replaced, as in other fields, so that rules for the rest of a value still count.
pub(crate) fn read(reader: &Reader, host: &impl Host, random: u64) -> Read {
    let text = |name: &str| {
        let value = host.field(Fields::Request, name).unwrap_or_default();
        String::from_utf8_lossy(value)
    };
    reader.read(&RequestHead {
        client: reader.wants_client().then(|| host.client()).flatten(),
        method: &text(":method"),
        authority: &text(":authority"),
        target: &text(":path"),
        fields: &HeadOf(host, Fields::Request),
        random,
    })
}

/// Returns the status of a response.
pub(crate) fn status(host: &impl Host) -> u16 {
    let text = host.field(Fields::Response, ":status").unwrap_or_default();
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// Returns whether the connection becomes a tunnel, whose bytes are no response.
pub(crate) fn is_tunnel(host: &impl Host) -> bool {
    host.field(Fields::Response, ":status") == Some(b"101")
        || host.field(Fields::Request, ":method") == Some(b"CONNECT")
}
