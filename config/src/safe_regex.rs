//! Regular expressions in routes. Matching takes time that is linear in the length of the text,
//! whatever the expression.
//!
//! They see bytes: `.` is a byte, `\w` and `(?i)` know ASCII alone.

use std::hash::{Hash, Hasher};

use regex::bytes::{Regex, RegexBuilder};

/// The most bytes of a regular expression, as it is written.
pub(crate) const MAX_PATTERN_LEN: usize = 1024;

/// The most bytes of memory that a compiled expression may take.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// A regular expression, equal to another with the same text.
#[derive(Clone, Debug)]
pub struct SafeRegex {
    text: String,
    whole: Regex,
    part: Regex,
}

impl SafeRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with the expression, in a line.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > MAX_PATTERN_LEN {
            return Err(format!("it is longer than {MAX_PATTERN_LEN} bytes"));
        }
        Ok(Self {
            part: compiled(text)?,
            whole: compiled(&format!(r"\A(?:{text})\z"))?,
            text: text.to_owned(),
        })
    }

    /// Returns the expression as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the expression matches all of a text.
    pub fn matches_all_of(&self, text: &str) -> bool {
        self.whole.is_match(text.as_bytes())
    }

    /// Returns the number of groups in the expression, which a substitution can name.
    pub fn groups(&self) -> usize {
        self.part.captures_len() - 1
    }
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .nest_limit(50)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it takes too much memory once compiled".to_owned(),
        // The last line says what; those before it draw where.
        other => {
            let told = other.to_string();
            let last = told.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    })
}

impl PartialEq for SafeRegex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SafeRegex {}

impl Hash for SafeRegex {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// A replacement of every match of an expression in a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegexRewrite {
    pattern: SafeRegex,
    /// The substitution as the operator writes it: `\1` is the first group, `\\` a backslash.
    substitution: String,
    /// The substitution as pieces of text and groups.
    pieces: Vec<RewritePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RewritePiece {
    Text(String),
    Group(usize),
}

impl RegexRewrite {
    /// Creates a replacement. In the substitution `\0` is the whole match, `\1` to `\9` are its
    /// groups, and `\\` is a backslash.
    ///
    /// # Errors
    ///
    /// The substitution names a group that does not exist, or ends in a backslash.
    pub fn new(pattern: SafeRegex, substitution: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = substitution.chars();
        while let Some(next) = rest.next() {
            match (next, next == '\\') {
                (_, false) => text.push(next),
                (_, true) => match rest.next() {
                    Some('\\') => text.push('\\'),
                    Some(digit) if digit.is_ascii_digit() => {
                        let group = digit as usize - '0' as usize;
                        let groups = pattern.groups();
                        if group > groups {
                            return Err(format!(
                                "`\\{group}` names a group, of which the pattern has {groups}"
                            ));
                        }
                        pieces.push(RewritePiece::Text(std::mem::take(&mut text)));
                        pieces.push(RewritePiece::Group(group));
                    }
                    _ => return Err("a backslash is followed by a digit, or by another".to_owned()),
                },
            }
        }
        pieces.push(RewritePiece::Text(text));
        pieces.retain(|piece| *piece != RewritePiece::Text(String::new()));
        Ok(Self {
            pattern,
            substitution: substitution.to_owned(),
            pieces,
        })
    }

    /// Returns the expression whose matches are replaced.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// Returns the substitution, as the operator writes it.
    pub fn substitution(&self) -> &str {
        &self.substitution
    }

    /// Returns a text with every match replaced; none if there is no match, or if the result is not
    /// UTF-8.
    pub fn rewrite(&self, text: &str) -> Option<String> {
        let mut found = self.pattern.part.captures_iter(text.as_bytes()).peekable();
        found.peek()?;
        let mut out = Vec::with_capacity(text.len() + self.substitution.len());
        let mut from = 0;
        for captures in found {
            let all = captures.get(0)?;
            out.extend_from_slice(&text.as_bytes()[from..all.start()]);
            for piece in &self.pieces {
                match piece {
                    RewritePiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                    RewritePiece::Group(group) => {
                        let matched = captures.get(*group);
                        out.extend_from_slice(matched.map_or(&[][..], |own| own.as_bytes()));
                    }
                }
            }
            from = all.end();
        }
        out.extend_from_slice(&text.as_bytes()[from..]);
        String::from_utf8(out).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;

    fn regex(text: &str) -> SafeRegex {
        SafeRegex::new(text).unwrap()
    }

    #[test]
    fn all_of_a_text_has_to_match() {
        for (pattern, text, matches) in [
            ("/a|/ab", "/ab", true),
            ("/a|/ab", "/abc", false),
            (r"/img/\d+\.(png|jpg)", "/img/12.png", true),
            (r"/img/\d+\.(png|jpg)", "/img/12.png/", false),
            ("(?i)/ABC", "/abc", true),
            ("", "", true),
            ("", "/", false),
            ("a$|b", "b", true),
        ] {
            assert_eq!(
                regex(pattern).matches_all_of(text),
                matches,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        for (pattern, told) in [
            ("a(b", "unclosed group"),
            (r"(a)\1", "backreferences are not supported"),
            (
                "(?=a)b",
                "look-around, including look-ahead and look-behind, is not supported",
            ),
            ("[a-z]{9999}", "it takes too much memory once compiled"),
            (&"a".repeat(1025), "it is longer than 1024 bytes"),
        ] {
            assert_eq!(SafeRegex::new(pattern).unwrap_err(), told, "{pattern}");
        }
    }

    #[test]
    fn every_match_is_replaced() {
        for (pattern, substitution, text, rewritten) in [
            (
                "^/service/([^/]+)(/.*)$",
                r"\2/instance/\1",
                "/service/foo/v1/api",
                Some("/v1/api/instance/foo"),
            ),
            (
                "one",
                "two",
                "/xxx/one/yyy/one/zzz",
                Some("/xxx/two/yyy/two/zzz"),
            ),
            ("(?i)/xxx/", "/yyy/", "/aaa/XxX/bbb", Some("/aaa/yyy/bbb")),
            ("/a(b)?", r"<\1\0\\>", "/a/ab", Some(r"</a\><b/ab\>")),
            ("/none", "/x", "/a", None),
            ("x*", "-", "abc", Some("-a-b-c-")),
        ] {
            let rewrite = RegexRewrite::new(regex(pattern), substitution).unwrap();
            assert_eq!(rewrite.rewrite(text).as_deref(), rewritten, "{pattern}");
        }
    }

    #[test]
    fn a_substitution_names_groups_that_are_there() {
        let told = |substitution| RegexRewrite::new(regex("(a)"), substitution).unwrap_err();
        assert_eq!(
            told(r"\2"),
            r"`\2` names a group, of which the pattern has 1"
        );
        assert_eq!(
            told(r"\"),
            "a backslash is followed by a digit, or by another"
        );
        assert_eq!(
            told(r"\x"),
            "a backslash is followed by a digit, or by another"
        );
    }

    #[test]
    fn expressions_are_the_same_if_they_are_written_the_same() {
        let hash = |of: &SafeRegex| {
            let mut hasher = DefaultHasher::new();
            of.hash(&mut hasher);
            hasher.finish()
        };
        let (one, same, other) = (regex("a|b"), regex("a|b"), regex("[ab]"));
        assert_eq!(one, same);
        assert_eq!(hash(&one), hash(&same));
        assert_ne!(one, other);
        assert_ne!(hash(&one), hash(&other));
    }

    #[test]
    fn a_replacement_is_told_as_it_is_written() {
        let rewrite = RegexRewrite::new(regex("^/(a+)"), r"/\\\1").unwrap();
        assert_eq!(rewrite.pattern(), "^/(a+)");
        assert_eq!(rewrite.substitution(), r"/\\\1");
    }
}
