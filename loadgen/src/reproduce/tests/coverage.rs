//! The coverage of all numbers that the papers print, and of all figures by experiments.
//!
//! The list of the numbers is no part of the repository. Each number of its series and claims has
//! to be covered by a row of the same paper and figure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::reference::{self, Paper, PaperRow, Unit};
use super::super::run;

/// The variable that names the file with the list.
const LIST: &str = "SPRAT_PAPER_NUMBERS";

/// The figures that have another name in the list: paper, list, rows.
const NAMES: [(&str, &str, &str); 5] = [
    ("TOCS03", "setup-LAN", "3.1"),
    ("TOCS03", "setup-LAN", "3.2"),
    ("TOCS03", "section 3.4", "3.4"),
    ("TOCS03", "section 5.1", "5.1"),
    ("SDIS02", "8, 9, 10, 11", "8-11"),
];

/// A listed number that a row covers by another number.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    /// The paper and the figure, and the claim's beginning or the name of the series.
    listed: [&'static str; 3],
    number: f64,
    /// The row's figure, and the beginning of its words.
    row: [&'static str; 2],
}

const fn elsewhere(listed: [&'static str; 3], number: f64, row: [&'static str; 2]) -> Elsewhere {
    Elsewhere {
        listed,
        number,
        row,
    }
}

const ELSEWHERE: [Elsewhere; 11] = [
    // FAIR over SRPT, where the row has SRPT over FAIR: 1.2.
    elsewhere(
        ["TOCS03", "9", "0.8: FAIR/SRPT by size"],
        0.833,
        ["9", "0.8: the largest file, SRPT over FAIR"],
    ),
    // All but the largest half per cent gain: the row has how many do.
    elsewhere(
        ["TOCS03", "9", "0.8: FAIR/SRPT by percentile"],
        1.0,
        ["9", "0.8: half percentiles of size that gain"],
    ),
    // No loss: the row has half of the last digit as its bound.
    elsewhere(
        ["TOCS03", "section 5.1", "loss there under SRPT"],
        0.0,
        ["5.1", "loss at the transmit queue, SRPT"],
    ),
    // Sizes up to which there is a gain: the rows have the gain at that size.
    elsewhere(
        ["SFD02", "7", "flow size up to which basic SFD gains"],
        40.0,
        ["7", "SFD gains up to 40 KB: 40 KB over DT"],
    ),
    elsewhere(
        ["SFD02", "8a", "flow size up to which S-SFD gains"],
        300.0,
        ["8a", "S-SFD gains up to 300 KB: 300 KB over DT"],
    ),
    // The paper's own times make another reduction: 0.434.
    elsewhere(
        ["SFD02", "table 6", "graphics"],
        0.77,
        ["table 6", "graphics page, parallel: reduction"],
    ),
    // Reductions, where the rows have what is left.
    elsewhere(
        ["SFD02", "12", "goodput of FTP beside web traffic"],
        0.4,
        ["12", "goodput of a file transfer over DT"],
    ),
    elsewhere(
        ["SFD02", "12", "reduction"],
        -0.2,
        ["12", "two tiers: 1,000 KB over DT"],
    ),
    // A number that table 4 has as well.
    elsewhere(
        ["SFD02", "12", "reduction"],
        0.23,
        ["table 4", "S-SFD, two tiers: mean over sizes"],
    ),
    // Linux against itself.
    elsewhere(
        ["SRQ06", "table IV", "diff_percent"],
        0.0,
        ["table IV", "Linux, 20 threads: mean"],
    ),
    // Half of Linux's 5 %: the row has the half.
    elsewhere(
        ["SRQ06", "11", "R-EDF, R-VRD, SRQ"],
        2.5,
        ["11", "at load 1: loss of R-EDF, R-VRD, SRQ over Linux's"],
    ),
];

/// The figures with numbers that are all inputs, or of a machine or a program of the time.
pub(super) const NOT_MEASURED: [(&str, &str); 10] = [
    ("SFD02", "table 1"),
    ("SFD02", "table 2"),
    ("SFD02", "table 5"),
    ("SRQ06", "table I"),
    ("SRQ06", "3"),
    ("SRQ06", "8"),
    ("SRQ06", "table II"),
    ("SRQ06", "table III"),
    ("SDIS02", "table 1"),
    ("SDIS02", "table 2"),
];

/// The list, figure by figure.
#[derive(Debug, Deserialize)]
struct NumberList {
    entries: Vec<ListedFigure>,
}

/// A figure or table of the list.
#[derive(Debug, Deserialize)]
struct ListedFigure {
    paper: String,
    figure: String,
    #[serde(default)]
    series: BTreeMap<String, Value>,
    #[serde(default)]
    claims: Vec<ListedClaim>,
}

/// A claim of the list, with its number or its pair of numbers if it has any.
#[derive(Debug, Deserialize)]
struct ListedClaim {
    text: String,
    number: Option<Value>,
}

/// A number of the list, with its claim or the name of its series.
#[derive(Clone, Copy, Debug)]
struct ListedNumber<'a> {
    of: &'a str,
    number: f64,
}

impl ListedFigure {
    fn of_claims(&self) -> Vec<ListedNumber<'_>> {
        let mut found = Vec::new();
        for claim in &self.claims {
            let of = claim.text.as_str();
            let own = claim.number.iter().flat_map(numbers);
            found.extend(own.map(|number| ListedNumber { of, number }));
        }
        found
    }

    fn of_series(&self) -> Vec<ListedNumber<'_>> {
        let mut found = Vec::new();
        for (of, series) in &self.series {
            let own = series_numbers(series).into_iter();
            found.extend(own.map(|number| ListedNumber { of, number }));
        }
        found
    }

    /// Returns the names that the figure has in the rows.
    fn names(&self) -> Vec<&str> {
        let is_own = |name: &&(&str, &str, &str)| name.0 == self.paper && name.1 == self.figure;
        let mut names: Vec<&str> = NAMES.iter().filter(is_own).map(|name| name.2).collect();
        if names.is_empty() {
            names.push(&self.figure);
        }
        names
    }

    /// Returns the numbers that no row covers. Each number of a row covers one.
    fn uncovered(&self, paper: &Paper, listed: Vec<ListedNumber<'_>>) -> Vec<String> {
        let names = self.names();
        let rows = paper.rows.iter();
        let rows = rows.filter(|row| names.contains(&row.figure.as_str()));
        let mut left: Vec<[f64; 2]> = rows.flat_map(row_numbers).collect();
        let mut missing = Vec::new();
        for own in listed {
            if self.is_elsewhere(own) {
                continue;
            }
            // A share of 0.1 is looked for before 0.1 per cent.
            let place = |way: usize| {
                let is_own = |number: &[f64; 2]| (number[way] - own.number).abs() < 1e-9;
                left.iter().position(is_own)
            };
            let found = place(0).or_else(|| place(1));
            if let Some(found) = found {
                left.remove(found);
            } else {
                let (paper, figure) = (&self.paper, &self.figure);
                missing.push(format!("{paper} {figure}, {}: {}", own.of, own.number));
            }
        }
        missing
    }

    fn is_elsewhere(&self, own: ListedNumber<'_>) -> bool {
        ELSEWHERE.iter().any(|other| {
            let [paper, figure, of] = other.listed;
            self.paper == paper
                && self.figure == figure
                && own.of.starts_with(of)
                && (own.number - other.number).abs() < 1e-9
        })
    }
}

/// Returns the numbers in a value of the list: two of `8 to 20`.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => number.as_f64().into_iter().collect(),
        Value::String(text) => numbers_in(text),
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Object(values) => values.values().flat_map(numbers).collect(),
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

/// Returns the numbers of a series: the second one of each point, or all of a table's line.
fn series_numbers(series: &Value) -> Vec<f64> {
    let Value::Array(points) = series else {
        return numbers(series);
    };
    let of_points = points.iter().filter_map(|point| point.get(1));
    of_points.flat_map(numbers).collect()
}

fn numbers_in(text: &str) -> Vec<f64> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Returns the paper's numbers of a row, each as the row and as the list may write it: the list has
/// some shares in per cent.
fn row_numbers(row: &PaperRow) -> Vec<[f64; 2]> {
    let mut found: Vec<f64> = Vec::new();
    found.extend([row.equal, row.at_least, row.at_most].into_iter().flatten());
    found.extend(row.between.into_iter().flatten());
    found.extend(row.printed.iter().flat_map(|text| numbers_in(text)));
    let factor = match row.unit {
        Unit::Percent | Unit::Change => 100.0,
        _ => 1.0,
    };
    let both = found.into_iter().map(|number| [number, factor * number]);
    both.collect()
}

#[test]
#[ignore = "needs the list of the papers' numbers that SPRAT_PAPER_NUMBERS names"]
fn every_listed_number_has_a_row() {
    let list = std::env::var_os(LIST).expect("SPRAT_PAPER_NUMBERS names the list");
    let text = std::fs::read_to_string(list).unwrap();
    let list: NumberList = serde_saphyr::from_str(&text).unwrap();
    let papers = reference::all().unwrap();
    let mut missing = Vec::new();
    for listed in &list.entries {
        let mut papers = papers.iter();
        let paper = papers.find(|own| own.name == listed.paper).unwrap();
        missing.extend(listed.uncovered(paper, listed.of_claims()));
        missing.extend(listed.uncovered(paper, listed.of_series()));
    }
    assert!(missing.is_empty(), "no row has\n{}", missing.join("\n"));
}

#[test]
fn rows_that_cover_another_number_are_there() {
    let papers = reference::all().unwrap();
    for own in ELSEWHERE {
        let ([name, ..], [figure, what]) = (own.listed, own.row);
        let paper = papers.iter().find(|paper| paper.name == name).unwrap();
        let mut rows = paper.rows.iter();
        let is_there = rows.any(|row| row.figure == figure && row.what.starts_with(what));
        assert!(is_there, "{own:?}");
    }
}

#[test]
fn every_figure_has_an_experiment_and_every_experiment_a_row() {
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    for paper in &papers {
        let figures = paper.figures.iter();
        for figure in figures.filter(|own| own.omitted.is_none()) {
            let mut rows = paper.rows.iter().filter(|row| row.figure == figure.figure);
            let has_experiment = rows.any(|row| row.from.is_some());
            let place = (paper.name.as_str(), figure.figure.as_str());
            assert_ne!(has_experiment, NOT_MEASURED.contains(&place), "{place:?}");
        }
    }
    for run in &runs {
        let paper = papers.iter().find(|own| own.name == run.paper()).unwrap();
        let mut sources = paper.rows.iter().filter_map(|row| row.from.as_ref());
        let is_read = sources.any(|from| from.run == run.name());
        assert!(is_read, "{} {}", run.paper(), run.name());
    }
}
