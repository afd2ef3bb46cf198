//! The trials of mutants against the tests that reach them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::compile::TestBinary;
use crate::reach::{Reach, Test};
use crate::run::{Outcome, Terms, run};

/// The bounds on the time of the tests that run together: the quickest tests first, then the next.
/// Most mutants are caught by the quickest, and a process for each test would cost more than the
/// tests.
const STEPS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::MAX,
];
/// The cases of each property test in the first trial: nearly all mutants are caught by a few.
pub(crate) const CASES: &str = "16";
/// The processor time, in seconds, for a second trial of a missed mutant with all cases, quickest
/// tests first.
const ALL_CASES_S: u64 = 4;

/// Tries mutants in order against the tests that reach them, until the time is over. A mutant that
/// no test reaches passes.
///
/// # Errors
/// Programs that cannot be run.
pub(crate) fn tried(
    binaries: &[TestBinary],
    reach: &Reach,
    mutants: &[u32],
    jobs: usize,
    until: Instant,
) -> anyhow::Result<BTreeMap<u32, Outcome>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    while let Some(number) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if Instant::now() > until {
                            break;
                        }
                        let outcome = one(binaries, reach, *number)?;
                        let mut found = found.lock().expect("no worker panics");
                        found.insert(*number, outcome);
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(found.into_inner().expect("no worker panics"))
}

fn one(binaries: &[TestBinary], reach: &Reach, number: u32) -> anyhow::Result<Outcome> {
    let mut environment = vec![
        ("SPRAT_MUTANT", number.to_string()),
        ("PROPTEST_CASES", CASES.to_owned()),
    ];
    let reached = reach.of.get(&number).map(Vec::as_slice).unwrap_or_default();
    let tests: Vec<&Test> = reached.iter().map(|index| &reach.tests[*index]).collect();
    for (binary, tests) in steps(&tests).into_iter().flat_map(by_binary) {
        let whole: Duration = tests.iter().map(|test| test.took).sum();
        let terms = Terms {
            environment: &environment,
            cpu_s: 2 + 8 * whole.as_secs(),
        };
        let (outcome, _) = run(&binaries[binary], &names(&tests), &terms)?;
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    environment.pop();
    for (binary, tests) in by_binary(tests) {
        let terms = Terms {
            environment: &environment,
            cpu_s: ALL_CASES_S,
        };
        let (outcome, _) = run(&binaries[binary], &names(&tests), &terms)?;
        // One that loops would have done so with few cases.
        if outcome == Outcome::Failed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

fn by_binary(tests: Vec<&Test>) -> BTreeMap<usize, Vec<&Test>> {
    let mut sorted: BTreeMap<usize, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        sorted.entry(test.binary).or_default().push(test);
    }
    sorted
}

fn names<'a>(tests: &[&'a Test]) -> Vec<&'a str> {
    tests.iter().map(|test| test.name.as_str()).collect()
}

/// Divides tests, quickest first, into groups that run together.
fn steps<'a>(tests: &[&'a Test]) -> Vec<Vec<&'a Test>> {
    let mut steps = vec![Vec::new(); STEPS.len()];
    let mut sum = Duration::ZERO;
    let mut step = 0;
    for &test in tests {
        sum = sum.saturating_add(test.took);
        while sum > STEPS[step] && !(step == 0 && steps[0].is_empty()) && step + 1 < STEPS.len() {
            step += 1;
        }
        steps[step].push(test);
    }
    steps.retain(|step| !step.is_empty());
    steps
}
