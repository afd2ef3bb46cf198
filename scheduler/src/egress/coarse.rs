//! For drivers that cannot cut what they have to write: an Envoy filter lets a
//! chunk go whole, or holds it.

use super::{Egress, FlowId, flow_mut};
use crate::Time;

impl Egress {
    /// `flow` writes `bytes` more than it was just granted, because it cannot
    /// write less. They are debited and count as granted: whoever is next
    /// waits for them too, and [`Egress::sent`] tells what became of them.
    pub fn extend(&mut self, now: Time, id: FlowId, bytes: u64) {
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        let before = flow.cost.bytes(flow.granted_bytes);
        flow.granted_bytes = flow.granted_bytes.saturating_add(bytes);
        let wire_bytes = flow.cost.bytes(flow.granted_bytes) - before;
        let class = flow.class;
        let is_express = flow.is_express;
        self.charge_more(now, id.slot, wire_bytes);
        self.pacer.debit(now, wire_bytes);
        if !is_express {
            self.ready.debit(now, class, wire_bytes, &self.pacer);
            self.count_for_floor(now, id.slot, wire_bytes, false);
        }
        self.class_stats[class].granted_bytes += bytes;
        self.stats.granted_bytes += bytes;
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(wire_bytes);
        self.recount(id.slot);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Discipline, Egress, EgressConfig, FlowSpec, Grant, Pacer, Size, Time, WireCost};

    const MBIT: u64 = 1_000_000;

    fn egress(discipline: Discipline) -> Egress {
        Egress::new(EgressConfig {
            discipline,
            pacer: Pacer::exact(10 * MBIT),
            max_flows: 8,
            guard_factor: 4.0,
            classes: Vec::new(),
        })
    }

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    fn spec(bytes: u64) -> FlowSpec {
        FlowSpec {
            class: 0,
            size: Size::Exact(bytes),
            cost: WireCost::ETHERNET_IPV4,
            client: None,
        }
    }

    /// Who is granted first, once the link is free.
    fn next(egress: &mut Egress, now: Time) -> crate::FlowId {
        match egress.grant(now) {
            Grant::Send { flow, .. } => flow,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_chunk_is_debited_as_one_grant_of_its_size_would_be() {
        let mut egress = egress(Discipline::Srpt);
        let flow = egress.open(at(0), spec(4096)).unwrap();
        egress.ready(at(0), flow, 4096);
        assert_eq!(egress.grant(at(0)), Grant::Send { flow, bytes: 1448 });
        egress.extend(at(0), flow, 4096 - 1448);
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(4096);
        assert_eq!(egress.stats().wire_bytes, wire_bytes);
        assert_eq!(egress.stats().granted_bytes, 4096);
        let until = at(0) + egress.pacer().time_for(wire_bytes);
        assert_eq!(egress.pacer().next_grant_at(), until);
        // What the client left without is given back.
        egress.close(at(0), flow);
        assert_eq!(egress.stats().wire_bytes, 0);
        assert_eq!(egress.stats().granted_bytes, 0);
        assert_eq!(egress.class_stats()[0].granted_bytes, 0);
    }

    #[test]
    fn what_was_written_whole_counts_as_attained() {
        let mut egress = egress(Discipline::Srpt);
        let large = egress.open(at(0), spec(10_000)).unwrap();
        egress.ready(at(0), large, 9_000);
        assert_eq!(next(&mut egress, at(0)), large);
        egress.extend(at(0), large, 9_000 - 1448);
        egress.sent(at(0), large, u64::MAX);
        // 1,000 left against 2,000: the large one has become the smaller.
        let small = egress.open(at(0), spec(2_000)).unwrap();
        egress.ready(at(0), small, 2_000);
        egress.ready(at(0), large, 1_000);
        assert_eq!(next(&mut egress, at(100_000)), large);
    }

    #[test]
    fn extending_a_flow_that_is_gone_does_nothing() {
        let mut egress = egress(Discipline::Srpt);
        let flow = egress.open(at(0), spec(10)).unwrap();
        egress.close(at(0), flow);
        egress.extend(at(0), flow, 10_000);
        assert_eq!(egress.stats().wire_bytes, 0);
    }
}
