//! The priority class of a request: that of the first rule that matches (SDIS02 section 2: client,
//! network, content, owner). The proxy and the filters ask the same code.

use std::sync::Arc;

pub use crate::asked::{Asked, Certificate};
use crate::fields::Fields;
use crate::resolved::{
    CertificateMatch, ClassMatch, Classes, FieldMatch, TextPattern, host_matches,
};

/// The urgency of a request whose client gives none (RFC 9218 4.1).
const DEFAULT_URGENCY: u8 = 3;

/// The fields by which clients say that they are prefetching (WHATWG Fetch 2.2.7, and its
/// predecessor).
const PURPOSES: [&str; 2] = ["sec-purpose", "purpose"];

/// A request's class, and the rule that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The index of the class in the configuration's list.
    pub class: usize,
    /// The index of the rule; none if no rule matched and the class is the default.
    pub rule: Option<usize>,
}

/// The indices of rules that may change a request's class once the type of its response is known,
/// in the order of the configuration.
pub type Later = Box<[usize]>;

/// The configuration's rules, in the form in which requests are matched with them.
#[derive(Debug)]
pub struct Classifier {
    rules: Vec<Rule>,
    default: usize,
    background: usize,
    names: Vec<Arc<str>>,
}

#[derive(Debug)]
struct Rule {
    matches: ClassMatch,
    class: usize,
}

impl Classifier {
    /// Creates the classifier of these classes and rules.
    pub fn new(classes: &Classes) -> Self {
        let rule = |rule: &crate::resolved::ClassRule| {
            let mut matches = rule.matches.clone();
            for field in &mut matches.headers {
                field.name.make_ascii_lowercase();
            }
            Rule {
                matches,
                class: rule.class,
            }
        };
        let names = classes.list.iter().map(|class| class.name.as_str().into());
        Self {
            rules: classes.rules.iter().map(rule).collect(),
            default: classes.default,
            background: (classes
                .list
                .iter()
                .position(|class| class.name == "background"))
            .unwrap_or(classes.default),
            names: names.collect(),
        }
    }

    /// Returns the class of a request that no rule matches.
    pub fn default_class(&self) -> usize {
        self.default
    }

    /// Returns the class of requests that no client waits for, such as mirrored ones.
    pub fn background_class(&self) -> usize {
        self.background
    }

    /// Returns the name of a class.
    pub fn name(&self, class: usize) -> &Arc<str> {
        &self.names[class]
    }

    /// Returns whether a rule looks at the connection's code point.
    pub fn wants_dscp(&self) -> bool {
        self.rules.iter().any(|rule| !rule.matches.dscp.is_empty())
    }

    /// Returns whether a rule looks at the user.
    pub fn wants_user(&self) -> bool {
        self.rules.iter().any(|rule| !rule.matches.users.is_empty())
    }

    /// Returns the class of a request, and the rule that gave it.
    pub fn classify<F: Fields + ?Sized>(&self, asked: &Asked<'_, F>) -> Classified {
        let fits = |rule: &Rule| rule.matches.response_types.is_empty() && rule.matches(asked);
        let rule = self.rules.iter().position(fits);
        Classified {
            class: rule.map_or(self.default, |rule| self.rules[rule].class),
            rule,
        }
    }

    /// Returns the rules that may change a request's class when its response comes; `None` if there
    /// are none.
    pub fn later<F: Fields + ?Sized>(
        &self,
        asked: &Asked<'_, F>,
        classified: Classified,
    ) -> Option<Later> {
        let before = classified.rule.unwrap_or(self.rules.len());
        let rules = self.rules[..before].iter().enumerate();
        let later = rules
            .filter(|(_, rule)| !rule.matches.response_types.is_empty() && rule.matches(asked))
            .map(|(index, _)| index);
        let later: Later = later.collect();
        (!later.is_empty()).then_some(later)
    }

    /// Returns the class of a response. The first of the rules `later` that the response fits gives
    /// it; otherwise it is `class`, that of the request.
    pub fn reclassify(
        &self,
        class: usize,
        later: &[usize],
        response: &(impl Fields + ?Sized),
    ) -> usize {
        let rules = later.iter().map(|&index| &self.rules[index]);
        let mut fitting = rules.filter(|rule| {
            let types = &rule.matches.response_types;
            types.iter().any(|own| has_type(response, own))
        });
        fitting.next().map_or(class, |rule| rule.class)
    }
}

impl Rule {
    fn matches<F: Fields + ?Sized>(&self, asked: &Asked<'_, F>) -> bool {
        let rule = &self.matches;
        let fields = asked.fields;
        (!rule.prefetch || is_prefetch(fields))
            && any(&rule.clients, |network| {
                asked.client.is_some_and(|client| network.contains(client))
            })
            && any(&rule.dscp, |&dscp| asked.dscp == Some(dscp))
            && (rule.certificate.as_ref())
                .is_none_or(|own| has_certificate(asked.certificate.as_ref(), own))
            && any(&rule.users, |own| {
                asked.user.is_some_and(|user| own.matches(user))
            })
            && host_matches(&rule.hosts, asked.host)
            && rule.path.matches(asked.path)
            && any(&rule.extensions, |own| has_extension(asked.path, own))
            && any(&rule.methods, |own| own == asked.method)
            && rule.headers.iter().all(|field| has_header(fields, field))
            && rule.cookies.iter().all(|field| has_cookie(fields, field))
            && any(&rule.content_types, |own| has_type(fields, own))
            && (rule.urgency.is_empty() || rule.urgency.contains(&urgency(fields)))
    }
}

/// Returns whether an item of the list fits, or the list is empty.
fn any<T>(list: &[T], fits: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(fits)
}

/// Returns whether the certificate that a client has shown fits a rule: of each kind of name that
/// the rule lists, the certificate has one.
pub fn has_certificate(shown: Option<&Certificate<'_>>, rule: &CertificateMatch) -> bool {
    let Some(shown) = shown else { return false };
    let one_of = |patterns: &[TextPattern], name: &str| patterns.iter().any(|p| p.matches(name));
    let (dns, uris) = (shown.dns, shown.uris);
    (rule.dns.is_empty() || dns.iter().any(|name| host_matches(&rule.dns, name)))
        && (rule.uris.is_empty() || uris.iter().any(|uri| one_of(&rule.uris, uri)))
        && (rule.common_names.is_empty()
            || (shown.common_name).is_some_and(|name| one_of(&rule.common_names, name)))
}

fn is_prefetch(fields: &(impl Fields + ?Sized)) -> bool {
    let prefetch = |word: &str| word.trim().eq_ignore_ascii_case("prefetch");
    PURPOSES
        .iter()
        .any(|name| fields.any(name, &mut |text| text.split([',', ';']).any(prefetch)))
}

fn has_extension(path: &str, extension: &str) -> bool {
    let segment = path.rsplit('/').next().unwrap_or(path);
    let found = segment.rsplit_once('.').map(|(_, found)| found);
    found.is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn has_header(fields: &(impl Fields + ?Sized), field: &FieldMatch) -> bool {
    match &field.value {
        None => fields.contains(&field.name),
        Some(pattern) => fields.any(&field.name, &mut |text| pattern.matches(text)),
    }
}

fn has_cookie(fields: &(impl Fields + ?Sized), field: &FieldMatch) -> bool {
    let fits = |pair: &str| {
        let pattern = field.value.as_ref();
        pair.trim().split_once('=').is_some_and(|(name, value)| {
            name == field.name && pattern.is_none_or(|pattern| pattern.matches(value))
        })
    };
    fields.any("cookie", &mut |text| text.split(';').any(fits))
}

fn has_type(fields: &(impl Fields + ?Sized), pattern: &TextPattern) -> bool {
    fields.any("content-type", &mut |text| {
        let kind = text.split(';').next().unwrap_or(text).trim();
        pattern.matches(&kind.to_ascii_lowercase())
    })
}

/// Returns the urgency of a request: `u` of its `Priority` field. The last `u` counts. If it is no
/// number from 0 to 7, the request has the default (RFC 9218 4).
fn urgency(fields: &(impl Fields + ?Sized)) -> u8 {
    let mut last = None;
    fields.any("priority", &mut |text| {
        let mut members = text.split(',').filter_map(|member| {
            let (key, value) = member.trim().split_once('=')?;
            let value = value.split(';').next()?;
            (key == "u").then(|| value.parse().ok().filter(|&urgency| urgency <= 7))
        });
        last = members.next_back().or(last);
        false
    });
    last.flatten().unwrap_or(DEFAULT_URGENCY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolved::HostPattern;

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

    fn classifier(file: &str) -> Classifier {
        let config = crate::parse(file, "test", &|_| None).unwrap().config;
        Classifier::new(&config.classes)
    }

    /// Returns a request for a path, from a client without an address.
    fn asked<'a>(
        path: &'a str,
        fields: &'a [(&'a str, &'a str)],
    ) -> Asked<'a, [(&'a str, &'a str)]> {
        Asked {
            client: None,
            dscp: None,
            user: None,
            certificate: None,
            method: "GET",
            host: "h",
            path,
            fields,
        }
    }

    /// Returns the name of the class of a request: `line` is `METHOD host path`.
    fn class_from(client: &str, dscp: Option<u8>, line: &str, fields: &[(&str, &str)]) -> String {
        let classifier = classifier(FILE);
        let mut parts = line.split(' ');
        let mut part = || parts.next().unwrap();
        let classified = classifier.classify(&Asked {
            client: client.parse().ok(),
            dscp,
            method: part(),
            host: part(),
            ..asked(part(), fields)
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

    #[test]
    fn classes_that_are_built_in_come_after_the_operator_s() {
        let classifier = classifier(FILE);
        assert_eq!(classifier.default_class(), 3);
        assert_eq!(&**classifier.name(3), "default");
        assert_eq!(classifier.background_class(), 4);
        assert_eq!(&**classifier.name(4), "background");
    }

    #[test]
    fn what_rules_look_at_is_told() {
        let wants = |rules: &str| {
            let head = FILE.split("class_rules:").next().unwrap();
            let classifier = classifier(&format!("{head}class_rules: [{rules}]\n"));
            (classifier.wants_dscp(), classifier.wants_user())
        };
        let dscp = "{match: {dscp: [ef]}, class: gold}";
        let users = "{match: {users: [anna]}, class: gold}";
        assert_eq!(
            wants("{match: {methods: [GET]}, class: gold}"),
            (false, false)
        );
        assert_eq!(wants(dscp), (true, false));
        assert_eq!(wants(users), (false, true));
        assert_eq!(wants(&format!("{users}, {dscp}")), (true, true));
    }

    #[test]
    fn a_response_s_type_may_change_the_class() {
        let head = FILE.split("class_rules:").next().unwrap();
        let classifier = classifier(&format!(
            "{head}class_rules:\n\
             - {{match: {{path: /first}}, class: gold}}\n\
             - {{match: {{prefix: /v, response_types: [video/*]}}, class: bulk}}\n\
             - {{match: {{path: /v/own}}, class: gold}}\n\
             - {{match: {{response_types: [video/mp4, text/html]}}, class: media}}\n"
        ));
        let later = |path| {
            let asked = asked(path, &[]);
            let classified = classifier.classify(&asked);
            let later = classifier.later(&asked, classified);
            (classified.class, later.map(|rules| rules.to_vec()))
        };
        let (gold, media, bulk, default) = (0, 1, 2, 3);
        // Rules after the one that the request has matched do not count.
        assert_eq!(later("/first"), (gold, None));
        assert_eq!(later("/v/own"), (gold, Some(vec![1])));
        assert_eq!(later("/v/other"), (default, Some(vec![1, 3])));
        assert_eq!(later("/other"), (default, Some(vec![3])));
        let class = |later: &[usize], kind| {
            let response = [("content-type", kind)];
            classifier.reclassify(default, later, &response[..])
        };
        assert_eq!(class(&[1, 3], "video/mp4"), bulk);
        assert_eq!(class(&[1, 3], "text/html; charset=utf-8"), media);
        assert_eq!(class(&[1, 3], "text/plain"), default);
        assert_eq!(class(&[1], "text/html"), default);
        assert_eq!(class(&[], "video/mp4"), default);
    }

    #[test]
    fn a_certificate_has_a_name_of_each_kind_that_is_asked_for() {
        let dns = ["www.a.example".to_owned(), "b.example".to_owned()];
        let uris = ["spiffe://farm/web".to_owned()];
        let shown = Certificate {
            dns: &dns,
            uris: &uris,
            common_name: Some("anna"),
        };
        let rule = |dns: &str, uri: &str, name: &str| {
            let texts = |text: &str| match text {
                "" => Vec::new(),
                text => vec![
                    TextPattern::Exact("other".to_owned()),
                    TextPattern::Exact(text.to_owned()),
                ],
            };
            CertificateMatch {
                dns: match dns {
                    "" => Vec::new(),
                    dns => vec![HostPattern::Exact(dns.to_owned())],
                },
                uris: texts(uri),
                common_names: texts(name),
            }
        };
        let web = "spiffe://farm/web";
        for (rule, expected) in [
            (rule("", "", ""), true),
            (rule("b.example", "", ""), true),
            (rule("", web, ""), true),
            (rule("", "", "anna"), true),
            (rule("b.example", web, "anna"), true),
            (rule("c.example", web, "anna"), false),
            (rule("b.example", "spiffe://farm/we", "anna"), false),
            (rule("b.example", web, "bert"), false),
            (rule("c.example", "", ""), false),
            (rule("", "spiffe://farm/we", ""), false),
            (rule("", "", "bert"), false),
        ] {
            assert_eq!(has_certificate(Some(&shown), &rule), expected, "{rule:?}");
            assert!(!has_certificate(None, &rule));
        }
        // A certificate without names is one.
        let bare = Certificate::default();
        assert!(has_certificate(Some(&bare), &rule("", "", "")));
        assert!(!has_certificate(Some(&bare), &rule("", "", "anna")));
    }
}
