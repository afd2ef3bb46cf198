//! TOCS03's figures 11 and 12: packets that are lost.

use super::compare::{PolicyComparison, compare};
use super::run::{TargetLoad, Tocs03Setup};
use crate::simulate::experiment::Measured;

/// Loads in the WAN. Losses are simulated at the first two alone: the last is already more than the
/// link carries.
pub(super) const WAN_LOADS: [(&str, TargetLoad); 3] = [
    ("0.7", TargetLoad::Payload(0.7)),
    ("0.9 wire", TargetLoad::Wire(0.9)),
    ("0.9", TargetLoad::Payload(0.9)),
];

/// The parts of the packets that are lost.
pub(super) const LOSSES: &[f64] = &[0.0, 0.01, 0.02, 0.03, 0.05, 0.1];

/// Runs all rates of loss, in both directions as in the paper, and on the way to clients alone.
pub(super) fn loss(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    const DOWN: LossReading = LossReading {
        losing: Tocs03Setup::losing_down,
        losses: LOSSES,
        prefix: "",
        line: "",
    };
    // Without loss both are the same.
    const BOTH: LossReading = LossReading {
        losing: Tocs03Setup::losing,
        losses: LOSSES.split_at(1).1,
        prefix: "both ways: ",
        line: ", both ways",
    };
    let mut measured = Measured::default();
    for reading in [DOWN, BOTH] {
        reading.run(setup, &mut measured)?;
    }
    Ok(measured)
}

/// A reading of what is lost: how a setup loses packets, and the words for it.
struct LossReading {
    losing: fn(&Tocs03Setup, f64) -> Tocs03Setup,
    losses: &'static [f64],
    /// The beginning of the names of values, and the end of those of lines.
    prefix: &'static str,
    line: &'static str,
}

impl LossReading {
    /// Runs the rates of loss, without delay and with it.
    fn run(&self, setup: &Tocs03Setup, measured: &mut Measured) -> anyhow::Result<()> {
        let prefix = self.prefix;
        for ((name, load), plot) in WAN_LOADS.into_iter().zip(["figure-11a", "figure-11b"]) {
            for (loss, own) in self.compared(&setup.at(load))? {
                self.draw(measured, plot, loss, &own);
                let at = format!("at {name}, loss {loss}");
                measured.value(format!("{prefix}gain {at}"), own.gain());
                let largest = own.other.probes_ms() / own.fair.probes_ms();
                measured.value(format!("{prefix}largest file {at}"), largest);
                let top = own.fair.largest(0.01) / own.other.largest(0.01);
                measured.value(format!("{prefix}largest 1% gain {at}"), top);
            }
        }
        let far = setup.at(TargetLoad::Wire(0.9)).at_rtt(100.0);
        for (loss, own) in self.compared(&far)? {
            self.draw(measured, "figure-12", loss, &own);
            measured.value(format!("{prefix}gain, RTT 100, loss {loss}"), own.gain());
        }
        Ok(())
    }

    /// Compares the policies at each rate of loss.
    fn compared(&self, setup: &Tocs03Setup) -> anyhow::Result<Vec<(f64, PolicyComparison)>> {
        let setups = self.losses.iter().map(|&loss| (self.losing)(setup, loss));
        let compared = compare(&setups.collect::<Vec<_>>())?;
        Ok(self.losses.iter().copied().zip(compared).collect())
    }

    fn draw(&self, measured: &mut Measured, plot: &str, loss: f64, own: &PolicyComparison) {
        for (policy, times) in [("FAIR", &own.fair), ("SRPT", &own.other)] {
            let line = format!("{policy}{}", self.line);
            measured.point(plot, &line, 100.0 * loss, times.mean_ms());
        }
    }
}
