//! TOCS03's transient overload (4.2, figure 13) at a server whose listen queue and processes are
//! bounded: the paper's FAIR had a SYN queue that filled up.

use super::super::listen::ListenBounds;
use super::compare::PolicyComparison;
use super::run::Tocs03Setup;
use super::{HOST_LOADS, compare, gains_of_hosts};
use crate::simulate::experiment::Measured;

/// The queue of Linux 2.2, and the processes that Apache 1.3 has unless it is told otherwise.
pub(super) const BOUNDS: ListenBounds = ListenBounds {
    backlog: 128,
    processes: 150,
};

/// Adds the loads that swing, at a server with bounds.
pub(super) fn backlog(setup: &Tocs03Setup, measured: &mut Measured) -> anyhow::Result<()> {
    let loads = HOST_LOADS
        .into_iter()
        .filter(|(name, ..)| name.starts_with("0.9"));
    let (names, setups): (Vec<&str>, Vec<Tocs03Setup>) = loads
        .map(|(name, load, _)| {
            let setup = Tocs03Setup {
                swings: true,
                listen: Some(BOUNDS),
                ..setup.at(load)
            };
            (name, setup)
        })
        .unzip();
    for (name, own) in names.iter().zip(compare(&setups)?) {
        gains_of_hosts("backlog: ", name, &own, measured);
        counts(name, &own, measured);
    }
    Ok(())
}

/// Adds the most connections in the listen queue, and the SYNs that were dropped for each request.
fn counts(name: &str, own: &PolicyComparison, measured: &mut Measured) {
    for (policy, times) in [("FAIR", &own.fair), ("SRPT", &own.other)] {
        let most = f64::from(times.counts.backlog);
        measured.value(format!("backlog: {policy} most at {name}"), most);
        let dropped = times.counts.syns_dropped;
        measured.value(format!("backlog: {policy} SYNs dropped at {name}"), dropped);
    }
}
