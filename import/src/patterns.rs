//! Regular expressions of nginx and HAProxy, which look for a part of a text, as those of Sprat,
//! which match all of it.

use std::iter::Peekable;
use std::str::Chars;

use sprat_config::resolved::SafeRegex;

use crate::document::PathIs;

/// An expression as another proxy has it, which may match any part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The expression as the operator writes it.
    pub(crate) text: String,
    /// Whether the case of letters does not count.
    pub(crate) caseless: bool,
}

/// An expression without its anchors.
struct Core<'a> {
    begins: bool,
    text: &'a str,
    ends: bool,
}

impl Pattern {
    pub(crate) fn new(text: &str, caseless: bool) -> Self {
        Self {
            text: text.to_owned(),
            caseless,
        }
    }

    /// Creates an expression for paths as Sprat has them from one for decoded paths, as nginx has
    /// them. Characters that may not stand in a path are encoded in it, others match in both
    /// spellings. If that is not possible, the result is an expression that Sprat does not take.
    pub(crate) fn of_path(text: &str, caseless: bool) -> Self {
        // An open group is no expression.
        Self::new(&encoded(text).unwrap_or_else(|| "(".to_owned()), caseless)
    }

    /// Returns the expression without its anchors. One with alternatives keeps them.
    fn core(&self) -> Core<'_> {
        if has_alternatives(&self.text) {
            return Core {
                begins: false,
                text: &self.text,
                ends: false,
            };
        }
        let (begins, text) = match self.text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, &*self.text),
        };
        let slashes = |text: &str| text.bytes().rev().take_while(|b| *b == b'\\').count();
        let (text, ends) = match text.strip_suffix('$') {
            Some(rest) if slashes(rest) % 2 == 0 => (rest, true),
            _ => (text, false),
        };
        Core { begins, text, ends }
    }

    /// Returns an expression for all of a text, after the literal text `lead`, a part of which this
    /// one matches. `any_start` and `any_end` match the rest, unless anchors exclude it.
    fn after(&self, lead: &str, any_start: &str, any_end: &str) -> String {
        let core = self.core();
        let start = if core.begins { "" } else { any_start };
        let end = if core.ends { "" } else { any_end };
        let text = match (self.caseless, has_alternatives(core.text)) {
            (true, _) => format!("(?i:{})", core.text),
            (false, true) => format!("(?:{})", core.text),
            (false, false) => core.text.to_owned(),
        };
        format!("{}{start}{text}{end}", escaped(lead))
    }

    /// Returns an expression that matches exactly the texts in which this one is found, from end to
    /// end.
    pub(crate) fn whole(&self) -> String {
        self.after("", ".*", ".*")
    }

    /// Returns the same expression as [`Self::whole`] for a replacement: the leftmost match counts,
    /// and groups keep their numbers.
    pub(crate) fn whole_for_rewrite(&self) -> String {
        format!("^{}$", self.after("", ".*?", ".*"))
    }

    /// Returns the literal text at the beginning of all texts that match; none if the expression is
    /// not anchored there, or ignores case.
    fn literal_start(&self) -> Option<String> {
        let core = self.core();
        (core.begins && !self.caseless).then(|| leading(core.text))
    }

    /// Returns whether the expression may be found in a text that begins with `start`.
    pub(crate) fn may_begin(&self, start: &str) -> bool {
        let meets = |own: &String| own.starts_with(start) || start.starts_with(own.as_str());
        self.literal_starts().iter().any(meets)
    }

    /// Returns the literal texts of which one begins each text that matches. The alternatives of a
    /// group after the beginning have one each.
    fn literal_starts(&self) -> Vec<String> {
        let lead = self.literal_start().unwrap_or_default();
        let core = self.core();
        // Escapes are not told apart from what they stand for.
        let rest = core
            .text
            .strip_prefix(lead.as_str())
            .and_then(|own| own.strip_prefix("(?:"));
        let Some(inner) = rest.filter(|_| !lead.is_empty()) else {
            return vec![lead];
        };
        let end = group_end(core.text, lead.len()) - lead.len() - "(?:".len();
        let (group, after) = inner.split_at(end.min(inner.len()));
        let Some(group) = group
            .strip_suffix(')')
            .filter(|_| !after.starts_with(['?', '*', '{']))
        else {
            return vec![lead];
        };
        let (mut cuts, mut starts) = (Vec::new(), Vec::new());
        walk(group, &mut |at, c, depth| {
            if c == '|' && depth == 0 {
                cuts.push(at);
            }
        });
        let mut from = 0;
        for end in cuts.into_iter().chain([group.len()]) {
            starts.push(format!("{lead}{}", leading(&group[from..end])));
            from = end + 1;
        }
        starts
    }

    /// Returns expressions for the texts that begin with `prefix` and in which this one is found.
    /// The flag says whether they match these texts and no others.
    pub(crate) fn within(&self, prefix: &str) -> (Vec<String>, bool) {
        if prefix == "/" {
            return (vec![self.whole()], true);
        }
        // `^/.*x` is found wherever `x` is.
        let open = ["^/.*", "^.*"];
        let bare = open.iter().find_map(|own| self.text.strip_prefix(own));
        if let Some(rest) = bare.filter(|own| !own.starts_with(['?', '+'])) {
            return match has_alternatives(&self.text) {
                true => (vec![self.whole()], false),
                false => Self::new(rest, self.caseless).within_anywhere(prefix),
            };
        }
        let Some(start) = self.literal_start() else {
            return self.within_anywhere(prefix);
        };
        match (start.starts_with(prefix), prefix.starts_with(&start)) {
            (true, _) => (vec![self.whole()], true),
            (false, false) => (Vec::new(), true),
            // What follows the literal start may or may not lead on to the prefix.
            (false, true) => (vec![self.whole()], false),
        }
    }

    /// Returns what [`Self::within`] does, for an expression that may be found anywhere.
    fn within_anywhere(&self, prefix: &str) -> (Vec<String>, bool) {
        let core = self.core();
        let unknown = (vec![self.whole()], false);
        if core.begins || has_anchor(core.text) || has_alternatives(core.text) {
            return unknown;
        }
        if !core.ends && matches(&self.whole(), prefix) {
            return (vec![format!("{}.*", escaped(prefix))], true);
        }
        let fold = |text: &str| match self.caseless {
            true => text.to_lowercase(),
            false => text.to_owned(),
        };
        let (start, folded) = (fold(&leading(core.text)), fold(prefix));
        if start.is_empty() || folded.len() != prefix.len() {
            return unknown;
        }
        let mut found = vec![self.after(prefix, ".*", ".*")];
        // A match may begin within the prefix, and end beyond it.
        for (at, _) in prefix.char_indices() {
            let rest = &folded[at..];
            if start.starts_with(rest) {
                found.push(self.after(&prefix[..at], "", ".*"));
            } else if rest.starts_with(&start) {
                return unknown;
            }
        }
        (found, true)
    }

    /// Returns the texts of which one begins each text that matches, if the expression asks for
    /// nothing more: `^/a`, `^/(?:a|b).*`.
    pub(crate) fn prefixes(&self) -> Option<Vec<String>> {
        let text = self.text.strip_prefix('^').filter(|_| !self.caseless)?;
        let text = text.strip_suffix(".*").unwrap_or(text);
        let Some((lead, group)) = text.split_once('(') else {
            return Some(vec![literal(text)?]);
        };
        let group = group
            .strip_prefix("?:")
            .unwrap_or(group)
            .strip_suffix(')')?;
        let lead = if lead.is_empty() {
            String::new()
        } else {
            literal(lead)?
        };
        let each = group
            .split('|')
            .map(|own| Some(format!("{lead}{}", literal(own)?)));
        each.collect()
    }

    /// Returns the two parts of an expression `^/(?!a)b`: the excepted `^/(?:a)`, and `^/b` without
    /// the exception. None for any other expression.
    pub(crate) fn exception(&self) -> Option<(Self, Self)> {
        let rest = self.text.strip_prefix("^/(?!")?;
        let end = group_end(&self.text, 2) - 5;
        let excepted = rest.get(..end.checked_sub(1)?)?;
        let of = |text: String| Self { text, ..*self };
        Some((
            of(format!("^/(?:{excepted})")),
            of(format!("^/{}", &rest[end..])),
        ))
    }

    /// Returns the path, or the prefix that ends in a slash, that the expression stands for, if it
    /// does.
    pub(crate) fn as_path(&self) -> Option<PathIs> {
        let text = self.text.strip_prefix('^').filter(|_| !self.caseless)?;
        match text.strip_suffix('$') {
            Some(bare) => Some(PathIs::Exact(literal(bare)?)),
            None => {
                let path = literal(text).filter(|own| own.ends_with('/') && own.len() > 1)?;
                Some(PathIs::Prefix(path))
            }
        }
    }

    /// Returns a wider expression without look-around, which Sprat's expressions do not have.
    pub(crate) fn without_look_around(&self) -> Self {
        let mut text = self.text.clone();
        while let Some(at) = ["(?!", "(?=", "(?<!", "(?<="]
            .iter()
            .find_map(|own| text.find(own))
        {
            let end = group_end(&text, at);
            text.replace_range(at..end, "");
        }
        Self { text, ..*self }
    }

    /// Returns the texts that the expression matches, if it is a list of them: `^(a|b)$`, or `a|b`
    /// if not `anchored`.
    pub(crate) fn alternatives(&self, anchored: bool) -> Option<Vec<String>> {
        let (begins, text) = match self.text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, &*self.text),
        };
        let (text, ends) = match text.strip_suffix('$') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        if anchored && !(begins && ends) {
            return None;
        }
        let grouped = text.strip_prefix('(').and_then(|own| own.strip_suffix(')'));
        let inner = match grouped {
            Some(inner) => inner.strip_prefix("?:").unwrap_or(inner),
            // `^a|b$` is another thing.
            None if text.contains('|') && (begins || ends) => return None,
            None => text,
        };
        inner.split('|').map(literal).collect()
    }
}

/// Returns the text that an expression without operators stands for; none for any other.
pub(crate) fn literal(expression: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = expression.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => out.push(rest.next().filter(char::is_ascii_punctuation)?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return None;
            }
            own => out.push(own),
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Returns an expression for percent-encoded paths from one for decoded ones; none if it has a
/// class that cannot be encoded.
fn encoded(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next()? {
                next if next.is_ascii_alphanumeric() => out.extend(['\\', next]),
                next => out.push_str(&spellings(next)),
            },
            '[' => out.push_str(&encoded_class(&mut rest)?),
            '(' if rest.peek() == Some(&'?') => {
                out.push(c);
                // The kind of the group, or its name.
                while let Some(own) = rest.next_if(|own| !":=!>)".contains(*own)) {
                    out.push(own);
                }
                out.extend(rest.next());
            }
            '{' => {
                out.push(c);
                while let Some(own) = rest.next_if(|own| *own != '}') {
                    out.push(own);
                }
            }
            own if ".*+?()|^$}".contains(own) => out.push(own),
            own => out.push_str(&spellings(own)),
        }
    }
    Some(out)
}

/// Reads a class from behind its opening bracket, and returns an expression for the same characters
/// in an encoded path. A class is of single characters, and an encoded one has three.
fn encoded_class(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut class = "[".to_owned();
    let is_negated = rest.next_if_eq(&'^').is_some();
    class.extend(is_negated.then_some('^'));
    // A bracket that comes first is one of the characters.
    rest.peek().filter(|own| **own != ']')?;
    let mut others: Vec<char> = Vec::new();
    // The character that may begin a range.
    let mut before = None;
    loop {
        let own = match rest.next()? {
            ']' => break,
            own if own == '%' || !own.is_ascii() => return None,
            '-' => {
                let range = before.take().zip(rest.peek().copied());
                if range.is_some_and(|(first, last)| spans_spellings(first, last)) {
                    return None;
                }
                class.push('-');
                continue;
            }
            '[' if rest.peek() == Some(&':') => {
                let name: String = rest.by_ref().take_while(|own| *own != ']').collect();
                let plain = [
                    ":alpha:", ":digit:", ":alnum:", ":upper:", ":lower:", ":word:",
                ];
                plain.contains(&&*name).then_some(())?;
                class.push_str(&format!("[{name}]"));
                continue;
            }
            '\\' => {
                class.push('\\');
                rest.next()?
            }
            own => {
                // These have a meaning in classes here.
                class.extend("[&~^".contains(own).then_some('\\'));
                own
            }
        };
        class.push(own);
        before = Some(own);
        if !own.is_ascii_alphanumeric() && !"-._~/".contains(own) {
            others.push(own);
        }
    }
    class.push(']');
    let is_spelt_so =
        |own: &char| own.is_ascii_graphic() && !"\"<>`".contains(*own) && !is_spelt_twice(*own);
    match is_negated {
        true => others.iter().all(is_spelt_so).then_some(class),
        false if others.is_empty() => Some(class),
        false => {
            let others: Vec<String> = others.into_iter().map(spellings).collect();
            Some(format!("(?:{class}|{})", others.join("|")))
        }
    }
}

/// Returns whether clients may send a character in a path encoded or not.
fn is_spelt_twice(c: char) -> bool {
    "!$&'()*+,;=:@".contains(c)
}

/// Returns whether a range has a character that may be encoded or has to be.
fn spans_spellings(first: char, last: char) -> bool {
    let is_plain = |own: char| own.is_ascii_alphanumeric() || "-._~/".contains(own);
    last != ']' && last != '\\' && !(first..=last).all(is_plain)
}

/// Returns an expression for all spellings of a character in a path in normal form.
pub(crate) fn spellings(c: char) -> String {
    let mut bytes = [0; 4];
    let encode = |byte: &u8| format!("%{byte:02X}");
    let encoded: String = c
        .encode_utf8(&mut bytes)
        .bytes()
        .map(|byte| encode(&byte))
        .collect();
    let plain = escaped(&c.to_string());
    match c {
        c if c.is_ascii_alphanumeric() || "-._~/".contains(c) => plain,
        c if is_spelt_twice(c) => format!("(?:{plain}|{encoded})"),
        c if c.is_ascii() => encoded,
        _ => format!("(?:{encoded})"),
    }
}

/// Returns an expression that matches this text alone.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Checks whether Sprat takes an expression.
pub(crate) fn check(expression: &str) -> Result<(), String> {
    SafeRegex::new(expression).map(drop)
}

/// Returns whether an expression matches the whole of a text.
pub(crate) fn matches(expression: &str, text: &str) -> bool {
    SafeRegex::new(expression).is_ok_and(|own| own.matches_all_of(text))
}

/// Returns whether an expression is found in a text; none if Sprat does not take it.
pub(crate) fn finds(pattern: &Pattern, text: &str) -> Option<bool> {
    let whole = SafeRegex::new(&pattern.whole()).ok()?;
    Some(whole.matches_all_of(text))
}

/// Returns the number of groups in an expression, which a replacement can name.
pub(crate) fn groups(expression: &str) -> usize {
    SafeRegex::new(expression).map_or(0, |own| own.groups())
}

/// Calls `see` with each character of an expression outside of classes, with its place in bytes and
/// the depth of groups around it.
fn walk(text: &str, see: &mut dyn FnMut(usize, char, usize)) {
    let (mut depth, mut in_class, mut is_escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match (c, in_class) {
            ('\\', _) => is_escaped = true,
            ('[', false) => in_class = true,
            (']', true) => in_class = false,
            (_, true) => {}
            ('(', false) => {
                see(at, c, depth);
                depth += 1;
            }
            (')', false) => {
                depth = depth.saturating_sub(1);
                see(at, c, depth);
            }
            _ => see(at, c, depth),
        }
    }
}

/// Returns the literal text that an expression begins with.
fn leading(expression: &str) -> String {
    let mut out = String::new();
    let mut rest = expression.chars().peekable();
    while let Some(c) = rest.next() {
        let literal = match c {
            '\\' => match rest.next() {
                Some(own) if own.is_ascii_punctuation() => own,
                _ => break,
            },
            c if ".*+?()[]{}|^$".contains(c) => break,
            own => own,
        };
        if matches!(rest.peek(), Some('*' | '?' | '{')) {
            break;
        }
        out.push(literal);
    }
    out
}

/// Returns whether there are alternatives outside of all groups.
fn has_alternatives(text: &str) -> bool {
    let mut found = false;
    walk(text, &mut |_, c, depth| found |= c == '|' && depth == 0);
    found
}

fn has_anchor(text: &str) -> bool {
    let mut found = false;
    walk(text, &mut |_, c, _| found |= c == '^');
    found
}

/// Returns the byte after the group that begins at `from`.
fn group_end(text: &str, from: usize) -> usize {
    let mut end = text.len();
    let rest = &text[from..];
    walk(rest, &mut |at, c, depth| {
        if c == ')' && depth == 0 && from + at + 1 < end {
            end = from + at + 1;
        }
    });
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Pattern {
        Pattern::new(text, false)
    }

    #[test]
    fn parts_become_wholes() {
        for (text, whole) in [
            (r"\.php$", r".*\.php"),
            ("^/a", "/a.*"),
            ("^/a$", "/a"),
            ("^/a|/b$", ".*(?:^/a|/b$).*"),
            (r"\.(png|jpg)$", r".*\.(png|jpg)"),
            (r"x\$", r".*x\$.*"),
        ] {
            assert_eq!(of(text).whole(), whole, "{text}");
        }
        assert_eq!(Pattern::new(r"\.JPG$", true).whole(), r".*(?i:\.JPG)");
        assert_eq!(of("^/a/(.*)$").whole_for_rewrite(), "^/a/(.*)$");
        assert_eq!(of("/b/(.*)").whole_for_rewrite(), "^.*?/b/(.*).*$");
    }

    #[test]
    fn wholes_match_what_parts_are_found_in() {
        for (pattern, prefix, path, expected) in [
            (r"\.php$", "/wp/", "/wp/a.php", true),
            (r"\.php$", "/wp/", "/x/a.php", false),
            ("/x", "/wp/", "/wp/x", true),
            ("/x", "/wp/", "/wp/a/x/b", true),
            ("/x", "/wp/", "/x/wp/", false),
            ("^/wp/x", "/wp/", "/wp/xy", true),
            ("^/other", "/wp/", "/other", false),
            (r"^/.*\.php$", "/wp/", "/wp/a.php", true),
            (r"^/.*\.php$", "/wp/", "/x/a.php", false),
            ("/b/x", "/a/b/", "/a/b/x", true),
            ("/b/x", "/a/b/", "/a/b/c/b/x", true),
            ("/b/x", "/a/b/", "/a/b/y", false),
            ("/a", "/a/b/", "/a/b/c", true),
            (r"\.php$", "/v1.0/", "/v1.0/x.php", true),
        ] {
            let (found, exact) = of(pattern).within(prefix);
            assert!(exact);
            let matches = |own: &String| SafeRegex::new(own).unwrap().matches_all_of(path);
            assert_eq!(
                found.iter().any(matches),
                expected,
                "{pattern} {prefix} {path}"
            );
        }
        for (pattern, prefix) in [("^/[a-z]+x", "/wp/"), ("[ab]c", "/wp/"), ("/w.x", "/wp/")] {
            assert!(!of(pattern).within(prefix).1, "{pattern} {prefix}");
        }
    }

    #[test]
    fn lists_are_read() {
        let listed = |text: &str, anchored| of(text).alternatives(anchored);
        let two = Some(vec!["GET".to_owned(), "HEAD".to_owned()]);
        assert_eq!(listed("^(GET|HEAD)$", true), two);
        assert_eq!(listed("GET|HEAD", false), two);
        assert_eq!(listed("GET|HEAD", true), None);
        assert_eq!(listed("^GET|HEAD$", true), None);
        assert_eq!(
            listed(r"^a\.example$", true),
            Some(vec!["a.example".to_owned()])
        );
        assert_eq!(listed("^a.*$", true), None);
    }

    #[test]
    fn what_may_begin_so_is_known() {
        for (pattern, start, expected) in [
            ("^/a", "/", true),
            ("^/a", "/b", false),
            ("a$", "/b", true),
            (r"^/(?:\.|build|x(?:y|z))(?:$|/)", "/index.php/", false),
            (r"^/(?:\.|build|x(?:y|z))(?:$|/)", "/.git", true),
            ("^/(?:a|b)", "/b/", true),
            ("^/(?:a|b)?c", "/c/", true),
            ("^/(?:a|)c", "/c/", true),
            ("^/a|^/b", "/c", true),
            ("^/x(?:a|b)*", "/xc", true),
        ] {
            assert_eq!(of(pattern).may_begin(start), expected, "{pattern} {start}");
        }
        assert!(Pattern::new("^/A", true).may_begin("/a"));
    }

    #[test]
    fn beginnings_and_exceptions_are_read() {
        let two = Some(vec!["/ab".to_owned(), "/ac".to_owned()]);
        assert_eq!(of("^/a(?:b|c)").prefixes(), two);
        assert_eq!(of("^/a(b|c).*").prefixes(), two);
        assert_eq!(of("^/a(b|c)$").prefixes(), None);
        assert_eq!(of("/a").prefixes(), None);
        let (excepted, rest) = of("^/(?!index|cron)(.*)$").exception().unwrap();
        assert_eq!(
            (&*excepted.text, &*rest.text),
            ("^/(?:index|cron)", "^/(.*)$")
        );
    }

    #[test]
    fn paths_are_matched_as_they_are_encoded() {
        for (pattern, path, expected) in [
            ("^/a b/", "/a%20b/x", true),
            ("^/@admin", "/%40admin", true),
            ("^/@admin", "/@admin", true),
            (r"^/a\+b$", "/a%2Bb", true),
            ("/é+", "/%C3%A9%C3%A9", true),
            ("^/(?<n>a,b){2,3}$", "/a,ba%2Cb", true),
            ("^/[a-c]+(?:x|y)$", "/abx", true),
        ] {
            let whole = Pattern::of_path(pattern, false).whole();
            assert_eq!(matches(&whole, path), expected, "{pattern} {whole}");
        }
        for (pattern, path, expected) in [
            ("^/[ab ]+$", "/a%20b", true),
            ("[@'();]", "/a%40b", true),
            ("[@'();]", "/a'b", true),
            ("[@'();]", "/a40b", false),
            (r"^/[a\@]$", "/%40", true),
            (r"^/[+-]{2}$", "/-%2B", true),
            (r"^/[&&]$", "/&", true),
            (r"^/[[:alpha:]+]$", "/%2B", true),
            (r"^/[[:alpha:]+]$", "/x", true),
            (r"^/[|{}]$", "/%7C", true),
            ("^/[^?]+$", "/ab", true),
        ] {
            let whole = Pattern::of_path(pattern, false).whole();
            assert_eq!(matches(&whole, path), expected, "{pattern} {whole}");
        }
        for class in [
            "[^@]",
            "[^ ]",
            "[.-a]",
            "[%]",
            "[]a]",
            "[[:punct:]]",
            "[é]",
            "[!-~]",
        ] {
            let own = Pattern::of_path(class, false);
            assert!(check(&own.whole()).is_err(), "{class}");
        }
        for class in ["[a-z0-9_-]", r"[^/]+", r"[\w.-]", "[A-Z]"] {
            let own = Pattern::of_path(class, false);
            assert!(check(&own.whole()).is_ok(), "{class}");
        }
    }

    #[test]
    fn look_around_is_left_out() {
        let wider = of(r"/\.(?!well-known(/|$))x").without_look_around();
        assert_eq!(wider.text, r"/\.x");
    }
}
