//! The generated workload: sizes and arrivals after the World Cup hour that TOCS03 replays.
//!
//! Of the files 50% are log-uniform from 41 B to 1 KB, 40% log-uniform from 1 to 9.3 KB, and 10%
//! bounded Pareto (alpha 1.2) from 9.3 KB to 2 MB. The median is 1 KB, the mean 5.2 KB, and the
//! largest 3% carry half of the bytes.

mod surge;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sprat_measure::wire::Connection;

use crate::trace::{Request, Trace};

const SMALLEST_BYTES: f64 = 41.0;
const MEDIAN_BYTES: f64 = 1024.0;
const TAIL_BYTES: f64 = 9.3 * 1024.0;
const LARGEST_BYTES: f64 = 2.0 * 1024.0 * 1024.0;
const TAIL_ALPHA: f64 = 1.2;

/// Returns the size, in bytes, below which the share `p` (0 to 1) of the files lies.
pub fn quantile_bytes(p: f64) -> u64 {
    let bytes = if p < 0.5 {
        SMALLEST_BYTES * (MEDIAN_BYTES / SMALLEST_BYTES).powf(p / 0.5)
    } else if p < 0.9 {
        MEDIAN_BYTES * (TAIL_BYTES / MEDIAN_BYTES).powf((p - 0.5) / 0.4)
    } else {
        let within = (p - 0.9) / 0.1;
        let span = 1.0 - (TAIL_BYTES / LARGEST_BYTES).powf(TAIL_ALPHA);
        TAIL_BYTES / (1.0 - within * span).powf(1.0 / TAIL_ALPHA)
    };
    bytes.round() as u64
}

/// Returns the sizes of `files` files on the quantiles' grid, smallest first.
pub fn file_sizes(files: u32) -> Vec<u64> {
    (0..files)
        .map(|index| quantile_bytes((f64::from(index) + 0.5) / f64::from(files)))
        .collect()
}

/// The sizes of WebStone's standard set of files and how often each is asked
/// for, without the largest one (5 MB, once in a thousand): the mix that EH99
/// measured with.
const WEBSTONE: [(u64, u32); 4] = [(500, 35), (5_000, 50), (50_000, 14), (500_000, 1)];

/// How sizes are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sizes {
    /// The World Cup hour that TOCS03 replays: median 1 KB, heavy tail.
    #[default]
    Worldcup,
    /// WebStone's mix, which EH99 measured with: 500 B, 5, 50 and 500 kB.
    Webstone,
    /// Surge's, lognormal with a Pareto tail, at the mean that TOCS03 prints: 7 KB.
    Surge,
}

impl Sizes {
    /// Returns the sizes of `files` files on the quantiles' grid, smallest first.
    pub fn of_files(self, files: u32) -> Vec<u64> {
        (0..files)
            .map(|index| self.quantile_bytes((f64::from(index) + 0.5) / f64::from(files)))
            .collect()
    }

    /// Returns the size, in bytes, below which the share `p` (0 to 1) of the files lies.
    pub fn quantile_bytes(self, p: f64) -> u64 {
        match self {
            Self::Worldcup => quantile_bytes(p),
            Self::Webstone => webstone_bytes(p),
            Self::Surge => surge::quantile_bytes(p),
        }
    }
}

/// Returns the size below which the share `p` of WebStone's requests lies.
fn webstone_bytes(p: f64) -> u64 {
    let mut share = 0.0;
    let mut sizes = WEBSTONE.iter().map(|&(bytes, percent)| {
        share += f64::from(percent) / 100.0;
        (share, bytes)
    });
    let found = sizes.find(|&(share, _)| p < share);
    found.map_or(WEBSTONE[WEBSTONE.len() - 1].0, |(_, bytes)| bytes)
}

/// Random numbers whose sequence depends on the seed alone, not on how the
/// `rand` crate derives its distributions.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Pcg64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// Draws a number uniformly from [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Draws 64 random bits, each uniform.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws an exponential number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Draws a number uniformly from 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n - 1)
    }
}

/// The plan of a trace to generate.
#[derive(Clone, Copy, Debug)]
pub struct TracePlan {
    /// Seed of sizes and arrivals.
    pub seed: u64,
    /// The number of requests.
    pub requests: u32,
    /// The number of distinct files.
    pub files: u32,
    /// The distribution of the files' sizes.
    pub sizes: Sizes,
    /// The requests of each user in a partly open trace; `None` for an open one.
    pub requests_per_user: Option<u32>,
}

/// Generates a trace of Poisson arrivals at mean rate 1 per second, each asking
/// for a file chosen uniformly. With users, it is users who arrive, each asking
/// for several files in turn.
pub fn generate(plan: &TracePlan) -> Trace {
    let sizes = plan.sizes.of_files(plan.files.max(1));
    let per_user = plan.requests_per_user.unwrap_or(1).max(1);
    let mut dice = Dice::new(plan.seed);
    let mut t_s = 0.0;
    let requests = (0..plan.requests)
        .map(|index| {
            if index % per_user == 0 {
                t_s += dice.exponential() * f64::from(per_user);
            }
            let file = dice.below(sizes.len());
            Request {
                t_s,
                bytes: sizes[file],
                path: origin_path(sizes[file], file),
                user: plan.requests_per_user.map(|_| index / per_user),
            }
        })
        .collect();
    Trace { requests }
}

/// Returns the path at which an origin serves file number `id`.
pub(crate) fn origin_path(bytes: u64, id: usize) -> Box<str> {
    format!("/size/{bytes}/{id}").into()
}

/// Stretches the arrivals so that this very trace puts `load` on the link, not only on average.
/// Times are rounded to microseconds. Returns false, and does nothing, if all requests arrive at
/// time 0.
pub fn scale_to_load(
    trace: &mut Trace,
    load: f64,
    connection: Connection,
    uplink_bits_per_s: u64,
) -> bool {
    let Some(present) = trace.load(connection, uplink_bits_per_s) else {
        return false;
    };
    let stretch = present.wire / load;
    for request in &mut trace.requests {
        request.t_s = (request.t_s * stretch * 1e6).round() / 1e6;
    }
    true
}

/// The distribution of the sizes of a set of responses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeSummary {
    /// The mean size in bytes.
    pub mean_bytes: f64,
    /// The median size in bytes.
    pub median_bytes: u64,
    /// The share of all bytes that the largest 3% carry.
    pub largest_3_percent_share: f64,
}

/// Summarises sizes; `None` if there are none.
pub fn summarise(mut sizes: Vec<u64>) -> Option<SizeSummary> {
    sizes.sort_unstable();
    let total: u64 = sizes.iter().sum();
    let largest = sizes.len() - (sizes.len() as f64 * 0.03).round() as usize;
    let tail: u64 = sizes[largest..].iter().sum();
    Some(SizeSummary {
        mean_bytes: total as f64 / sizes.len() as f64,
        median_bytes: *sizes.get(sizes.len() / 2)?,
        largest_3_percent_share: tail as f64 / (total as f64).max(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: TracePlan = TracePlan {
        seed: 7,
        requests: 20_000,
        files: 5_000,
        sizes: Sizes::Worldcup,
        requests_per_user: None,
    };

    #[test]
    fn sizes_fit_the_published_distribution() {
        let sizes = file_sizes(5_000);
        assert!(sizes.is_sorted());
        assert!((41..=43).contains(&sizes[0]));
        assert!(*sizes.last().unwrap() <= 2 * 1024 * 1024);
        let summary = summarise(sizes).unwrap();
        assert!((1000..=1050).contains(&summary.median_bytes), "{summary:?}");
        assert!(
            (summary.mean_bytes / 1024.0 - 5.2).abs() < 0.2,
            "{summary:?}"
        );
        assert!(
            (summary.largest_3_percent_share - 0.5).abs() < 0.03,
            "{summary:?}"
        );
    }

    #[test]
    fn webstones_mix_has_its_shares() {
        let sizes = Sizes::Webstone.of_files(1000);
        for (bytes, percent) in WEBSTONE {
            let count = sizes.iter().filter(|&&size| size == bytes).count();
            assert_eq!(count, percent as usize * 10, "{bytes}");
        }
        assert!(sizes.is_sorted());
    }

    #[test]
    fn the_pieces_join() {
        for (p, bytes) in [(0.0, 41), (0.5, 1024), (0.9, 9523), (1.0, 2_097_152)] {
            assert_eq!(quantile_bytes(p), bytes);
        }
    }

    #[test]
    fn the_seed_decides_everything() {
        assert_eq!(generate(&PLAN), generate(&PLAN));
        let other = TracePlan { seed: 8, ..PLAN };
        assert_ne!(generate(&PLAN), generate(&other));
    }

    #[test]
    fn arrivals_are_poisson() {
        let trace = generate(&PLAN);
        let gaps: Vec<f64> = std::iter::once(0.0)
            .chain(trace.requests.iter().map(|r| r.t_s))
            .collect::<Vec<_>>()
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.08, "{variance}");
        let short = gaps.iter().filter(|gap| **gap < 0.5).count() as f64 / n;
        assert!((short - (1.0 - (-0.5_f64).exp())).abs() < 0.015, "{short}");
    }

    #[test]
    fn scaling_gives_the_asked_load() {
        for (load, connection) in [(0.9, Connection::New), (0.5, Connection::Keep)] {
            let mut trace = generate(&PLAN);
            assert!(scale_to_load(&mut trace, load, connection, 10_000_000));
            let found = trace.load(connection, 10_000_000).unwrap();
            assert!((found.wire - load).abs() < 1e-6, "{found:?}");
            assert!(found.payload < found.wire);
        }
    }

    #[test]
    fn users_ask_for_several_files_in_turn() {
        let trace = generate(&TracePlan {
            requests: 10,
            requests_per_user: Some(4),
            ..PLAN
        });
        let users: Vec<_> = trace.requests.iter().map(|r| r.user.unwrap()).collect();
        assert_eq!(users, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
        for pair in trace.requests.windows(2) {
            assert_eq!(pair[0].user == pair[1].user, pair[0].t_s == pair[1].t_s);
        }
    }
}
