//! Code points on the packets of responses (SFD02).

use sprat_scheduler::{Mark, Marking as Rule};

/// The code points that the packets of responses bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// The rule that decides which bytes are IN and which OUT. Under the policy `sfd` it is the
    /// policy's.
    pub rule: Rule,
    /// The code points of IN and OUT, in this order (RFC 2474), 0 to 63.
    pub code_points: [u8; 2],
}

impl Marking {
    /// Returns the code point of a mark.
    pub fn code_point(&self, mark: Mark) -> u8 {
        self.code_points[mark.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_has_its_code_point() {
        let marking = Marking {
            rule: Rule::PAPER,
            code_points: [46, 10],
        };
        assert_eq!(marking.code_point(Mark::In), 46);
        assert_eq!(marking.code_point(Mark::Out), 10);
    }
}
