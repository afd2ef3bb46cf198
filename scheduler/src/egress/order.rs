//! Which flows stand in the queue, and where: by themselves, or for others of
//! their connection, or of their client.

use super::front::Change;
use super::groups::{GroupId, LaneKey, Precedence};
use super::{AtCapacity, Egress, Flow, FlowId, FlowSpec, MAX_BANDS};
use crate::Time;

impl Egress {
    /// A connection whose client says which of its responses it wants first.
    pub fn open_group(&mut self) -> GroupId {
        self.groups.open()
    }

    /// The connection is gone.
    pub fn close_group(&mut self, now: Time, group: GroupId) {
        for slot in self.groups.close(group) {
            self.enqueue(now, slot);
        }
    }

    /// A new response on a connection that may have others, whose client says
    /// this of it. Where a class bounds how many of its flows are served at a
    /// time, that decides, and what the client says does not count.
    pub fn open_in(
        &mut self,
        now: Time,
        spec: FlowSpec,
        group: GroupId,
        precedence: Precedence,
    ) -> Result<FlowId, AtCapacity> {
        let id = self.open(now, spec)?;
        let flow = &mut self.slots[id.slot as usize];
        if !self.ready.is_limited(flow.class) {
            flow.member = self.groups.member(group, precedence);
        }
        Ok(id)
    }

    /// Puts a flow with bytes to write in its place in the queue.
    pub(super) fn enqueue(&mut self, now: Time, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if flow.is_express {
            self.express.join(slot, flow.view.seq);
            return;
        }
        if self.ranker.takes_turns() {
            let band = usize::from(self.ranker.band(&flow.view));
            let lane = flow.class * MAX_BANDS + band;
            let quantum = self.ready.quantum(&self.pacer, flow.class, flow.cost);
            let wire_bytes = flow.cost.bytes(flow.ready_bytes.min(quantum));
            let turn = (flow.view.turn, wire_bytes);
            flow.view.turn = self.turns.join(&mut flow.part, turn, lane);
        }
        let rank = self.ranker.rank(&flow.view);
        let (key, attained) = (flow.lane_key(), flow.view.attained);
        let change = flow
            .member
            .and_then(|member| (self.groups).insert(member, key, slot, (rank, attained)));
        match change {
            None => self.stand(now, slot),
            Some(change) => self.change(now, change),
        }
    }

    /// Takes a flow out of the queue, if it is in.
    pub(super) fn dequeue(&mut self, now: Time, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        self.turns.leave(&mut flow.part);
        if flow.is_express {
            self.express.leave(slot);
            return;
        }
        self.step_out(now, slot);
        self.leave_group(now, slot);
        self.rest_client(slot);
    }

    /// Puts a flow in the queue by its present rank.
    pub(super) fn stand(&mut self, now: Time, slot: u32) {
        let flow = &self.slots[slot as usize];
        match flow.share {
            Some(share) => self.stand_for_client(now, share, slot),
            None => {
                let rank = self.ranker.rank(&flow.view);
                self.ready.insert(now, flow.class, slot, rank);
            }
        }
        self.join_floor(slot);
    }

    /// Takes a flow out of the queue, but not out of its group.
    pub(super) fn step_out(&mut self, now: Time, slot: u32) {
        let flow = &self.slots[slot as usize];
        match flow.share {
            Some(share) => self.step_out_for_client(now, share, slot),
            None => self.ready.remove(flow.class, slot),
        }
        self.leave_floor(slot);
    }

    /// The flow is not in the queue: another of its group may take its place.
    pub(super) fn leave_group(&mut self, now: Time, slot: u32) {
        let flow = &self.slots[slot as usize];
        let member = flow.member;
        let key = flow.lane_key();
        let change = member.and_then(|member| self.groups.remove(member, key, slot));
        if let Some(change) = change {
            self.change(now, change);
        }
    }

    /// Another flow of a group stands in the queue for it.
    fn change(&mut self, now: Time, change: Change) {
        if let Some(out) = change.out {
            self.step_out(now, out);
        }
        if let Some(slot) = change.into {
            let flow = &mut self.slots[slot as usize];
            flow.view.turn = self.turns.show(&flow.part, flow.view.turn);
            self.stand(now, slot);
        }
    }
}

impl Flow {
    /// With which others of its connection it is compared.
    fn lane_key(&self) -> LaneKey {
        LaneKey {
            class: self.class,
            share: self.share,
        }
    }
}
