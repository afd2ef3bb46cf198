//! A configuration as Sprat shows it to the operator: what the file says, and where, without
//! secrets.

use std::sync::{Arc, OnceLock};

use serde_json::{Number, Value};

use crate::sources::{Lines, Sources};
use crate::tree::{Kind, Node, Scalar};

/// The keys whose values are secrets.
const SECRETS: [&str; 1] = ["phrase"];

/// The mappings whose values are secrets, each as a key and the key that it stands below.
const SECRET_MAPPINGS: [(&str, &str); 1] = [("otlp", "headers")];

/// The text that stands in the place of a secret.
const HIDDEN: &str = "(not shown)";

/// The keys and values that a configuration's file gives, with variables as they are written there,
/// and without secrets.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    files: Option<Arc<Files>>,
    /// The values in force instead of what the file says, in the order in which they were set.
    kept: Vec<Kept>,
    json: OnceLock<Value>,
}

/// The files of a configuration as they were read.
#[derive(Debug)]
struct Files {
    root: Arc<Node>,
    sources: Sources,
}

/// A key's value that is in force instead of the file's; none if it is absent.
#[derive(Clone, Debug)]
struct Kept {
    /// The key that this key stands below; none at the top of the file.
    parent: Option<String>,
    key: String,
    value: Option<Part>,
}

/// A value of the file, with the values below it.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Leaf(Value),
    List(Vec<(Origin, Part)>),
    Mapping(Vec<(String, Origin, Part)>),
}

/// The place that a value comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// The byte at which the value stands, in the texts of all files.
    File(usize),
    /// The default of a key that is left out.
    Default,
    /// The value of the start, which stays in force because only a restart changes it.
    Start,
}

/// Two configurations are equal if they say the same, wherever it stands in their files.
impl PartialEq for Shown {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Default for Part {
    fn default() -> Self {
        Self::Leaf(Value::Null)
    }
}

impl Part {
    /// Returns the value of a default that is given as JSON.
    pub(crate) fn of_default(value: &Value) -> Self {
        let below = |value| (Origin::Default, Self::of_default(value));
        match value {
            Value::Array(items) => Self::List(items.iter().map(below).collect()),
            Value::Object(entries) => {
                let entries = entries.iter();
                Self::Mapping(
                    entries
                        .map(|(key, value)| (key.clone(), Origin::Default, Self::of_default(value)))
                        .collect(),
                )
            }
            _ => Self::Leaf(value.clone()),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::List(items) => items.iter().map(|(_, item)| item.json()).collect(),
            Self::Mapping(entries) => {
                let entries = entries.iter();
                let entries = entries.map(|(key, _, part)| (key.clone(), part.json()));
                Value::Object(entries.collect())
            }
        }
    }
}

impl Shown {
    pub(crate) fn of(root: &Arc<Node>, sources: &Sources) -> Self {
        let files = Files {
            root: Arc::clone(root),
            sources: sources.clone(),
        };
        Self {
            files: Some(Arc::new(files)),
            ..Self::default()
        }
    }

    /// Returns the file's keys and values as JSON, which is made at the first call; null for a
    /// configuration without a file.
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| self.part().json())
    }

    /// Puts a key's value from another configuration in force, or its absence.
    pub fn keep(&mut self, key: &str, other: &Self) {
        let value = match other.part() {
            Part::Mapping(entries) => entries.into_iter().find(|(name, ..)| name == key),
            Part::Leaf(_) | Part::List(_) => None,
        };
        self.replace(None, key, value.map(|(.., part)| part));
    }

    /// Puts a value in force for a key below another.
    pub fn set(&mut self, parent: &str, key: &str, value: Value) {
        self.replace(Some(parent), key, Some(Part::Leaf(value)));
    }

    fn replace(&mut self, parent: Option<&str>, key: &str, value: Option<Part>) {
        self.kept.push(Kept {
            parent: parent.map(str::to_owned),
            key: key.to_owned(),
            value,
        });
        self.json = OnceLock::new();
    }

    /// Returns the whole configuration, with the values in force.
    pub(crate) fn part(&self) -> Part {
        let Some(files) = &self.files else {
            return Part::default();
        };
        let mut whole = part(&files.root, "");
        let Part::Mapping(own) = &mut whole else {
            return whole;
        };
        for kept in &self.kept {
            let Some(parent) = &kept.parent else {
                put(own, &kept.key, kept.value.clone());
                continue;
            };
            if !own.iter().any(|(name, ..)| name == parent) {
                put(own, parent, Some(Part::Mapping(Vec::new())));
            }
            let below = own.iter_mut().find(|(name, ..)| name == parent);
            if let Some((.., Part::Mapping(below))) = below {
                put(below, &kept.key, kept.value.clone());
            }
        }
        whole
    }

    /// Returns the beginnings of the lines of its files.
    pub(crate) fn lines(&self) -> Lines {
        let files = self.files.as_ref();
        files.map_or_else(Lines::default, |files| files.sources.lines())
    }
}

/// Sets a key's value among others, or takes the key out if there is no value.
fn put(entries: &mut Vec<(String, Origin, Part)>, key: &str, part: Option<Part>) {
    let at = entries.iter().position(|(name, ..)| name == key);
    match (at, part) {
        (Some(at), Some(part)) => entries[at] = (key.to_owned(), Origin::Start, part),
        (None, Some(part)) => entries.push((key.to_owned(), Origin::Start, part)),
        (Some(at), None) => drop(entries.remove(at)),
        (None, None) => {}
    }
}

/// Returns a value without secrets; `below` is the key that it stands below.
fn part(node: &Node, below: &str) -> Part {
    match &node.kind {
        Kind::Scalar(scalar) => Part::Leaf(of_scalar(scalar)),
        Kind::Sequence(items) => {
            let items = items.iter();
            Part::List(
                items
                    .map(|item| (Origin::File(item.span.start), part(item, below)))
                    .collect(),
            )
        }
        Kind::Mapping(entries) => {
            let entries = entries.iter().map(|entry| {
                let key = entry.key.as_str();
                let origin = Origin::File(entry.key_span.start);
                let shown = match &entry.value.kind {
                    _ if SECRETS.contains(&key) => hidden(),
                    Kind::Mapping(all) if SECRET_MAPPINGS.contains(&(below, key)) => {
                        let hidden = all.iter().map(|own| {
                            let origin = Origin::File(own.key_span.start);
                            (own.key.clone(), origin, hidden())
                        });
                        Part::Mapping(hidden.collect())
                    }
                    _ => part(&entry.value, key),
                };
                (entry.key.clone(), origin, shown)
            });
            Part::Mapping(entries.collect())
        }
    }
}

fn hidden() -> Part {
    Part::Leaf(HIDDEN.into())
}

fn of_scalar(scalar: &Scalar) -> Value {
    let text = scalar.text.as_str();
    if scalar.plain {
        match text {
            "" | "~" | "null" => return Value::Null,
            "true" => return true.into(),
            "false" => return false.into(),
            _ => {}
        }
        // As it is written, or not as a number.
        let whole = text.parse::<u64>().ok().map(Number::from);
        let number = whole.or_else(|| Number::from_f64(text.parse().ok()?));
        if let Some(number) = number.filter(|number| number.to_string() == text) {
            return Value::Number(number);
        }
    }
    without_credentials(text).into()
}

/// Hides the user and the password of a text that is a URL, which are secrets (RFC 3986 3.2.1).
/// Another text with a URL in it is shown as it is.
pub(crate) fn without_credentials(text: &str) -> String {
    let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let url = text.split_once("://");
    let url = url.filter(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(of_scheme));
    let parts = url.and_then(|(scheme, rest)| {
        let authority = rest.split(['/', '?', '#']).next()?;
        let (user, _) = authority.rsplit_once('@')?;
        Some((scheme, &rest[user.len()..]))
    });
    match parts {
        Some((scheme, place)) => format!("{scheme}://{HIDDEN}{place}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Shown;

    fn shown(more: &str) -> Shown {
        let text = format!(
            "version: 1\nlisteners: [{{address: '127.0.0.1:8080'}}]\n\
             clusters: {{a: {{endpoints: ['127.0.0.1:1']}}}}\nroutes: [{{cluster: a}}]\n{more}"
        );
        crate::parse(&text, "test.yaml", &|_| Some("1".to_owned()))
            .unwrap()
            .config
            .shown
    }

    #[test]
    fn what_the_file_says_is_shown() {
        let uplink = "uplink: {rate: 10mbit, guard_factor: 2.5}";
        let shown = shown(&format!("{uplink}\nruntime:\n  workers: ${{N}}\n"));
        assert_eq!(shown.json()["version"], 1);
        let uplink = json!({"rate": "10mbit", "guard_factor": 2.5});
        assert_eq!(shown.json()["uplink"], uplink);
        assert_eq!(shown.json()["runtime"]["workers"], "${N}");
        assert_eq!(shown.json()["listeners"][0]["address"], "127.0.0.1:8080");
    }

    #[test]
    fn secrets_are_not_shown() {
        let store = "{url: 'redis://user:p@ss@store.example:6379/0', phrase: hush}";
        let shown = shown(&format!("catalogue: {{shared: {store}}}\n"));
        let text = shown.json()["catalogue"].to_string();
        assert!(
            text.contains("redis://(not shown)@store.example:6379/0"),
            "{text}"
        );
        assert!(!text.contains("ss@") && !text.contains("hush"), "{text}");
    }

    #[test]
    fn a_text_with_a_url_is_shown_as_it_is() {
        for text in [
            "See https://status.example.org/a or write to ops@example.org",
            "https://status.example.org/a or ops@example.org",
            "https://status.example.org?to=ops@example.org",
            "at https://user@example.org",
            "://user@example.org",
        ] {
            assert_eq!(super::without_credentials(text), text);
        }
        let shown = super::without_credentials("svn+ssh://user:p@ss@example.org?a=b@c");
        assert_eq!(shown, "svn+ssh://(not shown)@example.org?a=b@c");
    }

    #[test]
    fn what_a_collector_is_told_of_us_is_not_shown() {
        let otlp = "{endpoint: 'http://a:4318/v1/traces', headers: {x-key: hush}}";
        let shown = shown(&format!("tracing: {{otlp: {otlp}}}\n"));
        let otlp = &shown.json()["tracing"]["otlp"];
        assert_eq!(otlp["headers"], json!({"x-key": "(not shown)"}));
        assert_eq!(otlp["endpoint"], "http://a:4318/v1/traces");
    }

    #[test]
    fn what_stays_until_a_restart_is_shown_as_it_is() {
        let before = shown("admin: off\n");
        let mut after = shown("admin: {address: '127.0.0.1:2'}\nruntime: {workers: 3}\n");
        after.keep("admin", &before);
        after.set("runtime", "workers", 2.into());
        assert_eq!(after.json()["admin"], "off");
        assert_eq!(after.json()["runtime"]["workers"], 2);
        // A key that the file has not is put below one that it has not either.
        let mut without = shown("");
        without.set("runtime", "workers", 2.into());
        without.set("runtime", "drain_timeout", "1s".into());
        let runtime = json!({"workers": 2, "drain_timeout": "1s"});
        assert_eq!(without.json()["runtime"], runtime);
        assert_eq!(without, shown("runtime: {workers: 2, drain_timeout: 1s}\n"));
    }

    #[test]
    fn those_that_say_the_same_are_equal() {
        assert_eq!(shown("admin: off\n"), shown("\n\nadmin: 'off'\n"));
        assert_ne!(shown("admin: off\n"), shown(""));
    }

    #[test]
    fn plain_words_are_what_yaml_takes_them_for() {
        let words = "{a: , b: ~, c: null, d: true, e: false, f: 'true', g: 'null', h: ''}";
        let shown = shown(&format!(
            "x-words: {words}\nx-numbers: [7, '7', 1.5, 1.50]\n"
        ));
        let words = json!({
            "a": null, "b": null, "c": null, "d": true, "e": false,
            "f": "true", "g": "null", "h": "",
        });
        assert_eq!(shown.json()["x-words"], words);
        assert_eq!(shown.json()["x-numbers"], json!([7, "7", 1.5, "1.50"]));
    }
}
