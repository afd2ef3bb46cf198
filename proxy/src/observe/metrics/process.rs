//! What was built, and what the kernel says of the process, under the names that
//! Prometheus' client libraries share (`process_*`).

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{ProcError, WithCurrentSystemInfo as _};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::observe::version;

/// Tells of the process, asked at each scrape.
#[derive(Debug)]
pub(super) struct ProcessView;

/// What the kernel says; proc(5).
struct Facts {
    cpu_s: f64,
    started_s: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
    threads: u64,
    open_files: u64,
    max_files: u64,
}

impl Facts {
    fn ask() -> Result<Self, ProcError> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks_per_s = procfs::ticks_per_second() as f64;
        let files = process.limits()?.max_open_files.soft_limit;
        let boot_s = procfs::boot_time_secs()? as f64;
        Ok(Self {
            cpu_s: (stat.utime + stat.stime) as f64 / ticks_per_s,
            started_s: boot_s + stat.starttime as f64 / ticks_per_s,
            virtual_bytes: stat.vsize,
            resident_bytes: stat.rss_bytes().get(),
            threads: stat.num_threads.try_into().unwrap_or(0),
            open_files: process.fd_count()? as u64,
            max_files: match files {
                LimitValue::Value(files) => files,
                LimitValue::Unlimited => u64::MAX,
            },
        })
    }
}

impl Collector for ProcessView {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1, with what the program was built from in the labels";
        let (name, kind) = ("sprat_build_info", MetricType::Gauge);
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        let labels = [
            ("version", version::VERSION),
            ("commit", version::COMMIT),
            ("target", version::TARGET),
            ("tls", version::TLS),
        ];
        metric.encode_family(&labels)?.encode_gauge(&1_u64)?;
        // No descriptors may be left, or there is no such file system.
        let Ok(facts) = Facts::ask() else {
            return Ok(());
        };
        let help = "Processor time, the kernel's for the process included";
        let (unit, kind) = (Unit::Seconds, MetricType::Counter);
        let mut metric = encoder.encode_descriptor("process_cpu", help, Some(&unit), kind)?;
        metric.encode_counter::<NoLabelSet, f64, u64>(&facts.cpu_s, None)?;
        let help = "When the process began, since 1970-01-01 UTC";
        let (name, kind) = ("process_start_time", MetricType::Gauge);
        let mut metric = encoder.encode_descriptor(name, help, Some(&unit), kind)?;
        metric.encode_gauge(&facts.started_s)?;
        let (bytes, none) = (Some(Unit::Bytes), None);
        for (name, help, unit, value) in [
            (
                "process_virtual_memory",
                "Address space",
                &bytes,
                facts.virtual_bytes,
            ),
            (
                "process_resident_memory",
                "Memory in use",
                &bytes,
                facts.resident_bytes,
            ),
            ("process_threads", "Threads", &none, facts.threads),
            (
                "process_open_fds",
                "Open descriptors",
                &none,
                facts.open_files,
            ),
            (
                "process_max_fds",
                "Descriptors that may be open",
                &none,
                facts.max_files,
            ),
        ] {
            let kind = MetricType::Gauge;
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            metric.encode_gauge(&value)?;
        }
        Ok(())
    }
}
