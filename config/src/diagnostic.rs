//! Complaints about a file, and how they are shown.

use std::fmt;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::sources::{Place, Sources, WrittenAt};

/// The most errors that are kept, and the most warnings: a file with more has other problems. Each
/// kind is counted apart, so that warnings never crowd an error out.
const MAX_OF_EACH: usize = 1000;

/// The severity of a complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but surely says something other than was meant.
    Warning,
}

/// One complaint about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity of this complaint.
    pub severity: Severity,
    /// The fault, in one line.
    pub message: String,
    /// The help: what the operator can do about the fault.
    pub help: Option<String>,
    /// The place in the file; none if it is the whole file, or that could not be read.
    pub place: Option<Place>,
}

/// The complaints about a file and those that it includes, in the order of their places. As the
/// error of [`load`](crate::load) or [`parse`](crate::parse) it has at least one error.
///
/// `Display` shows all complaints, each with its line underlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
}

impl std::error::Error for Errors {}

impl Errors {
    /// Returns the error of a file that could not be read.
    pub(crate) fn unreadable(name: &str, message: String) -> Self {
        Self {
            sources: Sources::of(name, ""),
            diagnostics: vec![Diagnostic {
                severity: Severity::Error,
                message,
                help: None,
                place: None,
            }],
        }
    }

    /// Adds Sprat's word to each complaint about another program's word, as `ours` translates it. A
    /// complaint that suggests a close word stays as it is.
    pub(crate) fn translated(mut self, ours: fn(&str) -> Option<&'static str>) -> Self {
        for own in &mut self.diagnostics {
            let is_close = |help: &String| help.starts_with("did you mean");
            let word = own
                .place
                .as_ref()
                .and_then(|own| self.sources.text().get(own.span.clone()));
            let word = word.map(|word| word.trim_matches(['"', '\'']));
            let ours = word
                .and_then(ours)
                .filter(|_| !own.help.iter().any(is_close));
            if let Some(ours) = ours {
                own.help = Some(format!("in Sprat this is {ours}"));
            }
        }
        self
    }

    /// Returns all complaints, in the file's order.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Adds a complaint that was found after the file had been read; `span` is in bytes of the
    /// file.
    pub fn add(
        &mut self,
        severity: Severity,
        span: &Range<usize>,
        message: String,
        help: Option<String>,
    ) {
        let place = Some(self.sources.place(span));
        self.push(Diagnostic {
            severity,
            message,
            help,
            place,
        });
    }

    /// Adds a complaint about the file as a whole.
    pub fn add_of_all(&mut self, severity: Severity, message: String, help: Option<String>) {
        self.push(Diagnostic {
            severity,
            message,
            help,
            place: None,
        });
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < 2 * MAX_OF_EACH {
            self.diagnostics.push(diagnostic);
            sort(&mut self.diagnostics);
        }
    }

    /// Returns whether the file cannot be used.
    pub fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error)
    }

    /// Returns whether there is no complaint.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Returns the complaints as text for a terminal, in colour or plain.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let renderer = renderer.decor_style(DecorStyle::Ascii);
        let shown: Vec<_> = self
            .diagnostics
            .iter()
            .map(|diagnostic| self.render_one(diagnostic, &renderer))
            .collect();
        shown.join("\n\n")
    }

    /// Returns each complaint in a line of its own, for a log: `file:line:column: message (help)`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.diagnostics.iter().map(|diagnostic| {
            let place = diagnostic.place.as_ref();
            let place = place.map(|own| format!("{}:{}:{}", own.file, own.line, own.column));
            let place = place.unwrap_or_else(|| self.sources.name().to_owned());
            let help = diagnostic.help.as_ref().map(|help| format!(" ({help})"));
            let message = &diagnostic.message;
            format!("{place}: {message}{}", help.unwrap_or_default())
        })
    }

    fn render_one(&self, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level.primary_title(diagnostic.message.as_str()).elements(
            diagnostic.place.as_ref().map(|place| {
                let line = self.sources.line_around(place.span.start);
                Snippet::source(&self.sources.text()[line.clone()])
                    .line_start(place.line)
                    .path(place.file.as_str())
                    .annotation(
                        AnnotationKind::Primary
                            .span(place.span.start - line.start..place.span.end - line.start),
                    )
            }),
        );
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        if diagnostic.place.is_none() {
            group = group.element(Level::NOTE.message(self.sources.name()));
        }
        renderer.render(&[group])
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// The complaints that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

/// A collector of complaints while files are read.
pub(crate) struct Reporter<'a> {
    sources: &'a Sources,
    found: Complaints,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Self::resume(sources, Complaints::default())
    }

    /// Creates a reporter that adds to the complaints found before.
    pub(crate) fn resume(sources: &'a Sources, found: Complaints) -> Self {
        Self { sources, found }
    }

    /// Returns the complaints so far, with which [`resume`](Self::resume) goes on later.
    pub(crate) fn pause(self) -> Complaints {
        self.found
    }

    /// Returns the texts that the complaints are about.
    pub(crate) fn sources(&self) -> &Sources {
        self.sources
    }

    pub(crate) fn error(&mut self, span: &Range<usize>, message: String, help: Option<String>) {
        self.push(Severity::Error, span, message, help);
    }

    pub(crate) fn warning(&mut self, span: &Range<usize>, message: String, help: Option<String>) {
        self.push(Severity::Warning, span, message, help);
    }

    /// Returns the line that a byte is in, for a message: its number, and its file's name if there
    /// are several.
    pub(crate) fn line_of(&self, byte: usize) -> String {
        self.written_at(byte).to_string()
    }

    /// Returns the line that a byte is in, as the parts of [`line_of`](Self::line_of)'s text.
    pub(crate) fn written_at(&self, byte: usize) -> WrittenAt {
        self.sources.written_at(byte)
    }

    fn push(
        &mut self,
        severity: Severity,
        span: &Range<usize>,
        message: String,
        help: Option<String>,
    ) {
        let kept = match severity {
            Severity::Error => &mut self.found.errors,
            Severity::Warning => &mut self.found.warnings,
        };
        *kept += 1;
        if *kept <= MAX_OF_EACH {
            let place = Some(self.sources.place(span));
            self.found.diagnostics.push(Diagnostic {
                severity,
                message,
                help,
                place,
            });
        }
    }

    /// Returns the warnings if there is no error, otherwise all complaints as the error.
    pub(crate) fn finish(self) -> Result<Errors, Errors> {
        let mut diagnostics = self.found.diagnostics;
        sort(&mut diagnostics);
        // An alias shows what is wrong with its anchor once more.
        diagnostics.dedup();
        let failed = self.found.errors > 0;
        let errors = Errors {
            sources: self.sources.clone(),
            diagnostics,
        };
        if failed { Err(errors) } else { Ok(errors) }
    }
}

/// Sorts complaints in the file's order.
fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|d| d.place.as_ref().map(|p| (p.span.start, p.span.end)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "version: 1\nlisteners: [{address: 127.0.0.1:80}]\n\
                        clusters: {farm: {endpoints: [a:1]}}\nroutes: [{cluster: farm}]\n";

    /// Returns the empty list of complaints of a file without faults.
    fn nothing() -> Errors {
        crate::parse(FILE, "test", &|_| None).unwrap().warnings
    }

    #[test]
    fn what_is_found_out_later_stands_in_the_file_s_order() {
        let mut errors = nothing();
        assert!(errors.is_empty());
        let farm = FILE.find("farm").unwrap();
        errors.add(
            Severity::Warning,
            &(farm..farm + 4),
            "its endpoints are slow".to_owned(),
            None,
        );
        assert!(!errors.is_empty());
        assert!(!errors.has_errors());
        errors.add(
            Severity::Error,
            &(0..7),
            "there is no such version".to_owned(),
            Some("wait for it".to_owned()),
        );
        let help = Some("start `sprat link`".to_owned());
        errors.add_of_all(Severity::Warning, "there is no link".to_owned(), help);
        assert!(errors.has_errors());
        let lines: Vec<_> = errors.lines().collect();
        assert_eq!(
            lines,
            [
                "test: there is no link (start `sprat link`)",
                "test:1:1: there is no such version (wait for it)",
                "test:3:12: its endpoints are slow",
            ]
        );
        let spans = errors.diagnostics().iter().map(|own| {
            let place = own.place.as_ref();
            place.map(|place| place.span.clone())
        });
        let spans: Vec<_> = spans.collect();
        assert_eq!(spans, [None, Some(0..7), Some(farm..farm + 4)]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut errors = nothing();
        for number in 0..2 * MAX_OF_EACH + 2 {
            assert_eq!(errors.diagnostics().len(), number.min(2 * MAX_OF_EACH));
            errors.add_of_all(Severity::Warning, number.to_string(), None);
        }
        let last = errors.diagnostics().last().unwrap();
        assert_eq!(last.message, "1999");
    }
}
