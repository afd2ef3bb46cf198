//! Sessions: requests that stay with an endpoint.

use super::FileAt;

/// The cookie by which later requests of a session find the endpoint that had its first.
#[derive(Clone, Debug, PartialEq)]
pub struct StatefulSession {
    /// The name of the cookie that a session is known by.
    pub cookie: String,
    /// The text that follows the cookie's value, from its first semicolon on.
    pub attributes: String,
    /// Whether a request is refused whose endpoint is gone or out of use.
    pub strict: bool,
    /// The file with the secret key; none if the key is the process's own.
    pub key_file: Option<FileAt>,
}

/// An attribute of a cookie, beside its path and how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieAttributeName {
    /// The cookie is sent over TLS alone.
    Secure,
    /// Scripts do not see the cookie.
    HttpOnly,
    /// Whether the cookie is sent with requests that other sites lead to.
    SameSite,
    /// The domain whose hosts the cookie is sent to.
    Domain,
    /// The cookie is kept apart for each site that embeds this one.
    Partitioned,
}

impl CookieAttributeName {
    /// Returns the name as it stands in `Set-Cookie`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Secure => "Secure",
            Self::HttpOnly => "HttpOnly",
            Self::SameSite => "SameSite",
            Self::Domain => "Domain",
            Self::Partitioned => "Partitioned",
        }
    }
}
