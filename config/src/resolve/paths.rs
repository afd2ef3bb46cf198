//! Warnings about paths in rules that are not in normal form: requests are matched in normal form,
//! so none has such a path.

use crate::addresses::UrlPath;
use crate::decode::{Field, shortened};
use crate::diagnostic::Reporter;
use crate::paths::{Abnormal, PathRules};
use crate::raw;
use crate::resolved::Listener;

/// Warns of paths in routes and class rules that no listener's requests can have.
pub(super) fn warn_abnormal(file: &raw::File, listeners: &[Listener], reporter: &mut Reporter<'_>) {
    let rules: Vec<PathRules> = listeners.iter().map(|listener| listener.paths).collect();
    let routes = file.routes.get().into_iter().flat_map(|list| &list.0);
    for matches in routes.filter_map(|route| route.get()?.matches.get()) {
        warn(&matches.path, &rules, reporter);
        warn(&matches.prefix, &rules, reporter);
    }
    let class_rules = file.class_rules.optional().flatten();
    let class_rules = class_rules.into_iter().flat_map(|list| &list.0);
    for matches in class_rules.filter_map(|rule| rule.get()?.matches.get()) {
        warn(&matches.path, &rules, reporter);
        warn(&matches.prefix, &rules, reporter);
    }
}

fn warn(field: &Field<UrlPath>, rules: &[PathRules], reporter: &mut Reporter<'_>) {
    let Some(Some(UrlPath(path))) = field.optional() else {
        return;
    };
    let normal = |rules: &PathRules| rules.normal(path).map(|normal| normal.path.into_owned());
    let forms: Vec<_> = rules.iter().map(normal).collect();
    if forms.iter().any(|form| form.as_ref() == Ok(path)) {
        return;
    }
    let help = match forms.into_iter().next() {
        None => return,
        Some(Ok(form)) => format!("write {}", shortened(&form)),
        Some(Err(Abnormal::EscapedSlash)) => {
            "requests for it are refused: see `path_with_escaped_slashes_action` of the listener"
                .to_owned()
        }
        Some(Err(Abnormal::AboveRoot)) => "it leads above the root: leave `..` out".to_owned(),
        Some(Err(Abnormal::Malformed)) => "a `%` that begins no encoding is `%25`".to_owned(),
    };
    let message = "no request has this path: they are matched in normal form".to_owned();
    reporter.warning(&field.span, message, Some(help));
}
