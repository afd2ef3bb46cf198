//! YAML text as a tree whose every node knows its place in the file.
//!
//! A decoder that reports all errors needs the places of all values, and serde stops at the first
//! error. So the file is parsed once into this tree, and decoded from it.
//!
//! Bounds: bytes of text, depth, and the number of nodes *after* aliases are followed, so that a
//! few lines of nested aliases cannot stand for billions.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};

use crate::diagnostic::Reporter;

/// The most bytes of a configuration, with all that it includes.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The most nodes of a configuration, where an aliased node counts each time that it is used.
pub(crate) const MAX_NODES: usize = 500_000;
/// The bytes of text that count as a node of their own, because an alias repeats them, too.
const NODE_BYTES: usize = 128;
/// The most lists and mappings inside each other.
const MAX_DEPTH: usize = 32;

/// A YAML node and its place.
#[derive(Debug)]
pub(crate) struct Node {
    /// The bytes of the node; those of its first key or item if it is in block style.
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
    /// The number of nodes below, and this one.
    weight: usize,
}

impl Node {
    /// Creates a mapping that is put together from several places.
    pub(crate) fn mapping(span: Range<usize>, entries: Vec<Entry>) -> Arc<Self> {
        Arc::new(Self {
            span,
            kind: Kind::Mapping(entries),
            weight: 1,
        })
    }

    /// Creates a list of the items of several lists, one after the other.
    pub(crate) fn sequence(span: Range<usize>, items: Vec<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            span,
            kind: Kind::Sequence(items),
            weight: 1,
        })
    }

    /// Returns the number of nodes that this node stands for: those below it, and itself.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn empty_mapping(span: Range<usize>) -> Arc<Self> {
        Self::mapping(span, Vec::new())
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    Sequence(Vec<Arc<Node>>),
    Mapping(Vec<Entry>),
}

/// The text of a scalar, before variables are put in.
#[derive(Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Whether it is neither quoted nor tagged `!!str`: `1` is a number.
    pub(crate) plain: bool,
    /// The byte at which the text starts in the file, if it stands there letter by letter.
    pub(crate) text_start: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Arc<Node>,
}

/// A file's text, and its place among those of other files.
pub(crate) struct FileText<'t> {
    pub(crate) text: &'t str,
    /// The number of bytes of the files before this one.
    pub(crate) start: usize,
    /// The most nodes that the file may come to.
    pub(crate) max_nodes: usize,
}

/// Parses the single document in `text`; none after a reported error that leaves no tree.
pub(crate) fn parse(text: &str, reporter: &mut Reporter<'_>) -> Option<Arc<Node>> {
    let part = FileText {
        text,
        start: 0,
        max_nodes: MAX_NODES,
    };
    let root = parse_part(&part, reporter).ok()?;
    if root.is_none() {
        let help = "write at least `version: 1`, `listeners`, `clusters` and `routes`".to_owned();
        reporter.error(&(0..0), "the file is empty".to_owned(), Some(help));
    }
    root
}

/// Parses the single document of a file; none if the file has none.
///
/// # Errors
/// A reported error that leaves no tree.
pub(crate) fn parse_part(
    part: &FileText<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<Option<Arc<Node>>, Stop> {
    let FileText { text, start, .. } = *part;
    if text.len() > MAX_BYTES {
        let message = format!("the file is larger than {MAX_BYTES} bytes");
        reporter.error(&(start..start), message, None);
        return Err(Stop);
    }
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder {
        text,
        start,
        max_nodes: part.max_nodes,
        reporter,
        stack: Vec::new(),
        anchors: HashMap::new(),
        root: None,
    };
    for item in Parser::new_from_str_with_options(text, options) {
        match item {
            Ok((event, span)) => {
                let bytes = span.byte_range().unwrap_or(0..0);
                builder.event(event, start + bytes.start..start + bytes.end)?;
            }
            Err(error) => {
                let at = error.marker().byte_offset().unwrap_or(text.len());
                let message = format!("this is not YAML: {}", error.info());
                let help = syntax_help(text, at, error.info().as_str());
                let at = start + at;
                builder.reporter.error(&(at..at + 1), message, help);
                return Err(Stop);
            }
        }
    }
    Ok(builder.root)
}

/// Returns the help for a common slip that makes a text no YAML; none for any other.
fn syntax_help(text: &str, at: usize, info: &str) -> Option<String> {
    let before = text.get(..at)?;
    let line = before.rsplit('\n').next()?;
    if line.ends_with('$') || line.contains("${") {
        Some("inside [...] and {...}, quote a value with a variable: \"${NAME}\"".to_owned())
    } else if info.contains("tab") {
        Some("indent with spaces".to_owned())
    } else {
        None
    }
}

/// An error that was reported and leaves nothing to go on with.
#[derive(Debug)]
pub(crate) struct Stop;

/// A list or mapping that is not closed yet.
struct Open {
    kind: OpenKind,
    span: Range<usize>,
    flow: bool,
    anchor: usize,
}

enum OpenKind {
    Sequence(Vec<Arc<Node>>),
    Mapping {
        entries: Vec<Entry>,
        /// The byte at which each key stands, to find keys that are given twice.
        seen: HashMap<String, usize>,
        merged: Vec<Arc<Node>>,
        key: Option<(String, Range<usize>)>,
    },
}

struct Builder<'a, 'r, 't> {
    text: &'a str,
    /// The number of bytes of other files before the text.
    start: usize,
    max_nodes: usize,
    reporter: &'r mut Reporter<'t>,
    stack: Vec<Open>,
    anchors: HashMap<usize, Arc<Node>>,
    root: Option<Arc<Node>>,
}

impl Builder<'_, '_, '_> {
    fn event(&mut self, event: Event<'_>, span: Range<usize>) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                let message = "there is a second document in the file".to_owned();
                let help = "keep the part before `---` and move the rest to a file of its own";
                self.reporter.error(&span, message, Some(help.to_owned()));
                Err(Stop)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = self.scalar(&text, style, tag.as_deref(), &span);
                self.close(Kind::Scalar(scalar), span, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.open(
                    OpenKind::Sequence(Vec::new()),
                    style,
                    span,
                    anchor,
                    tag.as_deref(),
                );
                Ok(())
            }
            Event::MappingStart(style, anchor, tag) => {
                let kind = OpenKind::Mapping {
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    merged: Vec::new(),
                    key: None,
                };
                self.open(kind, style, span, anchor, tag.as_deref());
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(&span),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => self.place(node, &span),
                None => {
                    let message = "this alias stands inside its own anchor".to_owned();
                    self.reporter.error(&span, message, None);
                    Err(Stop)
                }
            },
            Event::UnresolvedAlias(name) => {
                let message = format!("no anchor `&{name}` stands above this alias");
                let help = (!self.anchors.is_empty())
                    .then(|| "an alias `*name` repeats what follows `&name`".to_owned())
                    .or_else(|| Some("quote the text if the `*` is meant as it stands".to_owned()));
                self.reporter.error(&span, message, help);
                Err(Stop)
            }
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: &Range<usize>,
    ) -> Scalar {
        let string_tag = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
        if !string_tag {
            self.reject_tag(tag, span);
        }
        let quote = usize::from(matches!(
            style,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted
        ));
        let start = span.start + quote;
        let verbatim = self
            .text
            .get(start - self.start..)
            .is_some_and(|rest| rest.starts_with(text));
        Scalar {
            text: text.to_owned(),
            plain: style == ScalarStyle::Plain && !string_tag,
            text_start: verbatim.then_some(start),
        }
    }

    fn reject_tag(&mut self, tag: Option<&Tag>, span: &Range<usize>) {
        if let Some(tag) = tag {
            let message = format!("the tag `{}` means nothing here", tag.original());
            self.reporter
                .error(span, message, Some("remove it".to_owned()));
        }
    }

    fn open(
        &mut self,
        kind: OpenKind,
        style: StructureStyle,
        span: Range<usize>,
        anchor: usize,
        tag: Option<&Tag>,
    ) {
        self.reject_tag(tag, &span);
        self.stack.push(Open {
            kind,
            span,
            flow: style == StructureStyle::Flow,
            anchor,
        });
    }

    fn end(&mut self, span: &Range<usize>) -> Result<(), Stop> {
        let open = self
            .stack
            .pop()
            .expect("the parser closes only what it opened");
        let (kind, first) = match open.kind {
            OpenKind::Sequence(items) => {
                let first = items.first().map(|item| item.span.clone());
                (Kind::Sequence(items), first)
            }
            OpenKind::Mapping {
                mut entries,
                seen,
                merged,
                ..
            } => {
                let mut known: HashSet<String> = seen.into_keys().collect();
                for node in merged {
                    self.merge(&node, &mut known, &mut entries);
                }
                let first = entries.first().map(|entry| entry.key_span.clone());
                (Kind::Mapping(entries), first)
            }
        };
        let span = match first {
            Some(first) if !open.flow => first,
            _ => open.span.start..span.end.max(open.span.end),
        };
        self.close(kind, span, open.anchor)
    }

    /// Adds the entries of merged mappings (YAML 1.1's merge key). Keys that are written out win
    /// over merged ones, and earlier mappings over later ones.
    fn merge(&mut self, node: &Node, known: &mut HashSet<String>, entries: &mut Vec<Entry>) {
        match &node.kind {
            Kind::Mapping(others) => {
                let new = others
                    .iter()
                    .filter(|other| known.insert(other.key.clone()));
                entries.extend(new.cloned());
            }
            Kind::Sequence(nodes) if nodes.iter().all(|n| matches!(n.kind, Kind::Mapping(_))) => {
                for node in nodes {
                    self.merge(node, known, entries);
                }
            }
            _ => {
                let message = "`<<` takes a mapping, or a list of them, to merge".to_owned();
                let help = Some("such as `<<: *defaults`".to_owned());
                self.reporter.error(&node.span, message, help);
            }
        }
    }

    fn close(&mut self, kind: Kind, span: Range<usize>, anchor: usize) -> Result<(), Stop> {
        let below = match &kind {
            Kind::Scalar(scalar) => scalar.text.len() / NODE_BYTES,
            Kind::Sequence(items) => items.iter().map(|item| item.weight).sum(),
            Kind::Mapping(entries) => {
                let of = |entry: &Entry| 1 + entry.key.len() / NODE_BYTES + entry.value.weight;
                entries.iter().map(of).sum()
            }
        };
        let weight = 1 + below;
        let node = Arc::new(Node {
            span: span.clone(),
            kind,
            weight,
        });
        if anchor != 0 {
            self.anchors.insert(anchor, Arc::clone(&node));
        }
        self.place(node, &span)
    }

    /// Puts a finished node into the list or mapping that is open, or makes it the root.
    fn place(&mut self, node: Arc<Node>, span: &Range<usize>) -> Result<(), Stop> {
        if node.weight > self.max_nodes {
            let message = format!("the configuration comes to more than {MAX_NODES} values");
            let help = Some("an alias counts as all that it repeats".to_owned());
            self.reporter.error(span, message, help);
            return Err(Stop);
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.kind {
            OpenKind::Sequence(items) => items.push(node),
            OpenKind::Mapping {
                entries,
                seen,
                merged,
                key,
            } => match key.take() {
                None => match &node.kind {
                    Kind::Scalar(scalar) => *key = Some((scalar.text.clone(), span.clone())),
                    _ => {
                        let message = "a key must be a single word".to_owned();
                        let help = "quote the value if it starts with a bracket or brace";
                        self.reporter.error(span, message, Some(help.to_owned()));
                        return Err(Stop);
                    }
                },
                Some((key, _)) if key == "<<" => merged.push(node),
                Some((key, key_span)) => {
                    if let Some(first) = seen.get(&key) {
                        let line = self.reporter.line_of(*first);
                        let message = format!("the key `{key}` is given twice");
                        let help = format!("it is first given on line {line}: keep one of them");
                        self.reporter.error(&key_span, message, Some(help));
                    } else {
                        seen.insert(key.clone(), key_span.start);
                        entries.push(Entry {
                            key,
                            key_span,
                            value: node,
                        });
                    }
                }
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sources::Sources;

    use super::*;

    /// Reads a text that may come to `max_nodes` nodes; the error has the complaints about it.
    fn read(text: &str, max_nodes: usize) -> Result<Arc<Node>, Vec<String>> {
        let sources = Sources::of("test", text);
        let mut reporter = Reporter::new(&sources);
        let part = FileText {
            text,
            start: 0,
            max_nodes,
        };
        let root = parse_part(&part, &mut reporter);
        match reporter.finish() {
            Ok(_) => Ok(root.unwrap().unwrap()),
            Err(errors) => Err(errors.lines().collect()),
        }
    }

    #[test]
    fn keys_and_long_texts_are_counted() {
        let long = "x".repeat(300);
        for (text, weight) in [
            ("a", 1),
            ("[a, b]", 3),
            ("{a: 1}", 3),
            ("{a: [b, c], d: 1}", 7),
            ("{a: &a [b, c], d: *a}", 9),
            (&long, 3),
            (&format!("{{{long}: 1}}"), 5),
            (&format!("{{a: {long}}}"), 5),
        ] {
            assert_eq!(read(text, MAX_NODES).unwrap().weight(), weight, "{text}");
        }
    }

    #[test]
    fn as_many_nodes_and_bytes_as_may_be_are_taken() {
        assert!(read("{a: 1}", 3).is_ok());
        assert_eq!(
            read("{a: 1}", 2).unwrap_err(),
            [
                "test:1:1: the configuration comes to more than 500000 values (an alias counts as \
                 all that it repeats)"
            ]
        );
        let mut text = "a: 1\n#".to_owned();
        text.push_str(&"x".repeat(MAX_BYTES - text.len()));
        assert!(read(&text, MAX_NODES).is_ok());
        text.push('x');
        assert_eq!(
            read(&text, MAX_NODES).unwrap_err(),
            ["test:1:1: the file is larger than 1048576 bytes"]
        );
    }

    #[test]
    fn the_first_of_several_merged_mappings_wins() {
        let text = "x: &a {k: 1, l: 1}\ny: &b {l: 2, m: 2}\nz: {<<: [*a, *b], k: 3}\n";
        let root = read(text, MAX_NODES).unwrap();
        let Kind::Mapping(entries) = &root.kind else {
            panic!("{root:?}");
        };
        let Kind::Mapping(merged) = &entries[2].value.kind else {
            panic!("{root:?}");
        };
        let merged: Vec<(&str, &str)> = merged
            .iter()
            .map(|entry| match &entry.value.kind {
                Kind::Scalar(scalar) => (entry.key.as_str(), scalar.text.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(merged, [("k", "3"), ("l", "1"), ("m", "2")]);
    }

    #[test]
    fn a_list_that_is_merged_has_mappings_alone() {
        for list in ["[*a, 1]", "[[*a]]"] {
            let text = format!("x: &a {{k: 1}}\nz: {{<<: {list}}}\n");
            assert_eq!(
                read(&text, MAX_NODES).unwrap_err(),
                [
                    "test:2:9: `<<` takes a mapping, or a list of them, to merge (such as `<<: \
                     *defaults`)"
                ]
            );
        }
    }

    #[test]
    fn what_is_no_yaml_is_pointed_at() {
        let text = "a: b\nc: [${X}, d]\n";
        let errors = crate::parse(text, "test", &|_| None).unwrap_err();
        let lines: Vec<String> = errors.lines().collect();
        assert_eq!(
            lines,
            [
                "test:2:6: this is not YAML: while parsing a flow sequence, expected ',' or ']' \
                 (inside [...] and {...}, quote a value with a variable: \"${NAME}\")"
            ]
        );
        let place = errors.diagnostics()[0].place.as_ref().unwrap();
        assert_eq!(text[place.span.clone()], *"{");
    }

    #[test]
    fn slips_that_are_easily_made_have_help() {
        let quote = "inside [...] and {...}, quote a value with a variable: \"${NAME}\"";
        for (before, info, help) in [
            ("a: [$", "did not find expected ','", Some(quote)),
            ("a: \"${X}\" ", "did not find expected ','", Some(quote)),
            ("a: [$\n", "did not find expected ','", None),
            ("a: [$X", "did not find expected ','", None),
            ("a:\n", "tabs disallowed", Some("indent with spaces")),
        ] {
            let text = format!("{before}{{X}}]\n");
            let told = syntax_help(&text, before.len(), info);
            assert_eq!(told.as_deref(), help, "{before}");
        }
    }
}
