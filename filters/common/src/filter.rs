//! The filter of one worker: the events of its streams, and its decisions about them.

mod requests;
mod responses;

use std::collections::BTreeMap;
use std::sync::Arc;

use sprat_config::fields::Fields;
use sprat_config::resolved;
use sprat_scheduler::Time;
use sprat_scheduler::catalogue::KeyHasher;

use crate::answer::Answer;
use crate::groups::Group;
use crate::host::{Host, StreamId};
use crate::metrics::{Counter, Gauge};
use crate::probing::Probing;
use crate::reader::Reader;
use crate::sizes::{Sizes, written_down};
use crate::source::Source;
use crate::stream::{Phase, Stream};
use crate::uplink::Uplink;

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request goes on.
    Continue,
    /// The request is held until the filter has the host release or answer it.
    Hold,
    /// The request is answered by the filter.
    Answer(Answer),
}

/// The filter of one worker, or of all: it classifies, admits and dispatches requests, and orders
/// responses.
#[derive(Debug)]
pub struct Filter {
    reader: Arc<Reader>,
    groups: Vec<Group>,
    sizes: Option<Sizes>,
    wants_sizes: bool,
    /// Whether the host orders and paces responses by itself.
    host_paces: bool,
    wants_backlog: bool,
    probing: Probing,
    uplink: Option<Uplink>,
    response_header: Option<String>,
    streams: BTreeMap<StreamId, Stream>,
    waiting: u64,
    held: u64,
}

impl Filter {
    /// Creates the filter of a worker. The secret of `hasher` is drawn once for this worker. The
    /// number `worker` tells it from others, and is not zero.
    pub fn new(
        config: &resolved::Filter,
        hasher: KeyHasher,
        worker: u64,
        host: &mut dyn Host,
    ) -> Self {
        let uplink = Uplink::new(&config.uplink, &config.classes.list, worker, host);
        let sizes = |own: &_| Sizes::of_worker(own, hasher, host);
        Self::build(config, uplink, false, sizes)
    }

    /// Creates the one filter of all workers, for a host that orders and paces responses by itself.
    /// No head is held, and sizes are not shared between workers. Filters with one `hasher` know
    /// sizes by the same keys.
    pub fn of_all_workers(config: &resolved::Filter, hasher: KeyHasher) -> Self {
        let host_paces = config.uplink.rate_bits_per_s.is_some();
        let sizes = |own: &_| Sizes::of_all(own, hasher);
        Self::build(config, None, host_paces, sizes)
    }

    fn build(
        config: &resolved::Filter,
        uplink: Option<Uplink>,
        host_paces: bool,
        sizes: impl FnOnce(&resolved::FilterCatalogue) -> Sizes,
    ) -> Self {
        let classes = &config.classes.list;
        let group = |own| Group::new(own, classes, &config.admission);
        let groups: Vec<Group> = config.clusters.iter().map(group).collect();
        let wants_sizes = config.response_header.is_some() || host_paces;
        let wanted = wants_sizes || uplink.is_some() || groups.iter().any(|own| own.wants_size);
        let catalogue = config.catalogue.as_ref().filter(|_| wanted);
        let sizes = catalogue.map(sizes);
        let keys = sizes.as_ref().map(|own| Arc::clone(own.keys()));
        let probes = config.clusters.iter().map(|own| own.head_probe.as_ref());
        Self {
            reader: Arc::new(Reader::new(config, keys)),
            wants_sizes,
            wants_backlog: config.admission.channel.is_some(),
            sizes,
            probing: Probing::new(probes),
            host_paces,
            uplink,
            response_header: config.response_header.clone(),
            groups,
            streams: BTreeMap::new(),
            waiting: 0,
            held: 0,
        }
    }

    /// Takes over the sizes that another filter with the same secret has learnt.
    pub fn learn_from(&mut self, now: Time, other: &mut Self) {
        if let (Some(own), Some(other)) = (&mut self.sizes, &mut other.sizes) {
            own.learn_from(other, seconds(now));
        }
    }

    /// Returns whether the configuration switches nothing on, so that the host need not tell the
    /// filter of any stream.
    pub fn is_passive(&self) -> bool {
        let idle = self.groups.is_empty() && self.response_header.is_none();
        idle && self.uplink.is_none() && !self.host_paces
    }

    /// Returns the reader that prepares requests for [`Filter::request`].
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Returns whether any decision depends on the client's address.
    pub fn wants_client(&self) -> bool {
        self.reader.wants_client()
    }

    /// Returns whether a stream's request is held, for a pool or for a probe.
    pub fn is_held(&self, id: StreamId) -> bool {
        let phase = self.streams.get(&id).map(|own| own.phase);
        matches!(phase, Some(Phase::Probing | Phase::Waiting))
    }

    /// Notes that a stream is over, whether complete or cut short; or that the host has answered
    /// its held request by itself, which then goes to no pool any more.
    pub fn done(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        // Before others are placed: a ticket that is void is not given back again.
        if let Some((group, ticket)) = stream.group.zip(stream.ticket) {
            self.groups[group].cancel(now, ticket);
            self.settle(now, group, host);
        }
        for told in self.probing.abandon(now, id, host) {
            self.place(now, told, true, host);
        }
        if let Some(uplink) = &mut self.uplink {
            uplink.close(now, id, host);
        }
        self.gauge_held(host);
    }

    /// Takes the answer to the request of a [`Host::ask`]; none if it did not come in time.
    pub fn probed(
        &mut self,
        now: Time,
        token: u32,
        answer: Option<(u16, &dyn Fields)>,
        host: &mut dyn Host,
    ) {
        let Some(told) = self.probing.end(now, token, answer, host) else {
            return;
        };
        if let (Some(sizes), Some(bytes), Some((_, fields))) = (&mut self.sizes, told.bytes, answer)
        {
            sizes.learn(&told.asked, fields, bytes, seconds(now), host);
        }
        for id in told.waiting {
            if let (Some(stream), Some(bytes)) = (self.streams.get_mut(&id), told.bytes) {
                (stream.size, stream.source) = (written_down(bytes), Source::HeadProbe);
                host.count(Counter::Size(stream.source), 1);
            }
            self.place(now, id, true, host);
        }
    }

    /// Decides about the streams that are due. The host calls it when [`Filter::next_wakeup`] says
    /// so; an earlier call does no harm.
    pub fn tick(&mut self, now: Time, host: &mut dyn Host) {
        while let Some(id) = self.probing.expired(now) {
            self.place(now, id, true, host);
        }
        for group in 0..self.groups.len() {
            self.groups[group].expire(now);
            self.settle(now, group, host);
        }
        if let Some(uplink) = &mut self.uplink {
            uplink.pump(now, host);
        }
        self.gauge_held(host);
    }

    /// Returns the time of the next [`Filter::tick`]; none while nothing waits.
    pub fn next_wakeup(&self) -> Option<Time> {
        let groups = self.groups.iter().filter_map(Group::next_wakeup);
        let uplink = self.uplink.as_ref().and_then(Uplink::next_wakeup);
        groups.chain(self.probing.next_wakeup()).chain(uplink).min()
    }

    fn gauge_held(&mut self, host: &mut dyn Host) {
        let held = self.uplink.as_ref().map_or(0, Uplink::held) as u64;
        if held != self.held {
            self.held = held;
            host.gauge(Gauge::HeldResponses, held);
        }
    }
}

/// Returns a time of the host's clock in seconds since its epoch.
fn seconds(now: Time) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
