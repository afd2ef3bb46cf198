//! Clients that share the link, whatever numbers of flows they have.
//!
//! The clients of a class take turns by wire bytes (see `turns.rs`), and each has its own
//! flows go in the discipline's order among themselves. In the queue stands one flow for
//! each client, its best, with the client's turn for a key: so levels and classes come
//! first, as without shares, and one who splits a download into a hundred gains nothing.
//!
//! A client has a place here while it has a flow open in the class. One that comes, or
//! comes back, is due at the round's present time.

use std::collections::BTreeMap;

use super::Egress;
use super::floor::rank_by_age;
use super::front::Change;
use super::held::{Held, Standing};
use super::turns::{Part, Turns};
use crate::Time;
use crate::queue::Rank;

/// The places of clients, by class.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    is_on: bool,
    /// By class, then by the client's number. Flows that nobody has said whose they are
    /// have places that none else finds.
    by_client: Vec<BTreeMap<u64, u32>>,
    places: Vec<Place>,
    vacant: Vec<u32>,
    /// A round for each class.
    turns: Turns,
    standing: Standing,
    /// Flows that are ready and not in the queue.
    hidden: usize,
}

/// A client's place in a class.
#[derive(Clone, Debug)]
struct Place {
    class: u8,
    turn: u64,
    part: Part,
    held: Held,
    /// When one of its flows was granted something last.
    served_at: Time,
}

impl Shares {
    /// No clients. Only those that are on give places.
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

    /// Flows that are ready and not in the queue.
    pub(super) fn hidden(&self) -> usize {
        self.hidden
    }

    /// A flow of this client has been opened; the client's place. See [`Held::enter`] for
    /// the ranks.
    fn enter(
        &mut self,
        (class, client): (usize, Option<u64>),
        slot: u32,
        ranks: impl FnOnce(u32) -> (Rank, Rank),
    ) -> u32 {
        let known = client.and_then(|client| self.by_client[class].get(&client));
        if let Some(&share) = known {
            let held = &mut self.places[share as usize].held;
            held.enter(&mut self.standing, slot, ranks);
            return share;
        }
        let place = Place {
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

    /// A flow of this client is over, and not ready.
    fn leave(&mut self, share: u32, client: Option<u64>, slot: u32) {
        let place = &mut self.places[share as usize];
        if place.held.leave(&mut self.standing, slot) {
            self.turns.leave(&mut place.part);
            if let Some(client) = client {
                self.by_client[usize::from(place.class)].remove(&client);
            }
            self.vacant.push(share);
        }
    }

    /// A flow is ready, or has another rank in the discipline's order.
    fn insert(&mut self, share: u32, slot: u32, rank: Rank) -> Change {
        let place = &mut self.places[share as usize];
        if !place.part.waits() {
            let lane = usize::from(place.class);
            // Due when the clock says so, and no sooner for having little to send:
            // the next of a client's flows may be large, and the client gone
            // before that is its debt.
            let turn = (place.turn, u64::MAX);
            place.turn = self.turns.join(&mut place.part, turn, lane);
        }
        let before = place.held.hidden();
        let change = place.held.insert(&mut self.standing, slot, rank);
        self.hidden = self.hidden + place.held.hidden() - before;
        change
    }

    /// A flow is no longer ready; another of its client's may come in its place.
    fn remove(&mut self, share: u32, slot: u32) -> Change {
        let place = &mut self.places[share as usize];
        let before = place.held.hidden();
        let change = place.held.remove(&mut self.standing, slot);
        self.hidden = self.hidden + place.held.hidden() - before;
        change
    }

    /// A flow that has left the queue is about to be granted something.
    fn take(&mut self, share: u32, slot: u32) {
        let held = &mut self.places[share as usize].held;
        let before = held.hidden();
        held.take(&mut self.standing, slot);
        self.hidden = self.hidden + held.hidden() - before;
    }

    /// A client that has no flow ready is out of its round.
    fn rest(&mut self, share: u32) {
        let place = &mut self.places[share as usize];
        if place.held.is_empty() {
            self.turns.leave(&mut place.part);
        }
    }

    /// A flow that was taken out is granted so much, in its client's turn or
    /// before it: what a refund needs to know. The client's next flow is shown.
    fn grant(&mut self, now: Time, share: u32, wire_bytes: u64, is_early: bool) -> Part {
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
            let (lane, turn) = (usize::from(place.class), (place.turn, u64::MAX));
            place.turn = self.turns.join(&mut place.part, turn, lane);
        }
        let before = place.held.hidden();
        place.held.show();
        self.hidden = self.hidden + place.held.hidden() - before;
        receipt
    }

    /// Of what a flow was granted by this receipt its client did not send so much.
    fn refund(&mut self, share: u32, receipt: &Part, wire_bytes: u64) {
        let place = &mut self.places[share as usize];
        place.turn = self.turns.refund(receipt, place.turn, wire_bytes);
    }

    /// A flow was given more than it was granted by this receipt.
    fn extend(&mut self, share: u32, receipt: &Part, wire_bytes: u64) {
        let place = &mut self.places[share as usize];
        place.turn = self.turns.extend(receipt, place.turn, wire_bytes);
    }
}

impl Egress {
    /// Has the clients that flows are of ([`FlowSpec::client`](crate::FlowSpec::client))
    /// share each class's part of the link, or no longer. Flows of nobody are clients by
    /// themselves. A class with a bound on the flows that are served at a time keeps the
    /// discipline's order, and so does what goes ahead of everything. Under `fair` and
    /// `bands`, which have flows take turns, it changes nothing.
    pub fn share_between_clients(&mut self, now: Time, shares: bool) {
        self.wants_shares = shares;
        if self.shares.is_on() == self.has_shares() {
            return;
        }
        let waiting = |flow: &super::Flow| flow.open && flow.ready_bytes > 0 && !flow.is_express;
        for slot in 0..self.slots.len() as u32 {
            if waiting(&self.slots[slot as usize]) {
                self.dequeue(now, slot);
            }
        }
        self.renew_shares();
        for slot in 0..self.slots.len() as u32 {
            if waiting(&self.slots[slot as usize]) {
                self.enqueue(now, slot);
            }
        }
    }

    /// Clients that have flows open and share the link, counted once in each class; none
    /// if they do not share it.
    pub fn clients(&self) -> Option<usize> {
        let shares = &self.shares;
        shares
            .is_on()
            .then(|| shares.places.len() - shares.vacant.len())
    }

    fn has_shares(&self) -> bool {
        self.wants_shares && !self.ranker.takes_turns()
    }

    /// Gives open flows their places as classes and discipline now are. None of them
    /// may be in the queue.
    pub(super) fn renew_shares(&mut self) {
        if !self.shares.is_on() && !self.has_shares() {
            return;
        }
        self.shares = Shares::new(self.has_shares(), self.orders.len());
        for slot in 0..self.slots.len() as u32 {
            let flow = &mut self.slots[slot as usize];
            flow.part = Part::NONE;
            flow.share = None;
            if flow.open {
                self.enter_share(slot);
            }
        }
    }

    /// Gives a flow that has been opened its client's place, if it is to have one.
    pub(super) fn enter_share(&mut self, slot: u32) {
        let flow = &self.slots[slot as usize];
        if self.shares.is_on() && !flow.is_express && !self.ready.is_limited(flow.class) {
            let whose = (flow.class, flow.client);
            let share = self.shares.enter(whose, slot, |other| {
                let other = &self.slots[other as usize];
                (self.ranker.rank(&other.view), rank_by_age(other))
            });
            self.slots[slot as usize].share = Some(share);
        }
    }

    /// A flow is over, and no longer in the queue.
    pub(super) fn leave_share(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if let Some(share) = flow.share.take() {
            self.shares.leave(share, flow.client, slot);
        }
    }

    /// Puts a flow among those of its client, of which the first is in the queue.
    pub(super) fn stand_for_client(&mut self, now: Time, share: u32, slot: u32) {
        let rank = self.ranker.rank(&self.slots[slot as usize].view);
        let change = self.shares.insert(share, slot, rank);
        self.follow(now, share, change);
    }

    /// Takes a flow from among those of its client; another may be in the queue then.
    pub(super) fn step_out_for_client(&mut self, now: Time, share: u32, slot: u32) {
        let change = self.shares.remove(share, slot);
        self.follow(now, share, change);
    }

    fn follow(&mut self, now: Time, share: u32, change: Change) {
        if let Some(out) = change.out {
            self.ready.remove(self.slots[out as usize].class, out);
        }
        if change.into.is_some() {
            self.show_client(now, share);
        }
    }

    /// Puts a client's first flow in the queue, at the client's present turn.
    fn show_client(&mut self, now: Time, share: u32) {
        let place = &self.shares.places[share as usize];
        let Some(slot) = place.held.shown() else {
            return;
        };
        let flow = &self.slots[slot as usize];
        let rank = Rank {
            level: flow.view.level,
            band: 0,
            key: place.turn,
            seq: flow.view.seq,
        };
        self.ready.insert(now, flow.class, slot, rank);
    }

    /// A flow that the queue has given up is about to be granted something.
    pub(super) fn take_from_client(&mut self, slot: u32) {
        if let Some(share) = self.slots[slot as usize].share {
            self.shares.take(share, slot);
        }
    }

    /// A flow has nothing to send: a client of whom that was all is out of its round.
    pub(super) fn rest_client(&mut self, slot: u32) {
        if let Some(share) = self.slots[slot as usize].share {
            self.shares.rest(share);
        }
    }

    /// Charges what a flow is granted to its turn, or to its client's.
    pub(super) fn charge(&mut self, now: Time, slot: u32, wire_bytes: u64) {
        let flow = &mut self.slots[slot as usize];
        let Some(share) = flow.share else {
            let turn = flow.view.turn;
            flow.view.turn = self.turns.grant(&mut flow.part, turn, wire_bytes);
            return;
        };
        flow.part = self.shares.grant(now, share, wire_bytes, flow.by_floor);
        self.show_client(now, share);
        self.renew_age(share);
    }

    /// Charges what a flow was given beyond its grant.
    pub(super) fn charge_more(&mut self, now: Time, slot: u32, wire_bytes: u64) {
        let flow = &mut self.slots[slot as usize];
        let Some(share) = flow.share else {
            let turn = flow.view.turn;
            flow.view.turn = self.turns.extend(&flow.part, turn, wire_bytes);
            return;
        };
        self.shares.extend(share, &flow.part, wire_bytes);
        self.show_client(now, share);
    }

    /// Gives back what a flow was charged and did not send.
    pub(super) fn discharge(&mut self, now: Time, slot: u32, wire_bytes: u64) {
        let flow = &mut self.slots[slot as usize];
        let Some(share) = flow.share else {
            let turn = flow.view.turn;
            flow.view.turn = self.turns.refund(&flow.part, turn, wire_bytes);
            return;
        };
        self.shares.refund(share, &flow.part, wire_bytes);
        self.show_client(now, share);
    }
}

// The floor, which is for clients in turn: one with many flows that wait has no more of
// it than one with a single one.
impl Egress {
    /// A flow waits, with this rank by age.
    pub(super) fn join_age(&mut self, share: u32, slot: u32, rank: Rank) {
        let held = &mut self.shares.places[share as usize].held;
        held.join_age(&mut self.shares.standing, slot, rank);
        self.renew_age(share);
    }

    /// A flow no longer waits.
    pub(super) fn leave_age(&mut self, share: u32, slot: u32) {
        let held = &mut self.shares.places[share as usize].held;
        if held.leave_age(&mut self.shares.standing, slot) {
            self.renew_age(share);
        }
    }

    /// Ranks a client by when it was served last, or its oldest flow takes part.
    fn renew_age(&mut self, share: u32) {
        if self.floor.is_off() {
            return;
        }
        let place = &self.shares.places[share as usize];
        let lane = self.floor_lane(usize::from(place.class));
        match place.held.oldest() {
            None => self.floor.remove(lane, share),
            Some(slot) => {
                let rank = rank_by_age(&self.slots[slot as usize]);
                let key = rank.key.max(place.served_at.as_nanos());
                self.floor.insert(lane, share, Rank { key, ..rank });
            }
        }
    }

    /// Of the client with this place, the flow that has gone longest without a grant.
    pub(super) fn oldest_of_client(&self, share: u32) -> Option<u32> {
        self.shares.places.get(share as usize)?.held.oldest()
    }

    /// No flow waits for the floor any more: those that do are to be inserted anew.
    pub(super) fn forget_ages(&mut self) {
        let shares = &mut self.shares;
        for place in &mut shares.places {
            while let Some(slot) = place.held.oldest() {
                place.held.leave_age(&mut shares.standing, slot);
            }
        }
    }
}
