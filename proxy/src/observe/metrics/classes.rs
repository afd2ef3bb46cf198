//! What `/metrics` says of priority classes and of decisions on requests.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use sprat_net::counters::DURATION_BOUNDS_S;
use sprat_net::encoding::{count, histogram};
use sprat_scheduler::station::{ClassStats, RefusalReason};

use super::{CODE_CLASSES, View};

impl View {
    /// Requests that wait for an endpoint, and those turned away.
    pub(super) fn stations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats: Vec<_> = self.clusters.iter().map(|c| c.station.stats()).collect();
        let help = "Requests that wait for an endpoint, by cluster and priority class";
        let kind = MetricType::Gauge;
        let mut metric = encoder.encode_descriptor("waiting_requests", help, None, kind)?;
        self.each_class(&stats, |cluster, class, stats| {
            let labels = [("cluster", cluster), ("class", class)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_gauge(&(stats.waiting as u64))
        })?;
        let help = "Decisions on requests, by cluster and priority class: started at once, made \
                    to wait, or the reason for which they were turned away";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("admissions", help, None, kind)?;
        self.each_class(&stats, |cluster, class, stats| {
            let mut one = |decision, value| {
                let labels = [
                    ("cluster", cluster),
                    ("class", class),
                    ("decision", decision),
                ];
                count(&mut metric.encode_family(&labels)?, value)
            };
            one("start", stats.started)?;
            one("wait", stats.waited)?;
            for reason in RefusalReason::ALL {
                one(reason.name(), stats.refused[reason.index()])?;
            }
            Ok(())
        })?;
        let help = "How long requests waited for an endpoint, of those that had to";
        let kind = MetricType::Histogram;
        let mut metric = encoder.encode_descriptor("queue_wait_seconds", help, None, kind)?;
        for (index, cluster) in self.clusters.iter().enumerate() {
            let parts = self.named.iter().map(|w| &*w.clusters[index].queue_waits);
            let labels = [("cluster", cluster.name.as_str())];
            let mut metric = metric.encode_family(&labels)?;
            histogram(&mut metric, &DURATION_BOUNDS_S, parts)?;
        }
        Ok(())
    }

    fn each_class(
        &self,
        stats: &[Vec<ClassStats>],
        mut each: impl FnMut(&str, &str, &ClassStats) -> fmt::Result,
    ) -> fmt::Result {
        for (cluster, stats) in self.clusters.iter().zip(stats) {
            for (class, stats) in self.classes.iter().zip(stats) {
                each(&cluster.name, class, stats)?;
            }
        }
        Ok(())
    }

    /// Responses by priority class.
    pub(super) fn classes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests, by priority class and class of status code";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("class_responses", help, None, kind)?;
        for (class, name) in self.classes.iter().enumerate() {
            for (index, code) in CODE_CLASSES.into_iter().enumerate() {
                let value = self.sum_named(|worker| &worker.classes[class].responses[index]);
                let labels = [("class", name.as_str()), ("code", code)];
                count(&mut metric.encode_family(&labels)?, value)?;
            }
        }
        let help = "Bytes of bodies that went out whole, by priority class";
        let mut metric = encoder.encode_descriptor("class_bytes", help, None, kind)?;
        for (class, name) in self.classes.iter().enumerate() {
            let value = self.sum_named(|worker| &worker.classes[class].bytes);
            let labels = [("class", name.as_str())];
            count(&mut metric.encode_family(&labels)?, value)?;
        }
        let help = "From the end of the request's head to the response's last byte, by priority \
                    class";
        let kind = MetricType::Histogram;
        let mut metric = encoder.encode_descriptor("class_duration_seconds", help, None, kind)?;
        for (class, name) in self.classes.iter().enumerate() {
            let parts = self.named.iter().map(|w| &w.classes[class].durations);
            let labels = [("class", name.as_str())];
            histogram(
                &mut metric.encode_family(&labels)?,
                &DURATION_BOUNDS_S,
                parts,
            )?;
        }
        Ok(())
    }
}
