//! Compression of responses, as it is written.

use crate::containers::List;
use crate::patterns::MediaType;
use crate::record::{choices, record};
use crate::resolved::Algorithm;
use crate::scalars::{Bytes, Count};

record! {
    /// Responses that are compressed on their way to clients that take it.
    closed struct Compressor {
        /// What clients are offered; of two that one likes the same it gets the first.
        default("[zstd, br, gzip]") algorithms: List<Algorithm, 1>,
        /// Bytes of a body; a smaller one would hardly shrink.
        default("1KB") min_content_length: Bytes<0, 1_073_741_824>,
        /// The types of bodies.
        default("[text/html, text/css, text/plain, text/xml, text/csv, text/javascript, text/markdown, application/javascript, application/json, application/ld+json, application/manifest+json, application/xml, application/rss+xml, application/atom+xml, application/xhtml+xml, application/wasm, application/vnd.ms-fontobject, font/ttf, font/otf, image/svg+xml, image/bmp, image/x-icon]")
        content_types: List<MediaType, 1>,
        /// Bodies up to here are compressed as a whole before the response begins, so that
        /// its size is known exactly; larger ones on their way.
        default("64KB") exact_up_to: Bytes<0, 1_048_576>,
        /// Bodies that a worker compresses on their way at a time, each with up to 2 MB of
        /// memory; one over it goes as it is.
        default("256") max_streams: Count<1, 65_536>,
    }
}

choices! {
    Algorithm as "Algorithm": "a content coding" {
        /// Zstandard, as RFC 8878 has it.
        "zstd" => Algorithm::Zstd,
        /// Brotli, as RFC 7932 has it.
        "br" => Algorithm::Brotli,
        /// Gzip, as RFC 1952 has it.
        "gzip" => Algorithm::Gzip,
    }
}
