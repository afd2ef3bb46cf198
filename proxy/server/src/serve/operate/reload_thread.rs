//! Reloads, on a thread of their own: they read files, resolve names and build tables,
//! and signals are not to wait for that.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use rustix::process::setpriority_process;
use sprat_config::{Config, Errors, Loaded};
use sprat_net::problem::Purpose;
use sprat_net::stamp::Stamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::serve::loaded;
use crate::serve::notify;
use crate::serve::server::Control;

/// The niceness of a thread that reads a configuration: it stands back behind the workers.
const NICE: i32 = 10;

/// A job that the thread is asked to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// The thread reads the file, and serves by it.
    Reload,
    /// The thread reloads if the file has changed, or was refused.
    Look,
}

/// The thread that reloads, one job at a time.
pub(super) struct ReloadThread {
    jobs: Sender<Job>,
    outcomes: UnboundedReceiver<Option<Config>>,
    /// The time when the job under way was begun.
    begun: Option<Instant>,
}

impl ReloadThread {
    /// Starts the thread, which has `control`'s server follow a file.
    pub(super) fn start(follower: Follower, control: Control) -> std::io::Result<Self> {
        let (jobs, asked) = channel();
        let (tell, outcomes) = unbounded_channel();
        let thread = std::thread::Builder::new().name("reload".to_owned());
        thread.spawn(move || follower.work(&control, &asked, &tell))?;
        Ok(Self {
            jobs,
            outcomes,
            begun: None,
        })
    }

    /// Returns whether a job is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.begun.is_some()
    }

    /// Begins a job; none may be under way.
    pub(super) fn begin(&mut self, job: Job) {
        match self.jobs.send(job) {
            Ok(()) => self.begun = Some(Instant::now()),
            Err(_) => tracing::error!("no reload: its thread has ended"),
        }
    }

    /// Waits for the end of the job under way, for ever if there is none. Returns when the
    /// job was begun, and the configuration that is served by from now on, if it is another.
    pub(super) async fn outcome(&mut self) -> (Instant, Option<Config>) {
        match self.outcomes.recv().await {
            Some(config) => {
                let begun = self.begun.take();
                (begun.unwrap_or_else(Instant::now), config)
            }
            // The thread has ended: nothing comes any more.
            None => std::future::pending().await,
        }
    }
}

/// A server's configuration file, and what was seen of it.
pub(super) struct Follower {
    file: PathBuf,
    /// The number of workers, instead of what the configuration says.
    workers: Option<u16>,
    /// The files that were read last, and the directories of files that are included,
    /// each as it was before it was read.
    seen: HashMap<PathBuf, Option<Stamp>>,
    /// The error that the file was refused for, if it was.
    refused: Option<String>,
}

impl Follower {
    /// Makes the follower of this file, which has not been read yet.
    pub(super) fn new(file: PathBuf, workers: Option<u16>) -> Self {
        Self {
            file,
            workers,
            seen: HashMap::new(),
            refused: None,
        }
    }

    /// Returns the configuration's file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Does the jobs that come, until no more can.
    fn work(
        mut self,
        control: &Control,
        jobs: &Receiver<Job>,
        outcomes: &UnboundedSender<Option<Config>>,
    ) {
        while let Ok(job) = jobs.recv() {
            // A panic in a reload leaves what was there before.
            let done = catch_unwind(AssertUnwindSafe(|| match job {
                Job::Reload => self.reload(control),
                Job::Look => self.look(control),
            }));
            if done.is_err() {
                tracing::error!("the reload panicked; the configuration before goes on");
            }
            if outcomes.send(done.unwrap_or(None)).is_err() {
                return;
            }
        }
    }

    /// Reads the configuration as the file has it now, and returns it with the doubts about it.
    pub(super) fn read(&mut self, colour: bool) -> anyhow::Result<(Config, Errors)> {
        self.seen.insert(self.file.clone(), None);
        let mut loaded = self.read_what_is_seen(colour)?;
        if !loaded.read.iter().all(|path| self.seen.contains_key(path)) {
            self.seen = stamps(loaded.read);
            loaded = self.read_what_is_seen(colour)?;
        }
        let (mut config, doubts) = (loaded.config, loaded.warnings);
        if let Some(workers) = self.workers {
            config.runtime.workers = usize::from(workers);
            config.shown.set("runtime", "workers", workers.into());
        }
        Ok((config, doubts))
    }

    /// Reads the configuration on a thread that stands back behind the workers: the system
    /// gives it the processor time that they leave.
    fn read_aside(&mut self) -> anyhow::Result<(Config, Errors)> {
        std::thread::scope(|scope| {
            let read = || {
                // What cannot be had is no reason not to read.
                let _ = setpriority_process(None, NICE);
                self.read(false)
            };
            let thread = std::thread::Builder::new().name("configuration".to_owned());
            let thread = thread.spawn_scoped(scope, read);
            let thread = thread.context("cannot start a thread")?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Reads the configuration, and notes its files' stamps. The files that it was read
    /// from the last time are looked at before: a change meanwhile is seen the next time.
    fn read_what_is_seen(&mut self, colour: bool) -> anyhow::Result<Loaded> {
        self.seen = stamps(self.seen.drain().map(|(path, _)| path));
        loaded::load_with_files(&self.file, Purpose::Serve, colour)
    }

    /// Reads the file, and serves by it if it is good; logs how that went.
    fn reload(&mut self, control: &Control) -> Option<Config> {
        notify::reloading();
        self.refused = None;
        let config = self.follow(control);
        if control.is_serving().is_ok() {
            notify::reloaded();
        }
        config
    }

    /// Reloads if the file has changed. A configuration that was refused is tried again,
    /// for a file that it names may have come meanwhile; if it is refused for the same
    /// reason as before, nothing is logged.
    fn look(&mut self, control: &Control) -> Option<Config> {
        if self.seen != stamps(self.seen.keys().cloned()) {
            return self.reload(control);
        }
        match self.refused {
            Some(_) => self.follow(control),
            None => None,
        }
    }

    /// Serves by the file if it is good, and logs how that went, unless the file was
    /// refused for the same reason before.
    fn follow(&mut self, control: &Control) -> Option<Config> {
        let mut doubts = None;
        let reloaded = self.read_aside().and_then(|(config, doubtful)| {
            doubts = Some(doubtful);
            Ok((control.try_reload(&config)?, config))
        });
        if reloaded.is_err() && control.is_serving().is_err() {
            tracing::info!("the reload is given up: the server is stopping");
            return None;
        }
        let refusal = reloaded.as_ref().err().map(loaded::in_one_line);
        if refusal.is_some() && refusal == self.refused {
            return None;
        }
        self.refused.clone_from(&refusal);
        control.note_reload(refusal.clone().map_or(Ok(()), Err));
        let file = self.file.display().to_string();
        for doubt in doubts.iter().flat_map(Errors::lines) {
            tracing::warn!(file, "{doubt}");
        }
        match reloaded {
            Ok((waiting, config)) => {
                tracing::info!(file, "serving by the configuration as it is now");
                for note in waiting {
                    tracing::warn!(file, "until a restart, {note}");
                }
                Some(config)
            }
            Err(_) => {
                let why = refusal.unwrap_or_default();
                tracing::error!(
                    file,
                    "the configuration is refused; the one before goes on: {why}"
                );
                None
            }
        }
    }
}

/// Returns the stamps of files and directories, as they are now.
fn stamps(paths: impl IntoIterator<Item = PathBuf>) -> HashMap<PathBuf, Option<Stamp>> {
    let stamp = |path: PathBuf| {
        let stamp = Stamp::of(&path).ok();
        (path, stamp)
    };
    paths.into_iter().map(stamp).collect()
}
