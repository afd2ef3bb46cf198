//! The operator's command that puts a record into a name's zone, and takes it out.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use sprat_config::resolved::ChallengeCommand;
use tokio::time::{Instant, sleep};

/// The time between two looks at whether the command has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A TXT record that the authority looks up as a proof.
#[derive(Clone, Debug)]
pub(crate) struct TxtRecord {
    /// The name that is to be proven, without `*.`.
    pub(crate) domain: String,
    /// The value of the record.
    pub(crate) value: String,
}

/// The change that the command is to make.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Puts the record into the zone.
    Present,
    /// Takes the record out of the zone.
    Cleanup,
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command for one record, and waits for its end.
///
/// # Errors
///
/// The command cannot be started, does not end in time, or reports a failure.
pub(crate) async fn run(
    config: &ChallengeCommand,
    action: Action,
    record: &TxtRecord,
) -> anyhow::Result<()> {
    let program = config.program.path.display();
    let action = match action {
        Action::Present => "present",
        Action::Cleanup => "cleanup",
    };
    let name = format!("_acme-challenge.{}", record.domain);
    let mut command = Command::new(&config.program.path);
    command
        .args([action, &record.domain, &name, &record.value])
        .env("ACME_ACTION", action)
        .env("ACME_DOMAIN", &record.domain)
        .env("ACME_NAME", &name)
        .env("ACME_VALUE", &record.value)
        // What it has to say goes to standard error, which is Sprat's own.
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let child = command.spawn();
    let mut child = Running(child.with_context(|| format!("cannot run {program}"))?);
    let deadline = Instant::now() + config.timeout;
    loop {
        match child.0.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => anyhow::bail!("`{program} {action} {}`: {status}", record.domain),
            None => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        anyhow::ensure!(
            !left.is_zero(),
            "`{program} {action} {}` was killed: it took longer than {:?}",
            record.domain,
            config.timeout
        );
        sleep(LOOK_AGAIN.min(left)).await;
    }
}
