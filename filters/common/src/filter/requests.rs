//! A request's way to its pool, or to a refusal.

use sprat_config::classify;
use sprat_config::fields::{Fields, host_without_port};
use sprat_scheduler::station::{Arrival, Refusal};
use sprat_scheduler::{Size, Time};

use super::{Filter, RequestHead, Step, seconds};
use crate::answer::{Answer, Form};
use crate::groups::{Group, Placed};
use crate::host::{Host, StreamId};
use crate::metrics::{Counter, Gauge};
use crate::sizes::Source;
use crate::stream::{Method, Phase, Stream};

impl Filter {
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
            certificate: None,
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
    pub(super) fn place(
        &mut self,
        now: Time,
        id: StreamId,
        held: bool,
        host: &mut dyn Host,
    ) -> Step {
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
    pub(super) fn settle(&mut self, now: Time, group: usize, host: &mut dyn Host) {
        while let Some((id, placed)) = self.groups[group].poll() {
            self.decided(now, id, group, placed, true, host);
        }
        let waiting = self.groups.iter().map(Group::waiting).sum::<usize>() as u64;
        if waiting != self.waiting {
            self.waiting = waiting;
            host.gauge(Gauge::Waiting, waiting);
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
