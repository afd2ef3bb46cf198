//! The conditions on a request for a route, beyond its host and its path.

use std::borrow::Cow;

use super::{Network, TextPattern};
use crate::asked::Asked;
use crate::fields::Fields;
use crate::safe_regex::SafeRegex;

/// Conditions that a request must all meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// An expression that matches the whole path.
    pub path: Option<SafeRegex>,
    /// The methods of which one is the request's; an empty list is every method.
    pub methods: Vec<String>,
    /// The conditions on header fields, by names in lower case.
    pub headers: Vec<ValueMatch>,
    /// The conditions on parameters of the query, by decoded names.
    pub query_parameters: Vec<ValueMatch>,
    /// The conditions on cookies, by name.
    pub cookies: Vec<ValueMatch>,
    /// The networks of which one has the client's address; an empty list is every client.
    pub clients: Vec<Network>,
}

/// A condition on the value of a field, a parameter or a cookie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueMatch {
    /// The name of a field, a parameter or a cookie.
    pub name: String,
    /// The form that one of its values must have.
    pub value: ValueIs,
    /// Whether the condition is that there is no such value.
    pub invert: bool,
}

/// The form that a value must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueIs {
    /// Any value is accepted.
    Any,
    /// A pattern of the whole value, or of its beginning.
    Text(TextPattern),
    /// An expression that matches the whole value.
    Regex(SafeRegex),
}

impl Conditions {
    /// Returns whether there is no condition, so that every request meets them.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a request meets all conditions; `query` is without its question mark.
    pub fn hold<F: Fields + ?Sized>(&self, asked: &Asked<'_, F>, query: &str) -> bool {
        let fields = asked.fields;
        (self.methods.is_empty() || self.methods.iter().any(|own| own == asked.method))
            && (self.path.as_ref()).is_none_or(|own| own.matches_all_of(asked.path))
            && (self.clients.is_empty() || is_in(&self.clients, asked))
            && self.headers.iter().all(|own| own.holds_for_field(fields))
            && self.cookies.iter().all(|own| own.holds_for_cookie(fields))
            && (self.query_parameters.iter()).all(|own| own.holds_for_parameter(query))
    }
}

fn is_in<F: Fields + ?Sized>(clients: &[Network], asked: &Asked<'_, F>) -> bool {
    let has = |client| clients.iter().any(|network| network.contains(client));
    asked.client.is_some_and(has)
}

impl ValueMatch {
    fn fits(&self, value: &str) -> bool {
        match &self.value {
            ValueIs::Any => true,
            ValueIs::Text(pattern) => pattern.matches(value),
            ValueIs::Regex(regex) => regex.matches_all_of(value),
        }
    }

    /// Returns whether the fields of a head meet the condition.
    pub fn holds_for_field(&self, fields: &(impl Fields + ?Sized)) -> bool {
        let has = match self.value {
            // A value that is no text is a value.
            ValueIs::Any => fields.contains(&self.name),
            _ => fields.any(&self.name, &mut |value| self.fits(value)),
        };
        has != self.invert
    }

    fn holds_for_cookie(&self, fields: &(impl Fields + ?Sized)) -> bool {
        let is_it = |pair: &str| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(name, value)| name == self.name && self.fits(value))
        };
        let has = fields.any("cookie", &mut |text| text.split(';').any(is_it));
        has != self.invert
    }

    fn holds_for_parameter(&self, query: &str) -> bool {
        let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
        let has = pairs.any(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            decoded(name) == self.name && self.fits(&decoded(value))
        });
        has != self.invert
    }
}

/// Returns a name or a value of a query as servers read it: `+` is a space, and what is
/// encoded is decoded, once (the URL Standard, application/x-www-form-urlencoded).
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let encoded = || u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?).ok();
        let (read, step) = match byte {
            b'+' => (b' ', 1),
            b'%' => encoded().map_or((b'%', 1), |own| (own, 3)),
            other => (other, 1),
        };
        out.push(read);
        at += step;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, value: ValueIs) -> ValueMatch {
        ValueMatch {
            name: name.to_owned(),
            value,
            invert: false,
        }
    }

    fn exact(text: &str) -> ValueIs {
        ValueIs::Text(TextPattern::Exact(text.to_owned()))
    }

    fn hold(conditions: &Conditions, line: &str, fields: &[(&str, &str)]) -> bool {
        let mut parts = line.split(' ');
        let method = parts.next().unwrap();
        let (path, query) = parts.next().unwrap().split_once('?').unwrap();
        let asked = Asked {
            client: "192.0.2.1".parse().ok(),
            dscp: None,
            certificate: None,
            user: None,
            host: "",
            path,
            method,
            fields,
        };
        conditions.hold(&asked, query)
    }

    #[test]
    fn all_of_them_must_hold() {
        let both = Conditions {
            methods: vec!["GET".to_owned(), "HEAD".to_owned()],
            path: Some(SafeRegex::new("/a/[0-9]+").unwrap()),
            ..Conditions::default()
        };
        assert!(hold(&both, "GET /a/1?", &[]));
        assert!(hold(&both, "HEAD /a/12?", &[]));
        assert!(!hold(&both, "POST /a/1?", &[]));
        assert!(!hold(&both, "GET /a/x?", &[]));
        assert!(hold(&Conditions::default(), "POST /?", &[]));
        assert!(!both.are_none());
    }

    #[test]
    fn clients_are_told_by_network() {
        let network = |text: &str| Network {
            address: text.parse().unwrap(),
            prefix_len: 24,
        };
        let of = |text| Conditions {
            clients: vec![network("10.0.0.0"), network(text)],
            ..Conditions::default()
        };
        assert!(hold(&of("192.0.2.0"), "GET /?", &[]));
        assert!(!hold(&of("198.51.100.0"), "GET /?", &[]));
    }

    #[test]
    fn fields_cookies_and_parameters_are_looked_for() {
        let header = |value| Conditions {
            headers: vec![named("x-tier", value)],
            ..Conditions::default()
        };
        let fields = [("x-tier", "gold"), ("cookie", "a=b; tier=1")];
        assert!(hold(&header(ValueIs::Any), "GET /?", &fields));
        assert!(hold(&header(exact("gold")), "GET /?", &fields));
        assert!(!hold(&header(exact("gol")), "GET /?", &fields));
        let regex = ValueIs::Regex(SafeRegex::new("g.*d").unwrap());
        assert!(hold(&header(regex), "GET /?", &fields));
        let cookie = Conditions {
            cookies: vec![named("tier", exact("1"))],
            ..Conditions::default()
        };
        assert!(hold(&cookie, "GET /?", &fields));
        assert!(!hold(&cookie, "GET /?", &fields[..1]));
    }

    #[test]
    fn what_must_not_be_there_is_inverted() {
        let mut absent = named("x-debug", ValueIs::Any);
        absent.invert = true;
        let conditions = Conditions {
            headers: vec![absent.clone()],
            query_parameters: vec![absent.clone()],
            cookies: vec![absent],
            ..Conditions::default()
        };
        assert!(hold(&conditions, "GET /?a=b", &[("x-other", "")]));
        assert!(!hold(&conditions, "GET /?a=b", &[("x-debug", "")]));
        assert!(!hold(&conditions, "GET /?x-debug", &[]));
        assert!(!hold(&conditions, "GET /?", &[("cookie", "x-debug=1")]));
    }

    #[test]
    fn parameters_are_compared_decoded() {
        for (query, holds) in [
            ("page=2", true),
            ("a=1&page=2", true),
            ("a=1&&page=2&page=3", true),
            ("page=3&page=2", true),
            ("p%61ge=%32", true),
            ("page=+2", false),
            ("page=2%", false),
            ("Page=2", false),
            ("page", false),
            ("", false),
        ] {
            let conditions = Conditions {
                query_parameters: vec![named("page", exact("2"))],
                ..Conditions::default()
            };
            assert_eq!(
                hold(&conditions, &format!("GET /?{query}"), &[]),
                holds,
                "{query}"
            );
        }
        let spaced = named("a b", exact("ä c"));
        assert!(spaced.holds_for_parameter("a+b=%C3%A4%20c"));
        assert!(spaced.holds_for_parameter("a%20b=%c3%a4+c"));
    }

    #[test]
    fn conditions_that_ask_for_nothing_are_none() {
        assert!(Conditions::default().are_none());
        let cookie = Conditions {
            cookies: vec![named("tier", ValueIs::Any)],
            ..Conditions::default()
        };
        assert!(!cookie.are_none());
    }

    #[test]
    fn a_field_whose_value_is_no_text_is_there() {
        /// A head with a single field, `x-bytes`, whose value is no text.
        struct Bytes;

        impl Fields for Bytes {
            fn any(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
                false
            }

            fn contains(&self, name: &str) -> bool {
                name == "x-bytes"
            }
        }

        assert!(named("x-bytes", ValueIs::Any).holds_for_field(&Bytes));
        assert!(!named("x-other", ValueIs::Any).holds_for_field(&Bytes));
        assert!(!named("x-bytes", exact("")).holds_for_field(&Bytes));
    }

    #[test]
    fn a_cookie_has_both_the_name_and_the_value() {
        for (sent, holds) in [
            ("tier=1", true),
            ("a=b;tier=1 ", true),
            ("tier=2; tier=1", true),
            ("tier=2", false),
            ("other=1", false),
            ("tier=2; other=1", false),
            ("tier", false),
        ] {
            let cookie = named("tier", exact("1"));
            assert_eq!(
                cookie.holds_for_cookie(&[("cookie", sent)][..]),
                holds,
                "{sent}"
            );
        }
    }
}
