//! The transports of requests: plain text, or TLS.

/// The transports over which requests come: plain text, TLS, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transports {
    pub(crate) plain: bool,
    pub(crate) tls: bool,
}

impl Transports {
    /// The transport of requests that come in plain text alone.
    pub(crate) const PLAIN: Self = Self {
        plain: true,
        tls: false,
    };
}
