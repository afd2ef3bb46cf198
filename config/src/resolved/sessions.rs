//! Sessions: requests of a client that stay with one endpoint.

use super::FileAt;

/// The cookie by which later requests of a session find the endpoint of the first request.
#[derive(Clone, Debug, PartialEq)]
pub struct StatefulSession {
    /// The name of the cookie that identifies a session.
    pub cookie: String,
    /// The attributes of the cookie: the text after its value, from the first semicolon on.
    pub attributes: String,
    /// Whether a request is refused if its session's endpoint is gone or out of use.
    pub strict: bool,
    /// The file with the secret key; none if each process makes a key of its own.
    pub key_file: Option<FileAt>,
}

/// An attribute of a cookie, beside its path and its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieAttributeName {
    /// The cookie is sent over TLS alone.
    Secure,
    /// Scripts do not see the cookie.
    HttpOnly,
    /// The value says whether the cookie is sent with requests that other sites cause.
    SameSite,
    /// The value is the domain whose hosts the cookie is sent to.
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
