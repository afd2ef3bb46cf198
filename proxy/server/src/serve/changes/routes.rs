//! The differences between routes: they have no names, and their order counts.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;
use sprat_config::Config;

use super::shown::{compact, details, of_key};
use super::{Change, Kind, Part};

/// The keys that say where a route leads, of which it has one.
const TARGETS: [&str; 4] = [
    "cluster",
    "weighted_clusters",
    "redirect",
    "direct_response",
];

/// Compares routes as the files have them: the resolved ones hold their clusters.
pub(super) fn changes(own: &Config, next: &Config) -> Option<Part> {
    let (before, after) = (list(own), list(next));
    if before == after {
        return None;
    }
    let mut unseen = places(before, Value::to_string);
    let mut kept = Vec::new();
    let mut fresh = Vec::new();
    for (at, route) in after.iter().enumerate() {
        match unseen
            .get_mut(&route.to_string())
            .and_then(VecDeque::pop_front)
        {
            Some(old) => kept.push(old),
            None => fresh.push((at, route)),
        }
    }
    let mut left: Vec<_> = unseen.into_values().flatten().collect();
    left.sort_unstable();
    let left: Vec<_> = left.into_iter().map(|at| &before[at]).collect();
    let mut same_match = places(left.iter().copied(), |route| route["match"].to_string());
    let mut gone = vec![true; left.len()];
    let mut changes = Vec::new();
    for (_, route) in fresh {
        let key = route["match"].to_string();
        let change = match same_match.get_mut(&key).and_then(VecDeque::pop_front) {
            None => Change::new(Kind::Added, &label(route)),
            Some(old) => {
                gone[old] = false;
                Change::new(Kind::Changed, &label(route)).with(details(left[old], route))
            }
        };
        changes.push(change);
    }
    let removed = left.iter().zip(gone).filter(|(_, is_gone)| *is_gone);
    changes.extend(removed.map(|(route, _)| Change::new(Kind::Removed, &label(route))));
    if !kept.is_sorted() {
        changes.push(Change::new(Kind::Moved, "their order"));
    }
    Some(Part {
        key: "routes",
        changes,
        lengths: Some((before.len(), after.len())),
    })
}

fn list(config: &Config) -> &[Value] {
    of_key("routes", config)
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// Returns the places of routes by their keys, in order.
fn places<'r>(
    routes: impl IntoIterator<Item = &'r Value>,
    key: impl Fn(&Value) -> String,
) -> HashMap<String, VecDeque<usize>> {
    let mut places: HashMap<_, VecDeque<_>> = HashMap::new();
    for (at, route) in routes.into_iter().enumerate() {
        places.entry(key(route)).or_default().push_back(at);
    }
    places
}

/// Describes a route by what it matches, and where it leads.
fn label(route: &Value) -> String {
    let matched = route["match"].as_object().into_iter().flatten();
    let matched: Vec<_> = matched
        .map(|(key, value)| format!("{key} {}", compact(value)))
        .collect();
    let matched = match matched.is_empty() {
        true => "all requests".to_owned(),
        false => matched.join(", "),
    };
    let target = TARGETS.into_iter().find(|key| !route[*key].is_null());
    match target {
        Some("cluster") => format!("{matched} -> {}", compact(&route["cluster"])),
        Some(other) => format!("{matched} -> {other}"),
        None => matched,
    }
}
