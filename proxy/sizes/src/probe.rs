//! HEAD probes: requests that ask a backend for the size of a response.
//!
//! [`Probes`] decides which probes are sent. Requests for one resource share a probe, whatever
//! worker they are on. Each waits no longer than the budget, and the probe goes on without them.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Method, Request, StatusCode};
use sprat_config::fields::{NOT_PROBED, probed_size};
use sprat_config::resolved::HeadProbe as Config;
use sprat_net::error::Reason;
use sprat_net::headers::Head;
use sprat_net::upload::RequestBody;
use sprat_scheduler::Time;
use sprat_scheduler::catalogue::{
    Key, MAX_VARY, ProbeDecision, ProbeOutcome, Probes, ProbesConfig,
};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use super::asked::Asked;
use super::found::Answer;
use super::memory::Memory;

/// A probe under way: resolves to the status and fields of the endpoint's answer.
pub type Probing = Pin<Box<dyn Future<Output = Result<(StatusCode, HeaderMap), Reason>>>>;

/// A cluster whose endpoints can be asked for the head of a response.
pub trait Probe {
    /// Sends a HEAD request to the endpoint that requests for this resource go to. The `resource`
    /// is a number of 48 bits. The caller bounds the time.
    ///
    /// # Errors
    ///
    /// The endpoint does not answer.
    fn head(&self, resource: u64, request: Request<RequestBody>) -> Probing;
}

/// The means to send a probe for one request.
pub struct Prober<'a> {
    /// The cluster that the request goes to, whose endpoint gets the probe.
    pub upstream: &'a dyn Probe,
    /// The request that the endpoint is to get after the probe.
    pub request: &'a Request<RequestBody>,
}

/// The probes of one route, shared by all workers.
#[derive(Debug)]
pub(super) struct RouteProbes {
    config: Config,
    epoch: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    probes: Probes,
    /// The answers of the probes under way. A probe that ends without an answer drops its sender.
    answers: HashMap<Key, watch::Receiver<Option<Answer>>>,
    counts: ProbeCounts,
}

/// The number of probes so far, by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeCounts {
    /// The probes that told a size.
    pub(super) told: u64,
    /// Probes that were answered without a size.
    pub(super) useless: u64,
    /// Probes that were not answered in time, or at all.
    pub(super) failed: u64,
    /// Probes that told another size than the response had.
    pub(super) lied: u64,
    /// Probes that were not sent, because another under way asks for the same.
    pub(super) joined: u64,
    /// Probes that were not sent, because as many as may be were under way.
    pub(super) busy: u64,
    /// Probes that were not sent, because the route pauses, or this resource is left alone.
    pub(super) paused: u64,
    /// The probes that are under way.
    pub(super) under_way: usize,
}

impl std::ops::AddAssign for ProbeCounts {
    fn add_assign(&mut self, other: Self) {
        self.told += other.told;
        self.useless += other.useless;
        self.failed += other.failed;
        self.lied += other.lied;
        self.joined += other.joined;
        self.busy += other.busy;
        self.paused += other.paused;
        self.under_way += other.under_way;
    }
}

impl RouteProbes {
    pub(super) fn new(config: &Config) -> Arc<Self> {
        let probes = Probes::new(&ProbesConfig {
            max_concurrent: config.max_concurrent,
            negative_ttl: config.negative_ttl,
            max_bytes: config.max_bytes,
        });
        Arc::new(Self {
            config: config.clone(),
            epoch: Instant::now(),
            state: Mutex::new(State {
                probes,
                answers: HashMap::new(),
                counts: ProbeCounts::default(),
            }),
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the route's probes so far, by outcome.
    pub(super) fn counts(&self) -> ProbeCounts {
        let state = self.state();
        ProbeCounts {
            under_way: state.probes.under_way(),
            ..state.counts
        }
    }

    /// Notes whether a response had the size that its probe had told.
    pub(super) fn compare(&self, asked: &Asked, was_right: bool) {
        let key = key(asked);
        let now = self.now();
        let mut state = self.state();
        if was_right {
            state.probes.was_right();
        } else {
            state.probes.lied(now, key);
            state.counts.lied += 1;
        }
    }

    /// Looks up the size by a probe: a new one, or one under way for the same resource.
    pub(super) async fn look_up(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        asked: &Asked,
        prober: &Prober<'_>,
    ) -> Answer {
        let mut answer = match self.begin(key(asked)) {
            Ok(Begun::Joined(answer)) => answer,
            Ok(Begun::Own(pending, answer)) => {
                self.send(pending, memory, asked, prober);
                answer
            }
            Err(answer) => return answer,
        };
        let told = answer.wait_for(Option::is_some);
        match timeout(self.config.budget, told).await {
            Ok(Ok(told)) => told.unwrap_or(Answer::Failed),
            Ok(Err(_)) | Err(_) => Answer::Failed,
        }
    }

    fn begin(self: &Arc<Self>, key: Key) -> Result<Begun, Answer> {
        let now = self.now();
        let mut state = self.state();
        match state.probes.begin(now, key) {
            ProbeDecision::Ask => {
                let (sender, answer) = watch::channel(None);
                state.answers.insert(key, answer.clone());
                let pending = Pending {
                    probes: Arc::clone(self),
                    key,
                    answer: sender,
                    outcome: ProbeOutcome::Failed,
                };
                Ok(Begun::Own(pending, answer))
            }
            ProbeDecision::Join => {
                state.counts.joined += 1;
                let answer = state.answers.get(&key).cloned();
                answer.map(Begun::Joined).ok_or(Answer::Failed)
            }
            ProbeDecision::Useless | ProbeDecision::Paused => {
                state.counts.paused += 1;
                Err(Answer::Unknown)
            }
            ProbeDecision::Busy => {
                state.counts.busy += 1;
                Err(Answer::Failed)
            }
        }
    }

    /// Sends a probe in a task of its own.
    fn send(&self, mut pending: Pending, memory: &Arc<Memory>, asked: &Asked, prober: &Prober<'_>) {
        let request = head_of(prober.request);
        let head = prober.upstream.head(asked.resource.url.bits(), request);
        let memory = Arc::clone(memory);
        let (asked, bound) = (asked.clone(), self.config.timeout);
        spawn_local(async move {
            match timeout(bound, head).await {
                Ok(Ok((status, fields))) => match probed_size(status.as_u16(), &Head(&fields)) {
                    Some(bytes) => {
                        memory.note(&memory.lesson(&asked, &fields), bytes);
                        pending.tell(Answer::Size(bytes), ProbeOutcome::Told);
                    }
                    None => pending.tell(Answer::Unknown, ProbeOutcome::Useless),
                },
                Ok(Err(_)) | Err(_) => pending.tell(Answer::Failed, ProbeOutcome::Failed),
            }
        });
    }
}

enum Begun {
    Own(Pending, watch::Receiver<Option<Answer>>),
    Joined(watch::Receiver<Option<Answer>>),
}

/// A probe under way of this instance's own; dropping it ends and counts the probe.
struct Pending {
    probes: Arc<RouteProbes>,
    key: Key,
    answer: watch::Sender<Option<Answer>>,
    outcome: ProbeOutcome,
}

impl Pending {
    fn tell(&mut self, answer: Answer, outcome: ProbeOutcome) {
        self.outcome = outcome;
        self.answer.send_replace(Some(answer));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let now = self.probes.now();
        let mut state = self.probes.state();
        state.probes.end(now, self.key, self.outcome);
        state.answers.remove(&self.key);
        let counts = &mut state.counts;
        match self.outcome {
            ProbeOutcome::Told => counts.told += 1,
            ProbeOutcome::Useless => counts.useless += 1,
            ProbeOutcome::Failed | ProbeOutcome::Abandoned => counts.failed += 1,
        }
    }
}

/// Returns the key of a request's probe. Variants may differ in size, so each has its own.
fn key(asked: &Asked) -> Key {
    asked.resource.variant((1 << MAX_VARY) - 1)
}

/// Returns a HEAD request for the same resource as a whole, without range or conditions.
fn head_of(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut head = Request::new(RequestBody::Empty);
    *head.method_mut() = Method::HEAD;
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    for name in NOT_PROBED {
        head.headers_mut().remove(name);
    }
    head
}
