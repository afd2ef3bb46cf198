//! A clock that is read once while a connection is driven.
//!
//! A request asks for the time some twenty times, mostly within microseconds; reading it each
//! time would cost 2% of the request's CPU time. Work that runs in a [`turn`] sees the time at
//! which the turn began. All else sees the present time.

use std::cell::Cell;

use tokio::time::Instant;

thread_local! {
    /// The time at which this thread's present turn began; none outside of turns.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns the time at which this thread's turn began, or the present time outside turns.
pub fn now() -> Instant {
    BEGUN.get().unwrap_or_else(Instant::now)
}

/// Runs work as a turn, during which [`now`] stays the same. The work, such as a task's poll,
/// must not wait for anything.
pub fn turn<T>(work: impl FnOnce() -> T) -> T {
    // Of turns within each other the inner ones are later.
    let _turn = Turn(BEGUN.replace(Some(Instant::now())));
    work()
}

/// A guard that ends a turn when it is dropped, by a panic as well; it holds the outer turn's
/// time.
struct Turn(Option<Instant>);

impl Drop for Turn {
    fn drop(&mut self) {
        BEGUN.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_stands_while_a_turn_goes_on() {
        let pass = || std::thread::sleep(Duration::from_millis(2));
        let begun = now();
        pass();
        turn(|| {
            let own = now();
            assert!(own > begun);
            pass();
            assert_eq!(now(), own);
            turn(|| assert!(now() > own));
            assert_eq!(now(), own);
        });
        assert!(now() >= begun + Duration::from_millis(4));
    }

    #[test]
    fn a_panic_ends_its_turn() {
        assert!(catch_unwind(|| turn(|| panic!())).is_err());
        assert!(BEGUN.get().is_none());
    }
}
