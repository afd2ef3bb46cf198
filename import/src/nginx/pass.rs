//! nginx's directives that pass requests on: their targets, and how they speak to them.

use super::parse::Directive;

/// The target of a `proxy_pass`: its transport, its servers, and its path.
pub(super) struct Pass {
    pub(super) tls: bool,
    pub(super) http2: bool,
    /// The name of an upstream, or a host and a port.
    pub(super) target: String,
    /// The path that replaces the location's.
    pub(super) uri: Option<String>,
}

impl Pass {
    /// Reads a URL in which the known variables have been replaced by their values.
    pub(super) fn read(url: &str) -> Option<Self> {
        let schemes = [
            ("http://", false, false),
            ("https://", true, false),
            ("grpc://", false, true),
            ("grpcs://", true, true),
        ];
        let (rest, tls, http2) = schemes
            .iter()
            .find_map(|(start, tls, http2)| Some((url.strip_prefix(start)?, *tls, *http2)))?;
        let (target, uri) = match rest.strip_prefix("unix:") {
            // The path of the socket ends at the next colon.
            Some(path) => {
                let end = path.find(':').unwrap_or(path.len()) + "unix:".len();
                let (target, uri) = rest.split_at(end);
                (target, uri.strip_prefix(':').unwrap_or(uri))
            }
            None => rest.split_at(rest.find(['/', '$']).unwrap_or(rest.len())),
        };
        Some(Self {
            tls,
            http2,
            target: target.to_owned(),
            uri: (!uri.is_empty()).then(|| uri.to_owned()),
        })
    }
}

/// Returns the prefix of the directives that tune one that passes requests on, such as `proxy`.
pub(super) fn prefix_of(pass: &Directive) -> &str {
    pass.name.strip_suffix("_pass").unwrap_or("proxy")
}
