//! The way of a request to its pool, or to a refusal.

use sprat_scheduler::station::{Arrival, ChannelBacklog, Refusal};
use sprat_scheduler::{Size, Time};

use super::{Filter, Step, seconds};
use crate::answer::Answer;
use crate::groups::{Group, Placed};
use crate::host::{Host, StreamId};
use crate::metrics::{Counter, Gauge};
use crate::reader::{Read, RequestHead};
use crate::source::Source;
use crate::stream::{Method, Phase, Stream};

impl Filter {
    /// Decides about a request whose head has come.
    pub fn request_head(
        &mut self,
        now: Time,
        id: StreamId,
        head: &RequestHead<'_>,
        host: &mut dyn Host,
    ) -> Step {
        let read = self.reader.read(head);
        self.request(now, id, read, host)
    }

    /// Decides about a request whose head has come and was read by [`Filter::reader`].
    pub fn request(&mut self, now: Time, id: StreamId, read: Read, host: &mut dyn Host) -> Step {
        host.count(Counter::Requests(read.class), 1);
        for &number in &read.forged {
            // First of all: whatever happens, no route follows the client.
            host.remove_request_field(id, &self.reader.groups[number].header);
        }
        let (size, source) = self.look_up(now, &read, host);
        let stream = Stream {
            class: read.class,
            later: read.later,
            asked: read.asked,
            size,
            source,
            method: read.method,
            group: read.group,
            hash: read.hash,
            random: read.random,
            ticket: None,
            phase: Phase::Passed,
            arrived: now,
            started: now,
            form: read.form,
            received: 0,
            lesson: None,
        };
        let probes = size == Size::Unknown || source == Source::Estimator;
        let asked = stream
            .asked
            .filter(|_| probes && stream.method == Method::Get);
        self.streams.insert(id, stream);
        let Some(group) = read.group else {
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

    /// Returns the size of the response as far as it is known, and the source of it.
    fn look_up(&mut self, now: Time, read: &Read, host: &mut dyn Host) -> (Size, Source) {
        let (Some(sizes), Some(asked)) = (&mut self.sizes, &read.asked) else {
            return (Size::Unknown, Source::Unknown);
        };
        if read.method == Method::Head {
            return (Size::Exact(0), Source::Learnt);
        }
        let of_group = read.group.is_some_and(|g| self.groups[g].wants_size);
        if !of_group && !self.wants_sizes {
            return (Size::Unknown, Source::Unknown);
        }
        let found = sizes.look_up(asked, read.listed, seconds(now), host);
        host.count(Counter::Size(found.1), 1);
        found
    }

    fn phase(&mut self, id: StreamId, phase: Phase) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.phase = phase;
        }
    }

    /// Asks the station for a decision about a request; `held` says whether the host holds it
    /// already.
    pub(super) fn place(
        &mut self,
        now: Time,
        id: StreamId,
        held: bool,
        host: &mut dyn Host,
    ) -> Step {
        let Some(stream) = self.streams.get(&id) else {
            return Step::Continue;
        };
        let Some(group) = stream.group else {
            return Step::Continue;
        };
        let backlog = match &self.uplink {
            _ if !self.wants_backlog => ChannelBacklog::default(),
            Some(own) => {
                let whole = own.backlog(now);
                ChannelBacklog {
                    whole,
                    ahead: whole,
                }
            }
            None => host.backlog(now, stream.class),
        };
        let arrival = Arrival {
            class: stream.class,
            size: stream.size,
            hash: stream.hash,
            random: stream.random,
            channel_backlog: backlog.whole,
            channel_ahead: backlog.ahead,
        };
        let placed = self.groups[group].arrive(now, id, &arrival);
        let step = self.decided(now, id, group, placed, held, host);
        self.settle(now, group, host);
        step
    }

    /// Carries out a station's decision about one request.
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
            // It is over already: what it was given is another's.
            if let Placed::Pool(ticket, _) | Placed::Waits(ticket) = placed {
                self.groups[group].cancel(now, ticket);
            }
            return Step::Continue;
        };
        match placed {
            Placed::Pool(ticket, pool) => {
                stream.ticket = Some(ticket);
                stream.phase = Phase::Passed;
                stream.started = now;
                let config = &self.reader.groups[group];
                let pool = &config.pools[pool].name;
                host.set_request_field(id, &config.header, pool);
                if let Some(key) = &config.metadata_key {
                    host.set_pool_metadata(id, key, pool);
                }
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

    /// Carries out the station's decisions about requests that waited.
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
