//! An upgrade: another process in the place of this one.

use std::future::pending;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;
use sprat_net::handover::{Launch, Successor};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::serve::server::Control;

/// The time that the new process has to begin to serve.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// A process that is starting, with the sockets of this one.
pub(super) struct Upgrade {
    successor: Successor,
    word: oneshot::Receiver<bool>,
    until: Instant,
}

impl Upgrade {
    /// Starts the new process, with the sockets of this one.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started.
    pub(super) fn begin(launch: &Launch, control: &Control) -> anyhow::Result<Self> {
        let lent = control.lend()?;
        let started = launch.successor(&lent.listeners, lent.admin.as_ref());
        let mut successor = started.context("the new process does not start")?;
        let (sender, word) = oneshot::channel();
        let wait = successor.waiting();
        let thread = std::thread::Builder::new().name("upgrade".to_owned());
        let listening = thread.spawn(move || {
            // An error: the word came too late, and its receiver is gone.
            let _ = sender.send(wait());
        });
        if let Err(error) = listening {
            successor.end();
            return Err(error).context("no thread to hear from the new process");
        }
        Ok(Self {
            successor,
            word,
            until: Instant::now() + SERVES_WITHIN,
        })
    }

    /// Returns the new process's number.
    pub(super) fn pid(&self) -> u32 {
        self.successor.process.id()
    }

    /// Waits until it is known whether the new process serves, and returns that; waits for
    /// ever if there is none.
    pub(super) async fn outcome(upgrade: &mut Option<Self>) -> bool {
        let Some(upgrade) = upgrade else {
            return pending().await;
        };
        let word = timeout_at(upgrade.until, &mut upgrade.word).await;
        matches!(word, Ok(Ok(true)))
    }

    /// Sends the new process a signal, and waits for nothing.
    pub(super) fn tell(&self, signal: Signal) {
        self.successor.tell(signal);
    }

    /// Ends the new process; returns how it ended.
    pub(super) fn end(self) -> String {
        self.successor.end()
    }
}
