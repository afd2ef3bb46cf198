//! Which endpoint of a cluster gets the next request.
//!
//! The caller says which endpoints may be chosen at all (`usable`); an
//! endpoint that failed to connect for this request, say, is left out by it.

/// In turn, by weight, without bursts: smooth weighted round robin.
///
/// Every pick adds each usable endpoint's weight to its credit, takes the
/// largest credit (the first of equals), and charges the chosen one the sum of
/// the weights. Weights 5, 1, 1 give A A B A C A A.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    weights: Vec<u32>,
    credits: Vec<i64>,
}

impl RoundRobin {
    /// A rotation over as many endpoints as there are `weights`.
    pub fn new(weights: &[u32]) -> Self {
        Self {
            weights: weights.to_vec(),
            credits: vec![0; weights.len()],
        }
    }

    /// The next endpoint, or `None` if none is usable.
    pub fn pick(&mut self, usable: impl Fn(usize) -> bool) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for index in (0..self.weights.len()).filter(|&index| usable(index)) {
            let weight = i64::from(self.weights[index]);
            total += weight;
            self.credits[index] += weight;
            if best.is_none_or(|best| self.credits[index] > self.credits[best]) {
                best = Some(index);
            }
        }
        let best = best?;
        self.credits[best] -= total;
        Some(best)
    }
}

/// The endpoint with the fewest requests outstanding for its weight (SDIS02's
/// shortest queue first); among equals, each in turn.
#[derive(Clone, Debug)]
pub struct LeastRequest {
    weights: Vec<u32>,
    /// Where the search starts, so that equals take turns.
    start: usize,
}

impl LeastRequest {
    /// A choice among as many endpoints as there are `weights`.
    pub fn new(weights: &[u32]) -> Self {
        Self {
            weights: weights.to_vec(),
            start: 0,
        }
    }

    /// The endpoint for the next request, or `None` if none is usable.
    /// `outstanding` tells an endpoint's requests in progress.
    pub fn pick(
        &mut self,
        outstanding: impl Fn(usize) -> usize,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let count = self.weights.len();
        let mut best: Option<(usize, u128)> = None;
        for index in (0..count).map(|step| (self.start + step) % count) {
            if !usable(index) {
                continue;
            }
            let load = outstanding(index) as u128;
            let lighter = best.is_none_or(|(best, best_load)| {
                // load / weight < best_load / best_weight, without division.
                load * u128::from(self.weights[best]) < best_load * u128::from(self.weights[index])
            });
            if lighter {
                best = Some((index, load));
            }
        }
        let (best, _) = best?;
        self.start = (best + 1) % count;
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rotation: &mut RoundRobin, picks: usize) -> Vec<usize> {
        (0..picks).filter_map(|_| rotation.pick(|_| true)).collect()
    }

    #[test]
    fn equal_weights_take_turns() {
        let mut rotation = RoundRobin::new(&[1, 1, 1]);
        assert_eq!(round(&mut rotation, 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn unequal_weights_are_spread_smoothly() {
        let mut rotation = RoundRobin::new(&[5, 1, 1]);
        let cycle = [0, 0, 1, 0, 2, 0, 0];
        assert_eq!(round(&mut rotation, 7), cycle);
        assert_eq!(round(&mut rotation, 7), cycle);
    }

    #[test]
    fn every_cycle_gives_exact_shares() {
        for weights in [[1, 2, 3], [7, 1, 4], [10, 10, 1]] {
            let total: u32 = weights.iter().sum();
            let picks = round(&mut RoundRobin::new(&weights), total as usize);
            for (index, &weight) in weights.iter().enumerate() {
                let share = picks.iter().filter(|&&pick| pick == index).count();
                assert_eq!(share, weight as usize, "endpoint {index} of {weights:?}");
            }
        }
    }

    #[test]
    fn unusable_endpoints_are_left_out() {
        let mut rotation = RoundRobin::new(&[1, 1, 1]);
        let picks: Vec<_> = (0..4).map(|_| rotation.pick(|index| index != 1)).collect();
        assert_eq!(picks, [Some(0), Some(2), Some(0), Some(2)]);
        assert_eq!(rotation.pick(|_| false), None);
        assert_eq!(RoundRobin::new(&[]).pick(|_| true), None);
    }

    #[test]
    fn the_fewest_outstanding_for_the_weight_wins() {
        let mut choice = LeastRequest::new(&[1, 4, 2]);
        // 2/1, 4/4, 3/2.
        assert_eq!(choice.pick(|index| [2, 4, 3][index], |_| true), Some(1));
        // 2/1, 9/4, 3/2.
        assert_eq!(choice.pick(|index| [2, 9, 3][index], |_| true), Some(2));
        assert_eq!(choice.pick(|index| [2, 9, 3][index], |i| i != 2), Some(0));
    }

    #[test]
    fn equals_take_turns() {
        let mut choice = LeastRequest::new(&[1, 1, 1]);
        let picks: Vec<_> = (0..5).map(|_| choice.pick(|_| 0, |_| true)).collect();
        assert_eq!(picks, [Some(0), Some(1), Some(2), Some(0), Some(1)]);
        // 0 is busier: 2 and 1 alternate.
        let picks: Vec<_> = (0..3)
            .map(|_| choice.pick(|index| usize::from(index == 0), |_| true))
            .collect();
        assert_eq!(picks, [Some(2), Some(1), Some(2)]);
        assert_eq!(choice.pick(|_| 0, |_| false), None);
        assert_eq!(LeastRequest::new(&[]).pick(|_| 0, |_| true), None);
    }

    #[test]
    fn counting_what_it_hands_out_balances_by_weight() {
        let mut choice = LeastRequest::new(&[3, 1]);
        let mut outstanding = [0_usize; 2];
        for _ in 0..400 {
            let index = choice.pick(|index| outstanding[index], |_| true).unwrap();
            outstanding[index] += 1;
        }
        assert_eq!(outstanding, [300, 100]);
    }
}
