//! TOCS03's LAN with other sizes (3.1.3): Surge's, and those of a recorded sample.

use std::sync::Arc;

use super::run::{AskedSizes, TargetLoad, Tocs03Setup};
use super::{LAN_LOADS, PAYLOAD, compare, draw, lan, plot};
use crate::simulate::experiment::Scale;
use crate::simulate::experiment::{Experiment, Measured, PlotAxes, PlotSpec, SampleExperiment};
use crate::simulate::sample::RecordedSample;
use crate::workload::{Sizes, summarise};

/// Specifies a plot of distributions of sizes.
const fn distribution(name: &'static str, title: &'static str) -> PlotSpec {
    PlotSpec {
        y: "share of requests for more",
        axes: PlotAxes::LogLog,
        ..plot(name, title, "size (bytes)")
    }
}

/// The experiment with Surge's sizes.
pub(super) const SURGE: Experiment = Experiment {
    paper: "TOCS03",
    name: "surge",
    about: "The LAN with Surge's sizes beside those of the generated workload. Lognormal with a \
            Pareto tail as Surge's files, and a fifth of their size, with which the mean is the 7 \
            KB that the paper prints; the same users ask for the large files at the same times.",
    plots: &[
        distribution("figure-04", "Requested sizes, as generated"),
        plot("figure-05a-surge", "Mean response time, Surge", PAYLOAD),
    ],
    expected_s: (35.0, 110.0),
    parameters: |scale| {
        format!(
            "{:?} at {SURGE_LOADS:?}",
            with_surge(&Tocs03Setup::lan(scale))
        )
    },
    run: |scale| surge(&Tocs03Setup::lan(scale)),
};

/// The experiment with the sizes of a recorded sample.
pub(crate) const SAMPLE: SampleExperiment = SampleExperiment {
    paper: "TOCS03",
    name: "sample",
    about: "The LAN with the sizes of a recorded sample of the World Cup's site, in random order. \
            Day 6 of the log, one request in six: not the hour that the paper replays. Arrivals \
            are Poisson, for a sample has not the site's bursts.",
    plots: &[
        distribution("figure-04-sample", "Requested sizes of the sample"),
        plot(
            "figure-05a-sample",
            "Mean response time, the sample",
            PAYLOAD,
        ),
        PlotSpec {
            y: "mean slowdown",
            ..plot("figure-06-sample", "Mean slowdown, the sample", PAYLOAD)
        },
        PlotSpec {
            axes: PlotAxes::LogLog,
            ..plot(
                "figure-09a-sample",
                "The sample at 0.8: by size",
                "size (bytes)",
            )
        },
        plot(
            "figure-09b-sample",
            "The sample at 0.8: by percentile",
            "percentile of size",
        ),
    ],
    expected_s: (25.0, 80.0),
    parameters: |scale, sample| format!("{:?} at {LAN_LOADS:?}", of_sample(scale, sample)),
    run: with_sample,
};

/// Loads with Surge's sizes: those that the link can carry with either sizes.
const SURGE_LOADS: [TargetLoad; 6] = TargetLoad::payloads([0.2, 0.4, 0.5, 0.6, 0.7, 0.8]);

/// Points of a distribution for each tenfold of the share, and the tenfolds.
const POINTS: u32 = 10;
const TENFOLDS: u32 = 5;

/// The sizes that figure 4's text names, in KB.
const NAMED_KB: [f64; 3] = [1.0, 9.3, 2048.0];

fn with_surge(setup: &Tocs03Setup) -> Tocs03Setup {
    Tocs03Setup {
        sizes: AskedSizes::Generated(Sizes::Surge),
        ..setup.clone()
    }
}

/// Adds a distribution to a plot: for each size the share of the requests for more.
fn draw_sizes(measured: &mut Measured, plot: &str, line: &str, sizes: &AskedSizes) {
    for step in 0..=POINTS * TENFOLDS {
        let share = 10f64.powf(-f64::from(step) / f64::from(POINTS));
        let bytes = sizes.quantile_bytes(1.0 - share);
        measured.point(plot, line, bytes as f64, share);
    }
}

/// Runs Surge's sizes and the generated workload's at each load.
fn surge(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let own = with_surge(setup);
    let mut measured = Measured::default();
    draw_sizes(&mut measured, "figure-04", "World Cup", &setup.sizes);
    draw_sizes(&mut measured, "figure-04", "Surge", &own.sizes);
    if let Some(summary) = summarise(Sizes::Surge.of_files(setup.requests as u32)) {
        measured.value("Surge's mean KB", summary.mean_bytes / 1024.0);
    }
    let others = compare(&SURGE_LOADS.map(|load| own.at(load)))?;
    let traces = compare(&SURGE_LOADS.map(|load| setup.at(load)))?;
    let (mut fair, mut srpt) = (Vec::new(), Vec::new());
    for ((load, other), trace) in SURGE_LOADS.iter().zip(&others).zip(&traces) {
        let name = load.name();
        let plot = "figure-05a-surge";
        draw(&mut measured, plot, other.payload_load, other);
        measured.point(
            plot,
            "FAIR, World Cup",
            trace.payload_load,
            trace.fair.mean_ms(),
        );
        measured.point(
            plot,
            "SRPT, World Cup",
            trace.payload_load,
            trace.other.mean_ms(),
        );
        fair.push(other.fair.mean_ms() / trace.fair.mean_ms());
        srpt.push(other.other.mean_ms() / trace.other.mean_ms());
        measured.value(format!("gain at {name}"), other.gain());
        let of_trace = other.gain() / trace.gain();
        measured.value(format!("gain over the trace's at {name}"), of_trace);
    }
    for (policy, ratios) in [("FAIR", fair), ("SRPT", srpt)] {
        for (load, ratio) in SURGE_LOADS.iter().zip(&ratios) {
            let name = format!("{policy} over the trace's at {}", load.name());
            measured.value(name, *ratio);
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        measured.value(format!("{policy} over the trace's"), mean);
    }
    Ok(measured)
}

fn of_sample(scale: Scale, sample: &RecordedSample) -> Tocs03Setup {
    Tocs03Setup {
        sizes: AskedSizes::Recorded(Arc::new(sample.clone())),
        ..Tocs03Setup::lan(scale)
    }
}

/// Runs the LAN with the sizes of a recorded sample, at all loads.
fn with_sample(scale: Scale, sample: &RecordedSample) -> anyhow::Result<Measured> {
    let setup = of_sample(scale, sample);
    let mut measured = lan(&setup, "-sample")?;
    let generated = AskedSizes::Generated(Sizes::Worldcup);
    draw_sizes(&mut measured, "figure-04-sample", "sample", &setup.sizes);
    draw_sizes(&mut measured, "figure-04-sample", "generated", &generated);
    for kb in NAMED_KB {
        let share = sample.share_above((kb * 1024.0) as u64);
        measured.value(format!("requests above {kb} KB"), share);
    }
    if let Some(summary) = summarise(sample.sizes().to_vec()) {
        measured.value("mean KB", summary.mean_bytes / 1024.0);
        let share = summary.largest_3_percent_share;
        measured.value("bytes of the largest 3%", share);
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::sample::tests::sample;

    #[test]
    fn a_distribution_is_drawn_from_its_smallest_size_to_its_tail() {
        let own = sample("1,10,200,/a\n1,30,200,/b\n2,20,200,/a\n2,40,200,/c\n");
        let sizes = AskedSizes::Recorded(Arc::new(own));
        let mut measured = Measured::default();
        draw_sizes(&mut measured, "p", "l", &sizes);
        let [first, .., last] = &measured.points[..] else {
            panic!("no points")
        };
        assert_eq!([first.x, first.y, last.x], [10.0, 1.0, 40.0]);
        assert!((last.y - 1e-5).abs() < 1e-15, "{}", last.y);
        assert!(measured.points.is_sorted_by(|a, b| a.x <= b.x && a.y > b.y));
    }

    #[test]
    fn a_samples_requests_have_its_sizes_and_nothing_else_of_it() {
        let rows: String = (1..=400)
            .map(|size| format!("{size},{size}0,200,/a\n"))
            .collect();
        let measured = with_sample(Scale::Tiny, &sample(&rows)).unwrap();
        assert_eq!(measured.values["requests above 1 KB"], 298.0 / 400.0);
        assert_eq!(measured.values["mean KB"], 2005.0 / 1024.0);
        assert!(measured.values.contains_key("gain at 0.7"), "{measured:?}");
        let drawn = |name: &str| measured.points.iter().any(|own| own.plot == name);
        assert!(drawn("figure-05a-sample") && !drawn("figure-05a"));
    }
}
