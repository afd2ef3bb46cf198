//! Mutation tests of a package with one build, in which every mutant stands behind a switch.
//!
//! ```text
//! cargo mutants --list (listing) -> a copy of the checkout (tree) whose sources have each
//! mutant behind a switch (instrument) -> one build, less what does not compile (compile)
//! -> which tests reach which mutants (reach) -> each mutant before these tests (trial,
//! run) -> results/mutants.md (report)
//! ```

#![forbid(unsafe_code)]

mod compile;
mod instrument;
mod listing;
mod reach;
mod report;
mod run;
mod tree;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;

use compile::Built;
use listing::Mutant;
use report::{Report, Verdict};
use run::{Outcome, Terms};
use tree::Tree;

/// The exit status if mutants were missed, and no report says so.
const MISSED: u8 = 2;

/// The minutes to try mutants for, if no bound is given: a day.
const A_DAY_MIN: u64 = 24 * 60;

/// The processor time that a test may take, in seconds; a slower test has no part.
const TEST_CPU_S_MAX: u64 = 2;

/// Tries the mutants that cargo-mutants lists against the tests of their packages.
#[derive(Parser)]
struct Options {
    /// What `cargo mutants --list --json` printed
    list: PathBuf,
    /// Where the checkout is
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Where the copy of it is
    #[arg(long, default_value = "target/mutants")]
    work: PathBuf,
    /// The report to bring up to date; what it has of a file whose code is as it was stands
    #[arg(long)]
    report: Option<PathBuf>,
    /// Try all, whatever the report has
    #[arg(long)]
    fresh: bool,
    /// Tests that have this in their names have no part
    #[arg(long, default_value = "ten_million")]
    skip: Vec<String>,
    /// Begins no mutant later than this; files that are not through have no row
    #[arg(long)]
    for_min: Option<u64>,
    /// Processes at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let listed =
        fs::read_to_string(&options.list).with_context(|| options.list.display().to_string())?;
    let listed = listing::read(&listed)?;
    let hashes = hashes(&options, &listed)?;
    let before = match &options.report {
        Some(path) => Report::read(&fs::read_to_string(path).unwrap_or_default()),
        None => Report::default(),
    };
    let stands = |file: &str| !options.fresh && before.stands(file, &hashes[file]);
    let mutants: Vec<&Mutant> = listed.iter().filter(|one| !stands(&one.file)).collect();
    println!("{} of {} mutants to try", mutants.len(), listed.len());
    let verdicts = verdicts(&options, &mutants)?;
    let mut report = Report::of(&verdicts);
    for name in report.rows.values().flat_map(|row| &row.missed) {
        println!("missed: {name}");
    }
    println!("{}", summary(&report));
    let missed = report.sum(Verdict::Missed) > 0;
    if let Some(path) = &options.report {
        for (file, row) in &mut report.rows {
            row.hash.clone_from(&hashes[file]);
        }
        for (file, row) in before.rows {
            // A file that is gone, or was not asked for, has no mutant in the list.
            if !report.rows.contains_key(&file) && options.root.join(&file).is_file() {
                report.rows.insert(file, row);
            }
        }
        fs::write(path, report.text()).with_context(|| path.display().to_string())?;
        println!("Written: {}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if missed {
        ExitCode::from(MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

fn hashes(options: &Options, listed: &[Mutant]) -> anyhow::Result<BTreeMap<String, String>> {
    let files: BTreeSet<&String> = listed.iter().map(|mutant| &mutant.file).collect();
    let hashed = files.into_iter().map(|file| {
        let hash = report::hash(&options.root.join(file))?;
        Ok((file.clone(), hash))
    });
    hashed.collect()
}

fn summary(report: &Report) -> String {
    format!(
        "Mutants: {} caught, {} missed, {} ran out of time, {} are the same, {} do not compile, \
         {} were not tried",
        report.sum(Verdict::Caught),
        report.sum(Verdict::Missed),
        report.sum(Verdict::OutOfTime),
        report.sum(Verdict::Same),
        report.sum(Verdict::Unviable),
        report.sum(Verdict::NotTried),
    )
}

/// Tries all mutants, one package after another, and returns their verdicts.
fn verdicts<'a>(
    options: &Options,
    mutants: &[&'a Mutant],
) -> anyhow::Result<Vec<(&'a Mutant, Verdict)>> {
    let root = options.root.canonicalize()?;
    let work = root.join(&options.work);
    let tree = Tree::copied(&root, work.join("tree"))?;
    let mut verdicts = Vec::new();
    let packages: BTreeSet<&str> = mutants.iter().map(|one| one.package.as_str()).collect();
    for package in packages {
        let own = mutants.iter().filter(|one| one.package == package);
        let own: Vec<(u32, &Mutant)> = (1..).zip(own.copied()).collect();
        let of_package = of_package(options, &tree, package, &own)?;
        fs::write(
            work.join(format!("{package}.txt")),
            listed_with(&own, &of_package),
        )?;
        let through = through(&own, &of_package);
        let own = own.into_iter();
        let own = own.filter(|(_, one)| through.contains(one.file.as_str()));
        verdicts.extend(own.map(|(number, one)| (one, of_package[&number])));
    }
    Ok(verdicts)
}

/// Returns a line for each mutant that has a verdict.
fn listed_with(mutants: &[(u32, &Mutant)], verdicts: &BTreeMap<u32, Verdict>) -> String {
    let lines = mutants.iter();
    let lines = lines.filter_map(|(number, mutant)| {
        let verdict = verdicts.get(number)?;
        Some(format!("{verdict:?} {}\n", mutant.name))
    });
    lines.collect()
}

/// Returns the files whose mutants have all been tried.
fn through<'a>(
    mutants: &[(u32, &'a Mutant)],
    verdicts: &BTreeMap<u32, Verdict>,
) -> BTreeSet<&'a str> {
    let mut files: BTreeSet<&str> = mutants.iter().map(|(_, one)| one.file.as_str()).collect();
    for (number, mutant) in mutants {
        if !verdicts.contains_key(number) {
            files.remove(mutant.file.as_str());
        }
    }
    files
}

fn of_package(
    options: &Options,
    tree: &Tree,
    package: &str,
    mutants: &[(u32, &Mutant)],
) -> anyhow::Result<BTreeMap<u32, Verdict>> {
    let start = Instant::now();
    let built = compile::build(tree, package, mutants)?;
    say(start, &format!("{package}: built"));
    let mut verdicts: BTreeMap<u32, Verdict> = BTreeMap::new();
    verdicts.extend(built.unviable.iter().map(|one| (*one, Verdict::Unviable)));
    verdicts.extend(built.untried.iter().map(|one| (*one, Verdict::NotTried)));
    let mut left: Vec<u32> = mutants.iter().map(|(number, _)| *number).collect();
    left.retain(|number| !verdicts.contains_key(number));
    let minutes = options.for_min.unwrap_or(A_DAY_MIN);
    let until = start + Duration::from_secs(60 * minutes);
    for (number, outcome) in tried(options, tree, &built, &left, start, until)? {
        let verdict = match outcome {
            Outcome::Passed => Verdict::Missed,
            Outcome::Failed => Verdict::Caught,
            Outcome::OutOfTime => Verdict::OutOfTime,
        };
        verdicts.insert(number, verdict);
    }
    say(start, &format!("{package}: tried"));
    Ok(verdicts)
}

fn tried(
    options: &Options,
    tree: &Tree,
    built: &Built,
    left: &[u32],
    start: Instant,
    until: Instant,
) -> anyhow::Result<BTreeMap<u32, Outcome>> {
    let environment = [("PROPTEST_CASES", trial::CASES.to_owned())];
    let jobs = options.jobs.max(1);
    let scratch = tree.copy.with_extension("reached");
    let terms = Terms {
        environment: &environment,
        cpu_s: TEST_CPU_S_MAX,
    };
    let reach = reach::record(&built.tests, &options.skip, &terms, jobs, &scratch)?;
    for (name, outcome) in &reach.left_out {
        println!("has no part without a mutant, {outcome:?}: {name}");
    }
    let reached = left.iter().filter(|one| reach.of.contains_key(one)).count();
    let tests = reach.tests.len();
    let took: Duration = reach.tests.iter().map(|test| test.took).sum();
    say(
        start,
        &format!(
            "{tests} tests, {took:.0?} of processor time, reach {reached} of {} mutants",
            left.len()
        ),
    );
    trial::tried(&built.tests, &reach, left, jobs, until)
}

fn say(start: Instant, what: &str) {
    println!("{:>5} s  {what}", start.elapsed().as_secs());
}
