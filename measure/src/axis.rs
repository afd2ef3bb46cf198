//! The axes of charts: where they begin and end, and where their ticks stand.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// The way in which values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Values are drawn in proportion.
    Linear,
    /// Values are drawn by their logarithm.
    Log,
}

/// The form in which a tick is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Labels are plain numbers.
    Plain,
    /// Labels are bytes, in powers of ten: `10 kB`.
    Bytes,
}

/// An axis, with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity that the axis shows, with the unit.
    pub title: String,
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
    /// The ticks that have a number.
    ticks: Vec<f64>,
    /// The ticks without a number, for fainter lines; the labelled ones may be among them.
    light: Vec<f64>,
}

impl Axis {
    /// Makes an axis from zero to a round number at or above all of `values`.
    pub fn from_zero(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = round_step(most / 6.0);
        let steps = (most / step - 1e-9).ceil();
        Self::linear(title, 0.0, steps * step, step)
    }

    /// Makes an axis between round numbers around zero and all of `values`.
    pub fn with_zero(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let finite = values.filter(|v| v.is_finite());
        let (least, most) = finite.fold((0.0f64, 0.0f64), |(least, most), v| {
            (least.min(v), most.max(v))
        });
        let most = if least < most { most } else { 1.0 };
        let step = round_step((most - least) / 6.0);
        let low = (least / step + 1e-9).floor() * step;
        let high = (most / step - 1e-9).ceil() * step;
        Self::linear(title, low, high, step)
    }

    /// Makes an axis from `low` to `high`, with ticks at the multiples of `step`.
    pub fn linear(title: &str, low: f64, high: f64, step: f64) -> Self {
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        let multiples = first..=last;
        Self {
            title: title.to_owned(),
            scale: Scale::Linear,
            unit: Unit::Plain,
            low,
            high,
            ticks: multiples.map(|i| i as f64 * step).collect(),
            light: Vec::new(),
        }
    }

    /// Makes a logarithmic axis between the marks 1, 2 or 5 times a power of ten around all
    /// positive `values`.
    pub fn log(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|v| v.is_finite() && *v > 0.0);
        let (least, most) = positive.fold((f64::INFINITY, 0.0f64), |(least, most), v| {
            (least.min(v), most.max(v))
        });
        let (least, most) = if least <= most {
            (least, most)
        } else {
            (1.0, 10.0)
        };
        let decade = |v: f64| v.log10().floor() as i32;
        let at = |multiple: f64, power: i32| multiple * 10f64.powi(power);
        let decades = decade(least)..=decade(most) + 1;
        let marks = |multiples: &'static [f64]| {
            decades
                .clone()
                .flat_map(move |power| multiples.iter().map(move |&m| at(m, power)))
                .collect::<Vec<f64>>()
        };
        let ends = marks(&[1.0, 2.0, 5.0]);
        let before = ends.iter().rev().find(|&&v| v <= least * (1.0 + 1e-9));
        let low = before.copied().unwrap_or(least);
        let after = ends.iter().find(|&&v| v >= most * (1.0 - 1e-9) && v > low);
        let high = after.copied().unwrap_or(most);
        let within = |values: Vec<f64>| {
            let inside = |v: &f64| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9);
            values.into_iter().filter(inside).collect()
        };
        let few_decades = (high / low).log10() < 2.5;
        Self {
            title: title.to_owned(),
            scale: Scale::Log,
            unit,
            low,
            high,
            ticks: within(if few_decades { ends } else { marks(&[1.0]) }),
            light: within(marks(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])),
        }
    }

    /// Returns the place of `value` between the ends, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// Returns `value` as a tick shows it.
    fn label(&self, value: f64) -> String {
        match self.unit {
            Unit::Plain => number(value),
            Unit::Bytes if value > 0.999e6 => format!("{} MB", number(value / 1e6)),
            Unit::Bytes if value > 0.999e3 => format!("{} kB", number(value / 1e3)),
            Unit::Bytes => format!("{} B", number(value)),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (f64::from(to - from) * self.place(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.light.clone()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

/// Writes a number without the noise of floating point.
fn number(value: f64) -> String {
    let rounded = format!("{value:.6}");
    rounded
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Returns the least of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powi(step.log10().floor() as i32);
    let multiples = [1.0, 2.0, 5.0, 10.0].into_iter();
    let mut steps = multiples.map(|multiple| multiple * power);
    steps
        .find(|round| *round >= step * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|&v| axis.label(v)).collect()
    }

    #[test]
    fn a_linear_axis_ends_at_a_round_number() {
        let axis = Axis::from_zero("ms", [3.0, 79.8, f64::NAN].into_iter());
        assert_eq!(axis.range(), 0.0..80.0);
        assert_eq!(labels(&axis), ["0", "20", "40", "60", "80"]);
        let loads = Axis::linear("load", 0.45, 0.95, 0.1);
        assert_eq!(labels(&loads), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(Axis::from_zero("ms", [].into_iter()).range(), 0.0..1.0);
    }

    #[test]
    fn a_linear_axis_goes_below_zero_where_values_do() {
        let gains = Axis::with_zero("gain", [-0.5, 0.2, 1.0, f64::NAN].into_iter());
        assert_eq!(gains.range(), -0.5..1.0);
        assert_eq!(labels(&gains), ["-0.5", "0", "0.5", "1"]);
        let values = [3.0, 79.8];
        let above = Axis::with_zero("ms", values.into_iter());
        assert_eq!(above, Axis::from_zero("ms", values.into_iter()));
        assert_eq!(Axis::with_zero("ms", [].into_iter()).range(), 0.0..1.0);
    }

    #[test]
    fn a_logarithmic_axis_shows_decades_or_their_parts() {
        let sizes = Axis::log("size", Unit::Bytes, [41.0, 2_000_000.0].into_iter());
        assert_eq!(labels(&sizes), ["100 B", "1 kB", "10 kB", "100 kB", "1 MB"]);
        assert_eq!(sizes.range(), 20.0..2_000_000.0);
        assert_eq!(sizes.map(&20.0, (10, 510)), 10);
        assert_eq!(sizes.map(&2000.0, (10, 510)), 210);
        assert_eq!(sizes.map(&2_000_000.0, (510, 10)), 10);
        let times = Axis::log("ms", Unit::Plain, [0.7, 30.0].into_iter());
        assert_eq!(labels(&times), ["0.5", "1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn an_axis_of_one_value_still_has_a_length() {
        for value in [1.0, 3.0, 1e-3, 1e9] {
            let range = Axis::log("ms", Unit::Plain, [value].into_iter()).range();
            assert!(range.start < range.end, "{value}: {range:?}");
        }
    }
}
