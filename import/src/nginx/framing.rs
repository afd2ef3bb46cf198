//! Fields that frame a message: Sprat passes on none of them as they are.

/// Fields that Sprat writes itself, as the message and the connection need them.
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
