//! A configuration as YAML that operators read: all its keys, the defaults of those that it leaves
//! out, and the origin of each value.

use std::fmt::Write as _;

use serde_json::Value;

use crate::decode::TextClass;
use crate::shown::{Origin, Part, Shown};
use crate::sources::Lines;

/// Returns a configuration as YAML, each value with its origin: a file and line, or the
/// default. `schema` is that of the configuration's file; see [`crate::schema`].
pub fn effective(shown: &Shown, schema: &Value) -> String {
    let whole = Defaults { schema }.filled(&shown.part(), schema);
    let mut yaml = Yaml {
        lines: shown.lines(),
        out: String::new(),
    };
    if let Part::Mapping(entries) = &whole {
        yaml.mapping(entries, 0);
    }
    yaml.out
}

/// The defaults of the keys, as the schema has them.
struct Defaults<'s> {
    schema: &'s Value,
}

impl<'s> Defaults<'s> {
    /// Returns a value with the defaults of all keys that are left out in it and below it.
    fn filled(&self, part: &Part, schema: &'s Value) -> Part {
        let schema = self.of(part, schema);
        let below = |key: &str| schema.and_then(|own| own.get(key));
        match part {
            Part::Leaf(_) => part.clone(),
            Part::List(items) => {
                let schema = below("items").unwrap_or(&Value::Null);
                let items = items.iter();
                Part::List(
                    items
                        .map(|(origin, item)| (*origin, self.filled(item, schema)))
                        .collect(),
                )
            }
            Part::Mapping(entries) => {
                let known = below("properties").and_then(Value::as_object);
                let other = below("additionalProperties").unwrap_or(&Value::Null);
                let given = entries.iter().map(|(key, origin, part)| {
                    let schema = known.and_then(|known| known.get(key)).unwrap_or(other);
                    (key.clone(), *origin, self.filled(part, schema))
                });
                let left_out = known.into_iter().flatten().filter_map(|(key, schema)| {
                    let is_given = entries.iter().any(|(name, ..)| name == key);
                    let default = schema.get("default").filter(|_| !is_given)?;
                    let part = self.filled(&Part::of_default(default), schema);
                    Some((key.clone(), Origin::Default, part))
                });
                Part::Mapping(given.chain(left_out).collect())
            }
        }
    }

    /// Returns the schema that a value fits: this one, the one that it refers to, or one of its
    /// alternatives.
    fn of(&self, part: &Part, schema: &'s Value) -> Option<&'s Value> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.of(part, self.schema.pointer(name.strip_prefix('#')?)?);
        }
        if let Some(all) = schema.get("anyOf").and_then(Value::as_array) {
            return all.iter().find_map(|one| self.of(part, one));
        }
        fits(part, schema).then_some(schema)
    }
}

/// Returns whether a list, or a mapping with these keys, fits a schema.
fn fits(part: &Part, schema: &Value) -> bool {
    let is_a = |kind: &str| schema.get("type").is_some_and(|own| own == kind);
    let Part::Mapping(entries) = part else {
        return matches!(part, Part::List(_)) && is_a("array");
    };
    let known = schema.get("properties").and_then(Value::as_object);
    let is_open = schema.get("additionalProperties") != Some(&Value::Bool(false))
        || schema.get("patternProperties").is_some();
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten();
    let is_given = |key: &Value| entries.iter().any(|(name, ..)| key == name);
    let may_be = |(name, _, part): &(String, Origin, Part)| {
        let own = known.and_then(|known| known.get(name));
        let only = own.and_then(|own| own.get("const"));
        let is_that = only.is_none_or(|only| matches!(part, Part::Leaf(own) if own == only));
        (own.is_some() || is_open) && is_that
    };
    is_a("object") && required.all(is_given) && entries.iter().all(may_be)
}

/// The YAML that is being written, in block style.
struct Yaml {
    lines: Lines,
    out: String,
}

impl Yaml {
    fn mapping(&mut self, entries: &[(String, Origin, Part)], indent: usize) {
        for (key, origin, part) in entries {
            let name = scalar(&Value::from(key.as_str()));
            let _ = write!(self.out, "{:indent$}{name}:", "");
            self.value(part, *origin, indent + 2);
        }
    }

    /// Writes a key's value and its origin, and the lines below the key.
    fn value(&mut self, part: &Part, origin: Origin, indent: usize) {
        let text = match part {
            Part::Leaf(value) => scalar(value),
            Part::List(items) if items.is_empty() => "[]".to_owned(),
            Part::Mapping(entries) if entries.is_empty() => "{}".to_owned(),
            Part::List(_) | Part::Mapping(_) => String::new(),
        };
        let space = if text.is_empty() { "" } else { " " };
        let origin = match origin {
            Origin::File(byte) => self.lines.at(byte),
            Origin::Default => "default".to_owned(),
            Origin::Start => "as at the start".to_owned(),
        };
        let _ = writeln!(self.out, "{space}{text}  # {origin}");
        match part {
            Part::Leaf(_) => {}
            Part::Mapping(entries) => self.mapping(entries, indent),
            Part::List(items) => {
                for (origin, item) in items {
                    let _ = write!(self.out, "{:indent$}-", "");
                    self.value(item, *origin, indent + 2);
                }
            }
        }
    }
}

/// Returns a scalar as YAML 1.2 reads it back.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    let begins = |c: char| c.is_ascii_alphanumeric() || "/_$^".contains(c);
    let goes_on = |c: char| c.is_ascii_alphanumeric() || "/_$^.:@%+-=~{}*()".contains(c);
    let is_plain = text.starts_with(begins) && text.chars().all(goes_on) && !text.ends_with(':');
    match is_plain && TextClass::of(text) == TextClass::String {
        true => text.clone(),
        false => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn schema() -> Value {
        serde_json::from_str(include_str!("../schema.json")).unwrap()
    }

    fn read(text: &str) -> Config {
        let env = |_: &str| Some("3".to_owned());
        crate::parse(text, "sprat.yaml", &env).unwrap().config
    }

    const SMALL: &str = "version: 1\nlisteners:\n  - address: 127.0.0.1:8080\nuplink: {rate: 10mbit}\n\
                         runtime: {workers: '${N}'}\nclusters:\n  farm: {endpoints: ['127.0.0.1:1']}\n\
                         routes: [{cluster: farm}]\n";

    #[test]
    fn each_value_has_its_origin() {
        let text = effective(&read(SMALL).shown, &schema());
        for line in [
            "version: 1  # sprat.yaml:1",
            "  -  # sprat.yaml:3",
            "    address: 127.0.0.1:8080  # sprat.yaml:3",
            "uplink:  # sprat.yaml:4",
            "  rate: 10mbit  # sprat.yaml:4",
            "  policy: srpt  # default",
            "  workers: ${N}  # sprat.yaml:5",
            "admin:  # default",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_stays_until_a_restart_says_so() {
        let mut shown = read(SMALL).shown;
        shown.set("runtime", "workers", 2.into());
        let text = effective(&shown, &schema());
        assert!(
            text.contains("\n  workers: 2  # as at the start\n"),
            "{text}"
        );
    }

    /// Returns a text of all that a configuration means, without the places in its file.
    fn meaning(config: Config) -> String {
        let shown = Shown::default();
        let mut text = format!("{:?}", Config { shown, ..config });
        for (begin, end) in [("Span(", ')'), ("WrittenAt {", '}')] {
            let parts = text.split(begin).enumerate();
            let parts = parts.map(|(at, part)| match part.split_once(end) {
                Some((_, rest)) if at > 0 => rest,
                _ => part,
            });
            text = parts.collect();
        }
        text
    }

    /// Checks that examples mean the same once the defaults of keys that they leave out are
    /// written.
    #[test]
    fn it_means_the_same() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
        let mut refused = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let loaded = crate::parse(&text, "sprat.yaml", &|_| None).unwrap();
            let yaml = effective(&loaded.config.shown, &schema());
            let yaml = yaml.replace("phrase: \"(not shown)\"", "phrase: farm");
            match crate::parse(&yaml, "again.yaml", &|_| None) {
                Ok(again) => {
                    let is_same = meaning(loaded.config) == meaning(again.config);
                    assert!(is_same, "{} is not\n{yaml}", path.display());
                }
                Err(_) => refused.push(path.file_name().unwrap().to_owned()),
            }
        }
        refused.sort();
        // Where a log goes to `syslog`, or a policy decides about `marking`, some keys may not
        // be given.
        assert_eq!(refused, ["full.yaml", "short-flows.yaml"]);
    }

    #[test]
    fn defaults_are_those_of_the_form_that_is_given() {
        let text = effective(&read(SMALL).shown, &schema());
        // Lists of defaults are lists, and one level is two columns.
        assert!(
            text.contains(
                "\n  -  # sprat.yaml:8\n    cluster: farm  # sprat.yaml:8\n    match: {}  # default\n"
            ),
            "{text}"
        );
        let upgrade = "\n    upgrade:  # default\n      protocols:  # default\n        - websocket  # default\n";
        assert!(text.contains(upgrade), "{text}");
    }

    #[test]
    fn a_schema_fits_what_it_is_about() {
        let leaf = |value: Value| Part::Leaf(value);
        let mapping = |entries: &[(&str, &str)]| {
            let entry = |&(key, value): &(&str, &str)| {
                (key.to_owned(), Origin::Default, leaf(value.into()))
            };
            Part::Mapping(entries.iter().map(entry).collect())
        };
        let object = |more: &str| -> Value {
            let text = format!(
                r#"{{"type": "object", "properties": {{"kind": {{"const": "a"}}, "x": {{}}}}{more}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let open = object("");
        let closed = object(r#", "additionalProperties": false"#);
        let patterns = object(r#", "additionalProperties": false, "patternProperties": {}"#);
        let required = object(r#", "required": ["x"]"#);
        for (part, schema, expected) in [
            (&mapping(&[("x", "1")]), &closed, true),
            (&mapping(&[("y", "1")]), &closed, false),
            (&mapping(&[("y", "1")]), &open, true),
            (&mapping(&[("y", "1")]), &patterns, true),
            (&mapping(&[("kind", "a")]), &closed, true),
            (&mapping(&[("kind", "b")]), &closed, false),
            (&mapping(&[("x", "1"), ("kind", "b")]), &open, false),
            (&mapping(&[("kind", "a")]), &required, false),
            (&mapping(&[("kind", "a"), ("x", "1")]), &required, true),
            (&mapping(&[]), &serde_json::json!({"type": "array"}), false),
            (
                &Part::List(Vec::new()),
                &serde_json::json!({"type": "array"}),
                true,
            ),
            (&Part::List(Vec::new()), &open, false),
            (&leaf("x".into()), &open, false),
        ] {
            assert_eq!(fits(part, schema), expected, "{schema}");
        }
    }

    #[test]
    fn each_level_is_two_columns() {
        let one = |key: &str, part| Part::Mapping(vec![(key.to_owned(), Origin::Default, part)]);
        let list = |item| Part::List(vec![(Origin::Default, item)]);
        let part = one("a", list(one("b", list(one("c", Part::Leaf(1.into()))))));
        let mut yaml = Yaml {
            lines: Lines::default(),
            out: String::new(),
        };
        let Part::Mapping(entries) = &part else {
            unreachable!("made above")
        };
        yaml.mapping(entries, 0);
        let text = yaml.out.replace("  # default", "");
        assert_eq!(text, "a:\n  -\n    b:\n      -\n        c: 1\n");
    }

    #[test]
    fn scalars_are_read_back() {
        for (text, written) in [
            ("srpt", "srpt"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("5%", "5%"),
            ("true", "\"true\""),
            ("7", "\"7\""),
            ("", "\"\""),
            ("a: b", "\"a: b\""),
            ("*", "\"*\""),
            ("a#b \"c\"", "\"a#b \\\"c\\\"\""),
            ("a:", "\"a:\""),
        ] {
            assert_eq!(scalar(&Value::from(text)), written);
        }
    }
}
