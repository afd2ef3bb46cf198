//! Which figures a report has: TOCS03's figures 5, 6 and 9, and bars of the
//! means.

use sprat_measure::axis::{Axis, Unit};
use sprat_measure::plot::{
    Bar, BarChart, INK, LineChart, Marker, PlotError, RGBColor, STYLES, Series, Style,
};
use sprat_measure::text::{rate_text, significant};

use super::measure::BUCKETS;
use super::runs::Comparison;
use super::summary::{IDEAL, LoadRows, Row};

/// A figure of the report, drawn.
pub(crate) struct Figure {
    /// Name of its files, without an extension.
    pub(crate) name: String,
    /// The picture, as SVG text.
    pub(crate) svg: String,
    /// What the reader should know, as plain text.
    pub(crate) caption: String,
}

const TIME_MS: &str = "mean response time (ms)";

/// Draws all figures: against load where several loads are given, then by
/// size, by percentile and as bars at each load.
pub(crate) fn draw(comparison: &Comparison, loads: &[LoadRows]) -> Result<Vec<Figure>, PlotError> {
    let rate = rate_text(comparison.uplink_bits_per_s);
    let mut figures = Vec::new();
    let known = loads.iter().filter(|load| load.load_percent.is_some());
    if known.count() > 1 {
        figures.push(Figure {
            name: "time-by-load".to_owned(),
            svg: time_by_load(comparison, loads, &rate).svg()?,
            caption: "Mean response time against the load on the wire (after figure 5 of \
                      Harchol-Balter et al. 2003)."
                .to_owned(),
        });
        figures.push(Figure {
            name: "slowdown-by-load".to_owned(),
            svg: slowdown_by_load(comparison, loads, &rate).svg()?,
            caption: "Mean slowdown against the load on the wire (after figure 6 of \
                      Harchol-Balter et al. 2003)."
                .to_owned(),
        });
    }
    for load in loads {
        let (suffix, at) = match load.load() {
            Some(text) if loads.len() > 1 => (format!("-load-{text}"), at_load(&text, &rate)),
            Some(text) => (String::new(), at_load(&text, &rate)),
            None if loads.len() > 1 => ("-load-unknown".to_owned(), rate.clone()),
            None => (String::new(), rate.clone()),
        };
        figures.push(Figure {
            name: format!("means{suffix}"),
            svg: means(comparison, load, &at).svg()?,
            caption: "Mean response time; the dashed line is what an ideal link under shortest \
                      remaining processing time would take."
                .to_owned(),
        });
        figures.push(Figure {
            name: format!("time-by-size{suffix}"),
            svg: time_by_size(comparison, load, &at).svg()?,
            caption: "Mean response time by size, in bins from x to 1.2 x (after figure 9, left, \
                      of Harchol-Balter et al. 2003)."
                .to_owned(),
        });
        figures.push(Figure {
            name: format!("time-by-percentile{suffix}"),
            svg: time_by_percentile(comparison, load, &at).svg()?,
            caption: format!(
                "Mean response time by percentile of size, in {BUCKETS} buckets of half a per \
                 cent (after figure 9, right, of Harchol-Balter et al. 2003)."
            ),
        });
    }
    Ok(figures)
}

fn at_load(load: &str, rate: &str) -> String {
    format!("load {load}, {rate}")
}

fn time_by_load(comparison: &Comparison, loads: &[LoadRows], rate: &str) -> LineChart {
    LineChart {
        title: format!("Mean response time by load, {rate}"),
        ..by_load(comparison, loads, TIME_MS, |row| row.measures.mean_ms)
    }
}

fn slowdown_by_load(comparison: &Comparison, loads: &[LoadRows], rate: &str) -> LineChart {
    LineChart {
        title: format!("Mean slowdown by load, {rate}"),
        ..by_load(comparison, loads, "mean slowdown", |row| {
            row.measures.slowdown
        })
    }
}

fn by_load(
    comparison: &Comparison,
    loads: &[LoadRows],
    y_title: &str,
    value: impl Fn(&Row) -> f64,
) -> LineChart {
    let series = series(comparison, |system| {
        let point = |load: &LoadRows| {
            let x = f64::from(load.load_percent?) / 100.0;
            Some((x, value(load.row(system)?)))
        };
        loads.iter().filter_map(point).collect()
    });
    let xs = || loads.iter().filter_map(|load| load.load_percent);
    let (least, most) = (xs().min().unwrap_or(0), xs().max().unwrap_or(100));
    let ends = (f64::from(least) - 2.0, f64::from(most) + 2.0);
    let step = if most - least > 20 { 0.1 } else { 0.05 };
    LineChart {
        title: String::new(),
        x: Axis::linear("load on the wire", ends.0 / 100.0, ends.1 / 100.0, step),
        y: Axis::from_zero(y_title, ys(&series)),
        series,
    }
}

fn time_by_size(comparison: &Comparison, load: &LoadRows, at: &str) -> LineChart {
    let series = series(comparison, |system| {
        load.row(system)
            .map_or_else(Vec::new, |row| row.measures.bins_ms.clone())
    });
    let xs = series.iter().flat_map(|s| &s.points).map(|point| point.0);
    LineChart {
        title: format!("Mean response time by size, {at}"),
        x: Axis::log("size of the response", Unit::Bytes, xs),
        y: Axis::log(TIME_MS, Unit::Plain, ys(&series)),
        series,
    }
}

fn time_by_percentile(comparison: &Comparison, load: &LoadRows, at: &str) -> LineChart {
    let series = series(comparison, |system| {
        let buckets = load.row(system).map(|row| &row.measures.buckets_ms);
        let point = |(bucket, ms): (usize, &Option<f64>)| {
            let middle = (bucket as f64 + 0.5) * 100.0 / BUCKETS as f64;
            Some((middle, (*ms)?))
        };
        buckets.map_or_else(Vec::new, |buckets| {
            buckets.iter().enumerate().filter_map(point).collect()
        })
    });
    LineChart {
        title: format!("Mean response time by percentile of size, {at}"),
        x: Axis::linear("percentile of size", 0.0, 100.0, 10.0),
        y: Axis::log(TIME_MS, Unit::Plain, ys(&series)),
        series,
    }
}

fn means(comparison: &Comparison, load: &LoadRows, at: &str) -> BarChart {
    let bars: Vec<Bar> = load
        .rows
        .iter()
        .filter(|row| row.system != IDEAL)
        .map(|row| Bar {
            name: printable(&row.system),
            style: style(comparison, &row.system),
            value: row.measures.mean_ms,
            label: format!("{} ms", significant(row.measures.mean_ms)),
        })
        .collect();
    let ideal_ms = load.row(IDEAL).map(|row| row.measures.mean_ms);
    let values = bars.iter().map(|bar| bar.value).chain(ideal_ms);
    BarChart {
        title: format!("Mean response time, {at}"),
        x: Axis::from_zero(TIME_MS, values),
        line: ideal_ms
            .filter(|ms| ms.is_finite())
            .map(|ms| (ms, format!("ideal SRPT {} ms", significant(ms)))),
        bars,
    }
}

/// One line for each system that has points.
fn series(comparison: &Comparison, points: impl Fn(&str) -> Vec<(f64, f64)>) -> Vec<Series> {
    let systems = comparison.systems.iter().map(|system| Series {
        name: printable(system),
        style: style(comparison, system),
        points: points(system),
    });
    systems.filter(|series| !series.points.is_empty()).collect()
}

fn ys(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|s| &s.points).map(|point| point.1)
}

/// XML allows no control characters, whatever a run is called.
fn printable(name: &str) -> String {
    name.replace(char::is_control, " ")
}

/// The baseline is black and solid, bounds are grey and without markers, and
/// the others take the colours in turn, the same in every figure.
fn style(comparison: &Comparison, system: &str) -> Style {
    let grey = RGBColor(0x88, 0x88, 0x88);
    match system {
        IDEAL => return Style::new(grey, Some((5, 8)), Marker::None),
        "ideal-ps" => return Style::new(grey, Some((22, 12)), Marker::None),
        _ if system == comparison.baseline => return Style::new(INK, None, Marker::Circle),
        _ => {}
    }
    let coloured = |name: &&String| !name.starts_with("ideal-") && **name != comparison.baseline;
    let mut others = comparison.systems.iter().filter(coloured);
    let index = others.position(|name| name == system).unwrap_or(0);
    STYLES[index % STYLES.len()]
}
