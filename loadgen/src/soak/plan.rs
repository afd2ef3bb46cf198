//! The requests of a soak, each made from the seed and its number.

use crate::workload::Dice;

/// The mix of requests, which a seed decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The seed: with it and its number, a request is always the same.
    pub seed: u64,
    /// The largest body, in bytes.
    pub largest: u64,
    /// Whether the mix has requests whose first attempt is reset, and which must be answered all
    /// the same.
    pub retries: bool,
}

/// The protocol and connection that a request travels by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Travel {
    /// HTTP/1.1 on a connection that is kept.
    Keep,
    /// HTTP/1.1 on a connection of its own.
    Close,
    /// A stream of HTTP/2.
    Stream,
}

/// The result that a request must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedResult {
    /// The whole body, to the byte.
    Whole,
    /// This status, and no body.
    Bodiless(u16),
    /// The upstream fails: an error, or a body that is cut and was right so far.
    Failure,
}

/// The moment at which the client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// The client leaves without waiting for the head.
    BeforeHead,
    /// The client leaves after so many bytes of the body.
    InBody(u64),
}

/// One request of the soak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) head_only: bool,
    /// Whether the request asks for trailers, which must then come.
    pub(super) trailers: bool,
    pub(super) travel: Travel,
    pub(super) expected: ExpectedResult,
    pub(super) leave: Option<Leave>,
    /// Whether the client that leaves resets its connection.
    pub(super) reset: bool,
}

impl Mix {
    /// Returns the request number `index`.
    pub(super) fn ask(&self, index: u64) -> Ask {
        let mut dice = Dice::new(self.seed.rotate_left(32) ^ index);
        let bytes = self.size(&mut dice);
        let mut ask = Ask {
            path: String::new(),
            bytes,
            head_only: false,
            trailers: false,
            travel: match dice.below(100) {
                0..40 => Travel::Keep,
                40..55 => Travel::Close,
                _ => Travel::Stream,
            },
            expected: ExpectedResult::Whole,
            leave: None,
            reset: dice.below(2) == 0,
        };
        let mut knobs = Vec::new();
        match dice.below(1000) {
            0..20 => ask.head_only = true,
            20..30 => {
                let status = if dice.below(2) == 0 { 204 } else { 304 };
                ask.expected = ExpectedResult::Bodiless(status);
                knobs.push(format!("status={status}"));
            }
            30..60 => {
                const FAULTS: [&str; 4] = [
                    "fault=reset_head",
                    "fault=reset_body",
                    "fault=short",
                    "status=503",
                ];
                ask.expected = ExpectedResult::Failure;
                knobs.push(FAULTS[dice.below(4)].to_owned());
            }
            60..80 if self.retries => knobs.push("fault=reset_head&attempts=1".to_owned()),
            80..130 => {
                ask.leave = Some(match dice.below(3) {
                    0 => Leave::BeforeHead,
                    _ => Leave::InBody((dice.uniform() * bytes as f64) as u64),
                });
            }
            130..280 => knobs.push("chunked=1".to_owned()),
            280..380 => {
                ask.trailers = true;
                knobs.push("trailers=1".to_owned());
            }
            _ => {}
        }
        if dice.below(20) == 0 {
            knobs.push(format!("delay={}ms", dice.below(50)));
        }
        ask.path = format!("/size/{bytes}/{}?{}", index % 1000, knobs.join("&"));
        ask
    }

    /// Draws a body's size: mostly small, and a few so large that most of the bytes are theirs.
    fn size(&self, dice: &mut Dice) -> u64 {
        let (from, to) = match dice.below(10_000) {
            0..500 => return 0,
            500..8_500 => (1.0, 16e3),
            8_500..9_900 => (16e3, 256e3),
            9_900..9_995 => (256e3, 2e6),
            _ => (2e6, 20e6),
        };
        log_uniform(dice, from, to).min(self.largest)
    }
}

fn log_uniform(dice: &mut Dice, from: f64, to: f64) -> u64 {
    (from * (to / from).powf(dice.uniform())).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(retries: bool) -> Mix {
        Mix {
            seed: 7,
            largest: 20_000_000,
            retries,
        }
    }

    #[test]
    fn a_request_depends_on_seed_and_number_alone() {
        let mix = mix(true);
        assert_eq!(mix.ask(123), mix.ask(123));
        assert_ne!(mix.ask(123), mix.ask(124));
        let first = mix.ask(123);
        let other = Mix { seed: 8, ..mix };
        assert_ne!(first, other.ask(123));
    }

    #[test]
    fn every_kind_comes_in_its_share() {
        let asks: Vec<Ask> = (0..20_000).map(|index| mix(true).ask(index)).collect();
        let share = |kind: &dyn Fn(&Ask) -> bool| {
            asks.iter().filter(|ask| kind(ask)).count() as f64 / asks.len() as f64
        };
        let near =
            |found: f64, wanted: f64| assert!((found - wanted).abs() < wanted * 0.3, "{found}");
        near(share(&|ask| ask.bytes == 0), 0.05);
        near(share(&|ask| ask.bytes >= 256_000), 0.01);
        near(share(&|ask| ask.travel == Travel::Stream), 0.45);
        near(share(&|ask| ask.expected == ExpectedResult::Failure), 0.03);
        near(share(&|ask| ask.leave.is_some()), 0.05);
        near(share(&|ask| ask.trailers), 0.1);
        near(share(&|ask| ask.path.contains("attempts=1")), 0.02);
        assert!(asks.iter().any(|ask| ask.bytes > 2_000_000));
        assert!((0..20_000).all(|index| !mix(false).ask(index).path.contains("attempts")));
    }
}
