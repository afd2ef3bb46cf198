//! The layer of sizes that proxies share, in a store that speaks the Redis protocol.
//!
//! A thread of its own speaks to the store. A request hands it a question, and waits no longer than
//! the budget. What responses teach is queued, and dropped if the queue is full. After failures in
//! a row the store is left alone for a while: a store that is down or slow costs requests nothing.
//!
//! The store is not trusted: its replies are bounded, and a connection on which it has fallen
//! silent is opened anew.
//!
//! The value of a resource's key is `bytes fields`. If variants are told apart, each variant has a
//! key and a value of its own too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder as ThreadBuilder;
use std::time::Duration;

use anyhow::Context as _;
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError};
use sprat_config::resolved::SharedStore as Config;
use sprat_scheduler::Time;
use sprat_scheduler::catalogue::{Circuit, Key, Known, MAX_VARY, Resource};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use sprat_net::background::Background;
use sprat_net::problem::Problem;
use sprat_net::store_connection::StoreConnection;

/// Failures in a row after which the store is left alone.
const FAILURES_MAX: u32 = 5;

/// The most questions that wait to be sent.
const MAX_QUESTIONS: usize = 1024;

/// The most questions, or sizes, that are sent in one command.
const BATCH: usize = 128;

/// The time that the store has to write a batch of sizes.
const WRITE_BOUND: Duration = Duration::from_secs(1);

/// The bits of all fields that may tell variants apart.
const ALL_FIELDS: u8 = (1 << MAX_VARY) - 1;

/// The confidence in a size that the store has of another variant, 0 to 1.
const OTHER_VARIANT: f32 = 0.4;

/// The confidence in a size that another proxy has seen, 0 to 1.
const SHARED: f32 = 0.8;

/// The workers' end of the store: queues to the thread that speaks to it.
#[derive(Debug)]
pub(super) struct Store {
    budget: Duration,
    questions: mpsc::Sender<Question>,
    sizes: mpsc::Sender<Taught>,
    health: Arc<Health>,
}

/// The state of the circuit and the connection, and counts of writes.
#[derive(Debug)]
pub(super) struct Health {
    epoch: Instant,
    circuit: Mutex<Circuit>,
    /// Whether there is a connection; without one a request does not wait.
    connected: AtomicBool,
    written: AtomicU64,
    write_errors: AtomicU64,
    /// Sizes that were dropped: the queue was full, or the store was left alone.
    dropped: AtomicU64,
}

struct Question {
    /// The keys of the URL, and of the variant.
    keys: [Key; 2],
    answer: oneshot::Sender<Option<Told>>,
}

/// The size that the store has of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) known: Known,
    /// The fields that tell the resource's variants apart: bit `n` for the `n`-th.
    pub(super) fields: u8,
}

struct Taught {
    key: Key,
    bytes: u64,
    fields: u8,
}

impl Health {
    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    fn fail(&self, what: &dyn std::fmt::Display) {
        let now = self.now();
        let mut circuit = self.circuit();
        let was_open = circuit.is_open();
        circuit.fail(now);
        let opened = circuit.is_open() && !was_open;
        drop(circuit);
        if opened {
            tracing::warn!("the shared store of sizes is left alone for a while: {what}");
        }
    }

    fn succeed(&self) {
        let mut circuit = self.circuit();
        let was_open = circuit.is_open();
        circuit.succeed();
        drop(circuit);
        if was_open {
            tracing::info!("the shared store of sizes answers again");
        }
    }

    /// Returns the numbers of sizes written, refused by the store or lost on the way to it, and
    /// dropped.
    pub(super) fn writes(&self) -> [u64; 3] {
        [&self.written, &self.write_errors, &self.dropped].map(|count| count.load(Relaxed))
    }

    /// Returns whether the store is left alone at present.
    pub(super) fn is_open(&self) -> bool {
        self.circuit().is_open()
    }
}

/// Creates the client that speaks to the store, without a connection.
///
/// # Errors
///
/// The address makes no sense.
fn client(config: &Config) -> anyhow::Result<Client> {
    let opened = Client::open(config.url.as_str());
    opened.context("the address of the shared store (`catalogue.shared.url`)")
}

/// Returns the problem of a store's address, if there is one. The store itself need not be there.
pub(super) fn inspect(config: &Config) -> Option<Problem> {
    let error = client(config).err()?;
    let help = "an address is such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock";
    Some(Problem::at(&config.span, format!("{error:#}")).help(help))
}

impl Store {
    /// Starts the thread that speaks to the store. The store need not be there.
    ///
    /// # Errors
    ///
    /// The address makes no sense, or no thread can be had.
    pub(super) fn start(config: &Config, ttl_s: u32) -> anyhow::Result<(Self, Background)> {
        let client = client(config)?;
        let (questions, asked) = mpsc::channel(MAX_QUESTIONS);
        let (sizes, taught) = mpsc::channel(config.max_queued);
        let health = Arc::new(Health {
            epoch: Instant::now(),
            circuit: Mutex::new(Circuit::new(FAILURES_MAX, config.pause)),
            connected: AtomicBool::new(false),
            written: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let speaker = Speaker {
            client,
            prefix: config.prefix.clone(),
            ttl_s: ttl_s.max(1),
            budget: config.budget,
            health: Arc::clone(&health),
            connection: tokio::sync::Mutex::new(None),
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let speak = move || {
            runtime.block_on(async {
                tokio::select! {
                    // The sender is dropped.
                    _ = ended => {}
                    () = speaker.answer(asked) => {}
                    () = speaker.write(taught) => {}
                }
            });
        };
        let thread = ThreadBuilder::new().name("store".to_owned()).spawn(speak)?;
        let store = Self {
            budget: config.budget,
            questions,
            sizes,
            health,
        };
        Ok((store, Background::of(thread, end)))
    }

    /// Returns the state of the circuit and the connection, with the counts of writes.
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// Asks the store what it knows of a resource.
    ///
    /// # Errors
    ///
    /// The store is left alone, or does not answer within the budget.
    pub(super) async fn look_up(&self, resource: &Resource) -> Result<Option<Told>, ()> {
        if !self.health.circuit().admit(self.health.now()) {
            return Err(());
        }
        let (answer, answered) = oneshot::channel();
        let keys = [resource.url, resource.variant(ALL_FIELDS)];
        let question = Question { keys, answer };
        let connected = self.health.connected.load(Relaxed);
        self.questions.try_send(question).map_err(drop)?;
        if !connected {
            // The question has one opened; that takes longer than is waited.
            return Err(());
        }
        let answered = timeout(self.budget, answered).await;
        answered.map_err(drop)?.map_err(drop)
    }

    /// Queues a size for the store. Drops it if the queue is full, or the store is left alone.
    pub(super) fn teach(&self, resource: &Resource, bytes: u64, fields: u8) {
        let teach = |key, fields| {
            let taught = Taught { key, bytes, fields };
            if self.health.is_open() || self.sizes.try_send(taught).is_err() {
                self.health.dropped.fetch_add(1, Relaxed);
            }
        };
        teach(resource.url, fields);
        if fields != 0 {
            teach(resource.variant(ALL_FIELDS), 0);
        }
    }
}

/// The state of the thread that speaks to the store.
struct Speaker {
    client: Client,
    prefix: String,
    ttl_s: u32,
    budget: Duration,
    health: Arc<Health>,
    connection: tokio::sync::Mutex<Option<StoreConnection>>,
}

impl Speaker {
    fn name(&self, key: Key) -> String {
        format!("{}{:012x}", self.prefix, key.bits())
    }

    /// Returns the connection, opened anew if it was lost.
    async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.sender());
        }
        let opened = StoreConnection::open(&self.client).await?;
        let sender = opened.sender();
        *connection = Some(opened);
        self.health.connected.store(true, Relaxed);
        Ok(sender)
    }

    /// Notes an answer of the store, which may be an error. Returns whether the connection
    /// survives.
    async fn heard<T>(&self, answer: &Result<T, RedisError>) -> bool {
        let mut connection = self.connection.lock().await;
        match answer {
            Err(error) if error.is_io_error() || error.is_connection_dropped() => {
                self.give_up(&mut connection);
                false
            }
            _ => {
                if let Some(connection) = &mut *connection {
                    connection.answered();
                }
                true
            }
        }
    }

    /// Notes that a command sent at `since` had no answer in its time. Gives the connection up if
    /// it was silent since.
    async fn unheard(&self, since: Instant) {
        let mut connection = self.connection.lock().await;
        if (connection.as_mut()).is_some_and(|connection| connection.is_silent(since)) {
            self.give_up(&mut connection);
        }
    }

    fn give_up(&self, connection: &mut Option<StoreConnection>) {
        self.health.connected.store(false, Relaxed);
        *connection = None;
    }

    /// Answers questions, up to [`BATCH`] at a time.
    async fn answer(&self, mut asked: mpsc::Receiver<Question>) {
        let mut batch = Vec::new();
        while asked.recv_many(&mut batch, BATCH).await > 0 {
            match self.ask(&batch).await {
                Ok(answers) => {
                    for (question, pair) in batch.drain(..).zip(answers.chunks(2)) {
                        // The other end may be gone.
                        let _ = question.answer.send(told(pair));
                    }
                }
                Err(()) => batch.clear(),
            }
        }
    }

    async fn ask(&self, batch: &[Question]) -> Result<Vec<Option<String>>, ()> {
        // A question is asked even if its request waits no longer: that is how a trial ends well.
        let mut connection = self.connection().await.map_err(|e| self.health.fail(&e))?;
        let mut get = redis::cmd("MGET");
        for key in batch.iter().flat_map(|question| question.keys) {
            get.arg(self.name(key));
        }
        let asked_at = Instant::now();
        let Ok(answer) = timeout(self.budget, get.query_async(&mut connection)).await else {
            self.health
                .fail(&"it takes longer than the budget to answer");
            self.unheard(asked_at).await;
            return Err(());
        };
        self.heard(&answer).await;
        match answer {
            Ok(answers) => {
                self.health.succeed();
                Ok(answers)
            }
            Err(error) => {
                self.health.fail(&error);
                Err(())
            }
        }
    }

    /// Writes sizes to the store, up to [`BATCH`] at a time.
    async fn write(&self, mut taught: mpsc::Receiver<Taught>) {
        let mut batch = Vec::new();
        while taught.recv_many(&mut batch, BATCH).await > 0 {
            let count = batch.len() as u64;
            let counter = match self.set(&batch).await {
                Ok(()) => &self.health.written,
                Err(error) => {
                    tracing::debug!("sizes are not shared: {error:#}");
                    &self.health.write_errors
                }
            };
            counter.fetch_add(count, Relaxed);
            batch.clear();
        }
    }

    async fn set(&self, batch: &[Taught]) -> anyhow::Result<()> {
        let mut connection = self
            .connection()
            .await
            .inspect_err(|error| self.health.fail(error))?;
        let mut pipeline = redis::pipe();
        for taught in batch {
            let set = pipeline.cmd("SET").arg(self.name(taught.key));
            set.arg(format!("{} {}", taught.bytes, taught.fields));
            set.arg("EX").arg(self.ttl_s).ignore();
        }
        // A store that is full refuses to write, and can still be asked: that
        // is no failure of the store.
        let asked_at = Instant::now();
        match timeout(WRITE_BOUND, pipeline.query_async::<()>(&mut connection)).await {
            Ok(answer) => {
                if !self.heard(&answer).await
                    && let Err(error) = &answer
                {
                    self.health.fail(error);
                }
                Ok(answer?)
            }
            Err(late) => {
                self.health.fail(&"it takes too long to write");
                self.unheard(asked_at).await;
                Err(late.into())
            }
        }
    }
}

/// Combines the values of a URL and of its variant into the store's answer.
fn told(pair: &[Option<String>]) -> Option<Told> {
    let parse = |text: &Option<String>| {
        let (bytes, fields) = text.as_ref()?.split_once(' ')?;
        let (bytes, fields) = (bytes.parse::<u64>().ok()?, fields.parse::<u8>().ok()?);
        (fields <= ALL_FIELDS).then_some((bytes, fields))
    };
    let (bytes, fields) = parse(pair.first()?)?;
    let (bytes, confidence) = match pair.get(1).and_then(parse) {
        _ if fields == 0 => (bytes, SHARED),
        Some((bytes, _)) => (bytes, SHARED),
        None => (bytes, OTHER_VARIANT),
    };
    let known = Known { bytes, confidence };
    Some(Told { known, fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_whatever_others_write() {
        let of = |url: Option<&str>, variant: Option<&str>| {
            let told = told(&[url.map(str::to_owned), variant.map(str::to_owned)]);
            told.map(|told| (told.known.bytes, told.known.confidence, told.fields))
        };
        assert_eq!(of(Some("10 0"), None), Some((10, SHARED, 0)));
        assert_eq!(of(Some("10 0"), Some("20 0")), Some((10, SHARED, 0)));
        assert_eq!(of(Some("10 1"), Some("20 0")), Some((20, SHARED, 1)));
        assert_eq!(of(Some("10 1"), None), Some((10, OTHER_VARIANT, 1)));
        assert_eq!(of(None, Some("20 0")), None);
        for nonsense in ["", "10", "x 0", "10 16", "10 x", "-1 0", "10 0 0"] {
            assert_eq!(of(Some(nonsense), None), None, "{nonsense}");
        }
    }
}
