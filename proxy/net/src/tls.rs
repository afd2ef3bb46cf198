//! TLS: the certificates that Sprat shows and those that it trusts, handshakes, and files that
//! change while Sprat runs.
//!
//! rustls does the protocol, with the algorithms of ring. Its default cipher
//! suites are those of Mozilla's "intermediate" with forward secrecy and AEAD.

mod certificates;
mod challenges;
mod cluster;
mod files;
mod listener;
mod metrics;
mod outcome;
mod pem;
mod protocols;
mod shown;
mod verifier;

use std::io;
use std::sync::Arc;

use sprat_config::resolved::Config;

use crate::background::Background;
use crate::problem::Problem;
pub use certificates::{PeerNames, check_issued};
pub use challenges::{ACME_TLS, Answers, ChallengeCertificate, Challenges, challenge_certificate};
pub use cluster::{ClusterTls, client_config};
use files::{Occasion, Reloadable};
pub use listener::ListenerTls;
pub use metrics::{TLS, TlsView};
pub use outcome::{HandshakeStats, Outcome, PlainHttp, Secured, TlsTerms};
pub use shown::EndpointStream;

/// Starts a thread that looks at the TLS files of these listeners and clusters, and reads them
/// again when they change. Returns `None` if there is neither a listener nor a cluster.
///
/// # Errors
///
/// The system can start no thread.
pub fn watch(
    listeners: &[Arc<ListenerTls>],
    clusters: &[Arc<ClusterTls>],
) -> io::Result<Option<Background>> {
    files::watch(all(listeners, clusters).collect())
}

/// Commits a reload to the TLS files as they are now: reads again those that have changed or could
/// not be used, and the authorities that this system trusts. What cannot be read stays as it was,
/// and is logged. An operator who has just put a certificate in its place need not wait for the
/// thread.
pub fn commit(listeners: &[Arc<ListenerTls>], clusters: &[Arc<ClusterTls>]) {
    all(listeners, clusters).for_each(|of| files::look(&*of, Occasion::Reload));
}

fn all(
    listeners: &[Arc<ListenerTls>],
    clusters: &[Arc<ClusterTls>],
) -> impl Iterator<Item = Arc<dyn Reloadable>> {
    let listeners = listeners.iter().map(|own| Arc::clone(own) as _);
    listeners.chain(clusters.iter().map(|own| Arc::clone(own) as _))
}

/// Returns the problems with a configuration's files for TLS.
pub fn inspect(config: &Config) -> Vec<Problem> {
    let listeners = config.listeners.iter().filter_map(|listener| {
        let made = ListenerTls::new(&listener.name, listener.tls.as_ref()?);
        Some(made.map_or_else(|problems| problems, |(_, warnings)| warnings))
    });
    let clusters = config.clusters.iter().filter_map(|cluster| {
        let made = ClusterTls::new(&cluster.name, cluster.tls.as_ref()?);
        Some(made.map_or_else(|problems| problems, |(_, warnings)| warnings))
    });
    listeners.chain(clusters).flatten().collect()
}
