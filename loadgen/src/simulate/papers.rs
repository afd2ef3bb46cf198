//! The table of the experiments of the five papers.

use super::experiment::{Experiment, SampleExperiment};
use super::{eh99, network, sdis02, srq06};

/// Returns all experiments, paper by paper.
pub(crate) fn all() -> Vec<Experiment> {
    let papers: [&[Experiment]; 5] = [
        &network::tocs03::EXPERIMENTS,
        &eh99::EXPERIMENTS,
        &network::sfd::EXPERIMENTS,
        &srq06::EXPERIMENTS,
        &sdis02::EXPERIMENTS,
    ];
    papers.concat()
}

/// Returns all experiments with a recorded sample, paper by paper.
pub(crate) fn with_sample() -> [SampleExperiment; 2] {
    [network::tocs03::SAMPLE, network::sfd::SAMPLE]
}
