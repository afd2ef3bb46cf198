//! Basic authentication: users who give a name and a password (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::{AUTHORIZATION, HeaderMap};
use http::request::Parts;
use sprat_net::error::{Advice, Denial, Reason};
use sprat_net::headers::remove_alike;

use crate::exchange::record::Routing;
use crate::setup::routing::{Basic, Denied};

/// Checks the user's name and password.
///
/// # Errors
///
/// Fails if the request names no user, if name or password are wrong, or if too many
/// passwords are being checked.
pub(super) async fn check(
    basic: &Basic,
    parts: &mut Parts,
    terms: &mut Routing,
) -> Result<(), Denial> {
    if let Some(name) = &basic.username_header {
        remove_alike(&mut parts.headers, name);
    }
    let denied = match named(&parts.headers) {
        Some((user, password)) => match basic.users.check(&user, &password).await {
            Ok(()) => {
                if let Some(name) = &basic.username_header
                    && let Ok(value) = HeaderValue::try_from(user.as_str())
                {
                    parts.headers.insert(name, value);
                }
                terms.is_of_user(user.into());
                return Ok(());
            }
            Err(denied) => denied,
        },
        None => Denied::Wrong,
    };
    Err(match denied {
        Denied::Wrong => {
            let advice = Advice::challenge(basic.challenge.clone());
            Denial::with(Reason::Unauthenticated, advice)
        }
        Denied::Busy => Denial::with(Reason::AuthBusy, Advice::later(1)),
    })
}

/// Returns the name and the password in a head; none if there are none, or several.
fn named(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, coded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = STANDARD.decode(coded.trim()).ok()?;
    let at = plain.iter().position(|&byte| byte == b':')?;
    let user = String::from_utf8(plain[..at].to_vec()).ok()?;
    Some((user, plain[at + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_password_are_read() {
        for (value, expected) in [
            (
                "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                Some(("Aladdin", "open sesame")),
            ),
            ("basic dXNlcjphOmI=", Some(("user", "a:b"))),
            ("Basic dXNlcjo=", Some(("user", ""))),
            ("Basic dXNlcg==", None),
            ("Basic !", None),
            ("Bearer abc", None),
            ("Basic", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            let read = named(&headers);
            let read = read
                .as_ref()
                .map(|(user, password)| (user.as_str(), &password[..]));
            let expected = expected.map(|(user, password)| (user, password.as_bytes()));
            assert_eq!(read, expected, "{value}");
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(named(&headers), None);
        }
    }
}
