//! The filter of one worker: what happens to its streams, and what it does
//! about it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sprat_config::classify::{self, Classifier};
use sprat_config::fields::{Fields, announced_length, host_without_port};
use sprat_config::resolved;
use sprat_scheduler::station::{Arrival, Refusal};
use sprat_scheduler::{Size, Time};

use crate::answer::{Answer, Form};
use crate::groups::{Group, Placed};
use crate::host::{Host, StreamId};
use crate::metrics::{Counter, Gauge};
use crate::probing::Probing;
use crate::release::Release;
use crate::sizes::{Sizes, Source, written_down};
use crate::stream::{Method, Phase, Stream};

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

    /// A request's head has come.
    pub fn request_head(
        &mut self,
        now: Time,
        id: StreamId,
        head: &RequestHead<'_>,
        host: &mut dyn Host,
    ) -> Step {
        let name = host_without_port(head.authority).unwrap_or_default();
        let path = head.target.split('?').next().unwrap_or(head.target);
        let asked = classify::Asked {
            client: head.client,
            dscp: None,
            host: name,
            path,
            method: head.method,
            fields: head.fields,
        };
        let classified = self.classifier.classify(&asked);
        host.count(Counter::Requests(classified.class), 1);
        let fits = |group: &Group| group.config.matches.matches(name, path);
        let group = self.groups.iter().position(fits);
        let mut stream = Stream {
            class: classified.class,
            later: self.classifier.later(&asked, classified),
            asked: None,
            size: Size::Unknown,
            source: Source::Unknown,
            method: Method::of(head.method),
            group,
            hash: group.map_or(0, |g| self.groups[g].hash(head.client, name, head.target)),
            random: head.random,
            ticket: None,
            phase: Phase::Passed,
            arrived: now,
            started: now,
            form: Form::of(head.fields),
            received: 0,
            lesson: None,
        };
        self.look_up(now, &mut stream, (name, head.target), head.fields, host);
        let probes = stream.size == Size::Unknown || stream.source == Source::Estimator;
        let asked = stream
            .asked
            .filter(|_| probes && stream.method == Method::Get);
        self.streams.insert(id, stream);
        let Some(group) = group else {
            return Step::Continue;
        };
        if let Some(asked) = asked
            && self.groups[group].wants_size
            && self.probing.asks(group)
            && self.probing.begin(now, id, group, &asked, host).is_some()
        {
            self.phase(id, Phase::Probing);
            return Step::Hold;
        }
        self.place(now, id, false, host)
    }

    /// What is known of the response's size.
    fn look_up(
        &mut self,
        now: Time,
        stream: &mut Stream,
        (name, target): (&str, &str),
        fields: &dyn Fields,
        host: &mut dyn Host,
    ) {
        let Some(sizes) = &mut self.sizes else {
            return;
        };
        if stream.method == Method::Other {
            return;
        }
        let group = stream.group.unwrap_or(self.groups.len());
        let asked = sizes.asked(group, name, target, fields);
        stream.asked = Some(asked);
        let of_group = stream.group.is_some_and(|g| self.groups[g].wants_size);
        if stream.method == Method::Head {
            (stream.size, stream.source) = (Size::Exact(0), Source::Learnt);
        } else if of_group || self.wants_sizes {
            let found = sizes.look_up(&asked, (name, target), seconds(now), host);
            (stream.size, stream.source) = found;
            host.count(Counter::Size(stream.source), 1);
        }
    }

    fn phase(&mut self, id: StreamId, phase: Phase) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.phase = phase;
        }
    }

    /// Has the station decide about a request, which the host holds already or
    /// not.
    fn place(&mut self, now: Time, id: StreamId, held: bool, host: &mut dyn Host) -> Step {
        let backlog = self.release.as_ref().map(|own| own.backlog(now));
        let Some(stream) = self.streams.get_mut(&id) else {
            return Step::Continue;
        };
        let Some(group) = stream.group else {
            return Step::Continue;
        };
        let arrival = Arrival {
            class: stream.class,
            size: stream.size,
            hash: stream.hash,
            random: stream.random,
            channel_backlog: backlog.unwrap_or_default(),
            channel_ahead: backlog.unwrap_or_default(),
        };
        let placed = self.groups[group].arrive(now, id, &arrival);
        let step = self.decided(now, id, group, placed, held, host);
        self.settle(now, group, host);
        step
    }

    /// Does what a station has decided.
    fn decided(
        &mut self,
        now: Time,
        id: StreamId,
        group: usize,
        placed: Placed,
        held: bool,
        host: &mut dyn Host,
    ) -> Step {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Step::Continue;
        };
        match placed {
            Placed::Pool(ticket, pool) => {
                stream.ticket = Some(ticket);
                stream.phase = Phase::Passed;
                stream.started = now;
                let config = &self.groups[group].config;
                host.set_request_field(id, &config.header, &config.pools[pool].name);
                if held {
                    host.resume_request(id);
                }
                Step::Continue
            }
            Placed::Waits(ticket) => {
                stream.ticket = Some(ticket);
                stream.phase = Phase::Waiting;
                host.count(Counter::Waited(stream.class), 1);
                Step::Hold
            }
            Placed::Refused(refusal) => refuse(stream, id, &refusal, held, host),
        }
    }

    /// Hands out what has become of those who waited.
    fn settle(&mut self, now: Time, group: usize, host: &mut dyn Host) {
        while let Some((id, placed)) = self.groups[group].poll() {
            self.decided(now, id, group, placed, true, host);
        }
        let waiting = self.groups.iter().map(Group::waiting).sum::<usize>() as u64;
        if waiting != self.waiting {
            self.waiting = waiting;
            host.gauge(Gauge::Waiting, waiting);
        }
    }

    /// A response's head has come. True if it is to be held.
    pub fn response_head(
        &mut self,
        now: Time,
        id: StreamId,
        head: &ResponseHead<'_>,
        host: &mut dyn Host,
    ) -> bool {
        let Some(mut stream) = self.streams.remove(&id) else {
            return false;
        };
        if stream.phase != Phase::Passed {
            // An answer of this filter's, or of one before it.
            self.streams.insert(id, stream);
            return false;
        }
        self.mark(id, &stream, host);
        let size = self.learn_head(now, &mut stream, head, host);
        if let (Some(group), Some(ticket)) = (stream.group, stream.ticket) {
            self.groups[group].resize(ticket, size);
        }
        if let Some(later) = stream.later.take() {
            let class = self
                .classifier
                .reclassify(stream.class, &later, head.fields);
            stream.class = class;
        }
        let class = stream.class;
        self.streams.insert(id, stream);
        let held = match &mut self.release {
            Some(release) => release.open(now, id, (class, size), host),
            None => false,
        };
        if head.end {
            self.ended(now, id, host);
        }
        self.gauge_held(host);
        held
    }

    /// Tells a client, if it is to be told.
    fn mark(&self, id: StreamId, stream: &Stream, host: &mut dyn Host) {
        let Some(name) = &self.response_header else {
            return;
        };
        let size = stream.size.bytes().map(|bytes| format!(", size={bytes}"));
        let value = format!(
            "class={}{}, source={}, wait_ms={}",
            self.classifier.name(stream.class),
            size.unwrap_or_default(),
            stream.source.name(),
            stream.started.since(stream.arrived).as_millis(),
        );
        host.set_response_field(id, name, &value);
    }

    /// What a response's head teaches, and what is known of its size then.
    fn learn_head(
        &mut self,
        now: Time,
        stream: &mut Stream,
        head: &ResponseHead<'_>,
        host: &mut dyn Host,
    ) -> Size {
        let bodiless = stream.method == Method::Head || matches!(head.status, 204 | 304);
        let announced = announced_length(head.fields);
        let teaches = head.status == 200;
        if let (Some(sizes), Some(asked)) = (&mut self.sizes, &stream.asked) {
            match announced.filter(|_| teaches) {
                Some(bytes) => sizes.learn(asked, head.fields, bytes, seconds(now), host),
                None => {
                    let lesson = sizes.lesson(asked, head.fields);
                    if stream.size == Size::Unknown {
                        stream.size = sizes.estimate(&lesson.0).0;
                    }
                    stream.lesson = Some(lesson).filter(|_| teaches && !bodiless);
                }
            }
        }
        match announced {
            _ if bodiless || head.end => Size::Exact(0),
            Some(bytes) => Size::Exact(bytes),
            None => stream.size,
        }
    }

    /// A part of a response's body has come; `end` if it is the last.
    pub fn response_body(
        &mut self,
        now: Time,
        id: StreamId,
        bytes: u64,
        end: bool,
        host: &mut dyn Host,
    ) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.received += bytes;
        }
        if let Some(release) = &mut self.release {
            release.passed(now, id, host);
        }
        if end {
            self.ended(now, id, host);
        } else if let Some(release) = &mut self.release {
            release.pump(now, None, host);
        }
        self.gauge_held(host);
    }

    /// A response has come to its end, with trailers or without: its pool is
    /// free for another.
    pub fn ended(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let (lesson, bytes) = (stream.lesson.take(), stream.received);
        let served = stream.group.zip(stream.ticket.take());
        if let (Some(sizes), Some(lesson)) = (&mut self.sizes, lesson) {
            sizes.learn_late(&lesson, bytes, seconds(now), host);
        }
        if let Some((group, ticket)) = served {
            self.groups[group].finish(now, ticket, bytes);
            self.settle(now, group, host);
        }
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

fn refuse(
    stream: &mut Stream,
    id: StreamId,
    refusal: &Refusal,
    held: bool,
    host: &mut dyn Host,
) -> Step {
    stream.ticket = None;
    stream.phase = Phase::Answered;
    host.count(Counter::Refused(refusal.reason), 1);
    let answer = Answer::to_refused(refusal, stream.form);
    if held {
        host.answer(id, &answer);
        return Step::Hold;
    }
    Step::Answer(answer)
}

/// Seconds since the epoch of the host's clock.
fn seconds(now: Time) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
