//! The results of a soak's requests, in numbers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::plan::{Ask, ExpectedResult};
use crate::replay::Received;

/// The most failures that are shown one by one.
const SHOWN_MAX: usize = 20;

/// The result of one request.
#[derive(Debug)]
pub(super) enum Came {
    /// The client could not open a connection.
    NoConnection,
    /// The client left when it was meant to.
    Left(Received),
    /// The response ended in order; the flag says whether trailers came with it.
    Ended(Received, bool),
    /// The response, or its connection, broke.
    Broken(Received),
}

/// A way in which a request came otherwise than it had to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failing {
    /// The client could not connect to the proxy.
    Connect,
    /// A body had a wrong byte, or one where none belongs.
    Wrong,
    /// The response did not end within the deadline.
    Stuck,
    /// A body ended early that had to be whole, or one that was cut upstream
    /// was passed on as whole.
    Cut,
    /// The response has another status.
    Status,
    /// The trailers were lost.
    Trailers,
}

/// Counts of all requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests that came whole, or bodiless where that was due.
    pub whole: u64,
    /// Requests that failed as their upstream did.
    pub meant: u64,
    /// Requests that were left by their client.
    pub left: u64,
    /// Bytes of bodies that were checked.
    pub bytes: u64,
    /// Requests that came otherwise than they had to, by the way.
    pub failing: BTreeMap<Failing, u64>,
    shown: Vec<String>,
}

impl Tally {
    /// Counts a request; `None` if it was stuck.
    pub(super) fn count(&mut self, ask: &Ask, came: Option<&Came>) {
        match self.judge(ask, came) {
            Ok(()) => {}
            Err(failing) => {
                *self.failing.entry(failing).or_default() += 1;
                if self.shown.len() < SHOWN_MAX {
                    self.shown.push(format!("{failing:?}: {ask:?}: {came:?}"));
                }
            }
        }
    }

    fn judge(&mut self, ask: &Ask, came: Option<&Came>) -> Result<(), Failing> {
        let (received, ended, trailers) = match came.ok_or(Failing::Stuck)? {
            Came::NoConnection => return Err(Failing::Connect),
            Came::Left(received) => {
                self.bytes += received.bytes;
                self.left += 1;
                return if received.is_wrong() {
                    Err(Failing::Wrong)
                } else {
                    Ok(())
                };
            }
            Came::Ended(received, trailers) => (received, true, *trailers),
            Came::Broken(received) => (received, false, false),
        };
        self.bytes += received.bytes;
        if received.is_wrong() {
            return Err(Failing::Wrong);
        }
        let good = match ask.expected {
            ExpectedResult::Failure
                if ended && received.status == 200 && received.bytes < ask.bytes =>
            {
                Err(Failing::Cut)
            }
            ExpectedResult::Failure => {
                self.meant += 1;
                return Ok(());
            }
            _ if !ended => Err(Failing::Cut),
            ExpectedResult::Bodiless(status) if received.status != status => Err(Failing::Status),
            ExpectedResult::Whole if received.status != 200 => Err(Failing::Status),
            ExpectedResult::Bodiless(_) => none(received),
            ExpectedResult::Whole if ask.head_only => none(received),
            ExpectedResult::Whole if received.bytes != ask.bytes => Err(Failing::Cut),
            ExpectedResult::Whole if ask.trailers && !trailers => Err(Failing::Trailers),
            ExpectedResult::Whole => Ok(()),
        };
        self.whole += u64::from(good.is_ok());
        good
    }

    /// Returns the number of requests that came otherwise than they had to.
    pub fn failed(&self) -> u64 {
        self.failing.values().sum()
    }

    /// Returns the first of those failures, one a line.
    pub fn shown(&self) -> String {
        self.shown.join("\n")
    }

    /// Returns the tally as one line.
    pub(super) fn summary(&self, took: Duration) -> String {
        let all = self.whole + self.meant + self.left + self.failed();
        let seconds = took.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut line = format!(
            "{all} requests in {seconds:.0} s ({:.0} a second, {:.0} MB checked): {} whole, {} failed upstream, \
             {} left by the client, {} wrong",
            all as f64 / seconds,
            self.bytes as f64 / 1e6,
            self.whole,
            self.meant,
            self.left,
            self.failed(),
        );
        for (failing, count) in &self.failing {
            let _ = write!(line, ", {failing:?} {count}");
        }
        line
    }
}

/// Rejects a body where none belongs: it is one byte too many.
fn none(received: &Received) -> Result<(), Failing> {
    if received.bytes > 0 {
        Err(Failing::Wrong)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Leave, Travel};
    use super::*;
    use crate::content::Content;

    fn ask(expected: ExpectedResult) -> Ask {
        Ask {
            path: "/size/100/a?x".to_owned(),
            bytes: 100,
            head_only: false,
            trailers: false,
            travel: Travel::Keep,
            expected,
            leave: None,
            reset: false,
        }
    }

    fn received(status: u16, bytes: u64) -> Received {
        let mut received = Received::new("/size/100/a", 100);
        received.status = status;
        let content = Content::of_path("/size/100/a").unwrap();
        received.body(&content.slice(0, bytes as usize));
        received
    }

    #[test]
    fn each_kind_of_failure_is_told_from_what_was_meant() {
        let whole = ask(ExpectedResult::Whole);
        let failure = ask(ExpectedResult::Failure);
        let head = Ask {
            head_only: true,
            ..ask(ExpectedResult::Whole)
        };
        let trailers = Ask {
            trailers: true,
            ..ask(ExpectedResult::Whole)
        };
        let leaves = Ask {
            leave: Some(Leave::InBody(3)),
            ..ask(ExpectedResult::Whole)
        };
        let mut wrong = received(200, 50);
        wrong.body(b"not what belongs there");
        let cases = [
            (&whole, Some(Came::Ended(received(200, 100), false)), None),
            (
                &whole,
                Some(Came::Ended(received(200, 99), false)),
                Some(Failing::Cut),
            ),
            (
                &whole,
                Some(Came::Broken(received(200, 99))),
                Some(Failing::Cut),
            ),
            (
                &whole,
                Some(Came::Ended(received(503, 0), false)),
                Some(Failing::Status),
            ),
            (
                &whole,
                Some(Came::Ended(wrong, false)),
                Some(Failing::Wrong),
            ),
            (&whole, Some(Came::NoConnection), Some(Failing::Connect)),
            (&whole, None, Some(Failing::Stuck)),
            (&failure, Some(Came::Broken(received(200, 50))), None),
            (&failure, Some(Came::Ended(received(503, 50), false)), None),
            (
                &failure,
                Some(Came::Ended(received(200, 50), false)),
                Some(Failing::Cut),
            ),
            (&failure, None, Some(Failing::Stuck)),
            (&head, Some(Came::Ended(received(200, 0), false)), None),
            (
                &head,
                Some(Came::Ended(received(200, 1), false)),
                Some(Failing::Wrong),
            ),
            (&trailers, Some(Came::Ended(received(200, 100), true)), None),
            (
                &trailers,
                Some(Came::Ended(received(200, 100), false)),
                Some(Failing::Trailers),
            ),
            (&leaves, Some(Came::Left(received(200, 50))), None),
        ];
        for (ask, came, failing) in cases {
            let mut tally = Tally::default();
            let told = format!("{came:?}");
            tally.count(ask, came.as_ref());
            let expected: BTreeMap<_, _> =
                failing.into_iter().map(|failing| (failing, 1)).collect();
            assert_eq!(tally.failing, expected, "{ask:?} {told}");
            assert_eq!(tally.whole + tally.meant + tally.left + tally.failed(), 1);
        }
    }
}
