//! HTTP/2 with a client: many requests at a time, each in a task of its own.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{Method, Request, Response};
use hyper::body::{Body, Incoming};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use sprat_config::resolved::Priorities;
use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_net::network;
use sprat_net::screen::{self, Malformed, Peer, Screened};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

use super::deadlines::rearm;
use super::drive::{Http, drive};
use super::end::End;
use super::http2_stream::Http2Stream;
use super::multiplexed::Multiplexed;
use super::phase::{Http2Phase, StreamPhase};
use super::preface::Prefaced;
use super::service::Service;
use super::state::Connection;
use super::stream::Stream;
use crate::client::precedence;

/// The bytes of one response that hyper may hold beyond the chunk that it was given last.
/// hyper's own default is 400 KB, more than most responses have: nothing would be left to order.
const SEND_BUFFER_BYTES: usize = 16 << 10;

/// Serves an HTTP/2 connection to its end.
pub(super) async fn serve<S: Service>(connection: Rc<Connection>, io: Prefaced) {
    let listener = &connection.listener.config;
    let Some(config) = &listener.http2 else {
        return;
    };
    let tasks = Tasks::default();
    let service = service_fn({
        let (connection, tasks) = (Rc::clone(&connection), tasks.clone());
        move |mut request: Request<Incoming>| {
            let number = screen::take_stream(request.headers_mut());
            let own = begin(&connection, number);
            tasks.starting.replace(Some(Rc::clone(&own)));
            Box::pin(async move { Ok::<_, Infallible>(answer::<S>(own, request).await) })
        }
    });
    let list_max = u32::try_from(listener.max_request_headers).unwrap_or(u32::MAX);
    let io = Screened::client(
        io,
        list_max as usize,
        Watched::<S>(Rc::clone(&connection), PhantomData),
    );
    let http = http2::Builder::new(tasks)
        .max_concurrent_streams(config.max_streams)
        .initial_stream_window_size(config.stream_window_bytes)
        .initial_connection_window_size(config.connection_window_bytes)
        .max_header_list_size(list_max)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        // Its length on the wire would vary with the kernel's time.
        .auto_date_header(!network::is_simulated())
        .serve_connection(TokioIo::new(io), service);
    let mut http = pin!(http);
    let mut end = drive(&connection, http.as_mut()).await;
    if let End::Idle = end {
        http.as_mut().graceful_shutdown();
        // A request that is on its way already is answered.
        if let Some(http2) = connection.http2() {
            http2.leave(Instant::now());
        }
        end = drive(&connection, http.as_mut()).await;
    }
    let reason = match &end {
        End::Cut(reason) => Some(*reason),
        End::Failed(error) if has_had_enough(error) => Some(Reason::Http2Flood),
        // It may have been cut in the turn in which it ended.
        _ => connection.cut_reason(),
    };
    if let Some(reason) = reason {
        // Before hyper drops the streams, whose records ask for it.
        connection.end_by(reason);
        if let Reason::Http2Flood | Reason::HeadTimeout = reason {
            // The client may have no stream whose record would tell of it.
            S::unreadable(&Stream::Only(Rc::clone(&connection))).fail(reason);
        }
    }
}

/// Returns whether the library has ended a connection by one of its own bounds on floods: on
/// streams that it had to refuse or reset, on small frames, on heads without an end.
fn has_had_enough(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_library() && cause.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM)
    })
}

impl<T, S, B> Http for http2::Connection<TokioIo<Screened<Prefaced, Watched<T>>>, S, Tasks>
where
    T: Service,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S: HttpService<Incoming, ResBody = Multiplexed<B>>,
    S::Future: 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    const IS_FIRST: bool = false;

    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// The connection to which its screen reports what it sees.
struct Watched<S>(Rc<Connection>, PhantomData<fn() -> S>);

impl<S: Service> Peer for Watched<S> {
    fn malformed(&self, request: Malformed) {
        if let Some(http2) = self.0.http2() {
            http2.watch.borrow_mut().given_up();
        }
        tracing::debug!(fault = request.fault, peer = %self.0.client.peer, "a request is malformed");
        S::malformed(&Stream::Only(Rc::clone(&self.0)), request);
    }

    fn next_interim(&self) -> Option<(u32, Vec<u8>)> {
        self.0.http2()?.interims.borrow_mut().next()
    }

    fn interim_written(&self) {
        if let Some(http2) = self.0.http2() {
            http2.interims.borrow_mut().written();
        }
    }

    fn reset(&self, stream: u32) {
        if let Some(http2) = self.0.http2() {
            http2.numbers.borrow_mut().remove(&stream);
        }
    }
}

/// Begins a request that has come on the stream of this number.
fn begin(connection: &Rc<Connection>, number: Option<u32>) -> Rc<Http2Stream> {
    let own = Http2Stream::new(connection, Instant::now(), number);
    if let Some(http2) = connection.http2() {
        http2.phase.set(http2.phase.get().opened());
        http2.numbers.borrow_mut().extend(number);
    }
    own
}

async fn answer<S: Service>(
    own: Rc<Http2Stream>,
    request: Request<Incoming>,
) -> Response<Multiplexed<S::Body>> {
    let bodiless = request.method() == Method::HEAD;
    own.bodiless.set(bodiless);
    let config = own.connection.listener.config.http2.as_ref();
    let counts = config.map_or(Priorities::None, |http2| http2.priorities);
    own.precedence
        .set(precedence::asked(request.headers(), counts));
    let Ok(response) = S::answer(Stream::Http2(Rc::clone(&own)), request).await;
    response.map(|body| Multiplexed::new(body, own, bodiless))
}

/// The executor that starts the tasks of a connection's streams.
#[derive(Clone, Default)]
struct Tasks {
    /// The stream whose task is to be started next.
    starting: Rc<RefCell<Option<Rc<Http2Stream>>>>,
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        // hyper starts a request's task as soon as it has the service's future.
        match self.starting.take() {
            Some(own) => drop(spawn_local(supervise(own, task))),
            None => drop(spawn_local(task)),
        }
    }
}

/// A stream that is open; when this is dropped, its connection counts it as closed.
struct Open(Rc<Http2Stream>);

impl Drop for Open {
    fn drop(&mut self) {
        let Self(own) = self;
        let Some(http2) = own.connection.http2() else {
            return;
        };
        if let Some(number) = &own.number {
            http2.numbers.borrow_mut().remove(number);
        }
        http2.interims.borrow_mut().forget(own);
        let phase = http2.phase.get().closed(clock::now());
        http2.phase.set(phase);
        if let Http2Phase::Idle { .. } = phase {
            own.connection.wake();
        }
    }
}

/// Runs a stream's task until all of the response is in the socket, within the
/// bounds on time. Dropped before its end, the task resets the stream.
async fn supervise(own: Rc<Http2Stream>, task: impl Future<Output = ()>) {
    let open = Open(own);
    let own = &open.0;
    let mut task = pin!(Some(task));
    let later = own.connection.listener.config.stream_idle_timeout;
    let mut sleep = pin!(sleep_until(Instant::now() + later));
    let mut armed = false;
    poll_fn(|cx| {
        *own.waker.borrow_mut() = Some(cx.waker().clone());
        loop {
            if let Some(running) = task.as_mut().as_pin_mut()
                && clock::turn(|| running.poll(cx)).is_ready()
            {
                task.set(None);
            }
            if task.is_none() && own.in_flight.get() == 0 {
                return Poll::Ready(());
            }
            let next = own.next_deadline(Instant::now());
            if !rearm(next, later, sleep.as_mut(), &mut armed, cx) {
                return Poll::Pending;
            }
            if let Some(reason) = own.overdue(Instant::now()) {
                own.cut.set(Some(reason));
                return Poll::Ready(());
            }
        }
    })
    .await;
    // Resets the stream if it is not through.
    task.set(None);
    if let Some(http2) = own.connection.http2() {
        let mut watch = http2.watch.borrow_mut();
        if own.left.get() {
            watch.given_up();
        }
        let is_answered = own.phase.get() == StreamPhase::Answered;
        if own.begun.get() || (is_answered && !own.left.get()) {
            watch.answered();
        }
    }
    // What is still in hyper's hands goes with the connection.
    drop(own.finishing.take());
}
