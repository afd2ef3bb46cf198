//! From a request to its priority class: the first rule that matches (SDIS02
//! section 2: client, network, content, owner).

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, COOKIE, HeaderName};
use http::{HeaderMap, Method};
use sprat_config::resolved::{ClassMatch, Classes, FieldMatch, TextPattern};

use crate::routing::{host_matches, path_matches};

/// RFC 9218.
const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// The urgency of a request that does not say (RFC 9218 4.1).
const DEFAULT_URGENCY: u8 = 3;

/// Where clients say that they are prefetching (WHATWG Fetch 2.2.7, and its
/// predecessor).
const PURPOSES: [HeaderName; 2] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
];

/// What classes go by.
pub(crate) struct Asked<'a> {
    /// The client's address.
    pub(crate) client: IpAddr,
    /// The code point that its connection was marked with.
    pub(crate) dscp: Option<u8>,
    /// Without port; empty if there is none.
    pub(crate) host: &'a str,
    /// The path of the target.
    pub(crate) path: &'a str,
    /// Its method.
    pub(crate) method: &'a Method,
    /// As they came.
    pub(crate) headers: &'a HeaderMap,
}

/// A request's class, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classified {
    /// Index into the configuration's classes.
    pub(crate) class: usize,
    /// Index of the rule; none if none matched.
    pub(crate) rule: Option<usize>,
}

/// The rules, by index and in order, that go before a request's own if its
/// response is of their type.
pub(crate) type Later = Box<[usize]>;

/// The configuration's rules as workers use them.
#[derive(Debug)]
pub(crate) struct Classifier {
    rules: Vec<Rule>,
    default: usize,
    names: Vec<Arc<str>>,
}

#[derive(Debug)]
struct Rule {
    matches: ClassMatch,
    headers: Vec<(HeaderName, Option<TextPattern>)>,
    class: usize,
}

impl Classifier {
    /// # Errors
    ///
    /// A header field's name that HTTP does not allow.
    pub(crate) fn new(classes: &Classes) -> anyhow::Result<Self> {
        let rule = |rule: &sprat_config::resolved::ClassRule| {
            let header = |field: &FieldMatch| {
                let name = HeaderName::try_from(field.name.as_str())?;
                anyhow::Ok((name, field.value.clone()))
            };
            let headers = rule.matches.headers.iter().map(header);
            anyhow::Ok(Rule {
                headers: headers.collect::<Result<_, _>>()?,
                matches: rule.matches.clone(),
                class: rule.class,
            })
        };
        let names = classes.list.iter().map(|class| class.name.as_str().into());
        Ok(Self {
            rules: classes.rules.iter().map(rule).collect::<Result<_, _>>()?,
            default: classes.default,
            names: names.collect(),
        })
    }

    /// The class of a request that no rule matches.
    pub(crate) fn default_class(&self) -> usize {
        self.default
    }

    /// A class's name.
    pub(crate) fn name(&self, class: usize) -> &Arc<str> {
        &self.names[class]
    }

    /// Whether a rule looks at the connection's code point.
    pub(crate) fn wants_dscp(&self) -> bool {
        self.rules.iter().any(|rule| !rule.matches.dscp.is_empty())
    }

    /// The class of a request.
    pub(crate) fn classify(&self, asked: &Asked<'_>) -> Classified {
        let fits = |rule: &Rule| rule.matches.response_types.is_empty() && rule.matches(asked);
        let rule = self.rules.iter().position(fits);
        Classified {
            class: rule.map_or(self.default, |rule| self.rules[rule].class),
            rule,
        }
    }

    /// What may change a request's class when its response comes; `None` if
    /// nothing does.
    pub(crate) fn later(&self, asked: &Asked<'_>, classified: Classified) -> Option<Later> {
        let before = classified.rule.unwrap_or(self.rules.len());
        let rules = self.rules[..before].iter().enumerate();
        let later = rules
            .filter(|(_, rule)| !rule.matches.response_types.is_empty() && rule.matches(asked))
            .map(|(index, _)| index);
        let later: Later = later.collect();
        (!later.is_empty()).then_some(later)
    }

    /// The class of a response whose request was given `class` and these later
    /// rules.
    pub(crate) fn reclassify(&self, class: usize, later: &[usize], response: &HeaderMap) -> usize {
        let rules = later.iter().map(|&index| &self.rules[index]);
        let mut fitting = rules.filter(|rule| {
            let types = &rule.matches.response_types;
            types.iter().any(|own| has_type(response, own))
        });
        fitting.next().map_or(class, |rule| rule.class)
    }
}

impl Rule {
    fn matches(&self, asked: &Asked<'_>) -> bool {
        let rule = &self.matches;
        let headers = asked.headers;
        (!rule.prefetch || is_prefetch(headers))
            && any(&rule.clients, |network| network.contains(asked.client))
            && any(&rule.dscp, |&dscp| asked.dscp == Some(dscp))
            && host_matches(&rule.hosts, asked.host)
            && path_matches(&rule.path, asked.path)
            && any(&rule.extensions, |own| has_extension(asked.path, own))
            && any(&rule.methods, |own| own == asked.method.as_str())
            && self.headers.iter().all(|field| has_header(headers, field))
            && rule.cookies.iter().all(|field| has_cookie(headers, field))
            && any(&rule.content_types, |own| has_type(headers, own))
            && (rule.urgency.is_empty() || rule.urgency.contains(&urgency(headers)))
    }
}

/// Whether one of them fits; an empty list is not looked at.
fn any<T>(list: &[T], fits: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(fits)
}

fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = headers.get_all(name).iter();
    values.filter_map(|value| value.to_str().ok())
}

fn is_prefetch(headers: &HeaderMap) -> bool {
    PURPOSES.iter().any(|name| {
        let mut words = texts(headers, name).flat_map(|text| text.split([',', ';']));
        words.any(|word| word.trim().eq_ignore_ascii_case("prefetch"))
    })
}

fn has_extension(path: &str, extension: &str) -> bool {
    let segment = path.rsplit('/').next().unwrap_or(path);
    let found = segment.rsplit_once('.').map(|(_, found)| found);
    found.is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn has_header(headers: &HeaderMap, (name, value): &(HeaderName, Option<TextPattern>)) -> bool {
    match value {
        None => headers.contains_key(name),
        Some(pattern) => texts(headers, name).any(|text| pattern.matches(text)),
    }
}

fn has_cookie(headers: &HeaderMap, field: &FieldMatch) -> bool {
    let mut pairs = texts(headers, &COOKIE)
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.any(|(name, value)| {
        let pattern = field.value.as_ref();
        name == field.name && pattern.is_none_or(|pattern| pattern.matches(value))
    })
}

fn has_type(headers: &HeaderMap, pattern: &TextPattern) -> bool {
    texts(headers, &CONTENT_TYPE).any(|text| {
        let kind = text.split(';').next().unwrap_or(text).trim();
        pattern.matches(&kind.to_ascii_lowercase())
    })
}

/// `u` of the `Priority` field; the last one counts, and what is not a number
/// from 0 to 7 is ignored (RFC 9218 4).
fn urgency(headers: &HeaderMap) -> u8 {
    let members = texts(headers, &PRIORITY).flat_map(|text| text.split(','));
    let digits = members.filter_map(|member| {
        let (key, value) = member.trim().split_once('=')?;
        let value = value.split(';').next()?;
        (key == "u").then(|| value.parse().ok().filter(|&urgency| urgency <= 7))
    });
    digits.last().flatten().unwrap_or(DEFAULT_URGENCY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
version: 1
listeners: [{address: 127.0.0.1:80}]
clusters: {farm: {endpoints: [a:1]}}
routes: [{cluster: farm}]
classes: {gold: {level: 0}, media: {level: 1}, bulk: {level: 9}}
class_rules:
  - {match: {cookies: [{name: tier, value: gold}]}, class: gold}
  - {match: {clients: [10.1.0.0/16], methods: [GET, HEAD]}, class: gold}
  - {match: {dscp: [ef]}, class: media}
  - {match: {headers: [{name: X-Job}, {name: X-Size, value: big*}]}, class: bulk}
  - {match: {hosts: ['*.bulk.example']}, class: bulk}
  - {match: {extensions: [jpg, iso]}, class: media}
  - {match: {prefix: /files, content_types: [image/*, application/json]}, class: bulk}
  - {match: {urgency: [6, 7]}, class: background}
  - {match: {urgency: [0], hosts: [plain.example]}, class: default}
";

    /// The class of a request `METHOD host path`, with header fields.
    fn class_from(client: &str, dscp: Option<u8>, line: &str, fields: &[(&str, &str)]) -> String {
        let config = sprat_config::parse(FILE, "test", &|_| None).unwrap().config;
        let classifier = Classifier::new(&config.classes).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::try_from(*name).unwrap();
            headers.append(name, value.parse().unwrap());
        }
        let mut parts = line.split(' ');
        let mut part = || parts.next().unwrap();
        let classified = classifier.classify(&Asked {
            client: client.parse().unwrap(),
            dscp,
            method: &part().parse().unwrap(),
            host: part(),
            path: part(),
            headers: &headers,
        });
        classifier.name(classified.class).to_string()
    }

    fn class(line: &str, fields: &[(&str, &str)]) -> String {
        class_from("192.0.2.1", None, line, fields)
    }

    #[test]
    fn the_first_rule_that_matches_wins() {
        assert_eq!(class("GET h /", &[]), "default");
        assert_eq!(class_from("10.1.2.3", None, "GET h /", &[]), "gold");
        assert_eq!(class_from("::ffff:10.1.2.3", None, "GET h /", &[]), "gold");
        assert_eq!(class_from("10.1.2.3", None, "POST h /", &[]), "default");
        assert_eq!(class_from("10.2.2.3", None, "GET h /a.iso", &[]), "media");
        assert_eq!(class_from("10.1.2.3", Some(46), "GET h /", &[]), "gold");
        assert_eq!(class_from("10.2.2.3", Some(46), "GET h /", &[]), "media");
        assert_eq!(class_from("10.2.2.3", Some(0), "GET h /", &[]), "default");
    }

    #[test]
    fn header_fields_and_cookies() {
        let cookie = |value| class("GET h /", &[("cookie", value)]);
        assert_eq!(cookie("a=b; tier=gold"), "gold");
        assert_eq!(cookie("tier=golden"), "default");
        assert_eq!(cookie("Tier=gold"), "default");
        assert_eq!(cookie("xtier=gold"), "default");
        let bulk = |fields: &[(&str, &str)]| class("GET h /", fields) == "bulk";
        assert!(bulk(&[("x-job", ""), ("x-size", "bigger")]));
        assert!(!bulk(&[("x-job", ""), ("x-size", "small")]));
        assert!(!bulk(&[("x-size", "big")]));
    }

    #[test]
    fn hosts_paths_and_types() {
        assert_eq!(class("GET a.bulk.example /", &[]), "bulk");
        assert_eq!(class("GET bulk.example /", &[]), "default");
        assert_eq!(class("GET h /a.b/c.JPG", &[]), "media");
        assert_eq!(class("GET h /a.jpg/c", &[]), "default");
        let typed = |path: &str, kind| class(&format!("PUT h {path}"), &[("content-type", kind)]);
        assert_eq!(typed("/files/a", "Image/png"), "bulk");
        assert_eq!(typed("/files", "application/json; charset=utf-8"), "bulk");
        assert_eq!(typed("/filesystem", "application/json"), "default");
        assert_eq!(typed("/files", "application/jsonp"), "default");
    }

    #[test]
    fn urgencies_and_prefetches() {
        let urgent = |value| class("GET h /", &[("priority", value)]);
        assert_eq!(urgent("u=7"), "background");
        assert_eq!(urgent("i, u=6"), "background");
        assert_eq!(urgent("u=5"), "default");
        assert_eq!(urgent("u=9"), "default");
        // The last one counts (RFC 8941 3.2).
        assert_eq!(urgent("u=7, u=1"), "default");
        let purpose = |name, value| class("GET h /", &[(name, value)]);
        assert_eq!(purpose("sec-purpose", "prefetch;prerender"), "background");
        assert_eq!(purpose("purpose", "prefetch"), "background");
        assert_eq!(purpose("purpose", "preview"), "default");
        // A rule of the operator's comes first.
        let own = [("sec-purpose", "prefetch"), ("priority", "u=0")];
        assert_eq!(class("GET plain.example /", &own), "default");
    }
}
