//! The host's callbacks, handed to the filter.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel, MapType};
use sprat_config::resolved;
use sprat_filter::{Filter, RequestHead, ResponseHead, Step};
use sprat_scheduler::Time;

use crate::calls::{Calls, send, warn};
use crate::fields::HostFields;

/// How often the host ticks while something waits; it comes later than that.
const TICK: Duration = Duration::from_millis(1);

/// A worker's filter, and the calls that it makes.
#[derive(Debug)]
struct Worker {
    filter: Filter,
    calls: Calls,
    ticking: bool,
    /// A queue that this worker alone writes to and reads: what is put there
    /// has the host call it back as soon as it has time. None if the host has
    /// no queues; then a tick does it.
    recall: Option<u32>,
    /// The state of the numbers drawn for requests.
    random: u64,
}

/// One configuration on one worker.
#[derive(Debug, Default)]
pub(crate) struct Root {
    worker: Option<Rc<RefCell<Worker>>>,
    passive: bool,
}

/// Nanoseconds since the epoch, the same on all workers.
fn now() -> Time {
    let now = hostcalls::get_current_time().ok();
    let since = now.and_then(|now| now.duration_since(SystemTime::UNIX_EPOCH).ok());
    Time::ZERO + since.unwrap_or_default()
}

impl Worker {
    fn new(config: &resolved::Filter) -> Self {
        let names = config.classes.list.iter().map(|class| class.name.clone());
        let mut calls = Calls::new(names.collect());
        // There is no other source of chance in the sandbox than when, and
        // where in memory, this is.
        let at = std::ptr::from_ref(config).addr() as u64;
        let mut random = now().as_nanos() ^ at.rotate_left(32);
        let seed = (draw(&mut random), draw(&mut random));
        let worker = draw(&mut random) | 1;
        Self {
            filter: Filter::new(config, seed, worker, &mut calls),
            calls,
            ticking: false,
            recall: hostcalls::register_shared_queue(&format!("sprat.{worker}")).ok(),
            random,
        }
    }

    /// Tells the filter of something that has happened to a context, lets go
    /// whom it lets go unless the context itself is `held` by that, and sees to
    /// it that the host ticks while something waits.
    fn tell<T>(
        &mut self,
        context: u32,
        held: impl FnOnce(&T) -> bool,
        tell: impl FnOnce(&mut Filter, Time, &mut Calls) -> T,
    ) -> T {
        self.calls.current = context;
        let told = tell(&mut self.filter, now(), &mut self.calls);
        if !held(&told) {
            self.calls.let_go();
        }
        let owes = self.calls.owes();
        let recalled = owes
            && self
                .recall
                .is_some_and(|queue| hostcalls::enqueue_shared_queue(queue, None).is_ok());
        let waits = (owes && !recalled) || self.filter.next_wakeup().is_some();
        if waits != self.ticking {
            let period = if waits { TICK } else { Duration::ZERO };
            match hostcalls::set_tick_period(period) {
                Ok(()) => self.ticking = waits,
                Err(_) => warn("the host does not tick: what waits, waits for another stream"),
            }
        }
        told
    }
}

/// The next number of a sequence (Steele, Lea and Flood 2014: SplitMix64).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Root {
    fn configure(&mut self, bytes: Option<Vec<u8>>) -> Result<(), String> {
        let text = String::from_utf8(bytes.unwrap_or_else(|| b"{}".to_vec()))
            .map_err(|_| "the filter's configuration is not UTF-8".to_owned())?;
        let loaded = sprat_config::parse_filter(&text, "configuration", &|_| None)
            .map_err(|errors| errors.to_string())?;
        let mut clusters = loaded.config.clusters.iter();
        if let Some(own) = clusters.find(|own| own.metadata_key.is_some()) {
            return Err(format!(
                "clusters.{}.metadata_key: proxy-wasm has no dynamic metadata: remove it, and \
                 make metadata of the field `{}` by Envoy's header_to_metadata",
                own.name, own.header
            ));
        }
        if !loaded.warnings.is_empty() {
            warn(&loaded.warnings.to_string());
        }
        let worker = Worker::new(&loaded.config);
        self.passive = worker.filter.is_passive();
        self.worker = Some(Rc::new(RefCell::new(worker)));
        Ok(())
    }
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let bytes = hostcalls::get_buffer(
            proxy_wasm::types::BufferType::PluginConfiguration,
            0,
            usize::MAX,
        );
        match self.configure(bytes.ok().flatten()) {
            Ok(()) => true,
            Err(errors) => {
                hostcalls::log(LogLevel::Error, &errors).unwrap_or(());
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(worker) = &self.worker
            && let Ok(mut worker) = worker.try_borrow_mut()
        {
            worker.tell(0, |()| false, |filter, now, calls| filter.tick(now, calls));
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        // What is in it says nothing; it is emptied, or it would grow.
        while let Ok(Some(_)) = hostcalls::dequeue_shared_queue(queue) {}
        self.on_tick();
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        let worker = self.worker.clone().filter(|_| !self.passive);
        Some(Box::new(Stream {
            id,
            worker,
            told: Cell::new(false),
        }))
    }
}

/// A stream.
#[derive(Debug)]
struct Stream {
    id: u32,
    /// None if nothing is switched on.
    worker: Option<Rc<RefCell<Worker>>>,
    /// The filter knows of it.
    told: Cell<bool>,
}

impl Stream {
    /// Tells the filter, unless the host has called from within one of the
    /// filter's own calls.
    fn tell<T>(
        &self,
        held: impl FnOnce(&T) -> bool,
        tell: impl FnOnce(&mut Filter, Time, &mut Calls) -> T,
    ) -> Option<T> {
        let mut worker = self.worker.as_ref()?.try_borrow_mut().ok()?;
        Some(worker.tell(self.id, held, tell))
    }

    fn client(&self) -> Option<IpAddr> {
        let text = hostcalls::get_property(vec!["source", "address"]).ok()??;
        let text = String::from_utf8(text).ok()?;
        match text.parse::<std::net::SocketAddr>() {
            Ok(address) => Some(address.ip()),
            Err(_) => text.parse().ok(),
        }
    }
}

impl Context for Stream {
    fn on_http_call_response(&mut self, token: u32, fields: usize, _: usize, _: usize) {
        let head = HostFields(MapType::HttpCallResponseHeaders);
        let status = head.text(":status").parse();
        let answer = status.ok().filter(|_| fields > 0);
        self.tell(
            |()| false,
            |filter, now, calls| {
                let answer = answer.map(|status: u16| (status, &head as _));
                filter.probed(now, token, answer, calls);
            },
        );
    }

    fn on_done(&mut self) -> bool {
        if self.told.take() {
            let id = u64::from(self.id);
            self.tell(|()| false, |filter, now, calls| filter.done(now, id, calls));
        }
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(worker) = &self.worker else {
            return Action::Continue;
        };
        let Ok(mut worker) = worker.try_borrow_mut() else {
            return Action::Continue;
        };
        let fields = HostFields(MapType::HttpRequestHeaders);
        let texts = [":method", ":authority", ":path"].map(|name| fields.text(name));
        let wants_client = worker.filter.wants_client();
        let head = RequestHead {
            client: wants_client.then(|| self.client()).flatten(),
            method: &texts[0],
            authority: &texts[1],
            target: &texts[2],
            fields: &fields,
            random: draw(&mut worker.random),
        };
        let id = u64::from(self.id);
        self.told.set(true);
        let held = |step: &Step| *step != Step::Continue;
        let step = worker.tell(self.id, held, |filter, now, calls| {
            filter.request_head(now, id, &head, calls)
        });
        match step {
            Step::Continue => Action::Continue,
            Step::Hold => Action::Pause,
            Step::Answer(answer) => {
                if send(&answer).is_none() {
                    warn("the host takes no answer: a refused request goes on");
                    return Action::Continue;
                }
                Action::Pause
            }
        }
    }

    fn on_http_response_headers(&mut self, _: usize, end: bool) -> Action {
        if !self.told.get() {
            return Action::Continue;
        }
        let fields = HostFields(MapType::HttpResponseHeaders);
        let head = ResponseHead {
            status: fields.text(":status").parse().unwrap_or(0),
            fields: &fields,
            end,
        };
        let id = u64::from(self.id);
        let held = self.tell(
            |held| *held,
            |filter, now, calls| filter.response_head(now, id, &head, calls),
        );
        match held {
            Some(true) => Action::Pause,
            Some(false) | None => Action::Continue,
        }
    }

    fn on_http_response_body(&mut self, bytes: usize, end: bool) -> Action {
        if self.told.get() {
            let (id, bytes) = (u64::from(self.id), bytes as u64);
            self.tell(
                |()| false,
                |filter, now, calls| filter.response_body(now, id, bytes, end, calls),
            );
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        if self.told.get() {
            let id = u64::from(self.id);
            self.tell(
                |()| false,
                |filter, now, calls| filter.ended(now, id, calls),
            );
        }
        Action::Continue
    }
}
