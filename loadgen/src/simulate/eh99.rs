//! EH99's experiments (Eggert and Heidemann 1999): a foreground of closed clients, and a
//! background of more and more of them, over one resource that the core's classes share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use sprat_measure::link::VirtualLink;
use sprat_measure::wire::{self, Connection, RESPONSE_HEAD_BYTES};
use sprat_scheduler::{ClassSpec, Discipline, EgressPolicy, Time};

use super::cores::on_all_cores;
use super::experiment::{Experiment, Measured, PlotAxes, PlotSpec, Scale};
use super::statistics::percentile;
use crate::workload::{Dice, Sizes};

/// Specifies a plot over the number of background clients.
const fn plot(name: &'static str, title: &'static str) -> PlotSpec {
    PlotSpec {
        name,
        title,
        x: "background clients",
        y: "median response time over the best",
        axes: PlotAxes::LogY,
    }
}

/// The experiments of EH99's figures 1 to 3.
pub(super) const EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        paper: "EH99",
        name: "network",
        about: "A link of 10 Mbit/s shared by a foreground of 3 or 15 clients and a background: \
                in one class, in a pool of five, that at a lower level, and that at 1 Mbit/s.",
        plots: &[
            PlotSpec {
                name: "figure-01",
                title: "Throughput",
                x: "clients",
                y: "Mbit/s of payload",
                axes: PlotAxes::LogY,
            },
            plot("figure-02a", "Light foreground, 10 Mbit/s"),
            plot("figure-02b", "Heavy foreground, 10 Mbit/s"),
        ],
        expected_s: (20.0, 60.0),
        parameters: |scale| format!("{NETWORK:?}, {} s, {BACKGROUND:?}", seconds(scale)),
        run: |scale| sweep(scale, &NETWORK),
    },
    Experiment {
        paper: "EH99",
        name: "processor",
        about: "The same with a processor for the resource, and 15 or 52 clients: it is shared as a \
                link would be that carries 30 Mbit/s of files, which is where the paper's figure 1 \
                levels off.",
        plots: &[
            plot("figure-03a", "Light foreground, processor-bound"),
            plot("figure-03b", "Heavy foreground, processor-bound"),
        ],
        expected_s: (30.0, 90.0),
        parameters: |scale| format!("{PROCESSOR:?}, {} s, {BACKGROUND:?}", seconds(scale)),
        run: |scale| sweep(scale, &PROCESSOR),
    },
];

/// The resource that the clients share, and the number of foreground clients.
#[derive(Clone, Copy, Debug)]
struct Resource {
    bits_per_s: u64,
    /// The names and numbers of clients of the foregrounds, light and heavy.
    foreground: [(&'static str, u32); 2],
    plots: [&'static str; 2],
}

const NETWORK: Resource = Resource {
    bits_per_s: 10_000_000,
    foreground: [("light", 3), ("heavy", 15)],
    plots: ["figure-02a", "figure-02b"],
};

/// The processor, as a link of 34.5 Mbit/s. EH99's figure 1 levels off at 30 Mbit/s of what clients
/// have got; heads, headers and the packets of connections make the rest here.
const PROCESSOR: Resource = Resource {
    bits_per_s: 34_500_000,
    foreground: [("light", 15), ("heavy", 52)],
    plots: ["figure-03a", "figure-03b"],
};

/// The numbers of background clients. EH99's text does not say where the axis of its figures ends.
/// There its light foreground is 40 times slower than alone, as it is here beside 43 closed
/// clients.
const BACKGROUND: [u32; 9] = [0, 5, 10, 15, 20, 25, 30, 36, 43];

/// The number of the background's processes (EH99, section 4), which together may send at
/// [`RATE_BITS_PER_S`] where that is bounded.
const POOL: usize = 5;
const RATE_BITS_PER_S: u64 = 1_000_000;

/// The least time between two requests of a client, which asks at most ten times a second (EH99,
/// section 3).
const GAP: Duration = Duration::from_millis(100);

/// The beginning of a run that is not measured, in seconds.
const WARM_UP_S: f64 = 5.0;

fn seconds(scale: Scale) -> f64 {
    scale.pick(10.0, 120.0, 300.0)
}

/// A treatment of the background by the server (EH99, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    /// The server makes no difference between foreground and background.
    Basic,
    /// The background has a pool of five processes.
    Pool,
    /// The pool has a lower priority.
    Priority,
    /// The pool has a lower priority and a bound on its rate.
    Rate,
}

impl Mechanism {
    const ALL: [Self; 4] = [Self::Basic, Self::Pool, Self::Priority, Self::Rate];

    fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Pool => "ltdpool",
            Self::Priority => "loprio",
            Self::Rate => "ltdrate",
        }
    }

    /// Returns the classes of foreground and background.
    fn classes(self, foreground: u32) -> Vec<ClassSpec> {
        let pool = ClassSpec {
            // Processes share alike: five to as many as there are foreground clients.
            weight: POOL as u32,
            max_concurrency: POOL,
            ..ClassSpec::default()
        };
        let background = match self {
            Self::Basic => return vec![ClassSpec::default()],
            Self::Pool => pool,
            Self::Priority => ClassSpec { level: 1, ..pool },
            Self::Rate => ClassSpec {
                level: 1,
                rate_bits_per_s: Some(RATE_BITS_PER_S),
                ..pool
            },
        };
        let own = ClassSpec {
            weight: foreground,
            ..ClassSpec::default()
        };
        vec![own, background]
    }
}

/// The measures of a run.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// The median of the foreground's response times, each over the best for its size.
    median: f64,
    /// The payload of all clients, in megabits per second.
    throughput: f64,
    /// The share of the resource that the foreground had.
    utilisation: f64,
}

/// Runs both foregrounds under each mechanism, beside each number of background clients.
fn sweep(scale: Scale, resource: &Resource) -> anyhow::Result<Measured> {
    let background = scale.pick(&BACKGROUND[..3], &BACKGROUND[..], &BACKGROUND[..]);
    let mut measured = Measured::default();
    let mut bounded: f64 = 0.0;
    for ((name, clients), plot) in resource.foreground.into_iter().zip(resource.plots) {
        for mechanism in Mechanism::ALL {
            let all = on_all_cores(background, |&others| {
                serve(scale, resource.bits_per_s, mechanism, clients, others)
            })?;
            let alone = all[0].median;
            let growths = all.iter().map(|own| own.median / alone);
            let most = growths.fold(0.0, f64::max);
            let of = format!("{name} {}", mechanism.name());
            measured.value(format!("{of} growth"), most);
            measured.value(format!("{of} most"), most * alone);
            if mechanism == Mechanism::Rate {
                bounded = bounded.max(most);
            }
            measured.value(format!("{name} alone"), alone);
            measured.value(format!("{name} utilisation"), all[0].utilisation);
            for (&others, own) in background.iter().zip(&all) {
                measured.point(plot, mechanism.name(), others.into(), own.median);
                if resource.plots == NETWORK.plots && mechanism == Mechanism::Basic {
                    let all_clients = f64::from(clients + others);
                    measured.point("figure-01", name, all_clients, own.throughput);
                    measured.value("throughput plateau", own.throughput);
                }
            }
        }
    }
    measured.value("ltdrate growth most", bounded);
    Ok(measured)
}

/// The factor on WebStone's sizes by which the heavy foregrounds ask for four fifths of the
/// resource, as the paper has measured.
const OF_WEBSTONE: f64 = 0.6;

/// Returns the sizes of WebStone's files but for the large ones, scaled, each as often as it is
/// asked for.
fn sizes() -> Vec<u64> {
    let sizes = Sizes::Webstone.of_files(1_000).into_iter();
    let sizes = sizes.filter(|&bytes| bytes < 100_000);
    sizes
        .map(|bytes| (bytes as f64 * OF_WEBSTONE) as u64)
        .collect()
}

/// The place of the foreground's class in the policy; the background's is the last.
const FOREGROUND: usize = 0;

/// A client's request on the resource.
#[derive(Clone, Copy, Debug)]
struct Asked {
    client: u32,
    at: Time,
    bytes: u64,
}

/// Runs foreground and background clients, each of which asks again once it has its answer.
fn serve(
    scale: Scale,
    bits_per_s: u64,
    mechanism: Mechanism,
    foreground: u32,
    background: u32,
) -> anyhow::Result<Found> {
    let classes = mechanism.classes(foreground);
    let background_class = classes.len() - 1;
    let policy = EgressPolicy {
        classes,
        max_flows: (foreground + background) as usize,
        ..EgressPolicy::new(Discipline::Fair)
    };
    let cost = wire::exchange_cost(Connection::New);
    let mut link: VirtualLink<Asked> = VirtualLink::new(bits_per_s, policy, cost);
    let mut dice = Dice::new(7);
    let sizes = sizes();
    let clients = foreground + background;
    let mut due: BinaryHeap<Reverse<(Time, u32)>> = (0..clients)
        .map(|client| Reverse((Time::ZERO + GAP.mul_f64(dice.uniform()), client)))
        .collect();
    let end = Time::ZERO + Duration::from_secs_f64(WARM_UP_S + seconds(scale));
    let mut tally = RunTally::new(bits_per_s, foreground);
    let mut now = Time::ZERO;
    while now < end {
        let step = link.next_step(now);
        match (step, due.peek().copied()) {
            (Some(at), next) if next.is_none_or(|Reverse((next, _))| at <= next) => {
                now = at;
                if let Some(sent) = link.step(at) {
                    tally.add(now, &sent.response, sent.took);
                    let next = (sent.response.at + GAP).max(now);
                    due.push(Reverse((next, sent.response.client)));
                }
            }
            (_, Some(Reverse((at, client)))) => {
                due.pop();
                now = at;
                let bytes = sizes[dice.below(sizes.len())];
                let class = match client < foreground {
                    true => FOREGROUND,
                    false => background_class,
                };
                let with_head = bytes + RESPONSE_HEAD_BYTES;
                let set_up_bytes = wire::set_up_bytes(Connection::New);
                let asked = Asked { client, at, bytes };
                link.arrive_in(now, class, with_head, set_up_bytes, asked)?;
            }
            (_, None) => break,
        }
    }
    Ok(tally.found(seconds(scale)))
}

/// The counts of a run under way.
struct RunTally {
    bits_per_s: u64,
    foreground: u32,
    normalized: Vec<f64>,
    bytes: u64,
    foreground_wire_bytes: u64,
}

impl RunTally {
    fn new(bits_per_s: u64, foreground: u32) -> Self {
        Self {
            bits_per_s,
            foreground,
            normalized: Vec::new(),
            bytes: 0,
            foreground_wire_bytes: 0,
        }
    }

    fn add(&mut self, now: Time, asked: &Asked, took: Duration) {
        if now.as_nanos() as f64 / 1e9 < WARM_UP_S {
            return;
        }
        self.bytes += asked.bytes;
        if asked.client < self.foreground {
            let alone_ms = wire::alone_ms(asked.bytes, Connection::New, self.bits_per_s);
            self.normalized.push(took.as_secs_f64() * 1e3 / alone_ms);
            self.foreground_wire_bytes += wire::response_bytes(asked.bytes, Connection::New);
        }
    }

    fn found(self, seconds: f64) -> Found {
        Found {
            throughput: self.bytes as f64 * 8e-6 / seconds,
            utilisation: self.foreground_wire_bytes as f64 * 8.0 / seconds / self.bits_per_s as f64,
            median: percentile(self.normalized, 0.5),
        }
    }
}
