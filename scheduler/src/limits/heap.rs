//! Overload by memory: what the process stops doing as memory runs short.

/// The bounds at which memory begins to be short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeapBounds {
    /// The bytes that the process may use; at least 1.
    pub max_bytes: u64,
    /// The share of `max_bytes` from which new requests are refused.
    pub stop_accepting_requests: f64,
    /// The share of `max_bytes` from which new connections are refused.
    pub stop_accepting_connections: f64,
}

/// The degree to which memory is short; each state also does what the states
/// before it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HeapState {
    /// Memory is not short, and nothing is refused.
    #[default]
    Ample,
    /// New requests are refused.
    NoRequests,
    /// New connections are refused.
    NoConnections,
    /// Open exchanges are ended, the newest first.
    Shedding,
}

impl HeapState {
    /// All states, in their order.
    pub const ALL: [Self; 4] = [
        Self::Ample,
        Self::NoRequests,
        Self::NoConnections,
        Self::Shedding,
    ];
}

/// The share of the bound by which the use must fall below the start of a state
/// before that state is left, so that it does not flicker.
const SLACK: f64 = 0.02;

/// A guard over the memory that the process uses.
#[derive(Clone, Copy, Debug)]
pub struct HeapGuard {
    bounds: HeapBounds,
    state: HeapState,
}

impl HeapGuard {
    /// Creates a guard in the state [`HeapState::Ample`].
    pub fn new(bounds: HeapBounds) -> Self {
        Self {
            bounds,
            state: HeapState::Ample,
        }
    }

    /// Takes in the bytes that are used now, and returns the state.
    pub fn observe(&mut self, used_bytes: u64) -> HeapState {
        let share = used_bytes as f64 / self.bounds.max_bytes.max(1) as f64;
        let begins = |state: &HeapState| match state {
            HeapState::Ample => 0.0,
            HeapState::NoRequests => self.bounds.stop_accepting_requests,
            HeapState::NoConnections => self.bounds.stop_accepting_connections,
            HeapState::Shedding => 1.0,
        };
        let holds = |state: &HeapState| {
            let slack = if *state <= self.state { SLACK } else { 0.0 };
            *state == HeapState::Ample || share >= begins(state) - slack
        };
        let worst = HeapState::ALL.into_iter().filter(holds).max();
        self.state = worst.unwrap_or_default();
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_begin_at_their_share_and_end_a_little_below() {
        use HeapState::*;
        let mut guard = HeapGuard::new(HeapBounds {
            max_bytes: 1000,
            stop_accepting_requests: 0.9,
            stop_accepting_connections: 0.95,
        });
        let states = [
            0, 899, 900, 885, 879, 940, 950, 935, 929, 1000, 990, 979, 2000, 0,
        ];
        let states = states.map(|used| guard.observe(used));
        let expected = [
            Ample,
            Ample,
            NoRequests,
            NoRequests,
            Ample,
            NoRequests,
            NoConnections,
            NoConnections,
            NoRequests,
            Shedding,
            Shedding,
            NoConnections,
            Shedding,
            Ample,
        ];
        assert_eq!(states, expected);
    }
}
