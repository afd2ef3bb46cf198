//! The place of a flow in the order: its group, its client and its round.

use super::groups::Member;
use super::turns::Part;

/// A flow's place in the order: its group, its client and its round.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The flow's place in its connection's group, if it is in one.
    pub(super) member: Option<Member>,
    /// The place of the flow's client, where clients share the link.
    pub(super) share: Option<u32>,
    /// The flow's part in the round of its turn. Where clients share the link, it is the client's
    /// part at the last grant.
    pub(super) part: Part,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            member: None,
            share: None,
            part: Part::NONE,
        }
    }
}

impl Place {
    /// Forgets the round of the flow's turn, which no longer exists.
    pub(super) fn leave_round(&mut self) {
        self.part = Part::NONE;
    }
}
