//! The plots of the papers' figures, drawn from the points of the experiments' records.

use std::path::Path;

use sprat_measure::axis::{Axis, Unit};
use sprat_measure::plot::{Bar, BarChart, LineChart, PlotError, Series, Style};
use sprat_measure::text::significant;

use super::record::{Record, file_of};
use super::run::PaperRun;
use crate::simulate::experiment::{Measured, PlotAxes, PlotSpec};

/// A plot of a paper, drawn.
pub(super) struct Drawn {
    pub(super) paper: String,
    pub(super) name: String,
    /// The words below the plot.
    pub(super) caption: String,
    pub(super) svg: String,
    /// The same plot, drawn for a telephone.
    pub(super) narrow: String,
}

/// Draws the plots of all experiments that have been run.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn all(runs: &[PaperRun], output: &Path) -> anyhow::Result<Vec<Drawn>> {
    let mut drawn = Vec::new();
    for run in runs {
        let Some(record) = Record::read(&file_of(output, run.paper(), run.name())) else {
            continue;
        };
        for spec in run.plots() {
            let Some(chart) = PaperChart::of(spec, &record.measured) else {
                continue;
            };
            drawn.push(Drawn {
                paper: run.paper().to_owned(),
                name: spec.name.to_owned(),
                caption: caption(spec, run.about()),
                svg: chart.svg()?,
                narrow: chart.narrow_svg()?,
            });
        }
    }
    // In the order of the figures, whichever experiment they are from.
    drawn.sort_by(|one, other| number(&one.name).cmp(number(&other.name)));
    Ok(drawn)
}

/// Returns the number in a plot's name, with its letter and reading: `05a-sample`.
fn number(name: &str) -> &str {
    name.split_once('-').map_or(name, |(_, number)| number)
}

/// Returns a plot's caption: its figure, its title, and the first sentence about its experiment.
fn caption(spec: &PlotSpec, about: &str) -> String {
    let (kind, number) = spec.name.split_once('-').unwrap_or(("figure", spec.name));
    let number = number.trim_start_matches('0');
    let figure = match kind {
        "figure" => match number.split_once('-') {
            Some((number, reading)) => format!("Figure {number}, {reading}"),
            None => format!("Figure {number}"),
        },
        other => format!("Figure {number}, {other}"),
    };
    let first = about.split_once(". ").map_or(about, |(first, _)| first);
    let first = first.trim_end_matches('.');
    format!("{figure}: {}. {first}.", spec.title)
}

/// A line of a plot, with its points.
type PlotLine = (String, Vec<(f64, f64)>);

/// The chart of a plot.
enum PaperChart {
    /// Lines over two axes of numbers.
    Lines(LineChart),
    /// Bars at places with names.
    Bars(BarChart),
}

impl PaperChart {
    /// Makes the chart of a plot's points; `None` if no point can be drawn.
    fn of(spec: &PlotSpec, measured: &Measured) -> Option<Self> {
        let lines = lines(spec, measured);
        if lines.is_empty() {
            return None;
        }
        Some(match spec.axes {
            PlotAxes::Linear | PlotAxes::LogY | PlotAxes::LogLog => {
                Self::Lines(line_chart(spec, lines))
            }
            PlotAxes::Places(names) => Self::Bars(bar_chart(spec, names, &lines)),
        })
    }

    fn svg(&self) -> Result<String, PlotError> {
        match self {
            Self::Lines(own) => own.svg(),
            Self::Bars(own) => own.svg(),
        }
    }

    fn narrow_svg(&self) -> Result<String, PlotError> {
        match self {
            Self::Lines(own) => own.narrow_svg(),
            Self::Bars(own) => own.narrow_svg(),
        }
    }
}

/// Returns the points of a plot by line, those of a line by x.
fn lines(spec: &PlotSpec, measured: &Measured) -> Vec<PlotLine> {
    let (is_log_x, is_log_y) = match spec.axes {
        PlotAxes::Linear | PlotAxes::Places(_) => (false, false),
        PlotAxes::LogY => (false, true),
        PlotAxes::LogLog => (true, true),
    };
    let mut lines: Vec<PlotLine> = Vec::new();
    for point in measured.points.iter().filter(|own| own.plot == spec.name) {
        // On a logarithmic axis there is no zero.
        if (is_log_y && point.y <= 0.0) || (is_log_x && point.x <= 0.0) {
            continue;
        }
        match lines.iter_mut().find(|(name, _)| *name == point.line) {
            Some((_, points)) => points.push((point.x, point.y)),
            None => lines.push((point.line.clone(), vec![(point.x, point.y)])),
        }
    }
    for (_, points) in &mut lines {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    lines
}

fn line_chart(spec: &PlotSpec, lines: Vec<PlotLine>) -> LineChart {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (all_x, all_y) = (|| points().map(|(x, _)| *x), || points().map(|(_, y)| *y));
    let x = match spec.axes {
        PlotAxes::LogLog => Axis::log(spec.x, Unit::Plain, all_x()),
        PlotAxes::Linear | PlotAxes::LogY | PlotAxes::Places(_) => Axis::with_zero(spec.x, all_x()),
    };
    let y = match spec.axes {
        PlotAxes::LogLog | PlotAxes::LogY => Axis::log(spec.y, Unit::Plain, all_y()),
        PlotAxes::Linear | PlotAxes::Places(_) => Axis::with_zero(spec.y, all_y()),
    };
    let series = lines.into_iter().enumerate();
    let series = series.map(|(index, (name, points))| Series {
        name,
        style: Style::of(index),
        points,
    });
    LineChart {
        title: spec.title.to_owned(),
        x,
        y,
        series: series.collect(),
    }
}

/// Makes a chart with the bars of all lines at each of the places in turn.
fn bar_chart(spec: &PlotSpec, places: &[&str], lines: &[PlotLine]) -> BarChart {
    let mut bars = Vec::new();
    for (place, place_name) in places.iter().enumerate() {
        for (index, (line, points)) in lines.iter().enumerate() {
            let own = points.iter().filter(|(x, _)| *x == place as f64);
            bars.extend(own.map(|&(_, value)| Bar {
                name: format!("{place_name}, {line}"),
                style: Style::of(index),
                value,
                label: significant(value),
            }));
        }
    }
    BarChart {
        title: spec.title.to_owned(),
        x: Axis::from_zero(spec.y, bars.iter().map(|bar| bar.value)),
        bars,
        line: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(axes: PlotAxes) -> PlotSpec {
        PlotSpec {
            name: "figure-09b-sample",
            title: "By place",
            x: "place",
            y: "time (ms)",
            axes,
        }
    }

    #[test]
    fn captions_name_the_figure_and_the_reading() {
        let about = "A link. More of it.";
        assert_eq!(
            caption(&spec(PlotAxes::LogY), about),
            "Figure 9b, sample: By place. A link."
        );
    }

    #[test]
    fn zero_is_drawn_where_the_axis_has_one() {
        let mut measured = Measured::default();
        for (x, y) in [(1.0, 0.5), (0.0, 2.0), (2.0, 0.0)] {
            measured.point("figure-09b-sample", "own", x, y);
        }
        measured.point("figure-10", "other", 3.0, 3.0);
        let drawn = |axes| lines(&spec(axes), &measured);
        let own = |points: &[(f64, f64)]| vec![("own".to_owned(), points.to_vec())];
        let all = own(&[(0.0, 2.0), (1.0, 0.5), (2.0, 0.0)]);
        assert_eq!(drawn(PlotAxes::Linear), all);
        assert_eq!(drawn(PlotAxes::LogY), own(&[(0.0, 2.0), (1.0, 0.5)]));
        assert_eq!(drawn(PlotAxes::LogLog), own(&[(1.0, 0.5)]));
        assert!(PaperChart::of(&spec(PlotAxes::LogY), &Measured::default()).is_none());
    }

    #[test]
    fn places_have_a_bar_for_each_line() {
        let mut measured = Measured::default();
        for (line, ms) in [("FAIR", 30.0), ("SRPT", 10.0)] {
            measured.point("figure-09b-sample", line, 0.0, ms);
            measured.point("figure-09b-sample", line, 1.0, 2.0 * ms);
        }
        let spec = spec(PlotAxes::Places(&["IBM", "UK", "nowhere"]));
        let Some(PaperChart::Bars(chart)) = PaperChart::of(&spec, &measured) else {
            panic!("no bars")
        };
        let bars: Vec<(&str, f64, &str)> = (chart.bars.iter())
            .map(|bar| (&*bar.name, bar.value, &*bar.label))
            .collect();
        assert_eq!(
            bars,
            [
                ("IBM, FAIR", 30.0, "30.0"),
                ("IBM, SRPT", 10.0, "10.0"),
                ("UK, FAIR", 60.0, "60.0"),
                ("UK, SRPT", 20.0, "20.0"),
            ]
        );
        assert_ne!(chart.bars[0].style, chart.bars[1].style);
        assert!(chart.narrow_svg().unwrap().contains("UK, SRPT"));
    }
}
