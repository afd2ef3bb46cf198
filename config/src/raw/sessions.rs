//! Sessions as they are written: requests that stay with an endpoint.

use crate::containers::List;
use crate::names::{FilePath, TOKEN_PATTERN, is_token};
use crate::record::{choices, record};
use crate::resolved::CookieAttributeName;
use crate::scalars::{Flag, Time};
use crate::texts::{is_made_of, texts};

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

texts! {
    /// A cookie's name: a token (RFC 6265 4.1.1).
    CookieName: "the name of a cookie, such as sprat-session",
        {"pattern": TOKEN_PATTERN},
        is_token;

    /// A cookie's path (RFC 6265 4.1.1).
    CookiePath: "a path, such as /shop",
        {"pattern": "^/[!-:<-~]{0,255}$"},
        |text| text.starts_with('/') && is_attribute(text);

    /// The value of a cookie's attribute (RFC 6265 4.1.1).
    CookieValue: "a value without spaces and semicolons, such as Lax",
        {"pattern": "^[!-:<-~]{1,256}$"},
        is_attribute;
}

fn is_attribute(text: &str) -> bool {
    let valid = |b: u8| b.is_ascii_graphic() && b != b';';
    is_made_of(text, 1..=256, valid)
}
