//! The generated workload (log-uniform bodies, bounded Pareto tail), and the
//! ideal that it is measured against.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{COST, HEAD, Rng};

/// A request of a client, and its response.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub at: Duration,
    /// The bytes of the response's body.
    pub bytes: u64,
    /// The round-trip time without any queue.
    pub rtt: Duration,
    pub network: u64,
    /// The slowest link behind the uplink.
    pub path_bits_per_s: Option<u64>,
}

impl Request {
    pub(crate) fn wire_bytes(&self) -> u64 {
        COST.bytes(self.bytes + HEAD) + u64::from(COST.connection_overhead)
    }
}

/// 5,000 sizes on the quantiles' grid: log-uniform 41 B to 1 KB (50%) and to
/// 9.3 KB (40%), bounded Pareto with alpha 1.2 up to 2 MB (10%).
pub(crate) fn workload_sizes() -> Vec<u64> {
    let log_uniform = |from: f64, to: f64, u: f64| from * (to / from).powf(u);
    let pareto = |from: f64, to: f64, u: f64| {
        let alpha = 1.2f64;
        let ratio = (from / to).powf(alpha);
        from / (1.0 - u * (1.0 - ratio)).powf(1.0 / alpha)
    };
    (0..5000)
        .map(|i| (f64::from(i) + 0.5) / 5000.0)
        .map(|u| match u {
            u if u < 0.5 => log_uniform(41.0, 1024.0, u / 0.5),
            u if u < 0.9 => log_uniform(1024.0, 9523.0, (u - 0.5) / 0.4),
            u => pareto(9523.0, 2_097_152.0, (u - 0.9) / 0.1),
        })
        .map(|bytes| bytes as u64)
        .collect()
}

/// Poisson arrivals of `sizes` at `load` of a link of `rate_bits_per_s`, on
/// the wire.
pub(crate) fn poisson(
    seed: u64,
    sizes: &[u64],
    count: usize,
    rate_bits_per_s: u64,
    load: f64,
    rtt: impl Fn(&mut Rng) -> (Duration, u64),
) -> Vec<Request> {
    let mut rng = Rng(seed);
    let mut requests: Vec<Request> = (0..count)
        .map(|_| {
            let bytes = sizes[rng.next() as usize % sizes.len()];
            let (rtt, network) = rtt(&mut rng);
            Request {
                at: Duration::ZERO,
                bytes,
                rtt,
                network,
                path_bits_per_s: None,
            }
        })
        .collect();
    // The mean of this very sample, so that the load is what was asked for.
    let wire: u64 = requests.iter().map(Request::wire_bytes).sum();
    let gap_s = wire as f64 * 8.0 / count as f64 / rate_bits_per_s as f64 / load;
    let mut at_s = 0.0;
    for request in &mut requests {
        at_s -= gap_s * (1.0 - rng.unit()).ln();
        request.at = Duration::from_secs_f64(at_s);
    }
    requests
}

/// Mean response time of preemptive SRPT on a fluid link, in milliseconds:
/// the optimum (Schrage 1968). Round trips are not in it.
pub(crate) fn ideal_srpt_ms(requests: &[Request], rate_bits_per_s: u64) -> f64 {
    let per_s = rate_bits_per_s as f64 / 8.0;
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let (mut now, mut sum, mut next) = (0.0, 0.0, 0);
    loop {
        let arrival = requests.get(next).map(|r| r.at.as_secs_f64());
        match (queue.pop(), arrival) {
            (None, None) => return sum * 1e3 / requests.len() as f64,
            (None, Some(at)) => {
                now = at;
                queue.push(Reverse((requests[next].wire_bytes() * 1000, next)));
                next += 1;
            }
            (Some(Reverse((left, index))), arrival) => {
                let done = now + left as f64 / 1000.0 / per_s;
                match arrival.filter(|&at| at < done) {
                    Some(at) => {
                        let sent = ((at - now) * per_s * 1000.0) as u64;
                        queue.push(Reverse((left.saturating_sub(sent), index)));
                        now = at;
                        queue.push(Reverse((requests[next].wire_bytes() * 1000, next)));
                        next += 1;
                    }
                    None => {
                        now = done;
                        sum += done - requests[index].at.as_secs_f64();
                    }
                }
            }
        }
    }
}
