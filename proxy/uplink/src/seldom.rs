//! Events that may come many times a second, and that the log tells of once a minute.

use std::time::Duration;

use sprat_scheduler::Time;

/// The least time between two lines of the log about one kind of event.
const INTERVAL: Duration = Duration::from_secs(60);

/// A kind of event that the log tells of once a minute at most.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    said_at: Option<Time>,
    /// The number of events since the last line, or since the start.
    unsaid: u64,
}

impl Seldom {
    /// Notes an event. If a line is due now, returns how many events there were since the line
    /// before; if not, the event counts for the next line.
    #[must_use]
    pub(crate) fn note(&mut self, now: Time) -> Option<u64> {
        self.unsaid += 1;
        if self.said_at.is_some_and(|at| now.since(at) < INTERVAL) {
            return None;
        }
        self.said_at = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// The log of a test's thread.
#[cfg(test)]
pub(crate) mod said {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::subscriber::{DefaultGuard, set_default};

    /// The lines that were logged so far.
    #[derive(Clone, Default)]
    pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

    impl Said {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Captures this thread's log until the guard is dropped.
    pub(crate) fn listen() -> (Said, DefaultGuard) {
        let said = Said::default();
        let writer = said.clone();
        let log = tracing_subscriber::fmt().with_ansi(false);
        let log = log.with_writer(move || writer.clone()).finish();
        (said, set_default(log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_all_since_the_line_before() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut thing = Seldom::default();
        assert_eq!(thing.note(at(0)), Some(1));
        for ms in [1, 30_000, 59_999] {
            assert_eq!(thing.note(at(ms)), None);
        }
        assert_eq!(thing.note(at(60_000)), Some(4));
        assert_eq!(thing.note(at(119_999)), None);
        assert_eq!(thing.note(at(500_000)), Some(2));
        assert_eq!(thing.note(at(560_000)), Some(1));
    }
}
