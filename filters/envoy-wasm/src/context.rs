//! The host's callbacks, handed to the filter.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sprat_config::resolved;
use sprat_filter::{Filter, RequestHead, ResponseHead, Step};
use sprat_scheduler::Time;

use crate::abi::{self, Action, Head, Level};
use crate::calls::{Calls, send, warn};
use crate::fields::HostFields;

/// How often the host ticks while something waits; it comes later than that.
const TICK: Duration = Duration::from_millis(1);

thread_local! {
    /// The virtual machine, which has one thread.
    static MACHINE: RefCell<Machine> = RefCell::default();
}

/// All contexts of a virtual machine, by the host's numbers.
#[derive(Debug, Default)]
struct Machine {
    /// Configurations: each plugin's, and while one replaces another, both. None
    /// until it is configured, and if nothing is switched on.
    roots: BTreeMap<u32, Option<Worker>>,
    streams: BTreeMap<u32, Stream>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    root: u32,
    /// The filter knows of it.
    told: bool,
}

/// A worker's filter under one configuration, and the calls that it makes.
#[derive(Debug)]
struct Worker {
    filter: Filter,
    calls: Calls,
    ticking: bool,
    /// The state of the numbers drawn for requests.
    random: u64,
}

/// Under which the workers are counted.
const WORKERS: &str = "sprat.workers";

/// Attempts at counting, while other workers begin as well.
const ATTEMPTS: usize = 64;

/// How many workers there have been, with this one: what tells it from those
/// that begin at the same time. 0 if the host shares nothing.
///
/// Two of them may be the first, for what is not there yet has no version to be
/// compared. In Envoy that is the main thread's machine, before all others.
fn count_worker() -> u64 {
    for _ in 0..ATTEMPTS {
        let (value, version) = abi::shared(WORKERS);
        let before = value.and_then(|value| value.try_into().ok());
        let count = before.map_or(0, u64::from_le_bytes) + 1;
        if abi::set_shared(WORKERS, &count.to_le_bytes(), version) {
            return count;
        }
    }
    0
}

/// Nanoseconds since the epoch, the same on all workers.
fn now() -> Time {
    Time::ZERO + abi::now()
}

/// Does something with the machine; the default if the host calls from within
/// one of our own calls, which none does.
fn with<T: Default>(act: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with(|machine| match machine.try_borrow_mut() {
        Ok(mut machine) => act(&mut machine),
        Err(_) => T::default(),
    })
}

impl Worker {
    fn new(config: &resolved::Filter) -> Self {
        // There is no other source of chance in the sandbox than when this is.
        // Workers begin at the same time, or nearly: what they draw differs all
        // the same, for their counts do.
        let mut random = count_worker().rotate_left(48) ^ now().as_nanos();
        let seed = (draw(&mut random), draw(&mut random));
        let worker = draw(&mut random) | 1;
        let names = config.classes.list.iter().map(|class| class.name.clone());
        let mut calls = Calls::new(names.collect(), worker);
        Self {
            filter: Filter::new(config, seed, worker, &mut calls),
            calls,
            ticking: false,
            random,
        }
    }

    /// Tells the filter of something that has happened to a context, and sees to
    /// it that the host ticks, or calls back at once, while something waits.
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
            if abi::set_tick_period(period) {
                self.ticking = waits;
            } else {
                warn("the host does not tick: what waits, waits for another stream");
            }
        }
    }

    /// A callback of the configuration, which is about no stream: streams that
    /// are due are let go, see [`Calls::let_go`].
    fn tick(&mut self, root: u32) {
        self.calls.current = root;
        self.filter.tick(now(), &mut self.calls);
        self.calls.let_go();
        self.see_to_ticks();
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

/// Reads a configuration; none if nothing is switched on in it.
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

impl Machine {
    fn worker(&mut self, root: u32) -> Option<&mut Worker> {
        self.roots.get_mut(&root)?.as_mut()
    }

    /// The worker of a context, be it a configuration's or a stream's.
    fn worker_of(&mut self, context: u32) -> Option<&mut Worker> {
        let stream = self.streams.get(&context);
        let root = stream.map_or(context, |stream| stream.root);
        self.worker(root)
    }

    /// The worker of a stream that its filter has been told of.
    fn told(&mut self, context: u32) -> Option<&mut Worker> {
        let stream = self.streams.get(&context).filter(|stream| stream.told)?;
        let root = stream.root;
        self.worker(root)
    }
}

/// A context begins: a configuration's if it has no root, else a stream's.
pub(crate) fn created(context: u32, root: u32) {
    with(|machine| {
        if root == 0 {
            machine.roots.insert(context, None);
        } else if machine.worker(root).is_some() {
            let stream = Stream { root, told: false };
            machine.streams.insert(context, stream);
        }
    });
}

/// The host has the configuration of a root. False refuses it.
pub(crate) fn configured(root: u32) -> bool {
    match configure(abi::configuration()) {
        Ok(worker) => {
            with(|machine| machine.roots.insert(root, worker));
            true
        }
        Err(errors) => {
            abi::log(Level::Error, &errors);
            false
        }
    }
}

/// Some time has passed.
pub(crate) fn ticked(root: u32) {
    with(|machine| {
        if let Some(worker) = machine.worker(root) {
            worker.tick(root);
        }
    });
}

/// Somebody has rung: this worker itself, to be called back, or another one.
pub(crate) fn rung(root: u32, queue: u32) {
    // What is in it says nothing; it is emptied, or it would grow.
    abi::drain(queue);
    ticked(root);
}

fn client() -> Option<IpAddr> {
    let text = String::from_utf8(abi::property(&["source", "address"])?).ok()?;
    match text.parse::<SocketAddr>() {
        Ok(address) => Some(address.ip()),
        Err(_) => text.parse().ok(),
    }
}

/// A request's head has come.
pub(crate) fn request_head(context: u32) -> Action {
    let step = with(|machine| {
        let stream = machine.streams.get_mut(&context)?;
        stream.told = true;
        let root = stream.root;
        let worker = machine.worker(root)?;
        let fields = HostFields(Head::Request);
        let texts = [":method", ":authority", ":path"].map(|name| fields.text(name));
        let head = RequestHead {
            client: worker.filter.wants_client().then(client).flatten(),
            method: &texts[0],
            authority: &texts[1],
            target: &texts[2],
            fields: &fields,
            random: draw(&mut worker.random),
        };
        Some(worker.tell(context, |filter, now, calls| {
            filter.request_head(now, context.into(), &head, calls)
        }))
    });
    match step {
        None | Some(Step::Continue) => Action::Continue,
        Some(Step::Hold) => Action::Hold,
        Some(Step::Answer(answer)) if send(&answer) => Action::Hold,
        Some(Step::Answer(_)) => {
            warn("the host takes no answer: a refused request goes on");
            Action::Continue
        }
    }
}

/// Tells the filter of a part of a response, which it may hold.
fn response(context: u32, tell: impl FnOnce(&mut Filter, Time, &mut Calls) -> bool) -> Action {
    let held = with(|machine| {
        let worker = machine.told(context)?;
        let pass_or_hold = |filter: &mut Filter, now, calls: &mut Calls| {
            let held = tell(filter, now, calls);
            if !held {
                calls.has_gone(context.into());
            }
            held
        };
        Some(worker.tell(context, pass_or_hold))
    });
    match held {
        Some(true) => Action::Hold,
        Some(false) | None => Action::Continue,
    }
}

/// A response's head has come; nothing follows if it is the `end`.
pub(crate) fn response_head(context: u32, end: bool) -> Action {
    response(context, |filter, now, calls| {
        let fields = HostFields(Head::Response);
        let head = ResponseHead {
            status: fields.text(":status").parse().unwrap_or(0),
            fields: &fields,
            end,
        };
        filter.response_head(now, context.into(), &head, calls)
    })
}

/// `bytes` more of a response's body are there; nothing follows if they are the
/// `end`.
pub(crate) fn response_body(context: u32, bytes: u64, end: bool) -> Action {
    response(context, |filter, now, calls| {
        filter.response_body(now, context.into(), bytes, end, calls)
    })
}

/// The trailers of a response have come.
pub(crate) fn response_trailers(context: u32) -> Action {
    response(context, |filter, now, calls| {
        filter.response_trailers(now, context.into(), calls)
    })
}

/// The answer to a request of the filter's own is there, if it has a head; or
/// there is none. Envoy says that of the configuration's context, whichever
/// stream has asked.
pub(crate) fn call_answered(context: u32, token: u32, has_head: bool) {
    let head = HostFields(Head::CallResponse);
    let status: Option<u16> = has_head
        .then(|| head.text(":status").parse().ok())
        .flatten();
    with(|machine| {
        let Some(worker) = machine.worker_of(context) else {
            return;
        };
        worker.tell(context, |filter, now, calls| {
            let answer = status.map(|status| (status, &head as _));
            filter.probed(now, token, answer, calls);
        });
    });
}

/// A stream is over, however it ended.
pub(crate) fn done(context: u32) {
    with(|machine| {
        if let Some(worker) = machine.told(context) {
            let done = |filter: &mut Filter, now, calls: &mut Calls| {
                filter.done(now, context.into(), calls);
                calls.forget(context.into());
            };
            worker.tell(context, done);
        }
        if let Some(stream) = machine.streams.get_mut(&context) {
            stream.told = false;
        }
    });
}

/// The host forgets a context.
pub(crate) fn deleted(context: u32) {
    with(|machine| {
        machine.streams.remove(&context);
        machine.roots.remove(&context);
    });
}
