//! Which bounds a request is under, and whose it is.

use http::HeaderMap;
use sprat_net::client::{self, ClientKey, Prefixes};
use sprat_net::error::{Denial, Reason};
use sprat_scheduler::counterfactual::Network;
use sprat_scheduler::limits::HeapState;

use crate::client::connection::Connection;
use crate::exchange::record::Record;
use crate::setup::generation::Generation;
use crate::setup::limits::{RateLimiter, no_place};

/// Takes a request, or says which bound it is over; it keeps its place as long
/// as its record.
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

/// Takes a request that goes by a route with a rate limit.
pub(super) fn admit_by_route(
    connection: &Connection,
    rate: &RateLimiter,
    headers: &HeaderMap,
) -> Result<(), Denial> {
    rate.admit(client_of(connection), headers)
}

/// Notes whose a request is, where clients share the uplink.
pub(super) fn tell_client(connection: &Connection, headers: &HeaderMap, record: &mut Record) {
    let numbers = record.generation().sharing.as_ref();
    let number = numbers.map(|numbers| numbers.number(|| client_of(connection), headers));
    record.routing.is_of_client(number);
}

/// Returns the network that a connection comes from, where the gain is told by that.
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
