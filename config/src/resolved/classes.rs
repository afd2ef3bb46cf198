//! Priority classes after every check.

use std::time::Duration;

pub use sprat_scheduler::ClassSpec;
pub use sprat_scheduler::station::ChannelRule;

use super::{HostPattern, Network, PathPattern};

/// The level of a class that does not say, as the default urgency of RFC 9218.
pub const DEFAULT_LEVEL: u8 = 3;

/// The level of the class `background` unless it is configured.
pub const LOWEST_LEVEL: u8 = 15;

/// The classes, and which requests belong to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// Those of the file in its order, then `default` and `background` unless
    /// they are among them.
    pub list: Vec<Class>,
    /// The class of a request that no rule matches.
    pub default: usize,
    /// First match wins. The last one has prefetches in `background`.
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
            line: None,
        });
        Self {
            list,
            default,
            rules,
        }
    }
}

/// A priority class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Unique.
    pub name: String,
    /// What the core knows of it; its `timeout` is none.
    pub spec: ClassSpec,
    /// How long a request may wait for an endpoint.
    pub queue_timeout: QueueTimeout,
}

impl Class {
    /// A class that differs from others by its level alone.
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

/// How long a request may wait for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueTimeout {
    /// As the cluster says.
    Cluster,
    /// So long; `None` is without bound.
    Own(Option<Duration>),
}

impl QueueTimeout {
    /// In a cluster that allows `cluster`.
    pub fn or(self, cluster: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Cluster => cluster,
            Self::Own(own) => own,
        }
    }
}

/// Which requests belong to a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRule {
    /// What a request must look like.
    pub matches: ClassMatch,
    /// Index into [`Classes::list`].
    pub class: usize,
    /// Where it stands in the file; none if it is built in.
    pub line: Option<usize>,
}

/// What a request must look like; what is empty is not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMatch {
    /// One of these has the client's address.
    pub clients: Vec<Network>,
    /// One of these code points marks the connection.
    pub dscp: Vec<u8>,
    /// The client has shown a certificate with these names.
    pub certificate: Option<CertificateMatch>,
    /// Any of these hosts.
    pub hosts: Vec<HostPattern>,
    /// The path.
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
    /// Header fields' names are compared without regard to case, cookies'
    /// with.
    pub name: String,
    /// None is any value.
    pub value: Option<TextPattern>,
}

/// A text, or how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPattern {
    /// This text.
    Exact(String),
    /// Whatever begins so.
    Prefix(String),
}

impl std::fmt::Display for TextPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(text),
            Self::Prefix(start) => write!(f, "{start}*"),
        }
    }
}

impl TextPattern {
    /// Whether it is this text's.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Prefix(start) => text.starts_with(start.as_str()),
        }
    }
}

/// Whom to turn away.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The time over which the length of wait queues is averaged.
    pub averaging: Duration,
    /// What to do when the uplink is overloaded.
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
