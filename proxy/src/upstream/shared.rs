//! What all workers know of a cluster.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use bytes::Bytes;
use sprat_config::resolved::{Admission, Class, Cluster};

use crate::tls::ClusterTls;

use super::{Shared, SharedStation};

/// What all workers know of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct SharedCluster {
    /// One for each endpoint.
    pub(crate) endpoints: Vec<Arc<Shared>>,
    /// Who is served, who waits.
    pub(crate) station: Arc<SharedStation>,
    pub(super) overload_page: Option<Bytes>,
    /// None for plain text.
    pub(crate) tls: Option<Arc<ClusterTls>>,
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
