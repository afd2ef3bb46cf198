//! A flow's place in the order.

use super::groups::Member;
use super::turns::Part;

/// A flow's place in the order.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Among those of its connection, if there are any.
    pub(super) member: Option<Member>,
    /// The place of the flow's client, where clients share the link.
    pub(super) share: Option<u32>,
    /// The flow's part in the round that its turn belongs to; its client's when the last
    /// grant was made, where clients share the link.
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
    /// Forgets the round that its turn belongs to, which is no more.
    pub(super) fn leave_round(&mut self) {
        self.part = Part::NONE;
    }
}
