//! Random networks in which an earlier search did harm, as they were drawn then.

use std::time::Duration;

use super::{Algorithm, ClientGroup, LinkSettings, Network, Traffic, queue_bytes};

/// A group of clients with no links of their own, but jitter or loss on the way.
struct Clients {
    count: usize,
    weight: f64,
    rtt_ms: [f64; 2],
    jitter_ns: u64,
    loss: f64,
    quick_acks: u32,
    keeps: bool,
}

impl Clients {
    fn group(&self) -> ClientGroup {
        let [least, most] = self.rtt_ms;
        ClientGroup {
            clients: self.count,
            weight: self.weight,
            rtt_ms: least..=most,
            own: LinkSettings {
                jitter: Duration::from_nanos(self.jitter_ns),
                loss: self.loss,
                ..LinkSettings::default()
            },
            quick_acks: self.quick_acks,
            keeps: self.keeps,
        }
    }
}

/// Makes a network with a shared link.
fn network(
    seed: u64,
    rate_bits_per_s: u64,
    bytes: u64,
    offered: f64,
    clients: &[Clients],
) -> Network {
    Network {
        name: format!("seed {seed}"),
        shared: LinkSettings {
            rate_bits_per_s: Some(rate_bits_per_s),
            queue: queue_bytes(bytes),
            ..LinkSettings::default()
        },
        groups: clients.iter().map(Clients::group).collect(),
        traffic: Traffic {
            offered_bits_per_s: offered,
            on_off: None,
            requests: 3000,
            largest_bytes: u64::MAX,
            back_to_back_bytes: None,
        },
        algorithm: Algorithm::Cubic,
        is_shared: true,
        local_packets: None,
    }
}

/// Lists the networks, each with the seed of its run.
pub(crate) fn harmed() -> Vec<(u64, Network)> {
    vec![
        (26, near_with_jitter()),
        (38, overloaded()),
        (110, short_queue()),
        (2893, fast()),
        (8251, fast_and_deep()),
        (8807, in_bursts()),
    ]
}

fn near_with_jitter() -> Network {
    network(
        26,
        24827983,
        460881,
        11731724.165120399,
        &[Clients {
            count: 1,
            weight: 1.073937469802616,
            rtt_ms: [1.8926284323410103, 7.342292585179777],
            jitter_ns: 4820068,
            loss: 0.0,
            quick_acks: 0,
            keeps: true,
        }],
    )
}

fn overloaded() -> Network {
    network(
        38,
        135517022,
        693794,
        162620427.24020338,
        &[
            Clients {
                count: 5,
                weight: 0.365163975022962,
                rtt_ms: [30.67448163210752, 69.58734697347577],
                jitter_ns: 360325,
                loss: 0.0021139390144666835,
                quick_acks: 16,
                keeps: true,
            },
            Clients {
                count: 4,
                weight: 0.78969215033291,
                rtt_ms: [14.399908864259794, 76.97307138265592],
                jitter_ns: 0,
                loss: 0.0011474805099766787,
                quick_acks: 16,
                keeps: true,
            },
            Clients {
                count: 91,
                weight: 0.7169466137005847,
                rtt_ms: [1.1864583232729178, 7.618444397533474],
                jitter_ns: 0,
                loss: 0.0,
                quick_acks: 0,
                keeps: false,
            },
        ],
    )
}

fn short_queue() -> Network {
    network(
        110,
        21614493,
        15140,
        19073779.914969392,
        &[
            Clients {
                count: 2,
                weight: 0.9391672399889268,
                rtt_ms: [8.126367643661522, 12.522473964095298],
                jitter_ns: 0,
                loss: 0.011003979182830744,
                quick_acks: 16,
                keeps: false,
            },
            Clients {
                count: 65,
                weight: 0.5179693857619447,
                rtt_ms: [0.37047891576775976, 1.8794106006919107],
                jitter_ns: 4075401,
                loss: 0.0,
                quick_acks: 16,
                keeps: false,
            },
        ],
    )
}

fn fast() -> Network {
    network(
        2893,
        223722679,
        2183132,
        203801154.62605202,
        &[Clients {
            count: 5,
            weight: 1.1728640744988115,
            rtt_ms: [5.1355004847761245, 8.00962819030186],
            jitter_ns: 4945494,
            loss: 0.0,
            quick_acks: 16,
            keeps: false,
        }],
    )
}

fn fast_and_deep() -> Network {
    network(
        8251,
        289773351,
        13324530,
        180981694.0421508,
        &[
            Clients {
                count: 3,
                weight: 0.35327032268147335,
                rtt_ms: [1.5332012015773122, 2.6135998598933328],
                jitter_ns: 4990739,
                loss: 0.0,
                quick_acks: 0,
                keeps: false,
            },
            Clients {
                count: 60,
                weight: 1.186057160306469,
                rtt_ms: [36.470182613052735, 338.20837241128174],
                jitter_ns: 1150614,
                loss: 0.0,
                quick_acks: 0,
                keeps: true,
            },
        ],
    )
}

fn in_bursts() -> Network {
    let mut network = network(
        8807,
        80994209,
        2019906,
        47242553.34804942,
        &[Clients {
            count: 1,
            weight: 0.24645728725129662,
            rtt_ms: [0.2647359718277387, 2.4252336349681327],
            jitter_ns: 7164996,
            loss: 0.01184640257799099,
            quick_acks: 16,
            keeps: false,
        }],
    );
    network.traffic.on_off = Some((
        Duration::from_nanos(3421245700),
        Duration::from_nanos(298378601),
    ));
    network
}
