//! Compression of responses, after every check.

use super::TextPattern;

/// The compression of responses: its codings, and the bodies that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Compressor {
    /// The codings that clients are offered, the best first.
    pub algorithms: Vec<Algorithm>,
    /// The least bytes of a body that is compressed.
    pub min_content_length: u64,
    /// The media types of bodies that are compressed, in lower case.
    pub content_types: Vec<TextPattern>,
    /// The most bytes of a body that is compressed as a whole, so that its size is exact.
    pub exact_up_to: usize,
    /// The most bodies that a worker compresses at a time while it sends them.
    pub max_streams: usize,
}

/// A content coding of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Zstandard, as RFC 8878 has it.
    Zstd,
    /// Brotli, as RFC 7932 has it.
    Brotli,
    /// Gzip, as RFC 1952 has it.
    Gzip,
}

impl Algorithm {
    /// All codings, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns the coding's name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the coding's index in [`Algorithm::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_have_the_names_and_numbers_of_their_list() {
        assert_eq!(Algorithm::ALL.map(Algorithm::name), ["zstd", "br", "gzip"]);
        assert_eq!(Algorithm::ALL.map(Algorithm::index), [0, 1, 2]);
    }
}
