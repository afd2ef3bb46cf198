//! Numbers from a fuzzer's bytes.

/// What is left of them.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next one; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next one, below a bound that is not zero.
    pub(crate) fn below(&mut self, bound: u8) -> Option<u8> {
        Some(self.next()? % bound)
    }

    /// A size: small ones, the bounds of types, and what lies between.
    pub(crate) fn amount(&mut self) -> Option<u64> {
        let shift = self.next()?;
        let digits = u64::from(self.next()?);
        Some(match shift {
            0xff => u64::MAX,
            _ => digits << (shift % 24),
        })
    }
}
