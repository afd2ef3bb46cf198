//! How requests come: in plain text, or over TLS.

/// Whether requests come in plain text, and whether over TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transports {
    pub(crate) plain: bool,
    pub(crate) tls: bool,
}

impl Transports {
    /// Requests that come in plain text alone.
    pub(crate) const PLAIN: Self = Self {
        plain: true,
        tls: false,
    };
}
