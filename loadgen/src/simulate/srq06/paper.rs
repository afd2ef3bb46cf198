//! SRQ06's experiments for the reproduction, with a name for each value.

use super::checks::{ALIKE, AtLoad, FITTED_S, Schemes, TABLE_IV};
use super::experiments::{BOUNDS_S, Count, LoadPlan, ShiftPlan};
use super::server::THREADS;
use super::{Scheme, Shift, SrqService, measure, schemes_of};
use crate::simulate::experiment::{Experiment, Measured, PlotAxes, PlotSpec, Scale};

/// The time that one grant of a processor lasts, in nanoseconds.
const SLICE_NS: u64 = 1_000_000;

const SEED: u64 = 7;

/// The requests that count, in all figures and tables: those that ended while the paper
/// measured. Its figure 9 has throughput and response times over time, so both are taken as
/// responses leave; the paper does not say so. The other reading is measured beside it.
const READING: Count = Count::Ended;

/// The loads of figures 11 to 15; at 1 Linux loses 5 %.
const LOADS: [f64; 6] = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0];

/// The pool of threads that the paper gives all schemes (V C): the core's order the requests that
/// have a thread, and the others wait in order of arrival.
const POOL: Option<usize> = Some(THREADS);

/// The pool of an uplink, which has none: the core's schemes order all requests that are there.
/// Linux has its threads all the same, and the bound on requests inside is the same for all.
const UPLINK: Option<usize> = None;

/// Specifies a plot over the time of the size shift.
const fn over_time(name: &'static str, title: &'static str, y: &'static str) -> PlotSpec {
    PlotSpec {
        name,
        title,
        x: "time (s)",
        y,
        axes: PlotAxes::Linear,
    }
}

const THROUGHPUT: &str = "requests that ended (per s)";
const MEAN_S: &str = "mean response time (s)";

/// The experiments of SRQ06's figures 9 to 15 and table IV. Those of figures 9, 10 and 13 to 15
/// and of table IV are there twice: with the paper's threads, and as on an uplink.
pub(crate) const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        paper: "SRQ06",
        name: "shift",
        about: "Two processors that can be preempted, 50 requests a second, and longer requests \
                for 125 s: as many that Linux with 20 threads comes to the paper's mean. Requests \
                that ended in the shift count, as in a log of that time; values that begin with \
                `came` are those of requests that came in it, fitted anew.",
        plots: &[
            over_time("figure-09a", "Size shift: throughput", THROUGHPUT),
            over_time("figure-09b", "Size shift: response time", MEAN_S),
            PlotSpec {
                name: "figure-10",
                title: "Response times in the size shift",
                x: "response time (s)",
                y: "share of requests",
                axes: PlotAxes::LogLog,
            },
        ],
        expected_s: (10.0, 280.0),
        parameters: |scale| format!("{:?}", shift_plan(scale, READING)),
        run: |scale| shift(scale, POOL),
    },
    Experiment {
        paper: "SRQ06",
        name: "shift-uplink",
        about: "The same shift, where R-EDF, R-VRD and SRQ order all requests that are there, as \
                an uplink does, rather than those that have one of 20 threads. Linux, the shift \
                and the bound on requests inside are as there.",
        plots: &[
            over_time(
                "figure-09a-uplink",
                "Shift, all ordered: throughput",
                THROUGHPUT,
            ),
            over_time(
                "figure-09b-uplink",
                "Shift, all ordered: response time",
                MEAN_S,
            ),
            PlotSpec {
                name: "figure-10-uplink",
                title: "Shift, all ordered: response times",
                x: "response time (s)",
                y: "share of requests",
                axes: PlotAxes::LogLog,
            },
        ],
        expected_s: (10.0, 280.0),
        parameters: |scale| format!("{:?}, all ordered", shift_plan(scale, READING)),
        run: |scale| shift(scale, UPLINK),
    },
    Experiment {
        paper: "SRQ06",
        name: "description",
        about: "The description service under Poisson arrivals, at loads up to twice the one at \
                which Linux loses 5 % of the requests.",
        plots: &[
            PlotSpec {
                name: "figure-11",
                title: "Description: loss of throughput",
                x: "load",
                y: "requests refused (%)",
                axes: PlotAxes::LogY,
            },
            PlotSpec {
                name: "figure-12",
                title: "Description: mean response time",
                x: "load",
                y: "mean response time (s)",
                axes: PlotAxes::LogY,
            },
        ],
        expected_s: (60.0, 300.0),
        parameters: |scale| format!("{:?}", load_plan(scale, SrqService::Description)),
        run: |scale| at_loads(scale, SrqService::Description, POOL),
    },
    Experiment {
        paper: "SRQ06",
        name: "retrieval",
        about: "The retrieval service, whose times are heavy-tailed, as the description service.",
        plots: &[
            PlotSpec {
                name: "figure-13",
                title: "Retrieval: loss of throughput",
                x: "load",
                y: "requests refused (%)",
                axes: PlotAxes::LogY,
            },
            PlotSpec {
                name: "figure-14",
                title: "Retrieval: mean response time",
                x: "load",
                y: "mean response time (s)",
                axes: PlotAxes::LogY,
            },
            PlotSpec {
                name: "figure-15",
                title: "Retrieval at load 2: response times",
                x: "response time (s)",
                y: "share of requests",
                axes: PlotAxes::LogLog,
            },
        ],
        expected_s: (60.0, 300.0),
        parameters: |scale| format!("{:?}", load_plan(scale, SrqService::Retrieval)),
        run: |scale| at_loads(scale, SrqService::Retrieval, POOL),
    },
    Experiment {
        paper: "SRQ06",
        name: "retrieval-uplink",
        about: "The retrieval service at the same loads, where R-EDF, R-VRD and SRQ order all \
                requests that are there, as an uplink does.",
        plots: &[
            PlotSpec {
                name: "figure-13-uplink",
                title: "Retrieval, all ordered: loss",
                x: "load",
                y: "requests refused (%)",
                axes: PlotAxes::LogY,
            },
            PlotSpec {
                name: "figure-14-uplink",
                title: "Retrieval, all ordered: mean time",
                x: "load",
                y: "mean response time (s)",
                axes: PlotAxes::LogY,
            },
            PlotSpec {
                name: "figure-15-uplink",
                title: "All ordered at load 2: response times",
                x: "response time (s)",
                y: "share of requests",
                axes: PlotAxes::LogLog,
            },
        ],
        expected_s: (60.0, 300.0),
        parameters: |scale| {
            let plan = load_plan(scale, SrqService::Retrieval);
            format!("{plan:?}, all ordered")
        },
        run: |scale| at_loads(scale, SrqService::Retrieval, UPLINK),
    },
];

fn shift_plan(scale: Scale, count: Count) -> ShiftPlan {
    ShiftPlan {
        shift: Shift::Long,
        share: 0.0,
        count,
        seeds: scale.pick(1, 3, 10),
        seed: SEED,
    }
}

fn load_plan(scale: Scale, service: SrqService) -> LoadPlan {
    LoadPlan {
        service,
        rate_per_s: 0.0,
        count: READING,
        seeds: scale.pick(1, 2, 10),
        seed: SEED,
    }
}

/// Returns the name of a figure's plot, which ends in `-uplink` without a pool.
fn plot(figure: &str, pool: Option<usize>) -> String {
    let own = if pool.is_some() { "" } else { "-uplink" };
    format!("{figure}{own}")
}

/// Runs the size shift by both readings of whose times count.
fn shift(scale: Scale, pool: Option<usize>) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    let schemes = schemes_of(SLICE_NS, pool);
    let plan = shift_plan(scale, READING).fitted(&schemes[0].1, FITTED_S)?;
    let found = shift_by(&schemes, plan, "", &mut measured)?;
    let [throughput, time] = ["figure-09a", "figure-09b"].map(|figure| plot(figure, pool));
    for (name, scheme) in &schemes {
        for span in plan.over_time(scheme)? {
            measured.point(&throughput, name, span.at_s, span.throughput_per_s);
            measured.point(&time, name, span.at_s, span.mean_s);
        }
    }
    let figure = plot("figure-10", pool);
    for (&(name, _), own) in TABLE_IV.iter().zip(&found.0) {
        for (bound, share) in BOUNDS_S.iter().zip(own.within) {
            measured.point(&figure, name, *bound, share);
        }
    }
    let came = shift_plan(scale, Count::Came).fitted(&schemes[0].1, FITTED_S)?;
    shift_by(&schemes, came, "came: ", &mut measured)?;
    Ok(measured)
}

/// Runs a fitted size shift by one reading, whose values get a prefix.
fn shift_by(
    schemes: &[(&'static str, Scheme)],
    plan: ShiftPlan,
    prefix: &str,
    measured: &mut Measured,
) -> anyhow::Result<Schemes> {
    let found = measure(schemes, |scheme| plan.measure(scheme))?;
    measured.value(format!("{prefix}share of longer requests"), plan.share);
    for (&(name, _), own) in TABLE_IV.iter().zip(&found.0) {
        measured.value(format!("{prefix}{name} mean s"), own.mean_s);
        measured.value(format!("{prefix}{name} change"), -found.gain(name));
    }
    shift_claims(&found, prefix, measured);
    Ok(found)
}

/// Adds the values that the paper's text states of figures 9 and 10.
fn shift_claims(found: &Schemes, prefix: &str, measured: &mut Measured) {
    let order = ["srq", "vrd", "linux 20", "edf"].map(|name| found.mean_s(name));
    measured.holds(
        format!("{prefix}figure 9 order"),
        order.is_sorted_by(|a, b| a < b),
    );
    for other in ["edf", "vrd"] {
        let ratio = found.mean_s("srq") / found.mean_s(other);
        measured.value(format!("{prefix}srq over {other}"), ratio);
    }
    let rates = || ALIKE.iter().map(|name| found.of(name).throughput_per_s);
    let (least, most) = (
        rates().fold(f64::MAX, f64::min),
        rates().fold(0.0, f64::max),
    );
    measured.value(format!("{prefix}throughput least over most"), least / most);
    measured.value(
        format!("{prefix}throughput per s"),
        found.of("linux 20").throughput_per_s,
    );
    let srq = found.of("srq");
    let others = ["linux 20", "edf", "vrd"].map(|name| found.of(name));
    let is_shorter = others.iter().all(|own| srq.within[1] > own.within[1]);
    let is_longer = others.iter().all(|own| srq.p99_s > own.p99_s);
    measured.holds(format!("{prefix}figure 10 more short"), is_shorter);
    measured.holds(format!("{prefix}figure 10 longer tail"), is_longer);
}

/// Runs a service at all loads.
fn at_loads(scale: Scale, service: SrqService, pool: Option<usize>) -> anyhow::Result<Measured> {
    let schemes = schemes_of(SLICE_NS, pool);
    let full = load_plan(scale, service).full(&schemes[0].1)?;
    let loads = scale.pick(&LOADS[2..3], &LOADS[..], &LOADS[..]);
    let mut found = Vec::new();
    for &load in loads {
        let plan = LoadPlan {
            rate_per_s: load * full.rate_per_s,
            ..full
        };
        let schemes = measure(&schemes, |scheme| plan.measure(scheme))?;
        found.push(AtLoad { load, schemes });
    }
    let mut measured = Measured::default();
    measured.value("rate at load 1 per s", full.rate_per_s);
    let (loss, time) = match service {
        SrqService::Description => ("figure-11", "figure-12"),
        SrqService::Retrieval => ("figure-13", "figure-14"),
    };
    let [loss, time, breakdown] = [loss, time, "figure-15"].map(|figure| plot(figure, pool));
    for own in &found {
        for (&(name, _), scheme) in TABLE_IV.iter().zip(&own.schemes.0) {
            measured.point(&loss, name, own.load, scheme.loss_percent);
            measured.point(&time, name, own.load, scheme.mean_s);
            let is_shown = service == SrqService::Retrieval && own.load == 2.0;
            for (bound, share) in BOUNDS_S.iter().zip(scheme.within).filter(|_| is_shown) {
                measured.point(&breakdown, name, *bound, share);
            }
        }
    }
    load_claims(&found, &mut measured);
    Ok(measured)
}

const AWARE: [&str; 3] = ["edf", "vrd", "srq"];

/// Adds the values that the paper's text states of figures 11 to 15.
fn load_claims(found: &[AtLoad], measured: &mut Measured) {
    let overloads = || found.iter().filter(|own| own.load > 1.0);
    let gains = || overloads().map(|own| own.schemes.gain("srq"));
    measured.value("gain least", gains().fold(f64::NAN, f64::min));
    measured.value("gain most", gains().fold(f64::NAN, f64::max));
    let spread = overloads().map(|own| {
        let means = || AWARE.iter().map(|name| own.schemes.mean_s(name));
        means().fold(0.0, f64::max) / means().fold(f64::MAX, f64::min)
    });
    measured.value("aware most over least", spread.fold(f64::NAN, f64::max));
    let losses = |own: &AtLoad, name: &str| own.schemes.of(name).loss_percent;
    let apart = overloads()
        .flat_map(|own| AWARE.map(|name| (losses(own, "linux 20") - losses(own, name)).abs()));
    measured.value("loss points apart", apart.fold(f64::NAN, f64::max));
    let is_worst = overloads().all(|own| {
        let linux = losses(own, "linux 20");
        AWARE.iter().all(|name| losses(own, name) <= linux)
    });
    measured.holds("linux loses most in overload", is_worst);
    for own in found {
        let linux = own.schemes.of("linux 20");
        let load = own.load;
        let aware = || AWARE.iter().map(|name| own.schemes.of(name));
        let loss = aware().map(|own| own.loss_percent).fold(0.0, f64::max);
        measured.value(
            format!("aware loss over linux at {load}"),
            loss / linux.loss_percent,
        );
        measured.value(format!("linux loss at {load}"), linux.loss_percent / 100.0);
        let short = aware().map(|own| own.within[1]).fold(f64::MAX, f64::min);
        measured.value(
            format!("short of linux over others at {load}"),
            linux.within[1] / short,
        );
    }
}
