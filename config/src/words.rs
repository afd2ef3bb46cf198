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
    /// The word `off`, which switches something off.
    Off = "off",
    /// The word `auto`: Sprat finds the value itself.
    Auto = "auto",
    /// The word `unlimited`: there is no bound.
    Unlimited = "unlimited",
    /// The word `always`: at all times, under load or not.
    Always = "always",
    /// The word `none` of `share`: clients do not share the link.
    NoShare = "none",
    /// The word `paper`: the values that the paper chose.
    Paper = "paper",
    /// The word `learnt`: Sprat finds the values from what passes.
    LearntWord = "learnt",
    /// The word `two-class`: the two classes of TOCS03 3.4.
    TwoClass = "two-class",
}
