//! Experiments one after the other; an experiment that has been run with the same code is not run
//! again.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sprat_measure::axis::{Axis, Unit};
use sprat_measure::plot::{LineChart, Series, Style};

use super::lab::{self, LabScript};
use super::record::{Record, file_of};
use crate::simulate::experiment::{Experiment, Measured, PlotSpec, Scale};
use crate::simulate::papers;

/// An experiment of a paper: in virtual time, or over real sockets.
#[derive(Clone, Debug)]
pub(super) enum PaperRun {
    /// An experiment in virtual time.
    Simulated(Experiment),
    /// A script of the lab.
    Lab(LabScript),
}

impl PaperRun {
    pub(super) fn paper(&self) -> &'static str {
        match self {
            Self::Simulated(own) => own.paper,
            Self::Lab(own) => own.paper,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Simulated(own) => own.name,
            Self::Lab(own) => own.name,
        }
    }

    pub(super) fn about(&self) -> &'static str {
        match self {
            Self::Simulated(own) => own.about,
            Self::Lab(own) => own.about,
        }
    }

    pub(super) fn is_lab(&self) -> bool {
        matches!(self, Self::Lab(_))
    }

    pub(super) fn needs_root(&self) -> bool {
        match self {
            Self::Simulated(_) => false,
            Self::Lab(own) => own.needs_root,
        }
    }

    /// Returns the scale at which the experiment is run: a script of the lab has one alone.
    fn scale(&self, asked: Scale) -> Scale {
        match self {
            Self::Simulated(_) => asked,
            Self::Lab(_) => Scale::Full,
        }
    }

    fn plots(&self) -> &'static [PlotSpec] {
        match self {
            Self::Simulated(own) => own.plots,
            Self::Lab(own) => own.plots,
        }
    }

    fn expected_s(&self, scale: Scale) -> f64 {
        match self {
            Self::Simulated(own) => scale.pick(1.0, own.expected_s.0, own.expected_s.1),
            Self::Lab(own) => own.expected_s,
        }
    }

    fn parameters(&self, scale: Scale) -> String {
        match self {
            Self::Simulated(own) => (own.parameters)(scale),
            Self::Lab(own) => own.parameters(),
        }
    }

    fn run(&self, scale: Scale, output: &Path) -> anyhow::Result<Measured> {
        match self {
            Self::Simulated(own) => (own.run)(scale),
            Self::Lab(own) => own.run(output),
        }
    }
}

/// Returns all experiments, those of a paper together.
pub(super) fn all() -> Vec<PaperRun> {
    let simulated = papers::all().into_iter().map(PaperRun::Simulated);
    simulated.chain(lab::all().map(PaperRun::Lab)).collect()
}

/// Runs the experiments that have no record of the same code and parameters; returns their number.
///
/// # Errors
/// An experiment fails, or its record cannot be written.
pub(super) fn all_of(
    wanted: &[PaperRun],
    output: &Path,
    scale: Scale,
    code: &str,
    fresh: bool,
) -> anyhow::Result<usize> {
    let is_there = |run: &PaperRun| {
        let record = Record::read(&file_of(output, run.paper(), run.name()));
        let parameters = run.parameters(scale);
        let is_same = |record: Record| record.is_of(code, run.scale(scale), &parameters);
        !fresh && record.is_some_and(is_same)
    };
    let due: Vec<&PaperRun> = wanted.iter().filter(|run| !is_there(run)).collect();
    let kept = wanted.len() - due.len();
    if kept > 0 {
        progress(&format!(
            "{kept} of {} experiments are there already",
            wanted.len()
        ));
    }
    let mut left = Left::new(due.iter().map(|run| run.expected_s(scale)).sum());
    for (index, run) in due.iter().enumerate() {
        let (paper, name) = (run.paper(), run.name());
        progress(&format!(
            "[{}/{}] {paper} {name}{left}",
            index + 1,
            due.len()
        ));
        let began = Instant::now();
        let measured = run
            .run(scale, output)
            .with_context(|| format!("{paper} {name}"))?;
        let record = Record {
            code: code.to_owned(),
            scale: run.scale(scale).name().to_owned(),
            parameters: run.parameters(scale),
            took_s: began.elapsed().as_secs_f64(),
            measured,
        };
        record.write(&file_of(output, paper, name))?;
        left.done(run.expected_s(scale), began.elapsed());
    }
    Ok(due.len())
}

/// The time that the experiments left will take, from what all were expected to take and what those
/// done took.
struct Left {
    expected_s: f64,
    done_s: f64,
    took_s: f64,
}

impl Left {
    fn new(expected_s: f64) -> Self {
        Self {
            expected_s,
            done_s: 0.0,
            took_s: 0.0,
        }
    }

    fn done(&mut self, expected_s: f64, took: Duration) {
        self.done_s += expected_s;
        self.took_s += took.as_secs_f64();
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pace = match self.done_s > 0.0 {
            true => self.took_s / self.done_s,
            false => 1.0,
        };
        let minutes = (self.expected_s - self.done_s) * pace / 60.0;
        match minutes {
            minutes if minutes < 1.5 => write!(f, ", about {:.0} s left", 60.0 * minutes),
            minutes if minutes < 90.0 => write!(f, ", about {minutes:.0} min left"),
            minutes => write!(f, ", about {:.1} h left", minutes / 60.0),
        }
    }
}

/// Prints a line of progress on stderr; nothing is lost if that is closed.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A plot of a paper, drawn.
pub(super) struct Drawn {
    pub(super) paper: String,
    pub(super) name: String,
    /// The words below the plot.
    pub(super) caption: String,
    pub(super) svg: String,
    /// The same plot, drawn for a telephone.
    pub(super) narrow: String,
}

/// Draws the plots of all experiments that have been run.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn plots(runs: &[PaperRun], output: &Path) -> anyhow::Result<Vec<Drawn>> {
    let mut drawn = Vec::new();
    for run in runs {
        let Some(record) = Record::read(&file_of(output, run.paper(), run.name())) else {
            continue;
        };
        for spec in run.plots() {
            let Some(chart) = chart(spec, &record.measured) else {
                continue;
            };
            drawn.push(Drawn {
                paper: run.paper().to_owned(),
                name: spec.name.to_owned(),
                caption: caption(spec, run.about()),
                svg: chart.svg()?,
                narrow: chart.narrow_svg()?,
            });
        }
    }
    Ok(drawn)
}

/// Returns a plot's caption: its figure, its title, and the first sentence about its experiment.
fn caption(spec: &PlotSpec, about: &str) -> String {
    let (kind, number) = spec.name.split_once('-').unwrap_or(("figure", spec.name));
    let number = number.trim_start_matches('0');
    let figure = match kind {
        "figure" => match number.split_once('-') {
            Some((number, reading)) => format!("Figure {number}, {reading}"),
            None => format!("Figure {number}"),
        },
        other => format!("Figure {number}, {other}"),
    };
    let first = about.split_once(". ").map_or(about, |(first, _)| first);
    let first = first.trim_end_matches('.');
    format!("{figure}: {}. {first}.", spec.title)
}

/// Makes the chart of a plot's points; `None` if no point can be drawn.
fn chart(spec: &PlotSpec, measured: &Measured) -> Option<LineChart> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for point in measured.points.iter().filter(|own| own.plot == spec.name) {
        // On a logarithmic axis there is no zero.
        if point.y <= 0.0 || (!spec.linear_x && point.x <= 0.0) {
            continue;
        }
        match lines.iter_mut().find(|(name, _)| *name == point.line) {
            Some((_, points)) => points.push((point.x, point.y)),
            None => lines.push((point.line.clone(), vec![(point.x, point.y)])),
        }
    }
    if lines.is_empty() {
        return None;
    }
    for (_, points) in &mut lines {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x = match spec.linear_x {
        true => Axis::from_zero(spec.x, points().map(|(x, _)| *x)),
        false => Axis::log(spec.x, Unit::Plain, points().map(|(x, _)| *x)),
    };
    let y = Axis::log(spec.y, Unit::Plain, points().map(|(_, y)| *y));
    let series = lines.into_iter().enumerate();
    let series = series.map(|(index, (name, points))| Series {
        name,
        style: Style::of(index),
        points,
    });
    Some(LineChart {
        title: spec.title.to_owned(),
        x,
        y,
        series: series.collect(),
    })
}
