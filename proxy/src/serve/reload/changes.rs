//! What a reload has changed, for the log: a line for each listener that was opened
//! or closed, and one for the rest.

use std::collections::HashMap;

use sprat_config::Config;

use crate::setup::assembly::Assembly;

/// Names in the log of each kind of change.
const MAX_NAMES: usize = 5;

/// Tells the log what is different now.
pub(super) fn tell(before: &Assembly, after: &Assembly) {
    let is_in = |other: &Assembly, id| other.listeners.iter().any(|own| own.id == id);
    let opened = after.listeners.iter().filter(|own| !is_in(before, own.id));
    for opened in opened {
        let (name, address) = (&opened.config.name, opened.config.address);
        tracing::info!(%address, listener = name, "listening, since the reload");
    }
    let closed = before.listeners.iter().filter(|own| !is_in(after, own.id));
    for closed in closed {
        let (name, address) = (&closed.config.name, closed.config.address);
        tracing::info!(%address, listener = name, "closed by the reload");
    }
    let changes = between(&before.config, &after.config);
    match changes.is_empty() {
        true => tracing::info!("the reload changes nothing"),
        false => tracing::info!("the reload changes {}", changes.join("; ")),
    }
}

/// Names the parts that are different, and those of their members that are named.
fn between(before: &Config, after: &Config) -> Vec<String> {
    let mut changes = Vec::new();
    let listeners =
        (before.listeners.iter().map(|own| (own.name.as_str(), own))).collect::<HashMap<_, _>>();
    let after_listeners = after.listeners.iter().map(|own| (own.name.as_str(), own));
    changes.extend(named("listeners", listeners, after_listeners));
    let clusters =
        (before.clusters.iter().map(|own| (own.name.as_str(), own))).collect::<HashMap<_, _>>();
    let after_clusters = after.clusters.iter().map(|own| (own.name.as_str(), own));
    changes.extend(named("clusters", clusters, after_clusters));
    // As the file has them: in themselves they hold their clusters.
    if before.shown.json()["routes"] != after.shown.json()["routes"] {
        let (old, new) = (before.routes.len(), after.routes.len());
        changes.push(match old == new {
            true => "routes".to_owned(),
            false => format!("routes ({old} before, {new} now)"),
        });
    }
    let parts = [
        ("uplink", before.uplink != after.uplink),
        ("classes", before.classes != after.classes),
        ("admission", before.admission != after.admission),
        ("acme", before.acme != after.acme),
        ("access_log", before.access_log != after.access_log),
        ("catalogue", before.catalogue != after.catalogue),
        ("buffer", before.buffer != after.buffer),
        ("runtime", before.runtime != after.runtime),
    ];
    let changed = parts.into_iter().filter(|(_, is_changed)| *is_changed);
    changes.extend(changed.map(|(name, _)| name.to_owned()));
    changes
}

/// Says which of a kind are new, gone and changed; none if all are the same.
fn named<'a, T: PartialEq + 'a>(
    kind: &str,
    mut before: HashMap<&'a str, &'a T>,
    after: impl Iterator<Item = (&'a str, &'a T)>,
) -> Option<String> {
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    for (name, item) in after {
        match before.remove(name) {
            None => new.push(name),
            Some(old) if old != item => changed.push(name),
            Some(_) => {}
        }
    }
    let mut gone: Vec<_> = before.into_keys().collect();
    gone.sort_unstable();
    let parts = [("new", new), ("gone", gone), ("changed", changed)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<_> = parts.map(|(what, names)| listed(what, &names)).collect();
    (!parts.is_empty()).then(|| format!("{kind} ({})", parts.join(", ")))
}

fn listed(what: &str, names: &[&str]) -> String {
    let shown = names.len().min(MAX_NAMES);
    let shown_names = names[..shown].join(" ");
    match names.len() - shown {
        0 => format!("{what}: {shown_names}"),
        more => format!("{what}: {shown_names} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(clusters: &[(&str, u16)], more: &str) -> Config {
        let each = clusters
            .iter()
            .map(|(name, port)| format!("  {name}: {{endpoints: ['127.0.0.1:{port}']}}\n"));
        let text = format!(
            "version: 1\nlisteners: [{{address: '127.0.0.1:8080'}}]\nclusters:\n{}\
             routes: [{{cluster: {}}}]\n{more}",
            each.collect::<String>(),
            clusters[0].0
        );
        sprat_config::parse(&text, "test.yaml", &|_| None)
            .unwrap()
            .config
    }

    #[test]
    fn a_reload_names_what_is_different() {
        let before = config(&[("a", 1), ("b", 2), ("c", 3)], "");
        assert!(between(&before, &before.clone()).is_empty());
        let after = config(&[("a", 1), ("c", 4), ("d", 5)], "uplink: {rate: 1mbit}\n");
        let changes = "clusters (new: d, gone: b, changed: c); uplink";
        assert_eq!(between(&before, &after).join("; "), changes);
    }

    #[test]
    fn many_names_are_cut_short() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(listed("new", &names), "new: a b c d e and 2 more");
    }
}
