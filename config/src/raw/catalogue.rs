//! The catalogue of sizes as it is written.

use super::{Limit, Timeout};
use crate::addresses::RedisUrl;
use crate::containers::{List, Or};
use crate::names::{FieldName, FileName, FilePath, KeyPrefix, Name, Phrase};
use crate::record::{choices, record};
use crate::resolved::ManifestFormat;
use crate::scalars::{Bytes, Count, Time};
use crate::words::{Auto, Off};

record! {
    /// Sources that tell the size of a response before it begins.
    closed struct Catalogue {
        /// Memory for sizes learnt from earlier responses, 18 bytes each. With 0, Sprat learns
        /// no sizes.
        default("32MB") max_size: Bytes<0, 1_099_511_627_776>,
        /// How long a learnt size is used.
        default("1h") ttl: Timeout,
        /// Request header fields that tell the variants of a resource apart, if the response's
        /// `Vary` names them. At most 4.
        default("[accept-encoding]") vary: List<FieldName, 0>,
        /// A file that keeps learnt sizes across restarts.
        default("off") snapshot: Or<Off, Snapshot>,
        /// Files that list sizes. The first file that has a resource tells its size.
        default("[]") manifests: List<Manifest, 0>,
        /// A store that several proxies share, so that each knows the sizes that the others
        /// have learnt.
        default("off") shared: Or<Off, SharedStore>,
        /// Estimates by file extension and content type, for resources whose own size is not
        /// known.
        default("{}") estimator: Or<Off, Estimator>,
    }

    /// A file that lists sizes.
    closed struct Manifest {
        /// The path of the manifest.
        required path: FilePath,
        /// The format of the file. `auto` takes a file whose name ends in `.csv` for CSV, and
        /// any other for JSON lines.
        default("auto") format: Or<Auto, ManifestFormat>,
        /// The cluster whose responses the file lists. If absent, the file is for every
        /// cluster.
        optional cluster: Name,
        /// Bytes of the file; a larger one is refused. An entry takes 16 bytes
        /// of memory.
        default("64MB") max_size: Bytes<1, 17_179_869_184>,
        /// How often Sprat checks whether the file has changed.
        default("2s") reload_interval: Time<100>,
    }

    /// Estimates by kind: each file extension and each content type on a route is a kind.
    closed struct Estimator {
        /// Memory for the estimates. A kind takes a little more than 4 KB.
        default("1MB") max_size: Bytes<16_384, 1_073_741_824>,
        /// The percentile of the kind's sizes that Sprat takes as the estimate. A higher one
        /// ranks a response of unknown size further back.
        default("50") percentile: Count<1, 99>,
        /// Sizes of a kind that Sprat must have seen before it estimates.
        default("8") min_observations: Count<1, 1_000_000>,
    }

    /// HEAD requests that ask a backend for sizes.
    closed struct HeadProbe {
        /// How long a request waits for the answer at most. Then the probe goes on, for the
        /// next request that asks.
        default("10ms") budget: Timeout,
        /// How long a probe may take, including the time to connect.
        default("2s") timeout: Timeout,
        /// Probes at the same time. They do not count towards `max_requests`.
        default("16") max_concurrent: Count<1, 10_000>,
        /// How long Sprat sends no further probe for a resource whose probe told no size. After
        /// five such answers in a row, it sends none for the whole route for as long.
        default("60s") negative_ttl: Time<1000>,
        /// Memory for the resources that are not probed.
        default("1MB") max_size: Bytes<4_096, 1_073_741_824>,
    }

    /// A store that several proxies share, over the Redis protocol.
    closed struct SharedStore {
        /// The URL of the store.
        required url: RedisUrl,
        /// The prefix of the store's keys.
        default("'sprat:'") prefix: KeyPrefix,
        /// A phrase, the same for all proxies that share the store. Keep it secret: clients
        /// that know it can aim at one place of the table of sizes.
        default("sprat") phrase: Phrase,
        /// How long a request waits for the store's answer at most.
        default("2ms") budget: Timeout,
        /// Sizes that wait to be written to the store. One over it is not shared.
        default("1024") max_queued: Limit,
        /// How long Sprat does not use the store after five failures in a row.
        default("5s") pause: Timeout,
    }

    /// A directory that holds what the backends serve.
    closed struct DocumentRoot {
        /// The directory. Sprat looks up in it the path that it requests from the backend.
        required path: FilePath,
        /// The file whose size is used if the path is a directory.
        default("index.html") index: FileName,
        /// How long a request waits for a file's size at most.
        default("2ms") budget: Timeout,
        /// How long Sprat remembers the size of a file, or that there is no such file.
        default("10s") ttl: Time<1000>,
        /// Memory for sizes that were looked up.
        default("1MB") max_size: Bytes<4_096, 1_073_741_824>,
    }

    /// A file that keeps learnt sizes across restarts.
    closed struct Snapshot {
        /// The path of the file. Sprat writes a new file beside it, and then renames the new
        /// one to this path.
        required path: FilePath,
        /// How often Sprat writes the file. It also writes it at shutdown.
        default("5m") interval: Time<1000>,
    }
}

choices! {
    ManifestFormat as "ManifestFormat": "a format" {
        /// A first line that names the columns `path`, `bytes` and, if there
        /// is one, `host`.
        "csv" => Self::Csv,
        /// One JSON object a line: `path`, `bytes` and, if there is one,
        /// `host`.
        "json_lines" => Self::JsonLines,
    }
}
