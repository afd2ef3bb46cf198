//! Decodes the tree into raw types, and reports every error on the way.
//!
//! A type says once what it accepts ([`Decode`]): how it is read, how it is
//! described in an error, and its JSON Schema. The macros of
//! [`record`](crate::record) write both from one definition, so that keys,
//! defaults and documentation cannot drift apart.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::diagnostic::Reporter;
use crate::interpolate::{Env, interpolate};
use crate::shown::without_credentials;
use crate::sources::Sources;
use crate::tree::{self, Entry, Kind, Node};

/// The state that reading a value needs besides the value.
pub(crate) struct Context<'a, 't> {
    pub(crate) reporter: &'a mut Reporter<'t>,
    pub(crate) env: Env<'a>,
    /// Words that the value at hand may also be, for the error's text.
    pub(crate) words: Vec<&'static str>,
    /// The class of a text in quotes.
    pub(crate) quoted: TextClass,
    /// The trees of defaults that were parsed before, by their YAML.
    defaults: HashMap<&'static str, Arc<Node>>,
    /// The bytes of memory that the values still to be read may take.
    room_bytes: usize,
}

/// The most bytes of memory that the items of a configuration's lists and mappings may take. A key
/// takes some even where it is left out: an empty route is three bytes of the file, and 3 KB here.
const MAX_MEMORY_BYTES: usize = 128 << 20;

/// A function that describes the expected value; it is called only when an error needs the text.
pub(crate) type Expected<'a> = &'a dyn Fn() -> Cow<'static, str>;

impl<'a, 't> Context<'a, 't> {
    pub(crate) fn new(reporter: &'a mut Reporter<'t>, env: Env<'a>) -> Self {
        Self {
            reporter,
            env,
            words: Vec::new(),
            quoted: TextClass::String,
            defaults: HashMap::new(),
            room_bytes: MAX_MEMORY_BYTES,
        }
    }

    /// Takes the memory for this number of values of type `T`. If there is no room for them,
    /// reports that and returns false.
    pub(crate) fn has_room_for<T>(&mut self, values: usize, span: &Range<usize>) -> bool {
        self.takes(values.saturating_mul(size_of::<T>()), span)
    }

    /// Takes bytes of memory, as [`Self::has_room_for`] does. This part is compiled once for all
    /// types.
    fn takes(&mut self, bytes: usize, span: &Range<usize>) -> bool {
        let left = self.room_bytes.checked_sub(bytes);
        if left.is_none() {
            let mb = MAX_MEMORY_BYTES >> 20;
            let message = format!("the configuration takes more than {mb} MB of memory");
            let help = "an alias counts as all that it repeats".to_owned();
            self.reporter.error(span, message, Some(help));
        }
        self.room_bytes = left.unwrap_or(self.room_bytes);
        left.is_some()
    }

    /// Returns the tree of a default; its YAML is parsed at the first call alone.
    pub(crate) fn default(&mut self, yaml: &'static str) -> Arc<Node> {
        let known = self.defaults.entry(yaml);
        Arc::clone(known.or_insert_with(|| default_node(yaml)))
    }

    /// Reports a value of another kind than the expected one.
    pub(crate) fn mismatch(&mut self, span: &Range<usize>, expected: &str, found: &Found<'_>) {
        let help = match found {
            Found::Text(text) => self
                .meant(text)
                .map(|word| format!("did you mean `{word}`?")),
            Found::Nothing => Some("give it a value, or remove the key".to_owned()),
            Found::NotText(_) => Some("quote it".to_owned()),
            Found::List | Found::Mapping => None,
        };
        self.mismatch_with(span, expected, found, help);
    }

    /// Reports a [`mismatch`](Self::mismatch), with help of the caller's own.
    pub(crate) fn mismatch_with(
        &mut self,
        span: &Range<usize>,
        expected: &str,
        found: &Found<'_>,
        help: Option<String>,
    ) {
        let words: String = self
            .words
            .iter()
            .map(|word| format!("`{word}`, "))
            .collect();
        let words = words.strip_suffix(", ").unwrap_or("");
        let separator = if words.is_empty() { "" } else { " or " };
        let message = format!("expected {words}{separator}{expected}, found {found}");
        self.reporter.error(span, message, help);
    }

    /// Returns the word that the operator probably meant: the closest one, or `off` or `unlimited`
    /// for a word such as `none`.
    fn meant(&self, text: &str) -> Option<&'static str> {
        let none = ["false", "no", "none", "disabled", "disable"].contains(&text);
        let mut words = self.words.iter().copied();
        match none {
            true => words.find(|word| ["off", "unlimited"].contains(word)),
            false => similar(text, words),
        }
    }

    /// Returns a scalar's text with its variables put in; none once an error has been reported.
    pub(crate) fn scalar(&mut self, node: &Node, expected: Expected<'_>) -> Option<Text> {
        let scalar = match &node.kind {
            Kind::Scalar(scalar) => scalar,
            Kind::Sequence(_) => {
                self.mismatch(&node.span, &expected(), &Found::List);
                return None;
            }
            Kind::Mapping(_) => {
                self.mismatch(&node.span, &expected(), &Found::Mapping);
                return None;
            }
        };
        let inside = |part: Range<usize>| match scalar.text_start {
            Some(start) => start + part.start..start + part.end,
            None => node.span.clone(),
        };
        let put_in = match interpolate(&scalar.text, self.env) {
            Ok(put_in) => put_in,
            Err(faults) => {
                for fault in faults {
                    self.reporter
                        .error(&inside(fault.span), fault.message, Some(fault.help));
                }
                return None;
            }
        };
        let class = match &put_in {
            Some(_) => TextClass::Any,
            None if scalar.plain => TextClass::of(&scalar.text),
            None => self.quoted,
        };
        let text = Text {
            start: scalar.text_start.filter(|_| put_in.is_none()),
            text: put_in.unwrap_or_else(|| scalar.text.clone()),
            class,
            span: node.span.clone(),
        };
        if text.class == TextClass::Null {
            self.mismatch(&node.span, &expected(), &Found::Nothing);
            return None;
        }
        Some(text)
    }

    /// Returns the entries of a mapping; none once an error has been reported.
    pub(crate) fn mapping<'n>(
        &mut self,
        node: &'n Node,
        expected: Expected<'_>,
    ) -> Option<&'n [Entry]> {
        match &node.kind {
            Kind::Mapping(entries) => return Some(entries),
            Kind::Sequence(_) => self.mismatch(&node.span, &expected(), &Found::List),
            Kind::Scalar(_) => {
                if let Some(text) = self.scalar(node, expected) {
                    self.mismatch(&node.span, &expected(), &Found::Text(&text.text));
                }
            }
        }
        None
    }

    /// Reads the items of a list or mapping. The words that the whole could be are not words that
    /// its parts can be.
    pub(crate) fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let words = std::mem::take(&mut self.words);
        let value = read(self);
        self.words = words;
        value
    }
}

/// The kind of value that stands where something else should.
pub(crate) enum Found<'a> {
    Text(&'a str),
    /// A text that YAML takes for a number or a truth value.
    NotText(&'a str),
    Nothing,
    List,
    Mapping,
}

impl std::fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // The log and the admin listener tell it.
            Self::Text(text) => write!(f, "`{}`", shortened(&without_credentials(text))),
            Self::NotText(text) => write!(f, "`{}`, which is not text", shortened(text)),
            Self::Nothing => f.write_str("nothing"),
            Self::List => f.write_str("a list"),
            Self::Mapping => f.write_str("a mapping"),
        }
    }
}

/// Returns at most 60 characters of a text, on one line.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.replace(|c: char| c.is_control(), " ")
}

/// Returns the closest of the known words, if one is close.
pub(crate) fn similar<'w>(text: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    if text.len() > 64 {
        return None;
    }
    let lower = text.to_ascii_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|word| {
            let other = word.to_ascii_lowercase().replace('-', "_");
            (strsim::damerau_levenshtein(&lower, &other), word)
        })
        .filter(|(distance, word)| word.len() > 2 && *distance <= 1.max(word.len() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A scalar's text after its variables were put in.
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) class: TextClass,
    pub(crate) span: Range<usize>,
    /// The byte at which the text starts in the file, if it stands there as it is.
    start: Option<usize>,
}

impl Text {
    /// Returns the place of a part of the text in the file. It is the place of the whole if the
    /// text does not stand there as it is.
    pub(crate) fn part(&self, part: Range<usize>) -> Range<usize> {
        match self.start {
            Some(start) if part.start < part.end => start + part.start..start + part.end,
            _ => self.span.clone(),
        }
    }
}

/// The class of a text in YAML 1.2's core schema, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextClass {
    Null,
    Bool,
    Integer,
    Float,
    String,
    /// The text of a variable, or of a configuration as it is shown, which is taken for whatever is
    /// needed.
    Any,
}

impl TextClass {
    pub(crate) fn of(text: &str) -> Self {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let radix = |prefix, radix| {
            text.strip_prefix(prefix).is_some_and(|rest: &str| {
                !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix))
            })
        };
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Self::Bool,
            ".nan" | ".NaN" | ".NAN" => Self::Float,
            _ if digits(unsigned) || radix("0x", 16) || radix("0o", 8) => Self::Integer,
            _ if matches!(unsigned, ".inf" | ".Inf" | ".INF") => Self::Float,
            _ if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                && unsigned
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
                && unsigned.parse::<f64>().is_ok() =>
            {
                Self::Float
            }
            _ => Self::String,
        }
    }
}

/// A type that can be read from the tree.
pub(crate) trait Decode: Sized + 'static {
    /// Returns what the value looks like, for an error's text, with an article.
    fn expected() -> Cow<'static, str>;

    /// Returns the name of the type's definition in the schema; none to write it in place.
    fn name() -> Option<&'static str> {
        None
    }

    /// Returns the JSON Schema of the value.
    fn schema(generator: &mut SchemaGenerator) -> Schema;

    /// Reads the value; none once an error has been reported.
    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self>;
}

/// Lends a [`Decode`] type's schema to schemars.
pub(crate) struct Of<T>(std::marker::PhantomData<T>);

impl<T: Decode> JsonSchema for Of<T> {
    fn schema_name() -> Cow<'static, str> {
        T::name().unwrap_or("Inline").into()
    }

    fn inline_schema() -> bool {
        T::name().is_none()
    }

    fn schema_id() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

/// A value, and its place in the file.
#[derive(Clone, Debug)]
pub(crate) struct Field<T> {
    /// The value; none if it is wrong, which was reported, or optional and absent.
    pub(crate) value: Option<T>,
    /// The bytes of the value, or of what encloses it if it is absent.
    pub(crate) span: Range<usize>,
    /// Whether the value is written in the file.
    pub(crate) given: bool,
}

impl<T: Decode> Field<T> {
    pub(crate) fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Self {
        Self {
            value: T::decode(node, cx),
            span: node.span.clone(),
            given: true,
        }
    }
}

impl<T> Field<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Returns the value of an optional field: none if it is wrong, `Some(None)` if absent.
    pub(crate) fn optional(&self) -> Option<Option<&T>> {
        (self.value.is_some() || !self.given).then_some(self.value.as_ref())
    }
}

impl<T: Copy> Field<T> {
    pub(crate) fn copied(&self) -> Option<T> {
        self.value
    }
}

/// Reads the tree of a default.
pub(crate) fn default_node(yaml: &'static str) -> Arc<Node> {
    let sources = Sources::of("default", yaml);
    tree::parse(yaml, &mut Reporter::new(&sources)).expect("a default is YAML")
}

/// Makes JSON of a default, which is written in YAML as an operator would write it.
pub(crate) fn default_json(node: &Node) -> Value {
    match &node.kind {
        Kind::Scalar(scalar)
            if scalar.plain && TextClass::of(&scalar.text) != TextClass::String =>
        {
            serde_json::from_str(&scalar.text).unwrap_or(Value::Null)
        }
        Kind::Scalar(scalar) => scalar.text.clone().into(),
        Kind::Sequence(items) => items.iter().map(|item| default_json(item)).collect(),
        Kind::Mapping(entries) => Value::Object(
            entries
                .iter()
                .map(|entry| (entry.key.clone(), default_json(&entry.value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_inside_its_text() {
        let text = "version: 1\nlisteners: [{address: 'unix:/run/${A}/${B}'}]\n\
                    clusters: {farm: {endpoints: [a:1]}}\nroutes: [{cluster: farm}]\n";
        let errors = crate::parse(text, "test", &|_| None).unwrap_err();
        let found = errors.diagnostics().iter().map(|own| {
            let place = own.place.as_ref().unwrap();
            (place.column, &text[place.span.clone()])
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(34, "${A}"), (39, "${B}")]);
    }

    #[test]
    fn long_texts_are_cut_and_kept_on_one_line() {
        let longest = "\u{e4}".repeat(60);
        assert_eq!(shortened(&longest), longest);
        assert_eq!(shortened(&format!("{longest}x")), format!("{longest}…"));
        assert_eq!(shortened("a\nb\u{7}"), "a b ");
        assert_eq!(shortened(""), "");
    }

    #[test]
    fn what_was_meant_is_close() {
        let known = ["max_requests", "weight", "on"];
        assert_eq!(similar("max-request", known), Some("max_requests"));
        assert_eq!(similar("Weigth", known), Some("weight"));
        assert_eq!(similar("height", known), Some("weight"));
        assert_eq!(similar("priority", known), None);
        // What is that short is close to everything.
        assert_eq!(similar("of", known), None);
        // What is very long is not compared.
        let long = "a".repeat(65);
        assert_eq!(similar(&long[..64], [&*long]), Some(&*long));
        assert_eq!(similar(&long, [&*long]), None);
        assert_eq!(similar(&format!("{long}a"), [&*long]), None);
    }

    #[test]
    fn a_part_without_bytes_stands_for_the_whole() {
        let text = |start| Text {
            text: "a#b".to_owned(),
            class: TextClass::String,
            span: 10..15,
            start,
        };
        assert_eq!(text(Some(11)).part(1..2), 12..13);
        assert_eq!(text(Some(11)).part(0..3), 11..14);
        assert_eq!(text(Some(11)).part(1..1), 10..15);
        assert_eq!(text(None).part(1..2), 10..15);
    }

    #[test]
    fn plain_texts_are_of_the_core_schema_s_classes() {
        assert_eq!(TextClass::of(""), TextClass::Null);
        for (class, texts) in [
            (TextClass::Null, "~ null NULL"),
            (TextClass::Bool, "true False TRUE"),
            (TextClass::Integer, "0 12 -12 +12 007 0x1F 0o17"),
            (TextClass::Float, "1.5 -1.5 .5 +.5 1. 1e3 1E-3"),
            (TextClass::Float, ".nan .NaN .NAN .inf -.Inf +.INF"),
            (TextClass::String, "0x 0xG 0o 0o8 -0x1F - + . --5 +-5 1-2"),
            (
                TextClass::String,
                "1.2.3 e5 1_0 5s inf nan infinity -.nan nULL off",
            ),
        ] {
            for text in texts.split(' ') {
                assert_eq!(TextClass::of(text), class, "{text}");
            }
        }
    }
}
