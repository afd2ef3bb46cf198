//! The properties of a request that routes and rules of classes go by.

use std::net::IpAddr;

/// A request, as routes and rules of classes see it; `F` has its header fields.
pub struct Asked<'a, F: ?Sized> {
    /// The client's address; none if it has none (a Unix socket).
    pub client: Option<IpAddr>,
    /// The DSCP code point of the client's connection, if it is known.
    pub dscp: Option<u8>,
    /// The certificate that the client has shown, if it has.
    pub certificate: Option<Certificate<'a>>,
    /// The user that the request's route has identified; none if there is none, or not yet.
    pub user: Option<&'a str>,
    /// The host that the client asked for, without its port; empty if there is none.
    pub host: &'a str,
    /// The path of the request's target.
    pub path: &'a str,
    /// The request's method, as the client sent it.
    pub method: &'a str,
    /// The request's header fields, as the client sent them.
    pub fields: &'a F,
}

/// The names in a client's certificate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Certificate<'a> {
    /// The names of hosts in the certificate's subjectAltName, in lower case.
    pub dns: &'a [String],
    /// The URIs in the certificate's subjectAltName.
    pub uris: &'a [String],
    /// The common name of the certificate's subject.
    pub common_name: Option<&'a str>,
}
