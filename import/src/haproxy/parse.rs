//! HAProxy's syntax: sections of lines of words, with quotes and comments.

use crate::files::{Fault, Place, Reader};
use crate::ledger::{Id, Ledger};
use crate::limits::MAX_DIRECTIVES;

/// A line of a section.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The line's entry in the ledger.
    pub(super) id: Id,
    pub(super) words: Vec<String>,
}

impl Line {
    /// Returns the word at this index; empty if there is none.
    pub(super) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// Returns the word that follows the word `name`; none if either is missing.
    pub(super) fn after(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.words.iter().any(|word| word == name)
    }

    /// Returns the kind of a rule, and its action.
    pub(super) fn kind_and_action(&self) -> (&str, &str) {
        match self.word(0) {
            "block" => ("http-request", "block"),
            // What follows is of connections, sessions, or their content.
            kind @ ("tcp-request" | "tcp-response") => (kind, self.word(2)),
            kind @ ("redirect" | "use_backend") => (kind, ""),
            kind => (kind, self.word(1)),
        }
    }
}

/// A section, such as `frontend web`.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) id: Id,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) lines: Vec<Line>,
    /// The lines of the `defaults` that hold for the section.
    pub(super) defaults: Vec<Line>,
}

/// The kinds of lines that do not replace those of `defaults`: HAProxy applies both, those of
/// `defaults` first.
const ADDED: [&str; 7] = [
    "acl",
    "default-server",
    "http-after-response",
    "http-request",
    "http-response",
    "tcp-request",
    "tcp-response",
];

impl Section {
    /// Returns the section's lines that begin with these words. Lines of kinds that add up come
    /// after those of its defaults. For other kinds, the defaults' lines count if the section has
    /// none.
    pub(super) fn all(&self, start: &[&str]) -> Vec<&Line> {
        let begins = |line: &&Line| {
            let mut words = start.iter().enumerate();
            words.all(|(at, word)| line.word(at) == *word)
        };
        let own = self.lines.iter().filter(begins);
        let inherited = self.defaults.iter().filter(begins);
        if start.first().is_some_and(|kind| ADDED.contains(kind)) {
            return inherited.chain(own).collect();
        }
        let own: Vec<&Line> = own.collect();
        match own.is_empty() {
            true => inherited.collect(),
            false => own,
        }
    }

    /// Returns whether a line comes from the section's defaults.
    pub(super) fn inherits(&self, line: &Line) -> bool {
        self.defaults.iter().any(|own| own.id == line.id)
    }

    /// Returns the last of the lines that begin with these words, which is the one that counts.
    pub(super) fn one(&self, start: &[&str]) -> Option<&Line> {
        self.all(start).last().copied()
    }

    /// Returns the line that sets an option, unless `no option` takes it back.
    pub(super) fn option(&self, name: &str) -> Option<&Line> {
        let is_off = self
            .lines
            .iter()
            .any(|own| own.word(0) == "no" && own.word(1) == "option" && own.word(2) == name);
        self.one(&["option", name]).filter(|_| !is_off)
    }
}

/// The words that begin a section.
const KINDS: [&str; 15] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "userlist",
    "mailers",
    "cache",
    "program",
    "http-errors",
    "ring",
    "log-forward",
    "fcgi-app",
];

/// Reads a file's sections.
pub(super) fn read(
    path: &str,
    mut reader: Reader<'_>,
    ledger: &mut Ledger,
) -> Result<Vec<Section>, Fault> {
    let place = |line: usize| Place {
        file: path.into(),
        line: u32::try_from(line).unwrap_or(u32::MAX),
    };
    let text = reader.read(path, &place(1))?;
    let mut out: Vec<Section> = Vec::new();
    let mut defaults: Vec<(String, Vec<Line>)> = Vec::new();
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let place = place(index + 1);
        let words = words(line, &place)?;
        let Some(first) = words.first() else { continue };
        count += 1;
        if count > MAX_DIRECTIVES {
            let told = format!("there are more than {MAX_DIRECTIVES} directives");
            return Err(Fault::at(&place, told));
        }
        if KINDS.contains(&&**first) {
            close(&mut out, &mut defaults);
            let id = ledger.enter(&place, &words.join(" "), None);
            let from = words.iter().position(|word| word == "from");
            let from = from.and_then(|at| words.get(at + 1));
            // `defaults` without `from` begin afresh; other sections go by the last of them.
            let is_fresh = first == "defaults" && from.is_none();
            let known =
                |(name, _): &&(String, Vec<Line>)| !is_fresh && from.is_none_or(|own| own == name);
            let inherited = defaults.iter().rev().find(known);
            out.push(Section {
                id,
                kind: first.clone(),
                name: words.get(1).cloned().unwrap_or_default(),
                place,
                lines: Vec::new(),
                defaults: inherited
                    .map(|(_, lines)| lines.clone())
                    .unwrap_or_default(),
            });
            continue;
        }
        let Some(section) = out.last_mut() else {
            let told = format!("expected a section, such as `frontend web`, found `{first}`");
            return Err(Fault::at(&place, told));
        };
        let id = ledger.enter(&place, &words.join(" "), Some(section.id));
        section.lines.push(Line { id, words });
    }
    close(&mut out, &mut defaults);
    Ok(out)
}

/// Keeps the lines of a finished `defaults` section for the sections after it.
fn close(sections: &mut [Section], defaults: &mut Vec<(String, Vec<Line>)>) {
    let Some(last) = sections.last().filter(|own| own.kind == "defaults") else {
        return;
    };
    // One that names another has what that says, too.
    let mut lines = if last.defaults.is_empty() {
        Vec::new()
    } else {
        last.defaults.clone()
    };
    if last.name.is_empty() {
        lines.clear();
    }
    lines.extend(last.lines.iter().cloned());
    defaults.push((last.name.clone(), lines));
}

/// Splits a line into its words.
fn words(line: &str, place: &Place) -> Result<Vec<String>, Fault> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut is_word = false;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\'', Some('\'')) | ('"', Some('"')) => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                is_word = true;
            }
            ('\\', None | Some('"')) => {
                is_word = true;
                match rest.next() {
                    Some('n') => word.push('\n'),
                    Some('r') => word.push('\r'),
                    Some('t') => word.push('\t'),
                    Some(own @ (' ' | '#' | '\\' | '"' | '\'')) => word.push(own),
                    Some(own) => {
                        word.push('\\');
                        word.push(own);
                    }
                    None => {}
                }
            }
            ('#', None) => break,
            (c, None) if c.is_whitespace() => {
                if is_word {
                    out.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (c, _) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if let Some(quote) = quote {
        return Err(Fault::at(place, format!("expected a closing {quote}")));
    }
    if is_word {
        out.push(word);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_into_words() {
        let place = Place {
            file: "x".into(),
            line: 3,
        };
        let of = |line: &str| words(line, &place).unwrap();
        assert_eq!(of("a 'b c' \"d\\\"\"e # f"), ["a", "b c", "d\"e"]);
        assert_eq!(
            of(r"acl x path_reg ^/a\.b\ c$"),
            ["acl", "x", "path_reg", r"^/a\.b c$"]
        );
        assert_eq!(of("server a ''"), ["server", "a", ""]);
        let fault = words("a 'b", &place).unwrap_err();
        assert_eq!(fault.to_string(), "x:3: expected a closing '");
    }
}
