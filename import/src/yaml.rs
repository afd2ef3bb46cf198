//! YAML as a person would write it: short maps in one line, long ones in several.

/// A value of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number or a word of Sprat's, without quotes.
    Word(String),
    /// A text, quoted where it has to be.
    Text(String),
    List(Vec<Value>),
    Map(Map),
}

/// A mapping: keys and their values, in order.
pub(crate) type Map = Vec<(String, Value)>;

/// The most columns of a map that is written in one line.
const WIDTH: usize = 96;

#[allow(
    clippy::needless_pass_by_value,
    reason = "numbers and words are written in place"
)]
pub(crate) fn word(text: impl ToString) -> Value {
    Value::Word(text.to_string())
}

pub(crate) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

pub(crate) fn texts<T: Into<String>>(list: impl IntoIterator<Item = T>) -> Value {
    Value::List(list.into_iter().map(|own| text(own)).collect())
}

pub(crate) fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.map(|(key, value)| (key.to_owned(), value)).into())
}

/// Adds a list under a key, unless it is empty.
pub(crate) fn put_list(out: &mut Map, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        out.push((key.to_owned(), Value::List(list)));
    }
}

impl Value {
    /// Returns the value as one line of YAML.
    pub(crate) fn inline(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Text(text) => quoted(text),
            Self::List(list) => {
                let items: Vec<String> = list.iter().map(Self::inline).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(map) => {
                let pairs: Vec<String> = map
                    .iter()
                    .map(|(key, value)| format!("{key}: {}", value.inline()))
                    .collect();
                format!("{{{}}}", pairs.join(", "))
            }
        }
    }
}

/// Writes a map in lines of its own, each after `indent` spaces. The first line begins with `lead`
/// instead, if there is one.
pub(crate) fn write_map(out: &mut String, map: &Map, indent: usize, lead: &str) {
    for (place, (key, value)) in map.iter().enumerate() {
        match place {
            0 if !lead.is_empty() => out.push_str(lead),
            _ => out.extend(std::iter::repeat_n(' ', indent)),
        }
        out.push_str(key);
        out.push(':');
        write_value(out, value, indent, key.len());
    }
}

fn write_value(out: &mut String, value: &Value, indent: usize, key_len: usize) {
    let line = value.inline();
    let is_short = indent + key_len + 2 + line.len() <= WIDTH;
    match value {
        Value::Map(map) if !is_short => {
            out.push('\n');
            write_map(out, map, indent + 2, "");
        }
        Value::List(list) if !is_short => {
            out.push('\n');
            for item in list {
                out.extend(std::iter::repeat_n(' ', indent + 2));
                out.push_str("- ");
                out.push_str(&item.inline());
                out.push('\n');
            }
        }
        _ => {
            out.push(' ');
            out.push_str(&line);
            out.push('\n');
        }
    }
}

/// Returns a text as a scalar that is read back as the same text. A `${` in it does not begin a
/// variable of the environment.
pub(crate) fn quoted(text: &str) -> String {
    let text = text.replace("${", "$${");
    if is_plain(&text) {
        return text;
    }
    if text.chars().all(|c| (' '..='~').contains(&c)) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || u32::from(c) > 0x7e => {
                out.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns whether a text needs no quotes, even in a line with other values.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let Some(first) = text.bytes().next() else {
        return false;
    };
    let all = |also: &[u8]| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || also.contains(&b);
        text.bytes().all(fits)
    };
    let is_address = || {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, "1"));
        let digits = |own: &str| !own.is_empty() && own.bytes().all(|b| b.is_ascii_digit());
        digits(port) && host.split('.').count() == 4 && host.split('.').all(digits)
    };
    let is_name = (first.is_ascii_alphabetic() || first == b'/') && all(b"/._-:") && {
        !text.ends_with(':') && !WORDS.contains(&&*text.to_ascii_lowercase())
    };
    is_name || is_address()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_where_they_have_to_be() {
        for (text, expected) in [
            ("example.org", "example.org"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("10.0.0.0/8", "'10.0.0.0/8'"),
            ("off", "'off'"),
            ("12", "'12'"),
            ("", "''"),
            ("it's", "'it''s'"),
            ("a: b", "'a: b'"),
            ("${HOME}", "'$${HOME}'"),
            ("a\nb\"é", "\"a\\nb\\\"\\U000000e9\""),
            ("*.example.org", "'*.example.org'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
