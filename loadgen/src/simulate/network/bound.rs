//! The least mean response time that any order can reach over a shared link.

use std::time::Duration;

use super::plan::RunPlan;
use super::wire::wire_bytes;
use crate::ideal::{Bound, Job, serve};

/// Returns the mean response time of SRPT on a fluid link of the shared one's rate, in ms, with
/// round trips added. A request reaches the link half a round trip after the client asks, with a
/// handshake one and a half. `None` where the rate changes, or is not the bottleneck, or where
/// clients ask for one response after the other.
pub(super) fn srpt_ms(plan: &RunPlan) -> Option<f64> {
    let shared = plan.shared.as_ref()?;
    let rate = plan.named_bits_per_s?;
    if !shared.schedule.changes.is_empty() || plan.is_closed_loop() {
        return None;
    }
    let mut sum_rtt = Duration::ZERO;
    let mut jobs: Vec<Job> = Vec::with_capacity(plan.requests.len());
    for request in &plan.requests {
        let client = &plan.clients[request.client as usize];
        let (up, down) = (client.up_delay, client.link.delay + shared.delay);
        // A connection that is kept may have been there before.
        let before = if client.keeps { up } else { 2 * up + down };
        sum_rtt += before + down;
        let bits = u128::from(wire_bytes(request.bytes, client.keeps)) * 8;
        jobs.push(Job {
            arrival_ns: (request.at + before).as_nanos(),
            work_ns: u64::try_from(bits * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX),
            user: None,
        });
    }
    jobs.sort_by_key(|job| job.arrival_ns);
    let served = serve(&jobs, Bound::Srpt);
    let waited: Duration = served.iter().map(|one| one.response()).sum();
    Some((waited + sum_rtt).as_secs_f64() * 1e3 / plan.requests.len() as f64)
}
