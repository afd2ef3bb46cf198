//! The paper's web sessions (SFD02, table 2), and probes of known sizes beside them.

use std::time::Duration;

use sprat_scheduler::Time;

use super::super::plan::PlannedRequest;
use crate::workload::Dice;

/// The number of clients.
pub(super) const CLIENTS: u32 = 5;

/// The size in bytes above which a flow is long.
pub(super) const THRESHOLD_BYTES: u64 = 15 << 10;

/// The mean number of pages in a session; [`OBJECTS`] is that of objects in a page.
pub(super) const PAGES: f64 = 100.0;
pub(super) const OBJECTS: f64 = 3.0;

/// The mean seconds between pages; [`OBJECT_GAP_S`] are those between a page's objects.
pub(super) const PAGE_GAP_S: f64 = 10.0;
pub(super) const OBJECT_GAP_S: f64 = 0.01;

/// The shape of the Lomax distribution (Pareto II) of sizes, whose mean is 12 KB.
pub(super) const SHAPE: f64 = 1.2;
const SCALE_BYTES: f64 = 12.0 * 1024.0 * (SHAPE - 1.0);

/// The most bytes of an object: one in 20,000 would be larger.
const LARGEST_BYTES: u64 = 10 << 20;

/// The sizes of the probes, which are asked for in turn, beside the sessions: of their flows one in
/// 1,400 is above 1 MB.
pub(super) const PROBES_BYTES: [u64; 4] = [40 << 10, 100 << 10, 300 << 10, 1000 << 10];
const PROBE_GAP_S: f64 = 20.0;

/// The loads of the paper's table 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SessionLoad {
    /// 30% of the link.
    Light,
    /// 40% of the link.
    Medium,
    /// 70% of the link.
    Heavy,
}

impl SessionLoad {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Heavy => "heavy",
        }
    }

    /// Returns the utilisation that the paper has measured with drop-tail queues.
    pub(super) fn utilisation(self) -> f64 {
        match self {
            Self::Light => 0.30,
            Self::Medium => 0.40,
            Self::Heavy => 0.70,
        }
    }

    /// Returns the paper's number of sessions.
    pub(super) fn sessions(self) -> u32 {
        match self {
            Self::Light => 1_000,
            Self::Medium => 1_250,
            Self::Heavy => 1_400,
        }
    }

    /// Returns the paper's seconds between sessions.
    pub(super) fn gap_s(self) -> f64 {
        match self {
            Self::Light => 25.0,
            Self::Medium => 15.0,
            Self::Heavy => 9.0,
        }
    }
}

/// Returns the bits per second that the probes offer, without headers.
pub(super) fn probes_bits_per_s() -> f64 {
    let mean = PROBES_BYTES.iter().sum::<u64>() as f64 / PROBES_BYTES.len() as f64;
    mean * 8.0 / PROBE_GAP_S
}

/// Draws the size of an object.
fn size(dice: &mut Dice) -> u64 {
    let bytes = SCALE_BYTES * ((1.0 - dice.uniform()).powf(-1.0 / SHAPE) - 1.0);
    (bytes as u64).clamp(1, LARGEST_BYTES)
}

/// Draws a number from a distribution that is exponential with this mean, one at least.
fn number(dice: &mut Dice, mean: f64) -> u64 {
    (dice.exponential() * mean).round().max(1.0) as u64
}

/// Draws pages as the sessions ask for them, each as the sizes of its objects.
pub(super) fn pages(seed: u64, count: usize) -> Vec<Vec<u64>> {
    let mut dice = Dice::new(seed);
    let mut page = || {
        let objects = number(&mut dice, OBJECTS);
        (0..objects).map(|_| size(&mut dice)).collect()
    };
    (0..count).map(|_| page()).collect()
}

/// Draws the requests of a run of `length`, in order, with sessions `gap_s` seconds apart. At the
/// beginning as many sessions are going on as there are on average: a session lasts for about 1,000
/// s, and the rest of one is as long as a new one.
pub(super) fn requests(seed: u64, length: Duration, gap_s: f64) -> Vec<PlannedRequest> {
    let mut dice = Dice::new(seed);
    let length_s = length.as_secs_f64();
    let going_on = (PAGES * PAGE_GAP_S / gap_s).round() as u64;
    let mut begins: Vec<f64> = (0..going_on)
        .map(|_| dice.exponential() * PAGE_GAP_S)
        .collect();
    let mut at_s = 0.0;
    loop {
        at_s += dice.exponential() * gap_s;
        if at_s >= length_s {
            break;
        }
        begins.push(at_s);
    }
    let mut asked = Vec::new();
    for begin_s in begins {
        let client = dice.below(CLIENTS as usize) as u32;
        let mut page_s = begin_s;
        for _ in 0..number(&mut dice, PAGES) {
            let mut object_s = page_s;
            for _ in 0..number(&mut dice, OBJECTS) {
                if object_s < length_s {
                    asked.push((object_s, client, size(&mut dice)));
                }
                object_s += dice.exponential() * OBJECT_GAP_S;
            }
            page_s += dice.exponential() * PAGE_GAP_S;
        }
    }
    let probes = (length_s / PROBE_GAP_S) as usize;
    asked.extend((0..probes).map(|index| {
        let at_s = (index as f64 + 0.5) * PROBE_GAP_S;
        let client = index as u32 % CLIENTS;
        (at_s, client, PROBES_BYTES[index % PROBES_BYTES.len()])
    }));
    asked.sort_by(|one, other| one.0.total_cmp(&other.0));
    let request = |(at_s, client, bytes): (f64, u32, u64)| PlannedRequest {
        at: Time::from_nanos((at_s * 1e9) as u64),
        client,
        bytes,
        after: None,
    };
    asked.into_iter().map(request).collect()
}
