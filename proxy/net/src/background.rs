//! Threads that work at an interval: they save, or look for changes.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

/// A thread that works at an interval, and ends when this is dropped.
#[derive(Debug)]
pub struct Background {
    thread: JoinHandle<()>,
    /// The sender whose drop tells the thread to end.
    end: ThreadEnd,
}

/// The sending end of a channel: the thread ends when it is dropped.
#[derive(Debug)]
enum ThreadEnd {
    Blocking(#[expect(dead_code, reason = "to be dropped")] Sender<()>),
    Async(#[expect(dead_code, reason = "to be dropped")] oneshot::Sender<()>),
}

impl Background {
    /// Starts a thread of this name that calls `work` at each `interval`, and `end` once it is
    /// told to end.
    ///
    /// # Errors
    ///
    /// The system can start no thread.
    pub fn start(
        name: &str,
        interval: Duration,
        mut work: impl FnMut() + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, ended) = channel::<()>();
        let run = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                work();
            }
            end();
        };
        Ok(Self {
            thread: Builder::new().name(name.to_owned()).spawn(run)?,
            end: ThreadEnd::Blocking(sender),
        })
    }

    /// Takes over a thread that ends by itself when `end` is dropped.
    pub fn of(thread: JoinHandle<()>, end: oneshot::Sender<()>) -> Self {
        let end = ThreadEnd::Async(end);
        Self { thread, end }
    }

    /// Ends the thread, and waits for its end.
    pub fn join(self) {
        drop(self.end);
        if self.thread.join().is_err() {
            tracing::error!("a thread in the background panicked");
        }
    }
}
