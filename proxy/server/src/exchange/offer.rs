//! A client's offer to switch protocols (RFC 9110 7.8), as far as its route allows.

use http::header::{CONNECTION, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use sprat_net::error::Reason;
use sprat_net::headers::tokens;
use sprat_net::permit::Permit;

use super::check::content_length;
use crate::client::connection::Stream;
use crate::setup::routing::Route;

/// The protocols that a client would switch to, as far as its route allows.
pub(super) struct Offer {
    protocols: HeaderValue,
    /// The place among the listener's tunnels that the tunnel keeps.
    pub(super) place: Permit,
}

impl Offer {
    /// Returns what a request offers, if anything. A request with no such offer is
    /// served as if it had not asked: a server need not switch.
    pub(super) fn of(
        stream: &Stream,
        route: &Route,
        parts: &Parts,
    ) -> Result<Option<Box<Self>>, Reason> {
        let fields = &parts.headers;
        let Some(allowed) = (route.upgrade.as_ref()).filter(|_| fields.contains_key(UPGRADE))
        else {
            return Ok(None);
        };
        let asks = |token: &str| token.eq_ignore_ascii_case("upgrade");
        let bodiless = !fields.contains_key(TRANSFER_ENCODING)
            && content_length(fields).is_none_or(|bytes| bytes == 0);
        if !lists(fields, CONNECTION).any(asks) || parts.version != Version::HTTP_11 || !bodiless {
            return Ok(None);
        }
        let is_allowed = |protocol: &&str| {
            let name = name(protocol);
            let mut allowed = allowed.protocols.iter();
            allowed.any(|own| own.eq_ignore_ascii_case(name))
        };
        let offered: Vec<&str> = lists(fields, UPGRADE).filter(is_allowed).collect();
        let Ok(protocols) = HeaderValue::try_from(offered.join(", ")) else {
            return Ok(None);
        };
        if offered.is_empty() {
            return Ok(None);
        }
        let place = stream.connection().listener.take_tunnel();
        let place = place.ok_or(Reason::TunnelLimit)?;
        Ok(Some(Box::new(Self { protocols, place })))
    }

    /// Adds the fields that ask the upstream to switch protocols.
    pub(super) fn add(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocols.clone());
    }

    /// Returns whether the upstream switches to a protocol that was offered.
    pub(super) fn has(&self, answer: &HeaderMap) -> bool {
        let chosen = answer.get(UPGRADE).and_then(|value| value.to_str().ok());
        let mut offered = tokens(&self.protocols).map(name);
        chosen.is_some_and(|chosen| offered.any(|own| own.eq_ignore_ascii_case(name(chosen))))
    }
}

/// Returns a protocol's name without its version: `websocket/13` is `websocket`.
fn name(protocol: &str) -> &str {
    let name = protocol.split_once('/').map_or(protocol, |(name, _)| name);
    name.trim()
}

fn lists(fields: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &str> {
    fields.get_all(name).iter().flat_map(tokens)
}
