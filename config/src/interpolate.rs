//! `${NAME}` and `${NAME:-default}` in values; `$${` stands for `${`.

use std::ops::Range;

/// A function that looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A fault in a variable, and its place in the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VariableFault {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// The most bytes of a value once its variables are put in.
const MAX_BYTES: usize = 64 * 1024;

/// Returns the text with its variables put in; none if there is no `${` in it. The values of
/// variables are not searched for variables in turn.
pub(crate) fn interpolate(text: &str, env: Env<'_>) -> Result<Option<String>, Vec<VariableFault>> {
    if !text.contains("${") {
        return Ok(None);
    }
    let (mut out, mut faults) = (String::new(), Vec::new());
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        if text[at..start].ends_with('$') {
            out.push_str(&text[at..start]);
            out.push('{');
            at = start + 2;
            continue;
        }
        out.push_str(&text[at..start]);
        let Some(length) = text[start..].find('}') else {
            faults.push(VariableFault {
                span: start..text.len(),
                message: "`${` is not closed by `}`".to_owned(),
                help: "write `$${` for the characters `${`".to_owned(),
            });
            return Err(faults);
        };
        at = start + length + 1;
        match value(&text[start + 2..at - 1], env) {
            Ok(value) if out.len() + value.len() <= MAX_BYTES => out.push_str(&value),
            Ok(_) => faults.push(VariableFault {
                span: start..at,
                message: format!("the value is longer than {MAX_BYTES} bytes"),
                help: "set the variable to something shorter".to_owned(),
            }),
            Err((message, help)) => faults.push(VariableFault {
                span: start..at,
                message,
                help,
            }),
        }
    }
    out.push_str(&text[at..]);
    if faults.is_empty() {
        Ok(Some(out))
    } else {
        Err(faults)
    }
}

fn value(inner: &str, env: Env<'_>) -> Result<String, (String, String)> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !valid {
        return Err((
            match name {
                "" => "`${` is followed by no name".to_owned(),
                _ => format!("`{name}` is not the name of an environment variable"),
            },
            "write `${NAME}`, `${NAME:-default}`, or `$${` for the characters `${`".to_owned(),
        ));
    }
    // As in the shell, `:-` also replaces what is set but empty.
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err((
            format!("the environment variable `{name}` is not set"),
            format!("set it, or give a default: `${{{name}:-default}}`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<Option<String>, Vec<Range<usize>>> {
        let env = |name: &str| match name {
            "PORT" => Some("8080".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${PORT}".to_owned()),
            _ => None,
        };
        interpolate(text, &env).map_err(|faults| faults.into_iter().map(|f| f.span).collect())
    }

    #[test]
    fn puts_variables_in() {
        for (text, expected) in [
            ("${PORT}", "8080"),
            ("a${PORT}b${PORT}", "a8080b8080"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${PORT:-x}", "8080"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("${NESTED}", "${PORT}"),
            ("$${PORT}", "${PORT}"),
            ("$${PORT} ${PORT}", "${PORT} 8080"),
        ] {
            assert_eq!(run(text), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!(run("$PORT $ {x}"), Ok(None));
    }

    #[test]
    fn says_where_it_cannot() {
        assert_eq!(run("a${NONE}b${X-Y}c"), Err(vec![1..8, 9..15]));
        assert_eq!(run("${NONE} ${PORT"), Err(vec![0..7, 8..14]));
        assert_eq!(run("${} ${-}"), Err(vec![0..3, 4..8]));
    }

    #[test]
    fn a_value_with_its_variables_is_bounded() {
        let longest = "x".repeat(MAX_BYTES);
        let env = |name: &str| (name == "LONG").then(|| longest.clone());
        let run = |text| interpolate(text, &env);
        assert_eq!(run("${LONG}"), Ok(Some(longest.clone())));
        let faults = run("a${LONG}").unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].span, 1..8);
        assert_eq!(faults[0].message, "the value is longer than 65536 bytes");
    }

    #[test]
    fn names_are_those_of_shells() {
        let env = |name: &str| Some(name.to_lowercase());
        for name in ["A", "_A", "A_1", "_"] {
            let value = interpolate(&format!("${{{name}}}"), &env);
            assert_eq!(value, Ok(Some(name.to_lowercase())));
        }
        for name in ["1A", "A-B", "A B", "\u{c4}", ""] {
            let faults = interpolate(&format!("${{{name}}}"), &env).unwrap_err();
            assert!(faults[0].help.starts_with("write `${NAME}`"), "{name}");
        }
    }
}
