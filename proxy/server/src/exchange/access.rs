//! The checks of whether a client may use a route: pages of other origins, users with
//! passwords, a server that is asked, rules.

mod authz;
mod basic;

use http::request::Parts;
use sprat_net::error::Reason;
use sprat_net::headers::Head;

use super::chosen::Chosen;
use super::local::{Local, NotForwarded};
use crate::exchange::record::Routing;
use crate::setup::routing::Access;

/// Checks whether a client may use its route. What endpoints are told of the user is put
/// into the request's head.
///
/// # Errors
///
/// Fails if the client may not, or if a browser asks what a page may do, which Sprat answers.
pub(super) async fn check(
    access: &Access,
    chosen: &Chosen<'_>,
    parts: &mut Parts,
    terms: &mut Routing,
) -> Result<(), NotForwarded> {
    if let Some(cors) = &access.cors {
        terms.grant(Box::new(cors.grant(&parts.headers)));
        if let Some(answered) = cors.preflight(&parts.method, &parts.headers) {
            let mut local = Local::bare(answered?);
            let mut told = http::HeaderMap::new();
            cors.answer_preflight(&mut told);
            local.fields = told
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            return Err(NotForwarded::Answered(Box::new(local)));
        }
    }
    // What is decided without the user costs no hash, and asks no server.
    if !access.asks_for_user() {
        obey(access, chosen, parts, None)?;
    }
    if let Some(basic) = &access.basic {
        basic::check(basic, parts, terms).await?;
    }
    if let Some(authz) = &access.authz {
        authz::check(authz, chosen, parts, terms).await?;
    }
    if access.asks_for_user() {
        obey(access, chosen, parts, terms.user())?;
    }
    Ok(())
}

/// Refuses a request that the route's rules do not allow.
fn obey(
    access: &Access,
    chosen: &Chosen<'_>,
    parts: &Parts,
    user: Option<&str>,
) -> Result<(), Reason> {
    let fields = Head(&parts.headers);
    let allowed = access.allows(&chosen.asked_by(parts, &fields, user));
    allowed.then_some(()).ok_or(Reason::Forbidden)
}
