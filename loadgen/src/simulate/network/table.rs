//! What comes out: a table for readers and a CSV of everything.

use std::fmt::Write as _;
use std::path::Path;

use sprat_measure::text::significant;

use super::judge::Verdict;
use super::measured::Measured;
use super::system::System;
use crate::simulate::output::print;
use crate::table;

/// The results of a command.
pub(super) struct Table<'a> {
    systems: &'a [System],
    measured: &'a [Measured],
}

impl<'a> Table<'a> {
    pub(super) fn new(systems: &'a [System], measured: &'a [Measured]) -> Self {
        Self { systems, measured }
    }

    /// Prints the table, and writes it and the CSV to `output`.
    pub(super) fn write(&self, output: Option<&Path>) -> anyhow::Result<()> {
        let markdown = self.markdown();
        if let Some(directory) = output {
            for (name, text) in [("networks.md", &markdown), ("networks.csv", &self.csv())] {
                let file = directory.join(name);
                table::create(&file, |out| std::io::Write::write_all(out, text.as_bytes()))?;
            }
        }
        print(&markdown)
    }

    /// Mean response times, and what the systems are worth against doing nothing.
    fn markdown(&self) -> String {
        let mut text = String::from("| network | bound |");
        let mut rule = String::from("| --- | ---: |");
        for system in self.systems {
            // Writing to a string cannot fail; here and below.
            let _ = write!(text, " {system} |");
            rule.push_str(" ---: |");
        }
        text.push_str(" breaches |\n");
        text.push_str(&rule);
        text.push_str(" --- |\n");
        for one in self.measured {
            let bound = one.bound_ms.map(significant).unwrap_or_default();
            let _ = write!(text, "| {} | {bound} |", one.name);
            for (_, outcome) in &one.outcomes {
                let _ = write!(text, " {} |", significant(outcome.mean_ms));
            }
            let breaches: Vec<String> = judged(one).filter_map(|judged| told(&judged)).collect();
            let _ = writeln!(text, " {} |", breaches.join("; "));
        }
        text.push_str("\nMean response time in ms. ");
        text.push_str(&self.summary());
        text
    }

    /// Counts the networks that each system does harm in.
    fn summary(&self) -> String {
        let mut text = format!("Breaches in {} networks:", self.measured.len());
        for system in self.systems.iter().filter(|system| is_judged(**system)) {
            let verdicts: Vec<Verdict> = self
                .measured
                .iter()
                .flat_map(judged)
                .filter(|(of, _)| of == system)
                .map(|(_, verdict)| verdict)
                .collect();
            let any = verdicts.iter().filter(|v| !v.breaches().is_empty()).count();
            let _ = write!(text, "\n- {system}: {any}");
            for kind in ["goodput", "mean", "largest 1%"] {
                let broken = verdicts.iter().filter(|v| v.breaches().contains(&kind));
                let _ = write!(text, ", {kind} {}", broken.count());
            }
            let log: f64 = verdicts.iter().map(|v| v.mean.ln()).sum();
            let worst = verdicts.iter().map(|v| v.mean).fold(0.0, f64::max);
            let least = verdicts.iter().map(|v| v.goodput).fold(1.0, f64::min);
            let _ = write!(
                text,
                "; mean over the better of fair and unlimited {:.3} on geometric average, \
                 {worst:.2} at worst; least goodput {least:.3}",
                (log / verdicts.len().max(1) as f64).exp()
            );
        }
        text.push('\n');
        text
    }

    fn csv(&self) -> String {
        let mut csv = String::from(
            "network,seed,system,mean_ms,bound_ms,median_ms,p99_ms,smallest80_ms,largest1_ms,\
             goodput_mbit_per_s,throughput_mbit_per_s,dropped,sent,again,rate_mbit_per_s,events,\
             goodput_ratio,mean_ratio,largest1_ratio,breaches\n",
        );
        for one in self.measured {
            for (system, outcome) in &one.outcomes {
                let optional =
                    |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
                let verdict = Verdict::of(one, outcome);
                let breaches = match verdict.filter(|_| is_judged(*system)) {
                    Some(verdict) => verdict.breaches().join(" and "),
                    None => String::new(),
                };
                let _ = writeln!(
                    csv,
                    "\"{}\",{},{system},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{breaches}",
                    one.name,
                    one.seed,
                    outcome.mean_ms,
                    optional(one.bound_ms),
                    outcome.median_ms,
                    outcome.p99_ms,
                    outcome.smallest80_ms,
                    outcome.largest1_ms,
                    outcome.goodput_mbit_per_s,
                    outcome.throughput_mbit_per_s,
                    outcome.dropped,
                    outcome.sent,
                    outcome.again,
                    optional(outcome.rate_mbit_per_s),
                    outcome.events,
                    optional(verdict.map(|v| v.goodput)),
                    optional(verdict.map(|v| v.mean)),
                    optional(verdict.map(|v| v.largest)),
                );
            }
        }
        csv
    }
}

/// Returns whether a system is held to do no harm: one that finds the rate itself.
fn is_judged(system: System) -> bool {
    matches!(
        system,
        System::Watched(_)
            | System::Auto
            | System::Search
            | System::Clients(_)
            | System::ClientsAuto
    )
}

fn judged(one: &Measured) -> impl Iterator<Item = (System, Verdict)> {
    one.outcomes
        .iter()
        .filter(|(system, _)| is_judged(*system))
        .filter_map(|(system, outcome)| Some((*system, Verdict::of(one, outcome)?)))
}

/// Lists a system's breaches with their sizes, if there are any.
fn told((system, verdict): &(System, Verdict)) -> Option<String> {
    let of = |kind: &&str| match *kind {
        "goodput" => format!("goodput {:.3}", verdict.goodput),
        "mean" => format!("mean {:.2}", verdict.mean),
        kind => format!("{kind} {:.2}", verdict.largest),
    };
    let breaches: Vec<String> = verdict.breaches().iter().map(of).collect();
    (!breaches.is_empty()).then(|| format!("{system}: {}", breaches.join(", ")))
}
