//! `sprat run`: a server from its start to its end, as signals and the
//! configuration's file say.

pub mod pid_file;
mod reload_thread;
mod upgrade;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;
use sprat_config::Config;
use sprat_net::handover::{Inherited, Launch};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal as Signalled, SignalKind, signal};
use tokio::time::{Instant, sleep_until};
use tracing::Level;

use self::pid_file::PidFile;
use self::reload_thread::{Follower, Job, ReloadThread};
use self::upgrade::Upgrade;
use crate::observe::stage::Stage;
use crate::observe::standard_error::StandardError;
use crate::serve::descriptors;
use crate::serve::loaded;
use crate::serve::notify;
use crate::serve::server::{Control, Server};

/// A delay of a year, which stands for never, for what is switched off.
const FAR_OFF: Duration = Duration::from_secs(365 * 86_400);

/// Runs a server, and has it follow its file.
pub struct Operator {
    follower: Follower,
    pid_file: Option<PathBuf>,
    standard_error: StandardError,
}

impl Operator {
    /// Makes the operator of a server that follows this file. Doubts about the
    /// configuration go to `standard_error`.
    pub fn new(
        file: PathBuf,
        workers: Option<u16>,
        pid_file: Option<PathBuf>,
        standard_error: StandardError,
    ) -> Self {
        Self {
            follower: Follower::new(file, workers),
            pid_file,
            standard_error,
        }
    }

    /// Serves until signals, or the admin listener, end the server.
    ///
    /// # Errors
    ///
    /// Fails with everything that is wrong with the configuration, or that it names and
    /// cannot be had.
    pub fn run(mut self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !loaded::is_stdin(self.follower.file()),
            "a server reads its configuration again at a reload: give it a file, not `-`"
        );
        self.pid_file.as_deref().map_or(Ok(()), pid_file::inspect)?;
        let launch = Launch::of_this().context("cannot tell which program this is")?;
        let mut inherited = Inherited::from_environment()?;
        let colour = io::stderr().is_terminal();
        let (config, doubts) = self.follower.read(colour)?;
        descriptors::raise_limit();
        self.standard_error
            .complain(Level::WARN, &doubts.render(colour));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Before anything else: no signal may kill a server that is starting.
        let signals = runtime.block_on(async { Signals::install() });
        let signals = signals.context("cannot install signal handlers")?;
        let server = Server::start_with(&config, &mut inherited)?;
        let _pid_file = self.pid_file.take().map(PidFile::write).transpose()?;
        for (listener, address) in config.listeners.iter().zip(server.places()) {
            tracing::info!(%address, listener = listener.name, "listening");
        }
        if let Some(address) = server.admin_place() {
            tracing::info!(%address, "admin");
        }
        // Before the other process is released: systemd takes the end of the one that it knows
        // as the main process for the service's.
        notify::ready();
        inherited.settle();
        let reloads = ReloadThread::start(self.follower, server.control());
        let watch = ServerWatch {
            control: server.control(),
            reloads: reloads.context("cannot start the reload thread")?,
            launch,
            reload_interval: config.runtime.reload_interval,
            upgrade: None,
            upgrade_waits: false,
            reload_waits: false,
            ending: None,
            stage: Stage::Serving,
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(watch.obey(signals)))
            .context("cannot start the signal thread")?;
        server.join()?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// A server that runs, with the changes to it that signals ask for.
struct ServerWatch {
    control: Control,
    reloads: ReloadThread,
    launch: Launch,
    reload_interval: Option<Duration>,
    /// The upgrade that is under way.
    upgrade: Option<Upgrade>,
    /// Whether an upgrade was asked for during a reload.
    upgrade_waits: bool,
    /// Whether a reload was asked for during an upgrade, or another reload.
    reload_waits: bool,
    /// The upgrade that was under way when this process was told to stop.
    ending: Option<Upgrade>,
    /// The stage that signals have brought the server to.
    stage: Stage,
}

impl ServerWatch {
    async fn obey(mut self, mut signals: Signals) {
        // Twice as often as systemd wants to hear of it.
        let watchdog = notify::watchdog().map(|interval| interval / 2);
        let mut heartbeat = self.control.heartbeat();
        let after = |interval: Option<Duration>| Instant::now() + interval.unwrap_or(FAR_OFF);
        let (mut look_at, mut alive_at) = (after(self.reload_interval), after(watchdog));
        let control = self.control.clone();
        loop {
            tokio::select! {
                // By the admin listener.
                () = control.drained(), if self.stage == Stage::Serving => self.stop(),
                _ = signals.reopen.recv() => self.control.reopen_log(),
                _ = signals.reload.recv() => self.reload(),
                _ = signals.upgrade.recv() => self.begin_upgrade(),
                _ = signals.terminate.recv() => self.stop(),
                _ = signals.interrupt.recv() => self.stop(),
                serves = Upgrade::outcome(&mut self.upgrade) => self.end_upgrade(serves),
                (begun, config) = self.reloads.outcome() => {
                    self.end_reload(config);
                    // A file that takes long to read is not read all the time.
                    let pause = self.reload_interval.map(|own| own.max(begun.elapsed() * 10));
                    look_at = after(pause);
                }
                () = sleep_until(look_at), if self.may_change() => self.reloads.begin(Job::Look),
                () = sleep_until(alive_at) => {
                    // Once it is replaced, the other process is who must be alive.
                    if heartbeat.goes_on() && self.stage != Stage::Replaced {
                        notify::alive();
                    }
                    alive_at = after(watchdog);
                }
            }
        }
    }

    /// Returns whether another configuration may be served by now. It may not when the
    /// server is stopping, nor while a reload is under way. Nor may it while another
    /// process is starting, which would not have a socket that is bound now.
    fn may_change(&self) -> bool {
        self.stage == Stage::Serving && self.upgrade.is_none() && !self.reloads.is_busy()
    }

    fn reload(&mut self) {
        if self.stage != Stage::Serving {
            return tracing::warn!("no reload: the server is stopping");
        }
        if self.may_change() {
            return self.reloads.begin(Job::Reload);
        }
        self.reload_waits = true;
        match self.upgrade {
            Some(_) => tracing::info!("the reload waits until the upgrade has come to an end"),
            None => tracing::info!("the reload waits until the one under way has ended"),
        }
    }

    /// Notes that a reload has ended, and does what has waited for that.
    fn end_reload(&mut self, config: Option<Config>) {
        if let Some(config) = config {
            self.reload_interval = config.runtime.reload_interval;
        }
        if self.stage != Stage::Serving {
            return;
        }
        if std::mem::take(&mut self.upgrade_waits) {
            self.begin_upgrade();
        }
        if self.may_change() && std::mem::take(&mut self.reload_waits) {
            self.reload();
        }
    }

    fn stop(&mut self) {
        // No other process tells one that is starting in place of this one.
        self.ending = self.ending.take().or(self.upgrade.take());
        if let Some(successor) = &self.ending {
            successor.tell(Signal::TERM);
        }
        if self.stage == Stage::Serving {
            notify::stopping();
            tracing::info!("draining; a second signal cuts what is open");
            self.stage = Stage::Draining;
            self.control.drain();
        } else {
            tracing::info!("cutting what is open");
            self.control.cut();
        }
    }

    fn begin_upgrade(&mut self) {
        if self.stage == Stage::Serving && self.reloads.is_busy() {
            self.upgrade_waits = true;
            return tracing::info!("the upgrade waits until the reload has ended");
        }
        if !self.may_change() {
            return tracing::warn!("no upgrade: one is under way, or the server is stopping");
        }
        match Upgrade::begin(&self.launch, &self.control) {
            Ok(upgrade) => {
                tracing::info!(
                    pid = upgrade.pid(),
                    "upgrading: waiting for the new process"
                );
                self.upgrade = Some(upgrade);
            }
            Err(error) => tracing::error!("no upgrade; this process goes on: {error:#}"),
        }
    }

    fn end_upgrade(&mut self, serves: bool) {
        let Some(upgrade) = self.upgrade.take() else {
            return;
        };
        let pid = upgrade.pid();
        let reload_waits = std::mem::take(&mut self.reload_waits);
        if serves {
            tracing::info!(pid, "the new process serves; draining");
            if reload_waits {
                // It may have read the file before it was changed. It is told first:
                // without open connections this process ends as soon as it may.
                upgrade.tell(Signal::HUP);
            }
            self.stage = Stage::Replaced;
            self.control.replaced();
        } else {
            let ended = upgrade.end();
            tracing::error!(
                pid,
                "no upgrade; this process goes on: the new one failed: {ended}"
            );
            if reload_waits {
                self.reload();
            }
        }
    }
}

struct Signals {
    terminate: Signalled,
    interrupt: Signalled,
    reload: Signalled,
    reopen: Signalled,
    upgrade: Signalled,
}

impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}
