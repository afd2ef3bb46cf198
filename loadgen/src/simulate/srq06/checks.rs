//! SRQ06's findings, and whether the simulation has them too.

use super::super::findings::{Finding, FindingVerdict};
use super::experiments::MeasuredScheme;

/// The numbers of table IV: mean response times in the shift, in seconds.
pub(super) const TABLE_IV: [(&str, f64); 5] = [
    ("linux 20", 1.413),
    ("linux 100", 3.106),
    ("edf", 1.706),
    ("vrd", 1.121),
    ("srq", 0.529),
];

/// The schemes whose throughputs in the shift the paper calls similar (V C).
pub(super) const ALIKE: [&str; 4] = ["linux 20", "edf", "vrd", "srq"];

/// The mean that the shift is fitted to: the default Linux's.
pub(super) const FITTED_S: f64 = TABLE_IV[0].1;

/// The part of a paper's number by which ours may differ and still be called the same.
const NEAR: f64 = 0.1;

/// The measures of each scheme, in the order of [`TABLE_IV`].
pub(super) struct Schemes(pub(super) Vec<MeasuredScheme>);

impl Schemes {
    pub(super) fn of(&self, name: &str) -> &MeasuredScheme {
        let place = TABLE_IV.iter().position(|&(own, _)| own == name);
        &self.0[place.unwrap_or(0)]
    }

    pub(super) fn mean_s(&self, name: &str) -> f64 {
        self.of(name).mean_s
    }

    /// Returns the share by which a scheme's mean is less than Linux's.
    pub(super) fn gain(&self, name: &str) -> f64 {
        1.0 - self.mean_s(name) / self.mean_s("linux 20")
    }
}

/// Returns the findings on the size shift.
pub(super) fn shift(schemes: &Schemes) -> Vec<Finding> {
    let mut findings = table_iv(schemes);
    findings.extend(over_time(schemes));
    findings
}

/// Returns the findings on mean response times.
fn table_iv(schemes: &Schemes) -> Vec<Finding> {
    let change = |name: &str| format!("{:+.1}%", -100.0 * schemes.gain(name));
    let alike = |name: &str, paper: f64| {
        let own = -schemes.gain(name);
        match (1.0 + own) / (1.0 + paper) - 1.0 {
            off if off.abs() <= NEAR => FindingVerdict::Holds,
            _ if own * paper > 0.0 => FindingVerdict::InPart,
            _ => FindingVerdict::Differs,
        }
    };
    vec![
        Finding {
            source: "table IV",
            claim: "SRQ is below Linux by 62.6%",
            found: change("srq"),
            verdict: FindingVerdict::of_gain(schemes.gain("srq"), 0.626),
        },
        Finding {
            source: "table IV",
            claim: "R-VRD is below Linux by 20.7%",
            found: change("vrd"),
            verdict: FindingVerdict::of_gain(schemes.gain("vrd"), 0.207),
        },
        Finding {
            source: "table IV",
            claim: "R-EDF is above Linux by 20.7%",
            found: change("edf"),
            verdict: alike("edf", 0.207),
        },
        Finding {
            source: "table IV",
            claim: "Linux with 100 threads is above Linux with 20 by 119.8%",
            found: change("linux 100"),
            verdict: alike("linux 100", 1.198),
        },
    ]
}

/// Returns the findings on figures 9 and 10.
fn over_time(schemes: &Schemes) -> Vec<Finding> {
    let order = ["srq", "vrd", "linux 20", "edf"].map(|name| (name, schemes.mean_s(name)));
    let listed = order.map(|(name, mean_s)| format!("{name} {mean_s:.3}"));
    let rates = ALIKE.iter().map(|name| schemes.of(name).throughput_per_s);
    let (least, most) = (
        rates.clone().fold(f64::MAX, f64::min),
        rates.fold(0.0, f64::max),
    );
    let (srq, others) = (schemes.of("srq"), ["linux 20", "edf", "vrd"]);
    let best = others.map(|name| schemes.of(name).within[1]);
    let tails = others.map(|name| schemes.of(name).p99_s);
    vec![
        Finding {
            source: "figure 9",
            claim: "the order is SRQ, R-VRD, Linux, R-EDF (mean s)",
            found: listed.join(", "),
            verdict: FindingVerdict::of(order.is_sorted_by(|a, b| a.1 < b.1)),
        },
        Finding {
            source: "figure 9",
            claim: "throughputs are similar (requests/s, the least and the most)",
            found: format!("{least:.1}, {most:.1}"),
            verdict: FindingVerdict::of(least >= (1.0 - NEAR) * most),
        },
        Finding {
            source: "figure 10",
            claim: "SRQ has more short times than the others (share within 0.5 s; Linux, \
                    R-EDF, R-VRD)",
            found: format!(
                "{:.2}; {:.2}, {:.2}, {:.2}",
                srq.within[1], best[0], best[1], best[2]
            ),
            verdict: FindingVerdict::of(best.iter().all(|&other| srq.within[1] > other)),
        },
        Finding {
            source: "figure 10",
            claim: "SRQ has a longer tail than the others (99% within so many s)",
            found: format!(
                "{:.1}; {:.1}, {:.1}, {:.1}",
                srq.p99_s, tails[0], tails[1], tails[2]
            ),
            verdict: FindingVerdict::of(tails.iter().all(|&other| srq.p99_s > other)),
        },
    ]
}

/// The measures at a load, in parts of the one at which Linux loses 5 %.
pub(super) struct AtLoad {
    pub(super) load: f64,
    pub(super) schemes: Schemes,
}

fn overloads(loads: &[AtLoad]) -> impl Iterator<Item = &AtLoad> {
    loads.iter().filter(|own| own.load > 1.0)
}

/// Returns the least and the most of a scheme's gain over Linux in overload.
fn gains(loads: &[AtLoad], name: &str) -> (f64, f64) {
    let gains = overloads(loads).map(|own| own.schemes.gain(name));
    gains.fold((f64::MAX, f64::MIN), |(least, most), gain| {
        (least.min(gain), most.max(gain))
    })
}

fn at(loads: &[AtLoad], load: f64) -> Option<&Schemes> {
    let found = loads.iter().find(|own| (own.load - load).abs() < 1e-9);
    found.map(|own| &own.schemes)
}

const AWARE: [&str; 3] = ["edf", "vrd", "srq"];

/// Returns the findings on the description service.
pub(super) fn description(loads: &[AtLoad]) -> Vec<Finding> {
    let (least, most) = gains(loads, "srq");
    let ratio = at(loads, 1.0).map(|schemes| {
        let linux = schemes.of("linux 20").loss_percent;
        AWARE.map(|name| schemes.of(name).loss_percent / linux)
    });
    let spread = overloads(loads).map(|own| {
        let means = AWARE.map(|name| own.schemes.mean_s(name));
        means.iter().copied().fold(0.0, f64::max) / means.iter().copied().fold(f64::MAX, f64::min)
    });
    let spread = spread.fold(1.0, f64::max);
    vec![
        Finding {
            source: "figure 11",
            claim: "at 100% load R-EDF, R-VRD and SRQ lose half of what Linux loses",
            found: ratio.map_or("none".to_owned(), |[edf, vrd, srq]| {
                format!("{edf:.2}, {vrd:.2}, {srq:.2} of it")
            }),
            verdict: match ratio {
                Some(ratio) if ratio.iter().all(|&own| own < 0.6) => FindingVerdict::Holds,
                Some(ratio) if ratio.iter().all(|&own| own < 1.0) => FindingVerdict::InPart,
                _ => FindingVerdict::Differs,
            },
        },
        Finding {
            source: "figure 12",
            claim: "in overload SRQ's mean is below Linux's by 14.5% to 78.8%",
            found: format!("{:.1}% to {:.1}%", 100.0 * least, 100.0 * most),
            verdict: FindingVerdict::of_gain(least, 0.145),
        },
        Finding {
            source: "figure 12",
            claim: "R-EDF, R-VRD and SRQ are about equal (the most over the least)",
            found: format!("{spread:.2}"),
            verdict: FindingVerdict::of(spread <= 1.0 + 2.0 * NEAR),
        },
    ]
}

/// Returns the findings on the retrieval service.
pub(super) fn retrieval(loads: &[AtLoad]) -> Vec<Finding> {
    let (least, most) = gains(loads, "srq");
    let losses = |own: &AtLoad, name: &str| own.schemes.of(name).loss_percent;
    let is_worst = overloads(loads).all(|own| {
        AWARE
            .iter()
            .all(|name| losses(own, name) <= losses(own, "linux 20"))
    });
    let apart = overloads(loads)
        .flat_map(|own| AWARE.map(|name| losses(own, "linux 20") - losses(own, name)))
        .fold(0.0, |most: f64, apart| most.max(apart.abs()));
    let short = |load: f64| {
        at(loads, load).map(|schemes| {
            let linux = schemes.of("linux 20").within[1];
            let aware = AWARE.map(|name| schemes.of(name).within[1]);
            (linux, aware.iter().copied().fold(f64::MAX, f64::min))
        })
    };
    let twice = short(2.0);
    vec![
        Finding {
            source: "figure 13",
            claim: "losses are similar, Linux's the worst in overload (points apart at most)",
            found: format!("{apart:.1}"),
            verdict: FindingVerdict::of(is_worst && apart < 10.0),
        },
        Finding {
            source: "figure 14",
            claim: "in overload SRQ's mean is below Linux's by 78.9% to 82.3%",
            found: format!("{:.1}% to {:.1}%", 100.0 * least, 100.0 * most),
            verdict: FindingVerdict::of_gain(least, 0.789),
        },
        Finding {
            source: "figure 15",
            claim: "at 200% load Linux has far fewer short times than all others (share within \
                    0.5 s; the least of the others)",
            found: twice.map_or("none".to_owned(), |(linux, least)| {
                format!("{linux:.2}; {least:.2}")
            }),
            verdict: match twice {
                Some((linux, least)) if linux < 0.5 * least => FindingVerdict::Holds,
                Some((linux, least)) if linux < least => FindingVerdict::InPart,
                _ => FindingVerdict::Differs,
            },
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemes(means: [f64; 5], within: [f64; 5], p99: [f64; 5], loss: [f64; 5]) -> Schemes {
        let own = |index: usize| MeasuredScheme {
            mean_s: means[index],
            within: [within[index]; 5],
            p99_s: p99[index],
            loss_percent: loss[index],
            throughput_per_s: 47.0,
            queues: None,
        };
        Schemes((0..5).map(own).collect())
    }

    fn verdicts(findings: &[Finding]) -> Vec<FindingVerdict> {
        findings.iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn the_papers_own_figures_hold() {
        let within = [0.2, 0.1, 0.3, 0.4, 0.8];
        let p99 = [4.0, 9.0, 4.0, 5.0, 20.0];
        let means = TABLE_IV.map(|(_, mean_s)| mean_s);
        let own = schemes(means, within, p99, [6.0; 5]);
        assert_eq!(verdicts(&shift(&own)), [FindingVerdict::Holds; 8]);
        let of_load = |load: f64| AtLoad {
            load,
            schemes: schemes(
                [1.0, 2.0, 0.19, 0.19, 0.19],
                [0.1, 0.1, 0.9, 0.9, 0.9],
                p99,
                [5.0 * load, 5.0, 2.5 * load, 2.5 * load, 2.5 * load],
            ),
        };
        let loads = [of_load(1.0), of_load(2.0)];
        assert_eq!(verdicts(&description(&loads)), [FindingVerdict::Holds; 3]);
        assert_eq!(verdicts(&retrieval(&loads)), [FindingVerdict::Holds; 3]);
    }

    #[test]
    fn what_is_no_gain_differs_and_what_is_less_is_in_part() {
        let of_srq = |srq_s: f64| {
            let means = [1.4, 3.1, 1.7, 1.1, srq_s];
            let own = schemes(means, [0.5; 5], [1.0; 5], [5.0; 5]);
            verdicts(&shift(&own))
        };
        assert_eq!(of_srq(1.0)[0], FindingVerdict::InPart);
        let worse = of_srq(1.5);
        assert_eq!(
            [worse[0], worse[4], worse[6], worse[7]],
            [FindingVerdict::Differs; 4]
        );
        let same = AtLoad {
            load: 2.0,
            schemes: schemes([1.0; 5], [0.5; 5], [1.0; 5], [50.0; 5]),
        };
        let found = verdicts(&retrieval(&[same]));
        assert_eq!(
            found,
            [
                FindingVerdict::Holds,
                FindingVerdict::Differs,
                FindingVerdict::Differs
            ]
        );
    }
}
