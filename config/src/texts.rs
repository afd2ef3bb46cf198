//! Types of text that is kept as the operator writes it, if it has a certain form.

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

            fn parse(text: &str, _: $crate::decode::TextClass) -> Result<Self, $crate::scalars::Fault> {
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

/// Returns whether a text has a length in bytes within `lengths`, and every byte is valid.
pub(crate) fn is_made_of(
    text: &str,
    lengths: RangeInclusive<usize>,
    valid: fn(u8) -> bool,
) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(valid)
}
