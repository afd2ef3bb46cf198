//! nginx's syntax: words, blocks, quotes, comments, and files that include others.

use std::sync::Arc;

use crate::files::{Fault, Place, Reader};
use crate::ledger::{Id, Ledger, shown};
use crate::limits::{MAX_DEPTH, MAX_DIRECTIVES};

/// A directive of nginx.
#[derive(Debug)]
pub(crate) struct Directive {
    /// The directive's entry in the ledger.
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    /// The directives in its braces, if it has any.
    pub(crate) block: Option<Vec<Directive>>,
    pub(crate) place: Place,
}

impl Directive {
    /// Returns the argument at this index; empty if there is none.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// Returns the directives in its braces; empty if it has no braces.
    pub(crate) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// A token of the syntax: a word, or the end of a directive or block.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    file: Arc<str>,
    line: u32,
}

impl Lexer<'_> {
    fn place(&self) -> Place {
        Place {
            file: Arc::clone(&self.file),
            line: self.line,
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += u32::from(c == '\n');
        Some(c)
    }

    /// Returns the next token and its place; none at the end of the file.
    fn next(&mut self) -> Result<Option<(Token, Place)>, Fault> {
        loop {
            match self.peek() {
                Some(c) if c.is_whitespace() => drop(self.bump()),
                Some('#') => while self.bump().is_some_and(|c| c != '\n') {},
                _ => break,
            }
        }
        let place = self.place();
        let token = match self.peek() {
            None => return Ok(None),
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(quote @ ('"' | '\'')) => {
                self.bump();
                return Ok(Some((Token::Word(self.quoted(quote, &place)?), place)));
            }
            Some(_) => return Ok(Some((Token::Word(self.bare()), place))),
        };
        self.bump();
        Ok(Some((token, place)))
    }

    fn quoted(&mut self, quote: char, place: &Place) -> Result<String, Fault> {
        let mut out = String::new();
        loop {
            match self.bump() {
                None => return Err(Fault::at(place, format!("expected a closing {quote}"))),
                Some(c) if c == quote => break,
                Some('\\') => self.escape(&mut out),
                Some(c) => out.push(c),
            }
        }
        match self.peek() {
            Some(c) if !c.is_whitespace() && !";{)".contains(c) => {
                let told = format!("expected a space, `;` or `{{` after {quote}, found {c:?}");
                Err(Fault::at(&self.place(), told))
            }
            // `if ($a = "b")`: the parenthesis is a word of its own.
            _ => Ok(out),
        }
    }

    fn bare(&mut self) -> String {
        let mut out = String::new();
        let mut last = ' ';
        while let Some(c) = self.peek() {
            match c {
                c if c.is_whitespace() => break,
                ';' => break,
                // `${name}` is part of a word.
                '{' if last != '$' => break,
                '\\' => {
                    self.bump();
                    self.escape(&mut out);
                    last = ' ';
                    continue;
                }
                _ => {}
            }
            self.bump();
            out.push(c);
            last = c;
        }
        out
    }

    /// Reads the character after a backslash. An escape of nginx's stands for one character; for
    /// any other, the backslash stays.
    fn escape(&mut self, out: &mut String) {
        match self.bump() {
            Some(c @ ('"' | '\'' | '\\')) => out.push(c),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('n') => out.push('\n'),
            Some(c) => {
                out.push('\\');
                out.push(c);
            }
            None => out.push('\\'),
        }
    }

    /// Passes over code in another language, up to its closing brace.
    fn code(&mut self, place: &Place) -> Result<(), Fault> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.bump() {
                None => return Err(Fault::at(place, "expected a closing }")),
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The parser of a file and those that it includes.
pub(crate) struct Parser<'a, 'f> {
    reader: Reader<'f>,
    ledger: &'a mut Ledger,
    /// The directory from which relative names are resolved.
    directory: String,
    count: usize,
}

impl<'a, 'f> Parser<'a, 'f> {
    pub(crate) fn new(reader: Reader<'f>, ledger: &'a mut Ledger, path: &str) -> Self {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        Self {
            reader,
            ledger,
            directory: directory.to_owned(),
            count: 0,
        }
    }

    /// Reads a file and all that it includes; `place` is where it is named.
    pub(crate) fn file(
        &mut self,
        path: &str,
        place: &Place,
        depth: usize,
        parent: Option<Id>,
    ) -> Result<Vec<Directive>, Fault> {
        let text = self.reader.read(path, place)?;
        let mut lexer = Lexer {
            text: text.strip_prefix('\u{feff}').unwrap_or(&text),
            at: 0,
            file: path.into(),
            line: 1,
        };
        let mut out = Vec::new();
        let end = self.block(&mut lexer, depth, parent, &mut out)?;
        match end {
            None => Ok(out),
            Some(place) => Err(Fault::at(&place, "expected a directive, found `}`")),
        }
    }

    /// Reads directives up to a closing brace, whose place is returned, or up to the file's end.
    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        depth: usize,
        parent: Option<Id>,
        out: &mut Vec<Directive>,
    ) -> Result<Option<Place>, Fault> {
        if depth > MAX_DEPTH {
            let told = format!("blocks and includes are more than {MAX_DEPTH} deep here");
            return Err(Fault::at(&lexer.place(), told));
        }
        let mut words: Vec<String> = Vec::new();
        let mut begin = lexer.place();
        while let Some((token, place)) = lexer.next()? {
            match token {
                Token::Word(word) => {
                    if words.is_empty() {
                        begin = place;
                    }
                    words.push(word);
                }
                Token::Close if words.is_empty() => return Ok(Some(place)),
                Token::Close => {
                    let told = format!(
                        "expected `;` after `{}`, found `}}`",
                        shown(&words.join(" "))
                    );
                    return Err(Fault::at(&place, told));
                }
                Token::End | Token::Open if words.is_empty() => {
                    return Err(Fault::at(&place, "expected a directive"));
                }
                Token::End => {
                    let words = std::mem::take(&mut words);
                    self.simple(words, &begin, depth, parent, out)?;
                }
                Token::Open => {
                    let words = std::mem::take(&mut words);
                    let directive = self.with_block(lexer, words, &begin, depth, parent)?;
                    out.push(directive);
                }
            }
        }
        match words.is_empty() {
            true => Ok(None),
            false => {
                let told = format!("expected `;` or `{{` after `{}`", shown(&words.join(" ")));
                Err(Fault::at(&begin, told))
            }
        }
    }

    fn enter(&mut self, words: &[String], place: &Place, parent: Option<Id>) -> Result<Id, Fault> {
        self.count += 1;
        if self.count > MAX_DIRECTIVES {
            let told = format!("there are more than {MAX_DIRECTIVES} directives");
            return Err(Fault::at(place, told));
        }
        Ok(self.ledger.enter(place, &words.join(" "), parent))
    }

    fn simple(
        &mut self,
        mut words: Vec<String>,
        place: &Place,
        depth: usize,
        parent: Option<Id>,
        out: &mut Vec<Directive>,
    ) -> Result<(), Fault> {
        let id = self.enter(&words, place, parent)?;
        let name = words.remove(0);
        if name != "include" {
            out.push(Directive {
                id,
                name,
                args: words,
                block: None,
                place: place.clone(),
            });
            return Ok(());
        }
        self.ledger.carried(id);
        let [pattern] = &words[..] else {
            return Err(Fault::at(place, "expected one file after `include`"));
        };
        let pattern = match pattern.starts_with('/') || self.directory.is_empty() {
            true => pattern.clone(),
            false => format!("{}/{pattern}", self.directory),
        };
        // The types of files are of no use to what serves none.
        if pattern.ends_with("mime.types") {
            return Ok(());
        }
        for path in self.reader.matching(&pattern) {
            out.extend(self.file(&path, place, depth + 1, parent)?);
        }
        Ok(())
    }

    fn with_block(
        &mut self,
        lexer: &mut Lexer<'_>,
        mut words: Vec<String>,
        place: &Place,
        depth: usize,
        parent: Option<Id>,
    ) -> Result<Directive, Fault> {
        let id = self.enter(&words, place, parent)?;
        let name = words.remove(0);
        let mut block = Vec::new();
        match name.ends_with("_by_lua_block") {
            true => lexer.code(place)?,
            false => {
                let end = self.block(lexer, depth + 1, Some(id), &mut block)?;
                end.ok_or_else(|| Fault::at(place, format!("expected a `}}` for `{name}`")))?;
            }
        }
        Ok(Directive {
            id,
            name,
            args: words,
            block: Some(block),
            place: place.clone(),
        })
    }
}
