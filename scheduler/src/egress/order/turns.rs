//! Turns by bytes, for `fair` and within a band: fair queueing by virtual time.
//!
//! The flows of a class and band share a round. Its virtual time is how many wire bytes a flow
//! has had that waited all along: a grant among `n` flows moves it by an `n`-th of the grant
//! (Parekh and Gallager 1993). A flow's turn is the virtual time at which its next bytes are due,
//! and the least turn is served. A flow that comes, or comes back, is due now; one that waits
//! keeps its turn. So the time passes that turn at last, and flows that come later are behind it,
//! even if every flow that comes is new and has but one small response to send.
//!
//! The clock of start-time fair queueing, the turn served last, would not do: flows that are new
//! each time never move it, and would for ever go ahead of all that needs more than one grant.
//! The virtual time here is at least that clock's.

/// The number of bits of fraction of a round's virtual time: a byte counts among any number of
/// flows.
const FRACTION: u32 = 32;

/// The number of a grant that was made early, which is never that of a round's last.
const EARLY: u64 = u64::MAX;

/// The rounds of an uplink, by class and band.
#[derive(Clone, Debug)]
pub(super) struct Turns(Vec<Round>);

/// A flow that comes to a round, or comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newcomer {
    /// The flow's last turn in the round.
    pub(super) turn: u64,
    /// The wire bytes that the flow is going to be granted.
    pub(super) wire_bytes: u64,
    /// The least turn of the flows that wait in the round, where that is known.
    pub(super) least: Option<u64>,
}

impl Newcomer {
    /// Returns a newcomer that is due by the round's time alone.
    pub(super) fn at(turn: u64) -> Self {
        Self {
            turn,
            wire_bytes: u64::MAX,
            least: None,
        }
    }
}

/// A flow's part in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The index of the round; past the last of them if the flow is in none.
    lane: u16,
    /// Whether the flow is one of those that wait.
    waits: bool,
    /// The number of flows that shared the flow's last grant.
    among: u32,
    /// The number of the flow's last grant in the round.
    grant: u64,
}

impl Part {
    /// The part of a flow that has not waited yet.
    pub(super) const NONE: Self = Self {
        lane: u16::MAX,
        waits: false,
        among: 1,
        grant: 0,
    };

    /// Returns the receipt of the flow's last grant, which a refund needs.
    pub(super) fn receipt(self) -> Self {
        Self {
            waits: false,
            ..self
        }
    }

    /// Returns whether the flow is one of those that wait.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

#[derive(Clone, Debug, Default)]
struct Round {
    /// The virtual time, as a fixed-point number.
    time: u128,
    /// The number of flows that wait.
    waiting: u64,
    /// The number of grants made so far.
    grants: u64,
    /// The wire bytes of the last grant, and the number of flows that share it. They are added to
    /// `time` when the next grant is made, since their flow is being served till then.
    last: (u64, u64),
    /// The turn that was served last in the round.
    served: u64,
    /// The furthest turn that any flow has been set to.
    furthest: u64,
    /// The wire bytes of the largest grant.
    largest: u64,
}

impl Round {
    fn now(&self) -> u64 {
        u64::try_from(self.time >> FRACTION).unwrap_or(u64::MAX)
    }

    /// Returns how many flows share a grant.
    fn among(&self) -> u32 {
        u32::try_from(self.waiting.max(1)).unwrap_or(u32::MAX)
    }

    /// Moves the time by the last grant, to `turn` at least. As small flows end, fewer are left
    /// to share, and the time would run away from those. So it stays within a grant of the
    /// furthest turn.
    fn pass(&mut self, turn: u64) {
        let (wire_bytes, among) = self.last;
        let furthest = u128::from(self.furthest) + u128::from(self.largest);
        let time = (self.time + share(wire_bytes, among)).min(furthest << FRACTION);
        self.time = time.max(u128::from(turn) << FRACTION);
    }
}

/// Returns by how much a grant shared by so many flows moves the time.
fn share(wire_bytes: u64, among: u64) -> u128 {
    (u128::from(wire_bytes) << FRACTION).div_ceil(u128::from(among.max(1)))
}

impl Turns {
    /// Creates so many rounds, none of which has begun.
    pub(super) fn new(lanes: usize) -> Self {
        Self(vec![Round::default(); lanes])
    }

    /// Returns the turn of a flow that has something to send in the round `lane`. One that waits
    /// already keeps its turn, and so does one that was served last of all.
    ///
    /// A flow that comes is due now, but no later than the least turn plus the bytes that this
    /// flow is going to be granted: then no two flows are further apart than a grant of each.
    /// Sooner than that it is not due either. Small flows that follow large ones would gain the
    /// difference each time, and what waits all along would fall behind by it, for as long as
    /// they come.
    pub(super) fn join(&mut self, part: &mut Part, newcomer: Newcomer, lane: usize) -> u64 {
        let turn = newcomer.turn;
        // Classes and bands are few.
        let (stays, number) = (usize::from(part.lane) == lane, lane as u16);
        if part.waits && stays {
            return self.show(part, turn);
        }
        self.leave(part);
        let Some(round) = self.0.get_mut(lane) else {
            return turn;
        };
        round.waiting += 1;
        part.waits = true;
        part.lane = number;
        // The flow served last may come again, and is not in the queue meanwhile.
        let (last_bytes, _) = round.last;
        let again = round.served.saturating_add(last_bytes);
        let least = newcomer.least.map_or(again, |least| least.min(again));
        let least = least.max(round.served);
        let due = (round.now()).min(least.saturating_add(newcomer.wire_bytes));
        match stays {
            true if part.grant == round.grants => turn,
            true => turn.max(due),
            false => due,
        }
    }

    /// Takes a flow out of those that wait in its round, if it waits.
    pub(super) fn leave(&mut self, part: &mut Part) {
        if std::mem::take(&mut part.waits) {
            self.0[usize::from(part.lane)].waiting -= 1;
        }
    }

    /// Returns the turn of a flow that has let others of its connection go first: the turn served
    /// last at least, since it saved nothing up.
    pub(super) fn show(&self, part: &Part, turn: u64) -> u64 {
        let round = self.0.get(usize::from(part.lane));
        round.map_or(turn, |round| turn.max(round.served))
    }

    /// Charges a flow that waits with a grant of `wire_bytes`, and returns its next turn.
    pub(super) fn grant(&mut self, part: &mut Part, turn: u64, wire_bytes: u64) -> u64 {
        let Some(round) = self.0.get_mut(usize::from(part.lane)) else {
            return turn;
        };
        // One that waited for a place in its class's pool is behind the round;
        // it must not take that back to where it left it.
        let turn = turn.max(round.served);
        round.pass(turn);
        round.served = turn;
        part.among = round.among();
        round.last = (wire_bytes, u64::from(part.among));
        round.grants += 1;
        part.grant = round.grants;
        let next = turn.saturating_add(wire_bytes);
        round.furthest = round.furthest.max(next);
        round.largest = round.largest.max(wire_bytes);
        self.leave(part);
        next
    }

    /// Charges a flow that waits, and goes on to wait, with a grant in its turn or before, and
    /// returns its next turn. The others keep theirs, even if they are behind.
    pub(super) fn grant_early(&mut self, part: &mut Part, turn: u64, wire_bytes: u64) -> u64 {
        let Some(round) = self.0.get_mut(usize::from(part.lane)) else {
            return turn;
        };
        part.among = round.among();
        part.grant = EARLY;
        round.time += share(wire_bytes, u64::from(part.among));
        let next = turn.saturating_add(wire_bytes);
        round.furthest = round.furthest.max(next);
        next
    }

    /// Charges a flow with the bytes that it was given beyond its grant, and returns its next
    /// turn.
    pub(super) fn extend(&mut self, part: &Part, turn: u64, wire_bytes: u64) -> u64 {
        let Some(round) = self.0.get_mut(usize::from(part.lane)) else {
            return turn;
        };
        let next = turn.saturating_add(wire_bytes);
        round.furthest = round.furthest.max(next);
        if part.grant == round.grants {
            round.last.0 = round.last.0.saturating_add(wire_bytes);
        } else {
            round.time += share(wire_bytes, u64::from(part.among));
        }
        next
    }

    /// Takes back the bytes that a flow did not send of its grant, and returns its next turn.
    pub(super) fn refund(&mut self, part: &Part, turn: u64, wire_bytes: u64) -> u64 {
        let Some(round) = self.0.get_mut(usize::from(part.lane)) else {
            return turn;
        };
        if part.grant == round.grants {
            round.last.0 = round.last.0.saturating_sub(wire_bytes);
        } else {
            let least = u128::from(round.served) << FRACTION;
            let time = round
                .time
                .saturating_sub(share(wire_bytes, u64::from(part.among)));
            round.time = time.max(least);
        }
        turn.saturating_sub(wire_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a flow join the only round, due by the round's time alone.
    fn join(turns: &mut Turns, part: &mut Part, turn: u64) -> u64 {
        turns.join(part, Newcomer::at(turn), 0)
    }

    /// Returns the turn that a new flow gets, without changing the round.
    fn due(turns: &Turns) -> u64 {
        let mut copy = turns.clone();
        join(&mut copy, &mut Part::NONE.clone(), 0)
    }

    #[test]
    fn a_grant_moves_the_time_by_its_part_of_those_who_wait() {
        let (mut turns, mut one, mut other) = (Turns::new(1), Part::NONE, Part::NONE);
        assert_eq!(join(&mut turns, &mut one, 0), 0);
        assert_eq!(join(&mut turns, &mut other, 0), 0);
        let turn = turns.grant(&mut one, 0, 100);
        assert_eq!(turn, 100);
        assert_eq!(join(&mut turns, &mut one, turn), 100);
        // It counts when the next is made.
        assert_eq!(due(&turns), 0);
        turns.grant(&mut other, 0, 100);
        assert_eq!(due(&turns), 50);
    }

    #[test]
    fn what_is_beyond_a_grant_counts_with_it_or_at_once_when_it_is_not_the_last() {
        let (mut turns, mut one, mut other) = (Turns::new(1), Part::NONE, Part::NONE);
        join(&mut turns, &mut one, 0);
        join(&mut turns, &mut other, 0);
        let turn = turns.grant(&mut one, 0, 100);
        let turn = turns.extend(&one, turn, 60);
        assert_eq!(turn, 160);
        assert_eq!(due(&turns), 0);
        assert_eq!(join(&mut turns, &mut one, turn), 160);
        turns.grant(&mut other, 0, 100);
        assert_eq!(due(&turns), 80);
        assert_eq!(turns.extend(&one, turn, 40), 200);
        assert_eq!(due(&turns), 100);
    }

    #[test]
    fn what_is_given_back_is_of_the_last_grant_or_of_the_time() {
        let (mut turns, mut one, mut other) = (Turns::new(1), Part::NONE, Part::NONE);
        join(&mut turns, &mut one, 0);
        join(&mut turns, &mut other, 0);
        let turn = turns.grant(&mut one, 0, 100);
        let turn = turns.refund(&one, turn, 40);
        assert_eq!(turn, 60);
        join(&mut turns, &mut one, turn);
        turns.grant(&mut other, 0, 100);
        assert_eq!(due(&turns), 30);
        // Late: the time goes back by a half of it.
        assert_eq!(turns.refund(&one, turn, 20), 40);
        assert_eq!(due(&turns), 20);
    }

    #[test]
    fn the_time_is_the_turn_that_is_served_at_least() {
        let (mut turns, mut one, mut other) = (Turns::new(1), Part::NONE, Part::NONE);
        join(&mut turns, &mut one, 0);
        join(&mut turns, &mut other, 0);
        let turn = turns.grant(&mut one, 0, 100);
        turns.leave(&mut other);
        join(&mut turns, &mut one, turn);
        // 50 by the grant among two, of which one is left.
        turns.grant(&mut one, turn, 100);
        assert_eq!(due(&turns), 100);
    }

    #[test]
    fn the_time_never_goes_back_before_the_turn_served_last() {
        let (mut turns, mut one) = (Turns::new(1), Part::NONE);
        let mut turn = join(&mut turns, &mut one, 0);
        turn = turns.grant(&mut one, turn, 100);
        let receipt = one.receipt();
        turn = join(&mut turns, &mut one, turn);
        turn = turns.grant(&mut one, turn, 100);
        assert_eq!((turn, due(&turns)), (200, 100));
        assert_eq!(turns.refund(&receipt, turn, 100), 100);
        assert_eq!(due(&turns), 100);
    }
}
