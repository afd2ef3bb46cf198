//! The plots: that each figure of the papers has one, and that the kept run has all of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::plots;
use super::super::{reference, run};
use super::coverage::NOT_MEASURED;

/// The most letters that fit above and below a plot on a telephone.
const TITLE_LETTERS: usize = 37;
const AXIS_LETTERS: usize = 40;

/// Returns the numbers of a figure's name: both of `2, 3`, all of `8-11`. Tables, sections and
/// footnotes have none.
fn numbers(figure: &str) -> Vec<String> {
    let is_number = |text: &&str| {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        !digits.is_empty() && digits.chars().all(|letter| letter.is_ascii_digit())
    };
    if let Some((first, last)) = figure.split_once('-') {
        let range = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
        return range.map_or(Vec::new(), |(first, last)| {
            (first..=last).map(|number| number.to_string()).collect()
        });
    }
    let parts = figure.split(", ").filter(is_number);
    parts.map(str::to_owned).collect()
}

/// Returns whether a plot is that of a figure, such as 5b or 9, by its name: `figure-09a-sample`.
fn is_of(plot: &str, number: &str) -> bool {
    let Some(name) = plot.strip_prefix("figure-") else {
        return false;
    };
    let own = name.split('-').next().unwrap_or(name);
    let own = own.trim_start_matches('0');
    let without_letter = own.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    own == number || without_letter == number
}

#[test]
fn names_of_figures_and_of_plots_meet() {
    assert_eq!(numbers("8-11"), ["8", "9", "10", "11"]);
    assert_eq!(numbers("2, 3"), ["2", "3"]);
    assert_eq!(numbers("5b"), ["5b"]);
    for none in ["table IV", "3.2", "footnote 2", "table 1"] {
        assert_eq!(numbers(none), Vec::<String>::new(), "{none}");
    }
    assert!(is_of("figure-05b", "5b") && is_of("figure-09a-sample", "9"));
    assert!(is_of("figure-10-uplink", "10") && is_of("figure-08", "8"));
    assert!(!is_of("figure-05a", "5b") && !is_of("figure-10", "1"));
    assert!(!is_of("today-05", "5"));
}

#[test]
fn every_figure_that_is_measured_has_a_plot() {
    let runs = run::all(None);
    for paper in &reference::all().unwrap() {
        let plots = || {
            let own = runs.iter().filter(|run| run.paper() == paper.name);
            own.flat_map(|run| run.plots())
        };
        for figure in paper.figures.iter().filter(|own| own.omitted.is_none()) {
            if NOT_MEASURED.contains(&(paper.name.as_str(), figure.figure.as_str())) {
                continue;
            }
            for number in numbers(&figure.figure) {
                let mut plots = plots();
                let is_drawn = plots.any(|plot| is_of(plot.name, &number));
                assert!(is_drawn, "{} has no plot of figure {number}", paper.name);
            }
        }
    }
}

#[test]
fn plots_have_names_of_their_own_and_words_that_fit_a_telephone() {
    let runs = run::all(None);
    let mut names = BTreeSet::new();
    for run in &runs {
        for plot in run.plots() {
            let (title, x, y) = (plot.title.len(), plot.x.len(), plot.y.len());
            assert!(title <= TITLE_LETTERS, "{}: {title} letters", plot.title);
            assert!(x.max(y) <= AXIS_LETTERS, "{}, {}", plot.x, plot.y);
            let is_new = names.insert((run.paper(), plot.name));
            assert!(is_new, "{} {}", run.paper(), plot.name);
        }
    }
}

#[test]
fn the_run_that_is_kept_has_every_plot_and_no_other() {
    let output = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/papers");
    let runs = run::all(None);
    let drawn = plots::all(&runs, &output).unwrap();
    for run in &runs {
        for plot in run.plots() {
            let mut drawn = drawn.iter().filter(|own| own.paper == run.paper());
            let (paper, name) = (run.paper(), plot.name);
            assert!(drawn.any(|own| own.name == name), "{paper} {name}");
        }
    }
    let expected: BTreeSet<_> = drawn
        .iter()
        .map(|own| output.join(&own.paper).join(format!("{}.svg", own.name)))
        .collect();
    let papers: BTreeSet<&str> = runs.iter().map(run::PaperRun::paper).collect();
    let files = papers.iter().flat_map(|paper| {
        let entries = std::fs::read_dir(output.join(paper)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let is_plot = |file: &PathBuf| file.extension().is_some_and(|own| own == "svg");
    let found: BTreeSet<_> = files.filter(is_plot).collect();
    assert_eq!(found, expected);
}
