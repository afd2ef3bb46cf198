//! Classes, the rules that lead to them, and admission.

use std::time::Duration;

use sprat_scheduler::classes::MAX_CLASSES;

use super::values::{each_given, maybe, size, time};
use crate::containers::{ByName, List};
use crate::decode::{Field, similar};
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;
use crate::wording::listed;

/// The names of the classes that exist without being configured.
const BUILT_IN: [&str; 2] = ["default", "background"];

/// Resolves the classes and their rules; none if there is an error in one.
pub(super) fn resolve(
    classes: &Field<ByName<raw::Class>>,
    rules: &Field<List<raw::ClassRule, 1>>,
    reporter: &mut Reporter<'_>,
) -> Option<Classes> {
    let mut list = Some(Vec::new());
    let named = classes.optional()?.map_or(&[][..], |named| &named.0);
    let own = |name: &str| {
        named
            .iter()
            .any(|(n, _)| n.get().is_some_and(|n| n == name))
    };
    let most = MAX_CLASSES - BUILT_IN.iter().filter(|name| !own(name)).count();
    if let Some((extra, _)) = named.get(most) {
        let message = format!("there are more than {most} classes");
        let help = "remove this one and those after it".to_owned();
        reporter.error(&extra.span, message, Some(help));
        list = None;
    }
    for (name, field) in named {
        let resolved = field
            .get()
            .and_then(|raw| class(name.get()?, raw, reporter));
        match (resolved, &mut list) {
            (Some(class), Some(list)) => list.push(class),
            _ => list = None,
        }
    }
    let names: Vec<&str> = named
        .iter()
        .filter_map(|(name, _)| name.get().map(String::as_str))
        .chain(BUILT_IN)
        .collect();
    let raw_rules = rules.optional()?;
    let mut rules = Some(Vec::new());
    for field in raw_rules.map_or(&[][..], |list| &list.0) {
        match (rule(field, &names, reporter), &mut rules) {
            (Some(rule), Some(rules)) => rules.push(rule),
            _ => rules = None,
        }
    }
    let (list, rules) = (list?, rules?);
    Some(Classes::with(list, |list| {
        let index = |name: &str| list.iter().position(|class| class.name == name);
        let known = rules.into_iter().map(|rule| ClassRule {
            matches: rule.matches,
            class: index(&rule.class).unwrap_or_default(),
            at: Some(rule.at),
        });
        known.collect()
    }))
}

fn class(name: &str, raw: &raw::Class, reporter: &mut Reporter<'_>) -> Option<Class> {
    let deadline = raw.deadline.get()?.value().map(|time| time.0);
    let drop_late = raw.drop_late.copied()?.0;
    let is_late_without = drop_late && deadline.is_none();
    if is_late_without {
        let message = "a class without a `deadline` is never late".to_owned();
        let help = "give it a `deadline`, or leave `drop_late` out".to_owned();
        reporter.error(&raw.drop_late.span, message, Some(help));
    }
    let soft_deadline = soft_deadline(raw, deadline, reporter);
    let drop_thresholds = drop_thresholds(raw, reporter)?;
    let soft_deadline = soft_deadline?;
    if is_late_without {
        return None;
    }
    let pool = raw.max_concurrency.get()?.value();
    Some(Class {
        name: name.to_owned(),
        spec: ClassSpec {
            level: u8::try_from(raw.level.copied()?.0).ok()?,
            weight: u32::try_from(raw.weight.copied()?.0).ok()?,
            max_concurrency: pool.map_or(usize::MAX, |pool| size(pool.0)),
            rate_bits_per_s: raw.rate.get()?.value().map(|rate| rate.0),
            idle_only: raw.idle_only.copied()?.0,
            timeout: None,
            drop_thresholds,
            deadline,
            soft_deadline,
            drop_late,
            value: u32::try_from(raw.value.copied()?.0).ok()?,
        },
        queue_timeout: match raw.queue_timeout.optional()? {
            None => QueueTimeout::Cluster,
            Some(own) => QueueTimeout::Own(own.value().map(|time| time.0)),
        },
    })
}

/// Resolves the soft deadline, after which the value of a class's responses falls.
fn soft_deadline(
    raw: &raw::Class,
    deadline: Option<Duration>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<Duration>> {
    let Some(soft) = raw.soft_deadline.optional()? else {
        return Some(None);
    };
    let (message, help) = match deadline {
        Some(deadline) if soft.0 <= deadline => return Some(Some(soft.0)),
        Some(_) => (
            "the soft deadline is after the `deadline`",
            "give it at most as much: from the `deadline` on there is no value to fall",
        ),
        None => (
            "a class without a `deadline` has no soft one",
            "give it a `deadline` too, which is no sooner",
        ),
    };
    let span = &raw.soft_deadline.span;
    reporter.error(span, message.to_owned(), Some(help.to_owned()));
    None
}

/// Resolves the thresholds of early discard, as shares of the wait queue: from the first some
/// requests are discarded, from the second all.
fn drop_thresholds(raw: &raw::Class, reporter: &mut Reporter<'_>) -> Option<(f64, f64)> {
    let Some(discard) = raw.early_discard.get()?.value() else {
        return Some((1.0, 1.0));
    };
    let (from, to) = (discard.from.copied()?.0, discard.to.copied()?.0);
    if from >= to {
        let message = "early discard would take all before it begins".to_owned();
        let help = "`from` is below `to`, such as {from: 0.5, to: 0.9}".to_owned();
        reporter.error(&raw.early_discard.span, message, Some(help));
        return None;
    }
    Some((from, to))
}

/// A rule of classes that has its class by name, for the classes have no places yet.
struct RuleByName {
    matches: ClassMatch,
    class: String,
    at: WrittenAt,
}

/// Resolves a rule of classes, but for the place of its class.
fn rule(
    field: &Field<raw::ClassRule>,
    names: &[&str],
    reporter: &mut Reporter<'_>,
) -> Option<RuleByName> {
    let raw = field.get()?;
    let matches = class_match(raw.matches.get()?, reporter);
    let name = &raw.class.get()?.0;
    if !names.contains(&name.as_str()) {
        let message = format!("there is no class `{name}`");
        let help = match similar(name, names.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("the classes are {}", listed(names.iter().copied())),
        };
        reporter.error(&raw.class.span, message, Some(help));
        return None;
    }
    Some(RuleByName {
        matches: matches?,
        class: name.clone(),
        at: reporter.written_at(field.span.start),
    })
}

/// Resolves the names that a client's certificate must have.
pub(super) fn certificate(raw: &raw::CertificateMatch) -> Option<CertificateMatch> {
    Some(CertificateMatch {
        dns: each_given(&raw.dns, |host| Some(host.0.clone()))?,
        uris: each_given(&raw.uris, |uri| Some(uri.0.clone()))?,
        common_names: each_given(&raw.common_names, |name| Some(name.0.clone()))?,
    })
}

fn class_match(raw: &raw::ClassMatch, reporter: &mut Reporter<'_>) -> Option<ClassMatch> {
    if raw.path.given && raw.prefix.given {
        let message = "a rule takes `path` or `prefix`, not both".to_owned();
        let help = "make two rules of it, or remove one of them".to_owned();
        reporter.error(&raw.prefix.span, message, Some(help));
        return None;
    }
    let field = |field: &raw::FieldMatch| {
        Some(FieldMatch {
            name: field.name.get()?.0.clone(),
            value: field.value.optional()?.map(|value| value.0.clone()),
        })
    };
    Some(ClassMatch {
        clients: each_given(&raw.clients, |cidr| Some(cidr.0))?,
        dscp: each_given(&raw.dscp, |dscp| Some(dscp.0))?,
        certificate: maybe(raw.client_certificate.optional()?, certificate)?,
        users: each_given(&raw.users, |user| Some(user.0.clone()))?,
        hosts: each_given(&raw.hosts, |host| Some(host.0.clone()))?,
        path: match (raw.path.optional()?, raw.prefix.optional()?) {
            (Some(path), _) => PathPattern::Exact(path.0.clone()),
            (None, Some(prefix)) => PathPattern::Prefix(prefix.0.clone()),
            (None, None) => PathPattern::Any,
        },
        extensions: each_given(&raw.extensions, |extension| Some(extension.0.clone()))?,
        methods: each_given(&raw.methods, |method| Some(method.0.clone()))?,
        headers: each_given(&raw.headers, field)?,
        cookies: each_given(&raw.cookies, field)?,
        content_types: each_given(&raw.content_types, |kind| Some(kind.0.clone()))?,
        response_types: each_given(&raw.response_types, |kind| Some(kind.0.clone()))?,
        urgency: each_given(&raw.urgency, |urgency| u8::try_from(urgency.0).ok())?,
        prefetch: false,
    })
}

/// Warns of rules that match client certificates, if no listener asks for any.
pub(super) fn warn_unasked(
    file: &raw::File,
    listeners: Option<&[Listener]>,
    reporter: &mut Reporter<'_>,
) {
    let asks = |listener: &Listener| {
        let tls = listener.tls.as_ref();
        tls.is_some_and(|tls| tls.client_certificates.is_some())
    };
    // Where one is wrong, it may be the one.
    if listeners.is_none_or(|all| all.iter().any(asks)) {
        return;
    }
    let rules = file.class_rules.get().map_or(&[][..], |rules| &rules.0);
    for rule in rules {
        let matches = rule.get().and_then(|rule| rule.matches.get());
        if let Some(matches) = matches.filter(|own| own.client_certificate.given) {
            let message = "no listener asks its clients for certificates".to_owned();
            let help = "this rule matches nothing: give a listener `client_certificates` in its \
                        `tls`, or remove the rule";
            let span = &matches.client_certificate.span;
            reporter.warning(span, message, Some(help.to_owned()));
        }
    }
}

/// Warns of rules that match users, if nothing finds out a request's user.
pub(super) fn warn_unknown_users(
    rules: &[Field<raw::ClassRule>],
    finds_users: bool,
    help: &str,
    reporter: &mut Reporter<'_>,
) {
    let matches = rules.iter().filter_map(|rule| rule.get()?.matches.get());
    for own in matches.filter(|own| own.users.given && !finds_users) {
        let message = "nothing finds out here who the user is".to_owned();
        let help = format!("this rule matches nothing: {help}");
        reporter.warning(&own.users.span, message, Some(help));
    }
}

/// Warns of keys that order the uplink, if the uplink is not paced.
pub(super) fn warn_unpaced(file: &raw::File, uplink: &Uplink, reporter: &mut Reporter<'_>) {
    let why = match (&uplink.engine, uplink.rate) {
        (Engine::Kernel(_), _) => "`engine: kernel` orders by size alone",
        (Engine::Pace, Rate::Unlimited) => "with `rate: unlimited` nothing is ordered",
        (Engine::Pace, Rate::Auto | Rate::Fixed(_)) => return,
    };
    let why = format!("{why}: it takes `engine: pace` and a `rate`, or `rate: auto`");
    if let Some(raw) = file.uplink.get()
        && raw.max_flows.given
    {
        let message = "`max_flows` bounds nothing on this uplink".to_owned();
        let help = format!("{why}; `max_requests` of listeners and clusters bounds what is served");
        reporter.warning(&raw.max_flows.span, message, Some(help));
    }
    if let Some(raw) = file.uplink.get()
        && raw.guard_factor.given
    {
        let message = "`guard_factor` guards nothing on this uplink".to_owned();
        let help = format!("{why}; `max_connections` and rate limits hold floods back");
        reporter.warning(&raw.guard_factor.span, message, Some(help));
    }
    // Under the kernel's engine it is an error.
    if let (Some(_), Some(raw)) = (&uplink.share, file.uplink.get())
        && let Some(clients) = raw.clients.get()
    {
        let message = "`share` divides nothing on this uplink".to_owned();
        let help = format!("{why}; `max_requests` of `per_client` bounds what each has served");
        reporter.warning(&clients.share.span, message, Some(help));
    }
    warn_keys(&file.classes, &why, reporter);
}

/// Warns of the keys of classes that order the uplink; `why` is the help.
pub(super) fn warn_keys(
    classes: &Field<ByName<raw::Class>>,
    why: &str,
    reporter: &mut Reporter<'_>,
) {
    let classes = classes.get().map_or(&[][..], |named| &named.0);
    for class in classes.iter().filter_map(|(_, class)| class.get()) {
        let keys = [
            ("weight", &class.weight.span, class.weight.given),
            ("rate", &class.rate.span, class.rate.given),
            ("idle_only", &class.idle_only.span, class.idle_only.given),
        ];
        for (key, span, _) in keys.into_iter().filter(|(.., given)| *given) {
            let message = format!("`{key}` has no effect on this uplink");
            reporter.warning(span, message, Some(why.to_owned()));
        }
    }
}

/// Resolves the rules by which admission turns requests away.
pub(super) fn admission(raw: &raw::Admission) -> Option<Admission> {
    let channel = maybe(raw.channel.get()?.value(), |channel| {
        Some(ChannelRule {
            max_backlog: time(&channel.max_backlog)?,
            large_bytes: channel.large.copied()?.0,
            level: u8::try_from(channel.level.copied()?.0).ok()?,
        })
    })?;
    Some(Admission {
        averaging: raw.averaging.copied()?.0,
        channel,
    })
}
