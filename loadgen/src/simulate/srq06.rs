//! The experiments of SRQ06 (Zhou, Zhang, Yang and Chu 2006), on a simulated server of two
//! processors that can be preempted. The core's own code orders its requests.

mod checks;
mod experiments;
mod paper;
mod places;
mod server;
mod workload;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use sprat_scheduler::station::Order;
use sprat_scheduler::{Discipline, srq};

use super::findings::{Finding, told};
use super::output::{aligned, print};
use crate::cli;
use crate::table::{self, Number};
use checks::{AtLoad, FITTED_S, Schemes, TABLE_IV};
use experiments::{BOUNDS_S, Count, LoadPlan, MeasuredScheme, ShiftPlan};
use server::Scheme;
use workload::{Shift, SrqService};

pub(super) use paper::EXPERIMENTS;

/// The request-aware scheduler's table IV and figures 9 to 15.
///
/// Two processors, 20 (100) threads that share them for Linux, and the core's `edf`, `vrd`
/// and `srq`, all behind one admission control. Neither the shift nor the distributions of
/// the paper's services are printed: they are derived from its tables, and the shift is
/// fitted to Linux's mean alone. Prints each of the paper's findings and whether it is found
/// here.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SrqArgs {
    /// Seed of arrivals and services
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Number of seeds that each figure is averaged over
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Requests that the shift adds
    #[arg(long, value_enum, default_value_t = Shift::Long)]
    shift: Shift,
    /// Requests whose response times count; the paper does not say which
    #[arg(long, value_enum, default_value_t = Count::Ended)]
    count: Count,
    /// How long a processor stays with a request before it looks for another
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = cli::span)]
    slice: Duration,
    /// Let edf, vrd and srq order only the 20 requests that have a thread, instead of all that are
    /// there
    #[arg(long)]
    threads: bool,
    /// Loads of figures 11 to 15; 1 is where Linux loses 5%
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "0.5,0.75,1,1.25,1.5,2", value_parser = any_load)]
    load: Vec<f64>,
    /// Directory for a CSV
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn any_load(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if load > 0.0 && load <= 4.0 => Ok(load),
        _ => Err("a load is above 0 and at most 4, such as 1.5".to_owned()),
    }
}

/// Runs the command `simulate srq`.
pub(super) fn run(args: &SrqArgs) -> anyhow::Result<()> {
    let schemes = schemes(args);
    let linux = &schemes[0].1;
    let plan = ShiftPlan {
        shift: args.shift,
        share: 0.0,
        count: args.count,
        seeds: args.seeds,
        seed: args.seed,
    };
    let plan = plan.fitted(linux, FITTED_S)?;
    let shift = measure(&schemes, |scheme| plan.measure(scheme))?;
    let mut lines: Vec<SchemeLine> = SchemeLine::all("shift", plan.share, &shift).collect();
    let mut text = format!(
        "SRQ06: {:.2}% of the requests in the shift are longer, so that Linux's mean is the \
         paper's; {} seeds from {}\n\n{}",
        100.0 * plan.share,
        args.seeds,
        args.seed,
        table_iv(&shift),
    );
    let described = shift.0.iter().find_map(|own| own.queues.as_deref());
    writeln!(text, "srq ends with {}\n", described.unwrap_or("no queues"))?;
    let before = before_endpoint();
    text.push_str(&in_shift(
        &before,
        &measure(&before, |scheme| plan.measure(scheme))?,
    ));
    let mut findings: Vec<Finding> = checks::shift(&shift);
    for (service, name) in [
        (SrqService::Description, "description"),
        (SrqService::Retrieval, "retrieval"),
    ] {
        let full = full_load(args, service, linux)?;
        let loads = at_loads(args, &full, &schemes)?;
        for own in &loads {
            lines.extend(SchemeLine::all(name, own.load, &own.schemes));
        }
        writeln!(
            text,
            "{name}: mean response time in s (percent lost), by load"
        )?;
        text.push_str(&by_load(&schemes, &loads));
        text.push('\n');
        if service == SrqService::Retrieval {
            writeln!(text, "{name}, before an endpoint with so many places")?;
            text.push_str(&by_load(&before, &at_loads(args, &full, &before)?));
            text.push('\n');
        }
        findings.extend(match service {
            SrqService::Description => checks::description(&loads),
            SrqService::Retrieval => checks::retrieval(&loads),
        });
    }
    text.push_str(&told(&findings));
    if let Some(directory) = &args.output {
        let file = directory.join("srq.csv");
        table::create(&file, |out| write_csv(&lines, out))?;
        writeln!(text, "written: {}", directory.display())?;
    }
    print(&text)
}

/// Returns the schemes in the order of table IV.
fn schemes(args: &SrqArgs) -> Vec<(&'static str, Scheme)> {
    let slice = u64::try_from(args.slice.as_nanos()).unwrap_or(u64::MAX);
    schemes_of(slice.max(1), args.threads.then_some(20))
}

/// Returns the schemes, those of the core with slices of `slice` nanoseconds.
fn schemes_of(slice: u64, threads: Option<usize>) -> Vec<(&'static str, Scheme)> {
    let core = |discipline| Scheme::Core {
        discipline,
        threads,
        slice,
    };
    let srq = Discipline::Srq(Box::new(srq::Config::nanoseconds()));
    let all = [
        Scheme::Linux { threads: 20 },
        Scheme::Linux { threads: 100 },
        core(Discipline::Edf),
        core(Discipline::Vrd),
        core(srq),
    ];
    TABLE_IV.iter().map(|&(name, _)| name).zip(all).collect()
}

/// Measures all schemes, each by a thread of its own.
fn measure(
    schemes: &[(&'static str, Scheme)],
    one: impl Fn(&Scheme) -> anyhow::Result<MeasuredScheme> + Sync,
) -> anyhow::Result<Schemes> {
    let one = &one;
    let measured: Vec<anyhow::Result<MeasuredScheme>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (schemes.iter())
            .map(|(_, scheme)| scope.spawn(move || one(scheme)))
            .collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(measured) => measured,
            Err(_) => Err(anyhow::anyhow!("a simulation has panicked")),
        });
        ended.collect()
    });
    Ok(Schemes(
        measured.into_iter().collect::<anyhow::Result<_>>()?,
    ))
}

/// Returns what stands before an endpoint of threads that share the processors, with so many
/// places: first come, first served, and SRQ, which lets as many again start beside long requests.
fn before_endpoint() -> [(&'static str, Scheme); 6] {
    let of = |order, places| Scheme::Places { order, places };
    let srq = || Order::Srq(Box::default());
    [
        ("fcfs, 20 places", of(Order::Fcfs, 20)),
        ("fcfs, 40 places", of(Order::Fcfs, 40)),
        ("srq, 20 places", of(srq(), 20)),
        ("fcfs, 4 places", of(Order::Fcfs, 4)),
        ("fcfs, 8 places", of(Order::Fcfs, 8)),
        ("srq, 4 places", of(srq(), 4)),
    ]
}

/// Returns the plan of a service at the rate at which Linux loses 5 %.
fn full_load(args: &SrqArgs, service: SrqService, linux: &Scheme) -> anyhow::Result<LoadPlan> {
    let plan = LoadPlan {
        service,
        rate_per_s: 0.0,
        count: args.count,
        seeds: args.seeds,
        seed: args.seed,
    };
    plan.full(linux)
}

fn at_loads(
    args: &SrqArgs,
    full: &LoadPlan,
    schemes: &[(&'static str, Scheme)],
) -> anyhow::Result<Vec<AtLoad>> {
    let at = |&load: &f64| {
        let plan = LoadPlan {
            rate_per_s: load * full.rate_per_s,
            ..*full
        };
        let schemes = measure(schemes, |scheme| plan.measure(scheme))?;
        Ok(AtLoad { load, schemes })
    };
    args.load.iter().map(at).collect()
}

fn table_iv(shift: &Schemes) -> String {
    let head = [
        "",
        "paper s",
        "here s",
        "paper",
        "here",
        "within 0.5 s",
        "99% s",
        "lost %",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let linux_s = shift.0[0].mean_s;
    for (&(name, paper_s), own) in TABLE_IV.iter().zip(&shift.0) {
        let percent = |of: f64, linux: f64| format!("{:+.1}%", 100.0 * (of / linux - 1.0));
        lines.push(vec![
            name.to_owned(),
            format!("{paper_s:.3}"),
            format!("{:.3}", own.mean_s),
            percent(paper_s, FITTED_S),
            percent(own.mean_s, linux_s),
            format!("{:.2}", own.within[1]),
            format!("{:.2}", own.p99_s),
            format!("{:.1}", own.loss_percent),
        ]);
    }
    aligned(&lines, 1)
}

/// Returns the table of the size shift where a station stands before an endpoint.
fn in_shift(schemes: &[(&'static str, Scheme)], shift: &Schemes) -> String {
    let head = [
        "before an endpoint",
        "here s",
        "within 0.5 s",
        "99% s",
        "lost %",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for ((name, _), own) in schemes.iter().zip(&shift.0) {
        lines.push(vec![
            (*name).to_owned(),
            format!("{:.3}", own.mean_s),
            format!("{:.2}", own.within[1]),
            format!("{:.2}", own.p99_s),
            format!("{:.1}", own.loss_percent),
        ]);
    }
    aligned(&lines, 1) + "\n"
}

fn by_load(schemes: &[(&'static str, Scheme)], loads: &[AtLoad]) -> String {
    let names = schemes.iter().map(|&(name, _)| name.to_owned());
    let mut lines = vec![std::iter::once("load".to_owned()).chain(names).collect()];
    for own in loads {
        let cell = |own: &MeasuredScheme| format!("{:.3} ({:.1})", own.mean_s, own.loss_percent);
        let cells = own.schemes.0.iter().map(cell);
        lines.push(std::iter::once(own.load.to_string()).chain(cells).collect());
    }
    aligned(&lines, 1)
}

/// A line of the CSV: the measures of a scheme in an experiment.
#[derive(Serialize)]
struct SchemeLine {
    experiment: &'static str,
    load_or_share: Number,
    scheme: &'static str,
    mean_s: Number,
    loss_percent: Number,
    throughput_per_s: Number,
    p99_s: Number,
    /// The last columns, one for each of the bounds.
    within: [Number; BOUNDS_S.len()],
}

impl SchemeLine {
    /// Makes the lines of an experiment's schemes, which stand in the order of table IV.
    fn all(
        experiment: &'static str,
        load_or_share: f64,
        schemes: &Schemes,
    ) -> impl Iterator<Item = Self> {
        let schemes = TABLE_IV.iter().zip(&schemes.0);
        schemes.map(move |(&(scheme, _), own)| Self {
            experiment,
            load_or_share: Number(load_or_share),
            scheme,
            mean_s: Number(own.mean_s),
            loss_percent: Number(own.loss_percent),
            throughput_per_s: Number(own.throughput_per_s),
            p99_s: Number(own.p99_s),
            within: own.within.map(Number),
        })
    }
}

/// Writes the CSV, with a line for each scheme of each experiment.
fn write_csv(lines: &[SchemeLine], out: impl io::Write) -> io::Result<()> {
    let within = BOUNDS_S.map(|bound| format!("within_{bound}_s"));
    let columns = COLUMNS.map(str::to_owned).into_iter().chain(within);
    table::write_lines(columns, lines, out)
}

/// The columns before those of the bounds.
const COLUMNS: [&str; 7] = [
    "experiment",
    "load_or_share",
    "scheme",
    "mean_s",
    "loss_percent",
    "throughput_per_s",
    "p99_s",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_has_a_line_for_each_scheme() {
        let measured = |mean_s| MeasuredScheme {
            mean_s,
            loss_percent: 20.096_000_000_000_004,
            throughput_per_s: 40.0,
            within: [0.0, 0.25, 0.5, 0.75, 1.0],
            p99_s: 14.5,
            queues: None,
        };
        let means_s = [1.5, 2.0, 3.0, f64::NAN, 1e-7];
        let shift = Schemes(means_s.map(measured).to_vec());
        let mut lines: Vec<_> = SchemeLine::all("shift", 0.125, &shift).collect();
        let description = Schemes(vec![measured(1.0)]);
        lines.extend(SchemeLine::all("description", 2.0, &description));
        let rest = "20.096000000000004,40,14.5,0,0.25,0.5,0.75,1";
        let expected = [
            "experiment,load_or_share,scheme,mean_s,loss_percent,throughput_per_s,p99_s,\
             within_0.1_s,within_0.5_s,within_1_s,within_2_s,within_5_s\n"
                .to_owned(),
            format!("shift,0.125,linux 20,1.5,{rest}\n"),
            format!("shift,0.125,linux 100,2,{rest}\n"),
            format!("shift,0.125,edf,3,{rest}\n"),
            format!("shift,0.125,vrd,NaN,{rest}\n"),
            format!("shift,0.125,srq,0.0000001,{rest}\n"),
            format!("description,2,linux 20,1,{rest}\n"),
        ];
        let mut out = Vec::new();
        write_csv(&lines, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected.concat());
    }
}
