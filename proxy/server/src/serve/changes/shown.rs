//! The differences between configurations, as their files have them.

use std::collections::BTreeSet;

use serde_json::Value;
use sprat_config::Config;

use super::Detail;

/// The most characters of a value in a line.
const MAX_SHOWN: usize = 100;

/// Returns the value that a file gives a key; null if it gives none.
pub(super) fn of_key<'c>(key: &str, config: &'c Config) -> &'c Value {
    &config.shown.json()[key]
}

/// Returns the keys that two mappings have different values for. Values that are no
/// mappings are compared as a whole.
pub(super) fn details(before: &Value, after: &Value) -> Vec<Detail> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before == after {
            return Vec::new();
        }
        if let (Value::Null, Value::Object(_)) | (Value::Object(_), Value::Null) = (before, after)
            && before
                .as_object()
                .or(after.as_object())
                .is_some_and(|own| !own.is_empty())
        {
            let empty = Value::Object(serde_json::Map::new());
            let or_empty = |value: &Value| match value {
                Value::Null => empty.clone(),
                other => other.clone(),
            };
            return details(&or_empty(before), &or_empty(after));
        }
        return vec![Detail {
            key: String::new(),
            before: given(Some(before)),
            after: given(Some(after)),
        }];
    };
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let different = keys
        .into_iter()
        .filter(|key| old.get(*key) != new.get(*key));
    let detail = |key: &String| Detail {
        key: key.clone(),
        before: given(old.get(key)),
        after: given(new.get(key)),
    };
    different.map(detail).collect()
}

fn given(value: Option<&Value>) -> Option<Value> {
    value.filter(|value| !value.is_null()).cloned()
}

impl Detail {
    /// Describes the difference in a line; that of a list by what came and went.
    pub(super) fn text(&self) -> String {
        let key = match self.key.as_str() {
            "" => String::new(),
            key => format!("{key}: "),
        };
        if let (Some(Value::Array(old)), Some(Value::Array(new))) = (&self.before, &self.after) {
            let missing = |from: &[Value], of: &[Value], sign: char| {
                let own = of.iter().filter(|item| !from.contains(item));
                own.map(|item| format!("{sign}{}", compact(item)))
                    .collect::<Vec<_>>()
            };
            let mut items = missing(old, new, '+');
            items.extend(missing(new, old, '-'));
            if !items.is_empty() {
                return format!("{key}{}", shortened(&items.join(" ")));
            }
        }
        let side = |value: &Option<Value>| value.as_ref().map_or("(default)".to_owned(), compact);
        format!("{key}{} -> {}", side(&self.before), side(&self.after))
    }
}

/// Returns a value as a line shows it, cut where it is long.
pub(super) fn compact(value: &Value) -> String {
    shortened(&match value {
        Value::String(text) => text.clone(),
        Value::Array(items)
            if items
                .iter()
                .all(|item| !item.is_object() && !item.is_array()) =>
        {
            let items: Vec<_> = items.iter().map(compact).collect();
            items.join(" ")
        }
        other => other.to_string(),
    })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
