//! The bounds that a request is under, and the client that it is of.

use http::HeaderMap;
use sprat_net::client::{self, ClientKey, Prefixes};
use sprat_net::error::{Denial, Reason};
use sprat_scheduler::counterfactual::Network;
use sprat_scheduler::limits::HeapState;

use crate::client::connection::Connection;
use crate::exchange::record::Record;
use crate::setup::generation::Generation;
use crate::setup::limits::{RateLimiter, no_place};

/// Admits a request, or returns the denial of the bound that it is over. The request keeps
/// its place as long as its record.
pub(super) fn admit(
    connection: &Connection,
    headers: &HeaderMap,
    record: &mut Record,
) -> Result<(), Denial> {
    let overload = connection.serving.overload.as_ref();
    if overload.is_some_and(|overload| overload.state() >= HeapState::NoRequests) {
        return Err(no_place(Reason::HeapFull));
    }
    if let Some(limits) = &connection.listener.shared.limits {
        let place = limits.admit(connection.client.peer.ip(), headers)?;
        record.place = Some(Box::new(place));
    }
    Ok(())
}

/// Admits a request that goes by a route with a rate limit, or returns its denial.
pub(super) fn admit_by_route(
    connection: &Connection,
    rate: &RateLimiter,
    headers: &HeaderMap,
) -> Result<(), Denial> {
    rate.admit(client_of(connection), headers)
}

/// Notes the number of the client that a request is of, where clients share the uplink.
pub(super) fn tell_client(connection: &Connection, headers: &HeaderMap, record: &mut Record) {
    let numbers = record.generation().sharing.as_ref();
    let number = numbers.map(|numbers| numbers.number(|| client_of(connection), headers));
    record.routing.is_of_client(number);
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
