//! The charts of the page, with their captions.

use sprat_measure::axis::{Axis, Unit};
use sprat_measure::plot::{Bar, BarChart, INK, LineChart, Marker, PlotError, Series, Style};
use sprat_measure::text::significant;

use super::content::{FiguresPart, PolicyPart, Report};

/// The multiple of the baseline's length beyond which a bar is left out.
const OFF_SCALE: f64 = 4.0;

/// A chart as SVG, once as wide as a page and once as narrow as a telephone.
pub(super) struct Figure {
    pub(super) wide: String,
    pub(super) narrow: String,
    /// The caption, which says what the reader should know.
    pub(super) caption: String,
}

/// Draws all charts for which the report has figures.
pub(super) fn draw(report: &Report) -> Result<Vec<Figure>, PlotError> {
    let mut figures = Vec::new();
    if report
        .policies
        .iter()
        .any(|part| report.today(part).is_some())
    {
        figures.push(bars(
            report,
            "Mean response time, as it is now",
            |figures| figures.all.response_ms.mean,
            "What a response takes on the link, on average over all requests of the log.",
        )?);
        figures.push(slowdown_by_size(report)?);
    }
    if report.rates.len() > 1 {
        figures.push(mean_by_rate(report)?);
    }
    if report
        .policies
        .iter()
        .any(|part| report.today(part).is_some())
    {
        figures.push(bars(
            report,
            "What the largest 1% take",
            |figures| figures.largest_1_percent.response_ms.mean,
            "The price: the mean response time of the largest 1% of the responses.",
        )?);
    }
    Ok(figures)
}

/// Draws a bar for each policy. A bar so long that nothing would be seen of the others is left to
/// the caption.
fn bars(
    report: &Report,
    title: &str,
    value: impl Fn(&FiguresPart) -> f64,
    caption: &str,
) -> Result<Figure, PlotError> {
    let baseline = report.baseline().and_then(|part| report.today(part));
    let most = baseline.map_or(f64::INFINITY, |figures| value(figures) * OFF_SCALE);
    let mut caption = caption.to_owned();
    let mut bars = Vec::new();
    for (index, part) in report.policies.iter().enumerate() {
        let Some(value) = report.today(part).map(&value) else {
            continue;
        };
        let (name, label) = (
            printable(&part.policy),
            format!("{} ms", significant(value)),
        );
        if value > most {
            caption.push_str(&format!(" Off the scale: {name}, {label}."));
            continue;
        }
        bars.push(Bar {
            name,
            style: style(report, part, index),
            value,
            label,
        });
    }
    let chart = BarChart {
        title: title.to_owned(),
        x: Axis::from_zero("ms", bars.iter().map(|bar| bar.value)),
        bars,
        line: None,
    };
    Ok(Figure {
        wide: chart.svg()?,
        narrow: chart.narrow_svg()?,
        caption,
    })
}

fn slowdown_by_size(report: &Report) -> Result<Figure, PlotError> {
    let series = series(report, |part| {
        let classes = report.today(part).map(|figures| &figures.size_classes);
        let points = classes.into_iter().flatten().enumerate();
        let points = points.filter(|(_, times)| times.responses > 0);
        let point =
            |(index, times): (usize, &super::Times)| (middle(report, index), times.slowdown.mean);
        points.map(point).collect()
    });
    line_figure(
        &LineChart {
            title: "Mean slowdown by size, as it is now".to_owned(),
            x: Axis::log("size of the response", Unit::Bytes, xs(&series)),
            y: Axis::log("response time over that alone", Unit::Plain, ys(&series)),
            series,
        },
        "How many times as long as alone on the link a response takes, by its size: 1 is \
         as if there were no others.",
    )
}

/// Returns the geometric middle of a class of size, in bytes. The middles of the first and last
/// class are a third of a decade from their bounds.
fn middle(report: &Report, index: usize) -> f64 {
    let bound = |index: usize| {
        let class = report.size_classes.get(index);
        class
            .and_then(|class| class.up_to_bytes)
            .map(|bytes| bytes as f64)
    };
    let low = index.checked_sub(1).and_then(bound);
    match (low, bound(index)) {
        (Some(low), Some(high)) => (low * high).sqrt(),
        (Some(low), None) => low * 2.0,
        (None, Some(high)) => high / 2.0,
        (None, None) => 1.0,
    }
}

fn mean_by_rate(report: &Report) -> Result<Figure, PlotError> {
    let series = series(report, |part| {
        let point = |at: &super::RatePart| {
            let mean = at.figures.as_ref()?.all.response_ms.mean;
            Some((at.rate, mean))
        };
        part.rates.iter().filter_map(point).collect()
    });
    line_figure(
        &LineChart {
            title: "With more or fewer clients".to_owned(),
            x: rate_axis(&report.rates),
            y: Axis::log("mean response time (ms)", Unit::Plain, ys(&series)),
            series,
        },
        "The mean response time if more or fewer requests come in the same time. A line \
         ends where the link would be asked for more than it carries.",
    )
}

/// Makes an axis from the lowest rate to the highest.
fn rate_axis(rates: &[f64]) -> Axis {
    let title = "requests, times those of the log";
    let (low, high) = match (rates.first(), rates.last()) {
        (Some(low), Some(high)) if low < high => (*low, *high),
        _ => (0.5, 1.5),
    };
    if low < high / 8.0 {
        return Axis::from_zero(title, rates.iter().copied());
    }
    let step = if high - low > 1.0 { 0.5 } else { 0.25 };
    Axis::linear(title, low, high, step)
}

fn line_figure(chart: &LineChart, caption: &str) -> Result<Figure, PlotError> {
    Ok(Figure {
        wide: chart.svg()?,
        narrow: chart.narrow_svg()?,
        caption: caption.to_owned(),
    })
}

/// Returns a line for each policy that has points.
fn series(report: &Report, points: impl Fn(&PolicyPart) -> Vec<(f64, f64)>) -> Vec<Series> {
    let parts = report.policies.iter().enumerate();
    let series = parts.map(|(index, part)| Series {
        name: printable(&part.policy),
        style: style(report, part, index),
        points: points(part),
    });
    series.filter(|series| !series.points.is_empty()).collect()
}

fn xs(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|s| &s.points).map(|point| point.0)
}

fn ys(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|s| &s.points).map(|point| point.1)
}

/// Returns the style of a policy: the baseline is in ink and solid; the others take their colours
/// in turn.
fn style(report: &Report, part: &PolicyPart, index: usize) -> Style {
    if part.policy == report.baseline {
        return Style::new(INK, None, Marker::Circle);
    }
    let baseline = report
        .policies
        .iter()
        .position(|p| p.policy == report.baseline);
    let before = usize::from(baseline.is_some_and(|baseline| baseline < index));
    Style::of(index - before)
}

/// Replaces control characters by spaces: XML allows none, whatever a policy is written like.
fn printable(name: &str) -> String {
    name.replace(char::is_control, " ")
}
