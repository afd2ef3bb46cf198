//! Buffers of requests and responses, as they are written.

use super::SomeBytes;
use crate::containers::Or;
use crate::names::FilePath;
use crate::record::record;
use crate::scalars::{Auto, Bytes, MAX_SIZE, Off};

record! {
    /// What is kept of bodies, so that no backend waits for a client.
    closed struct Buffer {
        /// Take the whole of a request's body before a place at the backend is taken; a
        /// route may say otherwise.
        default("off") request: Or<Off, BufferedBody>,
        /// Take a response's body as fast as the backend sends it; a route may say
        /// otherwise. `auto` is as the cluster's `read_ahead` says, where places are
        /// bounded.
        default("auto") response: Or<Auto, Or<Off, BufferedBody>>,
        /// Memory for the bodies of all routes that say how much they buffer.
        default("64MB") max_total_memory: SomeBytes,
        /// Bytes in the files of all routes.
        default("1GB") max_total_file: SomeBytes,
    }

    /// What a route keeps of bodies.
    closed struct RouteBuffer {
        /// Take the whole of a request's body before a place at the backend is taken; as
        /// the file's own `buffer` says if absent.
        optional request: Or<Off, BufferedBody>,
        /// Take a response's body as fast as the backend sends it; as the file's own
        /// `buffer` says if absent.
        optional response: Or<Auto, Or<Off, BufferedBody>>,
    }

    /// How much is kept of a body.
    closed struct BufferedBody {
        /// Bytes of a body in memory.
        default("256KB") memory: SomeBytes,
        /// Where the rest goes; without it the rest is passed on as it comes.
        default("off") file: Or<Off, BufferFile>,
    }

    /// A temporary file for what memory does not take.
    closed struct BufferFile {
        /// The directory. A file in it has no name, and is gone with its request.
        required path: FilePath,
        /// Bytes of each body.
        default("1GB") max_size: Bytes<1, MAX_SIZE>,
    }
}
