//! A process of tests, with bounds on its processor time and memory.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::compile::TestBinary;

/// The most memory that tests may ask for, so that a loop that collects without end fails.
const ADDRESS_SPACE_BYTES: u64 = 8 << 30;
/// The signal that the kernel sends to a process that has used its processor time.
const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;

/// The outcome of a process of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All tests have passed.
    Passed,
    /// A test has failed, or the process itself.
    Failed,
    /// The process looped, or waited, until its time was over.
    OutOfTime,
}

/// The environment and the bounds of a process of tests.
pub(crate) struct Terms<'a> {
    /// The variables that are added to the environment.
    pub(crate) environment: &'a [(&'a str, String)],
    /// The processor time in seconds.
    pub(crate) cpu_s: u64,
}

/// Runs tests of a program until one of them fails. Returns the outcome and the processor time
/// used.
///
/// # Errors
/// A program that cannot be started.
pub(crate) fn run(
    binary: &TestBinary,
    tests: &[&str],
    terms: &Terms<'_>,
) -> anyhow::Result<(Outcome, Duration)> {
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--cpu={}:{}", terms.cpu_s, terms.cpu_s + 1))
        .arg(format!("--as={ADDRESS_SPACE_BYTES}"))
        .arg("--core=0")
        .arg(&binary.path)
        .args(["--test-threads=1", "--exact"])
        .args(tests)
        .current_dir(&binary.directory)
        // A failure is enough: no smaller one is looked for, and none is kept.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("PROPTEST_RNG_SEED", "1")
        .env("RUST_BACKTRACE", "0")
        .envs(terms.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().context("prlimit (of util-linux)")?;
    // What waits uses no processor time. A busy machine gets twenty times as long.
    let until = Instant::now() + Duration::from_secs(20 * terms.cpu_s);
    let outcome = watch(&mut child, until);
    if outcome.is_some() {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let used = processor_time(child.id());
    let status = child.wait()?;
    let outcome = outcome.unwrap_or_else(|| match (status.success(), status.signal()) {
        (true, _) => Outcome::Passed,
        (false, Some(SIGXCPU | SIGKILL)) => Outcome::OutOfTime,
        (false, _) => Outcome::Failed,
    });
    Ok((outcome, used))
}

/// Reads the output of tests until one has failed. Returns none if the process ends before that.
fn watch(child: &mut Child, until: Instant) -> Option<Outcome> {
    let output = child.stdout.take()?;
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match receive.recv_timeout(left) {
            Ok(line) if line.starts_with("test ") && line.ends_with("FAILED") => {
                return Some(Outcome::Failed);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return Some(Outcome::OutOfTime),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Returns the processor time of a process that has ended and was not waited for yet: fields 14 and
/// 15 of proc_pid_stat(5), in hundredths of a second.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may have anything in it.
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}
