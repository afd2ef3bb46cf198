//! What `/metrics` says of the names of endpoints.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use sprat_net::encoding::count;
use sprat_upstream::dns::{Name, RESULTS};

use super::View;

impl View {
    /// Of each name: how often it was asked for, and what it is.
    pub(super) fn names(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How often a name of endpoints was asked for, by result";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("dns_lookups", help, None, kind)?;
        self.each_name(|labels, name| {
            for (result, lookups) in RESULTS.into_iter().zip(&name.lookups) {
                let labels = [labels[0], labels[1], ("result", result)];
                count(&mut metric.encode_family(&labels)?, lookups.load(Relaxed))?;
            }
            Ok(())
        })?;
        type Now = fn(&Name) -> u64;
        let gauges: [(&str, &str, Now); 2] = [
            ("dns_addresses", "Addresses of a name in use", |name| {
                name.addresses().len() as u64
            }),
            (
                "dns_failures_in_a_row",
                "How often a name was asked for since it last had an address",
                |name| u64::from(name.failures()),
            ),
        ];
        for (name, help, now) in gauges {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            self.each_name(|labels, name| metric.encode_family(labels)?.encode_gauge(&now(name)))?;
        }
        Ok(())
    }

    fn each_name(
        &self,
        mut each: impl FnMut(&[(&str, &str); 2], &Name) -> fmt::Result,
    ) -> fmt::Result {
        for cluster in self.clusters.iter() {
            for name in cluster.station.names() {
                let labels = [("cluster", cluster.name.as_str()), ("name", name.host())];
                each(&labels, name)?;
            }
        }
        Ok(())
    }
}
