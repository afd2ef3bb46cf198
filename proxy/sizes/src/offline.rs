//! Look-ups in a catalogue without a server in operation.

use std::sync::Arc;

use http::HeaderMap;
use sprat_config::Config;
use sprat_scheduler::catalogue::KeyHasher;

use super::asked::Destination;
use super::catalogue::Catalogue;
use super::found::Found;
use super::layer_stats::LayerStats;
use super::patience::Patience;

/// Looks up the size of a response to GET in the snapshot, the manifests and the document root.
/// Nothing is asked over the network.
///
/// # Errors
///
/// A configuration that cannot be served.
pub fn look_up(
    config: &Config,
    to: &Destination<'_>,
    fields: &HeaderMap,
) -> anyhow::Result<Option<Found>> {
    let mut config = config.duplicate();
    config.catalogue.shared = None;
    let catalogue = Arc::new(Catalogue::new(&config, KeyHasher::new(0, 0))?);
    let asked = catalogue.asked(to, fields);
    let Some(asked) = asked else {
        return Ok(None);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let stats = LayerStats::default();
    let looking = catalogue.lookup_with_source(&asked, Patience::Budgets, &stats);
    Ok(runtime.block_on(looking))
}
