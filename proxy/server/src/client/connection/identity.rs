//! The client at the other end of a connection, as far as the connection tells.

use std::cell::OnceCell;
use std::net::SocketAddr;

use http::HeaderValue;
use sprat_config::classify::Certificate;
use sprat_net::proxy_protocol::Ends;
use sprat_net::tls::Secured;

/// The client of a connection: its address, what its handshake has shown, and the mark that
/// a rule gives its packets.
pub(crate) struct Identity {
    /// The address that the client comes from.
    pub(crate) peer: SocketAddr,
    text: OnceCell<HeaderValue>,
    /// The address that the client is connected to.
    local: SocketAddr,
    /// The code point that the client's packets are marked with, if a rule
    /// wants it.
    pub(crate) dscp: Option<u8>,
    /// The outcome of the TLS handshake; unset in plain text.
    secured: OnceCell<Box<Secured>>,
}

impl Identity {
    /// Makes the identity of a client of which only the addresses and the mark are known.
    pub(super) fn new(ends: Ends, dscp: Option<u8>) -> Self {
        Self {
            peer: ends.client,
            text: OnceCell::new(),
            local: ends.local,
            dscp,
            secured: OnceCell::new(),
        }
    }

    /// Returns the peer's address as text, for forwarding headers.
    pub(crate) fn text(&self) -> &HeaderValue {
        self.text.get_or_init(|| {
            let ip = self.peer.ip().to_canonical();
            HeaderValue::try_from(ip.to_string()).expect("an address is visible ASCII")
        })
    }

    /// Returns both ends of the connection, for endpoints that are told of them.
    pub(crate) fn ends(&self) -> Ends {
        Ends {
            client: self.peer,
            local: self.local,
        }
    }

    /// Notes the outcome of the TLS handshake.
    pub(super) fn secure(&self, secured: Secured) {
        // There is one handshake.
        let _ = self.secured.set(Box::new(secured));
    }

    /// Returns the outcome of the TLS handshake; none in plain text.
    pub(crate) fn secured(&self) -> Option<&Secured> {
        self.secured.get().map(|secured| &**secured)
    }

    /// Returns the certificate that the client has shown, for rules about classes.
    pub(crate) fn certificate(&self) -> Option<Certificate<'_>> {
        let peer = self.secured()?.peer.as_ref()?;
        Some(peer.as_certificate())
    }
}
