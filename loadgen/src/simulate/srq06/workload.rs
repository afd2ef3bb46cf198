//! The services of SRQ06, of which table II has three numbers each and no distribution.

use crate::workload::Dice;

/// A service of SRQ06's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SrqService {
    /// The service that finds pages by keywords; its times are heavy-tailed.
    Retrieval,
    /// The service that finds a paragraph in a page; its times are close to exponential.
    Description,
}

/// What a size shift adds: the paper says "more long requests", and not how many or how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Shift {
    /// Requests of 1 to 2.7 s, evenly.
    Long,
    /// More of the retrieval's own tail, 46 ms to 2.7 s.
    Tail,
}

/// The tail of the retrievals, in ms (SRQ06, table II): 90 % take less than its low end, and the
/// longest takes its high end.
const RETRIEVAL: Range = Range {
    low_ms: 46.0,
    high_ms: 2732.0,
};
/// The shortest retrieval in ms, with which the mean is table II's 23.6 ms.
const RETRIEVAL_LEAST_MS: f64 = 1.43;
const RETRIEVAL_ALPHA: f64 = 1.5;

/// The tail of the descriptions, in ms (SRQ06, table II): 90 % take less than its low end, and the
/// longest takes its high end.
const DESCRIPTION: Range = Range {
    low_ms: 40.0,
    high_ms: 596.0,
};
const DESCRIPTION_LEAST_MS: f64 = 6.5;
/// The mean time, in ms, that a tenth of the descriptions takes beyond the tail's low end. With it
/// the deviation is about the mean, as the paper says.
const DESCRIPTION_MORE_MS: f64 = 40.0;

/// The share of requests that is in the tail.
const TAIL: f64 = 0.1;

struct Range {
    low_ms: f64,
    high_ms: f64,
}

impl SrqService {
    /// Draws the processor time of a request, in nanoseconds.
    pub(super) fn draw(self, dice: &mut Dice) -> u64 {
        let is_tail = dice.uniform() < TAIL;
        let ms = match (self, is_tail) {
            (Self::Retrieval, false) => log_uniform(dice, RETRIEVAL_LEAST_MS, RETRIEVAL.low_ms),
            (Self::Retrieval, true) => tail(dice),
            (Self::Description, false) => {
                log_uniform(dice, DESCRIPTION_LEAST_MS, DESCRIPTION.low_ms)
            }
            (Self::Description, true) => {
                let more = DESCRIPTION_MORE_MS * dice.exponential();
                (DESCRIPTION.low_ms + more).min(DESCRIPTION.high_ms)
            }
        };
        nanos(ms)
    }
}

impl Shift {
    /// Draws the processor time of a request that the shift adds, in nanoseconds.
    pub(super) fn draw(self, dice: &mut Dice) -> u64 {
        nanos(match self {
            Self::Long => 1_000.0 + dice.uniform() * (RETRIEVAL.high_ms - 1_000.0),
            Self::Tail => tail(dice),
        })
    }
}

fn nanos(ms: f64) -> u64 {
    (ms * 1e6).max(1.0) as u64
}

fn log_uniform(dice: &mut Dice, low: f64, high: f64) -> f64 {
    low * (high / low).powf(dice.uniform())
}

/// Draws a time in ms from the retrieval's tail: bounded Pareto.
fn tail(dice: &mut Dice) -> f64 {
    let Range { low_ms, high_ms } = RETRIEVAL;
    let span = 1.0 - (low_ms / high_ms).powf(RETRIEVAL_ALPHA);
    low_ms / (1.0 - dice.uniform() * span).powf(1.0 / RETRIEVAL_ALPHA)
}

/// A request, by its arrival and its processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ServiceRequest {
    /// The time of arrival, in nanoseconds since the beginning.
    pub(super) at: u64,
    /// The processor time, in nanoseconds.
    pub(super) service: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_what_table_ii_prints() {
        let of = |service: SrqService| {
            let mut dice = Dice::new(7);
            let mut ms: Vec<f64> = (0..400_000)
                .map(|_| service.draw(&mut dice) as f64 / 1e6)
                .collect();
            ms.sort_by(f64::total_cmp);
            let mean = ms.iter().sum::<f64>() / ms.len() as f64;
            (mean, ms[360_000], *ms.last().unwrap())
        };
        let (mean, p90, most) = of(SrqService::Retrieval);
        assert!((mean - 23.6).abs() < 0.7, "{mean}");
        assert!((p90 - 46.0).abs() < 1.0, "{p90}");
        assert!((2000.0..=2732.0).contains(&most), "{most}");
        let (mean, p90, most) = of(SrqService::Description);
        assert!((mean - 24.6).abs() < 0.3, "{mean}");
        assert!((p90 - 40.0).abs() < 0.5, "{p90}");
        assert!((300.0..=596.0).contains(&most), "{most}");
    }
}
