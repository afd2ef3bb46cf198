//! Experiments one after the other; an experiment that has been run with the same code is not run
//! again.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::lab::{self, LabScript};
use super::record::{Record, RunCode, file_of};
use crate::simulate::experiment::{Experiment, Measured, PlotSpec, SampleExperiment, Scale};
use crate::simulate::papers;
use crate::simulate::sample::RecordedSample;

/// An experiment of a paper: in virtual time, or over real sockets.
#[derive(Clone, Debug)]
pub(super) enum PaperRun {
    /// An experiment in virtual time.
    Simulated(Experiment),
    /// An experiment in virtual time with a recorded sample, if the command line names one.
    Sampled(SampleExperiment, Option<Arc<RecordedSample>>),
    /// A script of the lab.
    Lab(LabScript),
}

impl PaperRun {
    pub(super) fn paper(&self) -> &'static str {
        match self {
            Self::Simulated(own) => own.paper,
            Self::Sampled(own, _) => own.paper,
            Self::Lab(own) => own.paper,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Simulated(own) => own.name,
            Self::Sampled(own, _) => own.name,
            Self::Lab(own) => own.name,
        }
    }

    pub(super) fn about(&self) -> &'static str {
        match self {
            Self::Simulated(own) => own.about,
            Self::Sampled(own, _) => own.about,
            Self::Lab(own) => own.about,
        }
    }

    pub(super) fn is_lab(&self) -> bool {
        matches!(self, Self::Lab(_))
    }

    /// Returns the code that the experiment runs.
    fn code<'a>(&self, code: &'a RunCode) -> &'a str {
        match self {
            Self::Simulated(_) | Self::Sampled(..) => &code.simulated,
            Self::Lab(_) => &code.lab,
        }
    }

    /// Reads the record of the experiment, if it has been run. A script of the lab leaves its
    /// summary, off which values are read that rows have come to need since.
    pub(super) fn record(&self, output: &Path) -> Option<Record> {
        let mut record = Record::read(&file_of(output, self.paper(), self.name()))?;
        if let Self::Lab(own) = self {
            own.complete(&mut record.measured, output);
        }
        Some(record)
    }

    pub(super) fn needs_root(&self) -> bool {
        match self {
            Self::Simulated(_) | Self::Sampled(..) => false,
            Self::Lab(own) => own.needs_root,
        }
    }

    /// Returns whether the experiment needs a recorded sample.
    pub(super) fn is_of_sample(&self) -> bool {
        matches!(self, Self::Sampled(..))
    }

    /// Returns whether the experiment needs a recorded sample, and has none.
    pub(super) fn lacks_sample(&self) -> bool {
        matches!(self, Self::Sampled(_, None))
    }

    /// Returns the scale at which the experiment is run: a script of the lab has one alone.
    fn scale(&self, asked: Scale) -> Scale {
        match self {
            Self::Simulated(_) | Self::Sampled(..) => asked,
            Self::Lab(_) => Scale::Full,
        }
    }

    pub(super) fn plots(&self) -> &'static [PlotSpec] {
        match self {
            Self::Simulated(own) => own.plots,
            Self::Sampled(own, _) => own.plots,
            Self::Lab(own) => own.plots,
        }
    }

    fn expected_s(&self, scale: Scale) -> f64 {
        match self {
            Self::Simulated(Experiment { expected_s, .. })
            | Self::Sampled(SampleExperiment { expected_s, .. }, _) => {
                scale.pick(1.0, expected_s.0, expected_s.1)
            }
            Self::Lab(own) => own.expected_s,
        }
    }

    pub(super) fn parameters(&self, scale: Scale) -> String {
        match self {
            Self::Simulated(own) => (own.parameters)(scale),
            Self::Sampled(own, Some(sample)) => (own.parameters)(scale, sample),
            Self::Sampled(_, None) => String::new(),
            Self::Lab(own) => own.parameters(),
        }
    }

    /// Returns whether the experiment has other parameters now than a record of it. The answer is
    /// no for a script of the lab, and for a sample, which may not be there.
    pub(super) fn has_changed_since(&self, record: &Record) -> bool {
        let scales = [Scale::Tiny, Scale::Quick, Scale::Full];
        let scale = scales.into_iter().find(|own| own.name() == record.scale);
        let is_same = |scale| self.parameters(scale) == record.parameters;
        matches!(self, Self::Simulated(_)) && !scale.is_some_and(is_same)
    }

    fn run(&self, scale: Scale, output: &Path) -> anyhow::Result<Measured> {
        match self {
            Self::Simulated(own) => (own.run)(scale),
            Self::Sampled(own, Some(sample)) => (own.run)(scale, sample),
            Self::Sampled(_, None) => bail!("there is no recorded sample: name it by --sample"),
            Self::Lab(own) => own.run(output),
        }
    }
}

/// Returns all experiments, those of a kind together, with a recorded sample if there is one.
pub(super) fn all(sample: Option<RecordedSample>) -> Vec<PaperRun> {
    let sample = sample.map(Arc::new);
    let sampled = papers::with_sample().into_iter();
    let sampled = sampled.map(|own| PaperRun::Sampled(own, sample.clone()));
    let simulated = papers::all().into_iter().map(PaperRun::Simulated);
    let lab = lab::all().map(PaperRun::Lab);
    simulated.chain(sampled).chain(lab).collect()
}

/// Runs the experiments that have no record of the same code and parameters; returns their number.
///
/// # Errors
/// An experiment fails, or its record cannot be written.
pub(super) fn all_of(
    wanted: &[PaperRun],
    output: &Path,
    scale: Scale,
    code: &RunCode,
    fresh: bool,
) -> anyhow::Result<usize> {
    let is_there = |run: &PaperRun| {
        let record = Record::read(&file_of(output, run.paper(), run.name()));
        let parameters = run.parameters(scale);
        let is_same = |record: Record| record.is_of(run.code(code), run.scale(scale), &parameters);
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
            code: run.code(code).to_owned(),
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
