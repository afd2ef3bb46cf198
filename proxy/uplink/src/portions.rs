//! The division of a link's rate among the instances that share it. Each has what it asks for,
//! or as much as any other that asks for more; what is left over is divided evenly.

/// The part of an even share, one in so many, that an instance has at least, however little it
/// asks for: what comes to it next has a rate to begin with.
const IDLE_PART: u64 = 4;

/// The part of what an instance asks for, one in so many, that it is given in addition: room to
/// grow.
const ROOM_PART: u64 = 4;

/// Returns the rate, in bits per second, of the instance that asks for `own`, on a link of
/// `total` that it shares with instances that ask for `others`. All instances that know the same
/// come to shares whose sum is `total` at most.
pub(crate) fn portion(total: u64, own: u64, others: &[u64]) -> u64 {
    let count = others.len() as u64 + 1;
    let least = total / count / IDLE_PART;
    let wanted = |asked: u64| asked.saturating_add(asked / ROOM_PART).clamp(least, total);
    let mut all: Vec<u64> = others.iter().copied().map(wanted).collect();
    all.push(wanted(own));
    all.sort_unstable();
    let mut left = total;
    for (index, each) in all.iter().enumerate() {
        let even = left / (count - index as u64);
        if *each > even {
            return wanted(own).min(even);
        }
        left -= each;
    }
    // More than all ask for together.
    wanted(own) + left / count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the rate that each of these instances has.
    fn portions(total: u64, asked: &[u64]) -> Vec<u64> {
        let others = |index: usize| [&asked[..index], &asked[index + 1..]].concat();
        let each = asked.iter().enumerate();
        each.map(|(index, own)| portion(total, *own, &others(index)))
            .collect()
    }

    #[test]
    fn rates_are_divided_by_what_is_asked_for() {
        assert_eq!(portions(1000, &[5]), [1000]);
        assert_eq!(portions(1000, &[0, 0]), [500, 500]);
        assert_eq!(portions(1000, &[1000, 1000]), [500, 500]);
        // An idle one keeps a quarter of its even share.
        assert_eq!(portions(1000, &[1000, 0]), [875, 125]);
        // One that asks for less has that and a quarter, all others the rest.
        assert_eq!(portions(1200, &[1200, 1200, 160]), [500, 500, 200]);
        // What no instance asks for is divided evenly.
        assert_eq!(portions(1000, &[400, 160]), [650, 350]);
        assert_eq!(portions(3, &[9, 9, 9, 9]), [0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_there_is(
            total in 0_u64..1 << 40,
            asked in prop::collection::vec(0_u64..1 << 41, 1..40),
        ) {
            let given = portions(total, &asked);
            let even = total / asked.len() as u64;
            prop_assert!(given.iter().sum::<u64>() <= total);
            for (given, asked) in given.iter().zip(&asked) {
                prop_assert!(*given >= even / IDLE_PART);
                // Who asks for more than an even share has that at least.
                prop_assert!(*given >= even.min(*asked));
            }
        }
    }
}
