//! The fields that frame a message, none of which Sprat passes on as it is.

/// The names of fields that Sprat writes itself, as the message and the connection need them.
pub(super) const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
