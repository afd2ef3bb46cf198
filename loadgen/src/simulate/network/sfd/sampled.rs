//! SFD02's figure 9 with the pages of a recorded sample.

use super::pages::{PLOT, PageQueues, improvements};
use super::paper::{S_SFD, found, of, of_medium};
use super::{AVERAGE, SfdWay};
use crate::simulate::experiment::{Measured, PlotSpec, SampleExperiment, Scale};
use crate::simulate::sample::RecordedSample;

/// The experiment with the pages of a recorded sample.
pub(crate) const SAMPLE: SampleExperiment = SampleExperiment {
    paper: "SFD02",
    name: "sample",
    about: "Pages of a recorded sample of the World Cup's site, by the latencies on the dumbbell. A \
            request for HTML begins a page, as in the paper, but whose request it was the sample \
            does not say: a page is what follows in the sample, whoever asked. What was in a \
            client's cache is no object.",
    plots: &[PlotSpec {
        name: "figure-09-sample",
        title: "Pages of the sample, by their gain",
        ..PLOT
    }],
    expected_s: (110.0, 220.0),
    parameters: |scale, sample| format!("{:?}, {AVERAGE:?}, {sample:?}", of_medium(scale)),
    run: sampled,
};

/// Runs drop-tail and S-SFD at medium load, and computes the sample's pages from them.
fn sampled(scale: Scale, sample: &RecordedSample) -> anyhow::Result<Measured> {
    let all = found(&of_medium(scale), &[SfdWay::Droptail, S_SFD])?;
    let queues = PageQueues {
        dt: &of(&all, SfdWay::Droptail).latencies,
        s_sfd: &of(&all, S_SFD).latencies,
    };
    let pages = sample.pages();
    let mut measured = Measured::default();
    let objects: usize = pages.iter().map(Vec::len).sum();
    measured.value("pages", pages.len() as f64);
    measured.value("objects of a page", objects as f64 / pages.len() as f64);
    improvements(queues, pages, "figure-09-sample", &mut measured);
    Ok(measured)
}
