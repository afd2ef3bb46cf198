//! The table of metrics: the name and meaning of each, and how its values are read.
//!
//! Each crate that counts has [`Topic`]s of its own, which the proxy puts together. Samples are
//! encoded here alone: a value without a row in the table cannot be scraped.

mod labels;

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use self::labels::MOST_LABELS;
pub use self::labels::{Labels, Per, SampleBound};
use crate::counters::{Scale, Total};

/// The units that names end in. A metric whose name has none of them counts things.
const UNITS: [&str; 5] = ["bytes_per_second", "seconds", "bytes", "ratio", "doublings"];

/// The type of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// The counts of values within each of these bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Returns the type's name in Prometheus' formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The facts about a metric, without its values.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name as it is scraped: with the unit, and with `_total` if it is a counter.
    pub name: &'static str,
    /// The type, as Prometheus has it.
    pub kind: Kind,
    /// The labels of each sample.
    pub labels: Labels,
    /// The meaning of its values, for the document and for each scrape.
    pub help: &'static str,
}

impl About {
    /// Returns the name without the endings for its type and its unit, and the unit.
    fn stem_and_unit(&self) -> (&'static str, Option<&'static str>) {
        let name = match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram(_) => self.name,
        };
        let with =
            |unit: &&'static str| Some((name.strip_suffix(*unit)?.strip_suffix('_')?, *unit));
        match UNITS.iter().find_map(with) {
            Some((stem, unit)) => (stem, Some(unit)),
            None => (name, None),
        }
    }

    /// Returns the unit, as the name ends in it; `None` for a metric that counts things.
    pub fn unit(&self) -> Option<&'static str> {
        self.stem_and_unit().1
    }

    /// Returns how many series there are for each combination of the labels' values.
    pub fn series_each(&self) -> usize {
        match self.kind {
            Kind::Counter | Kind::Gauge => 1,
            // The bucket without a bound, the sum and the count.
            Kind::Histogram(bounds) => bounds.len() + 3,
        }
    }
}

/// A metric: the facts about it, and how it is read from a view.
#[derive(Debug)]
pub struct Row<V: 'static> {
    about: About,
    read: Read<V>,
}

/// A function that adds a metric's samples, as a view has them.
type Read<V> = fn(&V, &mut Series<'_, '_>);

impl<V: 'static> Row<V> {
    const fn new(
        name: &'static str,
        kind: Kind,
        labels: Labels,
        help: &'static str,
        read: Read<V>,
    ) -> Self {
        let about = About {
            name,
            kind,
            labels,
            help,
        };
        Self { about, read }
    }

    /// Returns a row of a counter, whose name ends in `_total`.
    pub const fn counter(
        name: &'static str,
        labels: Labels,
        help: &'static str,
        read: Read<V>,
    ) -> Self {
        Self::new(name, Kind::Counter, labels, help, read)
    }

    /// Returns a row of a gauge.
    pub const fn gauge(
        name: &'static str,
        labels: Labels,
        help: &'static str,
        read: Read<V>,
    ) -> Self {
        Self::new(name, Kind::Gauge, labels, help, read)
    }

    /// Returns a row of a histogram of this scale.
    pub const fn histogram<S: Scale>(
        name: &'static str,
        labels: Labels,
        help: &'static str,
        read: Read<V>,
    ) -> Self {
        Self::new(name, Kind::Histogram(S::BOUNDS), labels, help, read)
    }
}

/// A part of the table, read from one view.
#[derive(Debug)]
pub struct Topic<V: 'static> {
    /// The heading in the document.
    pub title: &'static str,
    /// The metrics, in the order in which they are scraped.
    pub rows: &'static [Row<V>],
}

/// A topic as the document has it, without the way to read it.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// The heading in the document.
    pub title: &'static str,
    /// The metrics, in order.
    pub rows: Vec<&'static About>,
}

impl<V> Topic<V> {
    /// Returns the topic as the document has it.
    pub fn chapter(&'static self) -> Chapter {
        Chapter {
            title: self.title,
            rows: self.rows.iter().map(|row| &row.about).collect(),
        }
    }

    fn encode(&self, view: &V, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for row in self.rows {
            let (stem, unit) = row.about.stem_and_unit();
            let unit = unit.map(|unit| Unit::Other(unit.to_owned()));
            let mut series = Series {
                about: &row.about,
                stem,
                unit: unit.as_ref(),
                encoder: Some(&mut *encoder),
                metric: None,
                outcome: Ok(()),
            };
            (row.read)(view, &mut series);
            series.outcome?;
        }
        Ok(())
    }
}

/// A metric's samples, while they are encoded.
#[derive(Debug)]
pub struct Series<'a, 'e> {
    about: &'a About,
    stem: &'a str,
    unit: Option<&'a Unit>,
    /// The encoder, until the description is out; a metric without samples has no description.
    encoder: Option<&'a mut DescriptorEncoder<'e>>,
    metric: Option<MetricEncoder<'a>>,
    outcome: fmt::Result,
}

impl Series<'_, '_> {
    /// Adds the sample with these values of the row's labels. The whole encoding fails if there
    /// are not as many values as labels, or if the value is not of the row's type.
    pub fn put(&mut self, labels: &[&str], value: impl Into<Value>) {
        if self.outcome.is_ok() {
            self.outcome = self.try_put(labels, &value.into());
        }
    }

    /// Adds the only sample of a metric without labels.
    pub fn one(&mut self, value: impl Into<Value>) {
        self.put(&[], value);
    }

    fn try_put(&mut self, labels: &[&str], value: &Value) -> fmt::Result {
        let (About { kind, help, .. }, names) = (self.about, self.about.labels.names());
        if names.clone().count() != labels.len() {
            return Err(fmt::Error);
        }
        if let Some(encoder) = self.encoder.take() {
            let kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram(_) => MetricType::Histogram,
            };
            self.metric = Some(encoder.encode_descriptor(self.stem, help, self.unit, kind)?);
        }
        let metric = self.metric.as_mut().ok_or(fmt::Error)?;
        if labels.is_empty() {
            return value.encode(*kind, metric);
        }
        let mut pairs = [("", ""); MOST_LABELS];
        for (pair, (name, value)) in pairs.iter_mut().zip(names.zip(labels)) {
            *pair = (name, value);
        }
        value.encode(*kind, &mut metric.encode_family(&&pairs[..labels.len()])?)
    }
}

/// The value of a sample, of whichever type of metric.
#[derive(Clone, Debug)]
pub enum Value {
    /// A number of things.
    Whole(u64),
    /// An amount of a unit.
    Real(f64),
    /// The counts of a histogram.
    Total(Total),
}

impl Value {
    fn encode(&self, kind: Kind, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (Kind::Counter, Self::Whole(value)) => {
                metric.encode_counter::<NoLabelSet, u64, u64>(value, None)
            }
            (Kind::Counter, Self::Real(value)) => {
                metric.encode_counter::<NoLabelSet, f64, u64>(value, None)
            }
            (Kind::Gauge, Self::Whole(value)) => metric.encode_gauge(value),
            (Kind::Gauge, Self::Real(value)) => metric.encode_gauge(value),
            (Kind::Histogram(bounds), Self::Total(total)) if total.is_of(bounds) => {
                let (sum, count) = (total.sum(), total.count());
                metric.encode_histogram::<NoLabelSet>(sum, count, total.buckets(), None)
            }
            _ => Err(fmt::Error),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(u64::from(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<Duration> for Value {
    fn from(value: Duration) -> Self {
        Self::Real(value.as_secs_f64())
    }
}

impl From<Total> for Value {
    fn from(total: Total) -> Self {
        Self::Total(total)
    }
}

/// The topics that can be scraped, and the views that they are read from.
#[derive(Debug, Default)]
pub struct Scraped(Registry);

impl Scraped {
    /// Adds topics, read from what `view` returns at each scrape. If it returns `None`, they
    /// have no samples.
    pub fn add<V: 'static>(
        &mut self,
        topics: impl IntoIterator<Item = &'static Topic<V>>,
        view: impl Fn() -> Option<V> + Send + Sync + 'static,
    ) {
        self.0.register_collector(Box::new(ViewedTopics {
            topics: topics.into_iter().collect(),
            view: Box::new(view),
        }));
    }

    /// Writes the present values as OpenMetrics.
    ///
    /// # Errors
    ///
    /// A row reads something other than its type or its labels say, or the writer fails.
    pub fn encode(&self, out: &mut impl fmt::Write) -> fmt::Result {
        text::encode_registry(out, &self.0)?;
        text::encode_eof(out)
    }
}

/// Topics, and the view that they are read from.
struct ViewedTopics<V: 'static> {
    topics: Vec<&'static Topic<V>>,
    view: Box<dyn Fn() -> Option<V> + Send + Sync>,
}

impl<V> fmt::Debug for ViewedTopics<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = self.topics.iter().map(|topic| topic.title);
        f.debug_list().entries(titles).finish()
    }
}

impl<V> Collector for ViewedTopics<V> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(view) = (self.view)() else {
            return Ok(());
        };
        let mut topics = self.topics.iter();
        topics.try_for_each(|topic| topic.encode(&view, &mut encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{Histogram, Seconds, Slowdowns};

    const MARK: Labels = Labels::NONE.and("mark", 2);

    static TOPIC: Topic<u64> = Topic {
        title: "Things",
        rows: &[
            Row::counter("a_seconds_total", Labels::NONE, "Time", |v, out| {
                out.one(*v as f64 / 2.0);
            }),
            Row::gauge("b_bytes", MARK, "Bytes", |v, out| {
                out.put(&["in \"1\""], *v);
            }),
            Row::gauge("silent", MARK, "Nothing", |_, _| {}),
            Row::histogram::<Slowdowns>("c_ratio", Labels::NONE, "Ratio", |v, out| {
                let histogram = Histogram::<Slowdowns>::default();
                (0..*v).for_each(|_| histogram.observe(1.5));
                out.one(Total::of([&histogram]));
            }),
        ],
    };

    fn text(topic: &'static Topic<u64>) -> Result<String, fmt::Error> {
        let mut scraped = Scraped::default();
        scraped.add([topic], || Some(3));
        scraped.add([topic], || None);
        let mut out = String::new();
        scraped.encode(&mut out).map(|()| out)
    }

    #[test]
    fn rows_say_all_that_is_scraped() {
        let text = text(&TOPIC).unwrap();
        let before = "# HELP a_seconds Time\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
             a_seconds_total 1.5\n\
             # HELP b_bytes Bytes\n# TYPE b_bytes gauge\n# UNIT b_bytes bytes\n\
             b_bytes{mark=\"in \\\"1\\\"\"} 3\n\
             # HELP c_ratio Ratio\n# TYPE c_ratio histogram\n# UNIT c_ratio ratio\n\
             c_ratio_sum 4.5\nc_ratio_count 3\nc_ratio_bucket{le=\"1.0\"} 0\n";
        assert!(text.starts_with(before), "{text}");
        assert!(
            text.ends_with("c_ratio_bucket{le=\"+Inf\"} 3\n# EOF\n"),
            "{text}"
        );
        let each = TOPIC.chapter().rows.last().unwrap().series_each();
        assert_eq!(text.matches("\nc_ratio_").count(), each);
    }

    #[test]
    fn what_is_not_as_its_row_says_is_not_encoded() {
        static WRONG: [Topic<u64>; 4] = [
            Topic {
                title: "A label too many",
                rows: &[Row::gauge("a", Labels::NONE, "", |v, out| {
                    out.put(&["b"], *v);
                })],
            },
            Topic {
                title: "A label too few",
                rows: &[Row::gauge("a", MARK, "", |v, out| out.one(*v))],
            },
            Topic {
                title: "Another type",
                rows: &[Row::histogram::<Seconds>("a", MARK, "", |v, out| {
                    out.put(&["in"], *v);
                })],
            },
            Topic {
                title: "Another scale",
                rows: &[Row::histogram::<Seconds>(
                    "a",
                    Labels::NONE,
                    "",
                    |_, out| {
                        out.one(Total::of([&Histogram::<Slowdowns>::default()]));
                    },
                )],
            },
        ];
        for topic in &WRONG {
            assert_eq!(text(topic), Err(fmt::Error), "{}", topic.title);
        }
    }
}
