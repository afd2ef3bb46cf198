//! Another order for an uplink in use.

use super::{Egress, EgressChange, MAX_BANDS, MAX_CLASSES, Part, Ready, Turns};
use crate::classes::ClassSpec;
use crate::discipline::Ranker;
use crate::{EgressClassStats, Time};

impl Egress {
    /// Orders by something else from now on. Open flows stay, each in the
    /// class of its number; those that wait get their place in the new order,
    /// and a round robin begins anew, of flows or of clients. Nothing that was debited is forgotten, and
    /// who has begun keeps the place in its class's pool.
    pub fn reconfigure(&mut self, now: Time, change: EgressChange) {
        let EgressChange {
            discipline,
            max_flows,
            guard_factor,
            mut classes,
        } = change;
        self.max_flows = max_flows.min(u32::MAX as usize - 1);
        self.express.set_guard_factor(guard_factor);
        if *self.ranker.discipline() != discipline {
            self.ranker = Ranker::new(discipline);
        }
        // A flow's class is never without a place.
        let known = self.orders.len();
        classes.truncate(MAX_CLASSES);
        classes.resize(classes.len().max(known), ClassSpec::default());
        let count = classes.len();
        let mut unused = self.pacer.clone();
        unused.resume_at(Time::ZERO);
        let mut ready = Ready::new(&classes, &unused);
        ready.take_over(now, &self.ready);
        self.ready = ready;
        self.groups.clear();
        self.orders = classes.iter().map(|c| (c.idle_only, c.level)).collect();
        self.class_stats.resize(count, EgressClassStats::default());
        self.unsent_bytes.resize(count, 0);
        self.turns = Turns::new(count * MAX_BANDS);
        for _ in 0..self.announced {
            self.ready.announce(now);
        }
        for (slot, flow) in (0..).zip(&mut self.slots) {
            if !flow.open {
                continue;
            }
            self.ready.open(now, flow.class);
            if self.ready.is_limited(flow.class) && !flow.is_express {
                flow.member = None;
                if flow.begun {
                    self.ready.seat(flow.class, slot);
                }
            }
        }
        self.renew_shares();
        // All that wait get their place in the present order.
        for slot in 0..self.slots.len() as u32 {
            let flow = &mut self.slots[slot as usize];
            flow.view.level = self.orders[flow.class].1;
            flow.part = Part::NONE;
            if flow.open && flow.ready_bytes > 0 {
                self.enqueue(now, slot);
            }
        }
        self.renew_floor(now);
    }
}
