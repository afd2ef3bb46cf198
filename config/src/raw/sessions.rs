//! Sessions as they are written: requests that stay with an endpoint.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::containers::List;
use crate::decode::Class;
use crate::names::{FilePath, Pseudonym};
use crate::record::{choices, record};
use crate::resolved::CookieAttributeName;
use crate::scalars::{Fault, Flag, Leaf, Time};

record! {
    /// Later requests of a session go to the endpoint that had its first.
    closed struct StatefulSession {
        /// The cookie that a session is known by. It names no address: its value is
        /// made of the endpoint's with a secret key.
        required cookie: SessionCookie,
        /// Answer a session's request with 503 if its endpoint is gone or out of
        /// use. Otherwise another is chosen, and the session stays there.
        default("false") strict: Flag,
        /// A file with the secret key: one line of 16 to 1024 visible characters.
        /// Without it the key is drawn when the process starts, and sessions end
        /// with it.
        optional key_file: FilePath,
    }

    /// A cookie of Sprat's own. It is `HttpOnly`.
    closed struct SessionCookie {
        /// What it is called.
        required name: CookieName,
        /// How long the client keeps it; 0 is until it is closed.
        default("0s") ttl: Time<0>,
        /// The paths that the client sends it with begin with this one.
        default("/") path: CookiePath,
        /// What else is said of it.
        default("[]") attributes: List<CookieAttribute, 0>,
    }

    /// An attribute of a cookie.
    closed struct CookieAttribute {
        /// Which attribute it is.
        required name: CookieAttributeName,
        /// What it is, for `SameSite` and `Domain` alone.
        optional value: CookieValue,
    }
}

choices! {
    CookieAttributeName as "CookieAttributeName": "an attribute of a cookie" {
        /// The cookie is sent over TLS alone.
        "Secure" => Self::Secure,
        /// Scripts do not see the cookie, as none does in any case.
        "HttpOnly" => Self::HttpOnly,
        /// Whether the cookie goes with requests that other sites lead to: `Strict`, `Lax`
        /// or `None`.
        "SameSite" => Self::SameSite,
        /// The domain whose hosts the cookie is sent to.
        "Domain" => Self::Domain,
        /// The cookie is kept apart for each site that embeds this one.
        "Partitioned" => Self::Partitioned,
    }
}

/// A cookie's name: a token (RFC 6265 4.1.1).
#[derive(Clone, Debug)]
pub(crate) struct CookieName(pub(crate) String);

impl Leaf for CookieName {
    fn expected() -> Cow<'static, str> {
        "the name of a cookie, such as sprat-session".into()
    }

    fn accepts() -> Value {
        Pseudonym::accepts()
    }

    fn parse(text: &str, class: Class) -> Result<Self, Fault> {
        Pseudonym::parse(text, class).map(|name| Self(name.0))
    }
}

/// A cookie's path (RFC 6265 4.1.1).
#[derive(Clone, Debug)]
pub(crate) struct CookiePath(pub(crate) String);

impl Leaf for CookiePath {
    fn expected() -> Cow<'static, str> {
        "a path, such as /shop".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^/[!-:<-~]{0,255}$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.starts_with('/') && is_attribute(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// The value of a cookie's attribute (RFC 6265 4.1.1).
#[derive(Clone, Debug)]
pub(crate) struct CookieValue(pub(crate) String);

impl Leaf for CookieValue {
    fn expected() -> Cow<'static, str> {
        "a value without spaces and semicolons, such as Lax".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[!-:<-~]{1,256}$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match is_attribute(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::PLAIN),
        }
    }
}

fn is_attribute(text: &str) -> bool {
    let valid = |b: u8| b.is_ascii_graphic() && b != b';';
    (1..=256).contains(&text.len()) && text.bytes().all(valid)
}
