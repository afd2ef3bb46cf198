//! Size classes and the cutoffs between them, given or learnt.

use crate::histogram::SizeHistogram;

/// The bounds between the size classes of [`crate::Discipline::Bands`].
#[derive(Clone, Debug, PartialEq)]
pub enum Cutoffs {
    /// Ascending bounds in bytes, 15 at most: a flow is in the first class
    /// whose bound is at least its remaining size, or past the last. Of more,
    /// the 15 lowest count.
    Fixed(Vec<u64>),
    /// Bounds learnt from the sizes seen, by the rules of thumb of TOCS03 2.2.2: the lowest at
    /// the median, the highest above all but the largest 0.5-1%, logarithmic spacing between.
    /// Until enough sizes have been seen, the bounds are the paper's ([`Cutoffs::paper`]).
    Learnt {
        /// The number of classes, 2 to 16.
        classes: u8,
    },
}

impl Cutoffs {
    /// Returns the cutoffs of TOCS03 2.2.4's table: 1K, 2K, 5K, 20K, 50K.
    pub fn paper() -> Self {
        Self::Fixed(PAPER.to_vec())
    }

    /// Returns the cutoff of TOCS03 3.4: two classes, split at 1K.
    pub fn two_class() -> Self {
        Self::Fixed(vec![1024])
    }
}

const PAPER: [u64; 5] = [1 << 10, 2 << 10, 5 << 10, 20 << 10, 50 << 10];

/// The most size classes, as many as the bands of the kernel's `prio` that TOCS03 uses.
pub(crate) const MAX_CLASSES: usize = 16;

/// The number of sizes before the first learnt cutoffs, and between two revisions.
const REVISE_EVERY: u32 = 512;

/// The share of the requests above the highest cutoff, in thousandths: TOCS03 says 0.5-1%.
const LARGEST_PER_MILLE: u64 = 8;

/// Size classes, which assign a class to a remaining size, and learn their cutoffs if asked to.
#[derive(Clone, Debug)]
pub struct SizeClasses {
    cutoffs: Vec<u64>,
    learner: Option<CutoffLearner>,
}

#[derive(Clone, Debug)]
struct CutoffLearner {
    classes: usize,
    sizes: SizeHistogram,
    until_revision: u32,
}

impl SizeClasses {
    /// Returns classes that end at `cutoffs`.
    pub fn new(cutoffs: &Cutoffs) -> Self {
        match cutoffs {
            Cutoffs::Fixed(bounds) => {
                let mut cutoffs = bounds.clone();
                cutoffs.sort_unstable();
                cutoffs.dedup();
                cutoffs.truncate(MAX_CLASSES - 1);
                Self {
                    cutoffs,
                    learner: None,
                }
            }
            Cutoffs::Learnt { classes } => Self {
                cutoffs: PAPER.to_vec(),
                learner: Some(CutoffLearner {
                    classes: usize::from(*classes).clamp(2, MAX_CLASSES),
                    sizes: SizeHistogram::new(),
                    until_revision: REVISE_EVERY,
                }),
            },
        }
    }

    /// Returns the class of `remaining` bytes, from 0: the first whose cutoff is at least as
    /// large.
    pub fn class(&self, remaining: u64) -> u8 {
        self.cutoffs.partition_point(|&cutoff| cutoff < remaining) as u8
    }

    /// Returns the cutoffs in force, ascending.
    pub fn cutoffs(&self) -> &[u64] {
        &self.cutoffs
    }

    /// Learns from the whole size of a response, if the cutoffs are learnt.
    pub fn observe(&mut self, bytes: u64) {
        if let Some(learner) = &mut self.learner
            && let Some(cutoffs) = learner.observe(bytes)
        {
            self.cutoffs = cutoffs;
        }
    }
}

impl CutoffLearner {
    /// Learns from a size, and returns new cutoffs when it is time to revise them.
    fn observe(&mut self, bytes: u64) -> Option<Vec<u64>> {
        self.sizes.observe(bytes);
        self.until_revision -= 1;
        if self.until_revision > 0 {
            return None;
        }
        self.until_revision = REVISE_EVERY;
        Some(self.revise())
    }

    fn revise(&self) -> Vec<u64> {
        let lowest = self.sizes.quantile_per_mille(500);
        let highest = self.sizes.quantile_per_mille(1000 - LARGEST_PER_MILLE);
        let gaps = self.classes - 2;
        let mut cutoffs = vec![lowest];
        for gap in 1..=gaps {
            // Geometric steps from the lowest to the highest.
            let exponent = gap as f64 / gaps as f64;
            let ratio = (highest as f64 / lowest as f64).powf(exponent);
            cutoffs.push((lowest as f64 * ratio) as u64);
        }
        cutoffs.dedup();
        cutoffs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{HALVE_AT, STEPS, step, upper_bound};
    use proptest::prelude::*;

    #[test]
    fn the_papers_table() {
        let classes = SizeClasses::new(&Cutoffs::paper());
        let of = |kib: u64| classes.class(kib * 1024);
        assert_eq!(classes.class(0), 0);
        assert_eq!([of(1), of(2), of(5), of(20), of(50)], [0, 1, 2, 3, 4]);
        assert_eq!(classes.class(1025), 1);
        assert_eq!(of(51), 5);
    }

    #[test]
    fn two_classes_split_at_1k() {
        let classes = SizeClasses::new(&Cutoffs::two_class());
        assert_eq!([classes.class(1024), classes.class(1025)], [0, 1]);
    }

    #[test]
    fn there_are_never_more_classes_than_allowed() {
        let many = SizeClasses::new(&Cutoffs::Fixed((1..=300).rev().collect()));
        assert_eq!(many.cutoffs(), (1..=15).collect::<Vec<u64>>());
        assert_eq!(
            [many.class(1), many.class(15), many.class(300)],
            [0, 14, 15]
        );
        let none = SizeClasses::new(&Cutoffs::Fixed(vec![]));
        assert_eq!([none.class(0), none.class(u64::MAX)], [0, 0]);
    }

    #[test]
    fn learnt_cutoffs_follow_the_rules_of_thumb() {
        let mut classes = SizeClasses::new(&Cutoffs::Learnt { classes: 6 });
        assert_eq!(classes.cutoffs(), PAPER);
        // 1000 sizes, the i-th being 100 x i, in a scattered order.
        for i in 0..4096u64 {
            classes.observe(100 * ((i * 619) % 1000 + 1));
        }
        let cutoffs = classes.cutoffs();
        assert_eq!(cutoffs.len(), 5);
        let within = |cutoff: u64, wanted: u64| {
            assert!(
                cutoff >= wanted && cutoff <= wanted * 113 / 100,
                "{cutoff} for {wanted}"
            );
        };
        within(cutoffs[0], 50_000);
        within(cutoffs[4], 99_200);
        let ratios: Vec<f64> = cutoffs
            .windows(2)
            .map(|w| w[1] as f64 / w[0] as f64)
            .collect();
        for ratio in &ratios {
            assert!((ratio - ratios[0]).abs() < 0.01, "{ratios:?}");
        }
    }

    #[test]
    fn learnt_cutoffs_forget() {
        let mut classes = SizeClasses::new(&Cutoffs::Learnt { classes: 2 });
        (0..HALVE_AT).for_each(|_| classes.observe(1000));
        (0..4 * HALVE_AT).for_each(|_| classes.observe(1_000_000));
        assert!(classes.cutoffs()[0] > 900_000);
    }

    proptest! {
        #[test]
        fn a_step_holds_what_falls_into_it(bytes in any::<u64>()) {
            let step = step(bytes);
            prop_assert!(step < 64 * STEPS);
            prop_assert!(upper_bound(step) >= bytes);
            if bytes > STEPS as u64 {
                prop_assert!(step == 0 || upper_bound(step - 1) < bytes);
            }
        }

        #[test]
        fn learnt_cutoffs_ascend(sizes in prop::collection::vec(any::<u64>(), 1100), classes in 0u8..30) {
            let mut classes = SizeClasses::new(&Cutoffs::Learnt { classes });
            sizes.iter().for_each(|&bytes| classes.observe(bytes));
            prop_assert!(classes.cutoffs().windows(2).all(|w| w[0] < w[1]));
            prop_assert!(classes.cutoffs().len() < MAX_CLASSES);
        }
    }
}
