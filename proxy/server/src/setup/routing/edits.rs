//! Changes of a message's head that a route asks for.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri, Version};
use sprat_config::classify::Certificate;
use sprat_config::resolved::{HeaderEdits, Template, Variable};

/// The changes of a head, as they are made.
#[derive(Debug)]
pub(crate) struct Edits {
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, Template)>,
    add: Vec<(HeaderName, Template)>,
}

impl Edits {
    /// Returns the changes that a configuration asks for; none if it asks for none.
    ///
    /// # Errors
    ///
    /// Fails if no field has a name.
    pub(super) fn of(edits: &HeaderEdits) -> anyhow::Result<Option<Self>> {
        if edits.is_empty() {
            return Ok(None);
        }
        let name = |name: &String| HeaderName::from_bytes(name.as_bytes());
        let pairs = |pairs: &[(String, Template)]| {
            let pair = |(own, value): &(String, Template)| Ok((name(own)?, value.clone()));
            pairs.iter().map(pair).collect::<anyhow::Result<_>>()
        };
        Ok(Some(Self {
            remove: edits.remove.iter().map(name).collect::<Result<_, _>>()?,
            set: pairs(&edits.set)?,
            add: pairs(&edits.add)?,
        }))
    }

    fn variables(&self) -> impl Iterator<Item = &Variable> {
        let pairs = self.set.iter().chain(&self.add);
        pairs.flat_map(|(_, template)| template.variables())
    }

    /// Returns the values of the fields, as they are told now.
    pub(crate) fn values(&self, told: &Telling<'_>) -> Values {
        let value = |(_, template): &(HeaderName, Template)| {
            let text = template.render(&mut |variable, out| told.write(variable, out));
            // What a field of a message had is a field's value; a path is, too.
            HeaderValue::from_bytes(&text)
                .ok()
                .filter(|own| !own.is_empty())
        };
        Values {
            set: self.set.iter().map(value).collect(),
            add: self.add.iter().map(value).collect(),
        }
    }

    /// Applies the changes to the fields of a head, with these values.
    pub(crate) fn apply(&self, values: Values, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for ((name, _), value) in self.set.iter().zip(values.set) {
            match value {
                Some(value) => drop(headers.insert(name, value)),
                None => drop(headers.remove(name)),
            }
        }
        for ((name, _), value) in self.add.iter().zip(values.add) {
            if let Some(value) = value {
                headers.append(name, value);
            }
        }
    }
}

/// The values of fields, in the order of the changes; none of those that are empty.
pub(crate) struct Values {
    set: Vec<Option<HeaderValue>>,
    add: Vec<Option<HeaderValue>>,
}

/// The parts of requests that the values of a route's fields need. They are kept of each
/// request while it is on its way.
#[derive(Debug, Default)]
pub(crate) struct EditNeeds {
    fields: Vec<HeaderName>,
    certificate: bool,
}

impl EditNeeds {
    /// Returns the parts that the changes of requests and responses need.
    pub(super) fn of(edits: [Option<&Edits>; 2]) -> Self {
        let variables = edits.into_iter().flatten().flat_map(Edits::variables);
        let (mut fields, mut certificate) = (BTreeSet::new(), false);
        for variable in variables {
            match variable {
                Variable::RequestHeader(name) => drop(fields.insert(name.as_str())),
                Variable::PeerDns | Variable::PeerUris | Variable::PeerCommonName => {
                    certificate = true;
                }
                _ => {}
            }
        }
        let names = fields.into_iter().map(|name| name.parse().ok());
        Self {
            fields: names.flatten().collect(),
            certificate,
        }
    }
}

/// A request, as far as the values of fields may tell of it.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The address of the client, with its port.
    pub(crate) client: SocketAddr,
    /// The port that the client has connected to.
    pub(crate) local_port: u16,
    /// Whether the request came over TLS, to Sprat or to a proxy before it.
    pub(crate) is_secure: bool,
    version: Version,
    method: Method,
    /// The target as the client sent it.
    target: Uri,
    authority: Option<HeaderValue>,
    /// The fields of the request's head that are needed.
    fields: Vec<(HeaderName, HeaderValue)>,
    dns: String,
    uris: String,
    common_name: String,
}

/// A connection, as far as the values of fields may tell of it.
pub(crate) struct Peer<'a> {
    /// The address of the client, with its port.
    pub(crate) client: SocketAddr,
    /// The port that the client has connected to.
    pub(crate) local_port: u16,
    /// Whether the request came over TLS, to Sprat or to a proxy before it.
    pub(crate) is_secure: bool,
    /// The certificate that the client has shown.
    pub(crate) certificate: Option<Certificate<'a>>,
}

impl Subject {
    /// Keeps the parts of a request that are needed.
    pub(crate) fn new(
        peer: &Peer<'_>,
        request: &http::request::Parts,
        target: &Uri,
        authority: Option<&HeaderValue>,
        needs: &EditNeeds,
    ) -> Self {
        let fields = needs.fields.iter().flat_map(|name| {
            let values = request.headers.get_all(name).iter();
            values.map(|value| (name.clone(), value.clone()))
        });
        let shown = peer.certificate.filter(|_| needs.certificate);
        let shown = shown.unwrap_or_default();
        Self {
            client: peer.client,
            local_port: peer.local_port,
            is_secure: peer.is_secure,
            version: request.version,
            method: request.method.clone(),
            target: target.clone(),
            authority: authority.cloned(),
            fields: fields.collect(),
            dns: shown.dns.join(","),
            uris: shown.uris.join(","),
            common_name: shown.common_name.unwrap_or_default().to_owned(),
        }
    }
}

/// The facts that the values of fields may tell.
pub(crate) struct Telling<'a> {
    /// The request that the values tell of.
    pub(crate) subject: &'a Subject,
    /// The cluster that the request goes to; empty if it goes to none.
    pub(crate) cluster: &'a str,
    /// The endpoint that the response is from; empty if it is from none.
    pub(crate) endpoint: &'a str,
    /// The response's status and its fields.
    pub(crate) response: Option<(StatusCode, &'a HeaderMap)>,
}

impl Telling<'_> {
    /// Writes the value of a variable; nothing if it has none.
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
        let subject = self.subject;
        let text = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
        match variable {
            Variable::RemoteAddress => {
                text(out, &subject.client.ip().to_canonical().to_string());
            }
            Variable::RemotePort => text(out, &subject.client.port().to_string()),
            Variable::LocalPort => text(out, &subject.local_port.to_string()),
            Variable::Protocol => text(out, &format!("{:?}", subject.version)),
            Variable::Method => text(out, subject.method.as_str()),
            Variable::Path => {
                let target = subject.target.path_and_query();
                text(out, target.map_or("", |own| own.as_str()));
            }
            Variable::Authority => {
                let authority = subject.authority.as_ref();
                out.extend_from_slice(authority.map_or(&[], |own| own.as_bytes()));
            }
            Variable::Scheme => {
                text(out, if subject.is_secure { "https" } else { "http" });
            }
            Variable::PeerDns => text(out, &subject.dns),
            Variable::PeerUris => text(out, &subject.uris),
            Variable::PeerCommonName => text(out, &subject.common_name),
            Variable::Cluster => text(out, self.cluster),
            Variable::Endpoint => text(out, self.endpoint),
            Variable::RequestHeader(name) => {
                let own = subject
                    .fields
                    .iter()
                    .filter(|(own, _)| own.as_str() == name);
                write_list(own.map(|(_, value)| value), out);
            }
            Variable::ResponseCode => {
                if let Some((status, _)) = self.response {
                    text(out, status.as_str());
                }
            }
            Variable::ResponseHeader(name) => {
                if let Some((_, headers)) = self.response {
                    write_list(headers.get_all(name).iter(), out);
                }
            }
        }
    }
}

/// Writes the values of a field as one (RFC 9110 5.3).
fn write_list<'a>(values: impl Iterator<Item = &'a HeaderValue>, out: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value.as_bytes());
    }
}
