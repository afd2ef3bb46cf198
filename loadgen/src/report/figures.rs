//! The figures of a report: TOCS03's figures 5, 6 and 9, the distribution of response times, and
//! bars of the means.

use sprat_measure::axis::{Axis, Unit};
use sprat_measure::plot::{
    Bar, BarChart, INK, LineChart, Marker, PlotError, RGBColor, Series, Style,
};
use sprat_measure::text::{rate_text, significant};

use super::measure::BUCKETS;
use super::runs::Comparison;
use super::summary::{IDEAL, LoadRows, SummaryRow};

/// A figure of the report, drawn.
pub(crate) struct Figure {
    /// Name of its files, without an extension.
    pub(crate) name: String,
    /// The picture, as SVG text.
    pub(crate) svg: String,
    /// The same picture, drawn for a telephone.
    pub(crate) narrow: String,
    /// The facts that the reader should know, as plain text.
    pub(crate) caption: String,
}

impl Figure {
    /// Draws lines; on a telephone there is no room for more than the short title.
    fn of_lines(
        name: String,
        chart: LineChart,
        short: String,
        caption: &str,
    ) -> Result<Self, PlotError> {
        let svg = chart.svg()?;
        let narrow = LineChart {
            title: short,
            ..chart
        };
        Ok(Self {
            name,
            svg,
            narrow: narrow.narrow_svg()?,
            caption: caption.to_owned(),
        })
    }

    /// Draws bars, with the short title on a telephone.
    fn of_bars(
        name: String,
        chart: BarChart,
        short: String,
        caption: &str,
    ) -> Result<Self, PlotError> {
        let svg = chart.svg()?;
        let narrow = BarChart {
            title: short,
            ..chart
        };
        Ok(Self {
            name,
            svg,
            narrow: narrow.narrow_svg()?,
            caption: caption.to_owned(),
        })
    }
}

const TIME_MS: &str = "mean response time (ms)";

/// Draws all figures: against load where several loads are given, then by
/// size, by percentile, as a distribution and as bars at each load.
pub(crate) fn draw(comparison: &Comparison, loads: &[LoadRows]) -> Result<Vec<Figure>, PlotError> {
    let rate = rate_text(comparison.uplink_bits_per_s);
    let mut figures = Vec::new();
    let known = loads.iter().filter(|load| load.load_percent.is_some());
    if known.count() > 1 {
        figures.push(Figure::of_lines(
            "time-by-load".to_owned(),
            time_by_load(comparison, loads, &rate),
            format!("Mean time by load, {rate}"),
            "Mean response time against the load on the wire (after figure 5 of Harchol-Balter \
             et al. 2003).",
        )?);
        figures.push(Figure::of_lines(
            "slowdown-by-load".to_owned(),
            slowdown_by_load(comparison, loads, &rate),
            format!("Mean slowdown by load, {rate}"),
            "Mean slowdown against the load on the wire (after figure 6 of Harchol-Balter et al. \
             2003).",
        )?);
    }
    for load in loads {
        figures.extend(at_one_load(comparison, loads.len(), load, &rate)?);
    }
    Ok(figures)
}

/// Draws the figures of one load; `loads` is the number of loads that there are.
fn at_one_load(
    comparison: &Comparison,
    loads: usize,
    load: &LoadRows,
    rate: &str,
) -> Result<[Figure; 4], PlotError> {
    let (suffix, at) = match load.load() {
        Some(text) if loads > 1 => (format!("-load-{text}"), at_load(&text, rate)),
        Some(text) => (String::new(), at_load(&text, rate)),
        None if loads > 1 => ("-load-unknown".to_owned(), rate.to_owned()),
        None => (String::new(), rate.to_owned()),
    };
    Ok([
        Figure::of_bars(
            format!("means{suffix}"),
            means(comparison, load, &at),
            format!("Mean time, {at}"),
            "Mean response time; the dashed line is what an ideal link under shortest remaining \
             processing time would take.",
        )?,
        Figure::of_lines(
            format!("time-by-size{suffix}"),
            time_by_size(comparison, load, &at),
            format!("Mean time by size, {at}"),
            "Mean response time by size, in bins from x to 1.2 x (after figure 9, left, of \
             Harchol-Balter et al. 2003).",
        )?,
        Figure::of_lines(
            format!("time-by-percentile{suffix}"),
            time_by_percentile(comparison, load, &at),
            format!("Mean time by percentile, {at}"),
            "Mean response time by percentile of size: points of 2%, and of half a per cent for \
             the largest 4% (after figure 9, right, of Harchol-Balter et al. 2003).",
        )?,
        Figure::of_lines(
            format!("distribution{suffix}"),
            distribution(comparison, load, &at),
            format!("Who waits longer, {at}"),
            "Distribution of response times: how many of a hundred requests took longer. 50 is \
             the median, 1 the 99th percentile.",
        )?,
    ])
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
    value: impl Fn(&SummaryRow) -> f64,
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
        load.row(system)
            .map_or_else(Vec::new, |row| thinned(&row.measures.buckets_ms))
    });
    LineChart {
        title: format!("Mean response time by percentile of size, {at}"),
        x: Axis::linear("percentile of size", 0.0, 100.0, 10.0),
        y: Axis::log(TIME_MS, Unit::Plain, ys(&series)),
        series,
    }
}

/// Returns means by percentile of size, four buckets to a point but for the last eight: two
/// hundred points of several systems are a tangle, and the largest are of interest.
pub(super) fn thinned(buckets_ms: &[Option<f64>]) -> Vec<(f64, f64)> {
    const TOGETHER: usize = 4;
    let (most, last) = buckets_ms.split_at(buckets_ms.len().saturating_sub(2 * TOGETHER));
    let mut first = 0;
    let groups = most.chunks(TOGETHER).chain(last.chunks(1));
    let points = groups.filter_map(|group| {
        let middle = (first as f64 + group.len() as f64 / 2.0) * 100.0 / BUCKETS as f64;
        first += group.len();
        let known: Vec<f64> = group.iter().flatten().copied().collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        (!known.is_empty()).then_some((middle, mean))
    });
    points.collect()
}

fn distribution(comparison: &Comparison, load: &LoadRows, at: &str) -> LineChart {
    let series = series(comparison, |system| {
        load.row(system)
            .map_or_else(Vec::new, |row| row.measures.slower.clone())
    });
    let xs = series.iter().flat_map(|s| &s.points).map(|point| point.0);
    LineChart {
        title: format!("Distribution of response times, {at}"),
        x: Axis::log("response time (ms)", Unit::Plain, xs),
        y: Axis::log("requests that took longer (%)", Unit::Plain, ys(&series)),
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

/// Returns a line for each system that has points.
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

/// Replaces control characters in a run's name, which XML does not allow.
fn printable(name: &str) -> String {
    name.replace(char::is_control, " ")
}

/// The systems that most reports are about. Each keeps its style in all of them, whatever else is
/// compared.
const KNOWN: [&str; 8] = [
    "sprat-srpt",
    "sprat-auto",
    "sprat-bands",
    "haproxy",
    "sprat-kernel",
    "sprat-fair",
    "sprat-two-class",
    "envoy",
];

/// Returns the style of a system. The baseline is black and solid, bounds are grey and
/// without markers. Every other system has a style of its own, the same in every
/// figure: known ones the same in every report, others what is left, in turn.
pub(super) fn style(comparison: &Comparison, system: &str) -> Style {
    let grey = RGBColor(0x88, 0x88, 0x88);
    match system {
        IDEAL => return Style::new(grey, Some((5, 8)), Marker::None),
        "ideal-ps" => return Style::new(grey, Some((22, 12)), Marker::None),
        _ if system == comparison.baseline => return Style::new(INK, None, Marker::Circle),
        _ => {}
    }
    if let Some(index) = KNOWN.iter().position(|known| *known == system) {
        return Style::of(index);
    }
    let is_other = |name: &&String| {
        !name.starts_with("ideal-")
            && **name != comparison.baseline
            && !KNOWN.contains(&name.as_str())
    };
    let mut others = comparison.systems.iter().filter(is_other);
    let place = others.position(|name| name == system).unwrap_or(0);
    let is_taken = |index: usize| {
        let known = KNOWN.get(index);
        known.is_some_and(|known| comparison.systems.iter().any(|system| system == known))
    };
    let mut free = (0..).filter(|&index| !is_taken(index));
    Style::of(free.nth(place).unwrap_or(0))
}
