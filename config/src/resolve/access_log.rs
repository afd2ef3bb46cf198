//! Access logs: the operator's formats, and filters that name classes.

use std::collections::HashMap;

use super::values::{each, maybe, time};
use crate::containers::Or;
use crate::decode::{Field, similar};
use crate::diagnostic::Reporter;
use crate::raw;
use crate::raw::{AccessLogFormat, AccessLogs, LOGS_MAX};
use crate::resolved::{
    AccessLog, Classes, FixedFormat, LogFilter, LogFormat, LogTarget, RequestId, Span, Syslog,
};
use crate::wording::listed;

/// Resolves the access logs; the list is empty if they are off. Without `classes`, the classes that
/// filters name are not checked.
pub(super) fn resolve<W>(
    raw: &Field<Or<W, AccessLogs>>,
    classes: Option<&Classes>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<AccessLog>> {
    let Some(AccessLogs(logs)) = raw.get()?.value() else {
        return Some(Vec::new());
    };
    if let Some(extra) = logs.get(LOGS_MAX) {
        let message = format!("there are more than {LOGS_MAX} access logs");
        let help = "remove this one and those after it".to_owned();
        reporter.error(&extra.span, message, Some(help));
        return None;
    }
    let mut paths = HashMap::new();
    let mut out = Some(Vec::new());
    for field in logs {
        let log = field.get().and_then(|raw| log(raw, classes, reporter));
        if let Some(log) = &log
            && let Some(first) = paths.insert(log.target.clone(), field.span.start)
        {
            let line = reporter.line_of(first);
            let message = "another access log goes to the same place".to_owned();
            let help = format!("the other is on line {line}: give this one a file of its own");
            reporter.error(&log.span.0, message, Some(help));
            out = None;
        }
        match (log, &mut out) {
            (Some(log), Some(out)) => out.push(log),
            _ => out = None,
        }
    }
    out
}

fn log(
    raw: &raw::AccessLog,
    classes: Option<&Classes>,
    reporter: &mut Reporter<'_>,
) -> Option<AccessLog> {
    let format = raw
        .format
        .get()
        .and_then(|own| format(own, &raw.format, reporter));
    let filters = match raw.filters.optional()? {
        None => Some(Vec::new()),
        Some(list) => {
            let filters = list.0.iter();
            let filters = filters.map(|own| filter(own.get()?, classes, reporter));
            filters.collect::<Vec<_>>().into_iter().collect()
        }
    };
    Some(AccessLog {
        target: target(raw, reporter)?,
        span: Span(raw.path.span.clone()),
        format: format?,
        filters: filters?,
    })
}

fn target(raw: &raw::AccessLog, reporter: &mut Reporter<'_>) -> Option<LogTarget> {
    let path = match raw.path.get()? {
        Or::Word(_) => LogTarget::Stdout,
        Or::Value(path) => LogTarget::File(path.0.clone()),
    };
    let Some(syslog) = raw.syslog.optional()? else {
        return Some(path);
    };
    if raw.path.given {
        let message = "a log goes to a `path` or to `syslog`".to_owned();
        let help = "remove one of both, or give `access_log` a list of two logs".to_owned();
        reporter.error(&raw.syslog.span, message, Some(help));
        return None;
    }
    Some(LogTarget::Syslog(Syslog {
        address: syslog.address.get()?.0.clone(),
        facility: syslog.facility.copied()?.0,
        app_name: syslog.app_name.get()?.0.clone(),
    }))
}

fn format(
    raw: &AccessLogFormat,
    field: &Field<AccessLogFormat>,
    reporter: &mut Reporter<'_>,
) -> Option<LogFormat> {
    let free = match raw {
        AccessLogFormat::Fixed(FixedFormat::Json) => return Some(LogFormat::Json),
        AccessLogFormat::Fixed(FixedFormat::Combined) => return Some(LogFormat::Combined),
        AccessLogFormat::Free(free) => free,
    };
    match (free.json.optional()?, free.text.optional()?) {
        (Some(keys), None) => {
            let keys = keys.0.iter();
            let keys = keys.map(|(key, own)| Some((key.get()?.clone(), own.get()?.0.clone())));
            keys.collect::<Option<_>>().map(LogFormat::Fields)
        }
        (None, Some(text)) => Some(LogFormat::Text(text.0.clone())),
        _ => {
            let message = "a format of one's own is either `json` or `text`".to_owned();
            let help =
                "write {json: {status: \"%RESPONSE_CODE%\"}}, or {text: \"%RESPONSE_CODE%\"}";
            reporter.error(&field.span, message, Some(help.to_owned()));
            None
        }
    }
}

fn filter(
    raw: &raw::LogFilter,
    classes: Option<&Classes>,
    reporter: &mut Reporter<'_>,
) -> Option<LogFilter> {
    let mut names = Vec::new();
    if raw.classes.optional()?.is_some() {
        names = each(&raw.classes, |name| Some(name.0.clone()))?;
        let fields = raw.classes.get().into_iter().flat_map(|list| &list.0);
        for (name, field) in names.iter().zip(fields) {
            has_class(name, field, classes, reporter)?;
        }
    }
    Some(LogFilter {
        min_status: maybe(raw.min_status.optional()?, |status| {
            u16::try_from(status.0).ok()
        })?,
        min_duration: maybe(raw.min_duration.optional()?, |_| time(&raw.min_duration))?,
        classes: names,
    })
}

fn has_class<T>(
    name: &str,
    field: &Field<T>,
    classes: Option<&Classes>,
    reporter: &mut Reporter<'_>,
) -> Option<()> {
    let names = || {
        classes
            .into_iter()
            .flat_map(|own| &own.list)
            .map(|own| own.name.as_str())
    };
    if classes.is_none() || names().any(|own| own == name) {
        return Some(());
    }
    let message = format!("there is no class `{name}`");
    let help = match similar(name, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the classes are {}", listed(names())),
    };
    reporter.error(&field.span, message, Some(help));
    None
}

/// Resolves the identifiers that requests get; `Some(None)` if they get none.
pub(super) fn request_id<W>(raw: &Field<Or<W, raw::RequestId>>) -> Option<Option<RequestId>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    Some(Some(RequestId {
        header: raw.header.get()?.0.clone(),
        preserve_external: raw.preserve_external.copied()?.0,
        in_response: raw.in_response.copied()?.0,
    }))
}
