//! Faults that are planted in a run and must be found: a check that cannot fail says nothing.

use std::cell::Cell;
use std::net::IpAddr;

use crate::plan::{Plan, RequestPlan};
use crate::{counts, number, world};

/// A planted fault, which no real run may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Planted {
    /// The responses to two requests are exchanged.
    Responses,
    /// The bodies of the responses to two requests are exchanged, and nothing else.
    Bodies,
    /// A byte that the proxy has sent is missing.
    Lost(Way),
    /// A byte that the proxy has sent comes twice.
    Doubled(Way),
    /// The metric of this name is 1 too high at the end.
    Left(&'static str),
    /// The uplink was debited for so many bytes more, or less, than went out.
    Debited(i8),
    /// A request that is not safe comes to a backend twice.
    Repeated,
    /// The first endpoint does not return.
    Gone,
}

/// The direction in which the proxy sends bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    ToClient,
    ToBackend,
}

/// The planted fault of a run, which happens once, if there is one.
pub(crate) struct Plant {
    what: Option<Planted>,
    /// The byte of a connection at which the fault happens.
    at: u64,
    /// The two requests whose responses are exchanged.
    pair: Option<(u64, u64)>,
    is_done: Cell<bool>,
}

impl Plant {
    pub(crate) fn new(plan: &Plan, what: Option<Planted>) -> Self {
        let mut rng = plan.rng("planted", 0);
        let has_body =
            |request: &&RequestPlan| request.method != "HEAD" && request.messages.is_empty();
        let all = plan.clients.iter().flat_map(|client| &client.requests);
        let mut ids: Vec<_> = all.filter(has_body).map(|request| request.id).collect();
        rng.shuffle(&mut ids);
        let magnitude = rng.u32(8..=14);
        Self {
            what,
            at: rng.u64(..1 << magnitude),
            pair: ids.first().copied().zip(ids.get(1).copied()),
            is_done: Cell::new(false),
        }
    }

    /// Returns the request whose response is sent to this one, and the request whose response's
    /// body is.
    pub(crate) fn answered(&self, id: u64) -> (u64, u64) {
        let other = match self.pair {
            Some((one, other)) if id == one => other,
            Some((one, other)) if id == other => one,
            _ => id,
        };
        match self.what {
            Some(Planted::Responses) => (other, other),
            Some(Planted::Bodies) => (id, other),
            _ => (id, id),
        }
    }

    /// Spoils the bytes that have come, if the fault is among them. The first of them is the
    /// connection's byte `from`.
    pub(crate) fn spoil(&self, way: Way, from: u64, bytes: &mut Vec<u8>) {
        let Some(index) = self.at.checked_sub(from) else {
            return;
        };
        let index = index as usize;
        if index >= bytes.len() || self.is_done.get() {
            return;
        }
        match self.what {
            Some(Planted::Lost(own)) if own == way => drop(bytes.remove(index)),
            Some(Planted::Doubled(own)) if own == way => bytes.insert(index, bytes[index]),
            _ => return,
        }
        self.is_done.set(true);
    }

    /// Returns whether a request is treated as one that has come before.
    pub(crate) fn repeats(&self, is_safe: bool) -> bool {
        self.what == Some(Planted::Repeated) && !is_safe && !self.is_done.replace(true)
    }

    pub(crate) fn keeps_away(&self, endpoint: IpAddr) -> bool {
        self.what == Some(Planted::Gone) && endpoint == IpAddr::from([10, 0, 0, 1])
    }

    /// Returns the value of a metric at the end, with the fault added.
    pub(crate) fn counted(&self, name: &str, value: f64) -> f64 {
        match self.what {
            Some(Planted::Left(own)) if own == name => value + 1.0,
            _ => value,
        }
    }

    /// Returns the bytes that the uplink was debited for at the end, with the fault added.
    pub(crate) fn debited(&self, bytes: u64) -> u64 {
        match self.what {
            Some(Planted::Debited(more)) => bytes.saturating_add_signed(more.into()),
            _ => bytes,
        }
    }
}

/// The number of runs within which a planted fault must be found.
const WITHIN: u64 = 16;

/// Checks that a fault is found within [`WITHIN`] runs. If `SEEDS` is set, prints instead how many
/// of so many runs find it.
fn is_found(planted: Planted) {
    let finds = |seed: &u64| !world::run_with(*seed, Some(planted)).wrong.is_empty();
    if let Some(seeds) = number("SEEDS") {
        let found = (0..seeds).filter(finds).count();
        println!("{planted:?}: found in {found} of {seeds} runs");
        return;
    }
    let found = (0..WITHIN).find(finds);
    assert!(found.is_some(), "{planted:?}: not in {WITHIN} runs");
}

#[test]
fn exchanged_responses_are_found() {
    is_found(Planted::Responses);
    is_found(Planted::Bodies);
}

#[test]
fn lost_bytes_are_found() {
    is_found(Planted::Lost(Way::ToClient));
    is_found(Planted::Lost(Way::ToBackend));
}

#[test]
fn doubled_bytes_are_found() {
    is_found(Planted::Doubled(Way::ToClient));
    is_found(Planted::Doubled(Way::ToBackend));
}

/// Checks that what is left is found for each gauge, by the gauge's name.
#[test]
fn what_is_left_is_found() {
    for name in counts::NOTHING_LEFT {
        is_found(Planted::Left(name));
    }
}

/// Checks that wrong debits are found: a lost refund of a segment's headers, and a byte that costs
/// nothing.
#[test]
fn wrong_debits_are_found() {
    is_found(Planted::Debited(66));
    is_found(Planted::Debited(-1));
}

#[test]
fn repetitions_and_endpoints_that_stay_away_are_found() {
    is_found(Planted::Repeated);
    is_found(Planted::Gone);
}
