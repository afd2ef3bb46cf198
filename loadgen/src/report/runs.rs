//! The runs that a report compares, and the checks that they can be compared.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use sprat_measure::wire::Connection;

use crate::results::{self, Outcome, RunInfo};

/// The seconds by which arrivals of the same request may differ: what rounding to a microsecond
/// loses.
const ARRIVAL_TOLERANCE_S: f64 = 1e-6;

/// The run of one system with one trace: its outcomes, and the facts about it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The file of the results, for messages.
    pub(crate) file: PathBuf,
    /// The facts in the JSON beside the results.
    pub(crate) info: RunInfo,
    /// The outcomes, in the trace's order.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Run {
    /// Reads results and the JSON beside them.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let mut outcomes = results::read(file)?;
        ensure!(
            !outcomes.is_empty(),
            "{}: the results hold no request",
            file.display()
        );
        // Results may stand in the order of completion.
        outcomes.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        Ok(Self {
            file: file.to_owned(),
            info: RunInfo::read_beside(file)?,
            outcomes,
        })
    }

    /// Returns whether each response paid for a connection of its own.
    pub(crate) fn connection(&self) -> Connection {
        let client = self.info.client.as_ref();
        client.map_or_else(Connection::default, |client| client.connection)
    }

    /// Returns the load on the wire in per cent, by which runs are grouped.
    fn load_percent(&self) -> Option<u32> {
        let load = self.info.load_wire.or(self.info.load)?;
        Some((load * 100.0).round() as u32)
    }
}

/// The runs of all systems at one load, on the same requests.
#[derive(Clone, Debug)]
pub(crate) struct LoadGroup {
    /// Load on the wire in per cent of the link, if the runs know it.
    pub(crate) load_percent: Option<u32>,
    /// The runs, in the order in which the command line names them.
    pub(crate) runs: Vec<Run>,
    /// Indices into each run's outcomes, by size, ties in trace order.
    pub(crate) by_size: Vec<usize>,
}

impl LoadGroup {
    fn new(load_percent: Option<u32>, runs: Vec<Run>) -> anyhow::Result<Self> {
        let first = &runs[0];
        for (index, run) in runs.iter().enumerate() {
            let mut before = runs[..index].iter();
            if let Some(same) = before.find(|other| other.info.name == run.info.name) {
                bail!(
                    "{} and {} are both named `{}` at the same load; change the name in one's JSON",
                    same.file.display(),
                    run.file.display(),
                    run.info.name
                );
            }
            check_same_requests(first, run)?;
        }
        let mut by_size: Vec<usize> = (0..first.outcomes.len()).collect();
        by_size.sort_by_key(|&index| first.outcomes[index].bytes);
        Ok(Self {
            load_percent,
            runs,
            by_size,
        })
    }

    /// Returns the run of the system called `name`.
    pub(crate) fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.info.name == name)
    }
}

/// Checks that two runs answered the same requests: others cannot be compared.
fn check_same_requests(first: &Run, run: &Run) -> anyhow::Result<()> {
    const ADVICE: &str =
        "not the same trace; replay one trace, with the same warm-up, for all runs at one load";
    if run.outcomes.len() != first.outcomes.len() {
        bail!(
            "{}: {} requests where {} holds {}: {ADVICE}",
            run.file.display(),
            run.outcomes.len(),
            first.file.display(),
            first.outcomes.len()
        );
    }
    let differs = |(ours, theirs): (&Outcome, &Outcome)| {
        ours.bytes != theirs.bytes
            || ours.path != theirs.path
            || (ours.t_s - theirs.t_s).abs() > ARRIVAL_TOLERANCE_S
    };
    let mut pairs = run.outcomes.iter().zip(&first.outcomes);
    if let Some(index) = pairs.position(differs) {
        let (ours, theirs) = (&run.outcomes[index], &first.outcomes[index]);
        bail!(
            "{}: request {} is {} ({} B) at {} s where {} has {} ({} B) at {} s: {ADVICE}",
            run.file.display(),
            index + 1,
            ours.path,
            ours.bytes,
            ours.t_s,
            first.file.display(),
            theirs.path,
            theirs.bytes,
            theirs.t_s
        );
    }
    Ok(())
}

/// Everything that one report compares.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// The groups by load, ascending.
    pub(crate) groups: Vec<LoadGroup>,
    /// The systems, in the order in which they were first given.
    pub(crate) systems: Vec<String>,
    /// The system that the others are compared with.
    pub(crate) baseline: String,
    /// The link's rate, the same in all runs.
    pub(crate) uplink_bits_per_s: u64,
}

/// The system that the others are compared with by default.
const BASELINE: &str = "nginx";

impl Comparison {
    /// Groups runs by load, and finds the baseline.
    ///
    /// # Errors
    /// If runs at one load answered different requests or carry the same
    /// name, if the links differ or are not known, or if no run is the
    /// baseline that was asked for.
    pub(crate) fn new(runs: Vec<Run>, baseline: Option<&str>) -> anyhow::Result<Self> {
        let uplink_bits_per_s = one_uplink(&runs)?;
        let mut systems: Vec<String> = Vec::new();
        for run in &runs {
            if !systems.contains(&run.info.name) {
                systems.push(run.info.name.clone());
            }
        }
        let known = |name: &str| systems.iter().any(|system| system == name);
        let baseline = match baseline {
            Some(name) if known(name) => name.to_owned(),
            Some(name) => bail!(
                "no run is named `{name}`, the baseline; there are: {}",
                systems.join(", ")
            ),
            None if known(BASELINE) => BASELINE.to_owned(),
            None => systems[0].clone(),
        };
        let mut by_load: Vec<(Option<u32>, Vec<Run>)> = Vec::new();
        for run in runs {
            let load = run.load_percent();
            match by_load.iter_mut().find(|(known, _)| *known == load) {
                Some((_, runs)) => runs.push(run),
                None => by_load.push((load, vec![run])),
            }
        }
        by_load.sort_by_key(|(load, _)| *load);
        let groups = by_load
            .into_iter()
            .map(|(load, runs)| LoadGroup::new(load, runs));
        Ok(Self {
            groups: groups.collect::<anyhow::Result<_>>()?,
            systems,
            baseline,
            uplink_bits_per_s,
        })
    }
}

fn one_uplink(runs: &[Run]) -> anyhow::Result<u64> {
    let mut found: Option<(u64, &Run)> = None;
    for run in runs {
        let Some(rate) = run.info.uplink_bits_per_s.filter(|&rate| rate > 0) else {
            bail!(
                "{}: no uplink_bits_per_s; slowdown is stated against the link's rate, so write it there",
                results::info_path(&run.file).display()
            );
        };
        match found {
            Some((first, of)) if first != rate => bail!(
                "{}: a link of {rate} bit/s where {} has {first}: make one report for each link",
                run.file.display(),
                of.file.display()
            ),
            Some(_) => {}
            None => found = Some((rate, run)),
        }
    }
    match found {
        Some((rate, _)) => Ok(rate),
        None => bail!("no results given"),
    }
}
