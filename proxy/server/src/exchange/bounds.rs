//! The bounds that a request is under, and the client that it is of.

use http::HeaderMap;
use sprat_net::client::{self, ClientKey, Prefixes};
use sprat_net::error::{Denial, Reason};
use sprat_scheduler::counterfactual::Network;
use sprat_scheduler::limits::HeapState;

use crate::client::connection::Connection;
use crate::setup::generation::Generation;
use crate::setup::limits::{RateLimiter, RequestPlace, no_place};

/// Admits a request, or returns the denial of the bound that it is over. Returns the request's
/// place, where requests in progress are counted.
pub(super) fn admit(
    connection: &Connection,
    headers: &HeaderMap,
) -> Result<Option<RequestPlace>, Denial> {
    let overload = connection.serving.overload.as_ref();
    if overload.is_some_and(|overload| overload.state() >= HeapState::NoRequests) {
        return Err(no_place(Reason::HeapFull));
    }
    match &connection.listener.shared.limits {
        Some(limits) => limits.admit(connection.client.peer.ip(), headers).map(Some),
        None => Ok(None),
    }
}

/// Admits a request that goes by a route with a rate limit, or returns its denial.
pub(super) fn admit_by_route(
    connection: &Connection,
    rate: &RateLimiter,
    headers: &HeaderMap,
) -> Result<(), Denial> {
    rate.admit(client_of(connection), headers)
}

/// Returns the number of the client that a request is of, where clients share the uplink.
pub(super) fn client_number(
    connection: &Connection,
    headers: &HeaderMap,
    generation: &Generation,
) -> Option<u64> {
    let numbers = generation.sharing.as_ref();
    numbers.map(|numbers| numbers.number(|| client_of(connection), headers))
}

/// Returns the network that a connection comes from, where the gain is counted by network.
pub(super) fn network(connection: &Connection, generation: &Generation) -> Option<Network> {
    let per_client = &connection.listener.config.limits.per_client;
    let ip = connection.client.peer.ip();
    generation
        .tells_networks
        .then(|| client::network(per_client, ip))
}

/// Returns the client that a connection is of, cut as its listener says.
fn client_of(connection: &Connection) -> ClientKey {
    let prefixes = Prefixes::new(&connection.listener.config.limits.per_client);
    prefixes.key(connection.client.peer.ip())
}
