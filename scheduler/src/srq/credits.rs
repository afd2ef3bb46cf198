//! The choice of the queue that is served next: shares by credit, in place of chance.

use super::MAX_QUEUES;

/// The bits of fraction of a credit.
const FRACTION: u32 = 16;

/// The most that a queue may be ahead of its share or behind it, which no queue comes near.
const BOUND: i128 = 1 << 80;

/// The credits of some queues: what each is behind its share of the service.
///
/// At each step, every queue with a member ready earns its part of the service, and the queue with
/// the most credit is served and pays for the step. So the first of them has exactly its share
/// (SRQ06 III-C: 90 %), and the others the rest by their members, where the paper has chances.
#[derive(Clone, Debug)]
pub struct Credits {
    first_share_percent: u8,
    credits: [i128; MAX_QUEUES],
    /// The amount of the last step, which the next step is assumed to have as well.
    last: u64,
}

/// The number of members of each queue that are ready.
pub(crate) type Members = [usize; MAX_QUEUES];

impl Credits {
    /// Returns credits of zero; the first queue's share is kept within 1 to 100 percent.
    pub fn new(first_share_percent: u8) -> Self {
        Self {
            first_share_percent: first_share_percent.clamp(1, 100),
            credits: [0; MAX_QUEUES],
            last: 1,
        }
    }

    /// Returns each queue's part of `amount`, by the members ready in each, in the unit of credits.
    /// The parts add up to the amount.
    fn parts(&self, members: &Members, amount: u64) -> [i128; MAX_QUEUES] {
        let mut parts = [0; MAX_QUEUES];
        let Some(first) = members.iter().position(|&members| members > 0) else {
            return parts;
        };
        let whole = u128::from(amount) << FRACTION;
        let others: usize = members[first + 1..].iter().sum();
        // All of it is the first's where there are no others.
        let rest = portion(whole, 100 - u64::from(self.first_share_percent), 100);
        let mut given = 0;
        for queue in first + 1..MAX_QUEUES {
            if members[queue] > 0 {
                let part = portion(rest, members[queue] as u64, others as u64);
                // At most the whole, which has 80 bits.
                parts[queue] = part as i128;
                given += parts[queue];
            }
        }
        parts[first] = whole as i128 - given;
        parts
    }

    /// Returns the queue whose turn it is: of those with `members` ready, the one with the most
    /// credit, the lower of equals. `None` if no member is ready.
    pub fn pick(&self, members: &[usize; MAX_QUEUES]) -> Option<usize> {
        let parts = self.parts(members, self.last);
        let ready = (0..MAX_QUEUES).filter(|&queue| members[queue] > 0);
        let credit = |queue: usize| self.credits[queue] + parts[queue];
        // Of equals the last is the most: from the end.
        ready.rev().max_by_key(|&queue| credit(queue))
    }

    /// Charges a queue with a step of `amount`, of which every queue earns its part. Queues with no
    /// member ready lose their credit; the queue that is charged counts as ready.
    pub fn charge(&mut self, queue: usize, members: &[usize; MAX_QUEUES], amount: u64) {
        self.last = amount.max(1);
        self.pay(queue, members, i128::from(amount), amount);
    }

    /// Takes back `amount` of what a queue was charged.
    pub fn refund(&mut self, queue: usize, members: &[usize; MAX_QUEUES], amount: u64) {
        self.pay(queue, members, -i128::from(amount), amount);
    }

    fn pay(&mut self, queue: usize, members: &Members, amount: i128, absolute: u64) {
        let mut members = *members;
        members[queue] = members[queue].max(1);
        let parts = self.parts(&members, absolute);
        for (other, credit) in self.credits.iter_mut().enumerate() {
            if members[other] == 0 {
                *credit = 0;
                continue;
            }
            *credit += if amount < 0 {
                -parts[other]
            } else {
                parts[other]
            };
        }
        self.credits[queue] -= amount << FRACTION;
        for credit in &mut self.credits {
            *credit = (*credit).clamp(-BOUND, BOUND);
        }
    }
}

/// Returns `whole * count / of`, rounded down. In 64 bits, where the product has room in them, the
/// division is many times faster than in 128. A whole has 80 bits; counts of flows or requests have
/// 32, so that no product overflows.
fn portion(whole: u128, count: u64, of: u64) -> u128 {
    let product = whole * u128::from(count);
    match u64::try_from(product) {
        Ok(product) => u128::from(product / of),
        Err(_) => product / u128::from(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(ready: &[usize]) -> Members {
        let mut members = [0; MAX_QUEUES];
        members[..ready.len()].copy_from_slice(ready);
        members
    }

    fn order(credits: &mut Credits, ready: &[usize], steps: usize) -> String {
        let members = members(ready);
        let step = |_| {
            let queue = credits.pick(&members).unwrap();
            credits.charge(queue, &members, 1);
            char::from(b'0' + queue as u8)
        };
        (0..steps).map(step).collect()
    }

    #[test]
    fn the_first_queue_has_nine_steps_of_ten() {
        let mut credits = Credits::new(90);
        assert_eq!(order(&mut credits, &[5, 1], 20), "00000100000000010000");
    }

    #[test]
    fn the_others_share_by_their_members() {
        let mut credits = Credits::new(80);
        let order = order(&mut credits, &[1, 3, 1], 100);
        let count = |queue| order.matches(queue).count();
        assert_eq!([count('0'), count('1'), count('2')], [80, 15, 5]);
    }

    #[test]
    fn the_first_that_is_ready_has_the_first_share() {
        let mut credits = Credits::new(90);
        let order = order(&mut credits, &[0, 1, 7], 1_000);
        assert_eq!(order.matches('1').count(), 900);
        assert_eq!(order.matches('0').count(), 0);
    }

    #[test]
    fn alone_a_queue_has_all() {
        let mut credits = Credits::new(90);
        assert_eq!(order(&mut credits, &[0, 0, 2], 5), "22222");
        assert_eq!(credits.pick(&members(&[])), None);
    }

    #[test]
    fn a_queue_that_runs_empty_loses_its_credit() {
        let mut credits = Credits::new(90);
        assert_eq!(order(&mut credits, &[1, 1], 5), "00000");
        // Its turn would be next.
        assert_eq!(order(&mut credits.clone(), &[1, 1], 1), "1");
        assert_eq!(order(&mut credits, &[1, 0], 1), "0");
        let after = order(&mut credits, &[1, 1], 10);
        assert_eq!(
            after.find('1'),
            Some(2),
            "{after}: what the first owes it still owes"
        );
    }

    #[test]
    fn what_is_refunded_was_never_taken() {
        let mut credits = Credits::new(90);
        order(&mut credits, &[1, 1], 3);
        let mut refunded = credits.clone();
        let members = members(&[1, 1]);
        refunded.charge(0, &members, 700);
        refunded.refund(0, &members, 700);
        refunded.last = 1;
        assert_eq!(
            order(&mut refunded, &[1, 1], 30),
            order(&mut credits, &[1, 1], 30)
        );
    }

    proptest! {
        /// Checks that the shares of service are exact to within a step or two, whatever the steps.
        #[test]
        fn shares_are_of_amounts(
            share in 1u8..=100,
            ready in prop::collection::vec(1usize..9, 2..6),
            amounts in prop::collection::vec(1u64..2_000, 2_000),
        ) {
            let mut credits = Credits::new(share);
            let now = members(&ready);
            let mut served = [0u64; MAX_QUEUES];
            for amount in amounts {
                let queue = credits.pick(&now).unwrap();
                credits.charge(queue, &now, amount);
                served[queue] += amount;
            }
            let total: u64 = served.iter().sum();
            let parts = credits.parts(&now, total);
            for (queue, &served) in served.iter().enumerate() {
                let fair = (parts[queue] >> FRACTION) as f64;
                let off = (served as f64 - fair).abs();
                prop_assert!(off <= 2_000.0 * ready.len() as f64, "{queue}: {served} {fair}");
            }
        }

        /// Checks that no queue that stays ready is passed over for ever, whatever others do.
        #[test]
        fn none_starves(
            share in 1u8..=99,
            others in prop::collection::vec((0usize..4, 0usize..4, 1u64..1_500), 4_000),
        ) {
            let mut credits = Credits::new(share);
            let mut served = 0;
            for (first, last, amount) in others {
                let now = members(&[first, 1, last]);
                let queue = credits.pick(&now).unwrap();
                prop_assert!(now[queue] > 0);
                credits.charge(queue, &now, amount);
                served += usize::from(queue == 1);
            }
            // A quarter of one percent, where it has 1% of the others' rest at least.
            prop_assert!(served >= 4, "{served}");
        }
    }
}
