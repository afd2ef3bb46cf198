//! A configuration as the operator is shown it: what the file says, with secrets left out.

use serde_json::{Map, Number, Value};

use crate::tree::{Kind, Node, Scalar};

/// Keys whose values are secrets.
const SECRETS: [&str; 1] = ["phrase"];

/// Mappings whose values are secrets: a key below another.
const SECRET_MAPPINGS: [(&str, &str); 1] = [("otlp", "headers")];

/// The text that stands in the place of a secret.
const HIDDEN: &str = "(not shown)";

/// A configuration's file as JSON: the keys that it gives, variables as they are
/// written there, and no secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown(Value);

impl Shown {
    pub(crate) fn of(root: &Node) -> Self {
        Self(value(root, ""))
    }

    /// Returns the file's keys and values; null for a configuration that is of no file.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// Takes a key's value from another configuration, or its absence.
    pub fn keep(&mut self, key: &str, other: &Self) {
        if let Value::Object(entries) = &mut self.0 {
            match other.0.get(key) {
                Some(value) => entries.insert(key.to_owned(), value.clone()),
                None => entries.remove(key),
            };
        }
    }

    /// Sets a key below another.
    pub fn set(&mut self, parent: &str, key: &str, value: Value) {
        if let Value::Object(entries) = &mut self.0 {
            let parent = entries.entry(parent).or_insert_with(|| Map::new().into());
            if let Value::Object(entries) = parent {
                entries.insert(key.to_owned(), value);
            }
        }
    }
}

/// Returns what is shown of a value that stands below this key.
fn value(node: &Node, below: &str) -> Value {
    match &node.kind {
        Kind::Scalar(scalar) => of_scalar(scalar),
        Kind::Sequence(items) => items.iter().map(|item| value(item, below)).collect(),
        Kind::Mapping(entries) => {
            let entries = entries.iter().map(|entry| {
                let key = entry.key.as_str();
                let shown = match &entry.value.kind {
                    _ if SECRETS.contains(&key) => HIDDEN.into(),
                    Kind::Mapping(all) if SECRET_MAPPINGS.contains(&(below, key)) => {
                        let hidden = all.iter().map(|own| (own.key.clone(), HIDDEN.into()));
                        Value::Object(hidden.collect())
                    }
                    _ => value(&entry.value, key),
                };
                (entry.key.clone(), shown)
            });
            Value::Object(entries.collect())
        }
    }
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

/// Hides a URL's user and password, which are secrets (RFC 3986 3.2.1).
fn without_credentials(text: &str) -> String {
    let inside = text.split_once("://");
    match inside.and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, place)) => format!("{scheme}://{HIDDEN}@{place}"),
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
