//! How counters are encoded for `/metrics`.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::counters::Histogram;

/// Encodes a counter's value.
pub fn count(metric: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

/// Encodes a gauge that has no labels.
pub fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    metric.encode_gauge(&value)
}

/// Encodes a histogram, summed up over the workers' `parts`.
pub fn histogram<'a>(
    metric: &mut MetricEncoder<'_>,
    bounds: &[f64; 16],
    parts: impl Iterator<Item = &'a Histogram>,
) -> fmt::Result {
    let mut buckets: Vec<(f64, u64)> = bounds.iter().map(|&bound| (bound, 0)).collect();
    // Without one that is named `+Inf`, Prometheus knows no percentile.
    buckets.push((f64::INFINITY, 0));
    let mut sum = 0;
    for part in parts {
        sum += part.sum_millionths.get();
        for (bucket, count) in buckets.iter_mut().zip(&part.counts) {
            bucket.1 += count.get();
        }
    }
    let count = buckets.iter().map(|&(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(sum as f64 / 1e6, count, &buckets, None)
}
