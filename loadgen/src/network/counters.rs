//! The counters of a network's links, as CSV or JSON.

use std::path::Path;

use serde::Serialize;
use sprat_scheduler::Time;

use super::engine::Lateness;
use super::fabric::{Fabric, Strays, Way};
use crate::links::{Amount, LinkCounters, Mark};
use crate::table::{self, TableError};

/// All counters of a network at a moment.
#[derive(Debug, Serialize)]
pub(super) struct Counters {
    /// Seconds since the links began.
    time_s: f64,
    links: Vec<CounterRow>,
    strays: Strays,
    lateness: Lateness,
    /// Packets that the kernel dropped because they were not read in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unread: Option<u64>,
    /// The kernel's token bucket of the farm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tbf: Option<Tbf>,
}

/// The counters of the farm's bucket, as tc reports them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Tbf {
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) dropped_packets: u64,
}

/// The counters of one mark in one direction of a link. `lost`, `crowded` and `delivered` do not
/// tell marks apart, and stand with IN.
#[derive(Debug, Serialize)]
struct CounterRow {
    link: String,
    direction: Way,
    mark: &'static str,
    in_packets: u64,
    in_bytes: u64,
    out_packets: u64,
    out_bytes: u64,
    early_packets: u64,
    early_bytes: u64,
    forced_packets: u64,
    forced_bytes: u64,
    overflow_packets: u64,
    overflow_bytes: u64,
    queued_packets: u64,
    queued_bytes: u64,
    mean_packets: f64,
    mean_bytes: f64,
    max_packets: u64,
    max_bytes: u64,
    lost_packets: u64,
    lost_bytes: u64,
    crowded_packets: u64,
    delivered_packets: u64,
    delivered_bytes: u64,
}

impl CounterRow {
    fn new(link: &str, direction: Way, mark: Mark, counters: &LinkCounters, now: Time) -> Self {
        let own = counters.mark(mark);
        let once = |amount: Amount| {
            if mark == Mark::In {
                amount
            } else {
                Amount::default()
            }
        };
        let [lost, crowded, delivered] = [
            once(counters.lost),
            once(counters.crowded),
            once(counters.delivered),
        ];
        let (mean_packets, mean_bytes) = own.length.mean(now);
        let (queued, max) = (own.length.now(), own.length.max());
        Self {
            link: link.to_owned(),
            direction,
            mark: mark.name(),
            in_packets: own.arrived.packets,
            in_bytes: own.arrived.bytes,
            out_packets: own.departed.packets,
            out_bytes: own.departed.bytes,
            early_packets: own.early.packets,
            early_bytes: own.early.bytes,
            forced_packets: own.forced.packets,
            forced_bytes: own.forced.bytes,
            overflow_packets: own.overflow.packets,
            overflow_bytes: own.overflow.bytes,
            queued_packets: queued.packets,
            queued_bytes: queued.bytes,
            mean_packets,
            mean_bytes,
            max_packets: max.packets,
            max_bytes: max.bytes,
            lost_packets: lost.packets,
            lost_bytes: lost.bytes,
            crowded_packets: crowded.packets,
            delivered_packets: delivered.packets,
            delivered_bytes: delivered.bytes,
        }
    }
}

impl Counters {
    /// Collects the counters of every link; `links` are their names, in the plan's order.
    pub(super) fn new(links: &[String], fabric: &Fabric, lateness: Lateness, now: Time) -> Self {
        let ways = [Way::Down, Way::Up];
        let rows = links.iter().enumerate().flat_map(|(index, name)| {
            ways.into_iter().flat_map(move |way| {
                let counters = fabric.counters(index, way);
                Mark::ALL.map(|mark| CounterRow::new(name, way, mark, &counters, now))
            })
        });
        Self {
            time_s: now.since(Time::ZERO).as_secs_f64(),
            links: rows.collect(),
            strays: fabric.strays(),
            lateness,
            unread: None,
            tbf: None,
        }
    }

    /// Writes the counters as JSON where the name ends in `.json`, else those of the links as CSV.
    pub(super) fn write(&self, file: &Path) -> Result<(), TableError> {
        table::create(file, |out| {
            if file
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                serde_json::to_writer_pretty(&mut *out, self)?;
                return writeln!(out);
            }
            let mut csv = csv::Writer::from_writer(out);
            for row in &self.links {
                csv.serialize(row).map_err(std::io::Error::other)?;
            }
            csv.flush()
        })
    }

    /// Returns a line that tells whether this process kept up with the packets.
    pub(super) fn summary(&self) -> String {
        let Lateness {
            packets,
            mean_us,
            max_us,
            over_1_ms,
            refused,
        } = self.lateness;
        format!(
            "{packets} packets in {:.1} s, late by {mean_us:.0} us in the mean, {max_us} us at \
             most ({over_1_ms} by more than 1 ms); {} unread, {refused} refused",
            self.time_s,
            self.unread.unwrap_or(0),
        )
    }
}
