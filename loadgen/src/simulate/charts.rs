//! Figures of simulations, drawn by the report's own charts.

use sprat_measure::axis::{Axis, Unit};
use sprat_measure::plot::{Bar, BarChart, LineChart, PlotError, STYLES, Series, Style};
use sprat_measure::text::significant;

use super::row::SimulationRow;

/// A function that returns a measure of a row.
type RowValue<'a> = &'a dyn Fn(&SimulationRow) -> f64;

/// Draws a line for each system over the loads.
pub(super) fn by_load(
    title: &str,
    rows: &[SimulationRow],
    y_title: &str,
    value: RowValue<'_>,
) -> Result<String, PlotError> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for row in rows {
        let point = (row.load, value(row));
        match lines.iter_mut().find(|(name, _)| *name == row.system) {
            Some((_, points)) => points.push(point),
            None => lines.push((row.system.clone(), vec![point])),
        }
    }
    chart(title, "load", y_title, lines)
}

/// Draws lines with a name each, over a linear x axis and a logarithmic y axis.
pub(super) fn chart(
    title: &str,
    x_title: &str,
    y_title: &str,
    lines: Vec<(String, Vec<(f64, f64)>)>,
) -> Result<String, PlotError> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x = Axis::from_zero(x_title, points().map(|(x, _)| *x));
    let y = Axis::log(y_title, Unit::Plain, points().map(|(_, y)| *y));
    let series = lines.into_iter().enumerate();
    let series = series.map(|(index, (name, points))| Series {
        name,
        style: Style::of(index),
        points,
    });
    let series = series.collect();
    LineChart {
        title: title.to_owned(),
        x,
        y,
        series,
    }
    .svg()
}

/// Draws a bar for each system, for rows of one load.
pub(super) fn bars(
    title: &str,
    rows: &[SimulationRow],
    x_title: &str,
    value: RowValue<'_>,
) -> Result<String, PlotError> {
    let bars = rows.iter().map(|row| Bar {
        name: row.system.clone(),
        style: STYLES[0],
        value: value(row),
        label: significant(value(row)),
    });
    let load = rows.first().map_or(0.0, |row| row.load);
    BarChart {
        title: format!("{title}, load {load}"),
        x: Axis::from_zero(x_title, rows.iter().map(value)),
        bars: bars.collect(),
        line: None,
    }
    .svg()
}
