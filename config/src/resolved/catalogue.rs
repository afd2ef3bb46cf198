//! What is known of sizes before a response begins.

use std::path::PathBuf;
use std::time::Duration;

use super::Span;
pub use sprat_scheduler::catalogue::EstimatorConfig;

/// What is known of sizes before a response begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// Bytes of memory for learnt sizes at most; zero switches them off.
    pub max_bytes: usize,
    /// How long a learnt size is believed.
    pub ttl: Duration,
    /// Request header fields by which the variants of a resource are told
    /// apart, if the response's `Vary` names them; lower case, at most 4.
    pub vary: Vec<String>,
    /// Where learnt sizes are kept over a restart; none if they are not.
    pub snapshot: Option<Snapshot>,
    /// Files that list sizes, in the order in which they are asked.
    pub manifests: Vec<Manifest>,
    /// A store that proxies share; none if there is none.
    pub shared: Option<SharedStore>,
    /// Estimates by kind; none if switched off.
    pub estimator: Option<EstimatorConfig>,
}

/// A file that lists sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The path of the file.
    pub path: PathBuf,
    /// Where that is written in the configuration.
    pub span: Span,
    /// How it is written.
    pub format: ManifestFormat,
    /// The cluster whose responses it lists; none for every one.
    pub cluster: Option<String>,
    /// Bytes of the file at most.
    pub max_bytes: u64,
    /// How often to look whether it has changed.
    pub reload_interval: Duration,
}

/// How a manifest is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFormat {
    /// Comma-separated, with a line that names the columns.
    Csv,
    /// One JSON object a line.
    JsonLines,
}

/// A store that proxies share, over the Redis protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedStore {
    /// Where it is: `redis://` or `unix://`.
    pub url: String,
    /// Where that is written in the configuration.
    pub span: Span,
    /// What its keys begin with.
    pub prefix: String,
    /// The same for all who share.
    pub phrase: String,
    /// How long a request waits at most.
    pub budget: Duration,
    /// Sizes that wait to be written at most.
    pub max_queued: usize,
    /// How long it is left alone after failures.
    pub pause: Duration,
}

/// HEAD requests that ask an endpoint for sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadProbe {
    /// How long a request waits at most.
    pub budget: Duration,
    /// How long a probe may take.
    pub timeout: Duration,
    /// The most probes at a time.
    pub max_concurrent: usize,
    /// How long what told nothing is left alone.
    pub negative_ttl: Duration,
    /// Memory for what is left alone.
    pub max_bytes: usize,
}

/// A directory that holds what the backends serve.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentRoot {
    /// The path of the directory.
    pub path: PathBuf,
    /// Where that is written in the configuration.
    pub span: Span,
    /// The file that stands for a directory.
    pub index: String,
    /// How long a request waits at most.
    pub budget: Duration,
    /// How long what was found is believed.
    pub ttl: Duration,
    /// Memory for what was found.
    pub max_bytes: usize,
}

/// Where learnt sizes are kept over a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The path of the file.
    pub path: PathBuf,
    /// Where that is written in the configuration.
    pub span: Span,
    /// How often it is written.
    pub interval: Duration,
}
