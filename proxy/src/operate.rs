//! `sprat run`: a server from its start to its end, as signals and the
//! configuration's file say.

pub(crate) mod pid_file;
mod upgrade;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;
use sprat_config::{Config, Errors};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal as Signalled, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use self::pid_file::PidFile;
use self::upgrade::Upgrade;
use crate::cli;
use crate::descriptors;
use crate::handover::{Inherited, Launch};
use crate::inspect::Purpose;
use crate::notify;
use crate::server::{Control, Server};
use crate::stamp::Stamp;
use crate::worker::Stage;

/// Longer than anybody waits for what is switched off.
const FAR_OFF: Duration = Duration::from_secs(365 * 86_400);

/// Runs a server, and has it follow its file.
pub(crate) struct Operator {
    file: PathBuf,
    /// Instead of what the configuration says.
    workers: Option<u16>,
    pid_file: Option<PathBuf>,
    /// Of the file that was read last.
    seen: Option<Stamp>,
    /// What is wrong with it, if it was refused.
    refused: Option<String>,
}

impl Operator {
    /// For this configuration.
    pub(crate) fn new(file: PathBuf, workers: Option<u16>, pid_file: Option<PathBuf>) -> Self {
        Self {
            file,
            workers,
            pid_file,
            seen: None,
            refused: None,
        }
    }

    /// Serves until a signal says otherwise.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the configuration, or that it names and
    /// cannot be had.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !cli::is_stdin(&self.file),
            "a server reads its configuration again at a reload: give it a file, not `-`"
        );
        self.pid_file.as_deref().map_or(Ok(()), pid_file::inspect)?;
        let launch = Launch::of_this().context("cannot tell which program this is")?;
        let mut inherited = Inherited::from_environment()?;
        let colour = io::stderr().is_terminal();
        let (config, doubts) = self.read(colour)?;
        descriptors::raise_limit();
        cli::complain(&doubts.render(colour));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Before anything else: no signal may kill a server that is starting.
        let signals = runtime.block_on(async { Signals::install() });
        let signals = signals.context("cannot install signal handlers")?;
        let server = Server::start_with(&config, &mut inherited)?;
        let _pid_file = self.pid_file.take().map(PidFile::write).transpose()?;
        for (listener, address) in config.listeners.iter().zip(server.addresses()) {
            tracing::info!(%address, listener = listener.name, "listening");
        }
        if let Some(address) = server.admin_address() {
            tracing::info!(%address, "admin");
        }
        inherited.settle();
        notify::ready();
        let watch = Watch {
            control: server.control(),
            launch,
            reload_interval: config.runtime.reload_interval,
            upgrade: None,
            reload_waits: false,
            ending: None,
            stage: Stage::Serving,
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(watch.obey(self, signals)))
            .context("cannot start the signal thread")?;
        server.join()?;
        tracing::info!("stopped");
        Ok(())
    }

    /// The configuration as the file has it now, with what is doubtful.
    fn read(&mut self, colour: bool) -> anyhow::Result<(Config, Errors)> {
        // Before it is read: a change meanwhile is seen the next time.
        self.seen = Stamp::of(&self.file).ok();
        let (mut config, doubts) = cli::load_with_files(&self.file, Purpose::Serve, colour)?;
        if let Some(workers) = self.workers {
            config.runtime.workers = usize::from(workers);
            config.shown.set("runtime", "workers", workers.into());
        }
        Ok((config, doubts))
    }

    /// Reads the file, and serves by it if it is good; says so in the log.
    fn reload(&mut self, control: &Control) -> Option<Config> {
        notify::reloading();
        self.refused = None;
        let config = self.follow(control);
        notify::reloaded();
        config
    }

    /// Looks whether there is another configuration. One that was refused is
    /// tried again, for a file that it names may have come meanwhile; if it is
    /// for the same reason as before, nothing is said.
    fn look(&mut self, control: &Control) -> Option<Config> {
        if self.seen != Stamp::of(&self.file).ok() {
            return self.reload(control);
        }
        match self.refused {
            Some(_) => self.follow(control),
            None => None,
        }
    }

    /// Serves by the file if it is good, and says how that went, unless it was
    /// refused just so before.
    fn follow(&mut self, control: &Control) -> Option<Config> {
        let mut doubts = None;
        let reloaded = self.read(false).and_then(|(config, doubtful)| {
            doubts = Some(doubtful);
            Ok((control.try_reload(&config)?, config))
        });
        let refusal = reloaded.as_ref().err().map(cli::in_one_line);
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

/// A server that is watched over.
struct Watch {
    control: Control,
    launch: Launch,
    reload_interval: Option<Duration>,
    /// One under way.
    upgrade: Option<Upgrade>,
    /// A reload was asked for meanwhile.
    reload_waits: bool,
    /// One that was under way when this process was told to stop.
    ending: Option<Upgrade>,
    /// As far as signals have brought it.
    stage: Stage,
}

impl Watch {
    async fn obey(mut self, mut operator: Operator, mut signals: Signals) {
        // Twice as often as somebody wants to hear of it.
        let watchdog = notify::watchdog().map(|interval| interval / 2);
        let mut heartbeat = self.control.heartbeat();
        let after = |interval: Option<Duration>| Instant::now() + interval.unwrap_or(FAR_OFF);
        let (mut look_at, mut alive_at) = (after(self.reload_interval), after(watchdog));
        loop {
            tokio::select! {
                _ = signals.reopen.recv() => self.control.reopen_log(),
                _ = signals.reload.recv() => {
                    self.reload(&mut operator);
                    look_at = after(self.reload_interval);
                }
                _ = signals.upgrade.recv() => self.begin_upgrade(),
                _ = signals.terminate.recv() => self.stop(),
                _ = signals.interrupt.recv() => self.stop(),
                serves = Upgrade::outcome(&mut self.upgrade) => {
                    self.end_upgrade(serves, &mut operator);
                }
                () = sleep_until(look_at), if self.may_change() => {
                    let begun = Instant::now();
                    let config = operator.look(&self.control);
                    self.follow(config);
                    // Signals are not kept waiting most of the time.
                    let pause = self.reload_interval.map(|own| own.max(begun.elapsed() * 10));
                    look_at = after(pause);
                }
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

    /// Whether another configuration may be served by now. Not where nothing
    /// begins any more; nor while another process is starting, which would not
    /// have a socket that is bound now.
    fn may_change(&self) -> bool {
        self.stage == Stage::Serving && self.upgrade.is_none()
    }

    fn reload(&mut self, operator: &mut Operator) {
        if self.stage != Stage::Serving {
            return tracing::warn!("no reload: the server is stopping");
        }
        if !self.may_change() {
            self.reload_waits = true;
            return tracing::info!("the reload waits until the upgrade has come to an end");
        }
        let config = operator.reload(&self.control);
        self.follow(config);
    }

    /// Another configuration, if it is one, is served by.
    fn follow(&mut self, config: Option<Config>) {
        if let Some(config) = config {
            self.reload_interval = config.runtime.reload_interval;
        }
    }

    fn stop(&mut self) {
        // Nobody else tells a process that is starting in place of this one.
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

    fn end_upgrade(&mut self, serves: bool, operator: &mut Operator) {
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
                self.reload(operator);
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
