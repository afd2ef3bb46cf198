//! The checks on requests that a route names.

use super::actions::{header_values, values};
use super::classes::certificate;
use super::cluster_names::Known;
use super::values::{count, each, each_given, file, maybe, time};
use crate::actions::is_of_connection;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{Access, BasicAuth, Cors, ExtAuthz, RbacRule};

/// Resolves the checks that a route makes before it passes requests on.
pub(super) fn access(
    raw: &raw::Route,
    known: &mut Known<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<Access> {
    let ext_authz = match raw.ext_authz.optional()? {
        Some(own) => ext_authz(own, known, reporter).map(Some),
        None => Some(None),
    };
    let rules = raw.rbac.get()?.0.iter();
    let rbac: Option<Vec<_>> = rules.map(|own| rule(own.get()?, reporter)).collect();
    let knows_users = raw.basic_auth.given
        || (ext_authz.as_ref())
            .is_some_and(|own| own.as_ref().is_some_and(|own| own.user_header.is_some()));
    for own in raw.rbac.get()?.0.iter().filter_map(|own| own.get()) {
        if own.users.given && !knows_users && ext_authz.is_some() {
            let message = "nothing finds out here who the user is".to_owned();
            let help = "give the route `basic_auth`, or `ext_authz` with a `user_header`";
            reporter.error(&own.users.span, message, Some(help.to_owned()));
            return None;
        }
    }
    Some(Access {
        cors: maybe(raw.cors.optional()?, |own| cors(own, reporter))?,
        basic_auth: maybe(raw.basic_auth.optional()?, |own| basic_auth(own))?,
        ext_authz: ext_authz?,
        rbac: rbac?,
    })
}

fn rule(raw: &raw::RbacRule, reporter: &mut Reporter<'_>) -> Option<RbacRule> {
    let headers = raw.headers.optional()?.map_or(&[][..], |list| &list.0);
    Some(RbacRule {
        verdict: raw.action.copied()?,
        clients: each_given(&raw.clients, |cidr| Some(cidr.0))?,
        certificate: maybe(raw.client_certificate.optional()?, certificate)?,
        headers: values(headers, true, reporter)?,
        users: each_given(&raw.users, |user| Some(user.0.clone()))?,
    })
}

fn basic_auth(raw: &raw::BasicAuth) -> Option<BasicAuth> {
    let header = raw.forward_username_header.optional()?;
    Some(BasicAuth {
        users_file: file(&raw.users_file)?,
        realm: raw.realm.get()?.0.clone(),
        username_header: header.map(|name| name.0.clone()),
        cache_ttl: raw.cache_ttl.get()?.value().map(|time| time.0),
        max_concurrent_hashes: count(&raw.max_concurrent_hashes)?,
        max_waiting: count(&raw.max_waiting)?,
    })
}

fn ext_authz(
    raw: &raw::ExtAuthz,
    known: &mut Known<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<ExtAuthz> {
    let cluster = known.cluster(&raw.cluster, reporter);
    let lower = |name: &crate::patterns::HeaderName| Some(name.0.to_ascii_lowercase());
    let told = each(&raw.allowed_headers, lower)?;
    if let Some(name) = told.iter().find(|name| is_of_connection(name)) {
        let message = format!("`{name}` is about the client's message and connection");
        let help = "remove it: the question has no body, and a connection of its own".to_owned();
        reporter.error(&raw.allowed_headers.span, message, Some(help));
        return None;
    }
    Some(ExtAuthz {
        cluster: cluster?,
        path: raw.path.get()?.0.clone(),
        timeout: time(&raw.timeout)?,
        told,
        added: header_values(&raw.headers_to_add, true, reporter)?,
        allowed_upstream_headers: each(&raw.allowed_upstream_headers, |name| Some(name.0.clone()))?,
        user_header: raw.user_header.optional()?.and_then(lower),
        failure_mode_allow: raw.failure_mode_allow.copied()?.0,
    })
}

fn cors(raw: &raw::Cors, reporter: &mut Reporter<'_>) -> Option<Cors> {
    let name = |name: &crate::patterns::HeaderName| Some(name.0.clone());
    let cors = Cors {
        origins: each(&raw.allow_origins, |own| Some(own.0.clone()))?,
        methods: each(&raw.allow_methods, |method| Some(method.0.clone()))?,
        headers: each(&raw.allow_headers, name)?,
        exposed: each(&raw.expose_headers, name)?,
        credentials: raw.allow_credentials.copied()?.0,
        max_age: raw.max_age.copied()?.0,
    };
    if cors.credentials && cors.origins.contains(&crate::resolved::AllowedOrigin::Any) {
        let message = "every page could act as the user that it is shown to".to_owned();
        let help = "list the origins, or leave `allow_credentials` out";
        reporter.error(&raw.allow_credentials.span, message, Some(help.to_owned()));
        return None;
    }
    Some(cors)
}
