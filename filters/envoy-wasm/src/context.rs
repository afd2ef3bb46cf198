//! The contexts that the host's callbacks come to, which hand them to the filter.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel, MapType};
use sprat_config::resolved;
use sprat_filter::{Filter, RequestHead, ResponseHead, Step};
use sprat_scheduler::Time;
use sprat_scheduler::catalogue::KeyHasher;

use crate::calls::{Calls, drain, log, send, warn};
use crate::fields::HostFields;

/// The period of the host's ticks while a stream waits; the host ticks later than that.
const TICK: Duration = Duration::from_millis(1);

/// The context of a plugin's configuration, with its worker once it has one.
struct Root {
    id: u32,
    worker: SharedWorker,
}

/// The context of a stream, with its configuration's worker.
struct Stream {
    id: u32,
    worker: SharedWorker,
    /// Whether the filter knows of the stream.
    told: bool,
}

/// The worker that a configuration and its streams share. None until it is configured, or if
/// nothing is switched on.
type SharedWorker = Rc<RefCell<Option<Worker>>>;

/// A worker's filter under one configuration, and the host that it calls.
#[derive(Debug)]
struct Worker {
    filter: Filter,
    calls: Calls,
    ticking: bool,
    /// The state of the generator of requests' random numbers.
    random: u64,
}

/// The key that the workers are counted under.
const WORKERS: &str = "sprat.workers";

/// The most attempts at counting, while other workers count too.
const ATTEMPTS: usize = 64;

/// Counts this worker, and returns the count, which tells it from workers that begin at the same
/// time. Returns 0 if the host shares nothing.
///
/// Two workers may be the first, because a value that does not exist yet has no version to compare.
/// In Envoy the main thread's machine begins before all others.
fn count_worker() -> u64 {
    for _ in 0..ATTEMPTS {
        let (value, version) = hostcalls::get_shared_data(WORKERS).unwrap_or_default();
        let before = value.and_then(|value| value.try_into().ok());
        let count = before.map_or(0, u64::from_le_bytes) + 1;
        if hostcalls::set_shared_data(WORKERS, Some(&count.to_le_bytes()), version).is_ok() {
            return count;
        }
    }
    0
}

/// Returns the nanoseconds since the epoch by the host's clock, the same on all workers.
fn now() -> Time {
    let now = hostcalls::get_current_time().unwrap_or(UNIX_EPOCH);
    Time::ZERO + now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Does something with a worker. Returns the default if there is none, or if the host called back
/// from within one of this filter's calls, which no call allows.
fn with<T: Default>(worker: &SharedWorker, act: impl FnOnce(&mut Worker) -> T) -> T {
    match worker.try_borrow_mut() {
        Ok(mut worker) => worker.as_mut().map(act).unwrap_or_default(),
        Err(_) => T::default(),
    }
}

impl Worker {
    fn new(config: &resolved::Filter) -> Self {
        // There is no other source of chance in the sandbox than when this is.
        // Workers begin at the same time, or nearly: what they draw differs all
        // the same, for their counts do.
        let mut random = count_worker().rotate_left(48) ^ now().as_nanos();
        let hasher = KeyHasher::new(draw(&mut random), draw(&mut random));
        let worker = draw(&mut random) | 1;
        let names = config.classes.list.iter().map(|class| class.name.clone());
        let mut calls = Calls::new(names.collect(), worker);
        Self {
            filter: Filter::new(config, hasher, worker, &mut calls),
            calls,
            ticking: false,
            random,
        }
    }

    /// Tells the filter of an event in a context. Makes sure that the host ticks, or calls back at
    /// once, while a stream waits.
    fn tell<T>(
        &mut self,
        context: u32,
        tell: impl FnOnce(&mut Filter, Time, &mut Calls) -> T,
    ) -> T {
        self.calls.current = context;
        let told = tell(&mut self.filter, now(), &mut self.calls);
        self.see_to_ticks();
        told
    }

    fn see_to_ticks(&mut self) {
        let owed = self.calls.owes() && !self.calls.recall();
        let waits = owed || self.filter.next_wakeup().is_some();
        if waits != self.ticking {
            let period = if waits { TICK } else { Duration::ZERO };
            if hostcalls::set_tick_period(period).is_ok() {
                self.ticking = waits;
            } else {
                warn("the host does not tick: what waits, waits for another stream");
            }
        }
    }

    /// Decides about a request whose head has come.
    fn request(&mut self, context: u32) -> Step {
        let fields = HostFields::of(MapType::HttpRequestHeaders);
        let texts = [":method", ":authority", ":path"].map(|name| fields.text(name));
        let head = RequestHead {
            client: self.filter.wants_client().then(client).flatten(),
            method: &texts[0],
            authority: &texts[1],
            target: &texts[2],
            fields: &fields,
            random: draw(&mut self.random),
        };
        self.tell(context, |filter, now, calls| {
            filter.request_head(now, context.into(), &head, calls)
        })
    }

    /// Releases the streams that are due. Only a callback of the configuration calls this, since it
    /// is about no stream: see [`Calls::let_go`].
    fn tick(&mut self, root: u32) {
        self.calls.current = root;
        self.filter.tick(now(), &mut self.calls);
        self.calls.let_go();
        self.see_to_ticks();
    }
}

/// Draws the next number of a sequence (Steele, Lea and Flood 2014: SplitMix64).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Reads a configuration, and creates its worker; none if it switches nothing on.
fn configure(bytes: Option<Vec<u8>>) -> Result<Option<Worker>, String> {
    let text = String::from_utf8(bytes.unwrap_or_default())
        .map_err(|_| "the filter's configuration is not UTF-8".to_owned())?;
    let text = if text.trim().is_empty() { "{}" } else { &text };
    let loaded = sprat_config::parse_filter(text, "configuration", &|_| None)
        .map_err(|errors| errors.to_string())?;
    let mut clusters = loaded.config.clusters.iter();
    if let Some(own) = clusters.find(|own| own.metadata_key.is_some()) {
        return Err(format!(
            "clusters.{}.metadata_key: proxy-wasm has no dynamic metadata: remove it, and make \
             metadata of the field `{}` by Envoy's header_to_metadata",
            own.name, own.header
        ));
    }
    if !loaded.warnings.is_empty() {
        warn(&loaded.warnings.to_string());
    }
    let worker = Worker::new(&loaded.config);
    Ok((!worker.filter.is_passive()).then_some(worker))
}

/// Registers the root context with the SDK.
pub(crate) fn install() {
    proxy_wasm::set_root_context(|id| {
        let worker = SharedWorker::default();
        Box::new(Root { id, worker })
    });
}

impl Context for Root {}

impl RootContext for Root {
    /// Reads the configuration; false refuses it.
    fn on_configure(&mut self, _bytes: usize) -> bool {
        match configure(self.get_plugin_configuration()) {
            Ok(worker) => {
                self.worker.replace(worker);
                true
            }
            Err(errors) => {
                log(LogLevel::Error, &errors);
                false
            }
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream {
            id,
            worker: Rc::clone(&self.worker),
            told: false,
        }))
    }

    fn on_tick(&mut self) {
        with(&self.worker, |worker| worker.tick(self.id));
    }

    /// Ticks the filter, because this worker asked to be called back, or another one called it.
    fn on_queue_ready(&mut self, queue: u32) {
        // What is in it says nothing; it is emptied, or it would grow.
        drain(queue);
        self.on_tick();
    }
}

fn client() -> Option<IpAddr> {
    let property = hostcalls::get_property(vec!["source", "address"]).ok()??;
    let text = String::from_utf8(property).ok()?;
    match text.parse::<SocketAddr>() {
        Ok(address) => Some(address.ip()),
        Err(_) => text.parse().ok(),
    }
}

impl Context for Stream {
    /// Takes the answer to a request of the filter's own. An answer without fields is a failure.
    fn on_http_call_response(&mut self, token: u32, fields: usize, _: usize, _: usize) {
        let head = HostFields::of(MapType::HttpCallResponseHeaders);
        let status: Option<u16> = (fields > 0)
            .then(|| head.text(":status").parse().ok())
            .flatten();
        self.tell(|filter, now, calls| {
            let answer = status.map(|status| (status, &head as _));
            filter.probed(now, token, answer, calls);
        });
    }

    /// Notes that the stream has ended, in whatever way. Returns true: the host may delete it at
    /// once.
    fn on_done(&mut self) -> bool {
        let id = self.id.into();
        self.tell(|filter, now, calls| {
            filter.done(now, id, calls);
            calls.forget(id);
        });
        self.told = false;
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _fields: usize, _end: bool) -> Action {
        let step = with(&self.worker, |worker| Some(worker.request(self.id)));
        self.told = step.is_some();
        match step {
            None | Some(Step::Continue) => Action::Continue,
            Some(Step::Hold) => Action::Pause,
            Some(Step::Answer(answer)) if send(&answer) => Action::Pause,
            Some(Step::Answer(_)) => {
                warn("the host takes no answer: a refused request goes on");
                Action::Continue
            }
        }
    }

    /// Takes the response's head, which is the whole response if `end`.
    fn on_http_response_headers(&mut self, _fields: usize, end: bool) -> Action {
        let id = self.id.into();
        self.pass_or_pause(|filter, now, calls| {
            if calls.forget(id) || filter.is_held(id) {
                // The host answers by itself, as after a timeout: the request goes to no pool any
                // more, and a second answer would cut this one short.
                filter.done(now, id, calls);
            }
            let fields = HostFields::of(MapType::HttpResponseHeaders);
            let head = ResponseHead {
                status: fields.text(":status").parse().unwrap_or(0),
                fields: &fields,
                end,
            };
            filter.response_head(now, id, &head, calls)
        })
    }

    /// Takes a part of the response's body. A pause becomes the answer that holds it
    /// (`crate::body`).
    fn on_http_response_body(&mut self, bytes: usize, end: bool) -> Action {
        let id = self.id.into();
        self.pass_or_pause(|filter, now, calls| {
            filter.response_body(now, id, bytes as u64, end, calls)
        })
    }

    fn on_http_response_trailers(&mut self, _fields: usize) -> Action {
        let id = self.id.into();
        self.pass_or_pause(|filter, now, calls| filter.response_trailers(now, id, calls))
    }
}

impl Stream {
    /// Tells the filter of an event, if it knows of the stream.
    fn tell<T: Default>(&self, tell: impl FnOnce(&mut Filter, Time, &mut Calls) -> T) -> T {
        match self.told {
            true => with(&self.worker, |worker| worker.tell(self.id, tell)),
            false => T::default(),
        }
    }

    /// Tells the filter of a part of a response, and pauses if the filter holds it.
    fn pass_or_pause(&self, tell: impl FnOnce(&mut Filter, Time, &mut Calls) -> bool) -> Action {
        let held = self.tell(|filter, now, calls| {
            let held = tell(filter, now, calls);
            if !held {
                calls.has_gone(self.id.into());
            }
            held
        });
        match held {
            true => Action::Pause,
            false => Action::Continue,
        }
    }
}
