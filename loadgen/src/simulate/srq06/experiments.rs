//! SRQ06's experiments: a size shift at a constant rate, and loads up to twice the capacity.

use std::ops::Range;

use super::server::{Scheme, ServerOutcome};
use super::workload::{ServiceRequest, Shift, SrqService};
use crate::workload::Dice;

const SECOND: f64 = 1e9;

/// Seconds before an experiment in which the queues adapt: five intervals.
const WARM_UP_S: f64 = 300.0;

/// The requests a second in the size shift (SRQ06, figure 9); in [`SHIFT_S`] there are more long
/// ones among them.
const RATE_PER_S: f64 = 50.0;
const SHIFT_S: Range<f64> = 30.0..155.0;
const SHIFT_RUN_S: f64 = 200.0;

/// Seconds that a load is measured for.
const LOAD_RUN_S: f64 = 200.0;

/// Percent of throughput that Linux loses at what the paper calls 100 % load.
pub(super) const FULL_LOSS_PERCENT: f64 = 5.0;

/// Whose response times are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Count {
    /// Response times of requests that came during the measurement, whenever they end.
    Came,
    /// Response times of requests that ended during the measurement: what a log of that time has.
    Ended,
}

/// The measures of a scheme.
#[derive(Clone, Debug, Default)]
pub(super) struct MeasuredScheme {
    pub(super) mean_s: f64,
    /// Percent of the requests that were refused.
    pub(super) loss_percent: f64,
    /// The requests that count, per second of the measurement.
    pub(super) throughput_per_s: f64,
    /// Shares of the responses that took no longer than 0.1, 0.5, 1, 2 and 5 s.
    pub(super) within: [f64; BOUNDS_S.len()],
    pub(super) p99_s: f64,
    /// The final state of SRQ's queues.
    pub(super) queues: Option<String>,
}

/// Bounds of the breakdown of response times, in seconds; the paper's figure 15 has none
/// that its text names.
pub(super) const BOUNDS_S: [f64; 5] = [0.1, 0.5, 1.0, 2.0, 5.0];

/// The seconds of a span of figure 9. The paper's are not known.
const SPAN_S: f64 = 5.0;

/// A span of the size shift, by the requests that ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ShiftSpan {
    /// The middle of the span, in seconds from the beginning of the experiment.
    pub(super) at_s: f64,
    pub(super) throughput_per_s: f64,
    /// The mean response time; NaN if no request ended.
    pub(super) mean_s: f64,
}

/// The size shift of figure 9 and table IV.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShiftPlan {
    pub(super) shift: Shift,
    /// The share of longer requests in the shift.
    pub(super) share: f64,
    pub(super) count: Count,
    pub(super) seeds: u64,
    pub(super) seed: u64,
}

impl ShiftPlan {
    /// Measures a scheme in the time of the shift.
    pub(super) fn measure(&self, scheme: &Scheme) -> anyhow::Result<MeasuredScheme> {
        let window_s = WARM_UP_S + SHIFT_S.start..WARM_UP_S + SHIFT_S.end;
        mean_over(self.seeds, |index| {
            let requests = self.requests(self.seed + index);
            let outcome = scheme.serve(&requests)?;
            Ok(measured(&requests, outcome, &window_s, self.count))
        })
    }

    /// Measures a scheme over the time of the experiment, all seeds together.
    pub(super) fn over_time(&self, scheme: &Scheme) -> anyhow::Result<Vec<ShiftSpan>> {
        let mut ended = Vec::new();
        for index in 0..self.seeds {
            let requests = self.requests(self.seed + index);
            let outcome = scheme.serve(&requests)?;
            for (request, response_s) in requests.iter().zip(&outcome.response_s) {
                if let Some(response_s) = *response_s {
                    let at_s = request.at as f64 / SECOND + response_s - WARM_UP_S;
                    ended.push(EndedRequest { at_s, response_s });
                }
            }
        }
        Ok(spans(&ended, self.seeds))
    }

    /// Draws requests at a constant rate, with common random numbers for all shares.
    fn requests(&self, seed: u64) -> Vec<ServiceRequest> {
        let mut dice = Dice::new(seed);
        let count = ((WARM_UP_S + SHIFT_RUN_S) * RATE_PER_S) as usize;
        let request = |index: usize| {
            let at_s = index as f64 / RATE_PER_S;
            let (ordinary, long) = (
                SrqService::Retrieval.draw(&mut dice),
                self.shift.draw(&mut dice),
            );
            let is_long = dice.uniform() < self.share;
            let is_shift = SHIFT_S.contains(&(at_s - WARM_UP_S));
            ServiceRequest {
                at: (at_s * SECOND) as u64,
                service: if is_long && is_shift { long } else { ordinary },
            }
        };
        (0..count).map(request).collect()
    }

    /// Returns this plan with the share of longer requests at which a scheme's mean is `mean_s`.
    pub(super) fn fitted(self, scheme: &Scheme, mean_s: f64) -> anyhow::Result<Self> {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..14 {
            let share = (low + high) / 2.0;
            let plan = Self { share, ..self };
            match plan.measure(scheme)?.mean_s < mean_s {
                true => low = share,
                false => high = share,
            }
        }
        Ok(Self {
            share: (low + high) / 2.0,
            ..self
        })
    }
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
struct EndedRequest {
    /// The seconds from the beginning of the experiment to the request's end.
    at_s: f64,
    response_s: f64,
}

/// Divides the time of the size shift into spans, by the requests that ended in `runs` runs.
fn spans(ended: &[EndedRequest], runs: u64) -> Vec<ShiftSpan> {
    let count = (SHIFT_RUN_S / SPAN_S).round() as usize;
    let mut sums = vec![(0.0, 0.0); count];
    for own in ended.iter().filter(|own| own.at_s >= 0.0) {
        if let Some((count, seconds)) = sums.get_mut((own.at_s / SPAN_S) as usize) {
            *count += 1.0;
            *seconds += own.response_s;
        }
    }
    let span = |(index, (count, seconds)): (usize, (f64, f64))| ShiftSpan {
        at_s: (index as f64 + 0.5) * SPAN_S,
        throughput_per_s: count / SPAN_S / runs.max(1) as f64,
        mean_s: seconds / count,
    };
    sums.into_iter().enumerate().map(span).collect()
}

/// A load of figures 11 to 15: Poisson arrivals.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadPlan {
    pub(super) service: SrqService,
    pub(super) rate_per_s: f64,
    pub(super) count: Count,
    pub(super) seeds: u64,
    pub(super) seed: u64,
}

impl LoadPlan {
    /// Measures a scheme in the time after the queues have adapted.
    pub(super) fn measure(&self, scheme: &Scheme) -> anyhow::Result<MeasuredScheme> {
        let window_s = WARM_UP_S..WARM_UP_S + LOAD_RUN_S;
        mean_over(self.seeds, |index| {
            let requests = self.requests(self.seed + index);
            let outcome = scheme.serve(&requests)?;
            Ok(measured(&requests, outcome, &window_s, self.count))
        })
    }

    fn requests(&self, seed: u64) -> Vec<ServiceRequest> {
        let mut dice = Dice::new(seed);
        let mut at_s = 0.0;
        let mut requests = Vec::new();
        loop {
            at_s += dice.exponential() / self.rate_per_s;
            if at_s >= WARM_UP_S + LOAD_RUN_S {
                return requests;
            }
            requests.push(ServiceRequest {
                at: (at_s * SECOND) as u64,
                service: self.service.draw(&mut dice),
            });
        }
    }

    /// Returns this plan at the rate at which a scheme loses [`FULL_LOSS_PERCENT`].
    pub(super) fn full(self, scheme: &Scheme) -> anyhow::Result<Self> {
        let (mut low, mut high) = (10.0, 1_000.0);
        for _ in 0..14 {
            let rate_per_s = (low + high) / 2.0;
            let plan = Self { rate_per_s, ..self };
            match plan.measure(scheme)?.loss_percent < FULL_LOSS_PERCENT {
                true => low = rate_per_s,
                false => high = rate_per_s,
            }
        }
        Ok(Self {
            rate_per_s: (low + high) / 2.0,
            ..self
        })
    }
}

/// Measures a window of a run. The loss is that of the requests that came in it.
fn measured(
    requests: &[ServiceRequest],
    outcome: ServerOutcome,
    window_s: &Range<f64>,
    count: Count,
) -> MeasuredScheme {
    let of = || requests.iter().zip(&outcome.response_s);
    let is_within = |at_s: f64| window_s.contains(&at_s);
    let came = of().filter(|(request, _)| is_within(request.at as f64 / SECOND));
    let responses: Vec<Option<f64>> = came.map(|(_, response_s)| *response_s).collect();
    let served = responses.iter().flatten().count();
    let in_window = of().filter_map(|(request, response_s)| {
        let (at_s, response_s) = (request.at as f64 / SECOND, (*response_s)?);
        (is_within(at_s + response_s)).then_some(response_s)
    });
    let mut ended: Vec<f64> = match count {
        Count::Came => responses.iter().flatten().copied().collect(),
        Count::Ended => in_window.collect(),
    };
    ended.sort_by(f64::total_cmp);
    let count = ended.len().max(1) as f64;
    let within = |bound: f64| ended.partition_point(|&s| s <= bound) as f64 / count;
    MeasuredScheme {
        mean_s: ended.iter().sum::<f64>() / count,
        loss_percent: 100.0 * (1.0 - served as f64 / responses.len().max(1) as f64),
        throughput_per_s: ended.len() as f64 / (window_s.end - window_s.start),
        within: BOUNDS_S.map(within),
        p99_s: ended.get(ended.len() * 99 / 100).copied().unwrap_or(0.0),
        queues: outcome.queues,
    }
}

/// Averages measures over seeds; the final state of the queues is the first seed's.
fn mean_over(
    seeds: u64,
    one: impl Fn(u64) -> anyhow::Result<MeasuredScheme>,
) -> anyhow::Result<MeasuredScheme> {
    let mut sum = MeasuredScheme::default();
    for index in 0..seeds {
        let own = one(index)?;
        sum.mean_s += own.mean_s;
        sum.loss_percent += own.loss_percent;
        sum.throughput_per_s += own.throughput_per_s;
        sum.p99_s += own.p99_s;
        sum.within
            .iter_mut()
            .zip(own.within)
            .for_each(|(sum, own)| *sum += own);
        if index == 0 {
            sum.queues = own.queues;
        }
    }
    let seeds = seeds.max(1) as f64;
    sum.within.iter_mut().for_each(|share| *share /= seeds);
    Ok(MeasuredScheme {
        mean_s: sum.mean_s / seeds,
        loss_percent: sum.loss_percent / seeds,
        throughput_per_s: sum.throughput_per_s / seeds,
        p99_s: sum.p99_s / seeds,
        ..sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_requests_that_ended_in_them() {
        let ended = |at_s, response_s| EndedRequest { at_s, response_s };
        let all = [
            // Before the experiment, in its first two spans and its last, and after it.
            ended(-0.1, 9.0),
            ended(0.0, 1.0),
            ended(4.9, 2.0),
            ended(5.0, 0.5),
            ended(199.9, 4.0),
            ended(200.0, 9.0),
        ];
        let found = spans(&all, 2);
        assert_eq!(found.len(), 40);
        let span = |at_s, throughput_per_s, mean_s| ShiftSpan {
            at_s,
            throughput_per_s,
            mean_s,
        };
        assert_eq!(found[0], span(2.5, 0.2, 1.5));
        assert_eq!(found[1], span(7.5, 0.1, 0.5));
        assert_eq!(found[39], span(197.5, 0.1, 4.0));
        assert!(found[2].mean_s.is_nan());
    }

    #[test]
    fn before_the_shift_all_requests_end_and_in_it_they_take_longer() {
        let plan = ShiftPlan {
            shift: Shift::Long,
            share: 0.05,
            count: Count::Ended,
            seeds: 1,
            seed: 7,
        };
        let found = plan.over_time(&Scheme::Linux { threads: 20 }).unwrap();
        let mean = |of: fn(&ShiftSpan) -> f64| found[..6].iter().map(of).sum::<f64>() / 6.0;
        let throughput_per_s = mean(|own| own.throughput_per_s);
        assert!((throughput_per_s - RATE_PER_S).abs() < 3.0, "{found:?}");
        let late = found[25];
        assert!(late.mean_s > 5.0 * mean(|own| own.mean_s), "{found:?}");
        // Some of them are refused.
        assert!(late.throughput_per_s < 0.9 * RATE_PER_S, "{found:?}");
    }
}
