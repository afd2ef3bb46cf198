//! Resolves the catalogue of sizes.

use std::ops::Range;

use super::cluster_names::dangling;
use super::values::{bytes, count, each, maybe, time};
use crate::containers::{List, Or};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::names::FieldName;
use crate::raw;
use crate::resolved::{
    Catalogue, DocumentRoot, EstimatorConfig, HeadProbe, Manifest, ManifestFormat, SharedStore,
    Snapshot, Span,
};
use crate::words::Off;

/// The most fields that tell variants apart: an entry of the catalogue has as many bits.
const MAX_VARY: usize = sprat_scheduler::catalogue::MAX_VARY;

pub(super) fn resolve(
    raw: &raw::Catalogue,
    file: &raw::File,
    reporter: &mut Reporter<'_>,
) -> Option<Catalogue> {
    let vary = vary(&raw.vary, reporter);
    let manifests = manifests(raw, file, reporter);
    let snapshot = maybe(raw.snapshot.get()?.value(), |snapshot| {
        Some(Snapshot {
            path: snapshot.path.get()?.0.clone(),
            span: Span(snapshot.path.span.clone()),
            interval: snapshot.interval.copied()?.0,
        })
    })?;
    let shared = maybe(raw.shared.get()?.value(), |store| {
        Some(SharedStore {
            url: store.url.get()?.0.clone(),
            span: Span(store.url.span.clone()),
            prefix: store.prefix.get()?.0.clone(),
            phrase: store.phrase.get()?.0.clone(),
            budget: time(&store.budget)?,
            max_queued: count(&store.max_queued)?,
            pause: time(&store.pause)?,
        })
    })?;
    let estimator = estimator(&raw.estimator)?;
    Some(Catalogue {
        max_bytes: bytes(&raw.max_size)?,
        ttl: time(&raw.ttl)?,
        vary: vary?,
        snapshot,
        manifests: manifests?,
        shared,
        estimator,
    })
}

fn manifests(
    raw: &raw::Catalogue,
    file: &raw::File,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Manifest>> {
    let known: Vec<(&str, &Range<usize>)> = file
        .clusters
        .get()
        .into_iter()
        .flat_map(|named| &named.0)
        .filter_map(|(name, _)| Some((name.get()?.as_str(), &name.span)))
        .collect();
    let mut out = Some(Vec::new());
    for field in &raw.manifests.get()?.0 {
        let resolved = field.get().and_then(|raw| manifest(raw, &known, reporter));
        match (resolved, &mut out) {
            (Some(manifest), Some(list)) => list.push(manifest),
            _ => out = None,
        }
    }
    out
}

fn manifest(
    raw: &raw::Manifest,
    clusters: &[(&str, &Range<usize>)],
    reporter: &mut Reporter<'_>,
) -> Option<Manifest> {
    let path = raw.path.get()?.0.clone();
    let format = match raw.format.get()? {
        Or::Value(format) => *format,
        Or::Word(_) if path.extension().is_some_and(|extension| extension == "csv") => {
            ManifestFormat::Csv
        }
        Or::Word(_) => ManifestFormat::JsonLines,
    };
    let cluster = raw.cluster.optional()?.map(|name| name.0.clone());
    if let Some(name) = &cluster
        && !clusters.iter().any(|(known, _)| known == name)
    {
        dangling(name, &raw.cluster.span, clusters, reporter);
        return None;
    }
    Some(Manifest {
        path,
        span: Span(raw.path.span.clone()),
        format,
        cluster,
        max_bytes: raw.max_size.copied()?.0,
        reload_interval: raw.reload_interval.copied()?.0,
    })
}

/// Resolves a route's probes by HEAD requests.
pub(super) fn head_probe(raw: &raw::HeadProbe) -> Option<HeadProbe> {
    Some(HeadProbe {
        budget: time(&raw.budget)?,
        timeout: time(&raw.timeout)?,
        max_concurrent: count(&raw.max_concurrent)?,
        negative_ttl: raw.negative_ttl.copied()?.0,
        max_bytes: bytes(&raw.max_size)?,
    })
}

/// Resolves the document root of a route.
pub(super) fn document_root(raw: &raw::DocumentRoot) -> Option<DocumentRoot> {
    Some(DocumentRoot {
        path: raw.path.get()?.0.clone(),
        span: Span(raw.path.span.clone()),
        index: raw.index.get()?.0.clone(),
        budget: time(&raw.budget)?,
        ttl: raw.ttl.copied()?.0,
        max_bytes: bytes(&raw.max_size)?,
    })
}

/// Resolves estimates by kind; `Some(None)` if they are off.
pub(super) fn estimator(raw: &Field<Or<Off, raw::Estimator>>) -> Option<Option<EstimatorConfig>> {
    let Some(estimator) = raw.get()?.value() else {
        return Some(None);
    };
    Some(Some(EstimatorConfig {
        max_bytes: bytes(&estimator.max_size)?,
        quantile_per_mille: u32::try_from(10 * count(&estimator.percentile)?).ok()?,
        observations_min: u32::try_from(count(&estimator.min_observations)?).ok()?,
    }))
}

/// Resolves the names of the fields that tell variants of a resource apart.
pub(super) fn vary(
    raw: &Field<List<FieldName, 0>>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<String>> {
    if let Some(extra) = raw.get()?.0.get(MAX_VARY) {
        let message = format!("there are more than {MAX_VARY} fields");
        let help = "remove this one and those after it".to_owned();
        reporter.error(&extra.span, message, Some(help));
        return None;
    }
    each(raw, |name| Some(name.0.clone()))
}
