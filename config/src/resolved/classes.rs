//! Priority classes after every check.

use std::time::Duration;

pub use sprat_scheduler::ClassSpec;
use sprat_scheduler::MAX_CLASSES;
pub use sprat_scheduler::station::ChannelRule;

pub use crate::sources::WrittenAt;

use super::{CertificateMatch, HostPattern, Network, PathPattern, TextPattern};

/// The level of a class that gives none: the default urgency of RFC 9218.
pub const DEFAULT_LEVEL: u8 = 3;

/// The level of the class `background` unless it is configured.
pub const LOWEST_LEVEL: u8 = 15;

/// The priority classes, and the rules that give requests a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The classes of the file in its order, then `default` and `background` unless they are among
    /// them.
    pub list: Vec<Class>,
    /// The index of the class of a request that no rule matches.
    pub default: usize,
    /// The rules, of which the first match wins. The last rule, built in, puts prefetches into
    /// `background`.
    pub rules: Vec<ClassRule>,
}

impl Default for Classes {
    fn default() -> Self {
        Self::with(Vec::new(), |_| Vec::new())
    }
}

impl Classes {
    /// Adds the built-in classes and rules to an operator's own.
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
    /// Gives each class the number that the class of the same name has in another configuration, so
    /// that a number means the same class in both. A class that is gone keeps its number, without
    /// rules, while there is room for [`MAX_CLASSES`]; then a new one takes it.
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
    /// Returns the longest wait in a cluster whose own bound is `cluster`.
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

/// The properties that a request must have; an empty list is not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMatch {
    /// The networks of which one has the client's address.
    pub clients: Vec<Network>,
    /// The code points of which one marks the client's connection.
    pub dscp: Vec<u8>,
    /// The names that the client's certificate must have.
    pub certificate: Option<CertificateMatch>,
    /// The patterns of which one fits the user that the route has identified.
    pub users: Vec<TextPattern>,
    /// The hosts of which one is the request's.
    pub hosts: Vec<HostPattern>,
    /// The pattern of the request's path.
    pub path: PathPattern,
    /// The extensions of which the path has one, in lower case.
    pub extensions: Vec<String>,
    /// The methods of which one is the request's.
    pub methods: Vec<String>,
    /// The header fields that the request must all have.
    pub headers: Vec<FieldMatch>,
    /// The cookies that the request must all have.
    pub cookies: Vec<FieldMatch>,
    /// The media types of which one is that of the request's body, in lower case.
    pub content_types: Vec<TextPattern>,
    /// The media types of which one is the response's, in lower case. If there are any, the rule is
    /// for the uplink alone.
    pub response_types: Vec<TextPattern>,
    /// The urgencies of which one is the request's (RFC 9218).
    pub urgency: Vec<u8>,
    /// Whether the client must say that it is prefetching.
    pub prefetch: bool,
}

/// A header field or a cookie that a request must have.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldMatch {
    /// The name. That of a header field is compared without regard to case, that of a cookie with.
    pub name: String,
    /// The value that it must have; none is any value.
    pub value: Option<TextPattern>,
}

/// The rules by which admission turns requests away.
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
