//! Bounds of response times: a trace on an ideal link, under shortest remaining processing time and
//! under processor sharing.
//!
//! Both bounds are fluid and exact, in virtual time: a job is the wire cost of a
//! response ([`sprat_measure::wire::response_bytes`]), served at the link's rate, with
//! no propagation delay, no TCP and no segments. SRPT's mean is the least that
//! any order can reach (Schrage 1968); processor sharing is what a fair server
//! amounts to, without its losses.

pub(crate) mod server;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use sprat_config::units::parse_bit_rate;
use sprat_measure::wire::{self, Connection};

use crate::results::{self, Outcome, RunInfo};
use crate::trace::{Request, Trace};
use server::{Sharing, Srpt, VirtualServer};

/// Computes ideal SRPT and processor sharing on a trace.
#[derive(Clone, Debug, clap::Args)]
pub struct IdealArgs {
    /// The trace, `t_s,bytes,path`; `.gz` too.
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// The link's rate, such as 10mbit.
    #[arg(long, value_name = "RATE", value_parser = parse_bit_rate)]
    pub uplink: u64,
    /// Whether each response pays for a connection of its own.
    #[arg(long, value_enum, default_value_t)]
    pub connection: Connection,
    /// Leave this many requests at the start out of the results: as many as in the `replay` to
    /// compare with.
    #[arg(long, value_name = "REQUESTS", default_value_t = 0)]
    pub warmup: usize,
    /// Directory for `ideal-srpt.csv` and `ideal-ps.csv` and their JSON.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// The order in which a bound serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Preemptive shortest remaining processing time.
    Srpt,
    /// Processor sharing: all jobs in the system have equal shares of the link.
    Sharing,
}

impl Bound {
    /// Every bound there is.
    pub const ALL: [Self; 2] = [Self::Srpt, Self::Sharing];

    /// Returns the system's name in results and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Srpt => "ideal-srpt",
            Self::Sharing => "ideal-ps",
        }
    }
}

/// One response to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The time of the request, in nanoseconds since the start of the trace. In
    /// a partly open trace only the first job of a user keeps to this; a later
    /// one is asked for when the one before it is done.
    pub arrival_ns: u64,
    /// The time that the whole link needs for the job, in nanoseconds.
    pub work_ns: u64,
    /// The user who asks, in a partly open trace.
    pub user: Option<u32>,
}

/// The times at which a job was asked for and its last byte was sent, in
/// nanoseconds since the start of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The time at which the job was asked for.
    pub start_ns: u64,
    /// The time at which the job was done.
    pub done_ns: u64,
}

impl Served {
    /// Returns the time from the request to the last byte.
    pub fn response(&self) -> Duration {
        Duration::from_nanos(self.done_ns - self.start_ns)
    }
}

/// Serves `jobs`, which are in the order of their arrival, in O(n log n).
///
/// # Panics
/// If an arrival comes before the one in front of it, or the jobs take longer
/// than 64 bits of nanoseconds, 584 years.
pub fn serve(jobs: &[Job], bound: Bound) -> Vec<Served> {
    match bound {
        Bound::Srpt => run(jobs, Srpt::default()),
        Bound::Sharing => run(jobs, Sharing::default()),
    }
}

fn run(jobs: &[Job], mut server: impl VirtualServer) -> Vec<Served> {
    assert!(
        jobs.is_sorted_by_key(|job| job.arrival_ns),
        "jobs are in the order of their arrival"
    );
    let followers = Followers::of(jobs);
    let mut served = vec![Served::default(); jobs.len()];
    let mut upcoming = (0..jobs.len())
        .filter(|&job| !followers.is_follower[job])
        .peekable();
    loop {
        let arrival_ns = upcoming.peek().map(|&job| jobs[job].arrival_ns);
        match (server.next_done_ns(), arrival_ns) {
            (Some(done_ns), next_ns) if next_ns.is_none_or(|next_ns| done_ns <= next_ns) => {
                let job = server.take_done().expect("a job is about to be done");
                served[job].done_ns = done_ns;
                if let Some(next) = followers.next[job] {
                    served[next].start_ns = done_ns;
                    server.arrive(done_ns, next, jobs[next].work_ns);
                }
            }
            (_, Some(now_ns)) => {
                let job = upcoming.next().expect("an arrival was seen");
                served[job].start_ns = now_ns;
                server.arrive(now_ns, job, jobs[job].work_ns);
            }
            (_, None) => return served,
        }
    }
}

/// The jobs of a partly open trace that wait for another job of the same user.
struct Followers {
    /// The same user's next job, for each job.
    next: Vec<Option<usize>>,
    is_follower: Vec<bool>,
}

impl Followers {
    fn of(jobs: &[Job]) -> Self {
        let mut next = vec![None; jobs.len()];
        let mut is_follower = vec![false; jobs.len()];
        let mut last_of_user = HashMap::new();
        for (job, user) in jobs.iter().enumerate() {
            let Some(user) = user.user else { continue };
            if let Some(before) = last_of_user.insert(user, job) {
                next[before] = Some(job);
                is_follower[job] = true;
            }
        }
        Self { next, is_follower }
    }
}

/// Converts a trace's requests to jobs for a link.
pub fn jobs(trace: &Trace, uplink_bits_per_s: u64, connection: Connection) -> Vec<Job> {
    let work_ns = |bytes| {
        let bits = u128::from(wire::response_bytes(bytes, connection)) * 8;
        let rate = u128::from(uplink_bits_per_s.max(1));
        // Rounded to the nearest nanosecond; centuries saturate.
        u64::try_from((bits * 1_000_000_000 + rate / 2) / rate).unwrap_or(u64::MAX)
    };
    let job = |request: &Request| Job {
        arrival_ns: (request.t_s * 1e9).round() as u64,
        work_ns: work_ns(request.bytes),
        user: request.user,
    };
    trace.requests.iter().map(job).collect()
}

/// Runs `sprat-loadgen ideal`.
///
/// # Errors
/// If the trace cannot be read, the results cannot be written, or an option
/// makes no sense for the trace.
pub fn main(args: &IdealArgs) -> anyhow::Result<()> {
    let trace = Trace::read(&args.trace)?;
    if args.uplink == 0 {
        bail!("--uplink 0bit carries nothing; give the link's rate, such as 10mbit");
    }
    if args.warmup >= trace.requests.len() {
        bail!(
            "--warmup {} leaves none of the {} requests of {}",
            args.warmup,
            trace.requests.len(),
            args.trace.display()
        );
    }
    let jobs = jobs(&trace, args.uplink, args.connection);
    let total_ns = jobs.iter().try_fold(
        jobs.last().map_or(0, |job| job.arrival_ns),
        |total_ns: u64, job| total_ns.checked_add(job.work_ns),
    );
    total_ns.context("at this rate the trace would take centuries; raise --uplink")?;
    let load = trace.load(args.connection, args.uplink);
    for bound in Bound::ALL {
        let outcomes = outcomes(&trace, &serve(&jobs, bound));
        let mut info = RunInfo {
            name: bound.name().to_owned(),
            uplink_bits_per_s: Some(args.uplink),
            load_wire: load.map(|load| load.wire),
            load_payload: load.map(|load| load.payload),
            wall_s: outcomes.iter().map(Outcome::done_s).fold(0.0, f64::max),
            ..RunInfo::default()
        };
        let counted = &outcomes[args.warmup..];
        info.count(counted);
        let file = args.output.join(format!("{}.csv", bound.name()));
        results::write(counted, &file)?;
        info.write_beside(&file)?;
        let sum_ms: f64 = counted.iter().map(|outcome| outcome.response_ms).sum();
        println!(
            "{}: mean response time {:.3} ms over {} requests, in {}",
            bound.name(),
            sum_ms / counted.len() as f64,
            counted.len(),
            file.display()
        );
    }
    Ok(())
}

fn outcomes(trace: &Trace, served: &[Served]) -> Vec<Outcome> {
    let outcome = |(request, served): (&Request, &Served)| Outcome {
        t_s: request.t_s,
        bytes: request.bytes,
        path: request.path.clone(),
        start_s: served.start_ns as f64 / 1e9,
        response_ms: served.response().as_nanos() as f64 / 1e6,
        received: request.bytes,
        status: 200,
        error: None,
    };
    trace.requests.iter().zip(served).map(outcome).collect()
}

#[cfg(test)]
#[path = "ideal/tests.rs"]
mod tests;
