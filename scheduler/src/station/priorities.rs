//! Priorities of endpoints: those of a lower priority serve as far as those of a higher one have
//! failed.

/// The most that an endpoint may be given when others of its priority have
/// failed, in percent of its even share.
const OVERPROVISIONING_PERCENT: u64 = 140;

/// The shares of the requests that the priorities get.
#[derive(Clone, Debug, Default)]
pub(super) struct Priorities {
    /// The percent of the requests that each priority gets, 0 first; 100 in all.
    shares: Vec<(u8, u64)>,
    /// Whether the endpoints that are well can take all requests, as far as their number shows.
    suffice: bool,
}

impl Priorities {
    /// Returns the shares for endpoints, each of which has a priority and is well or not.
    pub(super) fn of(endpoints: impl Iterator<Item = (u8, bool)>) -> Self {
        // By priority: how many there are, and how many are well.
        let mut counts: Vec<(u8, u64, u64)> = Vec::new();
        for (priority, is_well) in endpoints {
            let at = counts.partition_point(|&(own, ..)| own < priority);
            if counts.get(at).is_none_or(|&(own, ..)| own != priority) {
                counts.insert(at, (priority, 0, 0));
            }
            counts[at].1 += 1;
            counts[at].2 += u64::from(is_well);
        }
        let health = |&(_, all, well): &(u8, u64, u64)| {
            (well * OVERPROVISIONING_PERCENT / all.max(1)).min(100)
        };
        let total: u64 = counts.iter().map(health).sum();
        let scale = total.min(100);
        let mut left = 100;
        let share = |own: &(u8, u64, u64)| {
            let share = (health(own) * 100)
                .checked_div(scale)
                .unwrap_or(0)
                .min(left);
            left -= share;
            (own.0, share)
        };
        let mut shares: Vec<_> = counts.iter().map(share).collect();
        // What rounding has left; or all, where none is well.
        let first = shares.iter().position(|&(_, share)| share > 0).unwrap_or(0);
        if let Some((_, share)) = shares.get_mut(first) {
            *share += left;
        }
        Self {
            shares,
            suffice: total >= 100,
        }
    }

    /// Returns whether all endpoints have the same priority.
    pub(super) fn are_alike(&self) -> bool {
        self.shares.len() <= 1
    }

    /// Returns whether the endpoints that are well can take all requests, in the order of
    /// their priorities.
    pub(super) fn suffice(&self) -> bool {
        !self.are_alike() && self.suffice
    }

    /// Returns how many priorities there are.
    pub(super) fn len(&self) -> usize {
        self.shares.len()
    }

    /// Returns a priority by its place, and its share.
    pub(super) fn at(&self, place: usize) -> (u8, u64) {
        self.shares[place]
    }

    /// Returns whether a priority has a share of the requests.
    pub(super) fn serves(&self, priority: u8) -> bool {
        let mut shares = self.shares.iter();
        shares.any(|&(own, share)| own == priority && share > 0)
    }

    /// Returns the place of the priority that a random number falls to.
    pub(super) fn draw(&self, random: u64) -> usize {
        // The high bits of a product, as dispatch draws by weight.
        let mut point = ((u128::from(random) * 100) >> 64) as u64;
        let falls = |&(_, share): &(u8, u64)| match point.checked_sub(share) {
            Some(rest) => {
                point = rest;
                false
            }
            None => true,
        };
        self.shares.iter().position(falls).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shares of the priorities from 0 on; `levels` has, for each, its endpoints and
    /// how many are well.
    fn shares(levels: &[(usize, usize)]) -> Vec<u64> {
        let endpoints = (0..).zip(levels).flat_map(|(priority, &(all, well))| {
            (0..all).map(move |index| (priority, index < well))
        });
        let own = Priorities::of(endpoints);
        own.shares.iter().map(|&(_, share)| share).collect()
    }

    /// Checks the shares that Envoy documents for two priorities, of which the second is all well.
    #[test]
    fn the_second_priority_gets_what_the_first_cannot_take() {
        for (well, expected) in [
            (100, [100, 0]),
            (72, [100, 0]),
            (71, [99, 1]),
            (50, [70, 30]),
            (25, [35, 65]),
            (0, [0, 100]),
        ] {
            assert_eq!(shares(&[(100, well), (100, 100)]), expected, "{well}");
        }
    }

    #[test]
    fn where_all_are_too_few_they_share_as_they_are_well() {
        assert_eq!(shares(&[(100, 25), (100, 25)]), [50, 50]);
        assert_eq!(shares(&[(100, 20), (100, 0), (100, 10)]), [67, 0, 33]);
        assert_eq!(shares(&[(3, 0), (1, 0)]), [100, 0]);
        assert_eq!(shares(&[(3, 1)]), [100]);
        // What rounding leaves goes to the first that serves: 28 and 14 of 42.
        assert_eq!(shares(&[(100, 0), (100, 20), (100, 10)]), [0, 67, 33]);
        assert_eq!(shares(&[(10, 5), (10, 2), (10, 10)]), [70, 28, 2]);
    }

    #[test]
    fn draws_fall_by_the_shares() {
        let own = Priorities::of([(0, true), (0, false), (7, true)].into_iter());
        let step = u64::MAX / 1000;
        let drawn = (0..1000).map(|index| own.draw(index * step + step / 2));
        assert_eq!(drawn.filter(|&place| place == 0).count(), 700);
        assert_eq!(own.at(1), (7, 30));
        assert!(own.suffice() && own.serves(7) && !own.serves(1));
    }
}
