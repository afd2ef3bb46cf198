//! SDIS02's figures 2 to 13, and all points as CSV.

use std::io::{self, Write};

use serde::Serialize;
use sprat_measure::plot::PlotError;

use super::checks::{Curves, STATIC_CAPACITY};
use super::points::{ClassOutcome, Curve, RatePoint, Who};
use crate::simulate::charts::chart;
use crate::table::Number;

/// A figure: its name, and its picture as SVG.
type NamedFigure = (&'static str, String);
pub(super) type FigureLine = (String, Vec<(f64, f64)>);

/// A measure of an outcome, with its name.
type Measure = (&'static str, fn(&ClassOutcome) -> f64);
/// The curves that a pair of figures shows, and whose they are.
#[derive(Clone, Copy)]
enum ShownCurves {
    /// The two priorities where half is high, and the server without priorities.
    Priorities,
    /// One priority, by the ratio of high priority.
    Ratios(Who),
    /// One priority, by the scheme for task assignment.
    Schemes(Who),
}

/// The figures 2 to 11 in pairs: means, and 95th percentiles.
const TIMES: [(&str, &str, &str, ShownCurves); 5] = [
    (
        "figure-02",
        "figure-03",
        "Half of high priority",
        ShownCurves::Priorities,
    ),
    (
        "figure-04",
        "figure-05",
        "High priority, by its ratio",
        ShownCurves::Ratios(Who::High),
    ),
    (
        "figure-06",
        "figure-07",
        "Low priority, by the ratio of high",
        ShownCurves::Ratios(Who::Low),
    ),
    (
        "figure-08",
        "figure-09",
        "High priority, by assignment",
        ShownCurves::Schemes(Who::High),
    ),
    (
        "figure-10",
        "figure-11",
        "Low priority, by assignment",
        ShownCurves::Schemes(Who::Low),
    ),
];

const MEAN: Measure = ("mean response time (ms)", |o| 1e3 * o.mean_s);
const P95: Measure = ("95th percentile (ms)", |o| 1e3 * o.p95_s);

/// Returns the lines of all figures of the paper that show results, by their names.
pub(super) fn lines(curves: &Curves) -> Vec<(&'static str, Vec<FigureLine>)> {
    let mut figures = Vec::new();
    for (mean, p95, _, shown) in TIMES {
        for (name, (_, of)) in [(mean, MEAN), (p95, P95)] {
            figures.push((name, times(curves, shown, of)));
        }
    }
    figures.push(("figure-12", rejections(curves)));
    figures.push(("figure-13", fates(curves)));
    figures
}

/// Draws all figures of the paper that show results.
pub(super) fn draw(curves: &Curves) -> Result<Vec<NamedFigure>, PlotError> {
    let mut figures = Vec::new();
    for (mean, p95, title, shown) in TIMES {
        for (name, (y, of)) in [(mean, MEAN), (p95, P95)] {
            figures.push((name, chart(title, X, y, times(curves, shown, of))?));
        }
    }
    let rejections = chart("Rejection", X, "rejected (%)", rejections(curves))?;
    figures.push(("figure-12", rejections));
    let title = "Early discard and a time-out of 2 s";
    figures.push(("figure-13", chart(title, X, "%", fates(curves))?));
    Ok(figures)
}

fn times(curves: &Curves, shown: ShownCurves, of: fn(&ClassOutcome) -> f64) -> Vec<FigureLine> {
    let named = |name: &str, curve: &Curve, who| -> FigureLine {
        (name.to_owned(), line(curve, |point| of(point.of(who))))
    };
    let each = |curves: &[Curve], who| -> Vec<FigureLine> {
        let lines = curves.iter().map(|curve| named(&curve.name, curve, who));
        lines.collect()
    };
    let plain = || named("no priorities", &curves.plain, Who::All);
    match shown {
        ShownCurves::Priorities => {
            let half = &curves.assignments[0];
            vec![
                named("low", half, Who::Low),
                named("high", half, Who::High),
                plain(),
            ]
        }
        ShownCurves::Ratios(who) => {
            let mut lines = each(&curves.ratios, who);
            lines.push(plain());
            lines
        }
        ShownCurves::Schemes(who) => each(&curves.assignments, who),
    }
}

pub(super) const X: &str = "rate, of the capacity for static objects";

fn line(curve: &Curve, value: impl Fn(&RatePoint) -> f64) -> Vec<(f64, f64)> {
    let points = curve.points.iter();
    let points = points.map(|point| (point.rate / STATIC_CAPACITY, value(point)));
    // On a logarithmic axis there is no zero.
    points.filter(|(_, value)| *value > 0.0).collect()
}

fn rejections(curves: &Curves) -> Vec<FigureLine> {
    let mut lines = Vec::new();
    for curve in &curves.discards {
        for (who, priority) in [(Who::High, "high"), (Who::Low, "low")] {
            let points = line(curve, |point| 100.0 * point.of(who).rejected);
            lines.push((format!("{}: {priority}", curve.name), points));
        }
    }
    lines
}

fn fates(curves: &Curves) -> Vec<FigureLine> {
    let mut lines = Vec::new();
    // All ratios at once would be a thicket; they are in the CSV.
    let shown = |curve: &&Curve| [0.5, 0.9].contains(&curve.setup.high_ratio);
    for curve in curves.timeouts.iter().filter(shown) {
        let name = &curve.name;
        let aborted = |who| {
            line(curve, move |point: &RatePoint| {
                100.0 * point.of(who).aborted
            })
        };
        lines.push((format!("{name}: high aborted"), aborted(Who::High)));
        lines.push((format!("{name}: low aborted"), aborted(Who::Low)));
        let rejected = line(curve, |point| 100.0 * point.low.rejected);
        lines.push((format!("{name}: low rejected"), rejected));
    }
    lines
}

/// A line of the CSV: the outcome of a priority's tasks at a point.
#[derive(Serialize)]
struct PriorityRow<'a> {
    experiment: &'a str,
    system: String,
    rate: Number,
    priority: &'a str,
    mean_s: Number,
    p95_s: Number,
    rejected: Number,
    aborted: Number,
    within_2s: Number,
}

/// Writes every point of every curve as CSV.
pub(super) fn write_csv(curves: &Curves, out: impl Write) -> io::Result<()> {
    let groups: [(&str, Vec<&Curve>); 6] = [
        ("no-priorities", vec![&curves.plain]),
        ("ratio", curves.ratios.iter().collect()),
        ("assignment", curves.assignments.iter().collect()),
        ("discard", curves.discards.iter().collect()),
        ("timeout", curves.timeouts.iter().collect()),
        ("displacement", vec![&curves.displacing]),
    ];
    let mut csv = csv::Writer::from_writer(out);
    for (group, of_group) in groups {
        for curve in of_group {
            for point in &curve.points {
                for (who, priority) in [(Who::High, "high"), (Who::Low, "low"), (Who::All, "all")] {
                    let outcome = point.of(who);
                    csv.serialize(PriorityRow {
                        experiment: group,
                        // Scripts split lines at commas.
                        system: curve.name.replace(", ", "-"),
                        rate: Number(point.rate),
                        priority,
                        mean_s: Number(outcome.mean_s),
                        p95_s: Number(outcome.p95_s),
                        rejected: Number(outcome.rejected),
                        aborted: Number(outcome.aborted),
                        within_2s: Number(outcome.in_time),
                    })?;
                }
            }
        }
    }
    csv.flush()
}
