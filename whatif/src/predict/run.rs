//! The run of one policy, at one rate.

use sprat_measure::link::VirtualLink;
use sprat_measure::wire;
use sprat_scheduler::{EgressPolicy, Time};

use super::figures::{Gathered, Outcome};
use super::{Plan, Policy};
use crate::traffic::{Summary, Traffic, wire_bytes};

/// The most responses that may be open at a time. It is the proxy's own bound, and takes some 30 MB
/// of the core. A link on which more wait is overloaded: no client has that much patience.
pub(crate) const OPEN_MAX: usize = 65_536;

/// Serves all requests of a log as if `rate` times as many came in the same time, and returns the
/// outcome.
pub(super) fn run(
    plan: &Plan,
    policy: &Policy,
    rate: f64,
    traffic: &Traffic,
    summary: &Summary,
) -> Outcome {
    if summary.load * rate >= 1.0 {
        return Outcome::Overloaded;
    }
    let egress_policy = EgressPolicy {
        max_flows: OPEN_MAX,
        floor_percent: policy.uplink.floor_percent,
        ..EgressPolicy::new(policy.uplink.policy.clone())
    };
    let cost = wire::exchange_cost(plan.connection);
    let mut link = VirtualLink::new(plan.uplink_bits_per_s, egress_policy, cost);
    let mut gathered = Gathered::new();
    let set_up_bytes = wire::set_up_bytes(plan.connection);
    let mut now = Time::ZERO;
    // There are fewer than 2^32 requests.
    let requests = (0u32..).zip(&traffic.requests);
    let arrivals = requests.map(|(index, own)| (index, squeezed(own.at, rate), own.bytes));
    let mut arrivals = arrivals.peekable();
    loop {
        let arrival = arrivals.peek().map(|&(_, at, _)| at);
        match (link.next_step(now), arrival) {
            (Some(at), next) if next.is_none_or(|next| at <= next) => {
                now = at;
                if let Some(sent) = link.step(at) {
                    let (index, bytes): (u32, u64) = sent.response;
                    let alone_s = wire_bytes(bytes, plan.connection) as f64 * 8.0
                        / plan.uplink_bits_per_s as f64;
                    let is_largest = summary.largest.has(index as usize, bytes);
                    gathered.take(bytes, sent.took, alone_s, is_largest);
                }
            }
            (_, Some(at)) => {
                now = at;
                let Some((index, _, bytes)) = arrivals.next() else {
                    break;
                };
                let response = (index, bytes);
                if link.arrive(at, bytes, set_up_bytes, response).is_err() {
                    return Outcome::Flooded(u64::from(index));
                }
            }
            (_, None) => break,
        }
    }
    Outcome::Served(Box::new(gathered.finish()))
}

/// Returns the time at which a request comes if `rate` times as many come in the same time.
fn squeezed(at: Time, rate: f64) -> Time {
    if rate == 1.0 {
        return at;
    }
    Time::from_nanos((at.as_nanos() as f64 / rate) as u64)
}
