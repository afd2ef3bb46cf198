//! HEAD probes: requests that ask a pool for the size of a response.
//!
//! [`Probes`] decides which probes are sent. Requests of one worker for one resource share a probe.
//! Each waits no longer than the budget, and the probe goes on without them.

use std::collections::{BTreeMap, BTreeSet};

use sprat_config::fields::{Fields, NOT_PROBED, probed_size};
use sprat_config::resolved::FilterProbe;
use sprat_scheduler::Time;
use sprat_scheduler::catalogue::{
    Key, MAX_VARY, ProbeDecision, ProbeOutcome, Probes, ProbesConfig,
};

use crate::host::{Host, StreamId};
use crate::keys::Asked;
use crate::metrics::{Counter, Probe};

/// The fields that Envoy sets by itself on a filter's requests, or that belong to the client's
/// connection.
const NOT_OURS: [&str; 4] = [":method", ":scheme", "x-request-id", "x-envoy-internal"];

/// The probes of one worker.
#[derive(Debug, Default)]
pub(crate) struct Probing {
    /// The configuration and the core's decisions for each group; none if it has no probes.
    groups: Vec<Option<(FilterProbe, Probes)>>,
    under_way: BTreeMap<u32, UnderWay>,
    /// The streams that wait for an answer, by the end of each stream's budget.
    deadlines: BTreeSet<(Time, StreamId)>,
}

#[derive(Debug)]
struct UnderWay {
    /// The stream that the probe was sent from; the host ends the probe with that stream.
    sender: StreamId,
    group: usize,
    key: Key,
    asked: Asked,
    waiting: Vec<StreamId>,
}

/// The result of a probe that ended.
pub(crate) struct Told {
    /// The keys of the resource that the probe asked about.
    pub(crate) asked: Asked,
    /// The size, if the probe told one.
    pub(crate) bytes: Option<u64>,
    /// The streams that wait for the answer.
    pub(crate) waiting: Vec<StreamId>,
}

impl Probing {
    pub(crate) fn new<'a>(groups: impl Iterator<Item = Option<&'a FilterProbe>>) -> Self {
        let probes = |own: &FilterProbe| {
            let probes = Probes::new(&ProbesConfig {
                max_concurrent: own.bounds.max_concurrent,
                negative_ttl: own.bounds.negative_ttl,
                max_bytes: own.bounds.max_bytes,
            });
            (own.clone(), probes)
        };
        Self {
            groups: groups.map(|own| own.map(probes)).collect(),
            ..Self::default()
        }
    }

    /// Returns whether a group has probes.
    pub(crate) fn asks(&self, group: usize) -> bool {
        matches!(self.groups.get(group), Some(Some(_)))
    }

    /// Asks for a size on behalf of a stream. Returns the time until which the stream waits for the
    /// answer; none if no answer is expected.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        id: StreamId,
        group: usize,
        asked: &Asked,
        host: &mut dyn Host,
    ) -> Option<Time> {
        let (config, probes) = self.groups.get_mut(group)?.as_mut()?;
        // Variants may differ in size: each has a probe.
        let key = asked.resource.variant((1 << MAX_VARY) - 1);
        let until = now + config.bounds.budget;
        match probes.begin(now, key) {
            ProbeDecision::Ask => {
                let Some(token) = send(config, id, host) else {
                    probes.end(now, key, ProbeOutcome::Failed);
                    host.count(Counter::Probe(Probe::Failed), 1);
                    return None;
                };
                let asked = *asked;
                let waiting = vec![id];
                let under_way = UnderWay {
                    sender: id,
                    group,
                    key,
                    asked,
                    waiting,
                };
                self.under_way.insert(token, under_way);
            }
            ProbeDecision::Join => {
                host.count(Counter::Probe(Probe::Joined), 1);
                let mut all = self.under_way.values_mut();
                let own = all.find(|own| own.group == group && own.key == key)?;
                own.waiting.push(id);
            }
            ProbeDecision::Useless | ProbeDecision::Paused | ProbeDecision::Busy => {
                host.count(Counter::Probe(Probe::Withheld), 1);
                return None;
            }
        }
        self.deadlines.insert((until, id));
        Some(until)
    }

    /// Ends a probe with its answer, or without one.
    pub(crate) fn end(
        &mut self,
        now: Time,
        token: u32,
        answer: Option<(u16, &dyn Fields)>,
        host: &mut dyn Host,
    ) -> Option<Told> {
        let bytes = answer.and_then(|(status, fields)| probed_size(status, fields));
        let outcome = match (&answer, bytes) {
            (Some(_), Some(_)) => ProbeOutcome::Told,
            (Some(_), None) => ProbeOutcome::Useless,
            (None, _) => ProbeOutcome::Failed,
        };
        self.conclude(now, token, outcome, bytes, host)
    }

    /// Ends a probe with an outcome, and with the size if it told one.
    fn conclude(
        &mut self,
        now: Time,
        token: u32,
        outcome: ProbeOutcome,
        bytes: Option<u64>,
        host: &mut dyn Host,
    ) -> Option<Told> {
        let own = self.under_way.remove(&token)?;
        let counted = match outcome {
            ProbeOutcome::Told => Probe::Told,
            ProbeOutcome::Useless => Probe::Useless,
            ProbeOutcome::Failed | ProbeOutcome::Abandoned => Probe::Failed,
        };
        host.count(Counter::Probe(counted), 1);
        if let Some(Some((_, probes))) = self.groups.get_mut(own.group) {
            probes.end(now, own.key, outcome);
        }
        let still = own.waiting.into_iter();
        let waiting: Vec<_> = still.filter(|&id| self.forget(id)).collect();
        Some(Told {
            asked: own.asked,
            bytes,
            waiting,
        })
    }

    /// Removes a stream that is over, and ends the probe that was sent from it. Returns the streams
    /// that waited for that probe.
    pub(crate) fn abandon(
        &mut self,
        now: Time,
        id: StreamId,
        host: &mut dyn Host,
    ) -> Vec<StreamId> {
        self.forget(id);
        let mut all = self.under_way.iter();
        let own = all.find(|(_, own)| own.sender == id);
        let told = own.map(|(token, _)| *token);
        let told =
            told.and_then(|token| self.conclude(now, token, ProbeOutcome::Abandoned, None, host));
        told.map_or_else(Vec::new, |told| told.waiting)
    }

    /// Ends the waiting of a stream, and returns whether it waited.
    pub(crate) fn forget(&mut self, id: StreamId) -> bool {
        let found = self.deadlines.iter().find(|(_, own)| *own == id).copied();
        found.is_some_and(|entry| self.deadlines.remove(&entry))
    }

    /// Removes and returns a stream whose budget is spent.
    pub(crate) fn expired(&mut self, now: Time) -> Option<StreamId> {
        let (until, id) = self.deadlines.first().copied()?;
        (until <= now).then(|| {
            self.deadlines.pop_first();
            id
        })
    }

    /// Returns the time at which the next budget is spent.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        self.deadlines.first().map(|(until, _)| *until)
    }
}

/// Sends a HEAD request for the same resource as a whole. Returns the token of its answer.
fn send(config: &FilterProbe, id: StreamId, host: &mut dyn Host) -> Option<u32> {
    let fields = host.request_fields(id);
    let kept = fields.iter().filter(|(name, _)| {
        let name = name.as_str();
        !NOT_PROBED.contains(&name) && !NOT_OURS.contains(&name)
    });
    let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
    let head: Vec<(&str, &str)> = std::iter::once((":method", "HEAD")).chain(kept).collect();
    host.ask(&config.cluster, &head, config.bounds.timeout)
}
