//! Priority classes after every check.

use std::fmt;
use std::time::Duration;

pub use sprat_scheduler::ClassSpec;
use sprat_scheduler::MAX_CLASSES;
pub use sprat_scheduler::station::ChannelRule;

pub use crate::sources::WrittenAt;

use super::{HostPattern, Network, PathPattern};

/// The level of a class that does not say, as the default urgency of RFC 9218.
pub const DEFAULT_LEVEL: u8 = 3;

/// The level of the class `background` unless it is configured.
pub const LOWEST_LEVEL: u8 = 15;

/// The classes, and which requests belong to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The classes of the file in its order, then `default` and `background` unless they are among
    /// them.
    pub list: Vec<Class>,
    /// The class of a request that no rule matches.
    pub default: usize,
    /// The rules, of which the first match wins. The last one has prefetches in `background`.
    pub rules: Vec<ClassRule>,
}

impl Default for Classes {
    fn default() -> Self {
        Self::with(Vec::new(), |_| Vec::new())
    }
}

impl Classes {
    /// Adds what is built in to an operator's own classes and rules.
    pub(crate) fn with(
        mut list: Vec<Class>,
        rules: impl FnOnce(&[Class]) -> Vec<ClassRule>,
    ) -> Self {
        let mut index = |name: &str, level| {
            let found = list.iter().position(|class| class.name == name);
            found.unwrap_or_else(|| {
                list.push(Class::of_level(name, level));
                list.len() - 1
            })
        };
        let default = index("default", DEFAULT_LEVEL);
        let background = index("background", LOWEST_LEVEL);
        let mut rules = rules(&list);
        rules.push(ClassRule {
            matches: ClassMatch {
                prefetch: true,
                ..ClassMatch::default()
            },
            class: background,
            at: None,
        });
        Self {
            list,
            default,
            rules,
        }
    }
}

impl Classes {
    /// Puts the classes in the places that those of the same name have in
    /// another configuration, so that one number means one class in both. A
    /// class that is gone keeps its place, without rules, while there is room
    /// for [`MAX_CLASSES`]; then a new one takes it.
    pub fn keep_numbers(&mut self, before: &Self) {
        let named = |list: &[Class], name: &str| list.iter().position(|c| c.name == name);
        let own = std::mem::take(&mut self.list);
        let mut list = before.list.clone();
        let mut fresh = Vec::new();
        for class in &own {
            match named(&list, &class.name) {
                Some(at) => list[at] = class.clone(),
                None => fresh.push(class.clone()),
            }
        }
        for class in fresh {
            let gone = |at: &usize| named(&own, &list[*at].name).is_none();
            match (0..list.len()).find(gone) {
                Some(at) if list.len() >= MAX_CLASSES => list[at] = class,
                _ => list.push(class),
            }
        }
        let place = |class: usize| named(&list, &own[class].name);
        let place = |class| place(class).expect("every class has been given a place");
        self.default = place(self.default);
        for rule in &mut self.rules {
            rule.class = place(rule.class);
        }
        self.list = list;
    }
}

/// A priority class of requests and responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name, which no other class has.
    pub name: String,
    /// The parameters that the scheduler goes by; its `timeout` is none.
    pub spec: ClassSpec,
    /// The longest wait of a request for an endpoint.
    pub queue_timeout: QueueTimeout,
}

impl Class {
    /// Returns a class that differs from others by its level alone.
    pub fn of_level(name: &str, level: u8) -> Self {
        Self {
            name: name.to_owned(),
            spec: ClassSpec {
                level,
                ..ClassSpec::default()
            },
            queue_timeout: QueueTimeout::Cluster,
        }
    }
}

/// The longest wait of a request for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueTimeout {
    /// The time that the cluster allows.
    Cluster,
    /// A time of the class's own; `None` is without bound.
    Own(Option<Duration>),
}

impl QueueTimeout {
    /// Returns the longest wait in a cluster that allows `cluster`.
    pub fn or(self, cluster: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Cluster => cluster,
            Self::Own(own) => own,
        }
    }
}

/// A rule that gives requests a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRule {
    /// The properties that a request must have.
    pub matches: ClassMatch,
    /// The class, as an index into [`Classes::list`].
    pub class: usize,
    /// The place of the rule in the file; none if it is built in.
    pub at: Option<WrittenAt>,
}

/// The properties that a request must have; one that is empty is not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMatch {
    /// One of these has the client's address.
    pub clients: Vec<Network>,
    /// One of these code points marks the connection.
    pub dscp: Vec<u8>,
    /// The client has shown a certificate with these names.
    pub certificate: Option<CertificateMatch>,
    /// The route has found out that one of these is the user.
    pub users: Vec<TextPattern>,
    /// Any of these hosts.
    pub hosts: Vec<HostPattern>,
    /// The pattern of the path.
    pub path: PathPattern,
    /// One of these extensions, in lower case.
    pub extensions: Vec<String>,
    /// One of these methods.
    pub methods: Vec<String>,
    /// All of these header fields.
    pub headers: Vec<FieldMatch>,
    /// All of these cookies.
    pub cookies: Vec<FieldMatch>,
    /// One of these types of the request's body, in lower case.
    pub content_types: Vec<TextPattern>,
    /// One of these types of the response, in lower case; the rule is for the
    /// uplink alone if there is any.
    pub response_types: Vec<TextPattern>,
    /// One of these urgencies (RFC 9218).
    pub urgency: Vec<u8>,
    /// The client says that it is prefetching.
    pub prefetch: bool,
}

/// Names that a client's certificate must have; a kind that is empty is not
/// looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CertificateMatch {
    /// One of these has a host in its subjectAltName.
    pub dns: Vec<HostPattern>,
    /// One of these has a URI in its subjectAltName.
    pub uris: Vec<TextPattern>,
    /// One of these has its subject's common name.
    pub common_names: Vec<TextPattern>,
}

/// A header field or a cookie that a request must have.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldMatch {
    /// The name. That of a header field is compared without regard to case, that of a cookie with.
    pub name: String,
    /// The value that it must have; none is any value.
    pub value: Option<TextPattern>,
}

/// A text, or how it begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TextPattern {
    /// A value that is this text.
    Exact(String),
    /// A value that begins with this text.
    Prefix(String),
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(text),
            Self::Prefix(start) => write!(f, "{start}*"),
        }
    }
}

impl TextPattern {
    /// Returns whether a text fits the pattern.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Prefix(start) => text.starts_with(start.as_str()),
        }
    }
}

/// The rules by which requests are turned away.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The time over which the length of wait queues is averaged.
    pub averaging: Duration,
    /// The rule for an overloaded uplink; none if there is none.
    pub channel: Option<ChannelRule>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            averaging: Duration::from_millis(500),
            channel: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(names: &[(&str, u8)]) -> Classes {
        let list = names
            .iter()
            .map(|&(name, level)| Class::of_level(name, level));
        Classes::with(list.collect(), |_| Vec::new())
    }

    fn places(classes: &Classes) -> Vec<(&str, u8)> {
        let list = classes.list.iter();
        list.map(|class| (class.name.as_str(), class.spec.level))
            .collect()
    }

    #[test]
    fn classes_keep_their_numbers() {
        let before = classes(&[("gold", 0), ("silver", 1)]);
        let mut after = classes(&[("bronze", 5), ("silver", 2)]);
        after.keep_numbers(&before);
        let expected = [
            ("gold", 0),
            ("silver", 2),
            ("default", 3),
            ("background", 15),
        ];
        assert_eq!(places(&after), [&expected[..], &[("bronze", 5)]].concat());
        assert_eq!(after.default, 2);
        assert_eq!(after.rules.last().unwrap().class, 3);
        // One that comes back finds its number.
        let mut again = classes(&[("gold", 7)]);
        again.keep_numbers(&after);
        assert_eq!(again.list[0].name, "gold");
        assert_eq!(again.list[0].spec.level, 7);
        assert_eq!(again.list.len(), 5);
    }

    #[test]
    fn new_classes_take_the_places_of_old_ones_when_all_are_taken() {
        let names: Vec<String> = (0..MAX_CLASSES - 2).map(|n| format!("class-{n}")).collect();
        let many: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let before = classes(&many);
        assert_eq!(before.list.len(), MAX_CLASSES);
        let mut after = classes(&[("class-0", 1), ("fresh", 2)]);
        after.keep_numbers(&before);
        assert_eq!(after.list.len(), MAX_CLASSES);
        assert_eq!(
            places(&after)[..3],
            [("class-0", 1), ("fresh", 2), ("class-2", 1)]
        );
    }

    #[test]
    fn patterns_are_written_as_in_a_file() {
        let exact = TextPattern::Exact("text/css".to_owned());
        assert_eq!(exact.to_string(), "text/css");
        let prefix = TextPattern::Prefix("text/".to_owned());
        assert_eq!(prefix.to_string(), "text/*");
    }
}
