//! An interval of sizes for each endpoint.

use super::endpoint::EndpointSpec;
use crate::histogram::SizeHistogram;

/// The source of the intervals of [`super::Dispatch::Sita`].
#[derive(Clone, Debug, PartialEq)]
pub enum Intervals {
    /// The sizes at which one endpoint's interval ends (inclusive) and the next
    /// one's begins, ascending; one fewer than there are endpoints. Endpoints
    /// with a `size_range` of their own keep it.
    Fixed(Vec<u64>),
    /// Intervals learnt from the sizes seen, so that each endpoint gets the same load for its
    /// weight (SITA-E).
    Learnt,
}

impl Intervals {
    /// Returns the interval of the endpoint at `index` of `count`, from and to
    /// (inclusive); `None` if it is learnt.
    pub fn range(&self, index: usize, count: usize) -> Option<(u64, u64)> {
        match self {
            Self::Fixed(cutoffs) => ranges(cutoffs, count).get(index).copied(),
            Self::Learnt => None,
        }
    }
}

/// The number of sizes between two revisions of learnt intervals.
const REVISE_EVERY: u32 = 512;

/// The cost of a request to an endpoint beside its bytes, in bytes. It keeps an
/// endpoint for the smallest from being swamped by their number.
const REQUEST_BYTES: u64 = 512;

/// The end of the first interval before any size is known, in bytes: the median of DESIGN's
/// workload.
const FIRST_CUTOFF: u64 = 1024;
/// The factor from the end of one interval to that of the next, before any size is known.
const NEXT_CUTOFF: u64 = 16;

#[derive(Clone, Debug)]
pub(super) struct SizeIntervals {
    /// The interval of each endpoint, from and to (inclusive), in bytes.
    ranges: Vec<(u64, u64)>,
    learner: Option<IntervalLearner>,
}

#[derive(Clone, Debug)]
struct IntervalLearner {
    sizes: SizeHistogram,
    weights: Vec<u64>,
    until_revision: u32,
    /// Whether the intervals follow from sizes seen, and not from the first guess.
    revised: bool,
}

impl SizeIntervals {
    pub(super) fn new(intervals: &Intervals, endpoints: &[EndpointSpec]) -> Self {
        let count = endpoints.len();
        let learnt = || IntervalLearner {
            sizes: SizeHistogram::new(),
            weights: endpoints.iter().map(|e| u64::from(e.weight)).collect(),
            until_revision: REVISE_EVERY,
            revised: false,
        };
        let (cutoffs, learner) = match intervals {
            Intervals::Fixed(cutoffs) => (cutoffs.clone(), None),
            Intervals::Learnt => {
                let step = |n| FIRST_CUTOFF.saturating_mul(NEXT_CUTOFF.saturating_pow(n));
                let cutoffs = (0..count.saturating_sub(1) as u32).map(step);
                (cutoffs.collect(), Some(learnt()))
            }
        };
        let mut ranges = ranges(&cutoffs, count);
        for (range, endpoint) in ranges.iter_mut().zip(endpoints) {
            if let Some(own) = endpoint.size_range {
                *range = own;
            }
        }
        Self { ranges, learner }
    }

    /// Takes over the sizes that another has learnt from, and revises the intervals by them.
    pub(super) fn inherit(&mut self, known: &mut Self) {
        if let (Some(learner), Some(known)) = (&mut self.learner, &mut known.learner) {
            std::mem::swap(&mut learner.sizes, &mut known.sizes);
            learner.until_revision = known.until_revision;
            learner.revised = known.revised;
            if learner.revised {
                self.revise();
            }
        }
    }

    pub(super) fn are_learnt(&self) -> bool {
        self.learner.is_some()
    }

    pub(super) fn observe(&mut self, bytes: u64) {
        let Some(learner) = &mut self.learner else {
            return;
        };
        learner.sizes.observe(bytes);
        learner.until_revision -= 1;
        if learner.until_revision == 0 {
            learner.until_revision = REVISE_EVERY;
            learner.revised = true;
            self.revise();
        }
    }

    fn revise(&mut self) {
        if let Some(learner) = &self.learner {
            let cutoffs = learner.sizes.equal_load(&learner.weights, REQUEST_BYTES);
            self.ranges = ranges(&cutoffs, learner.weights.len());
        }
    }

    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    pub(super) fn range(&self, endpoint: usize) -> (u64, u64) {
        self.ranges[endpoint]
    }

    /// Returns the interval of a usable endpoint that holds `bytes`. If there
    /// is none, the next one above is returned, for a small request slows large
    /// ones down less than a large one small ones; or else the highest below.
    pub(super) fn nearest(&self, bytes: u64, usable: impl Fn(usize) -> bool) -> Option<(u64, u64)> {
        let usable = || (0..self.ranges.len()).filter(|&index| usable(index));
        let ranges = || usable().map(|index| self.ranges[index]);
        let holds = ranges().find(|&(from, to)| (from..=to).contains(&bytes));
        let above = || ranges().filter(|&(from, _)| from > bytes).min();
        let below = || ranges().max_by_key(|&(_, to)| to);
        holds.or_else(above).or_else(below)
    }
}

fn ranges(cutoffs: &[u64], count: usize) -> Vec<(u64, u64)> {
    let mut from = 0;
    let mut ranges = Vec::with_capacity(count);
    for index in 0..count {
        let to = cutoffs.get(index).copied().unwrap_or(u64::MAX);
        // The last one takes the rest, whatever the cutoffs say.
        let to = if index + 1 == count { u64::MAX } else { to };
        ranges.push((from, to.max(from)));
        from = to.saturating_add(1);
    }
    ranges
}
