//! SDIS02's findings, and whether the simulation has them too.

use super::super::findings::{Finding, FindingVerdict};
use super::points::{Curve, RatePoint, Who};

/// The curves of all figures.
pub(super) struct Curves {
    /// The curve of round robin without priorities.
    pub(super) plain: Curve,
    /// The curves of round robin by the ratio of high priority, 0.1 to 0.9.
    pub(super) ratios: Vec<Curve>,
    /// The curves with half of high priority: rr, sqf, psqf, rpsq with one reserved, with two.
    pub(super) assignments: Vec<Curve>,
    /// The curves of short queues: sqf and psqf, without early discard and with it.
    pub(super) discards: Vec<Curve>,
    /// The curves of early discard and a time-out, by the ratio of high priority.
    pub(super) timeouts: Vec<Curve>,
    /// The curve of displacement instead of both, which the paper does not have.
    pub(super) displacing: Curve,
}

/// The paper's bound for the mean time of high-priority tasks; [`P95_BOUND_S`] is that for their
/// 95th percentile (5.1).
const MEAN_BOUND_S: f64 = 2.0;
const P95_BOUND_S: f64 = 10.0;
/// The static requests per second that all servers can do (SDIS02, table 1).
pub(super) const STATIC_CAPACITY: f64 = 4000.0;

/// Returns every finding that is checked.
pub(super) fn findings(curves: &Curves) -> Vec<Finding> {
    let mut findings = priority(curves, curves.plain.setup.capacity());
    findings.extend(assignment(&curves.assignments));
    findings.extend(admission(curves, curves.displacing.setup.capacity()));
    findings
}

fn share(rate: Option<f64>) -> String {
    rate.map_or("none".to_owned(), |rate| {
        format!("{:.2}", rate / STATIC_CAPACITY)
    })
}

fn priority(curves: &Curves, capacity: f64) -> Vec<Finding> {
    let half = &curves.assignments[0];
    let plain_knee = curves.plain.knee(Who::All);
    let low_knee = half.knee(Who::Low);
    let near =
        |knee: Option<f64>| knee.is_some_and(|k| (0.4..=0.6).contains(&(k / STATIC_CAPACITY)));
    let close = plain_knee.zip(low_knee);
    let mean_s = half.most(capacity, |point| point.high.mean_s);
    let p95_s = half.most(capacity, |point| point.high.p95_s);
    let upper = |curve: &&Curve| curve.setup.high_ratio > 0.45;
    let worst = |measure: fn(&RatePoint) -> f64| {
        let curves = curves.ratios.iter().filter(upper);
        curves
            .map(|curve| curve.most(capacity, measure))
            .fold(0.0, f64::max)
    };
    let (worst_mean_s, worst_p95_s) = (worst(|p| p.high.mean_s), worst(|p| p.high.p95_s));
    let up_to = 0.95 * capacity;
    let mut high_ms: Vec<f64> = curves
        .ratios
        .iter()
        .map(|curve| 1e3 * curve.most(up_to, |point| point.high.mean_s))
        .collect();
    high_ms.push(1e3 * curves.plain.most(up_to, |point| point.all.mean_s));
    let listed: Vec<String> = high_ms.iter().map(|ms| format!("{ms:.0}")).collect();
    let (first_low, last_low) = (curves.ratios.first(), curves.ratios.last());
    let low_knees = first_low
        .and_then(|c| c.knee(Who::Low))
        .zip(last_low.and_then(|c| c.knee(Who::Low)));
    vec![
        Finding {
            source: "figures 2, 3; 5.1",
            claim: "without priorities, the knee is at about half of the static capacity",
            found: share(plain_knee),
            verdict: FindingVerdict::of(near(plain_knee)),
        },
        Finding {
            source: "figures 2, 3; 5.1",
            claim: "the knee of low priority is about the same",
            found: share(low_knee),
            verdict: FindingVerdict::of(close.is_some_and(|(a, b)| (a - b).abs() < 0.1 * a)),
        },
        Finding {
            source: "figures 2, 3; 5.1",
            claim: "high priority: mean below 2 s, 95% below 10 s, up to full utilisation",
            found: format!("{mean_s:.3} s, {p95_s:.3} s"),
            verdict: FindingVerdict::of(mean_s < MEAN_BOUND_S && p95_s < P95_BOUND_S),
        },
        Finding {
            source: "figures 4, 5; 5.2",
            claim: "bounded so at ratios of 0.5 to 0.9 too",
            found: format!("{worst_mean_s:.3} s, {worst_p95_s:.3} s"),
            verdict: FindingVerdict::of(worst_mean_s < MEAN_BOUND_S && worst_p95_s < P95_BOUND_S),
        },
        Finding {
            source: "figures 4, 5; 5.2",
            claim: "with more of it, high priority comes closer to a server without priorities \
                    (mean ms at 0.95 of capacity, by ratio; the last without)",
            found: listed.join(", "),
            verdict: FindingVerdict::of(high_ms.is_sorted()),
        },
        Finding {
            source: "figures 6, 7; 5.3",
            claim: "the knees of low priority are in a narrow range",
            found: low_knees.map_or("none".to_owned(), |(a, b)| {
                format!("{} to {}", share(Some(b)), share(Some(a)))
            }),
            verdict: FindingVerdict::of(low_knees.is_some_and(|(a, b)| b > 0.75 * a)),
        },
    ]
}

fn assignment(curves: &[Curve]) -> Vec<Finding> {
    let [rr, sqf, psqf, rpsq, _] = curves else {
        return Vec::new();
    };
    let up_to = 0.9 * sqf.setup.capacity();
    let ms = |curve: &Curve, who| 1e3 * curve.mean(up_to, |point| point.of(who).mean_s);
    let list = |who| {
        let all = [rr, sqf, psqf, rpsq].map(|curve| format!("{:.1}", ms(curve, who)));
        all.join(", ")
    };
    let ahead = |curve, who| ms(curve, who) < ms(rr, who);
    let high_differs = ms(rpsq, Who::High) / ms(psqf, Who::High);
    let (low_psqf, low_rpsq) = (psqf.knee(Who::Low), rpsq.knee(Who::Low));
    vec![
        Finding {
            source: "figures 8, 9; 5.4",
            claim: "high priority: sqf and psqf ahead of rr (mean ms of rr, sqf, psqf, rpsq)",
            found: list(Who::High),
            verdict: FindingVerdict::of(ahead(sqf, Who::High) && ahead(psqf, Who::High)),
        },
        Finding {
            source: "figures 10, 11; 5.4",
            claim: "low priority: sqf and psqf ahead of rr (the same)",
            found: list(Who::Low),
            verdict: FindingVerdict::of(ahead(sqf, Who::Low) && ahead(psqf, Who::Low)),
        },
        Finding {
            source: "figures 8, 9; 5.4",
            claim: "high priority: rpsq differs little from psqf",
            found: format!("{high_differs:.2} of psqf"),
            verdict: FindingVerdict::of((0.5..2.0).contains(&high_differs)),
        },
        Finding {
            source: "figures 10, 11; 5.4",
            claim: "low priority: rpsq is worse than psqf, its knee earlier",
            found: format!("{} after {}", share(low_rpsq), share(low_psqf)),
            verdict: FindingVerdict::of(
                ms(rpsq, Who::Low) > ms(psqf, Who::Low)
                    && low_rpsq.zip(low_psqf).is_some_and(|(a, b)| a < b),
            ),
        },
    ]
}

fn admission(curves: &Curves, capacity: f64) -> Vec<Finding> {
    let percent = |share: f64| format!("{:.2}%", 100.0 * share);
    // High priority alone is half of that.
    let beyond = 1.5 * capacity;
    let denied = |curve: &Curve, up_to| curve.most(up_to, |point| point.high.rejected);
    let of: Vec<f64> = curves
        .discards
        .iter()
        .map(|curve| denied(curve, beyond))
        .collect();
    let listed: Vec<String> = of.iter().map(|share| percent(*share)).collect();
    let each = |measure: fn(&RatePoint) -> f64| -> Vec<f64> {
        let curves = curves.timeouts.iter();
        curves.map(|curve| curve.most(capacity, measure)).collect()
    };
    let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
    let late = most(each(|point| 1.0 - point.high.in_time));
    let rejected = each(|point| point.high.rejected);
    let by_ratio: Vec<String> = rejected.iter().map(|share| percent(*share)).collect();
    let aborted = most(each(|point| point.high.aborted));
    let high_late = most(
        curves
            .timeouts
            .iter()
            .map(|c| {
                let up_to = 0.95 * capacity / c.setup.high_ratio;
                c.most(up_to, |p| p.high.rejected)
            })
            .collect(),
    );
    let displacing = denied(&curves.displacing, beyond);
    vec![
        Finding {
            source: "figure 12; 5.5",
            claim: "beyond capacity, high priority is denied service too, though it alone is \
                    below capacity (sqf, psqf, with early discard sqf, psqf)",
            found: listed.join(", "),
            verdict: FindingVerdict::of(of.iter().take(2).all(|share| *share > 0.0)),
        },
        Finding {
            source: "figure 12; 5.5",
            claim: "early discard keeps the rejection of high priority low",
            found: listed[2..].join(", "),
            verdict: FindingVerdict::of(of[2] < of[0] && of[3] < of[1]),
        },
        Finding {
            source: "figure 13; 5.5",
            claim: "with early discard and a time-out of 2 s, 99.5% of high priority within 2 s",
            found: percent(1.0 - late),
            verdict: FindingVerdict::of(late <= 0.005),
        },
        Finding {
            source: "figure 13; 5.5",
            claim: "none of high priority denied up to capacity (by ratio)",
            found: by_ratio.join(", "),
            verdict: FindingVerdict::of(rejected.iter().all(|share| *share == 0.0)),
        },
        Finding {
            source: "figure 13; 5.5",
            claim: "0.05 to 0.5% of high priority aborted",
            found: percent(aborted),
            verdict: FindingVerdict::of_share(aborted, 0.000_5..=0.005),
        },
        Finding {
            source: "ours",
            claim: "denied of high priority while it alone is below 0.95 of capacity, whatever \
                    the rest: below 0.1%",
            found: percent(high_late),
            verdict: FindingVerdict::of(high_late < 0.001),
        },
        Finding {
            source: "ours",
            claim: "displacement alone: none of high priority denied at 1.5 times the capacity",
            found: percent(displacing),
            verdict: FindingVerdict::of(displacing == 0.0),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::FindingVerdict;

    #[test]
    fn what_does_not_come_up_is_not_said_to_hold() {
        let of = |share| FindingVerdict::of_share(share, 0.000_5..=0.005);
        assert_eq!(of(0.0).name(), "not shown");
        assert_eq!(of(0.001).name(), "holds");
        assert_eq!(of(0.01).name(), "DIFFERS");
    }
}
