//! The verdict whether a value of ours reproduces a paper's.

use std::fmt;

use serde::Serialize;

use super::reference::{Better, PaperRow};

/// The result of a comparison of our value with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Our value is within the row's tolerance of the paper's, or beyond it where beyond is better.
    Reproduced,
    /// Our value is neither within the tolerance nor better, or there is none.
    Differs,
    /// The row has no value of ours to hold against the paper's.
    NotComparable,
    /// The row's experiment has not been run.
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reproduced => "reproduced",
            Self::Differs => "differs",
            Self::NotComparable => "not comparable",
            Self::NotRun => "not run",
        })
    }
}

impl Verdict {
    /// Judges a value by a row's number, tolerance and direction.
    pub(super) fn of(row: &PaperRow, found: f64) -> Self {
        let is_within = expected(row).is_some_and(|(low, high)| (low..=high).contains(&found));
        match is_within || is_beyond(row, found) {
            true => Self::Reproduced,
            false => Self::Differs,
        }
    }
}

/// Returns whether a value is beyond the tolerance of the paper's, in the direction that is better.
pub(super) fn is_beyond(row: &PaperRow, found: f64) -> bool {
    expected(row).is_some_and(|(low, high)| match row.better {
        Some(Better::Higher) => found > high,
        Some(Better::Lower) => found < low,
        None => false,
    })
}

/// Returns the bounds between which a value reproduces the paper's; `None` if the row has no
/// number.
fn expected(row: &PaperRow) -> Option<(f64, f64)> {
    let margin = |value: f64| value.abs() * row.tolerance;
    if row.holds {
        return Some((1.0, 1.0));
    }
    if let Some(value) = row.equal {
        return Some((value - margin(value), value + margin(value)));
    }
    if let Some([low, high]) = row.between {
        return Some((low - margin(low), high + margin(high)));
    }
    if let Some(least) = row.at_least {
        return Some((least - margin(least), f64::INFINITY));
    }
    let most = row.at_most?;
    Some((f64::NEG_INFINITY, most + margin(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> PaperRow {
        PaperRow {
            tolerance: 0.1,
            ..PaperRow::default()
        }
    }

    #[test]
    fn a_value_beyond_the_tolerance_is_told_from_one_within() {
        let equal = |better| PaperRow {
            equal: Some(2.0),
            better,
            ..row()
        };
        let found = |better| [1.7, 1.8, 2.2, 2.3].map(|found| is_beyond(&equal(better), found));
        assert_eq!(found(Some(Better::Higher)), [false, false, false, true]);
        assert_eq!(found(Some(Better::Lower)), [true, false, false, false]);
        assert_eq!(found(None), [false; 4]);
        // A bound has no other side, and a row without a number none at all.
        let at_least = PaperRow {
            at_least: Some(2.0),
            ..row()
        };
        assert!(!is_beyond(&at_least, 9.0) && !is_beyond(&row(), 9.0));
    }

    #[test]
    fn a_value_is_judged_by_what_its_row_states() {
        use Verdict::{Differs, Reproduced};
        let equal = |better| PaperRow {
            equal: Some(2.0),
            better,
            ..row()
        };
        let change = PaperRow {
            equal: Some(-0.6),
            better: Some(Better::Lower),
            ..row()
        };
        let between = PaperRow {
            between: Some([3.0, 8.0]),
            better: Some(Better::Higher),
            ..row()
        };
        let at_least = PaperRow {
            at_least: Some(0.5),
            ..row()
        };
        let at_most = PaperRow {
            at_most: Some(1.2),
            tolerance: 0.0,
            ..row()
        };
        let holds = PaperRow {
            holds: true,
            ..row()
        };
        let table = [
            (equal(None), 1.8, Reproduced),
            (equal(None), 2.2, Reproduced),
            (equal(None), 1.79, Differs),
            (equal(None), 2.21, Differs),
            (equal(Some(Better::Higher)), 9.0, Reproduced),
            (equal(Some(Better::Higher)), 1.0, Differs),
            (equal(Some(Better::Lower)), 1.0, Reproduced),
            (change.clone(), -0.7, Reproduced),
            (change.clone(), -0.55, Reproduced),
            (change, -0.5, Differs),
            (between.clone(), 2.7, Reproduced),
            (between.clone(), 2.6, Differs),
            (between, 20.0, Reproduced),
            (at_least.clone(), 0.45, Reproduced),
            (at_least, 0.44, Differs),
            (at_most.clone(), 1.2, Reproduced),
            (at_most, 1.21, Differs),
            (holds.clone(), 1.0, Reproduced),
            (holds, 0.0, Differs),
            // No number, no verdict but this one.
            (row(), 1.0, Differs),
        ];
        for (index, (row, found, verdict)) in table.into_iter().enumerate() {
            assert_eq!(Verdict::of(&row, found), verdict, "case {index}");
        }
    }
}
