//! What all workers know of a cluster.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http::HeaderValue;
use sprat_config::resolved::{Cluster, Config, EndpointAddress};
use sprat_scheduler::station::StationConfig;

use super::breaker::Breaker;
use super::{Shared, SharedStation, station_config};
use crate::tls::ClusterTls;

/// What all workers know of a cluster.
#[derive(Debug)]
pub(crate) struct SharedCluster {
    /// Its configuration.
    pub(crate) config: Arc<Cluster>,
    /// In the order of the configuration.
    pub(crate) endpoints: Vec<SharedEndpoint>,
    /// Who is served, who waits.
    pub(crate) station: Arc<SharedStation>,
    /// What the station goes by.
    decides: StationConfig,
    /// How many connections there are to all endpoints.
    pub(crate) breaker: Arc<Breaker>,
    pub(super) overload_page: Option<Bytes>,
    /// None for plain text.
    pub(crate) tls: Option<Arc<ClusterTls>>,
}

/// What all workers know of an endpoint.
#[derive(Debug)]
pub(crate) struct SharedEndpoint {
    /// What goes on there.
    pub(crate) counts: Arc<Shared>,
    /// The `Host` for a request that came without one.
    pub(super) authority: HeaderValue,
}

/// Bytes of a page for browsers at most.
const PAGE_MAX_BYTES: u64 = 1 << 20;

impl SharedCluster {
    /// A cluster of this configuration; what `before` has of it goes on. Its
    /// station does if it would decide the same.
    ///
    /// # Errors
    ///
    /// The page for browsers cannot be read, or a certificate, or an
    /// endpoint's address stands in no header field.
    pub(crate) fn new(
        cluster: &Arc<Cluster>,
        config: &Config,
        before: Option<&Self>,
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
        let endpoints = cluster.endpoints.iter().map(|endpoint| {
            let known = before.iter().flat_map(|before| before.with_addresses());
            let mut same = known.filter(|(address, _)| **address == endpoint.address);
            let counts = same.next().map(|(_, counts)| Arc::clone(counts));
            anyhow::Ok(SharedEndpoint {
                counts: counts.unwrap_or_default(),
                authority: HeaderValue::try_from(endpoint.address.to_string())?,
            })
        });
        let endpoints = endpoints.collect::<Result<_, _>>()?;
        let (classes, admission) = (&config.classes.list, &config.admission);
        let decides = station_config(cluster, classes, admission);
        let station = match before {
            Some(before) if before.decides == decides && before.judges_as(cluster) => {
                Arc::clone(&before.station)
            }
            _ => {
                let before = before.map(|before| &*before.station);
                SharedStation::new(cluster, classes, admission, before)
            }
        };
        let tls = match before {
            Some(before) if before.config.tls == cluster.tls => before.tls.clone(),
            _ => ClusterTls::of(cluster)?,
        };
        Ok(Self {
            config: Arc::clone(cluster),
            endpoints,
            station,
            decides,
            breaker: before.map_or_else(Arc::default, |before| Arc::clone(&before.breaker)),
            overload_page,
            tls,
        })
    }

    fn with_addresses(&self) -> impl Iterator<Item = (&EndpointAddress, &Arc<Shared>)> {
        let addresses = self.config.endpoints.iter().map(|own| &own.address);
        addresses.zip(self.endpoints.iter().map(|own| &own.counts))
    }

    /// Whether endpoints are well under the same conditions as in another
    /// configuration.
    fn judges_as(&self, cluster: &Cluster) -> bool {
        let (own, other) = (&self.config.resilience, &cluster.resilience);
        own.outlier_detection == other.outlier_detection && own.thresholds() == other.thresholds()
    }

    /// Whether nothing is different in another that came of it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.config == other.config
            && Arc::ptr_eq(&self.station, &other.station)
            && self.overload_page == other.overload_page
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
