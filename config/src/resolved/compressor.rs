//! Compression of responses, after every check.

use super::TextPattern;

/// Responses that are compressed on their way.
#[derive(Clone, Debug, PartialEq)]
pub struct Compressor {
    /// The codings that clients are offered, the best first.
    pub algorithms: Vec<Algorithm>,
    /// Bytes of a body at least.
    pub min_content_length: u64,
    /// The types of bodies, in lower case.
    pub content_types: Vec<TextPattern>,
    /// Bytes of a body that is compressed as a whole, at most.
    pub exact_up_to: usize,
    /// Bodies that a worker compresses on their way at a time.
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
    /// Every one of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns the coding's name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns its place in [`Algorithm::ALL`].
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
