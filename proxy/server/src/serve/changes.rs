//! The changes that a reload makes, decided once: for the reload itself, for its lines in
//! the log, and for `sprat diff`.

mod routes;
mod shown;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sprat_config::Config;
use sprat_config::resolved::{Class, Cluster};

use self::shown::{details, of_key};
use crate::setup::listener::kept;

/// The most names of each kind of change that a line of the log has.
const MAX_NAMES: usize = 5;

/// The differences between the configuration that is served by and the next one.
#[derive(Debug, Default, Serialize)]
pub struct Changes {
    /// The parts that are different, in the order of the reference.
    parts: Vec<Part>,
    /// The notes on what stays as it is until a restart.
    until_restart: Vec<String>,
}

/// A key of the configuration whose value is different.
#[derive(Debug, Serialize)]
struct Part {
    key: &'static str,
    changes: Vec<Change>,
    /// The lengths of a list before and now.
    #[serde(skip_serializing_if = "Option::is_none")]
    lengths: Option<(usize, usize)>,
}

/// A difference in one member of a part.
#[derive(Debug, Serialize)]
struct Change {
    kind: Kind,
    /// The name of what is different; empty for a part that has no names.
    name: String,
    /// The address that a listener stands on.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// The keys that are different, as the files have them.
    details: Vec<Detail>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Added,
    Removed,
    Changed,
    Moved,
}

/// A key whose value is different, with both values.
#[derive(Debug, Serialize)]
struct Detail {
    key: String,
    /// The value before; none, as in `after`, where the key is absent.
    before: Option<Value>,
    after: Option<Value>,
}

/// A member of a part that has a name.
struct NamedItem<'a, T> {
    name: &'a str,
    item: &'a T,
}

impl Change {
    fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            address: None,
            details: Vec::new(),
        }
    }

    fn with(self, details: Vec<Detail>) -> Self {
        Self { details, ..self }
    }
}

impl Changes {
    /// Makes the `next` configuration one that can follow `own` without a restart, and
    /// returns what will then be different.
    pub fn prepare(next: &mut Config, own: &Config) -> Self {
        let until_restart = keep_what_stays(next, own);
        let parts = [
            listeners(own, next),
            clusters(own, next),
            routes::changes(own, next),
            classes(own, next),
            whole(
                "class_rules",
                own.classes.rules == next.classes.rules,
                own,
                next,
            ),
            whole("uplink", own.uplink == next.uplink, own, next),
            whole("admission", own.admission == next.admission, own, next),
            whole("acme", own.acme == next.acme, own, next),
            whole("access_log", own.access_log == next.access_log, own, next),
            whole("tracing", own.tracing == next.tracing, own, next),
            whole("catalogue", own.catalogue == next.catalogue, own, next),
            whole("buffer", own.buffer == next.buffer, own, next),
            whole("runtime", own.runtime == next.runtime, own, next),
            // Routes have them; their own keys do not say so.
            whole("maintenance", is_same("maintenance", own, next), own, next),
            whole("compressor", is_same("compressor", own, next), own, next),
        ];
        Self {
            parts: parts.into_iter().flatten().collect(),
            until_restart,
        }
    }

    /// Returns the notes on what stays as it is until a restart.
    pub(crate) fn until_restart(&self) -> &[String] {
        &self.until_restart
    }

    /// Returns whether nothing is different, nor would be after a restart.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.until_restart.is_empty()
    }

    /// Writes to the log what is different now.
    pub(super) fn tell(&self) {
        let of_listeners = self.parts.iter().filter(|part| part.key == "listeners");
        for change in of_listeners.flat_map(|part| &part.changes) {
            let address = change.address.as_deref().unwrap_or_default();
            let name = change.name.as_str();
            match change.kind {
                Kind::Added => {
                    tracing::info!(%address, listener = name, "listening, since the reload");
                }
                Kind::Removed => tracing::info!(%address, listener = name, "closed by the reload"),
                Kind::Changed | Kind::Moved => {}
            }
        }
        match self.parts.is_empty() {
            true => tracing::info!("the reload changes nothing"),
            false => tracing::info!("the reload changes {}", self.in_a_line()),
        }
    }

    /// Names the parts that are different, and those of their members that have names.
    fn in_a_line(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(Part::in_a_line).collect();
        parts.join("; ")
    }

    /// Describes all differences for people, one in a line.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            part.describe(&mut out);
        }
        if !self.until_restart.is_empty() {
            out.push_str("until a restart\n");
            for note in &self.until_restart {
                // A string takes all that is written.
                let _ = writeln!(out, "  ! {note}");
            }
        }
        out
    }
}

impl Part {
    fn in_a_line(&self) -> String {
        let key = self.key;
        if let Some((before, now)) = self.lengths {
            return match before == now {
                true => key.to_owned(),
                false => format!("{key} ({before} before, {now} now)"),
            };
        }
        let kinds = [
            ("new", Kind::Added),
            ("gone", Kind::Removed),
            ("changed", Kind::Changed),
        ];
        let named = kinds.into_iter().filter_map(|(what, kind)| {
            let changes = self.changes.iter().filter(|own| own.kind == kind);
            let names: Vec<_> = changes.map(|own| own.name.as_str()).collect();
            let is_named = names.iter().any(|name| !name.is_empty());
            is_named.then(|| listed(what, &names))
        });
        let named: Vec<_> = named.collect();
        match named.is_empty() {
            true => key.to_owned(),
            false => format!("{key} ({})", named.join(", ")),
        }
    }

    fn describe(&self, out: &mut String) {
        out.push_str(self.key);
        if let Some((before, now)) = self.lengths {
            let _ = write!(out, " ({before} before, {now} now)");
        }
        out.push('\n');
        for change in &self.changes {
            let sign = match change.kind {
                Kind::Added => '+',
                Kind::Removed => '-',
                Kind::Changed | Kind::Moved => '~',
            };
            let address = change.address.iter().filter(|own| **own != change.name);
            let address: String = address.map(|own| format!(" {own}")).collect();
            if !change.name.is_empty() {
                let _ = writeln!(out, "  {sign} {}{address}", change.name);
            }
            let indent = if change.name.is_empty() { 2 } else { 6 };
            for detail in &change.details {
                let _ = writeln!(out, "{:indent$}{}", "", detail.text());
            }
            if change.details.is_empty() && change.kind == Kind::Changed {
                let _ = writeln!(out, "{:indent$}by a variable's value", "");
            }
        }
    }
}

fn listed(what: &str, names: &[&str]) -> String {
    let shown = names.len().min(MAX_NAMES);
    let shown_names = names[..shown].join(" ");
    match names.len() - shown {
        0 => format!("{what}: {shown_names}"),
        more => format!("{what}: {shown_names} and {more} more"),
    }
}

fn listeners(own: &Config, next: &Config) -> Option<Part> {
    let before: Vec<_> = own.listeners.iter().collect();
    let mut gone: HashSet<usize> = (0..before.len()).collect();
    let mut changes = Vec::new();
    let pairs = next.listeners.iter().zip(kept(&before, &next.listeners));
    for (at, (listener, kept)) in pairs.enumerate() {
        let change = match kept {
            None => Change::new(Kind::Added, &listener.name),
            Some(old) => {
                gone.remove(&old);
                if *before[old] == *listener {
                    continue;
                }
                let old = &of_key("listeners", own)[old];
                let details = details(old, &of_key("listeners", next)[at]);
                Change::new(Kind::Changed, &listener.name).with(details)
            }
        };
        changes.push(Change {
            address: Some(listener.address.to_string()),
            ..change
        });
    }
    let old = own.listeners.iter().enumerate();
    let closed = old.filter(|(at, _)| gone.contains(at));
    changes.extend(closed.map(|(_, listener)| Change {
        address: Some(listener.address.to_string()),
        ..Change::new(Kind::Removed, &listener.name)
    }));
    part("listeners", changes)
}

fn clusters(own: &Config, next: &Config) -> Option<Part> {
    fn members(config: &Config) -> Vec<NamedItem<'_, Cluster>> {
        let list = config.clusters.iter();
        list.map(|own| NamedItem {
            name: own.name.as_str(),
            item: &**own,
        })
        .collect()
    }
    named("clusters", members(own), members(next), own, next)
}

/// Compares the classes that the files name: a class that is gone keeps its place in a server.
fn classes(own: &Config, next: &Config) -> Option<Part> {
    fn members(config: &Config) -> Vec<NamedItem<'_, Class>> {
        let names = of_key("classes", config).as_object();
        let is_named = |name: &str| names.is_some_and(|names| names.contains_key(name));
        let list = config.classes.list.iter();
        let list = list.filter(|class| is_named(&class.name));
        list.map(|class| NamedItem {
            name: class.name.as_str(),
            item: class,
        })
        .collect()
    }
    named("classes", members(own), members(next), own, next)
}

/// Compares the members of a part that have names.
fn named<T: PartialEq>(
    key: &'static str,
    before: Vec<NamedItem<'_, T>>,
    after: Vec<NamedItem<'_, T>>,
    own: &Config,
    next: &Config,
) -> Option<Part> {
    let order: Vec<_> = before.iter().map(|own| own.name).collect();
    let pairs = before.into_iter().map(|own| (own.name, own.item));
    let mut before: HashMap<_, _> = pairs.collect();
    let mut changes = Vec::new();
    for NamedItem { name, item } in after {
        match before.remove(name) {
            None => changes.push(Change::new(Kind::Added, name)),
            Some(old) if old != item => {
                let details = details(&of_key(key, own)[name], &of_key(key, next)[name]);
                changes.push(Change::new(Kind::Changed, name).with(details));
            }
            Some(_) => {}
        }
    }
    let gone = order.into_iter().filter(|name| before.contains_key(name));
    changes.extend(gone.map(|name| Change::new(Kind::Removed, name)));
    part(key, changes)
}

fn part(key: &'static str, changes: Vec<Change>) -> Option<Part> {
    (!changes.is_empty()).then_some(Part {
        key,
        changes,
        lengths: None,
    })
}

/// Compares a part without members that have names.
fn whole(key: &'static str, is_same: bool, own: &Config, next: &Config) -> Option<Part> {
    let details = || details(of_key(key, own), of_key(key, next));
    let changes = (!is_same).then(|| Change::new(Kind::Changed, "").with(details()));
    part(key, changes.into_iter().collect())
}

fn is_same(key: &str, own: &Config, next: &Config) -> bool {
    of_key(key, own) == of_key(key, next)
}

/// Puts the values that only a restart can change back to those in use; returns a note on each.
fn keep_what_stays(config: &mut Config, own: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    let (workers, wanted) = (own.runtime.workers, config.runtime.workers);
    if workers != wanted {
        notes.push(format!("`runtime.workers` stays {workers}, not {wanted}"));
        config.runtime.workers = workers;
        config.shown.set("runtime", "workers", workers.into());
    }
    if own.admin != config.admin {
        notes.push("`admin` stays as it is".to_owned());
        config.admin.clone_from(&own.admin);
        config.shown.keep("admin", &own.shown);
    }
    if own.overload_manager != config.overload_manager {
        notes.push("`overload_manager` stays as it is".to_owned());
        config.overload_manager.clone_from(&own.overload_manager);
        config.shown.keep("overload_manager", &own.shown);
    }
    config.classes.keep_numbers(&own.classes);
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "routes: [{match: {path: /a}, cluster: a}, {cluster: a}]\n";

    fn config(clusters: &[(&str, u16)], more: &str) -> Config {
        let each = clusters
            .iter()
            .map(|(name, port)| format!("  {name}: {{endpoints: ['127.0.0.1:{port}']}}\n"));
        let routes = if more.contains("routes:") { "" } else { ROUTES };
        let listeners = "listeners: [{address: '127.0.0.1:8080'}]\n";
        let listeners = if more.contains("listeners:") {
            ""
        } else {
            listeners
        };
        let text = format!(
            "version: 1\n{listeners}clusters:\n{}{routes}{more}",
            each.collect::<String>(),
        );
        sprat_config::parse(&text, "test.yaml", &|_| None)
            .unwrap()
            .config
    }

    fn between(before: &Config, after: &Config) -> Changes {
        Changes::prepare(&mut after.clone(), before)
    }

    #[test]
    fn a_reload_names_what_is_different() {
        let before = config(&[("a", 1), ("b", 2), ("c", 3)], "");
        assert!(between(&before, &before.clone()).is_empty());
        let after = config(&[("a", 1), ("c", 4), ("d", 5)], "uplink: {rate: 1mbit}\n");
        let changes = between(&before, &after);
        let line = "clusters (new: d, gone: b, changed: c); uplink";
        assert_eq!(changes.in_a_line(), line);
        assert_eq!(
            changes.text(),
            "clusters\n  ~ c\n      endpoints: +127.0.0.1:4 -127.0.0.1:3\n  + d\n  - b\n\
             uplink\n  rate: (default) -> 1mbit\n"
        );
    }

    #[test]
    fn many_names_are_cut_short() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(listed("new", &names), "new: a b c d e and 2 more");
    }

    #[test]
    fn listeners_go_by_their_sockets() {
        let listeners = |list: &str| config(&[("a", 1)], &format!("listeners: [{list}]\n"));
        let before = listeners("{name: x, address: '127.0.0.1:1'}, {address: '127.0.0.1:2'}");
        let after = listeners(
            "{address: '127.0.0.1:3'}, {name: y, address: '127.0.0.1:1', max_connections: 5}",
        );
        let changes = between(&before, &after);
        assert_eq!(
            changes.text(),
            "listeners\n  + 127.0.0.1:3\n  ~ y 127.0.0.1:1\n      \
             max_connections: (default) -> 5\n      name: x -> y\n  - 127.0.0.1:2\n"
        );
        let line = "listeners (new: 127.0.0.1:3, gone: 127.0.0.1:2, changed: y)";
        assert_eq!(changes.in_a_line(), line);
    }

    #[test]
    fn routes_are_told_by_what_they_match() {
        let routes = |list: &str| config(&[("a", 1)], &format!("routes: [{list}]\n"));
        let before = routes(
            "{match: {path: /a}, cluster: a}, {match: {path: /b}, cluster: a}, {cluster: a}",
        );
        let after = routes(
            "{match: {path: /c}, cluster: a}, {match: {path: /b}, cluster: a, timeout: 5s}, {cluster: a}",
        );
        let changes = between(&before, &after);
        assert_eq!(
            changes.text(),
            "routes (3 before, 3 now)\n  + path /c -> a\n  ~ path /b -> a\n      \
             timeout: (default) -> 5s\n  - path /a -> a\n"
        );
        assert_eq!(changes.in_a_line(), "routes");
        let turned = routes(
            "{match: {path: /b}, cluster: a}, {match: {path: /a}, cluster: a}, {cluster: a}",
        );
        assert_eq!(
            between(&before, &turned).text(),
            "routes (3 before, 3 now)\n  ~ their order\n"
        );
    }

    #[test]
    fn a_link_in_a_body_is_compared() {
        let routes = |page: &str| {
            let body = format!("See https://a.example/{page} or write to ops@a.example");
            let answer = format!("{{status: 503, body: '{body}'}}");
            config(
                &[("a", 1)],
                &format!("routes: [{{direct_response: {answer}}}]\n"),
            )
        };
        let changes = between(&routes("old"), &routes("new"));
        assert_eq!(changes.in_a_line(), "routes");
    }

    #[test]
    fn classes_and_what_waits_for_a_restart_are_told() {
        let before = config(
            &[("a", 1)],
            "classes: {gold: {level: 1}, iron: {level: 2}}\n",
        );
        let after = config(
            &[("a", 1)],
            "classes: {gold: {level: 2}}\nadmin: off\nmaintenance: {}\n\
             class_rules: [{match: {path: /a}, class: gold}]\n",
        );
        let changes = between(&before, &after);
        assert_eq!(
            changes.text(),
            "classes\n  ~ gold\n      level: 1 -> 2\n  - iron\n\
             class_rules\n  (default) -> [{\"match\":{\"path\":\"/a\"},\"class\":\"gold\"}]\n\
             maintenance\n  (default) -> {}\n\
             until a restart\n  ! `admin` stays as it is\n"
        );
        // A class that is gone keeps its place, and is told once.
        let mut follows = after;
        Changes::prepare(&mut follows, &before);
        assert!(between(&follows, &follows.clone()).is_empty());
    }
}
