//! Threads that read and write temporary files, so that no event loop waits for a disk.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// The number of threads: one can write while another waits for a disk.
const THREADS: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// The queue of jobs for the threads. When it is dropped, they end after the last job.
///
/// A body has one read or write under way at a time, and what waits to be written counts as
/// memory that its body holds: that bounds the queue.
#[derive(Debug)]
pub(super) struct FileThreads(Option<Sender<Job>>);

impl FileThreads {
    /// Starts the threads. If none can be started, nothing can be buffered in files.
    pub(super) fn start() -> Self {
        let (sender, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let started = (0..THREADS).filter(|_| {
            let jobs = Arc::clone(&jobs);
            let thread = Builder::new().name("sprat-buffer".to_owned());
            match thread.spawn(move || work(&jobs)) {
                Ok(_) => true,
                Err(error) => {
                    tracing::warn!(%error, "no thread for buffers in files");
                    false
                }
            }
        });
        let are_there = started.count() > 0;
        Self(are_there.then_some(sender))
    }

    /// Returns whether at least one thread was started.
    pub(super) fn are_there(&self) -> bool {
        self.0.is_some()
    }

    /// Hands a job to a thread. If there is none, the job is dropped, which ends the wait for
    /// it.
    pub(super) fn give(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(sender) = &self.0 {
            // The threads end after this.
            let _ = sender.send(Box::new(job));
        }
    }

    /// Occupies all threads, as a disk does that hangs, until what is returned is dropped.
    #[cfg(test)]
    pub(super) fn hang(&self) -> Vec<Sender<()>> {
        let hang = |_| {
            let (held, job) = channel::<()>();
            self.give(move || {
                let _ = job.recv();
            });
            held
        };
        (0..THREADS).map(hang).collect()
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}
