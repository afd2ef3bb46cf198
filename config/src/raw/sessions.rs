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
    /// Sticky sessions: later requests of a session go to the endpoint that got its first one.
    closed struct StatefulSession {
        /// The cookie of a session. It does not show the endpoint's address: its value is made of
        /// the address with a secret key.
        required cookie: SessionCookie,
        /// If a session's endpoint is gone or out of use, answer the session's requests with 503.
        /// With `false` Sprat chooses another endpoint, and the session stays there.
        default("false") strict: Flag,
        /// File with the secret key: one line of 16 to 1024 visible characters. If absent, Sprat
        /// makes a random key when the process starts, and sessions end with the process.
        optional key_file: FilePath,
    }

    /// The cookie that Sprat sets for a session. It is always `HttpOnly`.
    closed struct SessionCookie {
        /// Name of the cookie.
        required name: CookieName,
        /// How long the client keeps the cookie; 0 is until the browser is closed.
        default("0s") ttl: Time<0>,
        /// `Path` of the cookie: the client sends it with requests whose path begins with this one.
        default("/") path: CookiePath,
        /// More attributes of the cookie.
        default("[]") attributes: List<CookieAttribute, 0>,
    }

    /// An attribute of a cookie.
    closed struct CookieAttribute {
        /// Name of the attribute.
        required name: CookieAttributeName,
        /// Value of the attribute; only `SameSite` and `Domain` have one.
        optional value: CookieValue,
    }
}

choices! {
    CookieAttributeName as "CookieAttributeName": "an attribute of a cookie" {
        /// The client sends the cookie over TLS only.
        "Secure" => Self::Secure,
        /// Scripts do not see the cookie. Sprat sets this in any case.
        "HttpOnly" => Self::HttpOnly,
        /// Whether the client sends the cookie with requests that come from other sites: `Strict`,
        /// `Lax` or `None`.
        "SameSite" => Self::SameSite,
        /// Domain whose hosts the client sends the cookie to.
        "Domain" => Self::Domain,
        /// The browser keeps a separate cookie for each site that embeds this one.
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
