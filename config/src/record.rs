//! Mappings with fixed keys, defined once.
//!
//! [`record!`] writes a struct, its decoder and its JSON Schema from one list
//! of keys; [`choices!`] does the same for words that stand for a value, and
//! [`variants!`] for mappings whose `name` says which keys they have.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::decode::{
    Context, Decode, Expected, Field, default_json, default_node, shortened, similar,
};
use crate::tree::{self, Entry, Node};
use crate::wording::{alternatives, choose, listed, paragraph};

/// A key of a record.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
    pub(crate) expected: fn() -> Cow<'static, str>,
}

/// The part of a key that only the schema has. It is apart from the key, so that a program that
/// makes no schema does not carry it: the texts alone are a hundredth of a filter.
pub(crate) struct KeySchema {
    pub(crate) doc: &'static [&'static str],
    /// The function that makes the schema of the key's value.
    pub(crate) value: fn(&mut SchemaGenerator) -> Schema,
}

/// The meaning of a key's absence: an error, no value, or a default.
#[derive(Clone, Copy)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// The key has this value, in YAML.
    Default(&'static str),
}

/// A mapping with fixed keys.
pub(crate) trait Record: Sized + 'static {
    const NAME: &'static str;
    const DOC: &'static [&'static str];
    /// Whether the mapping may have any key that starts with `x-`, for the operator's own use.
    const OPEN: bool;
    const KEYS: &'static [Key];
    /// The schemas of the keys, in the order of `KEYS`.
    const SCHEMAS: &'static [KeySchema];

    fn read(keys: &mut Keys<'_, '_, '_>) -> Self;
}

/// A record in a box, for one that is much larger than the other variants of its enum.
impl<R: Record> Record for Box<R> {
    const NAME: &'static str = R::NAME;
    const DOC: &'static [&'static str] = R::DOC;
    const OPEN: bool = R::OPEN;
    const KEYS: &'static [Key] = R::KEYS;
    const SCHEMAS: &'static [KeySchema] = R::SCHEMAS;

    fn read(keys: &mut Keys<'_, '_, '_>) -> Self {
        Self::new(R::read(keys))
    }
}

/// A type that is read from a name, or from a mapping with that name and parameters.
pub(crate) trait Variants {
    /// The names of the variants, in the order of the definition.
    const NAMES: &'static [&'static str];
}

/// A reader of a record's keys, in the order of its definition.
pub(crate) struct Keys<'k, 'a, 't> {
    keys: std::slice::Iter<'static, Key>,
    entries: &'k [Entry],
    span: &'k Range<usize>,
    /// Unknown keys, each with the known key that its spelling is close to.
    misspelt: Vec<(&'k Entry, &'static str)>,
    cx: &'k mut Context<'a, 't>,
}

impl<'k> Keys<'k, '_, '_> {
    pub(crate) fn next<T: Decode>(&mut self) -> Field<T> {
        let key = self.keys.next().expect("one call for each key");
        let (given, others) = self.entries_of(key);
        if let Some(entry) = given {
            let mut field = Field::decode(&entry.value, self.cx);
            for other in others {
                drop(T::decode(&other.value, self.cx));
            }
            // A value left out has no place that one could underline.
            if field.span.is_empty() {
                field.span = entry.key_span.clone();
            }
            return field;
        }
        let value = self
            .default_of(key)
            .map(|node| T::decode(&node, self.cx).expect("a default is a valid value"));
        Field {
            value,
            span: self.span.clone(),
            given: false,
        }
    }

    // The same for all types, once: a filter's program has no room for one of each.

    /// Returns the first entry that gives a key, and all the others that do. Those are read, too,
    /// so that errors below them are reported.
    #[inline(never)]
    fn entries_of(&self, key: &Key) -> (Option<&'k Entry>, Vec<&'k Entry>) {
        let named = self.entries.iter().filter(|entry| entry.key == key.name);
        let meant = self.misspelt.iter().filter(|(_, name)| *name == key.name);
        let mut given = named.chain(meant.map(|(entry, _)| *entry));
        (given.next(), given.collect())
    }

    /// Returns the default of a key that is not given, if it has one. Reports a missing key that is
    /// required.
    #[inline(never)]
    fn default_of(&mut self, key: &Key) -> Option<Arc<Node>> {
        match key.presence {
            Presence::Default(yaml) => Some(self.cx.default(yaml)),
            Presence::Optional => None,
            Presence::Required => {
                let message = format!("the key `{}` is missing", key.name);
                let help = format!("`{}` takes {}", key.name, (key.expected)());
                self.cx.reporter.error(self.span, message, Some(help));
                None
            }
        }
    }
}

/// Reads a record from a mapping; `tag` is a key that was read already.
pub(crate) fn decode<R: Record>(
    node: &Node,
    tag: Option<&'static str>,
    cx: &mut Context<'_, '_>,
) -> Option<R> {
    let entries = cx.mapping(node, &expected::<R>)?;
    let known = || R::KEYS.iter().map(|key| key.name).chain(tag);
    let mut misspelt = Vec::new();
    for entry in entries {
        let open = R::OPEN && entry.key.starts_with("x-");
        if !open && !known().any(|key| key == entry.key) {
            let message = format!("unknown key `{}`", shortened(&entry.key));
            let help = match similar(&entry.key, known()) {
                Some(key) => {
                    misspelt.push((entry, key));
                    format!("did you mean `{key}`?")
                }
                None if known().nth(1).is_none() => {
                    format!("the only key here is {}", listed(known()))
                }
                None => format!("the keys here are {}", listed(known())),
            };
            cx.reporter.error(&entry.key_span, message, Some(help));
        }
    }
    Some(cx.inside(|cx| {
        R::read(&mut Keys {
            keys: R::KEYS.iter(),
            entries,
            span: &node.span,
            misspelt,
            cx,
        })
    }))
}

/// The most keys that a record's description names; if it has more, it names a few.
const MAX_LISTED: usize = 12;

/// Returns the description of a record for an error's text: the keys that it must have, or if it
/// must have none, those that it may.
pub(crate) fn expected<R: Record>() -> Cow<'static, str> {
    described(R::KEYS).into()
}

/// Returns the description of a mapping with these keys. It is one function for all records: a
/// filter's program has no room for one of each.
fn described(keys: &[Key]) -> String {
    let required = |key: &&Key| matches!(key.presence, Presence::Required);
    let none_required = !keys.iter().any(|key| required(&key));
    let (shown, others) = match none_required && keys.len() > MAX_LISTED {
        true => (3, ", and others"),
        false => (keys.len(), ""),
    };
    let named = keys.iter().filter(|key| none_required || required(key));
    let names = listed(named.take(shown).map(|key| key.name));
    format!("a mapping with {names}{others}")
}

/// Returns a record's JSON Schema; `tag` adds a key with a fixed value.
pub(crate) fn schema<R: Record>(
    tag: Option<(&'static str, &'static str)>,
    generator: &mut SchemaGenerator,
) -> Schema {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some((key, value)) = tag {
        properties.insert(key.to_owned(), json!({"const": value}));
        required.push(Value::from(key));
    }
    for (key, schema) in R::KEYS.iter().zip(R::SCHEMAS) {
        let mut property = (schema.value)(generator);
        let expected = (key.expected)();
        property.insert(
            "description".to_owned(),
            format!("{}\n\nTakes {expected}.", paragraph(schema.doc)).into(),
        );
        match key.presence {
            Presence::Required => required.push(key.name.into()),
            Presence::Optional => {}
            Presence::Default(yaml) => {
                property.insert("default".to_owned(), default_json(&default_node(yaml)));
            }
        }
        properties.insert(key.name.to_owned(), property.to_value());
    }
    let mut object = Map::new();
    object.insert("type".to_owned(), "object".into());
    object.insert("description".to_owned(), paragraph(R::DOC).into());
    object.insert("properties".to_owned(), properties.into());
    object.insert("required".to_owned(), required.into());
    object.insert("additionalProperties".to_owned(), false.into());
    if R::OPEN {
        object.insert("patternProperties".to_owned(), json!({"^x-": true}));
    }
    object.into()
}

/// Defines structs that are read from mappings:
///
/// ```text
/// closed struct Name {            // `open` leaves keys like x-... alone
///     /// Meaning.
///     required key: Type,
///     /// Meaning.
///     optional key: Type,
///     /// Meaning.
///     default("YAML") key: Type,
///     /// Meaning.
///     optional matches as "match": Type,
/// }
/// ```
macro_rules! record {
    ($(
        $(#[doc = $doc:literal])*
        $openness:ident struct $name:ident {$(
            $(#[doc = $field_doc:literal])*
            $presence:ident $(($default:literal))? $field:ident $(as $key:literal)?: $ty:ty,
        )*}
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {$(
            $(#[doc = $field_doc])*
            pub(crate) $field: $crate::decode::Field<$ty>,
        )*}

        impl $crate::record::Record for $name {
            const NAME: &'static str = stringify!($name);
            const DOC: &'static [&'static str] = &[$($doc),*];
            const OPEN: bool = $crate::record::record!(@open $openness);
            const KEYS: &'static [$crate::record::Key] = &[$($crate::record::Key {
                name: $crate::record::record!(@key $field $($key)?),
                presence: $crate::record::record!(@presence $presence $($default)?),
                expected: <$ty as $crate::decode::Decode>::expected,
            }),*];
            const SCHEMAS: &'static [$crate::record::KeySchema] = &[$($crate::record::KeySchema {
                doc: &[$($field_doc),*],
                value: |generator| generator.subschema_for::<$crate::decode::Of<$ty>>(),
            }),*];

            #[allow(unused_variables)]
            fn read(keys: &mut $crate::record::Keys<'_, '_, '_>) -> Self {
                Self {$( $field: keys.next::<$ty>(), )*}
            }
        }

        impl $crate::decode::Decode for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                $crate::record::expected::<Self>()
            }

            fn name() -> Option<&'static str> {
                Some(<Self as $crate::record::Record>::NAME)
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::record::schema::<Self>(None, generator)
            }

            fn decode(
                node: &$crate::tree::Node,
                cx: &mut $crate::decode::Context<'_, '_>,
            ) -> Option<Self> {
                $crate::record::decode::<Self>(node, None, cx)
            }
        }
    )*};
    (@open open) => { true };
    (@open closed) => { false };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@presence required) => { $crate::record::Presence::Required };
    (@presence optional) => { $crate::record::Presence::Optional };
    (@presence default $yaml:literal) => { $crate::record::Presence::Default($yaml) };
}
pub(crate) use record;

/// Implements [`Decode`](crate::decode::Decode) for types that are read from words: `Type "what it
/// is" { /// Meaning. "word" => value, }`.
macro_rules! choices {
    ($($ty:ty as $name:literal: $what:literal {$(
        $(#[doc = $doc:literal])*
        $word:literal => $value:expr,
    )*})*) => {$(
        impl $crate::decode::Decode for $ty {
            fn expected() -> std::borrow::Cow<'static, str> {
                format!("{}: {}", $what, $crate::wording::alternatives(&[$($word),*])).into()
            }

            fn name() -> Option<&'static str> {
                Some($name)
            }

            fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"anyOf": [$({
                    "const": $word,
                    "description": $crate::wording::paragraph(&[$($doc),*]),
                },)* {"type": "string", "pattern": $crate::scalars::VARIABLE}]})
            }

            fn decode(
                node: &$crate::tree::Node,
                cx: &mut $crate::decode::Context<'_, '_>,
            ) -> Option<Self> {
                let expected = <Self as $crate::decode::Decode>::expected;
                match $crate::wording::choose(node, &expected, &[$($word),*], cx)? {
                    $($word => Some($value),)*
                    _ => unreachable!("a known word"),
                }
            }
        }
    )*};
}
pub(crate) use choices;

/// Defines an enum that is read from a name alone, or from a mapping with
/// `name` and the keys of the record that the name stands for:
///
/// ```text
/// /// Meaning.
/// enum Name: "a thing" {
///     /// Meaning.
///     Variant(Record) = "name",
/// }
/// ```
macro_rules! variants {
    ($(
        $(#[doc = $doc:literal])*
        enum $name:ident: $what:literal {$(
            $(#[doc = $variant_doc:literal])*
            $variant:ident($record:ty) = $word:literal,
        )*}
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub(crate) enum $name {$(
            $(#[doc = $variant_doc])*
            $variant($record),
        )*}

        impl $crate::record::Variants for $name {
            const NAMES: &'static [&'static str] = &[$($word),*];
        }

        impl $crate::decode::Decode for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                let names = $crate::wording::alternatives(&[$($word),*]);
                format!("{} ({names}), or a mapping with its `name` and parameters", $what).into()
            }

            fn name() -> Option<&'static str> {
                Some(stringify!($name))
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "description": $crate::wording::paragraph(&[$($doc),*]),
                    "anyOf": [
                        $({
                            "const": $word,
                            "description": $crate::wording::paragraph(&[$($variant_doc),*]),
                        },)*
                        {"type": "string", "pattern": $crate::scalars::VARIABLE},
                        $($crate::record::schema::<$record>(Some(("name", $word)), generator),)*
                    ],
                })
            }

            fn decode(
                node: &$crate::tree::Node,
                cx: &mut $crate::decode::Context<'_, '_>,
            ) -> Option<Self> {
                let expected = <Self as $crate::decode::Decode>::expected;
                let (word, parameters) =
                    $crate::record::named(node, &expected, $what, &[$($word),*], cx)?;
                match word {
                    $($word => {
                        let record = $crate::record::decode(&parameters, Some("name"), cx)?;
                        Some(Self::$variant(record))
                    })*
                    _ => unreachable!("a known word"),
                }
            }
        }
    )*};
}
pub(crate) use variants;

/// Returns a name and the mapping with its parameters, which is empty if the name stands alone.
pub(crate) fn named(
    node: &Node,
    expected: Expected<'_>,
    what: &str,
    known: &[&'static str],
    cx: &mut Context<'_, '_>,
) -> Option<(&'static str, Arc<Node>)> {
    let tree::Kind::Mapping(entries) = &node.kind else {
        let word = choose(node, expected, known, cx)?;
        return Some((word, Node::empty_mapping(node.span.clone())));
    };
    let mut entries = entries.clone();
    let is_name = |entry: &Entry| entry.key == "name";
    if !entries.iter().any(is_name)
        && let Some(entry) = entries
            .iter_mut()
            .find(|entry| similar(&entry.key, ["name"]).is_some())
    {
        let message = format!("unknown key `{}`", shortened(&entry.key));
        let help = "did you mean `name`?".to_owned();
        cx.reporter.error(&entry.key_span, message, Some(help));
        "name".clone_into(&mut entry.key);
    }
    let Some(entry) = entries.iter().find(|entry| is_name(entry)) else {
        let message = "the key `name` is missing".to_owned();
        let help = format!("`name` takes {what}: {}", alternatives(known));
        cx.reporter.error(&node.span, message, Some(help));
        return None;
    };
    let expected = || format!("{what}: {}", alternatives(known)).into();
    let word = choose(&entry.value, &expected, known, cx)?;
    Some((word, Node::mapping(node.span.clone(), entries)))
}
