//! Files that an import reads, and places in them.

use std::fmt;
use std::sync::Arc;

use sprat_config::glob;

use crate::limits::{MAX_BYTES, MAX_FILES};

/// The files that an import may read, as its caller has them.
pub trait Files {
    /// Returns the text of a file. The caller needs no more than `max_bytes` of it.
    ///
    /// # Errors
    ///
    /// The reason why the file cannot be read, in a line.
    fn read(&mut self, path: &str, max_bytes: usize) -> Result<String, String>;

    /// Returns the names in a directory, in any order; none if it cannot be read.
    fn names(&mut self, directory: &str) -> Vec<String>;
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, by the name under which it was read.
    pub file: Arc<str>,
    /// The line's number, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The reason why an import made no configuration at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {told}")]
pub struct Fault {
    /// The place at which the configuration is wrong.
    pub place: Place,
    /// The message: what is wrong, and what was expected.
    pub told: String,
}

impl Fault {
    pub(crate) fn at(place: &Place, told: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            told: told.into(),
        }
    }
}

/// A reader of files that counts the files and bytes that it has read.
pub(crate) struct Reader<'a> {
    files: &'a mut dyn Files,
    bytes: usize,
    count: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(files: &'a mut dyn Files) -> Self {
        Self {
            files,
            bytes: 0,
            count: 0,
        }
    }

    /// Returns the text of a file that is named at `place`.
    pub(crate) fn read(&mut self, path: &str, place: &Place) -> Result<String, Fault> {
        self.count += 1;
        if self.count > MAX_FILES {
            let told = format!("more than {MAX_FILES} files are included");
            return Err(Fault::at(place, told));
        }
        let left = MAX_BYTES - self.bytes;
        let text = self.files.read(path, left + 1);
        let text =
            text.map_err(|told| Fault::at(place, format!("cannot read `{path}`: {told}")))?;
        if text.len() > left {
            let told = format!("the files have more than {MAX_BYTES} bytes together");
            return Err(Fault::at(place, told));
        }
        self.bytes += text.len();
        Ok(text)
    }

    /// Returns the files that a pattern of glob(7) names, in the order of their names. A name that
    /// is no pattern stands for itself.
    pub(crate) fn matching(&mut self, pattern: &str) -> Vec<String> {
        if !glob::is_pattern(pattern) {
            return vec![pattern.to_owned()];
        }
        let rooted = pattern.starts_with('/');
        let mut found = vec![if rooted { "/" } else { "" }.to_owned()];
        let parts = pattern.split('/').filter(|part| !part.is_empty());
        for part in parts {
            let mut next = Vec::new();
            for directory in found {
                let base = match directory.as_str() {
                    "" | "/" => directory.clone(),
                    other => format!("{other}/"),
                };
                if !glob::is_pattern(part) {
                    next.push(format!("{base}{part}"));
                    continue;
                }
                let within = if directory.is_empty() {
                    "."
                } else {
                    &directory
                };
                let names = self.files.names(within);
                let fits = |name: &String| glob::fits(part, name);
                let fitting = names.into_iter().filter(fits);
                next.extend(fitting.map(|name| format!("{base}{name}")));
                next.truncate(MAX_FILES);
            }
            next.sort();
            found = next;
        }
        found
    }
}
