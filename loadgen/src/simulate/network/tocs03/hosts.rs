//! The loads of TOCS03's hosts (4.2, figure 13), and their transient overload at a server whose
//! listen queue and processes are bounded: the paper's FAIR had a SYN queue that filled up.

use super::super::listen::ListenBounds;
use super::compare::{PolicyComparison, compare};
use super::run::{TargetLoad, Tocs03Setup};
use crate::simulate::experiment::Measured;

/// Loads of the hosts, and the plots of figure 13. 0.9 of the payload is more than the link carries:
/// FAIR's times there are those of a run of this length.
pub(super) const HOST_LOADS: [(&str, TargetLoad, &str); 5] = [
    ("0.5", TargetLoad::Payload(0.5), "figure-13d"),
    ("0.7", TargetLoad::Payload(0.7), "figure-13c"),
    ("0.8", TargetLoad::Payload(0.8), "figure-13b"),
    ("0.9 wire", TargetLoad::Wire(0.9), "figure-13a-wire"),
    ("0.9", TargetLoad::Payload(0.9), "figure-13a"),
];

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

/// Adds the gain over all hosts, and those of the hosts that gain least and most.
pub(super) fn gains_of_hosts(
    prefix: &str,
    name: &str,
    own: &PolicyComparison,
    measured: &mut Measured,
) {
    let gains: Vec<f64> = own.gains_of_clients();
    let least = gains.iter().copied().fold(f64::NAN, f64::min);
    let most = gains.iter().copied().fold(f64::NAN, f64::max);
    for (what, value) in [
        (format!("gain at {name}"), own.gain()),
        (format!("gain at {name}, least host"), least),
        (format!("gain at {name}, most host"), most),
        (format!("FAIR mean ms at {name}"), own.fair.mean_ms()),
        (format!("SRPT mean ms at {name}"), own.other.mean_ms()),
    ] {
        measured.value(format!("{prefix}{what}"), value);
    }
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
