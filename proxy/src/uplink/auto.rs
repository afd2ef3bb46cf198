//! `rate: auto`: asks the kernel how far the clients have come, and sets the
//! uplink's rate by it. The core's [`RateControl`] decides; this thread asks.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sprat_scheduler::{Control, RateControl, RateControlConfig, SocketSample, Time, Write};

use super::link::PacedLink;
use crate::sys::tcp_info;

/// Between two polls while anything is unacknowledged.
const POLL_INTERVAL: Duration = Duration::from_micros(700);

/// How long the thread sleeps at most before it looks whether the uplink is
/// still there.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Sockets followed at a time; each costs a second descriptor while it is. A
/// socket beyond them is not evidence, and is served all the same.
const SOCKETS_MAX: usize = 1024;

/// A socket that has acknowledged nothing for so long is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The sockets with bytes on the way, and what their clients' acknowledgements
/// have told.
pub(crate) struct AutoRate {
    /// Counts up each time that a search is begun or ended: one is on while
    /// it is odd.
    searches: AtomicU64,
    followed: Mutex<Followed>,
    written: Condvar,
}

struct Followed {
    control: RateControl,
    sockets: HashMap<u64, Socket>,
}

struct Socket {
    /// A duplicate: the client may have been served, and the socket closed,
    /// before the last bytes are acknowledged.
    fd: Arc<OwnedFd>,
    written: u64,
    written_at: Time,
}

impl AutoRate {
    /// Nothing is known of the link, nor searched for.
    pub(crate) fn new() -> Self {
        Self {
            searches: AtomicU64::new(0),
            followed: Mutex::new(Followed {
                control: RateControl::new(RateControlConfig::default()),
                sockets: HashMap::new(),
            }),
            written: Condvar::new(),
        }
    }

    /// Where the search begins, in bits per second.
    pub(crate) fn initial_rate_bits_per_s() -> u64 {
        RateControlConfig::default().initial_rate_bits_per_s
    }

    /// Bytes were written to a client's socket.
    pub(crate) fn on_write(&self, now: Time, write: Write, fd: BorrowedFd<'_>) {
        let mut followed = self.lock();
        let room = followed.sockets.len() < SOCKETS_MAX;
        match followed.sockets.get_mut(&write.socket) {
            Some(socket) => {
                socket.written = write.written;
                socket.written_at = now;
            }
            None if room => {
                // Without a descriptor to spare it is not followed.
                let Ok(fd) = fd.try_clone_to_owned() else {
                    return;
                };
                let socket = Socket {
                    fd: Arc::new(fd),
                    written: write.written,
                    written_at: now,
                };
                followed.sockets.insert(write.socket, socket);
                self.written.notify_one();
            }
            None => return,
        }
        followed.control.on_write(now, write);
    }

    /// Whether the rate is being searched for.
    pub(crate) fn is_on(&self) -> bool {
        self.searches.load(Relaxed) % 2 == 1
    }

    /// Whether the search with this number is not over.
    pub(super) fn goes_on(&self, search: u64) -> bool {
        // The thread may be here before its number is.
        self.searches.load(Relaxed) <= search
    }

    /// Starts the thread that asks, if there is none; it ends with the uplink,
    /// or the search. The search begins at the present rate.
    pub(crate) fn start(link: &Arc<PacedLink>, rate_bits_per_s: u64) -> std::io::Result<()> {
        let own = link.auto();
        if own.is_on() {
            return Ok(());
        }
        own.lock().control = RateControl::new(RateControlConfig {
            initial_rate_bits_per_s: rate_bits_per_s,
            ..RateControlConfig::default()
        });
        let search = own.searches.load(Relaxed) + 1;
        let link = Arc::downgrade(link);
        let thread = std::thread::Builder::new().name("uplink-rate".to_owned());
        thread.spawn(move || run(&link, search))?;
        own.searches.store(search, Relaxed);
        Ok(())
    }

    /// Ends the search, if there is one: the rate is given.
    pub(crate) fn stop(&self) {
        if self.is_on() {
            self.searches.fetch_add(1, Relaxed);
            self.lock().sockets.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Asks the kernel about the sockets that the controller wants to know of.
    fn poll(&self, now: Time, backlogged: bool) -> Control {
        let wanted = self.wanted(now);
        let samples: Vec<SocketSample> = wanted
            .iter()
            .filter_map(|(socket, fd)| sample(*socket, fd))
            .collect();
        let mut followed = self.lock();
        let control = followed.control.on_poll(now, &samples, backlogged);
        for sample in &samples {
            let socket = followed.sockets.get(&sample.socket);
            if socket.is_some_and(|socket| sample.bytes_acked >= socket.written) {
                followed.sockets.remove(&sample.socket);
            }
        }
        followed.give_up(now);
        control
    }

    fn wanted(&self, now: Time) -> Vec<(u64, Arc<OwnedFd>)> {
        let mut keys = Vec::new();
        let followed = self.lock();
        followed.control.wanted(now, &mut keys);
        let fd = |key| Some((key, Arc::clone(&followed.sockets.get(&key)?.fd)));
        keys.into_iter().filter_map(fd).collect()
    }
}

impl Followed {
    fn give_up(&mut self, now: Time) {
        let control = &mut self.control;
        self.sockets.retain(|&key, socket| {
            let keep = now.since(socket.written_at) < GIVE_UP;
            if !keep {
                control.on_close(key);
            }
            keep
        });
    }
}

fn sample(socket: u64, fd: &OwnedFd) -> Option<SocketSample> {
    let info = tcp_info(fd.as_fd()).ok()?;
    let min_rtt = match info.min_rtt_us {
        0 | u32::MAX => Duration::MAX,
        micros => Duration::from_micros(u64::from(micros)),
    };
    Some(SocketSample {
        socket,
        bytes_acked: info.bytes_acked,
        min_rtt,
    })
}

fn run(link: &Weak<PacedLink>, search: u64) {
    while let Some(link) = link.upgrade() {
        let auto = link.auto();
        auto.wait_for_writes();
        let control = auto.poll(link.now(), link.is_backlogged());
        if !link.set_found_rate(search, control.rate_bits_per_s) {
            return;
        }
        drop(link);
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use sprat_scheduler::{Discipline, EgressConfig, Pacer};

    use super::*;

    #[test]
    fn a_search_that_is_over_does_not_change_a_rate_that_is_given() {
        let link = PacedLink::new(EgressConfig {
            discipline: Discipline::Srpt,
            pacer: Pacer::exact(8_000_000),
            max_flows: 8,
            guard_factor: 4.0,
            classes: Vec::new(),
        });
        // The thread asks for no rate within a second, for nothing is written.
        AutoRate::start(&link, 8_000_000).unwrap();
        let search = link.auto().searches.load(Relaxed);
        assert!(link.set_found_rate(search, 9_000_000));
        assert_eq!(link.status().rate_bits_per_s, 9_000_000);
        link.auto().stop();
        link.set_rate(20_000_000);
        // The thread has asked the kernel before, and comes with the answer now.
        assert!(!link.set_found_rate(search, 5_000_000));
        assert_eq!(link.status().rate_bits_per_s, 20_000_000);
        assert_eq!(link.rate_bits_per_s(), 20_000_000);
        AutoRate::start(&link, 20_000_000).unwrap();
        assert!(!link.set_found_rate(search, 5_000_000), "another is on");
        let search = link.auto().searches.load(Relaxed);
        assert!(link.set_found_rate(search, 21_000_000));
        assert_eq!(link.rate_bits_per_s(), 21_000_000);
    }
}
