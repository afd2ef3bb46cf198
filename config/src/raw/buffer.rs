//! Buffers of requests and responses, as they are written.

use super::SomeBytes;
use crate::containers::Or;
use crate::names::FilePath;
use crate::record::record;
use crate::scalars::{Bytes, MAX_SIZE};
use crate::words::{Auto, Off};

record! {
    /// Buffers for bodies, so that no backend waits for a client.
    closed struct Buffer {
        /// Read the whole body of a request before the request takes a place at the backend. A
        /// route's own `buffer` may override it.
        default("off") request: Or<Off, BufferedBody>,
        /// Read a response's body as fast as the backend sends it. `auto` applies the cluster's
        /// `read_ahead`, where a bound such as `max_requests` limits the requests in service. A
        /// route's own `buffer` may override it.
        default("auto") response: Or<Auto, Or<Off, BufferedBody>>,
        /// Memory for the bodies of all routes that set how much they buffer.
        default("64MB") max_total_memory: SomeBytes,
        /// Bytes in the temporary files of all routes.
        default("1GB") max_total_file: SomeBytes,
    }

    /// Buffers for the bodies of a route's requests and responses.
    closed struct RouteBuffer {
        /// Read the whole body of a request before the request takes a place at the backend. If
        /// absent, the top-level `buffer` applies.
        optional request: Or<Off, BufferedBody>,
        /// Read a response's body as fast as the backend sends it. If absent, the top-level
        /// `buffer` applies.
        optional response: Or<Auto, Or<Off, BufferedBody>>,
    }

    /// How much of a body Sprat buffers.
    closed struct BufferedBody {
        /// Bytes of each body in memory.
        default("256KB") memory: SomeBytes,
        /// Temporary file for the rest of a body. Without it, Sprat passes the rest on as it comes.
        default("off") file: Or<Off, BufferFile>,
    }

    /// A temporary file for the part of a body that is over `memory`.
    closed struct BufferFile {
        /// The directory. A file in it has no name, and is gone when its request ends.
        required path: FilePath,
        /// Bytes of each body in its file.
        default("1GB") max_size: Bytes<1, MAX_SIZE>,
    }
}
