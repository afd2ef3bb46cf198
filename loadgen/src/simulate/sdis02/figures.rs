//! Figures 2 to 13, and all points as CSV.

use std::fmt::Write as _;

use super::checks::{Curves, STATIC_CAPACITY};
use super::points::{Curve, Outcome, Point, Who};
use crate::report::plot::PlotError;
use crate::simulate::charts::chart;

/// A figure's name, and its picture.
type Figure = (&'static str, String);
type Line = (String, Vec<(f64, f64)>);

/// A measure with its name.
type Measure = (&'static str, fn(&Outcome) -> f64);
/// Name and title of a figure, what it measures, and its lines.
type Times = (&'static str, &'static str, Measure, Vec<Line>);

const MEAN: Measure = ("mean response time (ms)", |o| 1e3 * o.mean_s);
const P95: Measure = ("95th percentile (ms)", |o| 1e3 * o.p95_s);

/// All figures of the paper that show results.
pub(super) fn draw(curves: &Curves) -> Result<Vec<Figure>, PlotError> {
    let half = &curves.assignments[0];
    let named = |name: &str, curve: &Curve, who, of: fn(&Outcome) -> f64| -> Line {
        (name.to_owned(), line(curve, |point| of(point.of(who))))
    };
    let priorities = |of| {
        vec![
            named("low", half, Who::Low, of),
            named("high", half, Who::High, of),
            named("no priorities", &curves.plain, Who::All, of),
        ]
    };
    let ratios = |who, of| {
        let mut lines = Vec::new();
        for curve in &curves.ratios {
            lines.push(named(&curve.name, curve, who, of));
        }
        lines.push(named("no priorities", &curves.plain, Who::All, of));
        lines
    };
    let schemes = |who, of| {
        let curves = curves.assignments.iter();
        curves
            .map(|curve| named(&curve.name, curve, who, of))
            .collect::<Vec<Line>>()
    };
    let times: [Times; 10] = [
        (
            "figure-02",
            "Half of high priority",
            MEAN,
            priorities(MEAN.1),
        ),
        ("figure-03", "Half of high priority", P95, priorities(P95.1)),
        (
            "figure-04",
            "High priority, by its ratio",
            MEAN,
            ratios(Who::High, MEAN.1),
        ),
        (
            "figure-05",
            "High priority, by its ratio",
            P95,
            ratios(Who::High, P95.1),
        ),
        (
            "figure-06",
            "Low priority, by the ratio of high",
            MEAN,
            ratios(Who::Low, MEAN.1),
        ),
        (
            "figure-07",
            "Low priority, by the ratio of high",
            P95,
            ratios(Who::Low, P95.1),
        ),
        (
            "figure-08",
            "High priority, by assignment",
            MEAN,
            schemes(Who::High, MEAN.1),
        ),
        (
            "figure-09",
            "High priority, by assignment",
            P95,
            schemes(Who::High, P95.1),
        ),
        (
            "figure-10",
            "Low priority, by assignment",
            MEAN,
            schemes(Who::Low, MEAN.1),
        ),
        (
            "figure-11",
            "Low priority, by assignment",
            P95,
            schemes(Who::Low, P95.1),
        ),
    ];
    let mut figures = Vec::new();
    for (name, title, (y, _), lines) in times {
        figures.push((name, chart(title, X, y, lines)?));
    }
    let rejections = rejections(curves);
    figures.push((
        "figure-12",
        chart("Rejection", X, "rejected (%)", rejections)?,
    ));
    let fates = fates(curves);
    figures.push((
        "figure-13",
        chart("Early discard and a time-out of 2 s", X, "%", fates)?,
    ));
    Ok(figures)
}

const X: &str = "rate, of the capacity for static objects";

fn line(curve: &Curve, value: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let points = curve.points.iter();
    let points = points.map(|point| (point.rate / STATIC_CAPACITY, value(point)));
    // On a logarithmic axis there is no zero.
    points.filter(|(_, value)| *value > 0.0).collect()
}

fn rejections(curves: &Curves) -> Vec<Line> {
    let mut lines = Vec::new();
    for curve in &curves.discards {
        for (who, priority) in [(Who::High, "high"), (Who::Low, "low")] {
            let points = line(curve, |point| 100.0 * point.of(who).rejected);
            lines.push((format!("{}: {priority}", curve.name), points));
        }
    }
    lines
}

fn fates(curves: &Curves) -> Vec<Line> {
    let mut lines = Vec::new();
    // All ratios at once would be a thicket; they are in the CSV.
    let shown = |curve: &&Curve| [0.5, 0.9].contains(&curve.setup.high_ratio);
    for curve in curves.timeouts.iter().filter(shown) {
        let name = &curve.name;
        let aborted = |who| line(curve, move |point: &Point| 100.0 * point.of(who).aborted);
        lines.push((format!("{name}: high aborted"), aborted(Who::High)));
        lines.push((format!("{name}: low aborted"), aborted(Who::Low)));
        let rejected = line(curve, |point| 100.0 * point.low.rejected);
        lines.push((format!("{name}: low rejected"), rejected));
    }
    lines
}

/// Every point of every curve.
pub(super) fn csv(curves: &Curves) -> String {
    let mut csv =
        "experiment,system,rate,priority,mean_s,p95_s,rejected,aborted,within_2s\n".to_owned();
    let groups: [(&str, Vec<&Curve>); 6] = [
        ("no-priorities", vec![&curves.plain]),
        ("ratio", curves.ratios.iter().collect()),
        ("assignment", curves.assignments.iter().collect()),
        ("discard", curves.discards.iter().collect()),
        ("timeout", curves.timeouts.iter().collect()),
        ("displacement", vec![&curves.displacing]),
    ];
    for (group, of_group) in groups {
        for curve in of_group {
            for point in &curve.points {
                for (who, priority) in [(Who::High, "high"), (Who::Low, "low"), (Who::All, "all")] {
                    let o = point.of(who);
                    // Writing to a string cannot fail.
                    let _ = writeln!(
                        csv,
                        "{group},{},{},{priority},{},{},{},{},{}",
                        curve.name.replace(", ", "-"),
                        point.rate,
                        o.mean_s,
                        o.p95_s,
                        o.rejected,
                        o.aborted,
                        o.in_time
                    );
                }
            }
        }
    }
    csv
}
