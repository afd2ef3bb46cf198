//! Names of fields that backends may take for other names.
//!
//! CGI's rules (RFC 3875 4.1.18; those of WSGI, Rack and PHP are the same) take a hyphen and an
//! underscore in a name for one, and a field reaches the backend's program as `HTTP_` and its
//! name. So `Transfer_Encoding` may frame a message there, and `Proxy` may name the proxy that
//! the program sends its own requests through.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName};
use sprat_config::resolved::HeadersWithUnderscores as Underscores;

use super::{KEEP_ALIVE, PROXY_CONNECTION, remove_all};
use crate::error::Reason;

/// Names that a client could write with underscores, to get past the proxy's checks of them:
/// they frame a message, or belong to a connection.
const OF_ONE_HOP: [HeaderName; 4] = [
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    KEEP_ALIVE,
    PROXY_CONNECTION,
];

/// Removes from a request's head the names that backends may take for others, and treats other
/// names with underscores as the listener is configured to.
///
/// # Errors
///
/// A name has an underscore, and the listener refuses such requests.
pub fn admit(headers: &mut HeaderMap, underscores: Underscores) -> Result<(), Reason> {
    let refuses = underscores == Underscores::RejectRequest;
    if refuses && headers.keys().any(has_underscore) {
        return Err(Reason::UnderscoreInName);
    }
    remove_mistaken(headers, underscores);
    Ok(())
}

/// Removes from a head or from trailers the names that backends may take for others, and all
/// names with underscores unless they are allowed.
pub(crate) fn remove_mistaken(headers: &mut HeaderMap, underscores: Underscores) {
    let is_wrong = |name: &HeaderName| match underscores {
        Underscores::Allow => is_mistaken(name),
        Underscores::RejectRequest | Underscores::DropHeader => {
            has_underscore(name) || is_mistaken(name)
        }
    };
    if headers.keys().any(is_wrong) {
        remove_all(headers, is_wrong);
    }
}

fn has_underscore(name: &HeaderName) -> bool {
    name.as_str().contains('_')
}

fn is_mistaken(name: &HeaderName) -> bool {
    let folds = |known: &HeaderName| {
        let (name, known) = (name.as_str().bytes(), known.as_str().bytes());
        let folded = name.map(|byte| if byte == b'_' { b'-' } else { byte });
        folded.eq(known)
    };
    name.as_str() == "proxy" || (has_underscore(name) && OF_ONE_HOP.iter().any(folds))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn left(underscores: Underscores) -> Result<Vec<String>, Reason> {
        let names = [
            "transfer_encoding",
            "content_length",
            "keep_alive",
            "proxy_connection",
            "proxy-connection",
            "proxy",
            "content-length",
            "proxy-status",
            "content_length_2",
            "x_tier",
        ];
        let mut headers: HeaderMap = names
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")))
            .into_iter()
            .collect();
        admit(&mut headers, underscores)?;
        let mut left: Vec<_> = headers.keys().map(ToString::to_string).collect();
        left.sort();
        Ok(left)
    }

    #[test]
    fn what_backends_mistake_goes_and_the_rest_as_the_listener_says() {
        let hyphens = ["content-length", "proxy-connection", "proxy-status"];
        let all = [
            "content-length",
            "content_length_2",
            "proxy-connection",
            "proxy-status",
            "x_tier",
        ];
        assert_eq!(left(Underscores::Allow).unwrap(), all);
        assert_eq!(left(Underscores::DropHeader).unwrap(), hyphens);
        assert_eq!(
            left(Underscores::RejectRequest),
            Err(Reason::UnderscoreInName)
        );
    }
}
