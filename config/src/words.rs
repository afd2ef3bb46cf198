//! Words that stand in the place of a value, such as `off`.

/// A word with a meaning of its own, such as `off`.
pub(crate) trait Word: Default + 'static {
    const WORD: &'static str;
}

/// Defines words: `/// Meaning. Name = "word",`.
macro_rules! words {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal,)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $name;

        impl $crate::words::Word for $name {
            const WORD: &'static str = $word;
        }
    )*};
}
pub(crate) use words;

words! {
    /// The word `off`: not at all.
    Off = "off",
    /// The word `auto`: found out by Sprat.
    Auto = "auto",
    /// The word `unlimited`: without a bound.
    Unlimited = "unlimited",
    /// The word `always`: at all times, busy or not.
    Always = "always",
    /// The word `none`: clients do not share the link.
    NoShare = "none",
    /// The word `paper`: what the paper chose.
    Paper = "paper",
    /// The word `learnt`: found from what passes.
    LearntWord = "learnt",
    /// The word `two-class`: TOCS03 3.4's two classes.
    TwoClass = "two-class",
}
