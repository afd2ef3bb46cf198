//! The part of a cluster that all workers share.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use sprat_config::resolved::{Cluster, Config, FileAt};
use sprat_net::permit::Permits;
use sprat_net::problem::Problem;
use sprat_net::tls::ClusterTls;
use sprat_scheduler::station::StationConfig;

use super::breaker::Breaker;
use super::listed::{self, Listed, Listing};
use super::members::Source;
use super::sessions::Sessions;
use super::station::{SharedStation, station_config};
use crate::dns::Names;

/// A cluster as all workers know it.
#[derive(Debug)]
pub struct SharedCluster {
    /// The configuration of the cluster.
    pub config: Arc<Cluster>,
    /// The station, which decides which requests are served and which wait.
    pub station: Arc<SharedStation>,
    /// The configuration that the station decides by.
    decides: StationConfig,
    /// The count of connections to all endpoints.
    pub breaker: Arc<Breaker>,
    /// The permits for bytes that are read ahead of clients.
    pub read_ahead: Permits,
    /// The outcomes of reading the file with its endpoints, if it has one.
    pub listing: Arc<Listing>,
    pub(super) overload_page: Option<Bytes>,
    /// The TLS to endpoints; `None` for plain text.
    pub tls: Option<Arc<ClusterTls>>,
    /// The cluster's sessions; `None` if it keeps none.
    pub(super) sessions: Option<Sessions>,
}

/// The most bytes of a page for browsers.
const PAGE_MAX_BYTES: u64 = 1 << 20;

impl SharedCluster {
    /// Creates a cluster of this configuration, of which nothing was known before.
    ///
    /// # Errors
    ///
    /// The page for browsers, a certificate or a key cannot be read; or an endpoint's address
    /// cannot stand in a header field; or the file of endpoints is refused; or the thread that
    /// resolves names cannot be started.
    pub fn new(cluster: &Arc<Cluster>, config: &Config, names: &Names) -> anyhow::Result<Self> {
        Self::after(cluster, config, names, None)
    }

    /// Prepares the cluster of another configuration: this one, if it stays the same, or one in
    /// which its counts go on. Nothing changes for requests that this one serves.
    ///
    /// # Errors
    ///
    /// Fails as [`SharedCluster::new`] does.
    pub fn prepare(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        config: &Config,
        names: &Names,
    ) -> anyhow::Result<Arc<Self>> {
        let next = Self::after(cluster, config, names, Some(self))?;
        Ok(match self.is_same(&next) {
            true => Arc::clone(self),
            false => Arc::new(next),
        })
    }

    /// Makes a cluster of this configuration, in which the counts of `before` go on. Its
    /// station goes on, too, if it would decide the same.
    pub(super) fn after(
        cluster: &Arc<Cluster>,
        config: &Config,
        names: &Names,
        before: Option<&Self>,
    ) -> anyhow::Result<Self> {
        let overload_page = cluster.overload_page.as_ref();
        let overload_page = overload_page.map(|page| read_page(cluster, page));
        let overload_page = overload_page.transpose()?;
        let (classes, admission) = (&config.classes.list, &config.admission);
        let decides = station_config(cluster, classes, admission);
        let listing = before.map_or_else(Arc::default, |before| Arc::clone(&before.listing));
        let station = match before {
            Some(before) if before.decides == decides && before.finds_and_judges_as(cluster) => {
                if cluster.endpoints_file.is_some() {
                    listed::check(&before.station.source.as_listed().endpoints, cluster)?;
                }
                Arc::clone(&before.station)
            }
            _ => {
                let listed = before.filter(|before| before.has_file_of(cluster));
                let listed = listed.map(|before| before.station.source.as_listed());
                let listed = match &cluster.endpoints_file {
                    Some(file) => listing.first(file, cluster, listed)?,
                    None => Listed::default(),
                };
                let source = Source::new(cluster, names, config.runtime.workers.max(1), listed)?;
                let before = before.map(|before| &*before.station);
                SharedStation::new(source, cluster, classes, admission, before)
            }
        };
        let tls = match before {
            Some(before) if before.config.tls == cluster.tls => before.tls.clone(),
            _ => ClusterTls::of(cluster)?,
        };
        Ok(Self {
            config: Arc::clone(cluster),
            station,
            decides,
            breaker: before.map_or_else(Arc::default, |before| Arc::clone(&before.breaker)),
            read_ahead: before.map_or_else(Permits::default, |before| before.read_ahead.clone()),
            listing,
            overload_page,
            tls,
            sessions: Sessions::of(cluster)?,
        })
    }

    /// Returns whether another configuration finds endpoints in the same way, and judges them by
    /// the same conditions.
    fn finds_and_judges_as(&self, cluster: &Cluster) -> bool {
        let (own, other) = (&self.config.resilience, &cluster.resilience);
        self.config.dns == cluster.dns
            && self.has_file_of(cluster)
            && own.outlier_detection == other.outlier_detection
            && own.thresholds() == other.thresholds()
    }

    /// Returns whether another configuration has the same file of endpoints, or neither has any.
    fn has_file_of(&self, cluster: &Cluster) -> bool {
        let path = |of: &Cluster| of.endpoints_file.as_ref().map(|own| own.at.path.clone());
        path(&self.config) == path(cluster)
    }

    /// Returns whether the cluster rebuilt from a new configuration is the same.
    fn is_same(&self, other: &Self) -> bool {
        self.config == other.config
            && Arc::ptr_eq(&self.station, &other.station)
            && self.overload_page == other.overload_page
            && self.sessions == other.sessions
    }
}

/// Returns the problems with the pages, the keys and the endpoints' files of all clusters.
pub fn inspect(config: &Config) -> impl Iterator<Item = Problem> {
    let pages = config.clusters.iter().filter_map(|cluster| {
        let page = cluster.overload_page.as_ref()?;
        let error = read_page(cluster, page).err()?;
        let help = "put the page there, or leave `overload_page` out";
        Some(Problem::at(&page.span, format!("{error:#}")).help(help))
    });
    let keys = config.clusters.iter().filter_map(|cluster| {
        let file = cluster.stateful_session.as_ref()?.key_file.as_ref()?;
        let error = Sessions::of(cluster).err()?;
        let help = "write it with `openssl rand -hex 32`, or leave `key_file` out";
        Some(Problem::at(&file.span, format!("{error:#}")).help(help))
    });
    let files = config
        .clusters
        .iter()
        .filter_map(|cluster| listed::inspect(cluster));
    pages.chain(keys).chain(files)
}

fn read_page(cluster: &Cluster, page: &FileAt) -> anyhow::Result<Bytes> {
    let read = || {
        let bytes = std::fs::metadata(&page.path)?.len();
        anyhow::ensure!(
            bytes <= PAGE_MAX_BYTES,
            "it has {bytes} bytes: 1 MB is the most"
        );
        Ok(std::fs::read(&page.path)?.into())
    };
    read().with_context(|| {
        let (name, path) = (&cluster.name, page.path.display());
        format!("cannot read {path}, the overload_page of the cluster `{name}`")
    })
}
