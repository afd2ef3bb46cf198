//! An attempt at a request, at one endpoint, up to the head of the answer.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use http::header::HOST;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use sprat_net::clock;
use sprat_net::error::{Fault, Reason};
use sprat_net::upload::{Progress, RequestBody};
use sprat_scheduler::health::Outcome;
use sprat_scheduler::retries::{self, AttemptHistory, Failure, Step};
use sprat_upstream::{Lease, Refused, SendFailure};
use tokio::time::{Instant, timeout_at};

use super::in_place::{InPlace, RELAYED};
use super::interim;
use super::outcome::{Answer, Due, Expiry, Failed, cut_off, failure_for, is_away};
use super::spare::Spare;
use super::upstream_request::Exchange;

/// An attempt that got no answer over a connection, and why.
struct BrokenAttempt {
    reason: Reason,
    failure: Failure,
    /// The request, if it may be sent again.
    again: Option<Box<Request<RequestBody>>>,
    /// The step that follows: the request ends, unless the core says otherwise.
    step: Step,
}

impl BrokenAttempt {
    fn new(reason: Reason, failure: Failure, again: Option<Box<Request<RequestBody>>>) -> Self {
        Self {
            reason,
            failure,
            again,
            step: Step::End,
        }
    }

    fn into_failed(self, lease: Lease, request: Option<Box<Request<RequestBody>>>) -> Box<Failed> {
        Box::new(Failed {
            reason: self.reason,
            failure: self.failure,
            step: self.step,
            lease,
            request,
            response: None,
            is_counted: false,
        })
    }
}

impl Exchange<'_> {
    /// Sends the request to the lease's endpoint, as an attempt that the trace tells of.
    pub(super) async fn attempt(
        &self,
        lease: Lease,
        mut request: Box<Request<RequestBody>>,
        due: Due<'_>,
    ) -> Result<Answer, Box<Failed>> {
        let trace = self.plan.trace.as_ref();
        let noted = trace.and_then(|own| own.attempt(lease.endpoint(), &mut request));
        let outcome = self.send(lease, request, due).await;
        if let Some(noted) = noted {
            noted.end(&outcome);
        }
        outcome
    }

    /// Sends the request to the lease's endpoint; no trace tells of it. If the endpoint has
    /// closed a kept connection meanwhile, that is no failure, and a new one is opened. That
    /// happens once for a request: endpoints that die of it do not get it over and over.
    pub(super) async fn send(
        &self,
        mut lease: Lease,
        mut request: Box<Request<RequestBody>>,
        due: Due<'_>,
    ) -> Result<Answer, Box<Failed>> {
        let endpoint = Rc::clone(lease.endpoint());
        let stats = &endpoint.stats;
        let mut began = clock::now();
        // What an attempt may take begins with it.
        let tried = began;
        let bound = self.plan.route.retry.per_try_timeout;
        let tried_until = bound.map(|bound| tried + bound);
        let mut attempt = AttemptHistory::default();
        if self.plan.upstream.tells_clients() {
            lease.tell(self.plan.stream.connection().client.ends());
        }
        loop {
            let reused = !attempt.needs_new_connection && lease.reuse(began);
            if reused {
                stats.reuses.increment();
            } else {
                if let Err(reason) = self.open(&mut lease, due, tried, tried_until).await {
                    return Err(self.failed(lease, Some(request), Failure::Unreached, reason));
                }
                began = clock::now();
            }
            self.name_host(&lease, &mut request);
            let put = self.put_body(&mut request);
            stats.requests.increment();
            let safe = self.is_safe(&request);
            let spare = self.spare(&request, safe, reused);
            let Some(sender) = lease.sender() else {
                return Err(self.lost(lease, spare.filter(|_| safe)));
            };
            if let Err(reason) = put.and_then(|()| sender.prepare(&mut request)) {
                return Err(self.failed(lease, None, Failure::Reset, reason));
            }
            self.listen(&mut request);
            self.upload.as_ref().inspect(|upload| upload.hand_over());
            let (silence, answer) = sender.try_send_request(*request);
            due.sent.inspect(|sent| sent.note(&silence));
            // Pinned where it is, and its output kept there: they are large, and a move is a copy.
            let answer = pin!(answer);
            let mut answer = InPlace::new(answer);
            let waited = self.wait(due, tried_until, began, &mut answer).await;
            let error = match waited.map(|()| answer.take().expect(RELAYED)) {
                Ok(Ok(response)) => {
                    return self.judge(lease, spare.filter(|_| safe), response, began);
                }
                Ok(Err(error)) => error,
                Err(reason) => {
                    self.run_out(&mut lease, due, tried, reason);
                    return Err(self.out_of_time(lease, spare.filter(|_| safe), reason));
                }
            };
            let mut broken = self.broken(error, spare, safe, silence.is_refused());
            let was_dead = reused && (broken.failure == Failure::Untouched || silence.was_dead());
            broken.step = self.step(&broken, was_dead, attempt);
            match broken.again.take() {
                Some(again) if broken.step == Step::Reconnect => {
                    stats.retries.increment();
                    request = again;
                    self.note(|history| history.reconnect(&mut attempt, broken.failure));
                }
                again => {
                    self.blame_endpoint(&lease, broken.reason);
                    return Err(broken.into_failed(lease, again));
                }
            }
        }
    }

    /// Opens a connection for an attempt that was `tried` from then on, and may last `until` then.
    async fn open(
        &self,
        lease: &mut Lease,
        due: Due<'_>,
        tried: Instant,
        until: Option<Instant>,
    ) -> Result<(), Reason> {
        let opened = Box::pin(self.connect(lease, due, until)).await;
        if let Err(reason) = opened
            && self.had_its_time(due, tried, reason)
        {
            self.blame_endpoint(lease, reason);
        }
        opened
    }

    /// Returns the failure of an attempt whose connection was gone before the request was sent.
    fn lost(&self, lease: Lease, spare: Option<Spare>) -> Box<Failed> {
        let again = spare.map(Spare::request);
        self.failed(lease, again, Failure::Reset, Reason::ConnectionTerminated)
    }

    /// Returns the failure of an attempt that has taken longer than it may.
    fn out_of_time(&self, lease: Lease, spare: Option<Spare>, reason: Reason) -> Box<Failed> {
        // The route's own bounds are not for one attempt alone.
        let again = spare.filter(|_| reason == Reason::PerTryTimeout);
        self.failed(lease, again.map(Spare::request), Failure::Reset, reason)
    }

    /// Decides what follows an attempt that broke.
    fn step(&self, broken: &BrokenAttempt, was_dead: bool, attempt: AttemptHistory) -> Step {
        let (upstream, policy) = (self.plan.upstream, &self.plan.route.retry);
        let broken = retries::Broken {
            failure: broken.failure,
            is_away: is_away(broken.reason),
            was_dead,
            is_repeatable: broken.again.is_some(),
            attempt,
        };
        let allowance = policy.allowance(upstream.waits_for_endpoint());
        retries::next(allowance, self.history.get(), broken)
    }

    /// Returns the failure of an attempt for which no dead connection is to blame.
    fn failed(
        &self,
        lease: Lease,
        request: Option<Box<Request<RequestBody>>>,
        failure: Failure,
        reason: Reason,
    ) -> Box<Failed> {
        let failure = failure_for(reason, failure);
        let mut broken = BrokenAttempt::new(reason, failure, request);
        broken.step = self.step(&broken, false, AttemptHistory::default());
        let request = broken.again.take();
        broken.into_failed(lease, request)
    }

    /// Gives a request the endpoint's name as its host, where the client named none.
    fn name_host(&self, lease: &Lease, request: &mut Request<RequestBody>) {
        if self.plan.hostless {
            let host = lease.authority().clone();
            request.headers_mut().insert(HOST, host);
        }
    }

    /// Returns the spare from which a request can be sent again, should that be possible.
    fn spare(&self, request: &Request<RequestBody>, safe: bool, reused: bool) -> Option<Spare> {
        let (upstream, policy) = (self.plan.upstream, &self.plan.route.retry);
        // What is refused may be sent again, be it safe or not.
        let may_be_refused = upstream.is_http2() || (upstream.is_secured() && !reused);
        let repeatable = may_be_refused || (safe && (reused || policy.repeats_what_was_sent()));
        repeatable.then(|| Spare::of(request))
    }

    /// Returns what is left of an attempt whose connection or stream ended before there was
    /// an answer.
    fn broken(
        &self,
        mut error: SendFailure,
        spare: Option<Spare>,
        safe: bool,
        is_refused: bool,
    ) -> BrokenAttempt {
        let untouched = error.take_message().map(Box::new);
        if is_refused {
            // The endpoint has ended the handshake: there was no connection.
            let again = untouched.or_else(|| self.with_body(spare?.request()));
            return BrokenAttempt::new(Reason::TlsAlertReceived, Failure::Unreached, again);
        }
        let refused = Refused::of(error.error());
        let reason = self.blame(error.error());
        let is_unanswered = matches!(reason, Reason::ConnectionTerminated | Reason::StreamReset);
        let failure = cut_off(refused, untouched.is_some());
        let again = untouched.or_else(|| match refused {
            Some(_) => self.with_body(spare?.request()),
            None => spare.filter(|_| safe).map(Spare::request),
        });
        // An answer that is no HTTP is an answer.
        BrokenAttempt::new(reason, failure, again.filter(|_| is_unanswered))
    }

    /// Judges the response to a request that `began` then. It is the answer, unless the
    /// route's rules for retries want another.
    fn judge(
        &self,
        mut lease: Lease,
        spare: Option<Spare>,
        response: Response<Incoming>,
        began: Instant,
    ) -> Result<Answer, Box<Failed>> {
        let heard = clock::now();
        lease.endpoint().stats.heads.took(heard - began);
        let policy = &self.plan.route.retry;
        let status = response.status().as_u16();
        if response.version() == Version::HTTP_10 {
            // hyper would send in 1.0 what comes next, which has no chunks: a body
            // without a length would be lost.
            lease.spend();
        }
        let is_wanted =
            policy.num_retries == 0 || spare.is_none() || policy.word_of_status(status).is_none();
        match Outcome::of_status(status) {
            Outcome::Success if is_wanted => lease.begins_well(),
            outcome => lease.observe(|| outcome),
        }
        if is_wanted {
            return Ok(Answer {
                response,
                lease,
                heard,
            });
        }
        let request = spare.map(Spare::request);
        let mut failed = self.failed(lease, request, Failure::Status, Reason::ProtocolError);
        failed.response = Some(response);
        Err(failed)
    }

    /// Opens a connection for the lease. The cluster bounds each step to it, the request
    /// the whole.
    async fn connect(
        &self,
        lease: &mut Lease,
        due: Due<'_>,
        tried_until: Option<Instant>,
    ) -> Result<(), Reason> {
        self.plan.stream.wait();
        let by = |at, reason| Expiry { at, reason };
        let bound = Expiry::earlier(
            due.deadline.map(|at| by(at, Reason::RouteTimeout)),
            tried_until.map(|at| by(at, Reason::ConnectionTimeout)),
        );
        match bound {
            None => lease.connect().await,
            Some(Expiry { at, reason }) => {
                timeout_at(at, lease.connect()).await.unwrap_or(Err(reason))
            }
        }
    }

    /// Returns whether a request may be sent twice. It may without a body, or with one that
    /// is here as a whole, if it is safe to repeat (RFC 9110 9.2.2) or said to be so.
    pub(super) fn is_safe(&self, request: &Request<RequestBody>) -> bool {
        let repeatable = request.method().is_idempotent() || self.plan.route.retry.non_idempotent;
        let body = self.upload.as_ref();
        repeatable && body.is_none_or(|upload| upload.is_repeatable())
    }

    /// Gives a request that is sent again the body that the first one had.
    fn put_body(&self, request: &mut Request<RequestBody>) -> Result<(), Reason> {
        if let (Some(upload), RequestBody::Empty) = (&self.upload, request.body()) {
            let body = upload.again();
            *request.body_mut() = body.ok_or(Reason::ConnectionTerminated)?;
        }
        Ok(())
    }

    /// Returns a request that no endpoint has read, with its body, if there is one and
    /// nothing of it is gone.
    fn with_body(&self, mut head: Box<Request<RequestBody>>) -> Option<Box<Request<RequestBody>>> {
        if let Some(upload) = &self.upload {
            *head.body_mut() = upload.again()?;
        }
        Some(head)
    }

    /// Waits for the head of the answer to a request that was `sent` then, within the
    /// bounds on the client or the endpoint that keeps it waiting. Interim responses before it
    /// are passed on.
    async fn wait<F: Future>(
        &self,
        due: Due<'_>,
        tried_until: Option<Instant>,
        sent: Instant,
        answer: &mut InPlace<'_, F>,
    ) -> Result<(), Reason> {
        let is_there = Cell::new(false);
        let relayed = interim::relay(self.interims.as_ref(), &self.plan, answer, &is_there);
        let mut relayed = pin!(relayed);
        let until = || {
            let owed = self.owed(sent);
            let bound = self.bound(due, tried_until);
            bound.filter(|bound| bound.at < owed.at).unwrap_or(owed)
        };
        if due.own_timers {
            let Expiry { at, reason } = until();
            self.plan.stream.wait();
            return match timeout_at(at, relayed.as_mut()).await {
                Err(_) if is_there.get() => {
                    relayed.await;
                    Ok(())
                }
                waited => waited.map_err(|_| reason),
            };
        }
        let mut first = Some(sent);
        poll_fn(|cx| {
            if relayed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if is_there.get() {
                // The client is to take what came before, within its connection's bounds.
                self.plan.stream.wait();
                return Poll::Pending;
            }
            if let Some(upload) = &self.upload {
                upload.tell_of_progress(cx.waker());
            }
            let now = first.take().unwrap_or_else(clock::now);
            let Expiry { at, reason } = until();
            if now >= at {
                return Poll::Ready(Err(reason));
            }
            self.plan.stream.wait_until(at);
            Poll::Pending
        })
        .await
    }

    /// Returns the time by which the head of the answer is to be there. An
    /// attempt's time runs from when the request has been sent: while its client is
    /// waited for, an endpoint cannot answer.
    fn bound(&self, due: Due<'_>, tried_until: Option<Instant>) -> Option<Expiry> {
        let progress = self.upload.as_ref().map(|upload| upload.progress());
        let (tried_until, overdue) = match progress {
            None => (tried_until, Reason::RouteTimeout),
            Some(Progress::Done { at }) => {
                let bound = self.plan.route.retry.per_try_timeout;
                (bound.map(|bound| at + bound), Reason::RouteTimeout)
            }
            Some(Progress::ClientOwes { .. }) => (None, Reason::BodyTimeout),
            Some(progress) if progress.is_file_late(clock::now()) => (None, Reason::BufferLost),
            Some(Progress::UpstreamOwes { .. } | Progress::FileOwes { .. }) => {
                (None, Reason::RouteTimeout)
            }
        };
        let by = |at, reason| Expiry { at, reason };
        Expiry::earlier(
            due.deadline.map(|at| by(at, overdue)),
            tried_until.map(|at| by(at, Reason::PerTryTimeout)),
        )
    }

    /// Returns the time by which the client, the endpoint or the buffer's file owes the next
    /// step, and the reason for which the attempt fails if it is not taken.
    pub(super) fn owed(&self, sent: Instant) -> Expiry {
        let route = self.plan.route;
        let client_idle = self.plan.connection.listener.config.stream_idle_timeout;
        let upload = self.upload.as_ref();
        let (at, reason) = match upload.map(|upload| upload.progress()) {
            None => (sent + route.response_timeout, Reason::ResponseTimeout),
            Some(Progress::Done { at }) => (at + route.response_timeout, Reason::ResponseTimeout),
            Some(Progress::ClientOwes { since }) => {
                let idle = since + client_idle;
                match upload.and_then(|upload| upload.judged_at(Instant::now())) {
                    Some(at) if at < idle => (at, Reason::BodyTooSlow),
                    _ => (idle, Reason::BodyTimeout),
                }
            }
            Some(Progress::FileOwes { since }) => (since + route.idle_timeout, Reason::BufferLost),
            Some(Progress::UpstreamOwes { since }) => {
                (since + route.idle_timeout, Reason::UpstreamWriteTimeout)
            }
        };
        Expiry { at, reason }
    }

    /// Notes that an endpoint that was `tried` from then on gave no answer in its time, if
    /// it had a fair part of that. If the endpoint is at fault, the connection is given up:
    /// it may be dead.
    fn run_out(&self, lease: &mut Lease, due: Due<'_>, tried: Instant, reason: Reason) {
        if !self.had_its_time(due, tried, reason) {
            return;
        }
        if reason.facts().fault == Fault::Upstream {
            lease.give_up();
        }
        self.blame_endpoint(lease, reason);
    }
}
