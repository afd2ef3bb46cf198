//! The catalogue: the sizes that are known before a response begins.

use std::path::PathBuf;
use std::time::Duration;

use super::Span;
pub use sprat_scheduler::catalogue::EstimatorConfig;

/// The sources that tell a response's size before the response begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// The most bytes of memory for learnt sizes; zero switches them off.
    pub max_bytes: usize,
    /// The time for which a learnt size is believed.
    pub ttl: Duration,
    /// The request's header fields that tell the variants of a resource apart, if the response's
    /// `Vary` names them; lower case, at most 4.
    pub vary: Vec<String>,
    /// The file that keeps learnt sizes over a restart; none if they are not kept.
    pub snapshot: Option<Snapshot>,
    /// The files that list sizes, in the order in which they are asked.
    pub manifests: Vec<Manifest>,
    /// The store that proxies share; none if they share none.
    pub shared: Option<SharedStore>,
    /// The estimates by kind; none if they are off.
    pub estimator: Option<EstimatorConfig>,
}

/// A file that lists sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The path of the file.
    pub path: PathBuf,
    /// The place of the path in the configuration.
    pub span: Span,
    /// The format of the file.
    pub format: ManifestFormat,
    /// The cluster whose responses the file lists; none for every cluster.
    pub cluster: Option<String>,
    /// The most bytes of the file.
    pub max_bytes: u64,
    /// The interval at which the file is checked for changes.
    pub reload_interval: Duration,
}

/// The format of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFormat {
    /// Comma-separated values, after a line that names the columns.
    Csv,
    /// One JSON object a line.
    JsonLines,
}

/// A store that proxies share, over the Redis protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedStore {
    /// The store's address: `redis://` or `unix://`.
    pub url: String,
    /// The place of the address in the configuration.
    pub span: Span,
    /// The prefix of the store's keys.
    pub prefix: String,
    /// The pass phrase, the same for all proxies that share the store.
    pub phrase: String,
    /// The longest wait of a request for the store's answer.
    pub budget: Duration,
    /// The most sizes that wait to be written.
    pub max_queued: usize,
    /// The time for which the store is left alone after failures.
    pub pause: Duration,
}

/// The probes of a route: HEAD requests that ask an endpoint for sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadProbe {
    /// The longest wait of a request for a probe's answer.
    pub budget: Duration,
    /// The longest time that a probe may take.
    pub timeout: Duration,
    /// The most probes at a time.
    pub max_concurrent: usize,
    /// The time for which a resource whose probe told nothing is left alone.
    pub negative_ttl: Duration,
    /// The most bytes of memory for the resources that are left alone.
    pub max_bytes: usize,
}

/// A directory that holds what the backends serve.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentRoot {
    /// The path of the directory.
    pub path: PathBuf,
    /// The place of the path in the configuration.
    pub span: Span,
    /// The name of the file that stands for a directory, such as `index.html`.
    pub index: String,
    /// The longest wait of a request for a file's size.
    pub budget: Duration,
    /// The time for which a file's size, or that there is no such file, is believed.
    pub ttl: Duration,
    /// The most bytes of memory for the sizes that were found.
    pub max_bytes: usize,
}

/// A file that keeps learnt sizes over a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The path of the file.
    pub path: PathBuf,
    /// The place of the path in the configuration.
    pub span: Span,
    /// The interval at which the file is written.
    pub interval: Duration,
}
