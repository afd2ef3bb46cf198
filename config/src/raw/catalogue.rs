//! The catalogue of sizes as it is written.

use super::{Limit, Timeout};
use crate::addresses::RedisUrl;
use crate::containers::{List, Or};
use crate::names::{FieldName, FileName, FilePath, KeyPrefix, Name, Phrase};
use crate::record::{choices, record};
use crate::resolved::ManifestFormat;
use crate::scalars::{Auto, Bytes, Count, Off, Time};

record! {
    /// What is known of sizes before a response begins.
    closed struct Catalogue {
        /// Memory for sizes learnt from earlier responses, 18 bytes each; 0
        /// switches them off.
        default("32MB") max_size: Bytes<0, 1_099_511_627_776>,
        /// How long a learnt size is believed.
        default("1h") ttl: Timeout,
        /// Request header fields by which the variants of a resource are told
        /// apart, where the response's `Vary` names them; at most 4.
        default("[accept-encoding]") vary: List<FieldName, 0>,
        /// A file that keeps learnt sizes over a restart.
        default("off") snapshot: Or<Off, Snapshot>,
        /// Files that list sizes; the first that knows a resource is believed.
        default("[]") manifests: List<Manifest, 0>,
        /// A store that proxies share, so that one knows what another has
        /// learnt.
        default("off") shared: Or<Off, SharedStore>,
        /// Estimates by kind, where nothing is known of a resource itself.
        default("{}") estimator: Or<Off, Estimator>,
    }

    /// A file that lists sizes.
    closed struct Manifest {
        /// Where the manifest is.
        required path: FilePath,
        /// How it is written; `auto` takes a name that ends in `.csv` for CSV,
        /// and any other for JSON lines.
        default("auto") format: Or<Auto, ManifestFormat>,
        /// The cluster whose responses it lists; every cluster's if absent.
        optional cluster: Name,
        /// Bytes of the file; a larger one is refused. An entry takes 16 bytes
        /// of memory.
        default("64MB") max_size: Bytes<1, 17_179_869_184>,
        /// How often to look whether the file has changed.
        default("2s") reload_interval: Time<100>,
    }

    /// Estimates by kind: a route's extensions and content types.
    closed struct Estimator {
        /// Memory at most; a kind takes a little more than 4 KB.
        default("1MB") max_size: Bytes<16_384, 1_073_741_824>,
        /// Which percentile of the kind's sizes is believed. A higher one
        /// ranks an unknown response further back.
        default("50") percentile: Count<1, 99>,
        /// Sizes that a kind must have seen before it says anything.
        default("8") min_observations: Count<1, 1_000_000>,
    }

    /// HEAD requests that ask a backend for sizes.
    closed struct HeadProbe {
        /// How long a request waits for the answer at most. The probe goes on,
        /// for the next who asks.
        default("10ms") budget: Timeout,
        /// How long a probe may take, with its connection.
        default("2s") timeout: Timeout,
        /// Probes at a time. They do not count among `max_requests`.
        default("16") max_concurrent: Count<1, 10_000>,
        /// How long a resource is left alone whose probe told nothing, and the
        /// route after five such answers in a row.
        default("60s") negative_ttl: Time<1000>,
        /// Memory for resources that are left alone.
        default("1MB") max_size: Bytes<4_096, 1_073_741_824>,
    }

    /// A store that proxies share, over the Redis protocol.
    closed struct SharedStore {
        /// Where the store is.
        required url: RedisUrl,
        /// What its keys begin with.
        default("'sprat:'") prefix: KeyPrefix,
        /// The same for all who share. Clients who know it can aim at one
        /// place of a table.
        default("sprat") phrase: Phrase,
        /// How long a request waits for an answer at most.
        default("2ms") budget: Timeout,
        /// Sizes that wait to be written; one over it is not shared.
        default("1024") max_queued: Limit,
        /// How long the store is left alone after five failures in a row.
        default("5s") pause: Timeout,
    }

    /// A directory that holds what the backends serve.
    closed struct DocumentRoot {
        /// The directory. The path that the backend is asked for is looked up
        /// below it.
        required path: FilePath,
        /// The file that stands for a directory.
        default("index.html") index: FileName,
        /// How long a request waits for a file's size at most.
        default("2ms") budget: Timeout,
        /// How long a file's size is believed, and that there is no such file.
        default("10s") ttl: Time<1000>,
        /// Memory for sizes that were looked up.
        default("1MB") max_size: Bytes<4_096, 1_073_741_824>,
    }

    /// A file that keeps learnt sizes over a restart.
    closed struct Snapshot {
        /// Where it is. Sprat writes a new one beside it, and renames that.
        required path: FilePath,
        /// How often it is written; it is written at shutdown as well.
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
