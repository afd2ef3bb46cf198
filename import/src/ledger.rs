//! The ledger of an import: the outcome of each directive.

use std::collections::BTreeMap;
use std::fmt;

use crate::files::Place;

/// The outcome of a directive in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Sprat does the same, or needs no such setting.
    Carried,
    /// Sprat does nearly the same; the note says what differs.
    Nearly,
    /// Sprat does not do it; the note says what to do instead.
    Not,
}

/// A directive of another proxy, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place at which the directive stands.
    pub place: Place,
    /// The directive as it is written, shortened.
    pub directive: String,
    /// The outcome of the directive.
    pub outcome: Outcome,
    /// The remark: what differs, or what to do; empty if the directive was carried over.
    pub told: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Carried => "carried over",
            Outcome::Nearly => "nearly",
            Outcome::Not => "not supported",
        };
        write!(f, "{}: {}: {outcome}", self.place, self.directive)?;
        match self.told.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.told),
        }
    }
}

/// The outcomes of all directives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The notes on all directives, in the order of the files.
    pub notes: Vec<Note>,
}

impl Summary {
    /// Returns the number of directives that have this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        let has = |note: &&Note| note.outcome == outcome;
        self.notes.iter().filter(has).count()
    }

    /// Returns the notes on directives that were not carried over as they are.
    pub fn exceptions(&self) -> impl Iterator<Item = &Note> {
        let differs = |note: &&Note| note.outcome != Outcome::Carried;
        self.notes.iter().filter(differs)
    }
}

/// A directive's number in the ledger, in the order of reading.
pub(crate) type Id = usize;

/// The record of every directive, and of its outcome.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    directive: String,
    /// The directive whose block this one stands in.
    parent: Option<Id>,
    verdict: Option<(Outcome, String)>,
}

/// The most characters of a directive that a note repeats.
const SHOWN: usize = 72;

/// Returns a directive in one line, cut to the [`SHOWN`] characters that a note repeats.
pub(crate) fn shown(words: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let all: String = words.chars().map(plain).take(SHOWN + 1).collect();
    match all.chars().count() > SHOWN {
        true => all.chars().take(SHOWN - 3).chain("...".chars()).collect(),
        false => all,
    }
}

impl Ledger {
    /// Enters a directive, which has no outcome yet.
    pub(crate) fn enter(&mut self, place: &Place, words: &str, parent: Option<Id>) -> Id {
        let directive = shown(words);
        self.entries.push(Entry {
            place: place.clone(),
            directive,
            parent,
            verdict: None,
        });
        self.entries.len() - 1
    }

    /// Sets the outcome of a directive; of several outcomes the worst one stays.
    pub(crate) fn set(&mut self, id: Id, outcome: Outcome, told: impl Into<String>) {
        let told = told.into();
        let verdict = &mut self.entries[id].verdict;
        if verdict.as_ref().is_none_or(|(own, _)| *own < outcome) {
            *verdict = Some((outcome, told));
        }
    }

    pub(crate) fn carried(&mut self, id: Id) {
        self.set(id, Outcome::Carried, "");
    }

    pub(crate) fn nearly(&mut self, id: Id, told: impl Into<String>) {
        self.set(id, Outcome::Nearly, told);
    }

    pub(crate) fn not(&mut self, id: Id, told: impl Into<String>) {
        self.set(id, Outcome::Not, told);
    }

    /// Returns whether a directive has an outcome.
    pub(crate) fn is_settled(&self, id: Id) -> bool {
        self.entries[id].verdict.is_some()
    }

    /// Sets the outcome of every directive without one to "not", with this remark.
    pub(crate) fn close(&mut self, told: &str) {
        for entry in &mut self.entries {
            let untold = || (Outcome::Not, told.to_owned());
            entry.verdict.get_or_insert_with(untold);
        }
    }

    fn note(&self, id: Id) -> Note {
        let entry = &self.entries[id];
        let verdict = entry.verdict.clone();
        let (outcome, told) = verdict.unwrap_or((Outcome::Not, String::new()));
        Note {
            place: entry.place.clone(),
            directive: entry.directive.clone(),
            outcome,
            told,
        }
    }

    /// Returns the exceptions by the block that their note stands in: the directive itself or the
    /// nearest one around it that `shown` accepts. Exceptions without such a block are under
    /// `None`.
    pub(crate) fn exceptions(&self, shown: &dyn Fn(Id) -> bool) -> BTreeMap<Option<Id>, Vec<Note>> {
        let mut found: BTreeMap<Option<Id>, Vec<Note>> = BTreeMap::new();
        for id in 0..self.entries.len() {
            let note = self.note(id);
            if note.outcome == Outcome::Carried {
                continue;
            }
            let mut around = Some(id);
            while let Some(own) = around.filter(|own| !shown(*own)) {
                around = self.entries[own].parent;
            }
            found.entry(around).or_default().push(note);
        }
        found
    }

    /// Returns the notes of all directives.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            notes: (0..self.entries.len()).map(|id| self.note(id)).collect(),
        }
    }
}
