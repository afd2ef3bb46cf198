//! Patterns of what a request has: hosts, paths, texts, the names of a certificate.

use std::fmt;

/// A pattern of hosts: one host, or all below a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// One host, such as `www.example.org`.
    Exact(String),
    /// All hosts below a domain: `*.example.org` is kept as `.example.org`.
    Suffix(String),
}

/// Returns whether a pattern matches a host; an empty list matches every host.
pub fn host_matches(patterns: &[HostPattern], host: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(host))
}

impl HostPattern {
    /// Returns whether the pattern matches a host without port. The case of letters does not count.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name.eq_ignore_ascii_case(host),
            Self::Suffix(suffix) => {
                host.len() > suffix.len()
                    && host.as_bytes()[host.len() - suffix.len()..]
                        .eq_ignore_ascii_case(suffix.as_bytes())
            }
        }
    }
}

/// A pattern of paths: one path, all below one, or every path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// Every path of a request matches.
    #[default]
    Any,
    /// This path alone matches.
    Exact(String),
    /// The path and all below it match: `/a` matches `/a` and `/a/b`, not `/ab`.
    Prefix(String),
}

impl PathPattern {
    /// Returns whether the pattern matches a path.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => path == exact,
            Self::Prefix(prefix) => path.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
            }),
        }
    }
}

/// A pattern of texts: a whole text, or the beginning of texts.
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

/// The names that a client's certificate must have; an empty list is not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CertificateMatch {
    /// The patterns of which one fits a host in its subjectAltName.
    pub dns: Vec<HostPattern>,
    /// The patterns of which one fits a URI in its subjectAltName.
    pub uris: Vec<TextPattern>,
    /// The patterns of which one fits its subject's common name.
    pub common_names: Vec<TextPattern>,
}
