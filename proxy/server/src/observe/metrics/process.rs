//! The metrics of the build and, under the names that Prometheus' client libraries share
//! (`process_*`), of the process as the kernel knows it.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use procfs::process::{LimitValue, Process};
use procfs::{ProcError, WithCurrentSystemInfo as _};
use rustix::time::{ClockId, clock_gettime};
use sprat_net::metrics::{Labels, Row, Topic};

use crate::observe::version;

/// The build of the program, which does not change.
pub(super) struct Build;

/// The facts that the kernel tells of the process; proc(5).
pub(super) struct ProcessFacts {
    cpu_s: f64,
    started_s: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
    threads: u64,
    open_files: u64,
    max_files: u64,
}

impl ProcessFacts {
    /// Asks the kernel for the facts. It fails if no descriptors are left, or if there is
    /// no such file system. Only the process's own files are read: systemd's
    /// `ProcSubset=pid` hides the others.
    pub(super) fn ask() -> Result<Self, ProcError> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks_per_s = procfs::ticks_per_second() as f64;
        let files = process.limits()?.max_open_files.soft_limit;
        Ok(Self {
            cpu_s: (stat.utime + stat.stime) as f64 / ticks_per_s,
            started_s: started_s(stat.starttime as f64 / ticks_per_s),
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

/// Returns when the process began, in seconds since 1970-01-01 UTC, from the seconds that
/// the machine had been up by then.
fn started_s(since_boot_s: f64) -> f64 {
    // Found out once: from one scrape to the next the clocks drift apart, and a process that
    // begins at another moment is taken for another process.
    static STARTED_S: OnceLock<f64> = OnceLock::new();
    *STARTED_S.get_or_init(|| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        // The clock that the kernel tells the beginning of processes by.
        let up = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        now.as_secs_f64() - (up.as_secs_f64() - since_boot_s)
    })
}

const NONE: Labels = Labels::NONE;
/// The labels of the build, whose values go together.
const BUILT: Labels = NONE
    .and("version", 1)
    .and("commit", 1)
    .and("target", 1)
    .and("tls", 1);

#[rustfmt::skip]
pub(super) static BUILD: Topic<Build> = Topic { title: "The build", rows: &[
    Row::gauge("sprat_build_info", BUILT,
        "1, with what the program was built from in the labels",
        |_, out| out.put(&[version::VERSION, version::COMMIT, version::TARGET, version::TLS], 1_u64)),
] };

#[rustfmt::skip]
pub(super) static PROCESS: Topic<ProcessFacts> = Topic { title: "The process", rows: &[
    Row::counter("process_cpu_seconds_total", NONE,
        "Processor time, the kernel's for the process included",
        |facts, out| out.one(facts.cpu_s)),
    Row::gauge("process_start_time_seconds", NONE,
        "When the process began, since 1970-01-01 UTC",
        |facts, out| out.one(facts.started_s)),
    Row::gauge("process_virtual_memory_bytes", NONE,
        "Address space",
        |facts, out| out.one(facts.virtual_bytes)),
    Row::gauge("process_resident_memory_bytes", NONE,
        "Memory in use",
        |facts, out| out.one(facts.resident_bytes)),
    Row::gauge("process_threads", NONE,
        "Threads",
        |facts, out| out.one(facts.threads)),
    Row::gauge("process_open_fds", NONE,
        "Open descriptors",
        |facts, out| out.one(facts.open_files)),
    Row::gauge("process_max_fds", NONE,
        "Descriptors that may be open",
        |facts, out| out.one(facts.max_files)),
] };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_the_processs_own() {
        let stat = Process::myself().unwrap().stat().unwrap();
        let since_boot_s = stat.starttime as f64 / procfs::ticks_per_second() as f64;
        // In whole seconds, where it is not hidden.
        let told_s = procfs::boot_time_secs().unwrap() as f64 + since_boot_s;
        let first = ProcessFacts::ask().unwrap().started_s;
        assert!((first - told_s).abs() < 2.0, "{first} {told_s}");
        assert_eq!(ProcessFacts::ask().unwrap().started_s, first);
    }
}
