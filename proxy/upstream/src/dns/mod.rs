//! The names of endpoints, kept resolved.
//!
//! Each name has a task, whichever clusters use it, on one thread for all names. The task asks
//! when `Known` says so, and tells those who follow the name when its addresses have changed. No
//! request ever waits for a lookup.

mod known;
mod lookup;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Builder as Thread;
use std::time::Instant;

use anyhow::Context as _;
use sprat_config::resolved::{Cluster, Dns, EndpointAddress, LookupFamily};
use sprat_scheduler::Time;
use sprat_scheduler::health::Backoff;
use sprat_scheduler::resolution::ResolutionConfig;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use known::{Asked, Known};
use lookup::Asker;
use sprat_net::background::Background;

/// The most names that are asked for at a time.
const LOOKUPS_MAX: usize = 64;

/// The results of a lookup, in the order of [`Name::lookups`].
pub const RESULTS: [&str; 3] = ["answer", "no_address", "failure"];

/// The names that are in use.
#[derive(Default)]
pub struct Names(Mutex<InUse>);

#[derive(Default)]
struct InUse {
    names: Vec<Weak<Name>>,
    /// The thread that resolves names; `None` until there is a name.
    thread: Option<Resolving>,
}

/// The thread that the names' tasks run on, which ends when this is dropped.
struct Resolving {
    handle: Handle,
    places: Arc<Semaphore>,
    _thread: Background,
}

/// A name that is kept resolved as long as an endpoint uses it.
pub struct Name {
    host: String,
    dns: Dns,
    asker: Arc<Asker>,
    state: Mutex<State>,
    /// The signal to threads that wait for the first answer.
    first: Condvar,
    followers: Mutex<Vec<Weak<dyn Follow>>>,
    /// The number of lookups by result, in the order of [`RESULTS`].
    pub lookups: [AtomicU64; RESULTS.len()],
    task: OnceLock<AbortHandle>,
}

#[derive(Clone)]
struct State {
    asked: bool,
    addresses: Arc<[IpAddr]>,
    failures: u32,
}

/// A follower of names, which is told that a name's addresses have changed.
pub(crate) trait Follow: Send + Sync {
    /// Notes that the addresses of a name have changed.
    fn names_changed(&self);
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Name").field(&self.host).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Names {
    /// Returns a name that is resolved as `dns` says. If it is new, it is asked for from now on.
    ///
    /// # Errors
    ///
    /// The thread that resolves names cannot be started.
    pub(crate) fn get(&self, host: &str, dns: &Dns) -> anyhow::Result<Arc<Name>> {
        let mut in_use = lock(&self.0);
        in_use.names.retain(|name| name.strong_count() > 0);
        let names: Vec<_> = in_use.names.iter().filter_map(Weak::upgrade).collect();
        let same = |name: &&Arc<Name>| name.host == host && name.dns == *dns;
        if let Some(name) = names.iter().find(same) {
            return Ok(Arc::clone(name));
        }
        let mut askers = names.iter().map(|name| &name.asker);
        let asker = askers.find(|asker| asker.is_for(dns));
        let asker = asker.map_or_else(|| Arc::new(Asker::new(dns)), Arc::clone);
        let name = Arc::new(Name::new(host, dns, asker));
        let resolving = match &mut in_use.thread {
            Some(resolving) => resolving,
            none => {
                let started = Resolving::start();
                none.insert(started.context("cannot start the thread that resolves names")?)
            }
        };
        let places = Arc::clone(&resolving.places);
        let task = resolving.handle.spawn(keep(Arc::downgrade(&name), places));
        // The name is new: no other thread has set it.
        let _ = name.task.set(task.abort_handle());
        in_use.names.push(Arc::downgrade(&name));
        Ok(name)
    }
}

impl Names {
    /// Asks for all names of these clusters, and waits no longer than an answer may take. The
    /// caller keeps the names that are returned until they are used.
    ///
    /// # Errors
    ///
    /// The thread that resolves names cannot be started.
    pub fn resolve(&self, clusters: &[Arc<Cluster>]) -> anyhow::Result<Vec<Arc<Name>>> {
        let mut names = Vec::new();
        for cluster in clusters {
            for endpoint in &cluster.endpoints {
                if let EndpointAddress::Name { host, .. } = &endpoint.address {
                    names.push(self.get(host, &cluster.dns)?);
                }
            }
        }
        let longest = names.iter().map(|name| name.dns.timeout).max();
        let until = Instant::now() + longest.unwrap_or_default();
        names.iter().for_each(|name| name.wait(until));
        Ok(names)
    }
}

impl Resolving {
    fn start() -> io::Result<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let work = move || {
            // An error is the end, too.
            let _ = runtime.block_on(ended);
        };
        let thread = Thread::new().name("dns".to_owned()).spawn(work)?;
        Ok(Self {
            handle,
            places: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            _thread: Background::of(thread, end),
        })
    }
}

impl Name {
    fn new(host: &str, dns: &Dns, asker: Arc<Asker>) -> Self {
        Self {
            host: host.to_owned(),
            dns: dns.clone(),
            asker,
            state: Mutex::new(State {
                asked: false,
                addresses: Arc::default(),
                failures: 0,
            }),
            first: Condvar::new(),
            followers: Mutex::default(),
            lookups: Default::default(),
            task: OnceLock::new(),
        }
    }

    /// Returns the name as it is configured.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the name's present addresses, ascending; none until it has been resolved.
    pub fn addresses(&self) -> Arc<[IpAddr]> {
        Arc::clone(&lock(&self.state).addresses)
    }

    /// Returns how many answers in a row brought no address.
    pub fn failures(&self) -> u32 {
        lock(&self.state).failures
    }

    /// Tells a follower of changes of the addresses from now on.
    pub(crate) fn follow(&self, follower: Weak<dyn Follow>) {
        let mut followers = lock(&self.followers);
        followers.retain(|known| known.strong_count() > 0);
        followers.push(follower);
    }

    /// Waits until the name has been asked for, but no longer than `until`.
    fn wait(&self, until: Instant) {
        let state = lock(&self.state);
        let unasked = |state: &mut State| !state.asked;
        let left = until.saturating_duration_since(Instant::now());
        // Poisoned or late, it goes on without.
        drop(self.first.wait_timeout_while(state, left, unasked));
    }

    /// Publishes what is known of the name now, and tells its followers of a change.
    fn publish(&self, known: &Known, changed: bool) {
        {
            let mut state = lock(&self.state);
            state.asked = true;
            state.failures = known.failures();
            if changed {
                state.addresses = known.addresses().into();
            }
        }
        self.first.notify_all();
        if changed {
            let followers = lock(&self.followers).clone();
            for follower in followers.iter().filter_map(Weak::upgrade) {
                follower.names_changed();
            }
        }
    }

    /// Logs what an answer has changed, after `before` failures in a row. `is_part` says that
    /// one kind of address has an answer beside the error.
    fn log(&self, known: &Known, changed: bool, before: u32, error: Option<String>, is_part: bool) {
        let (name, addresses) = (&self.host, known.addresses());
        let failed = error.is_some();
        match error {
            Some(error) if before == 0 && addresses.is_empty() => {
                tracing::warn!(name, error, "a name cannot be resolved");
            }
            Some(error) if before == 0 && is_part => {
                let what = "a name's addresses of one kind cannot be looked up: the previous ones stay in use";
                tracing::warn!(name, error, ?addresses, "{what}");
            }
            Some(error) if before == 0 => {
                tracing::warn!(
                    name,
                    error,
                    "a name cannot be resolved: its previous addresses stay in use"
                );
            }
            _ if changed || (before > 0 && !failed) => {
                tracing::info!(name, ?addresses, "a name is resolved");
                if known.unused() > 0 {
                    let (unused, most) = (known.unused(), self.dns.max_addresses);
                    tracing::warn!(name, unused, most, "a name has too many addresses");
                }
            }
            _ => {}
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

/// Keeps a name resolved, until no endpoint uses it.
async fn keep(weak: Weak<Name>, places: Arc<Semaphore>) {
    let Some((host, dns, asker)) = weak.upgrade().map(|name| {
        let asker = Arc::clone(&name.asker);
        (name.host.clone(), name.dns.clone(), asker)
    }) else {
        return;
    };
    let epoch = Instant::now();
    let now = || Time::ZERO + epoch.elapsed();
    // As many answers as [`Asker::ask`] has.
    let parts = 1 + usize::from(dns.lookup_family == LookupFamily::All);
    let mut known = Known::new(now(), schedule(&dns), parts);
    loop {
        let mut changed = known.expire(now());
        if known.is_due(now()) {
            let before = known.failures();
            let Ok(place) = places.acquire().await else {
                return;
            };
            let mut asked = asker.ask(&host, dns.lookup_family).await;
            drop(place);
            let Some(name) = weak.upgrade() else { return };
            name.lookups[result(&asked)].fetch_add(1, Relaxed);
            let (error, is_part) = (asked.error.take(), asked.has_addresses());
            changed |= known.learn(now(), asked, fastrand::u64(..));
            name.log(&known, changed, before, error, is_part);
            name.publish(&known, changed);
        } else if changed {
            let Some(name) = weak.upgrade() else { return };
            tracing::warn!(name = host, "a name was not resolved for too long");
            name.publish(&known, changed);
        }
        let Some(next) = known.next_wakeup() else {
            return;
        };
        let next = epoch + next.since(Time::ZERO);
        sleep_until(next.into()).await;
    }
}

fn result(asked: &Asked) -> usize {
    match (asked.is_failure(), asked.has_addresses()) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    }
}

fn schedule(dns: &Dns) -> ResolutionConfig {
    ResolutionConfig {
        respect_ttl: dns.respect_dns_ttl,
        refresh: dns.refresh_rate,
        min_ttl: dns.min_ttl,
        max_ttl: dns.max_ttl,
        jitter_percent: dns.jitter_percent,
        failure: Backoff {
            base: dns.failure_base_interval,
            max: dns.failure_max_interval,
        },
        max_stale: dns.max_stale,
        max_addresses: dns.max_addresses,
    }
}
