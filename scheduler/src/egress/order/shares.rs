//! Clients that share the link, whatever numbers of flows they have.
//!
//! The clients of a class take turns by wire bytes (see `turns.rs`). The flows of one client go
//! in the discipline's order among themselves. One flow stands in the queue for each client, its
//! best, with the client's turn for a key. So levels and classes come first, as without shares,
//! and a client that splits a download into a hundred gains nothing.
//!
//! A client has a place here while it has a flow open in the class. One that comes, or comes
//! back, is due at the round's present time.

use std::collections::BTreeMap;

use super::front::FrontChange;
use super::held::{Held, Standing};
use super::turns::{Newcomer, Part, Turns};
use crate::Time;
use crate::queue::Rank;

/// The places of clients, by class.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    is_on: bool,
    /// The index of each client's place, by class, then by the client's number. A flow whose
    /// client is not known has a place that no other flow finds.
    by_client: Vec<BTreeMap<u64, u32>>,
    places: Vec<ClientPlace>,
    vacant: Vec<u32>,
    /// The rounds of the clients, one for each class.
    turns: Turns,
    standing: Standing,
    /// The number of flows that are ready and not in the queue.
    hidden: usize,
}

/// A client's place in a class.
#[derive(Clone, Debug)]
struct ClientPlace {
    class: u8,
    turn: u64,
    part: Part,
    held: Held,
    /// The time of the last grant to a flow of the client.
    served_at: Time,
}

impl Shares {
    /// Creates shares without clients. Only shares that are on give places.
    pub(super) fn new(is_on: bool, classes: usize) -> Self {
        let classes = if is_on { classes } else { 0 };
        Self {
            is_on,
            by_client: vec![BTreeMap::new(); classes],
            places: Vec::new(),
            vacant: Vec::new(),
            turns: Turns::new(classes),
            standing: Standing::default(),
            hidden: 0,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Counts the flows that are ready and not in the queue.
    pub(super) fn hidden(&self) -> usize {
        self.hidden
    }

    /// Takes in a client's flow that is opened, and returns the client's place. See
    /// [`Held::enter`] for the ranks.
    pub(super) fn enter(
        &mut self,
        class: usize,
        client: Option<u64>,
        slot: u32,
        ranks: impl FnOnce(u32) -> (Rank, Rank),
    ) -> u32 {
        let known = client.and_then(|client| self.by_client[class].get(&client));
        if let Some(&share) = known {
            let held = &mut self.places[share as usize].held;
            held.enter(&mut self.standing, slot, ranks);
            return share;
        }
        let place = ClientPlace {
            // Classes are few.
            class: class as u8,
            turn: 0,
            part: Part::NONE,
            held: Held::one(slot),
            served_at: Time::ZERO,
        };
        let share = match self.vacant.pop() {
            Some(share) => {
                self.places[share as usize] = place;
                share
            }
            None => {
                if self.places.len() == self.places.capacity() {
                    // Twice as many would be twice the memory.
                    self.places.reserve_exact(self.places.len() / 8 + 8);
                }
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        };
        if let Some(client) = client {
            self.by_client[class].insert(client, share);
        }
        share
    }

    /// Lets go of a client's flow that is over, and not ready.
    pub(super) fn leave(&mut self, share: u32, client: Option<u64>, slot: u32) {
        let place = &mut self.places[share as usize];
        if place.held.leave(&mut self.standing, slot) {
            self.turns.leave(&mut place.part);
            if let Some(client) = client {
                self.by_client[usize::from(place.class)].remove(&client);
            }
            self.vacant.push(share);
        }
    }

    /// Makes a flow ready, or gives it another rank in the discipline's order.
    pub(super) fn insert(&mut self, share: u32, slot: u32, rank: Rank) -> FrontChange {
        let place = &mut self.places[share as usize];
        if !place.part.waits() {
            let lane = usize::from(place.class);
            // Due when the clock says so, and no sooner for having little to send:
            // the next of a client's flows may be large, and the client gone
            // before that is its debt.
            place.turn = self
                .turns
                .join(&mut place.part, Newcomer::at(place.turn), lane);
        }
        let before = place.held.hidden();
        let change = place.held.insert(&mut self.standing, slot, rank);
        self.hidden = self.hidden + place.held.hidden() - before;
        change
    }

    /// Removes a flow from the ready ones; another of its client's may come in its place.
    pub(super) fn remove(&mut self, share: u32, slot: u32) -> FrontChange {
        let place = &mut self.places[share as usize];
        let before = place.held.hidden();
        let change = place.held.remove(&mut self.standing, slot);
        self.hidden = self.hidden + place.held.hidden() - before;
        change
    }

    /// Removes from the ready ones a flow that has left the queue and is about to be granted
    /// bytes.
    pub(super) fn take(&mut self, share: u32, slot: u32) {
        let held = &mut self.places[share as usize].held;
        let before = held.hidden();
        held.take(&mut self.standing, slot);
        self.hidden = self.hidden + held.hidden() - before;
    }

    /// Takes a client that has no flow ready out of its round.
    pub(super) fn rest(&mut self, share: u32) {
        let place = &mut self.places[share as usize];
        if place.held.is_empty() {
            self.turns.leave(&mut place.part);
        }
    }

    /// Charges a client with a grant to a flow that was taken out, in the client's turn or before
    /// it (`is_early`). Makes the client's next flow the one in the queue, and returns the
    /// receipt that a refund needs.
    pub(super) fn grant(&mut self, now: Time, share: u32, wire_bytes: u64, is_early: bool) -> Part {
        let place = &mut self.places[share as usize];
        let (part, turn) = (&mut place.part, place.turn);
        place.turn = match is_early {
            true => self.turns.grant_early(part, turn, wire_bytes),
            false => self.turns.grant(part, turn, wire_bytes),
        };
        place.served_at = now;
        let receipt = place.part.receipt();
        if place.held.is_empty() {
            self.turns.leave(&mut place.part);
            return receipt;
        }
        if !place.part.waits() {
            // It waits on, and keeps its turn.
            let lane = usize::from(place.class);
            place.turn = self
                .turns
                .join(&mut place.part, Newcomer::at(place.turn), lane);
        }
        let before = place.held.hidden();
        place.held.show();
        self.hidden = self.hidden + place.held.hidden() - before;
        receipt
    }

    /// Takes back from a client the bytes that its flow did not send of the receipt's grant.
    pub(super) fn refund(&mut self, share: u32, receipt: &Part, wire_bytes: u64) {
        let place = &mut self.places[share as usize];
        place.turn = self.turns.refund(receipt, place.turn, wire_bytes);
    }

    /// Charges a client with the bytes that its flow was given beyond the receipt's grant.
    pub(super) fn extend(&mut self, share: u32, receipt: &Part, wire_bytes: u64) {
        let place = &mut self.places[share as usize];
        place.turn = self.turns.extend(receipt, place.turn, wire_bytes);
    }

    /// Counts the clients that have flows open, once in each class; none if they do not
    /// share the link.
    pub(super) fn clients(&self) -> Option<usize> {
        self.is_on.then(|| self.places.len() - self.vacant.len())
    }

    /// Returns the class of a client's place.
    pub(super) fn class(&self, share: u32) -> usize {
        usize::from(self.places[share as usize].class)
    }

    /// Returns the flow that stands in the queue for a client, and the client's turn.
    pub(super) fn shown(&self, share: u32) -> Option<(u32, u64)> {
        let place = &self.places[share as usize];
        place.held.shown().map(|slot| (slot, place.turn))
    }

    /// Lets a flow take part in the floor among those of its client, with this rank by age.
    pub(super) fn join_age(&mut self, share: u32, slot: u32, rank: Rank) {
        let held = &mut self.places[share as usize].held;
        held.join_age(&mut self.standing, slot, rank);
    }

    /// Takes a flow out of the floor; returns whether it took part.
    pub(super) fn leave_age(&mut self, share: u32, slot: u32) -> bool {
        let held = &mut self.places[share as usize].held;
        held.leave_age(&mut self.standing, slot)
    }

    /// Returns the flow of a client that has gone longest without a grant, and when the
    /// client was served last.
    pub(super) fn oldest(&self, share: u32) -> Option<(u32, Time)> {
        let place = self.places.get(share as usize)?;
        place.held.oldest().map(|slot| (slot, place.served_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(slot: u32) -> Rank {
        Rank {
            level: 0,
            band: 0,
            key: 0,
            seq: u64::from(slot),
        }
    }

    /// Opens a client's first flow, which is ready.
    fn come(shares: &mut Shares, client: u64) -> u32 {
        let slot = client as u32;
        let share = shares.enter(0, Some(client), slot, |slot| (rank(slot), rank(slot)));
        shares.insert(share, slot, rank(slot));
        share
    }

    #[test]
    fn room_grows_by_an_eighth() {
        let mut shares = Shares::new(true, 1);
        let mut rooms = std::collections::BTreeSet::new();
        for client in 0..10_000 {
            come(&mut shares, client);
            let (most, room) = (shares.places.len(), shares.places.capacity());
            assert!(room <= most + most / 8 + 8, "{room} for {most}");
            rooms.insert(room);
        }
        // A logarithm of the number: 8 times 1.125 to the 50th are some 2,900.
        assert!((20..100).contains(&rooms.len()), "{}", rooms.len());
    }

    #[test]
    fn clients_are_counted_while_they_have_flows_open() {
        let mut shares = Shares::new(true, 2);
        assert_eq!(shares.clients(), Some(0));
        let own = [0, 1, 2].map(|client| come(&mut shares, client));
        assert_eq!(shares.clients(), Some(3));
        shares.remove(own[1], 1);
        shares.leave(own[1], Some(1), 1);
        assert_eq!(shares.clients(), Some(2));
        let there = shares.enter(1, Some(0), 9, |slot| (rank(slot), rank(slot)));
        assert_eq!((shares.class(there), shares.class(own[0])), (1, 0));
        assert_eq!(shares.clients(), Some(3));
        assert_eq!(Shares::new(false, 2).clients(), None);
    }

    #[test]
    fn what_is_written_beyond_a_grant_is_of_the_clients_turn() {
        let mut shares = Shares::new(true, 1);
        let own = [0, 1].map(|client| come(&mut shares, client));
        shares.take(own[0], 0);
        let receipt = shares.grant(Time::ZERO, own[0], 100, false);
        shares.extend(own[0], &receipt, 50);
        shares.insert(own[0], 0, rank(0));
        assert_eq!(shares.shown(own[0]), Some((0, 150)));
        assert_eq!(shares.shown(own[1]), Some((1, 0)));
    }

    /// Checks that a client that has no flow ready is out of its round, however many it has open.
    #[test]
    fn a_client_that_has_rested_is_due_when_it_is_back() {
        for more in [0, 2] {
            let mut shares = Shares::new(true, 1);
            let own = [0, 1].map(|client| come(&mut shares, client));
            for slot in 2..2 + more {
                let ranks = |slot| (rank(slot), rank(slot));
                shares.enter(0, Some(1), slot, ranks);
            }
            shares.remove(own[1], 1);
            shares.rest(own[1]);
            for _ in 0..4 {
                shares.take(own[0], 0);
                shares.grant(Time::ZERO, own[0], 100, false);
                shares.insert(own[0], 0, rank(0));
            }
            shares.insert(own[1], 1, rank(1));
            // The last grant is being served.
            assert_eq!(shares.shown(own[1]), Some((1, 300)), "{more}");
        }
    }

    /// Checks that a client that waits keeps the turn that a refund leaves it with, even one
    /// before the turn served last.
    #[test]
    fn what_is_given_back_late_is_of_the_clients_turn() {
        let mut shares = Shares::new(true, 1);
        let own = [0, 1].map(|client| come(&mut shares, client));
        for slot in [10, 20, 30] {
            shares.enter(0, Some(0), slot, |slot| (rank(slot), rank(slot)));
            shares.insert(own[0], slot, rank(slot));
        }
        shares.take(own[0], 0);
        let receipt = shares.grant(Time::ZERO, own[0], 100, false);
        for (client, slot, wire_bytes) in [(1, 1, 200), (0, 10, 50), (0, 20, 50)] {
            shares.take(own[client], slot);
            shares.grant(Time::ZERO, own[client], wire_bytes, false);
        }
        // Served at 0, 100 and 150.
        assert_eq!(shares.shown(own[0]), Some((30, 200)));
        shares.refund(own[0], &receipt, 100);
        shares.insert(own[0], 0, rank(0));
        assert_eq!(shares.shown(own[0]), Some((0, 100)));
    }

    #[test]
    fn a_client_that_has_another_flow_ready_waits_on() {
        let mut shares = Shares::new(true, 1);
        let own = [0, 1].map(|client| come(&mut shares, client));
        for (client, share) in own.into_iter().enumerate() {
            for more in 1..4 {
                let slot = 10 * more + client as u32;
                let ranks = |slot| (rank(slot), rank(slot));
                shares.enter(0, Some(client as u64), slot, ranks);
                shares.insert(share, slot, rank(slot));
            }
        }
        for (share, slot) in [(0, 0), (1, 1), (0, 10), (1, 11)] {
            shares.take(own[share], slot);
            shares.grant(Time::ZERO, own[share], 100, false);
        }
        let new = come(&mut shares, 9);
        // Three grants of 100 among two.
        assert_eq!(shares.shown(new), Some((9, 150)));
    }
}
