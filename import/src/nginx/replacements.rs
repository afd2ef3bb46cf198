//! Replacements of paths: nginx's targets with variables, as Sprat's regular expressions.

use super::locations::encoded;
use super::variables::{Piece, pieces};
use crate::patterns::{self, Pattern};
use crate::restrict::takes_all;

/// A replacement of a whole path.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    /// The expression that matches the whole path.
    pub(super) pattern: String,
    /// The text that replaces the path, with `\1` for the first group.
    pub(super) substitution: String,
}

impl Rewrite {
    /// Returns the text that all new paths begin with, percent-encoded as locations are, and
    /// whether it is the whole of them.
    pub(super) fn start(&self) -> (String, bool) {
        let mut start = String::new();
        let mut rest = self.substitution.chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => match rest.next() {
                    Some('\\') => start.push('\\'),
                    _ => return (encoded(&start), false),
                },
                own => start.push(own),
            }
        }
        (encoded(&start), true)
    }

    /// Returns whether an expression is found in the new paths; none if it may be found in some of
    /// them.
    pub(super) fn meets(&self, pattern: &Pattern) -> Option<bool> {
        if takes_all(pattern) {
            return Some(true);
        }
        let (start, is_all) = self.start();
        match (pattern.may_begin(&start), is_all) {
            (false, _) => Some(false),
            (true, true) => patterns::finds(pattern, &start),
            (true, false) => None,
        }
    }
}

/// Returns the replacement of a path that `before` may have replaced already, and a remark if a
/// part is lost.
///
/// # Errors
///
/// The part that Sprat cannot express.
pub(super) fn replaced_in(
    before: Option<&Rewrite>,
    pattern: &Pattern,
    target: &str,
) -> Result<(Rewrite, Option<&'static str>), String> {
    let (mut rewrite, doubt) = replacement(pattern, target)?;
    if let Some(before) = before {
        if !rewrite.start().1 {
            return Err("two replacements of a path in turn".to_owned());
        }
        rewrite.pattern.clone_from(&before.pattern);
    }
    Ok((rewrite, doubt))
}

/// Returns the replacement of a path, and a remark if a part is lost.
///
/// # Errors
///
/// The part that Sprat cannot express.
pub(super) fn replacement(
    pattern: &Pattern,
    target: &str,
) -> Result<(Rewrite, Option<&'static str>), String> {
    let whole = pattern.whole_for_rewrite();
    patterns::check(&whole).map_err(|told| format!("the expression is none of Sprat's: {told}"))?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.replace("${args}", "").replace("$args", "");
    let mut doubt = (!query.trim_matches('&').is_empty())
        .then_some("rewritten paths keep the query of the request: the one given here is lost");
    if path.contains("request_uri") && doubt.is_none() {
        doubt = Some("`$request_uri` is the path here, whose query is not repeated in it");
    }
    let mut substitution = String::new();
    for piece in pieces(path) {
        match piece {
            Piece::Text(text) => substitution.push_str(&text.replace('\\', "\\\\")),
            Piece::Variable(name) => match name.parse::<usize>() {
                Ok(group) if (1..=patterns::groups(&whole)).contains(&group) => {
                    substitution.push_str(&format!("\\{group}"));
                }
                _ if name == "is_args" || name == "args" => {}
                _ if (name == "request_uri" || name == "uri") && !substitution.contains("\\0") => {
                    substitution.push_str("\\0");
                }
                _ => return Err(format!("there is no `${name}` in rewritten paths")),
            },
        }
    }
    if !substitution.starts_with('/') && !substitution.starts_with('\\') {
        substitution.insert(0, '/');
    }
    let rewrite = Rewrite {
        pattern: whole,
        substitution,
    };
    Ok((rewrite, doubt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_of_all_of_a_path() {
        let of = |pattern: &str, target: &str| {
            let (own, doubt) = replacement(&Pattern::new(pattern, false), target).unwrap();
            (own.pattern, own.substitution, doubt.is_some())
        };
        let plain = ("^/a/(.*)$".to_owned(), "/b/\\1".to_owned(), false);
        assert_eq!(of("^/a/(.*)$", "/b/$1"), plain);
        assert_eq!(of("^/a/(.*)$", "/b/${1}?$args"), plain);
        assert!(of("^/a/(.*)$", "/index.php?q=$1").2);
        let wrong = replacement(&Pattern::new("^/a", false), "/b/$1");
        assert_eq!(wrong.unwrap_err(), "there is no `$1` in rewritten paths");
    }
}
