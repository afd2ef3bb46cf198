//! The division of a link's rate among the instances that send on it.
//!
//! Each instance tells a store at an interval that it lives and how much it has to send, and
//! hears the same of the others. [`portion`] makes its share of that. A share shrinks at once,
//! and grows when it has been found twice: by then the instances that have to give have heard of
//! it.
//!
//! An instance that the store does not answer keeps its share for a lease, since the others know
//! of it for so long. From then on it takes an even share.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use redis::{Client, RedisError};
use sprat_config::resolved::SharedUplink as Config;
use sprat_net::background::Background;
use sprat_net::store_connection::StoreConnection;
use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::link::PacedLink;
use super::portions::portion;

/// The number of an instance's reports in the time of its lease.
const REPORTS_PER_LEASE: u32 = 3;

/// The time allowed for the store's answer; [`FAREWELL_BOUND`] is that for a farewell.
const ANSWER_BOUND: Duration = Duration::from_secs(1);
const FAREWELL_BOUND: Duration = Duration::from_millis(200);

/// The most instances that are heard of; the store forgets those beyond.
const INSTANCES_MAX: usize = 1000;

/// The store's script that notes that an instance lives, and returns what the others ask for.
/// Its clock is the store's: those of the instances may differ. `KEYS[1]` is a hash with, for
/// each instance, the time at which it is gone, in ms, and what it asks for. `ARGV` are the
/// instance, its lease in ms, what it asks for, and how many may be told of.
const REPORT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s', now + ARGV[2], ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local all, asked = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local gone, rate = string.match(all[i + 1], '^(%d+) (%d+)$')
  if not gone or tonumber(gone) <= now or (#asked >= ARGV[4] - 1 and all[i] ~= ARGV[1]) then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] ~= ARGV[1] then
    asked[#asked + 1] = rate
  end
end
return asked
";

/// A link's division: its thread, which ends when this is dropped.
pub(crate) struct Division {
    total_bits_per_s: u64,
    config: Config,
    told: Arc<Told>,
    _thread: Background,
}

/// The thread's counts of the instances, and of its failures.
struct Told {
    instances: AtomicU64,
    failures: AtomicU64,
}

/// The instances that share a link, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divided {
    /// The number of instances, this one among them.
    pub(crate) instances: u64,
    /// The number of reports that the store did not answer.
    pub(crate) failures: u64,
}

/// The division that a link is to have.
pub(crate) enum PreparedDivision {
    /// The present division goes on, or there is none.
    Same,
    /// The rate is not divided any more.
    None,
    /// The rate is divided in another way.
    Fresh(Waiting),
}

/// A division whose thread waits for the beginning; if this is dropped, the division never
/// begins.
pub(crate) struct Waiting {
    begin: oneshot::Sender<()>,
    /// The share that the instance begins with.
    share_bits_per_s: u64,
    division: Division,
}

impl Division {
    /// Prepares the division of a link's rate, in bits per second, or its end.
    ///
    /// # Errors
    ///
    /// The store's address makes no sense, or the system can start no thread.
    pub(crate) fn prepare(
        link: &Arc<PacedLink>,
        wanted: Option<(u64, &Config)>,
    ) -> io::Result<PreparedDivision> {
        let own = link.division();
        let present = own.as_ref().map(|own| (own.total_bits_per_s, &own.config));
        if present == wanted {
            return Ok(PreparedDivision::Same);
        }
        let known = own.as_ref().map(Self::status);
        drop(own);
        let Some((total, config)) = wanted else {
            return Ok(PreparedDivision::None);
        };
        let fresh = Self::start(link, total, config, known)?;
        Ok(PreparedDivision::Fresh(fresh))
    }

    /// Begins a prepared division, or ends the present one. A division that is as it was goes
    /// on.
    pub(crate) fn commit(link: &PacedLink, prepared: PreparedDivision) {
        let fresh = match prepared {
            PreparedDivision::Same => return,
            PreparedDivision::None => None,
            PreparedDivision::Fresh(fresh) => Some(fresh),
        };
        let mut own = link.division();
        *own = None;
        let Some(fresh) = fresh else {
            return;
        };
        let woken = link.change_rate(fresh.share_bits_per_s);
        *own = Some(fresh.division);
        // The thread waits for it.
        let _ = fresh.begin.send(());
        drop(own);
        woken.into_iter().for_each(Waker::wake);
    }

    fn start(
        link: &Arc<PacedLink>,
        total_bits_per_s: u64,
        config: &Config,
        known: Option<Divided>,
    ) -> io::Result<Waiting> {
        let client = Client::open(config.url.as_str()).map_err(io::Error::other)?;
        let instances = known.map_or(config.instances as u64, |known| known.instances);
        let told = Arc::new(Told {
            instances: AtomicU64::new(instances.max(1)),
            failures: AtomicU64::new(known.map_or(0, |known| known.failures)),
        });
        let share_bits_per_s = total_bits_per_s / instances.max(1);
        let member = Member {
            link: Arc::downgrade(link),
            client,
            key: config.key.clone(),
            name: format!("{:016x}", fastrand::u64(..)),
            lease: config.lease,
            total_bits_per_s,
            told: Arc::clone(&told),
        };
        let (end, ended) = oneshot::channel::<()>();
        let (begin, begun) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("division".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    // An error: it has come to nothing.
                    if begun.await.is_ok() {
                        member.live(share_bits_per_s, ended).await;
                    }
                });
            })?;
        let division = Self {
            total_bits_per_s,
            config: config.clone(),
            told,
            _thread: Background::of(thread, end),
        };
        Ok(Waiting {
            begin,
            share_bits_per_s,
            division,
        })
    }

    /// Returns what is known of the instances that share the link.
    pub(crate) fn status(&self) -> Divided {
        Divided {
            instances: self.told.instances.load(Relaxed),
            failures: self.told.failures.load(Relaxed),
        }
    }
}

/// An instance among those that share a link.
struct Member {
    link: Weak<PacedLink>,
    client: Client,
    key: String,
    /// The instance's name, which no other has: an instance that is started anew has another.
    name: String,
    lease: Duration,
    total_bits_per_s: u64,
    told: Arc<Told>,
}

impl Member {
    async fn live(self, share_bits_per_s: u64, mut ended: oneshot::Receiver<()>) {
        let mut connection = None;
        let mut share = Share::new(self.total_bits_per_s, share_bits_per_s);
        let (mut heard_at, mut is_lost) = (Instant::now(), false);
        let mut usage = Usage::default();
        while let Some(asked) = self.asked(&mut usage, share.bits_per_s) {
            let instances = self.told.instances.load(Relaxed);
            match timeout(ANSWER_BOUND, self.report(&mut connection, asked)).await {
                Ok(Ok(others)) => {
                    share.find(portion(self.total_bits_per_s, asked, &others));
                    (heard_at, is_lost) = (Instant::now(), false);
                    self.hear(others.len() as u64 + 1);
                }
                failed => {
                    connection = None;
                    self.told.failures.fetch_add(1, Relaxed);
                    if heard_at.elapsed() >= self.lease {
                        share.find(self.total_bits_per_s / instances);
                        if !std::mem::replace(&mut is_lost, true) {
                            tracing::warn!(
                                instances,
                                "the uplink's store is away ({}): an even share is taken",
                                reason(failed)
                            );
                        }
                    }
                }
            }
            if !self.apply(share.bits_per_s) {
                break;
            }
            tokio::select! {
                _ = &mut ended => break,
                () = sleep(self.lease / REPORTS_PER_LEASE) => {}
            }
        }
        let _ = timeout(FAREWELL_BOUND, self.part(connection)).await;
    }

    /// Changes the link's rate; returns whether the division goes on.
    fn apply(&self, bits_per_s: u64) -> bool {
        let Some(link) = self.link.upgrade() else {
            return false;
        };
        // Who ends a division does it under this lock, and gives the link its rate after.
        let division = link.division();
        let goes_on = (division.as_ref()).is_some_and(|own| Arc::ptr_eq(&own.told, &self.told));
        let woken = match goes_on {
            true => link.change_rate(bits_per_s),
            false => Vec::new(),
        };
        drop(division);
        woken.into_iter().for_each(Waker::wake);
        goes_on
    }

    /// Returns what the instance asks for, in bits per second: the whole rate if responses wait
    /// or it uses nine tenths of its share, and what it uses otherwise. Returns `None` if the
    /// uplink is gone.
    fn asked(&self, usage: &mut Usage, share_bits_per_s: u64) -> Option<u64> {
        let link = self.link.upgrade()?;
        let used = usage.bits_per_s(link.debited_wire_bytes());
        let is_short = link.is_backlogged() || used >= share_bits_per_s / 10 * 9;
        Some(if is_short {
            self.total_bits_per_s
        } else {
            used
        })
    }

    /// Tells the store that this instance lives; returns what each of the others asks for.
    async fn report(
        &self,
        connection: &mut Option<StoreConnection>,
        asked: u64,
    ) -> Result<Vec<u64>, RedisError> {
        let opened = match connection.take() {
            Some(opened) => opened,
            None => StoreConnection::open(&self.client).await?,
        };
        let mut eval = redis::cmd("EVAL");
        eval.arg(REPORT).arg(1).arg(&self.key).arg(&self.name);
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        eval.arg(lease_ms).arg(asked).arg(INSTANCES_MAX);
        let others: Vec<u64> = eval.query_async(&mut opened.sender()).await?;
        *connection = Some(opened);
        Ok(others)
    }

    fn hear(&self, instances: u64) {
        let before = self.told.instances.swap(instances, Relaxed);
        if before != instances {
            tracing::info!(before, instances, "others share the uplink");
        }
    }

    /// Tells the store that this instance is gone.
    async fn part(&self, connection: Option<StoreConnection>) {
        let Some(opened) = connection else { return };
        let mut part = redis::cmd("HDEL");
        part.arg(&self.key).arg(&self.name);
        // If it does not hear of it, the lease ends.
        let _ = part.query_async::<()>(&mut opened.sender()).await;
    }
}

/// Returns the reason why a report was not answered.
fn reason(failed: Result<Result<Vec<u64>, RedisError>, Elapsed>) -> String {
    match failed {
        Ok(Err(error)) => error.to_string(),
        _ => "it does not answer".to_owned(),
    }
}

/// An instance's share of the link, as it changes.
struct Share {
    /// The rate at which the instance may send.
    bits_per_s: u64,
    /// The rate that was found for the instance last.
    found_bits_per_s: u64,
    total_bits_per_s: u64,
}

impl Share {
    fn new(total_bits_per_s: u64, bits_per_s: u64) -> Self {
        Self {
            bits_per_s,
            found_bits_per_s: bits_per_s,
            total_bits_per_s,
        }
    }

    /// Takes a share that was found: a smaller one at once, a larger one when it is found again.
    fn find(&mut self, bits_per_s: u64) {
        let found = bits_per_s.clamp(1, self.total_bits_per_s.max(1));
        self.bits_per_s = found.min(self.found_bits_per_s.max(self.bits_per_s.min(found)));
        self.found_bits_per_s = found;
    }
}

/// A meter of how fast a counter of bytes rises.
#[derive(Default)]
struct Usage {
    last: Option<(Instant, u64)>,
}

impl Usage {
    /// Returns the rate since the last call, in bits per second.
    fn bits_per_s(&mut self, bytes: u64) -> u64 {
        let now = Instant::now();
        let Some((at, before)) = self.last.replace((now, bytes)) else {
            return 0;
        };
        let seconds = now.duration_since(at).as_secs_f64();
        let bits = bytes.saturating_sub(before) as f64 * 8.0;
        if seconds > 0.0 {
            (bits / seconds) as u64
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use sprat_scheduler::{Discipline, EgressPolicy, Pacer};

    use super::*;

    const TOTAL: u64 = 24_000_000;
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A `redis-server` of the test's own, on a socket, killed when this is dropped.
    struct Redis {
        child: Child,
        directory: std::path::PathBuf,
    }

    impl Redis {
        fn start() -> Self {
            let name = format!("sprat-division-{:016x}", fastrand::u64(..));
            let directory = std::env::temp_dir().join(name);
            std::fs::create_dir(&directory).unwrap();
            Self {
                child: Self::serve(&directory),
                directory,
            }
        }

        fn serve(directory: &std::path::Path) -> Child {
            let socket = directory.join("socket");
            let child = Command::new("redis-server")
                .args(["--port", "0", "--save", "", "--appendonly", "no"])
                .arg("--dir")
                .arg(directory)
                .arg("--unixsocket")
                .arg(&socket)
                .stdout(Stdio::null())
                .spawn()
                .expect("redis-server is installed by scripts/setup-test.sh");
            wait_for("the store to listen", || {
                std::os::unix::net::UnixStream::connect(&socket).is_ok()
            });
            child
        }

        fn stop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }

        fn url(&self) -> String {
            format!("unix://{}", self.directory.join("socket").display())
        }
    }

    impl Drop for Redis {
        fn drop(&mut self) {
            self.stop();
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    #[track_caller]
    fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !condition() {
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn link() -> Arc<PacedLink> {
        PacedLink::new(Pacer::new(TOTAL), EgressPolicy::new(Discipline::Srpt))
    }

    fn config(redis: &Redis) -> Config {
        Config {
            url: redis.url(),
            key: "test:uplink".to_owned(),
            lease: Duration::from_millis(600),
            instances: 4,
        }
    }

    /// Divides a link's rate from now on, or ends its division.
    fn divide(link: &Arc<PacedLink>, wanted: Option<(u64, &Config)>) {
        let prepared = Division::prepare(link, wanted).unwrap();
        Division::commit(link, prepared);
    }

    fn sharer(redis: &Redis) -> Arc<PacedLink> {
        let link = link();
        divide(&link, Some((TOTAL, &config(redis))));
        link
    }

    fn status(link: &Arc<PacedLink>) -> Divided {
        link.status().divided.unwrap()
    }

    fn wait_even(links: &[&Arc<PacedLink>], count: u64) {
        for link in links {
            wait_for("an even share", || {
                status(link).instances == count && link.rate_bits_per_s() == TOTAL / count
            });
        }
    }

    #[test]
    fn a_link_is_divided_among_those_that_live() {
        let mut redis = Redis::start();
        let first = sharer(&redis);
        wait_even(&[&first], 1);
        let (second, third) = (sharer(&redis), sharer(&redis));
        wait_even(&[&first, &second, &third], 3);
        drop(third);
        wait_even(&[&first, &second], 2);
        // One that is gone without a word: its lease ends.
        let client = Client::open(redis.url()).unwrap();
        let set = |rate: &str| {
            let mut connection = client.get_connection().unwrap();
            let until = format!("{}000 {rate}", u64::from(u32::MAX));
            let mut set = redis::cmd("HSET");
            set.arg("test:uplink").arg("silent").arg(until);
            set.query::<()>(&mut connection).unwrap();
        };
        set("24000000");
        // It asks for all, and the others for nothing.
        for link in [&first, &second] {
            wait_for("the share of one that is idle", || {
                status(link).instances == 3 && link.rate_bits_per_s() == TOTAL / 12
            });
        }
        set("nonsense");
        wait_even(&[&first, &second], 2);
        // Without the store all stays as it is, and with it, it goes on.
        redis.stop();
        let failures = status(&first).failures;
        wait_for("reports to fail", || status(&first).failures > failures + 4);
        assert_eq!(first.rate_bits_per_s(), TOTAL / 2);
        drop(second);
        let _ = std::fs::remove_file(redis.directory.join("socket"));
        redis.child = Redis::serve(&redis.directory);
        wait_even(&[&first], 1);
    }

    #[test]
    fn a_division_that_is_over_leaves_the_rate_alone() {
        let redis = Redis::start();
        let (first, _second) = (sharer(&redis), sharer(&redis));
        wait_even(&[&first], 2);
        divide(&first, Some((TOTAL, &config(&redis))));
        assert_eq!(status(&first).instances, 2);
        divide(&first, None);
        first.set_rate(TOTAL);
        assert!(first.status().divided.is_none());
        wait_even(&[&_second], 1);
        assert_eq!(first.rate_bits_per_s(), TOTAL);
    }

    #[test]
    fn a_share_shrinks_at_once_and_grows_when_it_is_found_twice() {
        let mut share = Share::new(1000, 500);
        let mut after = |found| {
            share.find(found);
            share.bits_per_s
        };
        assert_eq!(after(250), 250);
        assert_eq!(after(800), 250);
        assert_eq!(after(800), 800);
        // What holds both times.
        assert_eq!(after(400), 400);
        assert_eq!(after(600), 400);
        assert_eq!(after(900), 600);
        assert_eq!(after(300), 300);
        assert_eq!(after(0), 1);
        assert_eq!(after(5000), 1);
        assert_eq!(after(5000), 1000);
    }
}
