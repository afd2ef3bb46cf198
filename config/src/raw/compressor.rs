//! Compression of responses, as it is written.

use crate::containers::List;
use crate::patterns::MediaType;
use crate::record::{choices, record};
use crate::resolved::Algorithm;
use crate::scalars::{Bytes, Count};

record! {
    /// Compression of responses to clients that accept it.
    closed struct Compressor {
        /// Codings that Sprat offers. If a client accepts several equally well, it gets the first
        /// of them.
        default("[zstd, br, gzip]") algorithms: List<Algorithm, 1>,
        /// Bytes of the smallest body that is compressed. A smaller one would hardly shrink. A body
        /// of unknown length is compressed in any case.
        default("1KB") min_content_length: Bytes<0, 1_073_741_824>,
        /// Media types of the bodies that are compressed.
        default("[text/html, text/css, text/plain, text/xml, text/csv, text/javascript, text/markdown, application/javascript, application/json, application/ld+json, application/manifest+json, application/xml, application/rss+xml, application/atom+xml, application/xhtml+xml, application/wasm, application/vnd.ms-fontobject, font/ttf, font/otf, image/svg+xml, image/bmp, image/x-icon]")
        content_types: List<MediaType, 1>,
        /// Bodies up to this size are compressed as a whole before the response begins, so that the
        /// size of the response is known exactly. Larger ones are compressed while they are sent.
        default("64KB") exact_up_to: Bytes<0, 1_048_576>,
        /// Bodies that a worker compresses at the same time while it sends them, each with up to 2
        /// MB of memory. One over it is sent uncompressed.
        default("256") max_streams: Count<1, 65_536>,
    }
}

choices! {
    Algorithm as "Algorithm": "a content coding" {
        /// Zstandard, defined in RFC 8878.
        "zstd" => Algorithm::Zstd,
        /// Brotli, defined in RFC 7932.
        "br" => Algorithm::Brotli,
        /// Gzip, defined in RFC 1952.
        "gzip" => Algorithm::Gzip,
    }
}
