//! The tests that reach each mutant, and the time that each test takes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::compile::TestBinary;
use crate::run::{Outcome, Terms, run};

/// The tests that look at the checkout's files, not at what the code does.
const OF_THE_CHECKOUT: [&str; 1] = ["tidy"];

/// A test, with the time that it takes.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    /// The index of the program that has the test.
    pub(crate) binary: usize,
    /// The name of the test in libtest.
    pub(crate) name: String,
    /// The processor time of a process that runs the test alone.
    pub(crate) took: Duration,
}

/// The tests, quickest first, and those that reach each mutant.
#[derive(Default)]
pub(crate) struct Reach {
    /// The tests that pass, quickest first.
    pub(crate) tests: Vec<Test>,
    /// The indices of tests, for each mutant that is reached.
    pub(crate) of: BTreeMap<u32, Vec<usize>>,
    /// The names of tests that fail without any mutant, or take too long.
    pub(crate) left_out: Vec<(String, Outcome)>,
}

/// Runs each test alone, without a mutant, and records the mutants that it reaches. A test that
/// takes longer than it is given has no part in the trials.
///
/// # Errors
/// Programs that cannot be run.
pub(crate) fn record(
    binaries: &[TestBinary],
    skip: &[String],
    terms: &Terms<'_>,
    jobs: usize,
    scratch: &Path,
) -> anyhow::Result<Reach> {
    let mut tests = Vec::new();
    for (binary, program) in binaries.iter().enumerate() {
        if !OF_THE_CHECKOUT.contains(&program.name.as_str()) {
            let names = names(program)?.into_iter();
            let wanted = names.filter(|name| !skip.iter().any(|part| name.contains(part)));
            tests.extend(wanted.map(|name| (binary, name)));
        }
    }
    fs::create_dir_all(scratch)?;
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|job| {
                let record = scratch.join(format!("reached-{job}"));
                let (next, found, tests) = (&next, &found, &tests);
                scope.spawn(move || -> anyhow::Result<()> {
                    while let Some((binary, name)) = tests.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let one = alone(&binaries[*binary], name, terms, &record)?;
                        let mut found = found.lock().expect("no worker panics");
                        found.push((*binary, name.clone(), one));
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(gathered(found.into_inner().expect("no worker panics")))
}

/// The outcome of a test that was run alone.
struct Alone {
    outcome: Outcome,
    took: Duration,
    reached: Vec<u32>,
}

fn gathered(mut found: Vec<(usize, String, Alone)>) -> Reach {
    found.sort_by(|a, b| (a.2.took, &a.1).cmp(&(b.2.took, &b.1)));
    let mut reach = Reach::default();
    for (binary, name, alone) in found {
        if alone.outcome != Outcome::Passed {
            reach.left_out.push((name, alone.outcome));
            continue;
        }
        for number in alone.reached {
            reach.of.entry(number).or_default().push(reach.tests.len());
        }
        reach.tests.push(Test {
            binary,
            name,
            took: alone.took,
        });
    }
    reach
}

fn alone(
    binary: &TestBinary,
    name: &str,
    terms: &Terms<'_>,
    record: &Path,
) -> anyhow::Result<Alone> {
    // There is none before the first.
    let _ = fs::remove_file(record);
    let mut environment = terms.environment.to_vec();
    environment.push((
        "SPRAT_MUTANTS_REACHED",
        record.to_string_lossy().into_owned(),
    ));
    let terms = Terms {
        environment: &environment,
        cpu_s: terms.cpu_s,
    };
    let (outcome, took) = run(binary, &[name], &terms)?;
    // Less than the kernel counts in is not nothing.
    let took = took.max(Duration::from_millis(2));
    let bytes = fs::read(record).unwrap_or_default();
    let numbers = bytes.chunks_exact(4);
    let reached = numbers.map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    Ok(Alone {
        outcome,
        took,
        reached: reached.collect(),
    })
}

/// Returns the names of a program's tests.
fn names(binary: &TestBinary) -> anyhow::Result<Vec<String>> {
    let output = Command::new(&binary.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&binary.directory)
        .output()
        .with_context(|| binary.path.display().to_string())?;
    ensure!(output.status.success(), "{} --list", binary.path.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}
