//! TOCS03's experiments (Harchol-Balter, Schroeder, Bansal and Agrawal 2003) over simulated
//! TCP: one server's uplink, FAIR against SRPT.

mod compare;
mod connections;
mod hosts;
mod loss;
mod run;
mod sizes;

use compare::{PolicyComparison, compare};
use connections::ConnectionUse;
use hosts::{BOUNDS, HOST_LOADS, backlog, gains_of_hosts};
use loss::{LOSSES, WAN_LOADS, loss};
use run::{HOSTS, Policy, TargetLoad, Tocs03Setup};

use crate::simulate::experiment::{Experiment, Measured, PlotAxes, PlotSpec};

pub(crate) use sizes::SAMPLE;

/// Specifies a plot with the policies' mean response times.
const fn plot(name: &'static str, title: &'static str, x: &'static str) -> PlotSpec {
    PlotSpec {
        name,
        title,
        x,
        y: "mean response time (ms)",
        axes: PlotAxes::LogY,
    }
}

/// Specifies a plot with a bar for each host and policy.
const fn by_host(name: &'static str, title: &'static str) -> PlotSpec {
    PlotSpec {
        axes: PlotAxes::Places(HOSTS),
        ..plot(name, title, "host")
    }
}

/// The load of the paper.
const PAYLOAD: &str = "load: payload over the link's rate";
const WIRE: &str = "load on the wire, with headers";

/// The experiments of TOCS03's figures 4 to 14 and its section 5.1.
pub(crate) const EXPERIMENTS: [Experiment; 10] = [
    Experiment {
        paper: "TOCS03",
        name: "lan",
        about: "A link of 10 Mbit/s, five clients next to it, a new connection for each request; \
                TCP as of 2002: Reno, a first window of 2, a transmit queue of 100 packets.",
        plots: &[
            plot("figure-05a", "Mean response time", PAYLOAD),
            plot("wire-05", "Mean response time", WIRE),
            PlotSpec {
                y: "mean slowdown",
                ..plot("figure-06", "Mean slowdown", PAYLOAD)
            },
            PlotSpec {
                axes: PlotAxes::LogLog,
                ..plot("figure-09a", "Load 0.8: by size", "size (bytes)")
            },
            plot(
                "figure-09b",
                "Load 0.8: by percentile of size",
                "percentile of size",
            ),
        ],
        expected_s: (40.0, 200.0),
        parameters: |scale| {
            format!(
                "{:?} at {LAN_LOADS:?}, open connections",
                Tocs03Setup::lan(scale)
            )
        },
        run: |scale| lan(&Tocs03Setup::lan(scale), ""),
    },
    Experiment {
        paper: "TOCS03",
        name: "lan-today",
        about: "The same with today's TCP: CUBIC, a first window of 10, and a queue that has \
                senders wait rather than drop.",
        plots: &[plot("today-05", "Mean response time, today's TCP", PAYLOAD)],
        expected_s: (40.0, 200.0),
        parameters: |scale| format!("{:?} at {LAN_LOADS:?}", Tocs03Setup::lan(scale).today()),
        run: |scale| lan_today(&Tocs03Setup::lan(scale).today()),
    },
    Experiment {
        paper: "TOCS03",
        name: "partly-open",
        about: "Users that ask for k files, each once the one before is there: on a new connection, \
                or, where the line says kept, on one for all files of a user.",
        plots: &[
            plot("figure-05b", "Five requests a user", PAYLOAD),
            plot("figure-07", "FAIR by requests of a user", PAYLOAD),
        ],
        expected_s: (120.0, 600.0),
        parameters: |scale| {
            format!(
                "{:?} at {USER_LOADS:?}, k {USERS:?}, kept at {KEPT_LOADS:?}, k {KEPT_USERS:?}",
                Tocs03Setup::lan(scale)
            )
        },
        run: |scale| partly_open(&Tocs03Setup::lan(scale)),
    },
    Experiment {
        paper: "TOCS03",
        name: "fast",
        about: "A link of 100 Mbit/s.",
        plots: &[plot("figure-08", "Mean response time, 100 Mbit/s", PAYLOAD)],
        expected_s: (40.0, 160.0),
        parameters: |scale| format!("{:?} at {LAN_LOADS:?}", Tocs03Setup::lan(scale).fast()),
        run: |scale| fast(&Tocs03Setup::lan(scale).fast()),
    },
    Experiment {
        paper: "TOCS03",
        name: "two-classes",
        about: "Two classes of size, at most 1 KB and above, at load 0.8.",
        plots: &[],
        expected_s: (10.0, 40.0),
        parameters: |scale| format!("{:?}", Tocs03Setup::lan(scale)),
        run: |scale| two_classes(&Tocs03Setup::lan(scale)),
    },
    Experiment {
        paper: "TOCS03",
        name: "delay",
        about: "Round trips of 0.1 to 100 ms, at loads of 0.7 of the payload, 0.9 of the wire, and \
                0.9 of the payload, which is more than the link carries.",
        plots: &[
            plot("figure-10a", "Load 0.7", "round trip (ms)"),
            plot("figure-10b", "Load 0.9 of the wire", "round trip (ms)"),
            plot("figure-10c", "Load 0.9 of the payload", "round trip (ms)"),
        ],
        expected_s: (60.0, 225.0),
        parameters: |scale| {
            format!(
                "{:?} at {RTTS_MS:?} ms, {WAN_LOADS:?}",
                Tocs03Setup::lan(scale)
            )
        },
        run: |scale| delay(&Tocs03Setup::lan(scale)),
    },
    Experiment {
        paper: "TOCS03",
        name: "loss",
        about: "Up to 10 % of the packets to clients lost, each by itself, and where the line says \
                both ways, as many of those to the server.",
        plots: &[
            plot("figure-11a", "Load 0.7", "packets lost (%)"),
            plot("figure-11b", "Load 0.9 of the wire", "packets lost (%)"),
            plot(
                "figure-12",
                "Load 0.9 of the wire, 100 ms",
                "packets lost (%)",
            ),
        ],
        expected_s: (110.0, 440.0),
        parameters: |scale| format!("{:?} at {LOSSES:?}, both ways", Tocs03Setup::lan(scale)),
        run: |scale| loss(&Tocs03Setup::lan(scale)),
    },
    Experiment {
        paper: "TOCS03",
        name: "hosts",
        about: "Six hosts with the paper's round trips (their bandwidth was no bottleneck there), \
                at loads of the payload; at 0.9, of the wire and of the payload, the load swings \
                between 0.75 and 1.05 each second. Some rows have a server with a bounded listen \
                queue and bounded processes.",
        plots: &[
            by_host("figure-13a", "Load 0.9 of the payload"),
            by_host("figure-13a-wire", "Load 0.9 of the wire"),
            by_host("figure-13b", "Load 0.8"),
            by_host("figure-13c", "Load 0.7"),
            by_host("figure-13d", "Load 0.5"),
            plot("figure-14a", "Load 0.8, IBM", "percentile of size"),
            plot("figure-14b", "Load 0.8, UK", "percentile of size"),
        ],
        expected_s: (45.0, 180.0),
        parameters: |scale| {
            format!(
                "{:?} at {HOST_LOADS:?}, {BOUNDS:?}",
                Tocs03Setup::lan(scale).hosts()
            )
        },
        run: |scale| hosts(&Tocs03Setup::lan(scale).hosts()),
    },
    Experiment {
        paper: "TOCS03",
        name: "queues",
        about: "FAIR with longer transmit queues, at 0.9 of the wire; and connections that are \
                used five times.",
        plots: &[],
        expected_s: (30.0, 120.0),
        parameters: |scale| {
            format!(
                "{:?} with {QUEUES:?} packets, losses both ways",
                Tocs03Setup::lan(scale)
            )
        },
        run: |scale| queues(&Tocs03Setup::lan(scale)),
    },
    sizes::SURGE,
];

/// Loads of the LAN: of payload where the link can carry it, and of the wire beyond.
const LAN_LOADS: [TargetLoad; 8] = [
    TargetLoad::Payload(0.2),
    TargetLoad::Payload(0.4),
    TargetLoad::Payload(0.5),
    TargetLoad::Payload(0.6),
    TargetLoad::Payload(0.7),
    TargetLoad::Wire(0.9),
    TargetLoad::Payload(0.8),
    TargetLoad::Payload(0.9),
];

/// Loads of users with several requests, as far as figure 5's axis goes: the last is more than the
/// link carries.
const USER_LOADS: [TargetLoad; 7] = [
    TargetLoad::Payload(0.2),
    TargetLoad::Payload(0.4),
    TargetLoad::Payload(0.5),
    TargetLoad::Payload(0.6),
    TargetLoad::Payload(0.7),
    TargetLoad::Payload(0.8),
    TargetLoad::Payload(0.9),
];
const USERS: [u32; 3] = [1, 5, 50];
/// Users that keep their connections, and the loads at which they are compared with others.
const KEPT_USERS: [u32; 2] = [5, 50];
const KEPT_LOADS: [TargetLoad; 4] = TargetLoad::payloads([0.2, 0.5, 0.7, 0.8]);
const RTTS_MS: [f64; 5] = [0.1, 20.0, 40.0, 70.0, 100.0];
/// The hosts of figure 14 by their places in [`HOSTS`], and its plots.
const PERCENTILE_HOSTS: [(u32, &str); 2] = [(0, "figure-14a"), (2, "figure-14b")];
const QUEUES: [u64; 3] = [100, 500, 700];
/// The bytes above which figure 9's text calls a file large.
const MB: u64 = 1 << 20;

/// Adds a point with the mean response times of both policies.
fn draw(measured: &mut Measured, plot: &str, x: f64, own: &PolicyComparison) {
    measured.point(plot, "FAIR", x, own.fair.mean_ms());
    measured.point(plot, "SRPT", x, own.other.mean_ms());
}

/// Adds the means of half percentiles of size to a plot.
fn draw_percentiles(measured: &mut Measured, plot: &str, policy: &str, by_percentile: Vec<f64>) {
    for (index, ms) in by_percentile.into_iter().enumerate() {
        measured.point(plot, policy, (index as f64 + 0.5) / 2.0, ms);
    }
}

fn lan_loads(setup: &Tocs03Setup) -> anyhow::Result<Vec<(TargetLoad, PolicyComparison)>> {
    let loads = setup
        .scale
        .pick(&LAN_LOADS[4..5], &LAN_LOADS[..], &LAN_LOADS[..]);
    let setups = loads.iter().map(|&load| setup.at(load));
    let compared = compare(&setups.collect::<Vec<_>>())?;
    Ok(loads.iter().copied().zip(compared).collect())
}

/// Runs the LAN at all loads. The names of its plots end in `reading`.
fn lan(setup: &Tocs03Setup, reading: &str) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    let mut high = Vec::new();
    let [means, by_wire, slowdowns] =
        ["figure-05a", "wire-05", "figure-06"].map(|plot| format!("{plot}{reading}"));
    for (load, own) in lan_loads(setup)? {
        let name = load.name();
        draw(&mut measured, &means, own.payload_load, &own);
        draw(&mut measured, &by_wire, own.wire_load, &own);
        measured.point(&slowdowns, "FAIR", own.payload_load, own.fair.slowdown());
        measured.point(&slowdowns, "SRPT", own.payload_load, own.other.slowdown());
        measured.value(format!("gain at {name}"), own.gain());
        measured.value(format!("slowdown gain at {name}"), own.slowdown_gain());
        measured.value(format!("FAIR mean s at {name}"), own.fair.mean_ms() / 1e3);
        measured.value(format!("FAIR loss at {name}"), own.fair.counts.loss);
        measured.value(format!("SRPT loss at {name}"), own.other.counts.loss);
        open_connections(&name, &own, &mut measured);
        measured.value(format!("goodput ratio at {name}"), own.goodput_ratio());
        measured.value(format!("wire load at {name}"), own.wire_load);
        if own.payload_load > 0.5 + 1e-6 && own.wire_load < 1.0 {
            high.push(own.gain());
        }
        if load == TargetLoad::Payload(0.8) {
            large(&own, reading, &mut measured);
        }
    }
    measured.value(
        "gain above 0.5 least",
        high.iter().copied().fold(f64::NAN, f64::min),
    );
    measured.value(
        "gain above 0.5 most",
        high.iter().copied().fold(f64::NAN, f64::max),
    );
    Ok(measured)
}

/// Adds the connections that are open on average (5.1): an experiment counts them over time.
fn open_connections(name: &str, own: &PolicyComparison, measured: &mut Measured) {
    for (policy, times) in [("FAIR", &own.fair), ("SRPT", &own.other)] {
        let open = times.counts.open_connections;
        measured.value(format!("{policy} open connections at {name}"), open);
    }
    measured.value(format!("open connections gain at {name}"), own.open_gain());
}

/// Adds figure 9: means by size, and the times of the largest responses.
fn large(own: &PolicyComparison, reading: &str, measured: &mut Measured) {
    let [sizes, percentiles] = ["figure-09a", "figure-09b"].map(|plot| format!("{plot}{reading}"));
    for (policy, times) in [("FAIR", &own.fair), ("SRPT", &own.other)] {
        for (bytes, ms) in times.by_size() {
            measured.point(&sizes, policy, bytes, ms);
        }
        draw_percentiles(measured, &percentiles, policy, times.by_percentile());
        measured.value(format!("{policy} largest 1% s"), times.largest(0.01) / 1e3);
        measured.value(format!("{policy} largest file s"), times.probes_ms() / 1e3);
    }
    measured.value(
        "smallest 80% gain",
        own.fair.smallest(0.8) / own.other.smallest(0.8),
    );
    measured.value(
        "smallest 99% gain",
        own.fair.smallest(0.99) / own.other.smallest(0.99),
    );
    measured.value(
        "smallest half gain",
        own.fair.smallest(0.5) / own.other.smallest(0.5),
    );
    measured.value(
        "largest file SRPT over FAIR",
        own.other.probes_ms() / own.fair.probes_ms(),
    );
    measured.value("buckets that gain", own.buckets_that_gain());
    measured.value(
        "files above 1 MB gain",
        own.fair.above(MB) / own.other.above(MB),
    );
}

/// Runs the LAN with today's TCP.
fn lan_today(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    for (load, own) in lan_loads(setup)? {
        let name = load.name();
        draw(&mut measured, "today-05", own.payload_load, &own);
        measured.value(format!("gain at {name}"), own.gain());
        measured.value(format!("slowdown gain at {name}"), own.slowdown_gain());
        if load == TargetLoad::Payload(0.8) {
            measured.value("buckets that gain", own.buckets_that_gain());
            measured.value(
                "largest file SRPT over FAIR",
                own.other.probes_ms() / own.fair.probes_ms(),
            );
        }
    }
    Ok(measured)
}

/// Runs users of several requests each, on new connections and on one for each user.
fn partly_open(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let mut measured = on_new_connections(setup)?;
    on_kept_connections(setup, &mut measured)?;
    Ok(measured)
}

/// Adds users that keep their connections to those on new ones. Where the mean falls with the
/// requests of a user here as well, it is not for the SYN-ACKs that a full queue drops.
fn on_kept_connections(setup: &Tocs03Setup, measured: &mut Measured) -> anyhow::Result<()> {
    let points = KEPT_USERS.map(|k| KEPT_LOADS.map(|load| (k, load)));
    let points = points.concat();
    let setups = points.iter().map(|&(k, load)| Tocs03Setup {
        requests_per_user: k,
        connections: ConnectionUse::ByUser,
        ..setup.at(load)
    });
    let compared = compare(&setups.collect::<Vec<_>>())?;
    for ((k, load), own) in points.iter().zip(&compared) {
        let line = format!("k = {k}, kept");
        measured.point("figure-07", &line, own.payload_load, own.fair.mean_ms());
        means_of_users(&format!("k {k} kept at {}", load.name()), own, measured);
    }
    // With one request a user, a connection that is kept is a new one.
    let mean = |policy: &str, of: &str| {
        let name = format!("{policy} mean ms, {of} at 0.7");
        measured.values.get(&name).copied()
    };
    let over = |policy: &str, k: u32, base: &str| {
        Some(mean(policy, &format!("k {k} kept"))? / mean(policy, base)?)
    };
    let ratios = [
        ("FAIR kept, k 5 over k 1", over("FAIR", 5, "k 1")),
        ("FAIR kept, k 50 over k 1", over("FAIR", 50, "k 1")),
        ("FAIR kept, k 50 over k 5", over("FAIR", 50, "k 5 kept")),
        ("SRPT kept, k 50 over k 1", over("SRPT", 50, "k 1")),
    ];
    for (name, ratio) in ratios {
        measured.value(name, ratio.unwrap_or(f64::NAN));
    }
    Ok(())
}

/// Adds the gain, the means, and FAIR's SYN-ACKs that were sent again for each request.
fn means_of_users(name: &str, own: &PolicyComparison, measured: &mut Measured) {
    measured.value(format!("gain, {name}"), own.gain());
    measured.value(format!("FAIR mean ms, {name}"), own.fair.mean_ms());
    measured.value(format!("SRPT mean ms, {name}"), own.other.mean_ms());
    let again = own.fair.counts.syn_acks_again;
    measured.value(format!("FAIR SYN-ACKs again, {name}"), again);
}

/// Runs users of several requests each, with a connection for each request.
fn on_new_connections(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let points: Vec<(u32, TargetLoad)> = USERS
        .iter()
        .flat_map(|&k| USER_LOADS.iter().map(move |&load| (k, load)))
        .collect();
    let setups: Vec<Tocs03Setup> = (points.iter())
        .map(|&(k, load)| Tocs03Setup {
            requests_per_user: k,
            ..setup.at(load)
        })
        .collect();
    let mut measured = Measured::default();
    let compared = compare(&setups)?;
    let (mut at_07, mut gains_at_08) = (Vec::new(), Vec::new());
    for ((k, load), own) in points.iter().zip(&compared) {
        let line = format!("k = {k}");
        measured.point("figure-07", &line, own.payload_load, own.fair.mean_ms());
        if *k == 5 {
            draw(&mut measured, "figure-05b", own.payload_load, own);
        }
        means_of_users(&format!("k {k} at {}", load.name()), own, &mut measured);
        if *load == TargetLoad::Payload(0.7) {
            at_07.push((own.fair.mean_ms(), own.other.mean_ms()));
        }
        if *load == TargetLoad::Payload(0.8) {
            gains_at_08.push(own.gain());
        }
        if *k == 5 && *load == TargetLoad::Payload(0.8) {
            measured.value("k 5: SRPT largest 1% s", own.other.largest(0.01) / 1e3);
            measured.value("k 5: FAIR largest 1% s", own.fair.largest(0.01) / 1e3);
            measured.value("k 5: SRPT largest file s", own.other.probes_ms() / 1e3);
            measured.value("k 5: FAIR largest file s", own.fair.probes_ms() / 1e3);
        }
    }
    if let [one, five, _] = gains_at_08[..] {
        measured.value("gain at 0.8, k 5 over k 1", five / one);
    }
    if let [one, five, fifty] = at_07[..] {
        measured.value("FAIR, k 5 over k 1", five.0 / one.0);
        measured.value("FAIR, k 50 over k 1", fifty.0 / one.0);
        measured.value("SRPT, k 50 over k 1", fifty.1 / one.1);
    }
    Ok(measured)
}

/// Runs the link of 100 Mbit/s.
fn fast(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    for (load, own) in lan_loads(setup)? {
        draw(&mut measured, "figure-08", own.payload_load, &own);
        measured.value(format!("gain at {}", load.name()), own.gain());
        if load == TargetLoad::Payload(0.8) {
            measured.value("sizes that gain at 0.8", own.sizes_that_gain());
        }
    }
    Ok(measured)
}

/// Runs two classes of size against FAIR.
fn two_classes(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let own = PolicyComparison::of(&setup.at(TargetLoad::Payload(0.8)), Policy::TwoClasses)?;
    let mut measured = Measured::default();
    measured.value("gain", own.gain());
    measured.value("slowdown gain", own.slowdown_gain());
    measured.value("buckets that gain", own.buckets_that_gain());
    let least = own.least_gain();
    measured.value("least gain of a half percentile", least.gain);
    measured.value("half percentile that gains least", least.percentile);
    Ok(measured)
}

/// Runs all round trips at each load.
fn delay(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    let plots = ["figure-10a", "figure-10b", "figure-10c"];
    for ((name, load), plot) in WAN_LOADS.into_iter().zip(plots) {
        let setups = RTTS_MS.map(|rtt_ms| setup.at(load).at_rtt(rtt_ms));
        for (rtt_ms, own) in RTTS_MS.iter().zip(compare(&setups)?) {
            draw(&mut measured, plot, *rtt_ms, &own);
            measured.value(format!("gain at {name}, RTT {rtt_ms}"), own.gain());
        }
    }
    Ok(measured)
}

/// Runs six hosts at each load.
fn hosts(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let setups = HOST_LOADS.map(|(name, load, _)| Tocs03Setup {
        swings: name.starts_with("0.9"),
        ..setup.at(load)
    });
    let mut measured = Measured::default();
    for ((name, _, plot), own) in HOST_LOADS.iter().zip(compare(&setups)?) {
        for (policy, times) in [("FAIR", &own.fair), ("SRPT", &own.other)] {
            for client in 0..HOSTS.len() as u32 {
                measured.point(plot, policy, f64::from(client), times.of_client(client));
            }
        }
        gains_of_hosts("", name, &own, &mut measured);
        if *name == "0.8" {
            measured.value("0.8: buckets that gain", own.buckets_that_gain());
            let largest = own.other.probes_ms() / own.fair.probes_ms();
            measured.value("0.8: largest file SRPT over FAIR", largest);
            for (client, plot) in PERCENTILE_HOSTS {
                for (policy, times) in [("FAIR", &own.fair), ("SRPT", &own.other)] {
                    let by_percentile = times.of_client_by_percentile(client);
                    draw_percentiles(&mut measured, plot, policy, by_percentile);
                }
            }
        }
    }
    backlog(setup, &mut measured)?;
    Ok(measured)
}

/// Runs FAIR with longer queues, and connections that are kept.
fn queues(setup: &Tocs03Setup) -> anyhow::Result<Measured> {
    let setups = QUEUES.map(|packets| Tocs03Setup {
        queue_packets: packets,
        ..setup.at(TargetLoad::Wire(0.9))
    });
    let mut measured = Measured::default();
    let compared = compare(&setups)?;
    for (packets, own) in QUEUES.iter().zip(&compared) {
        measured.value(
            format!("FAIR mean ms, {packets} packets"),
            own.fair.mean_ms(),
        );
        measured.value(format!("gain, {packets} packets"), own.gain());
    }
    let base = compared[0].fair.mean_ms();
    measured.value("500 packets over 100", compared[1].fair.mean_ms() / base);
    measured.value("700 packets over 100", compared[2].fair.mean_ms() / base);
    let users = Tocs03Setup {
        requests_per_user: 5,
        ..setup.at(TargetLoad::Payload(0.7))
    };
    let far = users.clone().at_rtt(100.0);
    let [down, both] = [far.losing_down(0.025), far.losing(0.025)];
    let kept = |setup: &Tocs03Setup| Tocs03Setup {
        connections: ConnectionUse::ByClient,
        ..setup.clone()
    };
    let setups = [&users, &down, &both].map(|setup| [setup.clone(), kept(setup)]);
    let found = compare(&setups.concat())?;
    let gain = |new: &PolicyComparison, kept: &PolicyComparison| {
        (
            new.fair.mean_ms() / kept.fair.mean_ms(),
            new.other.mean_ms() / kept.other.mean_ms(),
        )
    };
    let (fair, srpt) = gain(&found[0], &found[1]);
    measured.value("kept in the LAN, FAIR over SRPT", fair / srpt);
    for (prefix, pair) in ["", "both ways: "]
        .into_iter()
        .zip(found[2..].chunks_exact(2))
    {
        let (fair, srpt) = gain(&pair[0], &pair[1]);
        measured.value(format!("{prefix}kept in the WAN, FAIR"), fair);
        measured.value(format!("{prefix}kept in the WAN, SRPT"), srpt);
    }
    Ok(measured)
}
