//! Files that a configuration includes, put together with it.
//!
//! The trees are joined, not the texts: every node keeps its place in its own file. What
//! is joined is decoded like a configuration of one file.
//!
//! Bounds: bytes and nodes are those of one file; besides, the number of files and how
//! deeply they include each other.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::containers::List;
use crate::decode::{Context, Decode as _, Found, TextClass};
use crate::diagnostic::{Complaints, Reporter};
use crate::glob;
use crate::interpolate::Env;
use crate::names::FilePath;
use crate::scalars::Count;
use crate::sources::Sources;
use crate::tree::{self, Entry, FileText, Kind, MAX_BYTES, MAX_NODES, Node, Stop};

/// The message about a file that is not UTF-8; [`SAVE_AS_UTF8`] is its help.
pub(crate) const NOT_UTF8: &str = "the file is not UTF-8 from here on";
pub(crate) const SAVE_AS_UTF8: &str = "save it as UTF-8";

/// The most files of one configuration.
const MAX_FILES: usize = 1024;
/// The most files that include each other in a chain.
const MAX_DEPTH: usize = 8;

/// The keys whose lists are joined when several files have them.
const LISTS: [&str; 3] = ["listeners", "routes", "class_rules"];
/// The keys whose mappings are joined when several files have them.
const NAMED: [&str; 2] = ["clusters", "classes"];

/// A configuration's tree, put together from its files, and all that is known of those.
pub(crate) struct Gathered {
    /// The tree; none after a reported error that leaves no tree.
    pub(crate) root: Option<Arc<Node>>,
    pub(crate) sources: Sources,
    pub(crate) found: Complaints,
    /// The files that were read, and the directories in which names were matched with a pattern.
    pub(crate) read: Vec<PathBuf>,
}

impl Gathered {
    /// Parses one text; what it includes is not read.
    pub(crate) fn of_text(text: &str, name: &str) -> Self {
        let sources = Sources::of(name, text);
        let mut reporter = Reporter::new(&sources);
        let root = tree::parse(text, &mut reporter);
        let found = reporter.pause();
        Self {
            root,
            sources,
            found,
            read: Vec::new(),
        }
    }
}

/// Reads a file's text and all that it includes, relative to `directory`.
pub(crate) fn gather(text: &str, name: &str, directory: &Path, env: Env<'_>) -> Gathered {
    let own = Gathered::of_text(text, name);
    let Some(root) = own.root else {
        return own;
    };
    let Kind::Mapping(entries) = &root.kind else {
        let root = Some(root);
        return Gathered { root, ..own };
    };
    let mut gatherer = Gatherer {
        env,
        sources: own.sources,
        found: own.found,
        read: own.read,
        open: PathBuf::from(name).canonicalize().into_iter().collect(),
        known: HashSet::new(),
        bytes: text.len(),
        nodes: root.weight(),
    };
    let entries = gatherer.with_included(entries.clone(), directory);
    Gathered {
        root: Some(Node::mapping(root.span.clone(), entries)),
        sources: gatherer.sources,
        found: gatherer.found,
        read: gatherer.read,
    }
}

fn is_include(entry: &Entry) -> bool {
    entry.key == "include"
}

struct Gatherer<'e> {
    env: Env<'e>,
    sources: Sources,
    found: Complaints,
    read: Vec<PathBuf>,
    /// The chain of files, each included by the one before, down to the one that is being read.
    open: Vec<PathBuf>,
    /// The files that were included so far.
    known: HashSet<PathBuf>,
    bytes: usize,
    nodes: usize,
}

impl Gatherer<'_> {
    /// Returns a file's keys, joined with those of the files that it includes, which go first.
    fn with_included(&mut self, entries: Vec<Entry>, directory: &Path) -> Vec<Entry> {
        let patterns = match entries.iter().find(|entry| is_include(entry)) {
            Some(entry) => self.patterns(&entry.value),
            None => return entries,
        };
        let mut parts = Vec::new();
        for (pattern, span) in patterns {
            match self.matching(directory, &pattern) {
                Ok(paths) => {
                    parts.extend(paths.iter().filter_map(|path| self.included(path, &span)));
                }
                Err(message) => {
                    self.error::<()>(&span, message, None);
                }
            }
        }
        let own = entries.into_iter().filter(|entry| !is_include(entry));
        parts.push(own.collect());
        self.report(|reporter| join(parts, reporter))
    }

    /// Returns the patterns of the files to include, each with its place.
    fn patterns(&mut self, list: &Node) -> Vec<(String, Range<usize>)> {
        let env = self.env;
        self.report(|reporter| {
            let list = List::<FilePath, 1>::decode(list, &mut Context::new(reporter, env));
            let fields = list.map(|list| list.0).into_iter().flatten();
            let named = fields.filter_map(|field| {
                let path = field.get()?.0.to_str()?.to_owned();
                Some((path, field.span))
            });
            named.collect()
        })
    }

    /// Returns the files that a pattern names, in the order of their names.
    ///
    /// # Errors
    ///
    /// The reason why the files that it names cannot be determined.
    fn matching(&mut self, directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let rooted = pattern.starts_with('/');
        let mut found = vec![match rooted {
            true => PathBuf::from("/"),
            false => directory.to_owned(),
        }];
        let (mut is_sure, mut ends_in_pattern) = (true, false);
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            ends_in_pattern = glob::is_pattern(part);
            if !ends_in_pattern {
                found.iter_mut().for_each(|path| path.push(part));
                continue;
            }
            let mut next = Vec::new();
            for directory in found {
                let within = match directory.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => &directory,
                };
                self.read.push(within.to_owned());
                match names(within, part) {
                    Ok(names) => next.extend(names.into_iter().map(|name| directory.join(name))),
                    Err(error) if is_sure => {
                        let name = directory.display();
                        return Err(format!("cannot read the directory `{name}`: {error}"));
                    }
                    // A file among the directories that a pattern names.
                    Err(_) => {}
                }
                if next.len() > MAX_FILES {
                    return Err(format!("`{pattern}` fits more than {MAX_FILES} names"));
                }
            }
            is_sure = false;
            next.sort();
            found = next;
        }
        if !is_sure && !ends_in_pattern {
            found.retain(|path| path.exists());
        }
        Ok(found)
    }

    /// Reads a file that is included at `span`. Returns none if it was read before, and after an
    /// error, which is reported.
    fn included(&mut self, path: &Path, span: &Range<usize>) -> Option<Vec<Entry>> {
        let name = path.display().to_string();
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.error(span, format!("cannot read `{name}`: {error}"), None),
        };
        if self.open.contains(&real) {
            let help = "remove one of the includes that lead from the file to itself";
            return self.error(span, format!("`{name}` includes itself"), Some(help));
        }
        if self.open.len() > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} files include each other");
            return self.error(span, message, Some("include them from one file"));
        }
        if !self.known.insert(real.clone()) {
            return None;
        }
        if self.known.len() >= MAX_FILES {
            let message = format!("the configuration has more than {MAX_FILES} files");
            // Said once.
            let is_first = self.known.len() == MAX_FILES;
            return is_first.then(|| self.error(span, message, None)).flatten();
        }
        self.read.push(path.to_owned());
        let left = MAX_BYTES - self.bytes;
        let bytes = match bytes_of(path, left + 1) {
            Ok(bytes) => bytes,
            Err(error) => return self.error(span, format!("cannot read `{name}`: {error}"), None),
        };
        if bytes.len() > left {
            let message = format!("with `{name}` the files are larger than {MAX_BYTES} bytes");
            return self.error(span, message, None);
        }
        self.bytes += bytes.len();
        let entries = self.keys(bytes, &name)?;
        self.open.push(real);
        let directory = path.parent().unwrap_or(Path::new(""));
        let entries = self.with_included(entries, directory);
        self.open.pop();
        Some(entries)
    }

    /// Reads an included file's keys.
    fn keys(&mut self, bytes: Vec<u8>, name: &str) -> Option<Vec<Entry>> {
        let (text, bad) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                (
                    String::from_utf8_lossy(error.as_bytes()).into_owned(),
                    Some(at),
                )
            }
        };
        let start = self.sources.add(name, &text);
        if let Some(at) = bad {
            let at = start + at;
            return self.error(&(at..at), NOT_UTF8.to_owned(), Some(SAVE_AS_UTF8));
        }
        let max_nodes = MAX_NODES.saturating_sub(self.nodes);
        let env = self.env;
        let root = self.report(|reporter| {
            let part = FileText {
                text: &text,
                start,
                max_nodes,
            };
            let root = tree::parse_part(&part, reporter)?;
            // A file of comments says nothing.
            let root = root.unwrap_or_else(|| Node::empty_mapping(start..start));
            let mut cx = Context::new(reporter, env);
            let entries = cx.mapping(&root, &|| "a mapping with keys such as `routes`".into());
            let mut entries = entries.ok_or(Stop)?.to_vec();
            if let Some(version) = entries.iter().find(|entry| entry.key == "version") {
                Count::<1, 1>::decode(&version.value, &mut cx);
            }
            // Anchors end with their file.
            entries.retain(|entry| entry.key != "version" && !entry.key.starts_with("x-"));
            Ok::<_, Stop>((entries, root.weight()))
        });
        let (entries, weight) = root.ok()?;
        self.nodes += weight;
        Some(entries)
    }

    fn error<T>(&mut self, span: &Range<usize>, message: String, help: Option<&str>) -> Option<T> {
        self.report(|reporter| reporter.error(span, message, help.map(str::to_owned)));
        None
    }

    fn report<T>(&mut self, act: impl FnOnce(&mut Reporter<'_>) -> T) -> T {
        let found = std::mem::take(&mut self.found);
        let mut reporter = Reporter::resume(&self.sources, found);
        let done = act(&mut reporter);
        self.found = reporter.pause();
        done
    }
}

/// Returns the names in a directory that fit a pattern.
fn names(directory: &Path, pattern: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in directory.read_dir()? {
        let name = entry?.file_name();
        let name = name.to_str().filter(|name| glob::fits(pattern, name));
        names.extend(name.map(str::to_owned));
        // One too many, for the error.
        if names.len() > MAX_FILES {
            break;
        }
    }
    Ok(names)
}

/// Reads a file, at most `max_bytes` of it.
fn bytes_of(path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    // A pipe would be waited for.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    File::open(path)?.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Joins the keys of several files, in the order of the files.
fn join(parts: Vec<Vec<Entry>>, reporter: &mut Reporter<'_>) -> Vec<Entry> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Entry>> = Vec::new();
    for entry in parts.into_iter().flatten() {
        let place = *places.entry(entry.key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    let joined = groups.into_iter().filter_map(|mut group| {
        let last = group.pop()?;
        if group.is_empty() {
            return Some(last);
        }
        group.push(last.clone());
        let (key, span) = (last.key.as_str(), last.value.span.clone());
        let value = if LISTS.contains(&key) {
            Node::sequence(span, items(&group, reporter))
        } else if NAMED.contains(&key) {
            let entries = named(&group, reporter);
            Node::mapping(span, once(entries, reporter))
        } else {
            return once(group, reporter).pop();
        };
        Some(Entry { value, ..last })
    });
    joined.collect()
}

/// Returns the items of several lists as one list.
fn items(lists: &[Entry], reporter: &mut Reporter<'_>) -> Vec<Arc<Node>> {
    let mut items = Vec::new();
    for list in lists {
        match &list.value.kind {
            Kind::Sequence(own) => items.extend(own.iter().cloned()),
            other => mismatch(list, "a list", other, reporter),
        }
    }
    items
}

/// Returns the entries of several mappings as one list.
fn named(mappings: &[Entry], reporter: &mut Reporter<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for mapping in mappings {
        match &mapping.value.kind {
            Kind::Mapping(own) => entries.extend(own.iter().cloned()),
            other => mismatch(mapping, "a mapping from names", other, reporter),
        }
    }
    entries
}

fn mismatch(entry: &Entry, expected: &str, found: &Kind, reporter: &mut Reporter<'_>) {
    let found = match found {
        Kind::Scalar(scalar) => match TextClass::of(&scalar.text) {
            TextClass::Null if scalar.plain => Found::Nothing,
            _ => Found::Text(&scalar.text),
        },
        Kind::Sequence(_) => Found::List,
        Kind::Mapping(_) => Found::Mapping,
    };
    let message = format!("expected {expected}, found {found}");
    let help = format!("`{}` is put together from several files", entry.key);
    reporter.error(&entry.key_span, message, Some(help));
}

/// Reports keys that are there more than once, and leaves out all but one of each.
fn once(mut entries: Vec<Entry>, reporter: &mut Reporter<'_>) -> Vec<Entry> {
    let mut first: HashMap<String, usize> = HashMap::new();
    for entry in &entries {
        let start = first.entry(entry.key.clone()).or_insert(usize::MAX);
        *start = entry.key_span.start.min(*start);
    }
    entries.retain(|entry| {
        let start = first.get(&entry.key).copied();
        let Some(start) = start.filter(|start| *start != entry.key_span.start) else {
            return true;
        };
        let line = reporter.line_of(start);
        let message = format!("the key `{}` is given twice", entry.key);
        let help = format!("it is first given on line {line}: keep one of them");
        reporter.error(&entry.key_span, message, Some(help));
        false
    });
    entries
}
