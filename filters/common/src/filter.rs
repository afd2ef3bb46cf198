//! The filter of one worker: what happens to its streams, and what it does
//! about it.

mod requests;
mod responses;

use std::collections::BTreeMap;
use std::net::IpAddr;

use sprat_config::classify::Classifier;
use sprat_config::fields::Fields;
use sprat_config::resolved;
use sprat_scheduler::Time;

use crate::answer::Answer;
use crate::groups::Group;
use crate::host::{Host, StreamId};
use crate::metrics::{Counter, Gauge};
use crate::probing::Probing;
use crate::release::Release;
use crate::sizes::{Sizes, Source, written_down};
use crate::stream::Stream;

/// The head of a request.
pub struct RequestHead<'a> {
    /// The client's address, if it has one and [`Filter::wants_client`].
    pub client: Option<IpAddr>,
    /// Its method.
    pub method: &'a str,
    /// Host, and port if there is one.
    pub authority: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Its fields.
    pub fields: &'a dyn Fields,
    /// A number drawn for it.
    pub random: u64,
}

/// The head of a response.
pub struct ResponseHead<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a dyn Fields,
    /// No body follows.
    pub end: bool,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It goes on.
    Continue,
    /// It is held until the host is told to let it go on, or to answer it.
    Hold,
    /// It is answered here.
    Answer(Answer),
}

/// See the module.
#[derive(Debug)]
pub struct Filter {
    classifier: Classifier,
    wants_client: bool,
    groups: Vec<Group>,
    sizes: Option<Sizes>,
    wants_sizes: bool,
    probing: Probing,
    release: Option<Release>,
    response_header: Option<String>,
    streams: BTreeMap<StreamId, Stream>,
    waiting: u64,
    held: u64,
}

impl Filter {
    /// The filter of a worker. `seed` is drawn once for it; `worker` tells it
    /// from others, and is not zero.
    pub fn new(
        config: &resolved::Filter,
        seed: (u64, u64),
        worker: u64,
        host: &mut dyn Host,
    ) -> Self {
        let classes = &config.classes.list;
        let group = |own| Group::new(own, classes, &config.admission);
        let groups: Vec<Group> = config.clusters.iter().map(group).collect();
        let by_client = |group: &Group| {
            let by_client = group.config.hash_key == resolved::HashKey::Client;
            by_client && group.config.dispatch.has_affinity()
        };
        let mut rules = config.classes.rules.iter();
        let release = Release::new(&config.uplink, classes, worker);
        let wanted = groups.iter().any(|group| group.wants_size)
            || release.is_some()
            || config.response_header.is_some();
        let catalogue = config.catalogue.as_ref().filter(|_| wanted);
        let probes = config.clusters.iter().map(|own| own.head_probe.as_ref());
        Self {
            classifier: Classifier::new(&config.classes),
            wants_client: rules.any(|rule| !rule.matches.clients.is_empty())
                || groups.iter().any(by_client),
            wants_sizes: config.response_header.is_some(),
            sizes: catalogue.map(|own| Sizes::new(own, seed, host)),
            probing: Probing::new(probes),
            release,
            response_header: config.response_header.clone(),
            groups,
            streams: BTreeMap::new(),
            waiting: 0,
            held: 0,
        }
    }

    /// Whether nothing is switched on: no stream need be told of.
    pub fn is_passive(&self) -> bool {
        self.groups.is_empty() && self.release.is_none() && self.response_header.is_none()
    }

    /// Whether anything goes by the client's address.
    pub fn wants_client(&self) -> bool {
        self.wants_client
    }

    /// A stream is over, whether complete or cut short.
    pub fn done(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        for told in self.probing.abandon(now, id, host) {
            self.place(now, told, true, host);
        }
        if let Some((group, ticket)) = stream.group.zip(stream.ticket) {
            self.groups[group].cancel(now, ticket);
            self.settle(now, group, host);
        }
        if let Some(release) = &mut self.release {
            release.close(now, id, host);
        }
        self.gauge_held(host);
    }

    /// What [`Host::ask`] asked has been answered, or not in time.
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

    /// To be called when [`Filter::next_wakeup`] says so; earlier does no harm.
    pub fn tick(&mut self, now: Time, host: &mut dyn Host) {
        while let Some(id) = self.probing.expired(now) {
            self.place(now, id, true, host);
        }
        for group in 0..self.groups.len() {
            self.groups[group].expire(now);
            self.settle(now, group, host);
        }
        if let Some(release) = &mut self.release {
            release.pump(now, None, host);
        }
        self.gauge_held(host);
    }

    /// When to call [`Filter::tick`]; never, while nothing waits.
    pub fn next_wakeup(&self) -> Option<Time> {
        let groups = self.groups.iter().filter_map(Group::next_wakeup);
        let release = self.release.as_ref().and_then(Release::next_wakeup);
        groups
            .chain(self.probing.next_wakeup())
            .chain(release)
            .min()
    }

    fn gauge_held(&mut self, host: &mut dyn Host) {
        let held = self.release.as_ref().map_or(0, Release::held) as u64;
        if held != self.held {
            self.held = held;
            host.gauge(Gauge::HeldResponses, held);
        }
    }
}

/// Seconds since the epoch of the host's clock.
fn seconds(now: Time) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
