//! Replacements of paths by HAProxy's rules, as Sprat's.

use sprat_config::resolved::{RegexRewrite, SafeRegex};

use super::parse::Line;
use crate::patterns::Pattern;
use crate::yaml::{Value, map, text};

/// Returns the replacement of paths by a rule, if Sprat can do it.
pub(super) fn rewritten(line: &Line) -> Option<Value> {
    let (pattern, substitution) = match line.word(1) {
        "replace-path" => of_whole(line.word(2), line.word(3))?,
        "set-path" => match line.word(2).strip_prefix("%[path,regsub(") {
            Some(rest) => of_parts(rest)?,
            None => of_whole("^.*$", line.word(2))?,
        },
        _ => return None,
    };
    let rewrite = SafeRegex::new(&pattern).and_then(|own| RegexRewrite::new(own, &substitution));
    if substitution.contains(['%', '?', '#']) || rewrite.is_err() {
        return None;
    }
    Some(map([
        ("pattern", text(pattern)),
        ("substitution", text(substitution)),
    ]))
}

/// Returns the pattern and the substitution for whole paths in which an expression is found.
fn of_whole(expression: &str, replacement: &str) -> Option<(String, String)> {
    if replacement.is_empty() {
        return None;
    }
    let (expression, replacement) = match replacement.contains(r"\0") {
        // What the expression matches is a part of what Sprat's pattern does.
        true => (format!("({expression})"), renumbered(replacement, 1)?),
        false => (expression.to_owned(), replacement.to_owned()),
    };
    let pattern = Pattern::new(&expression, false).whole_for_rewrite();
    Some((pattern, replacement))
}

/// Returns the pattern and the substitution that do the same as `regsub`, whose arguments `text`
/// begins with. None if other converters come after it.
fn of_parts(text: &str) -> Option<(String, String)> {
    let (arguments, rest) = arguments(text)?;
    let (expression, replacement, flags) = match &arguments[..] {
        [expression, replacement] => (expression, replacement, ""),
        [expression, replacement, flags] => (expression, replacement, flags.as_str()),
        _ => return None,
    };
    if rest != "]" || !flags.chars().all(|own| matches!(own, 'g' | 'i')) {
        return None;
    }
    let case = if flags.contains('i') { "(?i)" } else { "" };
    let is_once = expression.starts_with('^') && !expression.contains('|');
    if flags.contains('g') || is_once {
        return Some((format!("{case}{expression}"), replacement.clone()));
    }
    // Sprat replaces every match: of this pattern there is but one, with all that stands before.
    let pattern = format!("^(.*?)({case}{expression})");
    Some((pattern, format!(r"\1{}", renumbered(replacement, 2)?)))
}

/// Returns a replacement with the numbers of its groups raised; none if one has two digits then.
fn renumbered(replacement: &str, by: u32) -> Option<String> {
    let mut out = String::with_capacity(replacement.len());
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '\\' {
            let next = rest.next()?;
            out.push(match next.to_digit(10) {
                Some(group) => char::from_digit(group + by, 10)?,
                None => next,
            });
        }
    }
    Some(out)
}

/// Splits the arguments of a converter as HAProxy does, from behind the opening bracket: in quotes,
/// commas and brackets are plain text. Returns them, and what follows the closing bracket.
fn arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let mut out = Vec::new();
    let mut own = String::new();
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                // Before any other character the backslash stays.
                let next = rest.clone().next();
                let escaped = next.filter(|own| matches!(own, '\\' | ' ' | '"' | '\''));
                if escaped.is_some() {
                    rest.next();
                }
                own.push(escaped.unwrap_or(c));
            }
            (',', None) => out.push(std::mem::take(&mut own)),
            (')', None) => {
                out.push(own);
                return Some((out, rest.as_str()));
            }
            _ => own.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_outside_of_quotes() {
        let of = |text| arguments(text).map(|(own, rest)| (own.join("|"), rest));
        for (text, expected) in [
            (r"^/a\.b,/)]", Some((r"^/a\.b|/", "]"))),
            (
                r"'^/(a),',/\1,g),lower]",
                Some((r"^/(a),|/\1|g", ",lower]")),
            ),
            (r#""a\\b'",)]"#, Some((r"a\b'|", "]"))),
            ("a,b", None),
        ] {
            let expected = expected.map(|(own, rest)| (own.to_owned(), rest));
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(renumbered(r"/\0\\1\7", 2).unwrap(), r"/\2\\1\9");
        assert_eq!(renumbered(r"\8", 2), None);
    }
}
