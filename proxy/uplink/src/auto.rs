//! The search for the uplink's rate: a thread that asks the kernel what has left the host and
//! how far the clients have come, and sets the rate by it. The core's [`Gate`] decides; this
//! thread asks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sprat_net::sys::{TcpInfo, sent_memory, tcp_info};
use sprat_scheduler::rate_control::gate::{
    Found, Gate, GateConfig, GateSample, Gone, HostSample, Sent, Told,
};
use sprat_scheduler::{Control, Time, WireCost, Write};

use super::ledger::left;
use super::link::PacedLink;
use super::watch::Watch;

/// The time between two polls while anything is unacknowledged.
const POLL_INTERVAL: Duration = Duration::from_micros(700);

/// The longest time that the thread sleeps before it looks whether the uplink is still there.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The most sockets that are followed at a time; each costs a second descriptor while it is. A
/// socket beyond them is not evidence, and is served all the same.
const SOCKETS_MAX: usize = 1024;

/// The most sockets asked about in a poll, beside those that the gate wants to know of.
const OTHERS_MAX: usize = 32;

/// The time since its last write from which a socket is asked about in its turn: all that was
/// written to it may have arrived.
const SEEN_TO_AFTER: Duration = Duration::from_millis(50);

/// The most events that are kept between two polls; of what is over only the bytes count.
const EVENTS_MAX: usize = 4096;

/// The most writes in a row after each of which the kernel is asked about the socket, while no
/// link has been found. One more may be each [`ASK_EVERY`]. To ask after each of 20,000 a second
/// costs a tenth of the CPU time, and some of them tell delays as well.
const ASKS_MAX: u32 = 64;

/// The time after which one more of the [`ASKS_MAX`] questions may be asked.
const ASK_EVERY: Duration = Duration::from_micros(200);

/// The time within which bytes that the kernel is not asked about count as sent with those
/// before.
const TOGETHER: Duration = Duration::from_micros(100);

/// The time since its last write after which a socket with unacknowledged bytes is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The state of the search: the sockets with bytes on the way, and what has happened to them
/// since the thread last looked.
pub(crate) struct AutoRate {
    /// The number of times that a search was begun or ended: one is on while this is odd.
    searches: AtomicU64,
    /// The rate that the link is known to carry; zero if that is not known.
    effective_rate_bits_per_s: AtomicU64,
    queue_us: AtomicU64,
    /// Whether the search rests: nothing is late, and it is to be told of nothing.
    rests: AtomicBool,
    /// Whether a link has been found, whose rate all that is sent on it helps to find.
    is_engaged: AtomicBool,
    followed: Mutex<Followed>,
    written: Condvar,
}

/// A search whose thread waits for the beginning; if this is dropped, the search never begins.
pub(crate) struct PreparedSearch {
    config: GateConfig,
    /// The rate that the search begins with.
    rate_bits_per_s: u64,
    /// The sender of the search's number to its thread, which begins then.
    begin: Sender<u64>,
}

#[derive(Default)]
struct Followed {
    /// The configuration that the present search runs by, and its number; zero if there is none.
    config: GateConfig,
    search: u64,
    sockets: BTreeMap<u64, Socket>,
    /// Events of the sockets since the last poll, oldest first.
    events: Vec<(Time, Event)>,
    /// The socket at which the turns go on among those that the gate does not ask about.
    turn: u64,
    /// The time at which all of the [`ASKS_MAX`] questions may be asked again.
    asks_whole_at: Time,
}

/// An event that the gate is to be told of.
#[derive(Clone, Copy)]
enum Event {
    Wrote(Write),
    Sent(Sent),
    /// Wire bytes that count for no followed socket, such as packets without payload.
    Overhead(u64),
}

struct Socket {
    /// A duplicate of the socket's descriptor: the client may have been served, and the socket
    /// closed, before the last bytes are acknowledged.
    fd: Arc<OwnedFd>,
    network: u64,
    cost: WireCost,
    written: u64,
    written_at: Time,
    told: Told,
    /// Whether bytes were waiting in the socket when the kernel was last asked.
    is_held: bool,
}

/// A connection, and what its socket has just taken.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// The socket's number on the uplink.
    pub(super) socket: u64,
    /// The client's network, as in [`Write::network`].
    pub(super) network: u64,
    /// The bytes that the socket has taken so far.
    pub(super) written: u64,
    /// The bytes of these that the socket has just taken.
    pub(super) bytes: u64,
    pub(super) cost: WireCost,
    pub(super) fd: BorrowedFd<'a>,
    pub(super) passed_over: &'a Cell<PassedOver>,
}

/// The part of a connection's bytes that a gate was told of as they were written, while the socket
/// was not followed. Once it is, they must not be told again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassedOver {
    /// The number of the search that was told.
    search: u64,
    /// The bytes that the socket had taken by then.
    written: u64,
}

impl AutoRate {
    /// Creates a state in which nothing is known of the link, nor searched for.
    pub(crate) fn new() -> Self {
        Self {
            searches: AtomicU64::new(0),
            effective_rate_bits_per_s: AtomicU64::new(0),
            queue_us: AtomicU64::new(0),
            rests: AtomicBool::new(false),
            is_engaged: AtomicBool::new(false),
            followed: Mutex::new(Followed::default()),
            written: Condvar::new(),
        }
    }

    /// Returns the rate at which the search begins, in bits per second.
    pub(crate) fn initial_rate_bits_per_s(config: &GateConfig) -> u64 {
        Gate::new(config).control().rate_bits_per_s
    }

    /// Notes that bytes were written to a client's socket; `position` as in [`Write::position`].
    pub(super) fn on_write(&self, now: Time, position: u64, writer: &Writer<'_>) {
        if self.rests.load(Relaxed) {
            return;
        }
        if !self.is_engaged.load(Relaxed) {
            let Some(mut followed) = self.lock_while_on() else {
                return;
            };
            if !followed.may_ask(now) {
                return followed.pass_over(now, writer);
            }
        }
        // Without the lock: it is a system call.
        let Ok(info) = tcp_info(&writer.fd) else {
            return;
        };
        let Some(mut followed) = self.lock_while_on() else {
            return;
        };
        let was_idle = followed.sockets.is_empty();
        if followed.follow(now, writer, &info) {
            let write = Write {
                socket: writer.socket,
                network: writer.network,
                written: writer.written,
                position,
            };
            followed.tell(now, Event::Wrote(write));
            followed.report(now, writer.socket, &info);
        } else {
            // The link carries it, too: without, it would be taken for slower than it is.
            followed.pass_over(now, writer);
        }
        if was_idle && !followed.sockets.is_empty() {
            self.written.notify_one();
        }
    }

    /// Notes the packets without payload by which a connection is set up or ends.
    pub(crate) fn on_overhead(&self, now: Time, wire_bytes: u64) {
        if !self.rests.load(Relaxed)
            && let Some(mut followed) = self.lock_while_on()
        {
            followed.tell(now, Event::Overhead(wire_bytes));
        }
    }

    /// Returns whether a search for the rate is under way.
    pub(crate) fn is_on(&self) -> bool {
        self.searches.load(Relaxed) % 2 == 1
    }

    /// Returns whether there is a search that wants to be told of events.
    pub(super) fn is_watching(&self) -> bool {
        self.is_on() && !self.rests.load(Relaxed)
    }

    /// Returns whether the search with this number is not over.
    pub(super) fn goes_on(&self, search: u64) -> bool {
        self.searches.load(Relaxed) == search
    }

    /// Prepares a search; returns `None` if one with this configuration is on.
    ///
    /// # Errors
    ///
    /// The system can start no thread.
    pub(crate) fn prepare(
        link: &Arc<PacedLink>,
        config: GateConfig,
    ) -> io::Result<Option<PreparedSearch>> {
        let own = link.auto();
        if own.is_on() && own.lock().config == config {
            return Ok(None);
        }
        let gate = Gate::new(&config);
        let rate_bits_per_s = gate.control().rate_bits_per_s;
        let (weak, (begin, begun)) = (Arc::downgrade(link), channel());
        let wanted = config.clone();
        let thread = std::thread::Builder::new().name("uplink-rate".to_owned());
        thread.spawn(move || {
            // An error: it has come to nothing.
            if let Ok(search) = begun.recv() {
                run(&weak, search, gate, &wanted);
            }
        })?;
        Ok(Some(PreparedSearch {
            config,
            rate_bits_per_s,
            begin,
        }))
    }

    /// Begins a search in the place of the present one. Its thread ends with the uplink, or with
    /// the search.
    pub(crate) fn commit(link: &PacedLink, prepared: PreparedSearch) {
        let own = link.auto();
        own.stop();
        own.publish(&prepared.config, None);
        let search = own.begin(prepared.config);
        link.set_found_rate(search, prepared.rate_bits_per_s);
        // The thread waits for it.
        let _ = prepared.begin.send(search);
    }

    /// Notes that a search begins, and returns its number.
    fn begin(&self, config: GateConfig) -> u64 {
        let mut followed = self.lock();
        let search = self.searches.fetch_add(1, Relaxed) + 1;
        *followed = Followed {
            config,
            search,
            ..Followed::default()
        };
        search
    }

    /// Ends the search, if there is one, since the rate is given.
    pub(crate) fn stop(&self) {
        if self.is_on() {
            let mut followed = self.lock();
            self.searches.fetch_add(1, Relaxed);
            self.rests.store(false, Relaxed);
            self.is_engaged.store(false, Relaxed);
            self.queue_us.store(0, Relaxed);
            *followed = Followed::default();
        }
    }

    /// Returns the rate that the link is known to carry, in bits per second.
    pub(super) fn effective_rate_bits_per_s(&self) -> Option<u64> {
        match self.effective_rate_bits_per_s.load(Relaxed) {
            0 => None,
            rate => Some(rate),
        }
    }

    /// Returns the queue on the link behind the pacer, as a time.
    pub(super) fn queue(&self) -> Duration {
        Duration::from_micros(self.queue_us.load(Relaxed))
    }

    fn publish(&self, config: &GateConfig, found: Option<Found>) {
        let rate = found.map(|found| found.rate_bits_per_s);
        let rate = rate.or(config.named_bits_per_s).unwrap_or(0);
        let queue = found.map_or(Duration::ZERO, |found| found.queue);
        self.effective_rate_bits_per_s.store(rate, Relaxed);
        let queue_us = u64::try_from(queue.as_micros()).unwrap_or(u64::MAX);
        self.queue_us.store(queue_us, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is followed, if a search is on. A worker may have looked whether one is before
    /// it ended.
    fn lock_while_on(&self) -> Option<MutexGuard<'_, Followed>> {
        Some(self.lock()).filter(|followed| followed.search != 0)
    }

    /// Returns what is followed, if the search with this number is on.
    fn lock_of(&self, search: u64) -> Option<MutexGuard<'_, Followed>> {
        Some(self.lock()).filter(|followed| followed.search == search)
    }

    fn wait_for_writes(&self) {
        let followed = self.lock();
        let idle = |followed: &mut Followed| followed.sockets.is_empty();
        // Whether it timed out or not, the caller looks.
        drop(
            self.written
                .wait_timeout_while(followed, IDLE_INTERVAL, idle),
        );
    }

    /// Asks the kernel about the sockets that the gate wants to know of, and about some of
    /// the others. Returns `None` if the search is over.
    fn poll(&self, search: u64, gate: &mut Gate, link: &PacedLink) -> Option<Control> {
        self.tell(search, gate)?;
        let now = link.now();
        let mut wanted = Vec::new();
        gate.wanted(now, &mut wanted);
        let asked = self.lock_of(search)?.asked(now, &wanted);
        let now = link.now();
        let answers: Vec<Answer> = asked
            .iter()
            .filter_map(|(socket, fd)| Answer::of(*socket, fd))
            .collect();
        let mut followed = self.lock_of(search)?;
        for answer in &answers {
            followed.report(now, answer.socket, &answer.info);
        }
        drop(followed);
        self.tell(search, gate)?;
        let samples: Vec<GateSample> = answers.iter().map(Answer::sample).collect();
        let control = gate.on_poll(now, &samples, link.is_backlogged());
        self.lock_of(search)?.let_go(now, gate, &samples);
        Some(control)
    }

    /// Notes what a search has come to. Returns `None` if it is over.
    fn note(&self, search: u64, gate: &Gate, config: &GateConfig) -> Option<()> {
        let _followed = self.lock_of(search)?;
        self.is_engaged.store(gate.is_engaged(), Relaxed);
        self.publish(config, gate.found());
        Some(())
    }

    /// Lets the search rest: nothing is followed until [`Self::resume`]. Returns `None` if it is
    /// over.
    fn rest(&self, search: u64, gate: &mut Gate) -> Option<()> {
        let mut followed = self.lock_of(search)?;
        self.rests.store(true, Relaxed);
        let sockets = followed.forget();
        drop(followed);
        for socket in sockets.into_keys() {
            gate.on_close(socket);
        }
        Some(())
    }

    /// Ends a rest, and forgets all that was followed: a worker that wrote when the rest began may
    /// have told of it. Returns `None` if the search is over.
    fn resume(&self, search: u64) -> Option<()> {
        let mut followed = self.lock_of(search)?;
        if self.rests.load(Relaxed) {
            drop(followed.forget());
            self.rests.store(false, Relaxed);
        }
        Some(())
    }

    /// Tells a gate of the events so far. That is done without the lock, for which the workers
    /// wait. Returns `None` if the search is over.
    fn tell(&self, search: u64, gate: &mut Gate) -> Option<()> {
        let events = mem::take(&mut self.lock_of(search)?.events);
        for (at, event) in events {
            match event {
                Event::Wrote(write) => gate.on_write(at, write),
                Event::Sent(sent) => gate.on_sent(at, sent),
                Event::Overhead(wire_bytes) => gate.on_overhead(at, wire_bytes),
            }
        }
        Some(())
    }
}

impl Followed {
    /// Forgets all sockets, and returns them.
    fn forget(&mut self) -> BTreeMap<u64, Socket> {
        self.events.clear();
        mem::take(&mut self.sockets)
    }

    /// Returns whether the kernel may be asked about a socket after a write; if so, one fewer
    /// question is left.
    fn may_ask(&mut self, now: Time) -> bool {
        let whole_at = self.asks_whole_at.max(now);
        let may = whole_at.since(now) <= ASK_EVERY * (ASKS_MAX - 1);
        if may {
            self.asks_whole_at = whole_at + ASK_EVERY;
        }
        may
    }

    /// Notes what a socket has taken that is not asked about, as if it had left at once.
    fn pass_over(&mut self, now: Time, writer: &Writer<'_>) {
        let written = writer.written;
        let wire_bytes = writer.cost.segment_bytes(writer.bytes);
        if let Some(socket) = self.sockets.get_mut(&writer.socket) {
            socket.written = written;
            socket.written_at = now;
            socket.told.pass_over(wire_bytes);
        } else {
            let search = self.search;
            writer.passed_over.set(PassedOver { search, written });
        }
        match self.events.last_mut() {
            Some((at, Event::Overhead(sum))) if now.since(*at) < TOGETHER => *sum += wire_bytes,
            _ => self.tell(now, Event::Overhead(wire_bytes)),
        }
    }

    /// Notes that a socket has taken bytes; returns whether it is followed.
    fn follow(&mut self, now: Time, writer: &Writer<'_>, info: &TcpInfo) -> bool {
        if let Some(socket) = self.sockets.get_mut(&writer.socket) {
            socket.written = writer.written;
            socket.written_at = now;
            return true;
        }
        if self.sockets.len() >= SOCKETS_MAX {
            return false;
        }
        // Without a descriptor to spare it is not followed.
        let Ok(fd) = writer.fd.try_clone_to_owned() else {
            return false;
        };
        let Writer { cost, written, .. } = *writer;
        let passed_over = match writer.passed_over.get() {
            own if own.search == self.search => own.written,
            _ => 0,
        };
        let gone = gone(cost, written, info);
        let socket = Socket {
            fd: Arc::new(fd),
            network: writer.network,
            cost,
            written,
            written_at: now,
            told: Told::begin(cost, gone, written, writer.bytes, passed_over),
            is_held: false,
        };
        self.sockets.insert(writer.socket, socket);
        true
    }

    /// Notes what has left a socket since it was last asked about.
    fn report(&mut self, now: Time, socket: u64, info: &TcpInfo) {
        let Some(followed) = self.sockets.get_mut(&socket) else {
            return;
        };
        followed.is_held = info.notsent_bytes > 0;
        let gone = gone(followed.cost, followed.written, info);
        let Some(news) = followed.told.report(gone) else {
            return;
        };
        let sent = Sent {
            socket,
            network: followed.network,
            first_sent: gone.first_sent,
            bytes_acked: info.bytes_acked,
            repeated: info.total_retrans,
            news,
        };
        if self.events.len() >= EVENTS_MAX {
            followed.told.reported_as_overhead();
        }
        self.tell(now, Event::Sent(sent));
    }

    fn tell(&mut self, now: Time, event: Event) {
        if self.events.len() < EVENTS_MAX {
            return self.events.push((now, event));
        }
        let wire_bytes = match event {
            Event::Wrote(_) => return,
            Event::Sent(sent) => sent.news.wire_bytes,
            Event::Overhead(wire_bytes) => wire_bytes,
        };
        if let Some((_, Event::Overhead(sum))) = self.events.last_mut() {
            *sum += wire_bytes;
        } else {
            self.events.push((now, Event::Overhead(wire_bytes)));
        }
    }

    /// Returns the sockets to ask about: those that are wanted, then some of those that hold
    /// bytes back or were not written to of late, in turns.
    fn asked(&mut self, now: Time, wanted: &[u64]) -> Vec<(u64, Arc<OwnedFd>)> {
        let sockets = &self.sockets;
        let fd = |key: &u64| Some((*key, Arc::clone(&sockets.get(key)?.fd)));
        let mut asked: Vec<_> = wanted.iter().filter_map(fd).collect();
        let due = |socket: &Socket| socket.is_held || now.since(socket.written_at) >= SEEN_TO_AFTER;
        let others = sockets.range(self.turn..).filter(|(_, socket)| due(socket));
        let others: Vec<u64> = others.map(|(key, _)| *key).take(OTHERS_MAX).collect();
        asked.extend(
            others
                .iter()
                .filter(|key| !wanted.contains(key))
                .filter_map(fd),
        );
        self.turn = match others.last() {
            Some(last) if others.len() == OTHERS_MAX => last + 1,
            _ => 0,
        };
        asked
    }

    /// Lets go of sockets that have acknowledged everything, and of those that were not written
    /// to for [`GIVE_UP`].
    fn let_go(&mut self, now: Time, gate: &mut Gate, samples: &[GateSample]) {
        for sample in samples {
            let socket = self.sockets.get(&sample.socket);
            if socket.is_some_and(|socket| sample.bytes_acked >= socket.written) {
                self.sockets.remove(&sample.socket);
            }
        }
        self.sockets.retain(|&key, socket| {
            let keep = now.since(socket.written_at) < GIVE_UP;
            if !keep {
                gate.on_close(key);
            }
            keep
        });
    }
}

/// Returns what has left a socket that has taken `written` bytes. TCP counts a packet as sent
/// before the host's queue takes it. One that the queue refuses is counted again with each try, and
/// still among the bytes that were not sent.
fn gone(cost: WireCost, written: u64, info: &TcpInfo) -> Gone {
    let counted = info.bytes_sent.saturating_sub(info.bytes_retrans);
    let taken = written.saturating_sub(u64::from(info.notsent_bytes));
    let first_sent = counted.min(taken.max(info.bytes_acked));
    let refused = cost.segment_bytes(counted - first_sent);
    Gone {
        first_sent,
        wire_bytes: left(cost, info).saturating_sub(refused),
    }
}

/// The kernel's answers about a socket in a poll.
struct Answer {
    socket: u64,
    info: TcpInfo,
    /// The memory of packets that have been sent and are still in the host, in bytes.
    sent_memory: u32,
}

impl Answer {
    /// Asks the kernel about a socket; returns `None` if it does not tell.
    fn of(socket: u64, fd: &OwnedFd) -> Option<Self> {
        let info = tcp_info(fd).ok()?;
        // What is in the host tells nothing of a socket that holds nothing back.
        let sent_memory = match info.notsent_bytes {
            0 => 0,
            // Linux before 4.12 does not know the question.
            _ => sent_memory(fd).unwrap_or(0),
        };
        Some(Self {
            socket,
            info,
            sent_memory,
        })
    }

    fn sample(&self) -> GateSample {
        let info = &self.info;
        let min_rtt = match info.min_rtt_us {
            0 | u32::MAX => Duration::MAX,
            micros => Duration::from_micros(u64::from(micros)),
        };
        GateSample {
            socket: self.socket,
            bytes_acked: info.bytes_acked,
            min_rtt,
            repeated: info.total_retrans,
            host: HostSample {
                waiting_memory_bytes: u64::from(self.sent_memory),
                unsent_bytes: u64::from(info.notsent_bytes),
                pacing_bytes_per_s: info.pacing_rate,
                sacked_bytes: u64::from(info.sacked) * u64::from(info.snd_mss),
            },
        }
    }
}

fn run(link: &Weak<PacedLink>, search: u64, mut gate: Gate, config: &GateConfig) {
    let mut watch = config.named_bits_per_s.map(Watch::new);
    while let Some(link) = link.upgrade() {
        let Some(rest) = step(&link, search, &mut gate, config, &mut watch) else {
            return;
        };
        drop(link);
        std::thread::sleep(rest);
    }
}

/// Polls once, and does what follows. Returns the time until the next poll; `None` if the search is
/// over.
fn step(
    link: &PacedLink,
    search: u64,
    gate: &mut Gate,
    config: &GateConfig,
    watch: &mut Option<Watch>,
) -> Option<Duration> {
    let auto = link.auto();
    auto.resume(search)?;
    auto.wait_for_writes();
    let control = auto.poll(search, gate, link)?;
    if !link.set_found_rate(search, control.rate_bits_per_s) {
        return None;
    }
    auto.note(search, gate, config)?;
    let found = gate.found().map(|found| found.rate_bits_per_s);
    if let Some(watch) = watch
        && let Some(remark) = watch.on_rate(link.now(), found)
    {
        watch.say(remark);
    }
    let rest = gate.rest(link.now());
    if rest.is_some() {
        auto.rest(search, gate)?;
    }
    Some(rest.unwrap_or(POLL_INTERVAL))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use sprat_scheduler::{Discipline, EgressPolicy, Pacer};

    use super::*;

    const COST: WireCost = WireCost::ETHERNET_IPV4;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    /// Returns a state in which a search is on, the first one.
    fn searching() -> AutoRate {
        let auto = AutoRate::new();
        auto.begin(GateConfig::default());
        auto
    }

    /// Writes `bytes` to a socket, and notes them as a connection's gauge would.
    fn write(auto: &AutoRate, now: Time, key: u64, socket: &mut TcpStream, bytes: u64, all: u64) {
        socket.write_all(&vec![b'x'; bytes as usize]).unwrap();
        let writer = Writer {
            socket: key,
            network: 1,
            written: all,
            bytes,
            cost: COST,
            fd: socket.as_fd(),
            passed_over: &Cell::default(),
        };
        auto.on_write(now, all, &writer);
    }

    /// Asks about all sockets that are due, and lets go of those whose bytes have arrived.
    fn ask(auto: &AutoRate, now: Time) -> usize {
        let mut followed = auto.lock();
        let asked = followed.asked(now, &[]);
        let samples: Vec<GateSample> = asked
            .iter()
            .map(|(key, fd)| Answer::of(*key, fd).unwrap().sample())
            .collect();
        let mut gate = Gate::new(&GateConfig::default());
        followed.let_go(now, &mut gate, &samples);
        samples.len()
    }

    fn told(auto: &AutoRate) -> u64 {
        let followed = auto.lock();
        let wire_bytes = |event: &Event| match event {
            Event::Wrote(_) => 0,
            Event::Sent(sent) => sent.news.wire_bytes,
            Event::Overhead(wire_bytes) => *wire_bytes,
        };
        followed
            .events
            .iter()
            .map(|(_, event)| wire_bytes(event))
            .sum()
    }

    #[test]
    fn what_leaves_is_told_once_though_its_socket_is_let_go_of_between() {
        let auto = searching();
        let (mut socket, mut client) = connected();
        let mut all = 0;
        for turn in 1..=5 {
            all += 1000;
            write(&auto, ms(100 * turn), 1, &mut socket, 1000, all);
            client.read_exact(&mut [0; 1000]).unwrap();
            // Its acknowledgement may take a moment.
            while !auto.lock().sockets.is_empty() {
                ask(&auto, ms(100 * turn + 60));
            }
        }
        assert_eq!(told(&auto), 5 * COST.segment_bytes(1000));
    }

    /// Checks that what a socket has taken is told once, whether it was asked about or not.
    #[test]
    fn of_many_writes_some_are_asked_about_and_all_are_told() {
        let auto = searching();
        let (mut socket, mut client) = connected();
        let mut all = 0;
        let wrote = |auto: &AutoRate| {
            let events = &auto.lock().events;
            let is_write = |(_, event): &&(Time, Event)| matches!(event, Event::Wrote(_));
            events.iter().filter(is_write).count()
        };
        let mut write_each = |auto: &AutoRate, us: u64, times: u64, began: Time| {
            for number in 0..times {
                all += 1000;
                let now = began + Duration::from_micros(us * number);
                write(auto, now, 1, &mut socket, 1000, all);
                client.read_exact(&mut [0; 1000]).unwrap();
            }
        };
        write_each(&auto, 0, 200, ms(1));
        assert_eq!(wrote(&auto), ASKS_MAX as usize);
        write_each(&auto, 50, 100, ms(2));
        // 5 have come back in the millisecond between, and 24 come back in 5 ms.
        assert_eq!(wrote(&auto), ASKS_MAX as usize + 5 + 24);
        // Once a link is found, all of them are.
        auto.is_engaged.store(true, Relaxed);
        write_each(&auto, 0, 100, ms(10));
        assert_eq!(wrote(&auto), ASKS_MAX as usize + 5 + 24 + 100);
        assert_eq!(told(&auto), 400 * COST.segment_bytes(1000));
    }

    #[test]
    fn sockets_that_have_nothing_on_the_way_do_not_fill_the_table() {
        let auto = searching();
        let mut pairs: Vec<_> = (0..80).map(|_| connected()).collect();
        for (key, (socket, client)) in (0_u32..).zip(&mut pairs) {
            let now = Time::ZERO + key * ASK_EVERY;
            write(&auto, now, key.into(), socket, 100, 100);
            client.read_exact(&mut [0; 100]).unwrap();
        }
        assert_eq!(ask(&auto, ms(40)), 0, "the gate may still ask about them");
        let mut turns = 0;
        while !auto.lock().sockets.is_empty() {
            assert!(ask(&auto, ms(80)) <= OTHERS_MAX);
            turns += 1;
            assert!(turns < 10_000);
        }
        assert!(turns >= 3, "so many at a time");
    }

    #[test]
    fn what_a_socket_that_is_not_followed_takes_is_told() {
        let auto = searching();
        let (mut socket, _client) = connected();
        let fd = Arc::new(socket.as_fd().try_clone_to_owned().unwrap());
        for key in 0..SOCKETS_MAX as u64 {
            let own = Socket {
                fd: Arc::clone(&fd),
                network: 1,
                cost: COST,
                written: 1,
                written_at: ms(1),
                told: Told::default(),
                is_held: false,
            };
            auto.lock().sockets.insert(key, own);
        }
        let key = SOCKETS_MAX as u64;
        write(&auto, ms(1), key, &mut socket, 1000, 1000);
        assert!(!auto.lock().sockets.contains_key(&key));
        assert_eq!(told(&auto), COST.segment_bytes(1000));
    }

    /// Fills a socket, tells a search of what it has taken, and follows the socket until all has
    /// arrived, in that search or in another. Returns the part of these bytes that was told then.
    fn told_again(in_another: bool) -> f64 {
        let auto = searching();
        let (mut socket, mut client) = connected();
        let mut all = 0;
        socket.set_nonblocking(true).unwrap();
        while let Ok(bytes) = socket.write(&[b'x'; 1 << 16]) {
            all += bytes as u64;
        }
        let passed_over = Cell::default();
        let writer = |bytes: u64| Writer {
            socket: 1,
            network: 1,
            written: all,
            bytes,
            cost: COST,
            fd: socket.as_fd(),
            passed_over: &passed_over,
        };
        auto.lock().pass_over(ms(1), &writer(all));
        let mut told_before = told(&auto);
        assert_eq!(told_before, COST.segment_bytes(all));
        if in_another {
            auto.stop();
            auto.begin(GateConfig::default());
            told_before = 0;
        }
        auto.on_write(ms(2), all, &writer(0));
        client.read_exact(&mut vec![0; all as usize]).unwrap();
        // The last acknowledgement may take a moment.
        while !auto.lock().sockets.is_empty() {
            let info = tcp_info(&socket).unwrap();
            auto.lock().report(ms(60), 1, &info);
            ask(&auto, ms(60));
        }
        (told(&auto) - told_before) as f64 / all as f64
    }

    #[test]
    fn what_was_told_as_it_was_written_is_not_told_again_when_it_leaves() {
        // While the client does not read, TCP probes its window, and may send a segment again.
        let again = told_again(false);
        assert!(again < 0.05, "{again}");
        // Another search was told nothing.
        let again = told_again(true);
        assert!(again > 0.5, "{again}");
    }

    #[test]
    fn what_the_hosts_queue_refuses_has_not_left() {
        let left = |bytes_sent: u64, notsent_bytes: u32, bytes_retrans: u64| {
            let info = TcpInfo {
                bytes_sent,
                notsent_bytes,
                bytes_retrans,
                ..TcpInfo::default()
            };
            gone(COST, 14_480, &info)
        };
        let sent = left(5_792, 8_688, 0);
        assert_eq!(sent.first_sent, 5_792);
        // Two segments were refused, twice.
        assert_eq!(left(5_792 + 2 * 2_896, 8_688, 0), sent);
        let again = left(5_792 + 1_448, 8_688, 1_448);
        assert_eq!(again.first_sent, 5_792);
        assert_eq!(
            again.wire_bytes,
            sent.wire_bytes + COST.segment_bytes(1_448)
        );
        // A writer that has not told yet what the socket has taken.
        assert_eq!(left(14_480, 14_480, 0).first_sent, 0);
    }

    #[test]
    fn while_it_rests_nothing_is_followed() {
        let auto = searching();
        let mut gate = Gate::new(&GateConfig::default());
        let (mut socket, _client) = connected();
        write(&auto, ms(0), 1, &mut socket, 100, 100);
        auto.rest(1, &mut gate).unwrap();
        write(&auto, ms(1), 1, &mut socket, 100, 200);
        auto.on_overhead(ms(1), 66);
        let is_empty = || {
            let followed = auto.lock();
            followed.sockets.is_empty() && followed.events.is_empty()
        };
        assert!(is_empty());
        // A worker had begun to tell when the rest began.
        auto.lock().tell(ms(1), Event::Overhead(66));
        auto.resume(1).unwrap();
        assert!(is_empty());
        write(&auto, ms(2), 1, &mut socket, 100, 300);
        assert!(!is_empty());
    }

    #[test]
    fn where_no_search_is_on_nothing_is_followed() {
        let auto = searching();
        let (mut socket, _client) = connected();
        auto.stop();
        // A worker had seen that one is on.
        write(&auto, ms(1), 1, &mut socket, 100, 100);
        auto.on_overhead(ms(1), 66);
        let followed = auto.lock();
        assert!(followed.sockets.is_empty() && followed.events.is_empty());
    }

    #[test]
    fn a_search_that_is_over_hears_nothing_and_changes_nothing() {
        let auto = searching();
        let mut gate = Gate::new(&GateConfig::default());
        let (mut socket, _client) = connected();
        auto.stop();
        auto.begin(GateConfig::default());
        write(&auto, ms(1), 1, &mut socket, 100, 100);
        let events = auto.lock().events.len();
        assert_eq!(auto.tell(1, &mut gate), None);
        assert_eq!(auto.rest(1, &mut gate), None);
        assert_eq!(auto.note(1, &gate, &GateConfig::default()), None);
        assert!(auto.is_watching());
        let followed = auto.lock();
        assert_eq!((followed.sockets.len(), followed.events.len()), (1, events));
        assert!(events >= 1);
    }

    #[test]
    fn a_socket_that_holds_bytes_back_is_asked_about_at_once() {
        let auto = searching();
        let (mut socket, _client) = connected();
        socket.set_nonblocking(true).unwrap();
        let mut all = 0;
        while let Ok(bytes) = socket.write(&[b'x'; 1 << 16]) {
            all += bytes as u64;
        }
        write(&auto, ms(0), 1, &mut socket, 0, all);
        assert_eq!(ask(&auto, ms(0)), 1);
        assert_eq!(auto.lock().sockets.len(), 1, "not all has arrived");
    }

    #[test]
    fn events_are_bounded_and_their_bytes_are_not_lost() {
        let auto = searching();
        for event in 0..3 * EVENTS_MAX as u64 {
            auto.on_overhead(ms(event), 66);
        }
        assert!(auto.lock().events.len() <= EVENTS_MAX + 1);
        assert_eq!(told(&auto), 3 * EVENTS_MAX as u64 * 66);
    }

    /// Begins a search, unless one with this configuration is on.
    fn begin_search(link: &Arc<PacedLink>, config: GateConfig) {
        if let Some(prepared) = AutoRate::prepare(link, config).unwrap() {
            AutoRate::commit(link, prepared);
        }
    }

    #[test]
    fn a_search_that_comes_to_nothing_leaves_the_present_one_alone() {
        let link = PacedLink::new(Pacer::exact(8_000_000), EgressPolicy::new(Discipline::Srpt));
        begin_search(&link, GateConfig::default());
        let number = link.auto().searches.load(Relaxed);
        let named = GateConfig {
            named_bits_per_s: Some(20_000_000),
        };
        let prepared = AutoRate::prepare(&link, named.clone()).unwrap();
        assert!(prepared.is_some());
        drop(prepared);
        assert!(link.set_found_rate(number, 9_000_000), "it goes on");
        assert!(
            AutoRate::prepare(&link, GateConfig::default())
                .unwrap()
                .is_none()
        );
        begin_search(&link, named);
        assert!(!link.set_found_rate(number, 9_000_000), "another is on");
    }

    #[test]
    fn a_search_that_is_over_does_not_change_a_rate_that_is_given() {
        let link = PacedLink::new(
            Pacer::exact(8_000_000),
            EgressPolicy {
                max_flows: 8,
                ..EgressPolicy::new(Discipline::Srpt)
            },
        );
        // The thread asks for no rate within a second, for nothing is written.
        begin_search(&link, GateConfig::default());
        let search = link.auto().searches.load(Relaxed);
        assert_eq!(link.status().rate_bits_per_s, None, "nothing is held back");
        assert!(link.set_found_rate(search, 9_000_000));
        assert_eq!(link.rate_bits_per_s(), 9_000_000);
        link.auto().stop();
        link.set_rate(20_000_000);
        // The thread has asked the kernel before, and comes with the answer now.
        assert!(!link.set_found_rate(search, 5_000_000));
        assert_eq!(link.status().rate_bits_per_s, Some(20_000_000));
        assert_eq!(link.rate_bits_per_s(), 20_000_000);
        let named = GateConfig {
            named_bits_per_s: Some(20_000_000),
        };
        begin_search(&link, named.clone());
        assert!(!link.set_found_rate(search, 5_000_000), "another is on");
        let search = link.auto().searches.load(Relaxed);
        assert_eq!(link.status().effective_rate_bits_per_s, Some(20_000_000));
        begin_search(&link, named);
        assert!(link.set_found_rate(search, 19_000_000), "it goes on");
        assert_eq!(link.rate_bits_per_s(), 19_000_000);
    }
}
