//! What all workers know of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use anyhow::Context as _;
use bytes::Bytes;
use sprat_config::resolved::{Admission, Class, Cluster};

use super::{Shared, SharedStation, take_one};
use crate::tls::ClusterTls;

/// What all workers know of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct SharedCluster {
    /// One for each endpoint.
    pub(crate) endpoints: Vec<Arc<Shared>>,
    /// Who is served, who waits.
    pub(crate) station: Arc<SharedStation>,
    /// How many connections there are to all endpoints.
    pub(crate) breaker: Arc<Breaker>,
    pub(super) overload_page: Option<Bytes>,
    /// None for plain text.
    pub(crate) tls: Option<Arc<ClusterTls>>,
}

/// Bounds the connections to all endpoints of a cluster.
#[derive(Debug)]
pub(crate) struct Breaker {
    max_connections: usize,
    connections: AtomicUsize,
    /// Requests that wait for an idle connection to be closed, to any endpoint.
    wanted: AtomicUsize,
}

impl Breaker {
    fn new(max_connections: usize) -> Self {
        Self {
            max_connections,
            connections: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    /// Counts one more connection; false if there may be none.
    pub(super) fn take(&self) -> bool {
        take_one(&self.connections, self.max_connections)
    }

    /// One is closed.
    pub(super) fn give_back(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// Whether as many are open as may be.
    pub(crate) fn is_open(&self) -> bool {
        self.connections.load(Relaxed) >= self.max_connections
    }

    /// Whether somebody waits for one to be closed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Requests that wait for one.
    pub(super) fn wanted(&self) -> &AtomicUsize {
        &self.wanted
    }
}

/// Bytes of a page for browsers at most.
const PAGE_MAX_BYTES: u64 = 1 << 20;

impl SharedCluster {
    /// A cluster where nothing has happened yet.
    ///
    /// # Errors
    ///
    /// The page for browsers cannot be read, or a certificate.
    pub(crate) fn new(
        cluster: &Cluster,
        classes: &[Class],
        admission: &Admission,
        epoch: Instant,
    ) -> anyhow::Result<Self> {
        let overload_page = match &cluster.overload_page {
            None => None,
            Some(path) => {
                let page = read_page(path).with_context(|| {
                    let (name, path) = (&cluster.name, path.display());
                    format!("cannot read {path}, the overload_page of the cluster `{name}`")
                })?;
                Some(page)
            }
        };
        Ok(Self {
            endpoints: cluster.endpoints.iter().map(|_| Arc::default()).collect(),
            station: SharedStation::new(cluster, classes, admission, epoch),
            breaker: Arc::new(Breaker::new(cluster.resilience.max_connections)),
            overload_page,
            tls: ClusterTls::of(cluster)?,
        })
    }
}

fn read_page(path: &std::path::Path) -> anyhow::Result<Bytes> {
    let bytes = std::fs::metadata(path)?.len();
    anyhow::ensure!(
        bytes <= PAGE_MAX_BYTES,
        "it has {bytes} bytes: 1 MB is the most"
    );
    Ok(std::fs::read(path)?.into())
}
