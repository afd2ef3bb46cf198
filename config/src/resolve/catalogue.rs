//! The catalogue of sizes.

use std::time::Duration;

use super::{bytes, each, time};
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{Catalogue, Snapshot};

/// Fields that tell variants apart, as an entry has bits for them.
const MAX_VARY: usize = sprat_scheduler::catalogue::MAX_VARY;

pub(super) fn resolve(raw: &raw::Catalogue, reporter: &mut Reporter<'_>) -> Option<Catalogue> {
    let vary = vary(raw, reporter);
    let snapshot = match raw.snapshot.get()?.value() {
        None => None,
        Some(snapshot) => Some(Snapshot {
            path: snapshot.path.get()?.0.clone(),
            interval: snapshot
                .interval
                .copied()
                .map(|time| -> Duration { time.0 })?,
        }),
    };
    Some(Catalogue {
        max_bytes: bytes(&raw.max_size)?,
        ttl: time(&raw.ttl)?,
        vary: vary?,
        snapshot,
    })
}

fn vary(raw: &raw::Catalogue, reporter: &mut Reporter<'_>) -> Option<Vec<String>> {
    if let Some(extra) = raw.vary.get()?.0.get(MAX_VARY) {
        let message = format!("there are more than {MAX_VARY} fields");
        let help = "remove this one and those after it".to_owned();
        reporter.error(&extra.span, message, Some(help));
        return None;
    }
    each(&raw.vary, |name| Some(name.0.clone()))
}
