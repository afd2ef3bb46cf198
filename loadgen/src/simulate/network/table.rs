//! The results of `simulate network`: a table for readers, and a CSV of everything.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use sprat_measure::text::significant;

use super::judge::SystemVerdict;
use super::measured::MeasuredNetwork;
use super::outcome::NetworkOutcome;
use super::system::System;
use crate::simulate::output::print;
use crate::table::{self, Number};

/// The results of each system on each network, to be written.
pub(super) struct Table<'a> {
    systems: &'a [System],
    measured: &'a [MeasuredNetwork],
}

impl<'a> Table<'a> {
    pub(super) fn new(systems: &'a [System], measured: &'a [MeasuredNetwork]) -> Self {
        Self { systems, measured }
    }

    /// Prints the table, and writes it and the CSV to `output`.
    pub(super) fn write(&self, output: Option<&Path>) -> anyhow::Result<()> {
        let markdown = self.markdown();
        if let Some(directory) = output {
            let file = directory.join("networks.md");
            table::create(&file, |out| out.write_all(markdown.as_bytes()))?;
            let file = directory.join("networks.csv");
            table::create(&file, |out| self.write_csv(out))?;
        }
        print(&markdown)
    }

    /// Returns the table of mean response times and breaches, with the summary below it.
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
            let breaches = judged(one).filter_map(|(system, verdict)| told(system, &verdict));
            let breaches: Vec<String> = breaches.collect();
            let _ = writeln!(text, " {} |", breaches.join("; "));
        }
        text.push_str("\nMean response time in ms. ");
        text.push_str(&self.summary());
        text
    }

    /// Counts, for each system, the networks in which it does harm.
    fn summary(&self) -> String {
        let mut text = format!("Breaches in {} networks:", self.measured.len());
        for system in self.systems.iter().filter(|system| is_judged(**system)) {
            let verdicts: Vec<SystemVerdict> = self
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

    fn write_csv(&self, out: impl Write) -> io::Result<()> {
        let mut csv = csv::WriterBuilder::new()
            // Names are quoted, with a comma or without.
            .quote_style(csv::QuoteStyle::Never)
            .from_writer(out);
        for one in self.measured {
            for (system, outcome) in &one.outcomes {
                csv.serialize(NetworkLine::new(one, *system, outcome))?;
            }
        }
        csv.flush()
    }
}

/// A line of the CSV: a network, and the outcome of a system on it.
#[derive(Serialize)]
struct NetworkLine {
    network: String,
    seed: u64,
    system: String,
    mean_ms: Number,
    bound_ms: Option<Number>,
    median_ms: Number,
    p99_ms: Number,
    smallest80_ms: Number,
    largest1_ms: Number,
    goodput_mbit_per_s: Number,
    throughput_mbit_per_s: Number,
    dropped: u64,
    sent: u64,
    again: u64,
    rate_mbit_per_s: Option<Number>,
    events: u64,
    goodput_ratio: Option<Number>,
    mean_ratio: Option<Number>,
    largest1_ratio: Option<Number>,
    breaches: String,
    found_s: Option<Number>,
    found_mbit_per_s: Option<Number>,
}

impl NetworkLine {
    fn new(one: &MeasuredNetwork, system: System, outcome: &NetworkOutcome) -> Self {
        let verdict = SystemVerdict::of(one, outcome);
        let judged = verdict.filter(|_| is_judged(system));
        Self {
            network: format!("\"{}\"", one.name),
            seed: one.seed,
            system: system.to_string(),
            mean_ms: Number(outcome.mean_ms),
            bound_ms: one.bound_ms.map(Number),
            median_ms: Number(outcome.median_ms),
            p99_ms: Number(outcome.p99_ms),
            smallest80_ms: Number(outcome.smallest80_ms),
            largest1_ms: Number(outcome.largest1_ms),
            goodput_mbit_per_s: Number(outcome.goodput_mbit_per_s),
            throughput_mbit_per_s: Number(outcome.throughput_mbit_per_s),
            dropped: outcome.dropped,
            sent: outcome.sent,
            again: outcome.again,
            rate_mbit_per_s: outcome.rate_mbit_per_s.map(Number),
            events: outcome.events,
            goodput_ratio: verdict.map(|v| Number(v.goodput)),
            mean_ratio: verdict.map(|v| Number(v.mean)),
            largest1_ratio: verdict.map(|v| Number(v.largest)),
            breaches: judged.map_or_else(String::new, |v| v.breaches().join(" and ")),
            found_s: outcome.found_s.map(Number),
            found_mbit_per_s: outcome.found_mbit_per_s.map(Number),
        }
    }
}

/// Returns whether a system is held to do no harm: one with a search or a gate, or one that paces
/// each client.
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

/// Returns whether a system broke a bound in a network.
pub(super) fn has_breach(one: &MeasuredNetwork) -> bool {
    judged(one).any(|(_, verdict)| !verdict.breaches().is_empty())
}

fn judged(one: &MeasuredNetwork) -> impl Iterator<Item = (System, SystemVerdict)> {
    one.outcomes
        .iter()
        .filter(|(system, _)| is_judged(*system))
        .filter_map(|(system, outcome)| Some((*system, SystemVerdict::of(one, outcome)?)))
}

/// Lists a system's breaches with their sizes, if there are any.
fn told(system: System, verdict: &SystemVerdict) -> Option<String> {
    let of = |kind: &&str| match *kind {
        "goodput" => format!("goodput {:.3}", verdict.goodput),
        "mean" => format!("mean {:.2}", verdict.mean),
        kind => format!("{kind} {:.2}", verdict.largest),
    };
    let breaches: Vec<String> = verdict.breaches().iter().map(of).collect();
    (!breaches.is_empty()).then(|| format!("{system}: {}", breaches.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(table: &Table<'_>) -> String {
        let mut out = Vec::new();
        table.write_csv(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_csv_quotes_the_names_of_networks_alone() {
        let outcome = NetworkOutcome {
            mean_ms: 15.175_401_599_999_999,
            median_ms: 10.0,
            p99_ms: 1e16,
            smallest80_ms: 0.25,
            largest1_ms: 100.0,
            goodput_mbit_per_s: 10.0,
            throughput_mbit_per_s: 8.5,
            dropped: 1,
            sent: 463,
            again: 2,
            events: 1376,
            ..NetworkOutcome::default()
        };
        let worse = NetworkOutcome {
            goodput_mbit_per_s: 5.0,
            largest1_ms: 200.0,
            rate_mbit_per_s: Some(10_000.0),
            found_s: Some(1.25),
            found_mbit_per_s: Some(9.5),
            ..outcome
        };
        let measured = [
            MeasuredNetwork {
                name: "10M, own 2M x 8".to_owned(),
                seed: 3,
                bound_ms: Some(6.636_164_050_000_001),
                outcomes: vec![(System::Unlimited, outcome.clone()), (System::Auto, worse)],
            },
            MeasuredNetwork {
                name: "seed 7".to_owned(),
                seed: 7,
                bound_ms: None,
                outcomes: vec![(System::Fair, outcome)],
            },
        ];
        let systems = [System::Unlimited, System::Auto];
        assert_eq!(
            csv(&Table::new(&systems, &measured)),
            "network,seed,system,mean_ms,bound_ms,median_ms,p99_ms,smallest80_ms,largest1_ms,\
             goodput_mbit_per_s,throughput_mbit_per_s,dropped,sent,again,rate_mbit_per_s,events,\
             goodput_ratio,mean_ratio,largest1_ratio,breaches,found_s,found_mbit_per_s\n\
             \"10M, own 2M x 8\",3,unlimited,15.175401599999999,6.636164050000001,10,\
             10000000000000000,0.25,100,10,8.5,1,463,2,,1376,1,1,1,,,\n\
             \"10M, own 2M x 8\",3,auto,15.175401599999999,6.636164050000001,10,\
             10000000000000000,0.25,200,5,8.5,1,463,2,10000,1376,0.5,1,2,goodput and largest 1%,1.25,9.5\n\
             \"seed 7\",7,fair,15.175401599999999,,10,10000000000000000,0.25,100,10,8.5,1,463,2,,\
             1376,,,,,,\n"
        );
    }
}
