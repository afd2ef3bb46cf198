//! What is asked for: the properties of a request that routes and rules of classes go by.

use std::net::IpAddr;

/// The properties of a request that routes and rules go by.
pub struct Asked<'a, F: ?Sized> {
    /// The client's address; none if it has none (a Unix socket).
    pub client: Option<IpAddr>,
    /// The code point that its connection was marked with.
    pub dscp: Option<u8>,
    /// The certificate that the client has shown, if it has.
    pub certificate: Option<Certificate<'a>>,
    /// The user that its route has found out; none where that is not known (yet).
    pub user: Option<&'a str>,
    /// The host without its port; empty if there is none.
    pub host: &'a str,
    /// The path of the target.
    pub path: &'a str,
    /// The request's method, as it came.
    pub method: &'a str,
    /// The request's fields, as they came.
    pub fields: &'a F,
}

/// The names in a client's certificate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Certificate<'a> {
    /// Names of hosts in its subjectAltName, in lower case.
    pub dns: &'a [String],
    /// URIs in its subjectAltName.
    pub uris: &'a [String],
    /// The common name of its subject.
    pub common_name: Option<&'a str>,
}
