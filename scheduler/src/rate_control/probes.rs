//! The writes that are out on the link, as probes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// A write whose acknowledgement will tell how far the link has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteProbe {
    pub(super) socket: u64,
    pub(super) network: u64,
    /// The socket's bytes up to and with this write.
    pub(super) written: u64,
    /// The uplink's bytes up to and with this write.
    pub(super) position: u64,
    /// The wire bytes of the write itself, about.
    pub(super) burst: u64,
    pub(super) sent_at: Time,
}

/// The most probes. A probe is 48 bytes, and each is looked at in each poll.
const CAPACITY: usize = 512;

/// The least time between two probes, doubled for each [`CROWD`] of them
/// already out. At 0.3 ms of round trip all writes of a 10 Mbit/s link are
/// probes, at 300 ms one in about two milliseconds.
const SPACING: Duration = Duration::from_micros(100);
const CROWD: usize = 64;

/// The time after which a probe that was not acknowledged tells nothing any
/// more: the client has gone.
const LIFETIME: Duration = Duration::from_secs(3);

/// The probes beyond the frontier, in the order of their positions.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteProbes {
    ring: VecDeque<WriteProbe>,
}

impl WriteProbes {
    pub(super) fn push(&mut self, probe: WriteProbe) {
        let spacing = SPACING * (1 << (self.ring.len() / CROWD).min(8));
        let spaced = self
            .ring
            .back()
            .is_none_or(|last| probe.sent_at.since(last.sent_at) >= spacing);
        if spaced && self.ring.len() < CAPACITY {
            self.ring.push_back(probe);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<&WriteProbe> {
        self.ring.front()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &WriteProbe> {
        self.ring.iter()
    }

    /// Forgets the probes that the link has passed, and those too old.
    pub(super) fn pass(&mut self, now: Time, position: u64) {
        while let Some(first) = self.ring.front() {
            if first.position > position && now.since(first.sent_at) < LIFETIME {
                break;
            }
            self.ring.pop_front();
        }
    }

    /// Forgets the probes of a socket within the first `written` of its bytes.
    pub(super) fn drop_until(&mut self, socket: u64, written: u64) {
        self.ring
            .retain(|probe| probe.socket != socket || probe.written > written);
    }

    /// Forgets the probes of a socket that is gone.
    pub(super) fn forget(&mut self, socket: u64) {
        self.ring.retain(|probe| probe.socket != socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(socket: u64, us: u64) -> WriteProbe {
        WriteProbe {
            socket,
            network: 1,
            written: us,
            position: us,
            burst: 1,
            sent_at: Time::from_nanos(us * 1000),
        }
    }

    #[test]
    fn probes_are_further_apart_the_more_are_out() {
        let mut probes = WriteProbes::default();
        for us in [0, 99, 100, 199, 200] {
            probes.push(probe(us, us));
        }
        let sockets: Vec<u64> = probes.iter().map(|probe| probe.socket).collect();
        assert_eq!(sockets, [0, 100, 200]);
        for number in 3..64 {
            probes.push(probe(1, 100 * number));
        }
        assert_eq!(probes.iter().count(), CROWD);
        probes.push(probe(1, 6300 + 199));
        assert_eq!(probes.iter().count(), CROWD);
        probes.push(probe(1, 6300 + 200));
        assert_eq!(probes.iter().count(), CROWD + 1);
        for number in 0..600 {
            probes.push(probe(1, 30_000 * number));
        }
        assert_eq!(probes.iter().count(), CAPACITY);
    }

    #[test]
    fn those_passed_and_those_too_old_are_gone() {
        let mut probes = WriteProbes::default();
        assert!(probes.is_empty());
        for us in [1000, 2000, 3000] {
            probes.push(probe(1, us));
        }
        assert!(!probes.is_empty());
        let oldest = |probes: &WriteProbes| probes.oldest().map(|probe| probe.position);
        probes.pass(Time::ZERO, 999);
        assert_eq!(oldest(&probes), Some(1000));
        probes.pass(Time::ZERO, 1000);
        assert_eq!(oldest(&probes), Some(2000));
        let sent_at = Time::from_nanos(2_000_000);
        probes.pass(sent_at + LIFETIME - Duration::from_nanos(1), 0);
        assert_eq!(oldest(&probes), Some(2000));
        probes.pass(sent_at + LIFETIME, 0);
        assert_eq!(oldest(&probes), Some(3000));
    }

    #[test]
    fn what_is_dropped_is_one_sockets() {
        let mut probes = WriteProbes::default();
        for (socket, us) in [(1, 1000), (2, 2000), (1, 3000), (1, 4000)] {
            probes.push(probe(socket, us));
        }
        let left = |probes: &WriteProbes| probes.iter().map(|one| one.position).collect::<Vec<_>>();
        probes.drop_until(1, 3000);
        assert_eq!(left(&probes), [2000, 4000]);
        probes.forget(1);
        assert_eq!(left(&probes), [2000]);
    }
}
