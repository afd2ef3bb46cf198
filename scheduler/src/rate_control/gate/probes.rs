//! The probes on their way, and what each link of the bank predicts for them.

use std::time::Duration;

use super::bank::Delays;
use crate::Time;

/// The bytes of one report that left the host, whose acknowledgement will say how long they took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) socket: u64,
    pub(super) network: u64,
    /// The socket's bytes up to and with the probe.
    pub(super) position: u64,
    /// The segments that the socket had sent again when the probe left.
    pub(super) repeated: u32,
    pub(super) sent_at: Time,
    /// Whether little was under way to the client before the probe.
    pub(super) is_clean: bool,
    /// Whether the probe is a burst of full segments.
    pub(super) is_big: bool,
}

/// The most probes at a time; each keeps a prediction of 576 bytes.
const CAPACITY: usize = 512;

/// The least time between two probes, doubled for each [`CROWD`] of them already out.
const SPACING: Duration = Duration::from_micros(100);
const CROWD: usize = 64;

/// The time after which a probe that was not acknowledged tells nothing any more.
const LIFETIME: Duration = Duration::from_secs(3);

/// The probes on their way, with their predictions.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeSet {
    /// The probes in the order of sending, each with the place of its prediction.
    out: Vec<(Probe, usize)>,
    predictions: Vec<Delays>,
    vacant: Vec<usize>,
    pushed_at: Option<Time>,
}

impl ProbeSet {
    /// Follows a probe that has left the host, unless too many are out or the last one is too near.
    pub(super) fn push(&mut self, probe: Probe, predict: impl FnOnce() -> Delays) {
        let spacing = SPACING * (1 << (self.out.len() / CROWD).min(8));
        let near = |at| probe.sent_at.since(at) < spacing;
        if self.out.len() >= CAPACITY || self.pushed_at.is_some_and(near) {
            return;
        }
        self.pushed_at = Some(probe.sent_at);
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.predictions[slot] = predict();
                slot
            }
            None => {
                self.predictions.push(predict());
                self.predictions.len() - 1
            }
        };
        self.out.push((probe, slot));
    }

    /// Returns the delays that the links predicted for the probe of a slot, in seconds.
    pub(super) fn predicted(&self, slot: usize) -> &Delays {
        &self.predictions[slot]
    }

    /// Frees a prediction that is no longer needed.
    pub(super) fn free(&mut self, slot: usize) {
        self.vacant.push(slot);
    }

    /// Takes out all probes of a socket up to `acked`, and returns the newest with its slot: only
    /// of the newest is it known that it arrived just now. The caller frees the slot.
    pub(super) fn acknowledge(&mut self, socket: u64, acked: u64) -> Option<(Probe, usize)> {
        let mut newest = None::<(Probe, usize)>;
        let vacant = &mut self.vacant;
        self.out.retain(|&(probe, slot)| {
            if probe.socket != socket || probe.position > acked {
                return true;
            }
            if let Some((_, older)) = newest.replace((probe, slot)) {
                vacant.push(older);
            }
            false
        });
        newest
    }

    /// Forgets the probes of a socket that is gone.
    pub(super) fn forget(&mut self, socket: u64) {
        self.drop_where(|probe| probe.socket == socket);
    }

    /// Forgets the probes that are too old.
    pub(super) fn age(&mut self, now: Time) {
        let old = |probe: &Probe| now.since(probe.sent_at) >= LIFETIME;
        if self.out.first().is_some_and(|(first, _)| old(first)) {
            self.drop_where(old);
        }
    }

    fn drop_where(&mut self, gone: impl Fn(&Probe) -> bool) {
        let vacant = &mut self.vacant;
        self.out.retain(|(probe, slot)| {
            let gone = gone(probe);
            if gone {
                vacant.push(*slot);
            }
            !gone
        });
    }

    /// Adds sockets with probes on their way, up to `most` in all. Each has its turn, for the turns
    /// go by the time.
    pub(super) fn wanted(&self, now: Time, most: usize, sockets: &mut Vec<u64>) {
        let stride = self.out.len().div_ceil(most.max(1)).max(1);
        let first = (now.as_nanos() / 1000) as usize % stride;
        for (probe, _) in self.out.iter().skip(first).step_by(stride) {
            if sockets.len() >= most {
                return;
            }
            if !sockets.contains(&probe.socket) {
                sockets.push(probe.socket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_control::gate::bank::RATES;

    fn probe(socket: u64, us: u64) -> Probe {
        Probe {
            socket,
            network: 1,
            position: us,
            repeated: 0,
            sent_at: Time::from_nanos(us * 1000),
            is_clean: true,
            is_big: true,
        }
    }

    fn push(probes: &mut ProbeSet, socket: u64, us: u64) {
        probes.push(probe(socket, us), || [0.0; RATES]);
    }

    #[test]
    fn probes_are_further_apart_the_more_are_out() {
        let mut probes = ProbeSet::default();
        for us in [0, 50, 99, 100, 199, 200] {
            push(&mut probes, us, us);
        }
        let sockets: Vec<u64> = probes.out.iter().map(|(one, _)| one.socket).collect();
        assert_eq!(sockets, [0, 100, 200]);
        for number in 3..64 {
            push(&mut probes, 1, 100 * number);
        }
        assert_eq!(probes.out.len(), CROWD);
        push(&mut probes, 1, 6300 + 199);
        assert_eq!(probes.out.len(), CROWD);
        push(&mut probes, 1, 6300 + 200);
        assert_eq!(probes.out.len(), CROWD + 1);
        for number in 1..600 {
            push(&mut probes, 1, 30_000 * number);
        }
        assert_eq!(probes.out.len(), CAPACITY);
    }

    #[test]
    fn places_of_predictions_are_used_again() {
        let mut probes = ProbeSet::default();
        push(&mut probes, 1, 1000);
        let (_, slot) = probes.acknowledge(1, 1000).unwrap();
        probes.free(slot);
        push(&mut probes, 1, 2000);
        push(&mut probes, 2, 3000);
        assert_eq!(probes.predictions.len(), 2);
        probes.forget(1);
        assert_eq!(probes.out.len(), 1);
        push(&mut probes, 1, 4000);
        assert_eq!((probes.out.len(), probes.predictions.len()), (2, 2));
        let sent_at = Time::from_nanos(3_000_000);
        probes.age(sent_at + LIFETIME - Duration::from_nanos(1));
        assert_eq!(probes.out.len(), 2);
        probes.age(sent_at + LIFETIME);
        assert_eq!(probes.out.len(), 1);
        push(&mut probes, 3, 5000);
        assert_eq!(probes.predictions.len(), 2);
    }

    #[test]
    fn each_has_its_turn_to_be_asked_about() {
        let mut probes = ProbeSet::default();
        for socket in 0..4 {
            push(&mut probes, socket, 100 * socket);
        }
        let mut wanted = Vec::new();
        for (us, turn) in [(1, [1, 3]), (2, [0, 2]), (3, [1, 3])] {
            wanted.clear();
            probes.wanted(Time::from_nanos(us * 1000), 2, &mut wanted);
            assert_eq!(wanted, turn, "{us}");
        }
    }
}
