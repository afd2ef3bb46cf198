//! The values that the papers print, from the files in `loadgen/papers/`.

use anyhow::Context as _;
use serde::Deserialize;

/// A paper, with the rows of its figures and tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    /// The short name, such as SRQ06.
    pub(super) name: String,
    pub(super) authors: String,
    pub(super) title: String,
    pub(super) published: String,
    /// Facts that a reader should know before comparing.
    pub(super) notes: Vec<String>,
    pub(super) figures: Vec<PaperFigure>,
    pub(super) rows: Vec<PaperRow>,
}

/// A figure or table of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFigure {
    /// The name that rows use: `9`, or `table IV`.
    pub(super) figure: String,
    pub(super) title: String,
    /// The reason why the figure has no rows: it is a diagram, or shows inputs rather than results.
    #[serde(default)]
    pub(super) omitted: Option<String>,
}

/// A value that a paper prints, and the source of ours.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperRow {
    pub(super) figure: String,
    /// The quantity that is compared, in words.
    pub(super) what: String,
    #[serde(default)]
    pub(super) equal: Option<f64>,
    #[serde(default)]
    pub(super) between: Option<[f64; 2]>,
    #[serde(default)]
    pub(super) at_least: Option<f64>,
    #[serde(default)]
    pub(super) at_most: Option<f64>,
    /// A claim without a number: it holds, or does not.
    #[serde(default)]
    pub(super) holds: bool,
    /// Several numbers in words, of a row that is not comparable.
    #[serde(default)]
    pub(super) printed: Option<String>,
    /// The distance from the paper's number that ours may have, as a part of it.
    #[serde(default)]
    pub(super) tolerance: f64,
    /// The direction in which a value beyond the paper's counts as reproduced, too.
    #[serde(default)]
    pub(super) better: Option<Better>,
    #[serde(default)]
    pub(super) unit: Unit,
    /// The precision of the paper's number: exact, stated, loose, derived.
    pub(super) precision: String,
    #[serde(default)]
    pub(super) from: Option<From>,
    /// The reason why no value of ours can be held against the paper's.
    #[serde(default)]
    pub(super) not_comparable: Option<String>,
    /// The reason why ours differs, where it does; else a fact to know.
    #[serde(default)]
    pub(super) note: Option<String>,
}

/// The source of a value of ours: an experiment, and the value's name there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    pub(super) run: String,
    pub(super) value: String,
}

/// A direction in which a value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    /// More than the paper's.
    Higher,
    /// Less than the paper's.
    Lower,
}

/// The unit that a value is written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    /// A number without a unit.
    #[default]
    Plain,
    /// A ratio: so many times.
    Times,
    /// A share, written in per cent.
    Percent,
    /// A change, in per cent with its sign.
    Change,
    /// A time in seconds.
    S,
    /// A time in milliseconds.
    Ms,
    /// A rate in megabits per second.
    Mbit,
}

const FILES: [(&str, &str); 5] = [
    ("tocs03", include_str!("../../papers/tocs03.yaml")),
    ("eh99", include_str!("../../papers/eh99.yaml")),
    ("sfd02", include_str!("../../papers/sfd02.yaml")),
    ("srq06", include_str!("../../papers/srq06.yaml")),
    ("sdis02", include_str!("../../papers/sdis02.yaml")),
];

/// Returns all papers, in the order of the page.
///
/// # Errors
/// A file has a key that is not known, or lacks one.
pub(super) fn all() -> anyhow::Result<Vec<Paper>> {
    let read = |(name, text): (&str, &str)| {
        serde_saphyr::from_str(text).with_context(|| format!("loadgen/papers/{name}.yaml"))
    };
    FILES.into_iter().map(read).collect()
}
