//! The actions of routes: each route has one, whose clusters exist, with the keys that belong to
//! it.

use std::ops::Range;
use std::sync::Arc;

use super::cluster_names::Known;
use super::values::{each, each_given, maybe};
use crate::containers::{List, Or, Seldom};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{
    Action, Cluster, Conditions, DirectResponse, EndpointAddress, ErrorPage, FileAt, Forward,
    HeaderEdits, Maintenance, Mirror, Page, PageSource, Redirect, RedirectPath, RegexRewrite, Span,
    Template, ValueIs, ValueMatch, Weighted,
};

/// The keys of a route's action, of which a route has exactly one.
const ACTIONS: &str = "`cluster`, `weighted_clusters`, `redirect` or `direct_response`";

/// Resolves the action of a route; none if it is wrong, which is reported.
pub(super) fn action(
    raw: &raw::Route,
    span: &Range<usize>,
    known: &mut Known<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<Action> {
    // Every name is looked at, so that no cluster that is used is said to be of no use.
    let forward = forward(raw, known, reporter);
    let given = [
        ("cluster", raw.cluster.given, &raw.cluster.span),
        (
            "weighted_clusters",
            raw.weighted_clusters.given,
            &raw.weighted_clusters.span,
        ),
        ("redirect", raw.redirect.given, &raw.redirect.span),
        (
            "direct_response",
            raw.direct_response.given,
            &raw.direct_response.span,
        ),
    ];
    let mut given = given.into_iter().filter(|(_, given, _)| *given);
    let Some((first, ..)) = given.next() else {
        let message = "this route does nothing".to_owned();
        let help = format!("give it one of {ACTIONS}");
        reporter.error(span, message, Some(help));
        return None;
    };
    if let Some((second, _, span)) = given.next() {
        let message = format!("a route takes `{first}` or `{second}`, not both");
        let help = "make two routes of it, or remove one of them".to_owned();
        reporter.error(span, message, Some(help));
        return None;
    }
    match first {
        "redirect" => {
            redirect(raw.redirect.optional()??, &raw.redirect.span, reporter).map(Action::Redirect)
        }
        "direct_response" => {
            direct_response(raw.direct_response.optional()??, reporter).map(Action::Respond)
        }
        _ => forward.map(Action::Forward),
    }
}

/// Warns of keys about requests that go to a cluster, if the route sends none to one.
pub(super) fn warn_unused(raw: &raw::Route, action: &Action, reporter: &mut Reporter<'_>) {
    if matches!(action, Action::Forward(_)) {
        return;
    }
    let keys = [
        ("fallback", raw.fallback.given, &raw.fallback.span),
        ("timeout", raw.timeout.given, &raw.timeout.span),
        (
            "response_timeout",
            raw.response_timeout.given,
            &raw.response_timeout.span,
        ),
        (
            "idle_timeout",
            raw.idle_timeout.given,
            &raw.idle_timeout.span,
        ),
        (
            "retry_policy",
            raw.retry_policy.given,
            &raw.retry_policy.span,
        ),
        (
            "hedge_policy",
            raw.hedge_policy.given,
            &raw.hedge_policy.span,
        ),
        (
            "prefix_rewrite",
            raw.prefix_rewrite.given,
            &raw.prefix_rewrite.span,
        ),
        (
            "regex_rewrite",
            raw.regex_rewrite.given,
            &raw.regex_rewrite.span,
        ),
        (
            "host_rewrite",
            raw.host_rewrite.given,
            &raw.host_rewrite.span,
        ),
        (
            "request_headers_to_add",
            raw.request_headers_to_add.given,
            &raw.request_headers_to_add.span,
        ),
        (
            "request_headers_to_set",
            raw.request_headers_to_set.given,
            &raw.request_headers_to_set.span,
        ),
        (
            "request_headers_to_remove",
            raw.request_headers_to_remove.given,
            &raw.request_headers_to_remove.span,
        ),
        (
            "request_mirror_policies",
            raw.request_mirror_policies.given,
            &raw.request_mirror_policies.span,
        ),
        (
            "document_root",
            raw.document_root.given,
            &raw.document_root.span,
        ),
        ("head_probe", raw.head_probe.given, &raw.head_probe.span),
        ("upgrade", raw.upgrade.given, &raw.upgrade.span),
    ];
    for (key, _, span) in keys.into_iter().filter(|(_, given, _)| *given) {
        let message = format!("`{key}` has no effect here: Sprat answers these requests itself");
        reporter.warning(span, message, Some("remove it".to_owned()));
    }
}

fn forward(
    raw: &raw::Route,
    known: &mut Known<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<Forward> {
    let mut find = |name: &Field<crate::names::Name>| known.cluster(name, reporter);
    let mut clusters = Some(Vec::new());
    let mut add =
        |cluster: Option<Arc<Cluster>>, weight: Option<u32>| match (cluster, weight, &mut clusters)
        {
            (Some(cluster), Some(weight), Some(all)) => all.push(Weighted { cluster, weight }),
            _ => clusters = None,
        };
    if raw.cluster.given {
        add(find(&raw.cluster), Some(1));
    }
    let shares = raw.weighted_clusters.optional().flatten();
    for share in shares.into_iter().flat_map(|list| &list.0) {
        let share = share.get();
        let weight = share.and_then(|own| u32::try_from(own.weight.copied()?.0).ok());
        add(share.and_then(|own| find(&own.cluster)), weight);
    }
    let mut fallback = Some(None);
    if raw.fallback.given {
        fallback = find(&raw.fallback).map(Some);
    }
    let mut mirrors = Some(Vec::new());
    for policy in raw
        .request_mirror_policies
        .get()
        .into_iter()
        .flat_map(|list| &list.0)
    {
        let policy = policy.get();
        let cluster = policy.and_then(|own| find(&own.cluster));
        let percent = policy.and_then(|own| u32::try_from(own.percent.copied()?.0).ok());
        match (cluster, percent, &mut mirrors) {
            (Some(cluster), Some(percent), Some(all)) => all.push(Mirror { cluster, percent }),
            _ => mirrors = None,
        }
    }
    raw.request_mirror_policies.get()?;
    let clusters = clusters?;
    if raw.fallback.given {
        warn_of_fallback(&raw.fallback.span, &clusters, reporter);
    }
    if raw.weighted_clusters.given && clusters.iter().all(|own| own.weight == 0) {
        let message = "no cluster has a weight: no request could go anywhere".to_owned();
        let help = "give one of them a weight of 1 or more".to_owned();
        reporter.error(&raw.weighted_clusters.span, message, Some(help));
        return None;
    }
    Some(Forward {
        clusters,
        fallback: fallback?,
        mirrors: mirrors?,
    })
}

/// Warns of a fallback that no request reaches, because the clusters before it always have an
/// endpoint in use.
fn warn_of_fallback(span: &Range<usize>, clusters: &[Weighted], reporter: &mut Reporter<'_>) {
    let has_name = |own: &Cluster| {
        let mut all = own.endpoints.iter();
        own.endpoints_file.is_some()
            || all.any(|own| matches!(own.address, EndpointAddress::Name { .. }))
    };
    let is_checked = |own: &Cluster| own.resilience.health_checks.is_some();
    let all = || clusters.iter().map(|own| &*own.cluster);
    let is_reached = |own: &Cluster| {
        has_name(own) || (is_checked(own) && own.resilience.healthy_panic_percent == 0)
    };
    if all().any(is_reached) {
        return;
    }
    let message = "no request comes to this fallback".to_owned();
    let help = if all().any(is_checked) {
        "a cluster uses all its endpoints when most are out: give it `healthy_panic_threshold: 0`"
    } else {
        "without `health_checks` no endpoint is known to be out; one that stands by in the same \
         cluster (`priority: 1`) takes over with the first connection that fails"
    };
    reporter.warning(span, message, Some(help.to_owned()));
}

fn redirect(
    raw: &raw::Redirect,
    span: &Range<usize>,
    reporter: &mut Reporter<'_>,
) -> Option<Redirect> {
    let paths = [
        (
            "path_redirect",
            raw.path_redirect.given,
            &raw.path_redirect.span,
        ),
        (
            "prefix_rewrite",
            raw.prefix_rewrite.given,
            &raw.prefix_rewrite.span,
        ),
        (
            "regex_rewrite",
            raw.regex_rewrite.given,
            &raw.regex_rewrite.span,
        ),
    ];
    let mut given = paths.into_iter().filter(|(_, given, _)| *given);
    if let (Some((first, ..)), Some((second, _, span))) = (given.next(), given.next()) {
        let message = format!("a redirect takes `{first}` or `{second}`, not both");
        reporter.error(span, message, Some("remove one of them".to_owned()));
        return None;
    }
    let redirect = Redirect {
        https: raw.https_redirect.copied()?.0,
        host: raw.host_redirect.optional()?.map(|host| host.0.clone()),
        port: maybe(raw.port_redirect.optional()?, |port| {
            u16::try_from(port.0).ok()
        })?,
        path: if let Some(path) = raw.path_redirect.optional()? {
            RedirectPath::Fixed(path.0.clone())
        } else if let Some(prefix) = raw.prefix_rewrite.optional()? {
            RedirectPath::Prefix(prefix.0.clone())
        } else if let Some(rewrite) = raw.regex_rewrite.optional()? {
            RedirectPath::Regex(regex_rewrite(rewrite, reporter)?)
        } else {
            RedirectPath::Same
        },
        strip_query: raw.strip_query.copied()?.0,
        status: raw.response_code.copied()?.0,
    };
    let leads_nowhere = !redirect.https
        && redirect.host.is_none()
        && redirect.port.is_none()
        && redirect.path == RedirectPath::Same
        && !redirect.strip_query;
    if leads_nowhere {
        let message = "this redirect leads to where the client is".to_owned();
        let help = "give it `https_redirect`, `host_redirect`, `port_redirect`, `path_redirect`, \
                    `prefix_rewrite` or `regex_rewrite`";
        reporter.error(span, message, Some(help.to_owned()));
        return None;
    }
    Some(redirect)
}

fn direct_response(
    raw: &raw::DirectResponse,
    reporter: &mut Reporter<'_>,
) -> Option<DirectResponse> {
    let status = u16::try_from(raw.status.copied()?.0).ok()?;
    let page = page(&raw.body, &raw.file, &raw.content_type, reporter)?;
    if let (Some(_), 204 | 205 | 304) = (&page, status) {
        let message = format!("an answer with the status {status} has no body");
        let help = "leave `body` and `file` out, or give another status".to_owned();
        reporter.error(&raw.status.span, message, Some(help));
        return None;
    }
    Some(DirectResponse { status, page })
}

/// Resolves a page from a text in the configuration or from a file; none if there is neither.
fn page(
    body: &Field<crate::actions::BodyText>,
    file: &Field<crate::names::FilePath>,
    content_type: &Field<crate::actions::MediaTypeText>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<Page>> {
    if body.given && file.given {
        let message = "a page takes `body` or `file`, not both".to_owned();
        reporter.error(&file.span, message, Some("remove one of them".to_owned()));
        return None;
    }
    let source = match (body.optional()?, file.optional()?) {
        (Some(text), _) => PageSource::Text(text.0.clone()),
        (None, Some(path)) => PageSource::File(FileAt {
            path: path.0.clone(),
            span: Span(file.span.clone()),
        }),
        (None, None) => return Some(None),
    };
    let content_type = content_type.get()?.0.clone();
    Some(Some(Page {
        source,
        content_type,
    }))
}

/// Resolves the error pages of a route.
pub(super) fn error_pages(
    raw: &Field<List<raw::ErrorPage, 0>>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<ErrorPage>> {
    let mut pages = Some(Vec::new());
    for field in &raw.get()?.0 {
        let own = field
            .get()
            .and_then(|raw| error_page(raw, &field.span, reporter));
        match (own, &mut pages) {
            (Some(own), Some(all)) => all.push(own),
            _ => pages = None,
        }
    }
    pages
}

fn error_page(
    raw: &raw::ErrorPage,
    span: &Range<usize>,
    reporter: &mut Reporter<'_>,
) -> Option<ErrorPage> {
    let page = page(&raw.body, &raw.file, &raw.content_type, reporter)?;
    let status = maybe(raw.response_code.optional()?, |status| {
        u16::try_from(status.0).ok()
    })?;
    if page.is_none() && status.is_none() {
        let message = "this page changes nothing".to_owned();
        let help = "give it a `body`, a `file` or a `response_code`".to_owned();
        reporter.error(span, message, Some(help));
        return None;
    }
    Some(ErrorPage {
        statuses: each(&raw.status, |range| Some(range.0))?,
        page,
        status,
        intercept: raw.intercept.copied()?.0,
    })
}

/// Resolves a maintenance; `Some(None)` if every client is served.
pub(super) fn maintenance<W>(raw: &Or<W, Seldom<raw::Maintenance>>) -> Option<Option<Maintenance>> {
    Some(match raw.value() {
        None => None,
        Some(raw) => Some(Maintenance {
            exempt: each(&raw.exempt, |cidr| Some(cidr.0))?,
            retry_after: raw.retry_after.copied()?.0,
        }),
    })
}

/// Resolves a route's replacement in the path, by a regular expression.
pub(super) fn regex_rewrite(
    raw: &raw::RegexRewrite,
    reporter: &mut Reporter<'_>,
) -> Option<RegexRewrite> {
    let (pattern, substitution) = (raw.pattern.get()?, raw.substitution.get()?);
    match RegexRewrite::new(pattern.0.clone(), &substitution.0) {
        Ok(rewrite) => Some(rewrite),
        Err(told) => {
            let help =
                r"`\1` is the pattern's first group, `\0` all that it matched, `\\` a backslash";
            reporter.error(&raw.substitution.span, told, Some(help.to_owned()));
            None
        }
    }
}

/// The lists of changes to the fields of a head.
#[derive(Clone, Copy)]
pub(super) struct EditLists<'a> {
    pub(super) add: &'a Field<List<raw::HeaderValue, 0>>,
    pub(super) set: &'a Field<List<raw::HeaderValue, 0>>,
    pub(super) remove: &'a Field<List<crate::actions::EditedName, 0>>,
}

/// Resolves the changes to a head. Those of a request's may not use variables of the response.
pub(super) fn header_edits(
    lists: EditLists<'_>,
    is_request: bool,
    reporter: &mut Reporter<'_>,
) -> Option<HeaderEdits> {
    let add = header_values(lists.add, is_request, reporter);
    let set = header_values(lists.set, is_request, reporter);
    Some(HeaderEdits {
        remove: each(lists.remove, |name| Some(name.0.clone()))?,
        set: set?,
        add: add?,
    })
}

/// Resolves fields and their values; those of a request may not use variables of the response.
pub(super) fn header_values(
    list: &Field<List<raw::HeaderValue, 0>>,
    is_request: bool,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<(String, Template)>> {
    let mut out = Some(Vec::new());
    for own in &list.get()?.0 {
        let pair = own.get().and_then(|raw| value(raw, is_request, reporter));
        match (pair, &mut out) {
            (Some(pair), Some(all)) => all.push(pair),
            _ => out = None,
        }
    }
    out
}

fn value(
    raw: &raw::HeaderValue,
    is_request: bool,
    reporter: &mut Reporter<'_>,
) -> Option<(String, Template)> {
    let (name, template) = (raw.name.get()?, raw.value.get()?);
    if is_request && template.0.variables().any(|own| own.is_of_response()) {
        let message = "a request knows nothing of its response".to_owned();
        let help = "use what the request tells, or make it a field of the response".to_owned();
        reporter.error(&raw.value.span, message, Some(help));
        return None;
    }
    Some((name.0.clone(), template.0.clone()))
}

/// Resolves the conditions on a request beyond its host and its path.
pub(super) fn conditions(raw: &raw::RouteMatch, reporter: &mut Reporter<'_>) -> Option<Conditions> {
    let keys = [("path", &raw.path.given), ("prefix", &raw.prefix.given)];
    if let (Some((key, _)), true) = (
        keys.into_iter().find(|(_, given)| **given),
        raw.safe_regex.given,
    ) {
        let message = format!("a route takes `{key}` or `safe_regex`, not both");
        let help = "make two routes of it, or remove one of them".to_owned();
        reporter.error(&raw.safe_regex.span, message, Some(help));
        return None;
    }
    let headers = raw.headers.optional()?.map_or(&[][..], |list| &list.0);
    let cookies = raw.cookies.optional()?.map_or(&[][..], |list| &list.0);
    let parameters = raw
        .query_parameters
        .optional()?
        .map_or(&[][..], |list| &list.0);
    let headers = values(headers, true, reporter);
    let cookies = values(cookies, false, reporter);
    let mut parameter = |own: &Field<raw::ParameterMatch>| {
        let own = own.get()?;
        Some(ValueMatch {
            name: own.name.get()?.0.clone(),
            value: value_is(&own.value, &own.safe_regex, reporter)?,
            invert: own.invert_match.copied()?.0,
        })
    };
    let query_parameters: Option<Vec<_>> = parameters.iter().map(&mut parameter).collect();
    Some(Conditions {
        path: raw.safe_regex.optional()?.map(|own| own.0.clone()),
        methods: each_given(&raw.methods, |method| Some(method.0.clone()))?,
        headers: headers?,
        query_parameters: query_parameters?,
        cookies: cookies?,
        clients: each_given(&raw.clients, |cidr| Some(cidr.0))?,
    })
}

/// Resolves the conditions on fields, or on cookies. Names of fields become lower case.
pub(super) fn values(
    list: &[Field<raw::HeaderMatch>],
    are_fields: bool,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<ValueMatch>> {
    let own = |own: &Field<raw::HeaderMatch>| {
        let own = own.get()?;
        let mut name = own.name.get()?.0.clone();
        if are_fields {
            name.make_ascii_lowercase();
        }
        Some(ValueMatch {
            name,
            value: value_is(&own.value, &own.safe_regex, reporter)?,
            invert: own.invert_match.copied()?.0,
        })
    };
    list.iter().map(own).collect()
}

fn value_is(
    value: &Field<crate::patterns::ValuePattern>,
    regex: &Field<crate::actions::Pattern>,
    reporter: &mut Reporter<'_>,
) -> Option<ValueIs> {
    if value.given && regex.given {
        let message = "`value` and `safe_regex` cannot both be given".to_owned();
        reporter.error(&regex.span, message, Some("remove one of them".to_owned()));
        return None;
    }
    Some(match (value.optional()?, regex.optional()?) {
        (Some(pattern), _) => ValueIs::Text(pattern.0.clone()),
        (None, Some(regex)) => ValueIs::Regex(regex.0.clone()),
        (None, None) => ValueIs::Any,
    })
}
