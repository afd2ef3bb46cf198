//! Lists, mappings from names, and values that may also be a word.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::decode::{Context, Decode, Field, Found, Of, shortened};
use crate::interpolate::interpolate;
use crate::scalars::{NAME_PATTERN, VARIABLE, check_name};
use crate::tree::{Entry, Kind, Node};
use crate::words::Word;

/// A list of at least `MIN` items.
#[derive(Clone, Debug)]
pub(crate) struct List<T, const MIN: usize>(pub(crate) Vec<Field<T>>);

impl<T: Decode, const MIN: usize> Decode for List<T, MIN> {
    fn expected() -> Cow<'static, str> {
        format!("a list, each item {}", T::expected()).into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "minItems": MIN,
            "items": generator.subschema_for::<Of<T>>(),
        })
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let items = match &node.kind {
            Kind::Sequence(items) => items,
            Kind::Mapping(_) => {
                cx.mismatch(&node.span, &Self::expected(), &Found::Mapping);
                return None;
            }
            Kind::Scalar(_) => {
                let text = cx.scalar(node, &Self::expected)?;
                cx.mismatch(&node.span, &Self::expected(), &Found::Text(&text.text));
                return None;
            }
        };
        if items.len() < MIN {
            let message = "the list is empty".to_owned();
            let help = format!("give at least {MIN}: {}", T::expected());
            cx.reporter.error(&node.span, message, Some(help));
            return None;
        }
        if !cx.has_room_for::<Field<T>>(items.len(), &node.span) {
            return None;
        }
        Some(cx.inside(|cx| Self(items.iter().map(|item| Field::decode(item, cx)).collect())))
    }
}

/// A mapping with at least one entry, whose keys are names of the operator's choosing.
#[derive(Clone, Debug)]
pub(crate) struct ByName<T>(pub(crate) Vec<(Field<String>, Field<T>)>);

impl<T: Decode> Decode for ByName<T> {
    fn expected() -> Cow<'static, str> {
        format!("a mapping from names, each to {}", T::expected()).into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": NAME_PATTERN},
            "additionalProperties": generator.subschema_for::<Of<T>>(),
        })
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let entries = cx.mapping(node, &Self::expected)?;
        if entries.is_empty() {
            let message = "the mapping is empty".to_owned();
            let help = "give at least one name and what it stands for".to_owned();
            cx.reporter.error(&node.span, message, Some(help));
            return None;
        }
        if !cx.has_room_for::<(Field<String>, Field<T>)>(entries.len(), &node.span) {
            return None;
        }
        Some(cx.inside(|cx| {
            let read = |entry: &Entry| {
                let name = check_name(&entry.key);
                if let Err(help) = &name {
                    let message = format!("`{}` cannot be a name", shortened(&entry.key));
                    cx.reporter
                        .error(&entry.key_span, message, Some(help.clone()));
                }
                let key = Field {
                    value: name.is_ok().then(|| entry.key.clone()),
                    span: entry.key_span.clone(),
                    given: true,
                };
                (key, Field::decode(&entry.value, cx))
            };
            Self(entries.iter().map(read).collect())
        }))
    }
}

/// A value that few records have, kept apart so that those without it are smaller.
#[derive(Clone, Debug)]
pub(crate) struct Seldom<T>(Box<T>);

impl<T> std::ops::Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Decode> Decode for Seldom<T> {
    fn expected() -> Cow<'static, str> {
        T::expected()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Of<T>>()
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        if !cx.has_room_for::<T>(1, &node.span) {
            return None;
        }
        T::decode(node, cx).map(|own| Self(Box::new(own)))
    }
}

/// A value of type `T`, or the word of `W` in its place, such as `off`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Or<W, T> {
    Word(W),
    Value(T),
}

impl<W, T> Or<W, T> {
    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Self::Word(_) => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<W: Word, T: Decode> Decode for Or<W, T> {
    fn expected() -> Cow<'static, str> {
        format!("`{}` or {}", W::WORD, T::expected()).into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let other = generator.subschema_for::<Of<T>>();
        json_schema!({"anyOf": [
            {"const": W::WORD},
            {"type": "string", "pattern": VARIABLE},
            other,
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        if let Kind::Scalar(scalar) = &node.kind {
            let is_word = match interpolate(&scalar.text, cx.env) {
                Ok(Some(text)) => text == W::WORD,
                Ok(None) => scalar.text == W::WORD,
                // `T` reports it.
                Err(_) => false,
            };
            if is_word {
                return Some(Self::Word(W::default()));
            }
        }
        cx.words.push(W::WORD);
        let value = T::decode(node, cx);
        cx.words.pop();
        value.map(Self::Value)
    }
}
