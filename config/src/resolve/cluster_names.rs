//! Names of clusters: the cluster that each stands for, and whether a route uses it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::decode::{Field, similar};
use crate::diagnostic::Reporter;
use crate::names::Name;
use crate::raw;
use crate::resolved::Cluster;
use crate::wording::listed;

/// The clusters that routes may name, and which of them a route has named.
pub(super) struct Known<'a> {
    /// The names of all clusters in the order of the file, with their places in it.
    names: Vec<(&'a str, &'a Range<usize>)>,
    places: HashMap<&'a str, usize>,
    /// The clusters without errors, by their names.
    clusters: HashMap<&'a str, &'a Arc<Cluster>>,
    used: Vec<bool>,
    /// Whether every name that routes have given so far is that of a cluster.
    all_named: bool,
}

impl<'a> Known<'a> {
    /// Returns the table of a file's clusters, none of which is named yet.
    pub(super) fn new(file: &'a raw::File, clusters: Option<&'a [Option<Arc<Cluster>>]>) -> Self {
        let named = file.clusters.get().into_iter().flat_map(|named| &named.0);
        let names: Vec<(&str, &Range<usize>)> = named
            .filter_map(|(name, _)| Some((name.get()?.as_str(), &name.span)))
            .collect();
        let right = clusters.into_iter().flatten().flatten();
        Self {
            places: names.iter().map(|(name, _)| *name).zip(0..).collect(),
            clusters: right.map(|own| (&*own.name, own)).collect(),
            used: vec![false; names.len()],
            all_named: true,
            names,
        }
    }

    /// Returns the cluster that a key names, and notes that it is used. None if the name is wrong,
    /// or if no cluster has it, which is reported.
    pub(super) fn cluster(
        &mut self,
        field: &Field<Name>,
        reporter: &mut Reporter<'_>,
    ) -> Option<Arc<Cluster>> {
        let Some(name) = field.get() else {
            self.all_named = false;
            return None;
        };
        let Some(&index) = self.places.get(&*name.0) else {
            self.all_named = false;
            // Without any cluster that was read there is nothing to point at.
            if !self.names.is_empty() {
                dangling(&name.0, &field.span, &self.names, reporter);
            }
            return None;
        };
        self.used[index] = true;
        self.clusters.get(&*name.0).copied().cloned()
    }

    /// Notes that a route could not be read: it may name any cluster.
    pub(super) fn note_unread(&mut self) {
        self.all_named = false;
    }

    /// Warns of clusters that no route leads to.
    pub(super) fn warn_unused(&self, reporter: &mut Reporter<'_>) {
        // A route that could not be read may be the one that uses it.
        if !self.all_named {
            return;
        }
        let names = self.names.iter().zip(&self.used);
        for ((name, span), _) in names.filter(|(_, used)| !**used) {
            let message = format!("no route leads to the cluster `{name}`");
            let help = format!("add a route with `cluster: {name}`, or remove it");
            reporter.warning(span, message, Some(help));
        }
    }
}

/// Reports a name that no cluster has; `known` are the clusters that exist.
pub(super) fn dangling(
    name: &str,
    span: &Range<usize>,
    known: &[(&str, &Range<usize>)],
    reporter: &mut Reporter<'_>,
) {
    // A suggestion is not worth comparing thousands of names.
    let names = || known.iter().take(100).map(|(name, _)| *name);
    let message = format!("there is no cluster `{name}`");
    let help = match similar(name, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the clusters are {}", listed(names().take(10))),
    };
    reporter.error(span, message, Some(help));
}
