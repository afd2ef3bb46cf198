//! Balancers that take the endpoints in turn.

use super::view::{View, lighter};

/// The turns of endpoints, by weight and without bursts (smooth weighted round robin). Every pick
/// adds each usable endpoint's weight to its credit, takes the largest credit (the first of
/// equals), and charges the chosen endpoint the sum of the weights. Weights 5, 1, 1 give A A B A
/// C A A.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    credits: Vec<i128>,
    /// The endpoint at which a search starts, so that equals take turns.
    start: usize,
}

impl Rotation {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            credits: vec![0; endpoints],
            start: 0,
        }
    }

    pub(super) fn next(&mut self, views: &[View], usable: impl Fn(usize) -> bool) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for index in (0..views.len()).filter(|&index| usable(index)) {
            let weight = i128::from(views[index].weight.max(1));
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

    /// Returns the endpoint with the least load for its weight. Equals, such as idle endpoints,
    /// take turns by weight.
    pub(super) fn least(
        &mut self,
        views: &[View],
        load: impl Fn(&View) -> u64,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let count = views.len();
        let mut best: Option<usize> = None;
        for index in (0..count).map(|step| (self.start + step) % count) {
            let better = |best: usize| lighter(&views[index], &views[best], &load);
            if usable(index) && best.is_none_or(better) {
                best = Some(index);
            }
        }
        let mut best = best?;
        let least = views[best];
        let level = |index: usize| usable(index) && !lighter(&least, &views[index], &load);
        let differs = |index: usize| views[index].weight != least.weight;
        if (0..count).any(|index| level(index) && differs(index)) {
            best = self.next(views, level)?;
        }
        self.start = best + 1;
        Some(best)
    }
}
