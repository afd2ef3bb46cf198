//! Experiments of the papers: runs with names for what they measure.

use std::collections::BTreeMap;

use super::sample::RecordedSample;

/// The scale of a run: how much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The least that still runs, for tests; its values say nothing.
    Tiny,
    /// Few seeds and short runs: minutes for all papers on two cores.
    Quick,
    /// The length and the seeds that the documents quote.
    Full,
}

impl Scale {
    /// Chooses the value for this scale.
    pub(crate) fn pick<T>(self, tiny: T, quick: T, full: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    /// Returns the name as files have it.
    pub(crate) fn name(self) -> &'static str {
        self.pick("tiny", "quick", "full")
    }
}

/// A plot of an experiment, whose points come with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlotSpec {
    /// The name of the plot's files and of its points.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) axes: PlotAxes,
}

/// The axes of a plot, as the paper has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlotAxes {
    /// The axes are both linear.
    Linear,
    /// The x axis is linear, the y axis logarithmic.
    LogY,
    /// The axes are both logarithmic.
    LogLog,
    /// Places with these names, with a bar for each line at each of them. The x of a point is the
    /// number of its place.
    Places(&'static [&'static str]),
}

/// A point of a plot's line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) plot: String,
    pub(crate) line: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The values and points that an experiment came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    pub(crate) values: BTreeMap<String, f64>,
    pub(crate) points: Vec<Point>,
}

impl Measured {
    /// Adds a value; a value that is not finite is left out, so that its row says so.
    pub(crate) fn value(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.values.insert(name.into(), value);
        }
    }

    /// Adds whether a claim without a number holds, as 1 or 0.
    pub(crate) fn holds(&mut self, name: impl Into<String>, holds: bool) {
        self.value(name, f64::from(u8::from(holds)));
    }

    /// Adds a point of a plot, unless it is not finite.
    pub(crate) fn point(&mut self, plot: &str, line: &str, x: f64, y: f64) {
        if x.is_finite() && y.is_finite() {
            self.points.push(Point {
                plot: plot.to_owned(),
                line: line.to_owned(),
                x,
                y,
            });
        }
    }
}

/// An experiment of a paper, in virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experiment {
    /// The paper's short name, such as SRQ06.
    pub(crate) paper: &'static str,
    pub(crate) name: &'static str,
    /// One sentence on what is simulated.
    pub(crate) about: &'static str,
    pub(crate) plots: &'static [PlotSpec],
    /// The seconds that the run takes on two cores, quick and full.
    pub(crate) expected_s: (f64, f64),
    /// The parameters of the run: another value is another run.
    pub(crate) parameters: fn(Scale) -> String,
    pub(crate) run: fn(Scale) -> anyhow::Result<Measured>,
}

/// An experiment of a paper with the requests of a recorded sample, in virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleExperiment {
    /// The paper's short name, such as SRQ06.
    pub(crate) paper: &'static str,
    pub(crate) name: &'static str,
    /// One sentence on what is simulated.
    pub(crate) about: &'static str,
    pub(crate) plots: &'static [PlotSpec],
    /// The seconds that the run takes on two cores, quick and full.
    pub(crate) expected_s: (f64, f64),
    /// The parameters of the run: another value is another run.
    pub(crate) parameters: fn(Scale, &RecordedSample) -> String,
    pub(crate) run: fn(Scale, &RecordedSample) -> anyhow::Result<Measured>,
}
