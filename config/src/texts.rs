//! Types of one scalar, made by macros: text that is kept as the operator writes it, if it has a
//! certain form, and numbers.

use std::ops::RangeInclusive;

/// Defines types of text. Each has a description of what it takes, its part of the schema, and a
/// test of its form:
///
/// ```text
/// /// Meaning.
/// Name: "what it takes", {"pattern": "^...$"}, |text| is_fine(text);
/// ```
macro_rules! texts {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $expected:literal, {$($schema:tt)*}, $fits:expr;
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub(crate) String);

        impl $crate::scalars::Leaf for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                $expected.into()
            }

            fn accepts() -> serde_json::Value {
                serde_json::json!({"type": "string", $($schema)*})
            }

            fn parse(
                text: &str,
                _: $crate::decode::TextClass,
            ) -> Result<Self, $crate::scalars::Fault> {
                let fits: fn(&str) -> bool = $fits;
                match fits(text) {
                    true => Ok(Self(text.to_owned())),
                    false => Err($crate::scalars::Fault::PLAIN),
                }
            }
        }
    )*};
}
pub(crate) use texts;

/// Defines types of numbers. Each has the type of its value, whether it is written as a plain
/// number (others are text, such as `5%`), a description of what it takes, its part of the schema,
/// and a function that reads it:
///
/// ```text
/// /// Meaning.
/// Name(f64), NUMBER = true: "what it takes", {"type": "number"}, |text| read(text);
/// ```
macro_rules! numbers {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident($value:ty), NUMBER = $number:literal:
            $expected:expr, {$($schema:tt)*}, $parse:expr;
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(pub(crate) $value);

        impl $crate::scalars::Leaf for $name {
            const NUMBER: bool = $number;
            const TEXT: bool = !<Self as $crate::scalars::Leaf>::NUMBER;

            fn expected() -> std::borrow::Cow<'static, str> {
                $expected.into()
            }

            fn accepts() -> serde_json::Value {
                serde_json::json!({$($schema)*})
            }

            fn parse(
                text: &str,
                _: $crate::decode::TextClass,
            ) -> Result<Self, $crate::scalars::Fault> {
                let parse: fn(&str) -> Result<$value, $crate::scalars::Fault> = $parse;
                parse(text).map(Self)
            }
        }
    )*};
}
pub(crate) use numbers;

/// Returns whether a text has a length in bytes within `lengths`, and every byte is valid.
pub(crate) fn is_made_of(
    text: &str,
    lengths: RangeInclusive<usize>,
    valid: fn(u8) -> bool,
) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(valid)
}
