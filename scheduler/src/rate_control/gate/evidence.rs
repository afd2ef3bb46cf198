//! The evidence of acknowledgements for and against the hypothetical links.

use std::time::Duration;

use crate::Time;

use super::bank::{Bank, Delays, RATES, SEGMENT, index_of, rate_of};

/// The seconds in which evidence fades by a factor of e.
const FADES_S: f32 = 2.0;

/// The time for which a refutation counts: a link that changes may be slower than one refuted
/// longer ago.
const REFUTED_FOR: Duration = Duration::from_secs(1);

/// The part of the best link's share from which another link is as likely.
const ABOUT_AS_MUCH: f32 = 0.95;

/// The longest queue that tells nothing of what a pulse sent, in seconds. A poll may be late by
/// most of that, but this makes delays longer, and so refutes nothing.
const PULSE_NOTABLE_S: f32 = 0.001;

/// The most clients remembered for each link, of those whose delays fit.
const FITTERS: usize = 4;

/// The agreement of one kind of acknowledgements with a link: sums that fade.
#[derive(Clone, Copy, Debug, Default)]
struct AgreementTally {
    /// The acknowledgements that could speak for the link or against it.
    informative: f32,
    fitting: f32,
    /// The acknowledgements that came sooner than the link could have passed the packet.
    refuting: f32,
}

/// An acknowledgement, as evidence for or against each link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation<'a> {
    pub(super) client: u64,
    /// The delay that each link would have added, in seconds.
    pub(super) predicted: &'a Delays,
    /// The delay that was added, in seconds.
    pub(super) delay_s: f32,
    /// Whether little was under way to the client before the packet.
    pub(super) clean: bool,
    /// Whether the packet was sent in the last pulse.
    pub(super) in_pulse: bool,
    /// The noise of the client's delays with no queue at all, in seconds.
    pub(super) noise_s: f32,
    /// The longest queue that tells nothing, in seconds.
    pub(super) least_s: f32,
    /// The length beyond which queues are full and drop packets, in seconds.
    pub(super) clip_s: f32,
}

/// The evidence for and against each link.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    all: [AgreementTally; RATES],
    clean: [AgreementTally; RATES],
    /// The tally of what was sent in the last pulse alone.
    pulse: [AgreementTally; RATES],
    fitters: [[Option<u64>; FITTERS]; RATES],
    /// The time at which an acknowledgement last refuted each link.
    refuted_at: [Time; RATES],
}

impl Evidence {
    pub(super) fn new() -> Self {
        Self {
            all: [AgreementTally::default(); RATES],
            clean: [AgreementTally::default(); RATES],
            pulse: [AgreementTally::default(); RATES],
            fitters: [[None; FITTERS]; RATES],
            refuted_at: [Time::ZERO; RATES],
        }
    }

    /// Takes an acknowledgement into account.
    pub(super) fn add(&mut self, now: Time, bank: &Bank, seen: &Observation<'_>) {
        let Observation {
            delay_s,
            noise_s,
            least_s,
            clip_s,
            ..
        } = *seen;
        for (index, &predicted_s) in seen.predicted.iter().enumerate() {
            let noisy_s = (1.5 * SEGMENT * bank.byte_s(index)).max(2.0 * noise_s);
            let refutes = delay_s < 0.75 * predicted_s - 0.0005;
            if !refutes && predicted_s > 0.95 * clip_s {
                continue;
            }
            let in_pulse_s = noisy_s.max(least_s.min(PULSE_NOTABLE_S));
            let tells_in_pulse = seen.in_pulse && predicted_s > in_pulse_s;
            let tells = predicted_s > noisy_s.max(least_s);
            if refutes && (tells || tells_in_pulse) {
                self.refuted_at[index] = now;
            }
            if tells_in_pulse {
                self.pulse[index].informative += 1.0;
                self.pulse[index].refuting += f32::from(refutes);
            }
            if !tells {
                continue;
            }
            let fits = !refutes && delay_s < 1.25 * predicted_s + 0.001 + 2.0 * noise_s;
            let tell = |tally: &mut AgreementTally| {
                tally.informative += 1.0;
                tally.refuting += f32::from(refutes);
                tally.fitting += f32::from(fits);
            };
            tell(&mut self.all[index]);
            if seen.clean {
                tell(&mut self.clean[index]);
            }
            if fits {
                remember(&mut self.fitters[index], seen.client);
            }
        }
    }

    /// Fades all evidence but a pulse's by the `passed_s` seconds that have passed.
    pub(super) fn fade(&mut self, passed_s: f32) {
        self.scale((-passed_s / FADES_S).exp());
    }

    /// Scales all evidence but a pulse's by a factor.
    pub(super) fn scale(&mut self, factor: f32) {
        for tally in self.all.iter_mut().chain(&mut self.clean) {
            tally.informative *= factor;
            tally.fitting *= factor;
            tally.refuting *= factor;
        }
    }

    /// Returns the fastest link that acknowledgements of late refute; the shared link, if there is
    /// one, is faster.
    pub(super) fn floor(&self, now: Time) -> Option<usize> {
        self.refuted(now, REFUTED_FOR)
    }

    /// Returns the fastest link that acknowledgements refute, of which the last came within `time`.
    pub(super) fn refuted(&self, now: Time, time: Duration) -> Option<usize> {
        let refuted = |tally: &AgreementTally, least: f32| {
            tally.informative > least && tally.refuting > 0.3 * tally.informative
        };
        (0..RATES).rev().find(|&index| {
            now.since(self.refuted_at[index]) < time
                && (refuted(&self.clean[index], 4.0)
                    || refuted(&self.all[index], 8.0)
                    || refuted(&self.pulse[index], 4.0))
        })
    }

    /// Notes that a pulse begins, and forgets the evidence of the last one.
    pub(super) fn begin_pulse(&mut self) {
        self.pulse = [AgreementTally::default(); RATES];
    }

    /// Returns the link from `least` to `most` bits per second that explains the delays, if one
    /// does. It must have `needed` acknowledgements that could tell, and delays that fit, of
    /// `clients` clients or of three. Of links that explain about as much as the best, the fastest
    /// is returned: the search comes down from a rate too high as soon as a queue shows, and a rate
    /// too low hides itself.
    pub(super) fn best(&self, least: f64, most: f64, needed: f32, clients: usize) -> Option<usize> {
        let within = index_of(least)..RATES;
        let shares: Vec<(usize, f32)> = within
            .take_while(|&index| rate_of(index) <= most)
            .filter_map(|index| Some((index, self.share(index, needed, clients)?)))
            .collect();
        let best = shares.iter().map(|(_, share)| *share).fold(0.0, f32::max);
        let mut fastest = shares.into_iter().rev();
        let found = fastest.find(|(_, share)| *share >= ABOUT_AS_MUCH * best);
        found.map(|(index, _)| index)
    }

    /// Returns the share of acknowledgements that fit a link, if it explains the delays.
    fn share(&self, index: usize, needed: f32, clients: usize) -> Option<f32> {
        let all = self.all[index];
        let tally = match self.clean[index].informative >= 12.0 {
            true => self.clean[index],
            false => all,
        };
        let fitters = self.fitters[index].iter().flatten().count();
        let share = tally.fitting / tally.informative.max(1.0);
        let explains = all.informative >= needed
            && tally.refuting <= 0.08 * tally.informative
            && share > 0.6
            && fitters >= clients.min(3);
        explains.then_some(share)
    }

    /// Returns the share of acknowledgements that refute a link, for tests.
    #[cfg(test)]
    pub(super) fn refuted_share(&self, index: usize) -> f32 {
        self.all[index].refuting / self.all[index].informative.max(1.0)
    }
}

/// Puts a client in front of the clients remembered for a link.
fn remember(fitters: &mut [Option<u64>; FITTERS], client: u64) {
    let place = fitters.iter().position(|one| *one == Some(client));
    fitters[..=place.unwrap_or(FITTERS - 1)].rotate_right(1);
    fitters[0] = Some(client);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refutes_a_link_refutes_all_slower_ones() {
        let mut bank = Bank::new();
        let mut evidence = Evidence::new();
        for millis in 0..100 {
            let now = Time::from_nanos(millis * 1_000_000);
            bank.send(now, 1514, f32::INFINITY);
            let predicted = bank.predict(1514);
            let seen = Observation {
                client: millis % 5,
                predicted: &predicted,
                // What a link of 8 Mbit/s would add.
                delay_s: predicted[index_of(8e6)],
                clean: true,
                in_pulse: false,
                noise_s: 0.0,
                least_s: 0.002,
                clip_s: 0.2,
            };
            evidence.add(now, &bank, &seen);
        }
        let now = Time::from_nanos(100_000_000);
        assert_eq!(evidence.floor(now + 2 * REFUTED_FOR), None);
        let floor = evidence.floor(now).unwrap();
        assert!((4e6..8e6).contains(&rate_of(floor)), "{}", rate_of(floor));
        for slower in 0..floor {
            assert!(evidence.refuted_share(slower) > 0.3, "{slower}");
        }
        let best = evidence.best(0.0, 1e9, 25.0, 3).map(rate_of).unwrap();
        assert!((7e6..9e6).contains(&best), "{best}");
        assert_eq!(evidence.best(0.0, 6e6, 25.0, 3), None, "refuted");
        assert_eq!(evidence.best(0.0, 1e9, 1e4, 3), None, "too little");
        evidence.scale(0.01);
        assert_eq!(evidence.best(0.0, 1e9, 25.0, 3), None, "too old");
    }

    #[test]
    fn the_last_clients_are_remembered_once() {
        let mut fitters = [None; FITTERS];
        for client in [1, 1, 2, 1] {
            remember(&mut fitters, client);
        }
        assert_eq!(fitters, [Some(1), Some(2), None, None]);
        for client in 3..9 {
            remember(&mut fitters, client);
        }
        assert_eq!(fitters, [Some(8), Some(7), Some(6), Some(5)]);
    }

    /// Returns what one acknowledgement says of a link: whether it could tell, fits, and
    /// refutes.
    fn told(index: usize, predicted_s: f32, delay_s: f32, noise_s: f32, clip_s: f32) -> [f32; 3] {
        let mut evidence = Evidence::new();
        let mut predicted = [0.0; RATES];
        predicted[index] = predicted_s;
        let seen = Observation {
            client: 1,
            predicted: &predicted,
            delay_s,
            clean: false,
            in_pulse: false,
            noise_s,
            least_s: 0.002,
            clip_s,
        };
        evidence.add(Time::ZERO, &Bank::new(), &seen);
        let tally = evidence.all[index];
        [tally.informative, tally.fitting, tally.refuting]
    }

    const NOTHING: [f32; 3] = [0.0, 0.0, 0.0];
    const NEITHER: [f32; 3] = [1.0, 0.0, 0.0];
    const FITS: [f32; 3] = [1.0, 1.0, 0.0];
    const REFUTES: [f32; 3] = [1.0, 0.0, 1.0];

    #[test]
    fn only_a_delay_that_would_be_noticed_can_tell() {
        // A segment takes 30.28 ms at 0.4 Mbit/s.
        assert_eq!(told(0, 0.045, 0.045, 0.0, 1.0), NOTHING);
        assert_eq!(told(0, 0.046, 0.046, 0.0, 1.0), FITS);
        let fast = index_of(1e9);
        assert_eq!(told(fast, 0.002, 0.002, 0.0, 1.0), NOTHING);
        assert_eq!(told(fast, 0.0021, 0.0021, 0.0, 1.0), FITS);
        assert_eq!(told(fast, 0.02, 0.02, 0.01, 1.0), NOTHING);
        assert_eq!(told(fast, 0.0201, 0.0201, 0.01, 1.0), FITS);
    }

    #[test]
    fn a_delay_fits_within_a_quarter_and_refutes_below() {
        let fast = index_of(1e9);
        assert_eq!(told(fast, 0.01, 0.0069, 0.0, 1.0), REFUTES);
        assert_eq!(told(fast, 0.01, 0.75 * 0.01 - 0.0005, 0.0, 1.0), FITS);
        assert_eq!(told(fast, 0.01, 0.0134, 0.0, 1.0), FITS);
        let most_s = 1.25 * 0.01 + 0.001 + 2.0 * 0.0;
        assert_eq!(told(fast, 0.01, most_s, 0.0, 1.0), NEITHER);
        assert_eq!(told(fast, 0.01, 0.0154, 0.001, 1.0), FITS);
        assert_eq!(told(fast, 0.01, 0.0156, 0.001, 1.0), NEITHER);
    }

    #[test]
    fn a_queue_that_would_have_dropped_can_only_refute() {
        let fast = index_of(1e9);
        assert_eq!(told(fast, 0.01, 0.01, 0.0, 0.005), NOTHING);
        assert_eq!(told(fast, 0.01, 0.0, 0.0, 0.005), REFUTES);
        let longest_s = 0.95 * 0.02;
        assert_eq!(told(fast, longest_s, longest_s, 0.0, 0.02), FITS);
    }

    fn tally(informative: f32, fitting: f32, refuting: f32) -> AgreementTally {
        AgreementTally {
            informative,
            fitting,
            refuting,
        }
    }

    #[test]
    fn evidence_fades_to_a_third_in_two_seconds() {
        let mut evidence = Evidence::new();
        evidence.all[3] = tally(100.0, 10.0, 1.0);
        evidence.clean[3] = tally(1000.0, 0.0, 0.0);
        evidence.fade(2.0);
        let all = evidence.all[3];
        assert!((all.informative - 36.788).abs() < 0.001, "{all:?}");
        assert!((all.fitting - 3.6788).abs() < 0.001, "{all:?}");
        assert!((all.refuting - 0.36788).abs() < 0.001, "{all:?}");
        assert!((evidence.clean[3].informative - 367.88).abs() < 0.01);
    }

    #[test]
    fn any_kind_of_evidence_refutes_if_there_is_enough_of_it() {
        let now = Time::from_nanos(5_000_000_000);
        let floor = |all: AgreementTally, clean: AgreementTally, pulse: AgreementTally| {
            let mut evidence = Evidence::new();
            evidence.all[7] = all;
            evidence.clean[7] = clean;
            evidence.pulse[7] = pulse;
            evidence.refuted_at[7] = now;
            evidence.floor(now)
        };
        let none = AgreementTally::default();
        let sure = |informative: f32| tally(informative, 0.0, informative);
        assert_eq!(floor(none, sure(4.0), none), None);
        assert_eq!(floor(none, sure(4.1), none), Some(7));
        assert_eq!(floor(sure(8.0), none, none), None);
        assert_eq!(floor(sure(8.1), none, none), Some(7));
        assert_eq!(floor(none, none, sure(4.0)), None);
        assert_eq!(floor(none, none, sure(4.1)), Some(7));
        // More than 3 of 10.
        assert_eq!(floor(tally(20.0, 0.0, 0.3 * 20.0), none, none), None);
        assert_eq!(floor(tally(20.0, 0.0, 6.1), none, none), Some(7));
    }

    #[test]
    fn what_refuted_counts_for_a_second_and_a_pulse_begins_anew() {
        let mut evidence = Evidence::new();
        let now = Time::from_nanos(5_000_000_000);
        evidence.pulse[7] = tally(5.0, 0.0, 5.0);
        evidence.refuted_at[7] = now;
        let last = now + REFUTED_FOR - Duration::from_nanos(1);
        assert_eq!(evidence.floor(last), Some(7));
        assert_eq!(evidence.floor(now + REFUTED_FOR), None);
        evidence.begin_pulse();
        assert_eq!(evidence.floor(now), None);
    }

    #[test]
    fn what_a_pulse_sent_tells_by_shorter_queues() {
        let fast = index_of(1e9);
        let told = |predicted_s: f32, delay_s: f32, in_pulse: bool, least_s: f32| {
            let mut evidence = Evidence::new();
            let mut predicted = [0.0; RATES];
            predicted[fast] = predicted_s;
            let seen = Observation {
                client: 1,
                predicted: &predicted,
                delay_s,
                clean: true,
                in_pulse,
                noise_s: 0.0,
                least_s,
                clip_s: 1.0,
            };
            let now = Time::from_nanos(1);
            evidence.add(now, &Bank::new(), &seen);
            let pulse = evidence.pulse[fast];
            let is_refuted = evidence.refuted_at[fast] == now;
            let told = [pulse.informative, pulse.refuting];
            (told, evidence.all[fast].informative, is_refuted)
        };
        assert_eq!(told(0.0015, 0.0, true, 0.002), ([1.0, 1.0], 0.0, true));
        assert_eq!(told(0.0015, 0.0015, true, 0.002), ([1.0, 0.0], 0.0, false));
        assert_eq!(told(0.0015, 0.0, false, 0.002), ([0.0, 0.0], 0.0, false));
        assert_eq!(told(0.001, 0.0, true, 0.002), ([0.0, 0.0], 0.0, false));
        assert_eq!(told(0.0021, 0.0, true, 0.002), ([1.0, 1.0], 1.0, true));
        // Where even less tells, it does in a pulse as well.
        assert_eq!(told(0.0009, 0.0, true, 0.0005), ([1.0, 1.0], 1.0, true));
    }

    #[test]
    fn a_share_is_that_of_clean_ones_if_there_are_a_dozen() {
        let share = |all: AgreementTally, clean: AgreementTally| {
            let mut evidence = Evidence::new();
            evidence.all[7] = all;
            evidence.clean[7] = clean;
            evidence.share(7, 10.0, 0)
        };
        let none = AgreementTally::default();
        assert_eq!(
            share(tally(20.0, 0.0, 0.0), tally(12.0, 12.0, 0.0)),
            Some(1.0)
        );
        assert_eq!(share(tally(20.0, 0.0, 0.0), tally(11.9, 11.9, 0.0)), None);
        assert_eq!(share(tally(10.0, 8.0, 0.0), none), Some(0.8));
        assert_eq!(share(tally(9.9, 9.0, 0.0), none), None);
        // Six of ten are not enough.
        assert_eq!(share(tally(10.0, 6.0, 0.0), none), None);
        assert_eq!(share(tally(10.0, 6.1, 0.0), none), Some(0.61));
        // 8 of 100 may refute it.
        assert_eq!(share(tally(100.0, 80.0, 7.9), none), Some(0.8));
        assert_eq!(share(tally(100.0, 80.0, 8.1), none), None);
    }
}
