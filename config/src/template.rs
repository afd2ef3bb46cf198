//! Text with variables between percent signs, in the words of Envoy's command operators: values of
//! header fields, and lines of the access log. Each has a closed set of variables. The value of a
//! variable is not searched for further ones.

use std::borrow::Cow;

use crate::names::is_token;

/// A text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template<V = Variable> {
    text: String,
    pieces: Vec<Piece<V>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Piece<V> {
    Text(String),
    Variable(V),
}

/// A closed set of variables.
pub trait Named: Sized {
    /// Returns the variable of this name between percent signs; none if there is no such variable.
    fn named(name: &str) -> Option<Self>;
}

/// A property of a request or its response that a template may name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// The client's address, without its port.
    RemoteAddress,
    /// The port that the client sends from.
    RemotePort,
    /// The port that the client has connected to.
    LocalPort,
    /// The version of HTTP that the client speaks.
    Protocol,
    /// A header field of the request, by its name in lower case.
    RequestHeader(String),
    /// The method of the request.
    Method,
    /// The target that the client asked for, with its query.
    Path,
    /// The host that the client asked for, with its port if it named one.
    Authority,
    /// The scheme, `http` or `https`.
    Scheme,
    /// The hosts in the certificate that the client has shown.
    PeerDns,
    /// The URIs in the certificate that the client has shown.
    PeerUris,
    /// The common name of the certificate that the client has shown.
    PeerCommonName,
    /// The cluster that the request goes to.
    Cluster,
    /// The endpoint that the response comes from.
    Endpoint,
    /// The status of the response.
    ResponseCode,
    /// A header field of the response, by its name in lower case.
    ResponseHeader(String),
}

impl Variable {
    /// Returns whether the variable is known only once there is a response.
    pub fn is_of_response(&self) -> bool {
        matches!(
            self,
            Self::Endpoint | Self::ResponseCode | Self::ResponseHeader(_)
        )
    }
}

impl Named for Variable {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => Self::RemoteAddress,
            "DOWNSTREAM_REMOTE_PORT" => Self::RemotePort,
            "DOWNSTREAM_LOCAL_PORT" => Self::LocalPort,
            "DOWNSTREAM_PEER_DNS_SAN" => Self::PeerDns,
            "DOWNSTREAM_PEER_URI_SAN" => Self::PeerUris,
            "DOWNSTREAM_PEER_COMMON_NAME" => Self::PeerCommonName,
            "PROTOCOL" => Self::Protocol,
            "UPSTREAM_CLUSTER" => Self::Cluster,
            "UPSTREAM_HOST" => Self::Endpoint,
            "RESPONSE_CODE" => Self::ResponseCode,
            "REQ(:METHOD)" => Self::Method,
            "REQ(:PATH)" => Self::Path,
            "REQ(:AUTHORITY)" => Self::Authority,
            "REQ(:SCHEME)" => Self::Scheme,
            other => {
                let field = |kind: &str| {
                    let name = other.strip_prefix(kind)?.strip_suffix(')')?;
                    is_token(name).then(|| name.to_ascii_lowercase())
                };
                return field("REQ(")
                    .map(Self::RequestHeader)
                    .or_else(|| field("RESP(").map(Self::ResponseHeader));
            }
        })
    }
}

/// The variables of header templates, as an error lists them.
pub(crate) const NAMES: [&str; 16] = [
    "REQ(NAME)",
    "REQ(:METHOD)",
    "REQ(:PATH)",
    "REQ(:AUTHORITY)",
    "REQ(:SCHEME)",
    "RESP(NAME)",
    "RESPONSE_CODE",
    "PROTOCOL",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_REMOTE_PORT",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_PEER_DNS_SAN",
    "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_PEER_COMMON_NAME",
    "UPSTREAM_CLUSTER",
    "UPSTREAM_HOST",
];

/// A fault in a template, with the variable at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplateFault {
    /// A percent sign begins a variable that does not end.
    Open,
    /// There is no variable of this name.
    Unknown(String),
}

impl<V: Named> Template<V> {
    /// Parses a template; `%%` is a percent sign.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateFault> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            plain.push_str(before);
            let Some((name, next)) = after.split_once('%') else {
                return Err(TemplateFault::Open);
            };
            match name {
                "" => plain.push('%'),
                name => {
                    let unknown = || TemplateFault::Unknown(name.to_owned());
                    let variable = V::named(name).ok_or_else(unknown)?;
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Variable(variable));
                }
            }
            rest = next;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self {
            text: text.to_owned(),
            pieces,
        })
    }
}

impl<V> Template<V> {
    /// Returns the template as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the variables in the template.
    pub fn variables(&self) -> impl Iterator<Item = &V> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(variable),
            Piece::Text(_) => None,
        })
    }

    /// Returns the variable that is the whole template; none if the template is anything else.
    pub fn sole(&self) -> Option<&V> {
        match &self.pieces[..] {
            [Piece::Variable(variable)] => Some(variable),
            _ => None,
        }
    }

    /// Writes the template's text to `out`; `value` writes the value of each variable.
    pub fn write<'a>(&'a self, out: &mut Vec<u8>, value: &mut dyn FnMut(&'a V, &mut Vec<u8>)) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Variable(variable) => value(variable, out),
            }
        }
    }

    /// Returns the template's text; `value` writes the value of each variable, or nothing if it has
    /// none.
    pub fn render<'a>(&'a self, value: &mut dyn FnMut(&'a V, &mut Vec<u8>)) -> Cow<'a, [u8]> {
        match &self.pieces[..] {
            [] => Cow::Borrowed(&[]),
            [Piece::Text(text)] => Cow::Borrowed(text.as_bytes()),
            _ => {
                let mut out = Vec::with_capacity(64);
                self.write(&mut out, value);
                Cow::Owned(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let template = Template::<Variable>::parse(text).unwrap();
        let out = template.render(&mut |variable, out| {
            out.extend_from_slice(format!("<{variable:?}>").as_bytes());
        });
        String::from_utf8(out.into_owned()).unwrap()
    }

    #[test]
    fn variables_are_put_in() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("100%%", "100%"),
            ("%PROTOCOL%", "<Protocol>"),
            (
                "a%REQ(X-Tier)%b%REQ(:PATH)%",
                "a<RequestHeader(\"x-tier\")>b<Path>",
            ),
            ("%%%RESPONSE_CODE%%%", "%<ResponseCode>%"),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    #[test]
    fn every_variable_that_is_listed_is_there() {
        for name in NAMES {
            assert!(
                Template::<Variable>::parse(&format!("%{name}%")).is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_no_variable_is_told() {
        let unknown = |name: &str| Err(TemplateFault::Unknown(name.to_owned()));
        assert_eq!(
            Template::<Variable>::parse("5% of"),
            Err(TemplateFault::Open)
        );
        assert_eq!(Template::<Variable>::parse("%HOST%"), unknown("HOST"));
        assert_eq!(Template::<Variable>::parse("%REQ()%"), unknown("REQ()"));
        assert_eq!(Template::<Variable>::parse("%REQ(:X)%"), unknown("REQ(:X)"));
        assert_eq!(Template::<Variable>::parse("a %b% c"), unknown("b"));
    }

    #[test]
    fn a_text_without_variables_is_not_copied() {
        for (text, expected) in [("", ""), ("plain", "plain"), ("100%%", "100%")] {
            let template = Template::<Variable>::parse(text).unwrap();
            let rendered = template.render(&mut |_, _| {});
            assert!(
                matches!(rendered, Cow::Borrowed(own) if own == expected.as_bytes()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_template_knows_how_it_is_written_and_whether_it_is_one_variable() {
        for (text, sole) in [
            ("%PROTOCOL%", Some(Variable::Protocol)),
            ("%PROTOCOL%%%", None),
            ("%PROTOCOL%%REQ(:PATH)%", None),
            ("PROTOCOL", None),
            ("", None),
        ] {
            let template = Template::<Variable>::parse(text).unwrap();
            assert_eq!(template.as_str(), text);
            assert_eq!(template.sole(), sole.as_ref(), "{text}");
        }
    }
}
