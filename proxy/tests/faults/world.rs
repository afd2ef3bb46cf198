//! A run: the proxy, its clients and its backends, and the record of them all.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{catch_unwind, set_hook, take_hook};
use std::rc::Rc;
use std::sync::Once;
use std::time::Duration;

use sprat_config::resolved::Config;
use sprat_scheduler::WireCost;
use sprat_server::simulation::{Connecting, Simulated};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::health::Away;
use crate::plan::{self, Dial, Plan};
use crate::planted::{Plant, Planted, Way};
use crate::settings::Settings;
use crate::{backend, client, counts, health, time, wire};

/// A time longer than anything takes.
const HANGS: Duration = Duration::from_secs(3_600);

/// The bytes that a connection costs beside its segments: the SYN-ACK with its options, two ACKs
/// and the FIN.
const BARE_BYTES: u64 = 4 * 66 + 8;

/// The longest time in which no client does anything, in a run without faults. It is longer than
/// any pause, and shorter than any time-out: after a time-out the proxy looks at what waits,
/// whether that was woken or not.
const QUIET_MS: u64 = 20_000;

/// The longest time that the first bytes of a request take to the proxy.
const ON_THE_WAY_MS: u64 = 500;

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) plant: Plant,
    began: Instant,
    trace: RefCell<Vec<String>>,
    /// The time at which a client last did something.
    pub(crate) moved_ms: Cell<u64>,
    /// The faults: the time of each, and the request that it concerns, if it concerns one.
    faults: RefCell<Vec<(u64, Option<u64>)>>,
    attempts: RefCell<BTreeMap<u64, u64>>,
    /// The requests that a backend has taken, and not refused.
    taken: RefCell<BTreeSet<u64>>,
    /// The requests of whose body a backend has read a part.
    read: RefCell<BTreeSet<u64>>,
    /// Whether all faults are over.
    pub(crate) is_calm: Cell<bool>,
    /// The endpoints that have answered a probe.
    pub(crate) probed: RefCell<BTreeSet<IpAddr>>,
    dials: Cell<u64>,
    /// The events that should not have happened.
    pub(crate) wrong: RefCell<Vec<String>>,
    /// The cost of the clients' connections on the wire, in bytes.
    wire_bytes: Cell<u64>,
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) trace: Vec<String>,
    pub(crate) wrong: Vec<String>,
}

impl Outcome {
    /// Returns a hash of the trace, which is equal only if every event was.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.trace.hash(&mut hasher);
        hasher.finish()
    }
}

impl World {
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub(crate) fn trace(&self, who: &str, what: &str) {
        let line = format!("{:>7} ms  {who:<14} {what}", self.now_ms());
        self.trace.borrow_mut().push(line);
    }

    /// Notes that a client has read or written bytes.
    pub(crate) fn moved(&self, who: &str) {
        let now = self.now_ms();
        let quiet = now - self.moved_ms.replace(now);
        if self.plan.is_without_faults() && quiet > QUIET_MS {
            self.wrong(who, &format!("nothing has come for {quiet} ms"));
        }
    }

    /// Notes a fault that was planned.
    pub(crate) fn fault(&self, who: &str, id: Option<u64>, what: &str) {
        self.trace(who, &format!("FAULT {what}"));
        self.faults.borrow_mut().push((self.now_ms(), id));
    }

    /// Notes an event that should not have happened.
    pub(crate) fn wrong(&self, who: &str, what: &str) {
        self.trace(who, &format!("WRONG {what}"));
        self.wrong.borrow_mut().push(format!("{who}: {what}"));
    }

    /// Returns the present time, to mark the beginning of a request.
    pub(crate) fn mark(&self) -> u64 {
        self.now_ms()
    }

    /// Returns whether a fault explains the outcome of a request that began then.
    pub(crate) fn explains(&self, id: u64, began_ms: u64) -> bool {
        self.faults.borrow().iter().any(|&(at, whose)| match whose {
            Some(own) => own == id,
            // Of a connection, which may have been the request's.
            None => at + 5 >= began_ms,
        })
    }

    /// Returns whether a reload may have closed a connection before a request. The connection was
    /// opened at `opened_ms`, and the request could begin at `ready_ms`. A reload that drains ends
    /// a connection with its present request.
    pub(crate) fn drained(&self, opened_ms: u64, ready_ms: u64) -> bool {
        let mut reloads = self.plan.reloads.iter().filter(|reload| reload.drains);
        reloads.any(|reload| (opened_ms..=ready_ms + ON_THE_WAY_MS).contains(&reload.at_ms))
    }

    /// Returns the outcome of an attempt to connect to an endpoint.
    fn dial(&self, number: u64, to: IpAddr) -> Dial {
        match self.away(to) {
            Some(Away::Refuses) => Dial::Refused { after_ms: 1 },
            Some(Away::Unanswered) => Dial::Unanswered,
            Some(Away::Fails) => Dial::Open { after_ms: 1 },
            None if self.is_calm.get() => Dial::Open { after_ms: 1 },
            None => self.plan.dial(number),
        }
    }

    /// Returns the state of an endpoint that is away at present.
    pub(crate) fn away(&self, endpoint: IpAddr) -> Option<Away> {
        if self.plant.keeps_away(endpoint) {
            return Some(Away::Refuses);
        }
        let mut outages = self.plan.outages.iter();
        let now = self.now_ms();
        let outage = outages.find(|own| own.is_of(endpoint, now))?;
        Some(outage.how)
    }

    /// Counts an attempt at a request, and returns how many came to backends before.
    pub(crate) fn attempt(&self, id: u64) -> u64 {
        let mut attempts = self.attempts.borrow_mut();
        let count = attempts.entry(id).or_default();
        *count += 1;
        *count - 1
    }

    /// Notes that a backend takes a request. A request that is not safe may come twice only if the
    /// settings allow that.
    pub(crate) fn take(&self, who: &str, id: u64, is_safe: bool) {
        let repeated = is_safe || self.plan.all_settings().any(Settings::repeats_unsafe);
        let is_new = self.taken.borrow_mut().insert(id) && !self.plant.repeats(is_safe);
        if !is_new && !repeated {
            self.wrong(who, &format!("{id}, which may not be repeated, was"));
        }
        if self.read.borrow().contains(&id) {
            self.wrong(
                who,
                &format!("{id} was repeated when its body had been read"),
            );
        }
    }

    /// Checks the body of a request, or as much of it as came.
    pub(crate) fn uploaded(&self, who: &str, id: u64, body: &[u8], is_whole: bool) {
        if !body.is_empty() {
            self.read.borrow_mut().insert(id);
        }
        let expected = self.plan.request(id).upload;
        if body != plan::body(id, false, body.len()) {
            self.wrong(who, &format!("the body of {id} is another"));
        }
        if is_whole && expected != body.len() {
            let what = format!("of {id} came {} bytes of {expected}", body.len());
            self.wrong(who, &what);
        }
    }

    /// Adds the cost of a client's connection that is over, and on which the client took so many
    /// bytes.
    pub(crate) fn client_closed(&self, taken: u64) {
        let cost = WireCost::ETHERNET_IPV4.segment_bytes(taken) + BARE_BYTES;
        self.wire_bytes.set(self.wire_bytes.get() + cost);
    }
}

/// The proxy's wish for a connection to an endpoint.
struct Call {
    address: SocketAddr,
    answer: oneshot::Sender<io::Result<TcpStream>>,
}

/// Makes the proxy's connections end at simulated backends.
fn network(world: &Rc<World>) -> impl Fn(SocketAddr) -> Connecting + Send + Sync + 'static {
    let (caller, mut calls) = mpsc::unbounded_channel();
    let world = Rc::clone(world);
    spawn_local(async move {
        while let Some(call) = calls.recv().await {
            spawn_local(answer(Rc::clone(&world), call));
        }
    });
    move |address| {
        let (answer, answered) = oneshot::channel();
        let called = caller.send(Call { address, answer });
        Box::pin(async move {
            let gone = |_| io::Error::from(io::ErrorKind::NetworkDown);
            called.map_err(|_| io::ErrorKind::NetworkDown)?;
            answered.await.map_err(gone)?
        })
    }
}

async fn answer(world: Rc<World>, mut call: Call) {
    let number = world.dials.replace(world.dials.get() + 1);
    let name = format!("dial {number}");
    let answer = match world.dial(number, call.address.ip()) {
        Dial::Open { after_ms } => {
            sleep(Duration::from_millis(after_ms)).await;
            accept(&world, number, call.address)
        }
        Dial::Refused { after_ms } => {
            sleep(Duration::from_millis(after_ms)).await;
            world.fault(&name, None, "is refused");
            Err(io::ErrorKind::ConnectionRefused.into())
        }
        Dial::Unanswered => {
            call.answer.closed().await;
            return world.fault(&name, None, "was not answered");
        }
    };
    // Given up meanwhile.
    let _ = call.answer.send(answer);
}

fn accept(world: &Rc<World>, number: u64, address: SocketAddr) -> io::Result<TcpStream> {
    let mut rng = world.plan.rng("backend wire", number);
    let name = format!("b{number}@{}", address.ip());
    let (theirs, ours) = wire::pair(world, name.clone(), Way::ToBackend, None, &mut rng)?;
    spawn_local(backend::serve(Rc::clone(world), name, address.ip(), ours));
    Ok(theirs)
}

thread_local! {
    /// The messages of this thread's panics, while a run is on.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs the plan of a seed to its end.
pub(crate) fn run(seed: u64) -> Outcome {
    run_with(seed, None)
}

/// Runs the plan of a seed, with a planted fault that must be found.
pub(crate) fn run_with(seed: u64, planted: Option<Planted>) -> Outcome {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // The event loop catches what a task panics with, and says nothing.
        let before = take_hook();
        set_hook(Box::new(move |info| {
            PANICS.with_borrow_mut(|panics| match panics {
                Some(panics) => panics.push(info.to_string()),
                None => before(info),
            });
        }));
    });
    PANICS.set(Some(Vec::new()));
    fastrand::seed(seed);
    let ran = catch_unwind(|| time::run(simulate(seed, planted)));
    let mut outcome = Outcome::default();
    if let Ok((ended, all_ended)) = ran {
        outcome = ended;
        if !all_ended {
            outcome.wrong.push("tasks are left over".to_owned());
        }
    }
    outcome.wrong.extend(PANICS.take().into_iter().flatten());
    outcome
}

async fn simulate(seed: u64, planted: Option<Planted>) -> Outcome {
    let plan = Plan::new(seed);
    let world = Rc::new(World {
        plant: Plant::new(&plan, planted),
        plan,
        began: Instant::now(),
        trace: RefCell::default(),
        moved_ms: Cell::default(),
        faults: RefCell::default(),
        attempts: RefCell::default(),
        taken: RefCell::default(),
        read: RefCell::default(),
        is_calm: Cell::default(),
        probed: RefCell::default(),
        dials: Cell::default(),
        wrong: RefCell::default(),
        wire_bytes: Cell::default(),
    });
    let config = parsed(&world.plan.settings);
    let (proxy, workers) = Simulated::new(&config, network(&world)).unwrap();
    let workers: Vec<_> = workers.into_iter().map(spawn_local).collect();
    let proxy = Rc::new(proxy);
    let clients = world.plan.clients.iter().map(|plan| {
        let (world, proxy) = (Rc::clone(&world), Rc::clone(&proxy));
        spawn_local(client::run(world, proxy, plan.clone()))
    });
    let clients: Vec<_> = clients.collect();
    let reloading = spawn_local(reload(Rc::clone(&world), Rc::clone(&proxy)));
    for client in clients {
        bounded(&world, "a client", client).await;
    }
    bounded(&world, "a reload", reloading).await;
    health::check(&world, &proxy).await;
    proxy.control().drain();
    for worker in workers {
        bounded(&world, "a worker", worker).await;
    }
    counts::check(&world, &proxy, world.wire_bytes.get());
    drop(proxy);
    Outcome {
        trace: world.trace.take(),
        wrong: world.wrong.take(),
    }
}

fn parsed(settings: &Settings) -> Config {
    let config = sprat_config::parse(&settings.text(), "simulated", &|_| None);
    config.unwrap_or_else(|errors| panic!("{errors}")).config
}

/// Reloads the proxy with the plan's other settings, each at its time.
async fn reload(world: Rc<World>, proxy: Rc<Simulated>) {
    for plan in &world.plan.reloads {
        sleep_until(world.began + Duration::from_millis(plan.at_ms)).await;
        world.trace("reload", &format!("{:?}", plan.settings));
        if let Err(error) = proxy.reload(&parsed(&plan.settings)) {
            world.wrong("reload", &format!("{error:#}"));
        }
    }
}

/// Waits for the end of a task, which must come.
async fn bounded<T>(world: &World, what: &str, task: impl Future<Output = T>) -> Option<T> {
    let ended = timeout(HANGS, task).await.ok();
    if ended.is_none() {
        world.wrong("the end", &format!("{what} does not come to its end"));
    }
    ended
}
