//! SDIS02's experiment for the reproduction, with a name for each value.

use super::checks::{Curves, STATIC_CAPACITY};
use super::points::{Curve, RatePoint, Who};
use super::{Media, RATES, Sdis02Args, base, curves, figures};
use crate::simulate::experiment::{Experiment, Measured, PlotAxes, PlotSpec, Scale};

/// Specifies a plot of the paper's, over the rate.
const fn plot(name: &'static str, title: &'static str, y: &'static str) -> PlotSpec {
    PlotSpec {
        name,
        title,
        x: figures::X,
        y,
        axes: PlotAxes::LogY,
    }
}

const MEAN: &str = "mean response time (ms)";
const P95: &str = "95th percentile (ms)";

/// The experiment of SDIS02's figures 2 to 13.
pub(crate) const EXPERIMENTS: [Experiment; 1] = [Experiment {
    paper: "SDIS02",
    name: "server",
    about: "A dispatcher and four servers with a queue each, two classes, the objects of the \
            paper's table 2: the core's stations decide on order, endpoint and admission.",
    plots: &[
        plot("figure-02", "Half of high priority: mean", MEAN),
        plot("figure-03", "Half high priority: 95th percentile", P95),
        plot("figure-04", "High priority by its ratio: mean", MEAN),
        plot("figure-05", "High by its ratio: 95th percentile", P95),
        plot("figure-06", "Low by the ratio of high: mean", MEAN),
        plot("figure-07", "Low by ratio of high: 95th percentile", P95),
        plot("figure-08", "High priority by assignment: mean", MEAN),
        plot("figure-09", "High by assignment: 95th percentile", P95),
        plot("figure-10", "Low priority by assignment: mean", MEAN),
        plot("figure-11", "Low by assignment: 95th percentile", P95),
        plot("figure-12", "Rejection", "rejected (%)"),
        plot("figure-13", "Early discard and a time-out of 2 s", "%"),
    ],
    expected_s: (60.0, 240.0),
    parameters: |scale| format!("{:?}, all of low discarded at {DISCARD_ALL}", setup(scale)),
    run: server,
}];

/// The share of a queue from which all of low priority is discarded.
const DISCARD_ALL: f64 = 0.75;

fn setup(scale: Scale) -> super::Setup {
    base(&Sdis02Args {
        seed: 7,
        requests: scale.pick(1_000, 60_000, 200_000),
        cache_hits: 0.8,
        media: Media::Traffic,
        channel: 80_000_000,
        averaging: std::time::Duration::from_millis(100),
        discard_all: DISCARD_ALL,
        output: None,
    })
}

/// Runs all curves of the paper.
fn server(scale: Scale) -> anyhow::Result<Measured> {
    let base = setup(scale);
    let rates = RATES.map(|share| share * STATIC_CAPACITY);
    let rates = scale.pick(&rates[..2], &rates[..], &rates[..]);
    let curves = curves(&base, DISCARD_ALL, rates)?;
    let mut measured = Measured::default();
    for (name, lines) in figures::lines(&curves) {
        for (line, points) in lines {
            for (x, y) in points {
                measured.point(name, &line, x, y);
            }
        }
    }
    let capacity = base.capacity();
    measured.value("capacity over static", capacity / STATIC_CAPACITY);
    priorities(&curves, capacity, &mut measured);
    assignment(&curves, capacity, &mut measured);
    admission(&curves, capacity, &mut measured);
    Ok(measured)
}

/// Adds the values that the paper's text states of figures 2 to 7.
fn priorities(curves: &Curves, capacity: f64, measured: &mut Measured) {
    let half = &curves.assignments[0];
    let mut knee = |name: &str, rate: Option<f64>| {
        measured.value(name, rate.unwrap_or(f64::NAN) / STATIC_CAPACITY);
    };
    knee("knee without priorities", curves.plain.knee(Who::All));
    knee("knee of low", half.knee(Who::Low));
    let knees = curves.ratios.iter().filter_map(|own| own.knee(Who::Low));
    let knees: Vec<f64> = knees.collect();
    let least = knees.iter().copied().fold(f64::NAN, f64::min);
    let most = knees.iter().copied().fold(f64::NAN, f64::max);
    measured.value("low knees least over most", least / most);
    measured.value(
        "high mean s",
        half.most(capacity, |point| point.high.mean_s),
    );
    measured.value("high p95 s", half.most(capacity, |point| point.high.p95_s));
    let up_to = 0.95 * capacity;
    let high = |own: &Curve| own.most(up_to, |point| point.high.mean_s);
    let mut means_s: Vec<f64> = curves.ratios.iter().map(high).collect();
    means_s.push(curves.plain.most(up_to, |point| point.all.mean_s));
    measured.holds("more high, closer to none", means_s.is_sorted());
}

/// Adds the values that the paper's text states of figures 8 to 11.
fn assignment(curves: &Curves, capacity: f64, measured: &mut Measured) {
    let [rr, sqf, psqf, rpsq, _] = &curves.assignments[..] else {
        return;
    };
    let mean = |curve: &Curve, who| curve.mean(0.9 * capacity, |point| point.of(who).mean_s);
    for (who, name) in [(Who::High, "high"), (Who::Low, "low")] {
        let worst = mean(rr, who);
        let is_worst = [sqf, psqf].iter().all(|own| mean(own, who) < worst);
        measured.holds(format!("rr worst for {name}"), is_worst);
    }
    measured.value(
        "high rpsq over psqf",
        mean(rpsq, Who::High) / mean(psqf, Who::High),
    );
    let is_worse = mean(rpsq, Who::Low) > mean(psqf, Who::Low);
    let knees = rpsq.knee(Who::Low).zip(psqf.knee(Who::Low));
    let is_earlier = knees.is_some_and(|(own, other)| own < other);
    measured.holds("low rpsq worse, earlier knee", is_worse && is_earlier);
}

/// Adds the values that the paper's text states of figures 12 and 13.
fn admission(curves: &Curves, capacity: f64, measured: &mut Measured) {
    let slope = |curve: &Curve, who| rejection_slope(curve, capacity, who);
    let plain = || curves.discards.iter().take(2);
    let ratios = plain().map(|own| slope(own, Who::High) / slope(own, Who::Low));
    let ratios: Vec<f64> = ratios.collect();
    measured.value(
        "rejection slope, high over low",
        ratios.iter().sum::<f64>() / ratios.len() as f64,
    );
    let denied = |own: &Curve| own.most(1.5 * capacity, |point| point.high.rejected);
    let denied: Vec<f64> = curves.discards.iter().map(denied).collect();
    if let [sqf, psqf, sqf_edac, psqf_edac] = denied[..] {
        let is_lower = sqf_edac < sqf && psqf_edac < psqf;
        measured.holds("early discard keeps high in", is_lower);
    }
    let each = |measure: fn(&RatePoint) -> f64| {
        let most = curves
            .timeouts
            .iter()
            .map(move |own| own.most(capacity, measure));
        most.fold(0.0, f64::max)
    };
    measured.value(
        "high within 2 s",
        1.0 - each(|point| 1.0 - point.high.in_time),
    );
    measured.value("high refused", each(|point| point.high.rejected));
    measured.value("high aborted", each(|point| point.high.aborted));
}

/// Returns the growth of the share rejected from the first rate beyond `capacity` to the last, for
/// each static capacity that the rate grows by.
fn rejection_slope(curve: &Curve, capacity: f64, who: Who) -> f64 {
    let over = curve.points.iter().filter(|point| point.rate > capacity);
    let over: Vec<&RatePoint> = over.collect();
    match (over.first(), over.last()) {
        (Some(first), Some(last)) if last.rate > first.rate => {
            let grown = last.of(who).rejected - first.of(who).rejected;
            grown / (last.rate - first.rate) * STATIC_CAPACITY
        }
        _ => f64::NAN,
    }
}
