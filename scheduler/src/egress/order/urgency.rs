//! The urgency of an uplink's next flow. It is for several uplinks of one policy that send on one
//! link, each with flows of its own, such as the workers of a host that lets them share little.

use super::FlowOrder;
use crate::{Discipline, Time};

/// The urgency of an uplink's first flow: the least goes first. The order of the fields is
/// the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    /// The priority level of the flow's class; `u8::MAX` if the class takes what others leave.
    pub level: u8,
    /// The flow's size class, for disciplines that have them.
    pub band: u8,
    /// The key by which the discipline orders inside a level and band. It is 0 if that means
    /// nothing beyond one uplink, as an order of arrival or a round does.
    pub key: u64,
}

impl FlowOrder {
    /// Returns the urgency of the flow that a grant would go to once the link is free.
    pub(crate) fn urgency(&self, now: Time) -> Option<Urgency> {
        if self.express.len() > 0 {
            let (level, band, key) = (0, 0, 0);
            return Some(Urgency { level, band, key });
        }
        let (idle_only, rank) = self.ready.first(now)?;
        let key = match self.ranker.discipline() {
            // What goes by turns among clients.
            _ if self.shares.is_on() => 0,
            Discipline::Srq(_) if self.ranker.takes_turns() => 0,
            Discipline::Edf | Discipline::Vrd | Discipline::Srq(_) => rank.key,
            Discipline::Srpt | Discipline::SrptAged { .. } | Discipline::Las => rank.key,
            Discipline::Fcfs | Discipline::Fair | Discipline::Bands(_) | Discipline::Sfd(_) => 0,
        };
        Some(Urgency {
            level: if idle_only { u8::MAX } else { rank.level },
            band: rank.band,
            key,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        ClassSpec, Cutoffs, Discipline, Egress, EgressPolicy, FlowSpec, Lane, Pacer, Size, Time,
        WireCost, srq,
    };

    use super::Urgency;

    fn egress(discipline: Discipline, classes: Vec<ClassSpec>) -> Egress {
        let policy = EgressPolicy {
            classes,
            ..EgressPolicy::new(discipline)
        };
        Egress::new(Pacer::exact(8_000_000), policy)
    }

    fn ready(egress: &mut Egress, class: usize, bytes: u64) {
        let spec = FlowSpec::new(class, Size::Exact(bytes), WireCost::ETHERNET_IPV4);
        let flow = egress.open(Time::ZERO, spec).unwrap();
        egress.offer(Time::ZERO, flow, bytes);
    }

    #[test]
    fn it_is_that_of_the_first_who_is_ready() {
        let mut egress = egress(Discipline::Srpt, Vec::new());
        assert_eq!(egress.urgency(Time::ZERO), None);
        ready(&mut egress, 0, 9_000);
        ready(&mut egress, 0, 700);
        let (level, band, key) = (0, 0, 700);
        assert_eq!(
            egress.urgency(Time::ZERO),
            Some(Urgency { level, band, key })
        );
    }

    #[test]
    fn rounds_and_arrivals_are_not_compared() {
        for discipline in [Discipline::Fcfs, Discipline::Fair] {
            let mut egress = egress(discipline, Vec::new());
            ready(&mut egress, 0, 9_000);
            assert_eq!(egress.urgency(Time::ZERO).unwrap().key, 0);
        }
        let mut small = egress(Discipline::Bands(Cutoffs::paper()), Vec::new());
        let mut large = small.clone();
        ready(&mut small, 0, 900);
        ready(&mut large, 0, 90_000);
        assert!(small.urgency(Time::ZERO) < large.urgency(Time::ZERO));
    }

    /// Returns the key of the only flow after its first grant, with more left to send.
    fn key_after_a_grant(mut egress: Egress) -> u64 {
        let spec = FlowSpec::new(0, Size::Exact(9_000), WireCost::ETHERNET_IPV4);
        let flow = egress.open(Time::ZERO, spec).unwrap();
        egress.offer(Time::ZERO, flow, 9_000);
        egress.grant(Time::ZERO);
        egress.written(Time::ZERO, flow, 1_448);
        egress.offer(Time::ZERO, flow, 9_000 - 1_448);
        egress.urgency(Time::ZERO).unwrap().key
    }

    #[test]
    fn nor_are_rounds_of_clients_and_of_srq_while_it_is_off() {
        let srq = |trigger| {
            let config = srq::Config {
                trigger,
                ..srq::Config::bytes()
            };
            egress(Discipline::Srq(Box::new(config)), Vec::new())
        };
        assert_eq!(key_after_a_grant(srq(srq::Trigger::Waiting(9))), 0);
        assert_ne!(key_after_a_grant(srq(srq::Trigger::Always)), 0);
        let left = key_after_a_grant(egress(Discipline::Srpt, Vec::new()));
        assert_eq!(left, 9_000 - 1_448);
        let policy = EgressPolicy {
            share_between_clients: true,
            ..EgressPolicy::new(Discipline::Srpt)
        };
        let shared = Egress::new(Pacer::exact(8_000_000), policy);
        assert_eq!(key_after_a_grant(shared), 0);
    }

    #[test]
    fn what_the_fast_path_refused_comes_before_all() {
        let mut egress = egress(Discipline::Srpt, Vec::new());
        let spec = FlowSpec::new(0, Size::Exact(900), WireCost::ETHERNET_IPV4);
        let head = egress
            .open(Time::ZERO, spec.in_lane(Lane::Express))
            .unwrap();
        egress.offer(Time::ZERO, head, 900);
        let (level, band, key) = (0, 0, 0);
        assert_eq!(
            egress.urgency(Time::ZERO),
            Some(Urgency { level, band, key })
        );
    }

    #[test]
    fn a_class_that_may_not_send_is_not_urgent_and_one_that_takes_leavings_is_last() {
        let spec = |level, rate_bits_per_s, idle_only| ClassSpec {
            level,
            rate_bits_per_s,
            idle_only,
            ..ClassSpec::default()
        };
        let classes = vec![
            spec(0, Some(8_000), false),
            spec(1, None, false),
            spec(0, None, true),
        ];
        let mut egress = egress(Discipline::Srpt, classes);
        let level = |egress: &Egress| egress.urgency(Time::ZERO).map(|own| own.level);
        ready(&mut egress, 2, 100);
        assert_eq!(level(&egress), Some(u8::MAX));
        ready(&mut egress, 1, 100);
        assert_eq!(level(&egress), Some(1));
        ready(&mut egress, 0, 10_000);
        assert_eq!(level(&egress), Some(0));
        egress.grant(Time::ZERO);
        ready(&mut egress, 0, 10_000);
        assert_eq!(level(&egress), Some(1), "its rate is used up");
    }
}
