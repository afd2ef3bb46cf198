//! The health of a cluster's endpoints: what the station is told of it, and what it tells.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use sprat_scheduler::Time;
use sprat_scheduler::dispatch::EndpointSpec;
use sprat_scheduler::health::{Cause, Change, Ejection, Health, Outcome};
use sprat_scheduler::srq;
use sprat_scheduler::station::Station;
use tokio::time::Instant;

use super::check::Failure;
use super::members::Member;
use super::station::{Decisions, SharedStation};

impl Drop for SharedStation {
    fn drop(&mut self) {
        // The task that tends it sees that there is nothing left to do.
        self.changed.notify_one();
    }
}

/// A cluster's endpoints, breakers and retries at a moment.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The endpoints that are present, in the order of the configuration.
    pub endpoints: Vec<(Arc<Member>, EndpointCondition)>,
    /// Whether so few endpoints are well that all are used.
    pub panics: bool,
    /// The number of ejections by cause, at [`Ejection::index`].
    pub ejections: [u64; Ejection::ALL.len()],
    /// The number of ejections that the bound on them has prevented.
    pub ejections_prevented: u64,
    /// The number of requests in service and waiting.
    pub active: usize,
    /// The number of requests that wait.
    pub waiting: usize,
    /// The number of requests that are being repeated.
    pub repeated: usize,
    /// Whether one more request may be repeated.
    pub may_repeat: bool,
    /// The number of repetitions in the cluster so far that the budget did not allow.
    pub repeats_denied: u64,
    /// SRQ's queues; `None` under another order.
    pub queues: Option<PlaceQueues>,
}

/// The state of SRQ's queues before a cluster's endpoints.
#[derive(Clone, Debug)]
pub struct PlaceQueues {
    /// Whether the queues order.
    pub is_on: bool,
    /// The quanta of all queues but the last.
    pub quanta: Vec<Duration>,
    /// The counts of what happened in the cluster so far. The members are the station's own.
    pub stats: srq::Stats,
}

impl PlaceQueues {
    /// Returns the state of a station's queues, with what the cluster has counted.
    fn of(own: &srq::Queues, is_on: bool, counted: &srq::Stats) -> Self {
        let mut stats = *counted;
        stats.members = own.stats().members;
        let quanta = own.quanta().iter().copied();
        Self {
            is_on,
            quanta: quanta.map(Duration::from_nanos).collect(),
            stats,
        }
    }
}

/// An endpoint's state at a moment.
#[derive(Clone, Copy, Debug)]
pub struct EndpointCondition {
    /// The time for which the endpoint is still ejected.
    pub ejected_for: Option<Duration>,
    /// Whether the endpoint passes its checks; `None` before the first.
    pub passes_checks: Option<bool>,
    /// Whether the endpoint gets requests.
    pub is_used: bool,
    /// Whether the operator has the endpoint drain: it gets requests of strict sessions alone.
    pub drains: bool,
    /// The endpoint's share of the requests, relative to the others.
    pub weight: u32,
    /// The share that the configuration gives it.
    pub configured_weight: u32,
}

impl SharedStation {
    /// Takes over what another station knows of endpoints that both have: weights that were given
    /// them, drains and health. Endpoints that are new start slowly. The station has served nothing
    /// yet, and was told nothing; a station that goes on takes nothing over from itself.
    pub fn take_over(&self, before: &Self) {
        if std::ptr::eq(self, before) {
            return;
        }
        let weights = before.lock().weights.clone();
        let mut own = self.lock();
        own.weights = weights;
        self.renew(own);
        let now = Time::ZERO + self.epoch.elapsed();
        let mut own = self.lock();
        let own = &mut *own;
        let mut locked = before.lock();
        let before = &mut *locked;
        before.account.succeed(&before.station, &before.health);
        let panicked = before.station.panics();
        let mut slots = vec![None; own.members.by_slot.len()];
        for (slot, member) in own.members.present() {
            let mut known = before.members.present();
            let same = known.find(|(_, known)| known.label == member.label);
            slots[slot] = same.map(|(slot, _)| slot);
        }
        own.health.take_over(&before.health, &slots);
        own.account.skip(&own.health);
        own.station.inherit_queues(&before.station);
        for &slot in &own.members.present {
            match slots[slot] {
                Some(known) if before.station.is_draining(known) => {
                    own.station.set_draining(now, slot, true);
                }
                Some(_) => {}
                None => own.station.start_slowly(now, slot),
            }
        }
        drop(locked);
        while let Some(Change { endpoint, out }) = own.health.poll() {
            own.station.set_out(now, endpoint, out);
        }
        tell_panic(&self.name, panicked, own.station.panics());
    }

    /// Begins or ends the drain of the endpoint with this label; returns false if there is none.
    /// An endpoint that drains gets no requests but those of strict sessions. The drain lasts as
    /// long as the endpoint is there, over reloads and changes of the others.
    pub fn set_draining(&self, endpoint: &str, drains: bool) -> bool {
        let found = self.judge_by(None, |decisions, now| {
            let mut present = decisions.members.present();
            let (slot, _) = present.find(|(_, member)| member.label == endpoint)?;
            let station = &mut decisions.station;
            let is_new = station.is_draining(slot) != drains;
            if is_new {
                station.set_draining(now, slot, drains);
            }
            Some(is_new)
        });
        let cluster = &self.name;
        match (found, drains) {
            (Some(true), true) => tracing::info!(%cluster, %endpoint, "an endpoint drains"),
            (Some(true), false) => {
                tracing::info!(%cluster, %endpoint, "an endpoint drains no more");
            }
            _ => {}
        }
        found.is_some()
    }

    /// Returns whether this station has a use for the outcomes of requests.
    pub(super) fn observes(&self) -> bool {
        self.observes
    }

    /// Notes the outcome of a request at an endpoint.
    pub(super) fn observe(&self, endpoint: usize, outcome: Outcome) {
        let random = fastrand::u64(..);
        self.judge(|health, now| health.observe(now, endpoint, outcome, random));
    }

    /// Notes the outcome of a check of the endpoint in a slot. If another endpoint has the slot
    /// by now, the outcome says nothing of it, and is dropped.
    pub(super) fn checked(&self, slot: usize, member: &Arc<Member>, outcome: Result<(), Failure>) {
        let (passed, failure) = (outcome.is_ok(), outcome.err());
        self.judge_by(failure, |decisions, _| {
            let mut present = decisions.members.present();
            if present.any(|(own, there)| own == slot && Arc::ptr_eq(there, member)) {
                decisions.health.checked(slot, passed);
            }
        });
    }

    /// Does what is due for the endpoints' health; returns the time at which something is due
    /// next.
    pub(super) fn tend(&self) -> Option<Instant> {
        let random = fastrand::u64(..);
        let next = self.judge(|health, now| {
            health.expire(now, random);
            health.next_wakeup()
        });
        next.map(|at| self.epoch + at.since(Time::ZERO))
    }

    /// Applies `judge` to the endpoints' health, and carries out what follows from it.
    fn judge<T>(&self, judge: impl FnOnce(&mut Health, Time) -> T) -> T {
        self.judge_by(None, |decisions, now| judge(&mut decisions.health, now))
    }

    /// Applies `judge` to the decisions, and carries out what follows from it. `failure` is that
    /// of a check, if one has led here.
    fn judge_by<T>(
        &self,
        failure: Option<Failure>,
        judge: impl FnOnce(&mut Decisions, Time) -> T,
    ) -> T {
        let now = Time::ZERO + self.epoch.elapsed();
        let mut decisions = self.lock();
        let panicked = decisions.station.panics();
        let judged = judge(&mut decisions, now);
        let mut changes = Vec::new();
        while let Some(change) = decisions.health.poll() {
            decisions.station.set_out(now, change.endpoint, change.out);
            let label = decisions.members.by_slot[change.endpoint].label.clone();
            changes.push((label, decisions.health.cause(change.endpoint)));
        }
        let panics = decisions.station.panics();
        let wakers = decisions.settle();
        drop(decisions);
        wakers.into_iter().for_each(Waker::wake);
        if !changes.is_empty() {
            self.changed.notify_one();
            self.absence.end();
        }
        for (endpoint, cause) in changes {
            tell(&self.name, &endpoint, cause, failure, now);
        }
        tell_panic(&self.name, panicked, panics);
        judged
    }

    /// Returns the state of the endpoints, breakers and retries at this moment.
    pub fn condition(&self) -> Condition {
        // While no request waits, no timer has SRQ demote those in service.
        self.decide(Station::expire);
        let mut decisions = self.lock();
        let decisions = &mut *decisions;
        let (station, health) = (&decisions.station, &decisions.health);
        let incidents = decisions.account.incidents(station, health);
        let now = Time::ZERO + self.epoch.elapsed();
        let endpoint = |((slot, member), spec): ((usize, &Arc<Member>), &EndpointSpec)| {
            let known = health.endpoint(slot);
            let condition = EndpointCondition {
                ejected_for: known.ejected_until.map(|until| until.since(now)),
                passes_checks: known.passes_checks,
                is_used: station.is_usable(slot),
                drains: station.is_draining(slot),
                weight: spec.weight,
                configured_weight: (decisions.weights.configured(&member.label))
                    .unwrap_or(spec.weight),
            };
            (Arc::clone(member), condition)
        };
        Condition {
            endpoints: {
                let present = decisions.members.present().zip(&decisions.specs);
                present.map(endpoint).collect()
            },
            panics: station.panics(),
            ejections: incidents.ejections,
            ejections_prevented: incidents.ejections_prevented,
            active: station.active(),
            waiting: station.waiting(),
            repeated: station.repeated(),
            may_repeat: station.may_repeat(),
            repeats_denied: incidents.repeats_denied,
            queues: {
                let told = station.queues();
                told.map(|(own, is_on)| PlaceQueues::of(own, is_on, &incidents.queues))
            },
        }
    }
}

/// Logs that an endpoint is out of use since `now`, and why, or that it is in use again.
fn tell(cluster: &str, endpoint: &str, cause: Option<Cause>, failure: Option<Failure>, now: Time) {
    let out = "an endpoint is out of use";
    match cause {
        None => tracing::info!(%cluster, %endpoint, "an endpoint is in use again"),
        Some(Cause::Ejected(offence, until)) => {
            let (cause, in_a_row) = (offence.cause.name(), offence.in_a_row);
            let ejected_for = until.since(now);
            tracing::warn!(%cluster, %endpoint, cause, in_a_row, ?ejected_for, "{out}");
        }
        Some(Cause::Unhealthy) => {
            let failure = failure.map(tracing::field::display);
            tracing::warn!(%cluster, %endpoint, cause = "health_check", failure, "{out}");
        }
    }
}

/// Logs that a panic has begun or is over, if it has.
pub(super) fn tell_panic(cluster: &str, before: bool, now: bool) {
    match (before, now) {
        (false, true) => tracing::warn!(
            %cluster,
            "a panic: so few endpoints are well that all are used"
        ),
        (true, false) => tracing::info!(
            %cluster,
            "no panic any more: only endpoints that are well are used"
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use sprat_config::resolved::Config;

    use super::*;
    use crate::SharedCluster;
    use crate::dns::Names;
    use crate::station::Placed;
    use sprat_net::error::Reason;
    use sprat_scheduler::Size;
    use sprat_scheduler::station::{Arrival, Ticket};
    use tokio::time::advance;

    /// Makes the station of a cluster of one endpoint that is checked.
    fn station(endpoint: &str) -> Arc<SharedStation> {
        cluster(endpoint, 1, None).station
    }

    /// Makes a cluster of one endpoint that is checked; with another `max_requests` it has another
    /// station.
    fn cluster(endpoint: &str, max_requests: u32, before: Option<&SharedCluster>) -> SharedCluster {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
             clusters:\n  farm:\n    endpoints: ['{endpoint}']\n    \
             max_requests: {max_requests}\n    \
            health_checks: {{tcp_health_check: {{}}}}\n"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
        let config: Config = loaded.unwrap().config;
        SharedCluster::after(&config.clusters[0], &config, &Names::default(), before).unwrap()
    }

    #[test]
    fn what_changes_until_a_station_takes_over_goes_on() {
        let endpoint = "127.0.0.1:1";
        let before = cluster(endpoint, 1, None);
        let next = cluster(endpoint, 2, Some(&before));
        assert!(!Arc::ptr_eq(&before.station, &next.station));
        // As while the rest of a reload is prepared.
        let member = Arc::clone(&before.station.members().by_slot[0]);
        let refused = Err(Reason::ConnectionRefused.into());
        before.station.checked(0, &member, refused);
        assert!(before.station.set_draining(endpoint, true));
        assert!(before.station.set_weight(endpoint, 7));
        next.station.take_over(&before.station);
        let own = next.station.condition().endpoints[0].1;
        assert_eq!(own.passes_checks, Some(false));
        assert_eq!((own.drains, own.weight), (true, 7));
    }

    #[test]
    fn a_check_says_nothing_of_who_has_the_slot_since() {
        let station = station("127.0.0.1:1");
        let asked = Arc::clone(&station.members().by_slot[0]);
        // As the thread that resolves names would, while the answer is waited for.
        let other = Arc::clone(&self::station("127.0.0.1:2").members().by_slot[0]);
        station.lock().members.by_slot[0] = Arc::clone(&other);
        let known = || station.condition().endpoints[0].1.passes_checks;
        station.checked(0, &asked, Err(Reason::ConnectionRefused.into()));
        assert_eq!(known(), None);
        station.checked(0, &other, Err(Reason::ConnectionRefused.into()));
        assert_eq!(known(), Some(false));
    }

    /// Makes a cluster of one endpoint with so many places under SRQ.
    fn with_queues(max_requests: u32, before: Option<&SharedCluster>) -> SharedCluster {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
             clusters: {{farm: {{endpoints: ['127.0.0.1:1'], max_requests: {max_requests}, \
             wait_queue: {{order: srq}}}}}}\n"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
        let config: Config = loaded.unwrap().config;
        SharedCluster::after(&config.clusters[0], &config, &Names::default(), before).unwrap()
    }

    /// Begins to serve a request.
    fn begin(station: &Arc<SharedStation>) -> Ticket {
        let arrival = Arrival {
            class: 0,
            size: Size::Unknown,
            hash: 0,
            random: 0,
            channel_backlog: Duration::ZERO,
            channel_ahead: Duration::ZERO,
        };
        match station.arrive(&arrival, None) {
            Ok(Placed::Now(ticket, _)) => ticket,
            _ => panic!("there is a place"),
        }
    }

    /// Serves a request whole.
    fn serve(station: &Arc<SharedStation>) {
        let ticket = begin(station);
        station.finish(Instant::now(), ticket, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_told_in_its_queue_though_no_other_comes() {
        let station = with_queues(1, None).station;
        begin(&station);
        let told = || {
            let stats = station.condition().queues.unwrap().stats;
            (stats.members[..2].to_vec(), stats.moved[0])
        };
        assert_eq!(told(), (vec![1, 0], 0));
        advance(Duration::from_millis(50)).await;
        assert_eq!(told(), (vec![0, 1], 1));
    }

    #[test]
    fn what_the_queues_have_counted_goes_on_at_another_station() {
        let before = with_queues(1, None);
        serve(&before.station);
        let next = with_queues(2, Some(&before));
        assert!(!Arc::ptr_eq(&before.station, &next.station));
        next.station.take_over(&before.station);
        serve(&next.station);
        let queues = next.station.condition().queues.unwrap();
        assert!(queues.is_on);
        assert_eq!(queues.quanta, [50, 500].map(Duration::from_millis));
        assert_eq!((queues.stats.done[0], queues.stats.members[0]), (2, 0));
        assert!(station("127.0.0.1:1").condition().queues.is_none());
    }
}
