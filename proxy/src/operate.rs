//! `sprat run`: a server from its start to its end, as signals and the
//! configuration's file say.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use sprat_config::Config;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use crate::cli;
use crate::server::{Control, Server};
use crate::stamp::Stamp;

/// Longer than anybody looks at a file that is not watched.
const FAR_OFF: Duration = Duration::from_secs(365 * 86_400);

/// Runs a server, and has it follow its file.
pub(crate) struct Operator {
    file: PathBuf,
    /// Instead of what the configuration says.
    workers: Option<u16>,
    /// Of the file that was read last.
    seen: Option<Stamp>,
}

impl Operator {
    /// For this configuration.
    pub(crate) fn new(file: PathBuf, workers: Option<u16>) -> Self {
        Self {
            file,
            workers,
            seen: None,
        }
    }

    /// Serves until a signal says otherwise.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the configuration, or that it names and
    /// cannot be had.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let config = self.read(io::stderr().is_terminal())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Before anything else: no signal may kill a server that is starting.
        let signals = runtime.block_on(async { Signals::install() });
        let signals = signals.context("cannot install signal handlers")?;
        let server = Server::start(&config)?;
        for (listener, address) in config.listeners.iter().zip(server.addresses()) {
            tracing::info!(%address, listener = listener.name, "listening");
        }
        if let Some(address) = server.admin_address() {
            tracing::info!(%address, "admin");
        }
        let control = server.control();
        let interval = config.runtime.reload_interval;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(self.obey(signals, &control, interval)))
            .context("cannot start the signal thread")?;
        server.join()?;
        tracing::info!("stopped");
        Ok(())
    }

    /// The configuration as the file has it now.
    fn read(&mut self, colour: bool) -> anyhow::Result<Config> {
        // Before it is read: a change meanwhile is seen the next time.
        self.seen = Stamp::of(&self.file).ok();
        let mut config = cli::load_for(&self.file, colour)?;
        if let Some(workers) = self.workers {
            config.runtime.workers = usize::from(workers);
        }
        Ok(config)
    }

    async fn obey(
        mut self,
        mut signals: Signals,
        control: &Control,
        mut interval: Option<Duration>,
    ) {
        let mut draining = false;
        loop {
            tokio::select! {
                _ = signals.reopen.recv() => {
                    control.reopen_log();
                    continue;
                }
                _ = signals.reload.recv() => {
                    self.reload(control, &mut interval);
                    continue;
                }
                () = sleep(interval.unwrap_or(FAR_OFF)) => {
                    if Stamp::of(&self.file).ok() != self.seen {
                        self.reload(control, &mut interval);
                    }
                    continue;
                }
                _ = signals.terminate.recv() => {}
                _ = signals.interrupt.recv() => {}
            }
            if std::mem::replace(&mut draining, true) {
                tracing::info!("cutting what is open");
                control.cut();
            } else {
                tracing::info!("draining; a second signal cuts what is open");
                control.drain();
            }
        }
    }

    /// Reads the file, and serves by it if it is good.
    fn reload(&mut self, control: &Control, interval: &mut Option<Duration>) {
        let file = self.file.display().to_string();
        let reloaded = match self.read(false) {
            Ok(config) => {
                let reloaded = control.reload(&config);
                if reloaded.is_ok() {
                    *interval = config.runtime.reload_interval;
                }
                reloaded
            }
            Err(error) => {
                control.note_unreadable(&format!("{error:#}"));
                Err(error)
            }
        };
        match reloaded {
            Ok(waiting) => {
                tracing::info!(file, "serving by the configuration as it is now");
                for note in waiting {
                    tracing::warn!(file, "until a restart, {note}");
                }
            }
            Err(error) => tracing::error!(
                file,
                "the configuration is refused; the one before goes on:\n{error:#}"
            ),
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
    reopen: Signal,
}

impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
        })
    }
}
