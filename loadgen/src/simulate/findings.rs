//! Findings of a paper, and whether the simulation has them too.

use std::ops::RangeInclusive;

use super::output::aligned;

/// A finding of a paper, beside the simulation's.
pub(super) struct Finding {
    /// The figures and the section of the paper.
    pub(super) source: &'static str,
    pub(super) claim: &'static str,
    /// The result of the simulation beside it.
    pub(super) found: String,
    pub(super) verdict: FindingVerdict,
}

/// The verdict whether the simulation has a paper's finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingVerdict {
    Holds,
    /// The effect has the paper's direction, and is smaller.
    InPart,
    /// The simulation does not show what the paper has seen: nothing speaks for
    /// it, and nothing against.
    NotShown,
    Differs,
}

impl FindingVerdict {
    pub(super) fn of(holds: bool) -> Self {
        match holds {
            true => Self::Holds,
            false => Self::Differs,
        }
    }

    /// Judges a share for which the paper gives bounds; a share below them is not shown.
    pub(super) fn of_share(share: f64, bounds: RangeInclusive<f64>) -> Self {
        match bounds.contains(&share) {
            true => Self::Holds,
            false if share < *bounds.start() => Self::NotShown,
            false => Self::Differs,
        }
    }

    /// Judges a gain: as much as the paper's or more, to the tenth of a per cent that papers
    /// print; some, or none.
    pub(super) fn of_gain(gain: f64, paper: f64) -> Self {
        let printed = |share: f64| (share * 1000.0).round();
        match gain {
            gain if printed(gain) >= printed(paper) => Self::Holds,
            gain if gain > 0.0 => Self::InPart,
            _ => Self::Differs,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart => "in part",
            Self::NotShown => "not shown",
            Self::Differs => "DIFFERS",
        }
    }
}

/// Returns a table of findings for the terminal.
pub(super) fn told(findings: &[Finding]) -> String {
    let mut table = vec![
        ["", "of", "found here", "the paper's finding"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for finding in findings {
        table.push(vec![
            finding.verdict.name().to_owned(),
            finding.source.to_owned(),
            finding.found.clone(),
            finding.claim.to_owned(),
        ]);
    }
    let columns = table[0].len();
    aligned(&table, columns)
}
