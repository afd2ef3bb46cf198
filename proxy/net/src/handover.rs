//! Listening sockets that were opened elsewhere: by systemd (`LISTEN_FDS`, sd_listen_fds(3)), or
//! by the process that this one is to replace.
//!
//! A process hands its sockets to the next one by number, in the environment. Both accept from
//! the same queues, so that no connection is refused while the next one takes over. Through a
//! pipe the next one says that it serves; if the pipe ends without a word, it has failed.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use sprat_config::resolved::ListenAddress;

use crate::listening::ListeningSocket;
use crate::sys;

/// The environment variable by which a process hands over to the next, in JSON.
const HANDOVER: &str = "SPRAT_HANDOVER";

/// The environment variables of systemd's sockets (sd_listen_fds(3)): the process that they are
/// for, their number and their names.
const SYSTEMD: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The environment variable with the process that systemd's watchdog expects to hear from.
/// Without it, that is any process of the service.
const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// The first descriptor that systemd passes (sd_listen_fds(3)).
const FIRST_FD: RawFd = 3;

/// The most descriptors that are taken from systemd.
const MAX_FDS: usize = 4096;

/// The time that a new process which has failed gets to say why.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Handover {
    /// The number of the process that hands over; its own child alone takes the sockets.
    parent: u32,
    /// The pipe through which the next process says that it serves.
    ready: RawFd,
    admin: Option<RawFd>,
    /// The descriptors of the sockets, by the listener's name.
    listeners: BTreeMap<String, Vec<RawFd>>,
    /// The addresses that these listeners are configured with, as text, by the listener's name.
    #[serde(default)]
    addresses: BTreeMap<String, String>,
    /// The listeners with Unix sockets whose files the next process is to remove at its end. The
    /// admin listener goes by [`ADMIN`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

/// The name of the admin listener among the files, which no listener can have.
const ADMIN: &str = "";

/// A listener's socket for the process that is to replace this one.
pub struct Lent {
    /// The name of the socket's listener.
    pub name: String,
    /// The address that the listener is configured with.
    pub address: ListenAddress,
    /// The socket, which this process holds as well.
    pub socket: OwnedFd,
    /// Whether it is a Unix socket whose file this process has made.
    pub has_file: bool,
}

/// The admin listener's socket for a process that is to replace this one.
pub struct LentAdmin {
    /// The socket, which this process holds as well.
    pub socket: OwnedFd,
    /// Whether it is a Unix socket whose file this process has made.
    pub has_file: bool,
}

/// An inherited socket that no listener has taken so far.
struct Waiting {
    /// The name of the socket's listener; empty if it has none.
    name: String,
    /// The address that the listener was configured with, if the process before handed the
    /// socket over. `None` for a socket from systemd, which may stand on another.
    address: Option<ListenAddress>,
    socket: ListeningSocket,
}

impl Waiting {
    fn stands_on(&self, address: &ListenAddress) -> bool {
        self.socket.address().is_ok_and(|own| own == *address)
    }
}

/// The sockets that this process has inherited.
#[derive(Default)]
pub struct Inherited {
    sockets: Vec<Waiting>,
    /// Whether the sockets come from the process that this one is to replace.
    handed: bool,
    admin: Option<ListeningSocket>,
    ready: Option<OwnedFd>,
}

impl Inherited {
    /// Takes the sockets that the environment names. To be called once in a process.
    ///
    /// # Errors
    ///
    /// The environment cannot be read, or names a descriptor that is no listening socket.
    pub fn from_environment() -> anyhow::Result<Self> {
        if let Ok(text) = env::var(HANDOVER) {
            let handed: Handover = serde_json::from_str(&text)
                .with_context(|| format!("{HANDOVER} makes no sense"))?;
            if handed.parent == std::os::unix::process::parent_id() {
                return Self::handed(handed);
            }
        }
        Self::from_systemd()
    }

    fn handed(handed: Handover) -> anyhow::Result<Self> {
        let mut sockets = Vec::new();
        for (name, fds) in handed.listeners {
            let mut file = None;
            for fd in fds {
                let mut socket = listening(fd)?;
                if handed.files.contains(&name) {
                    socket.adopt(&mut file);
                }
                let address = match handed.addresses.get(&name) {
                    Some(address) => address.parse().context("an address of a handover")?,
                    None => socket.address()?,
                };
                sockets.push(Waiting {
                    name: name.clone(),
                    address: Some(address),
                    socket,
                });
            }
        }
        let mut admin = handed.admin.map(listening).transpose()?;
        if handed.files.iter().any(|own| own == ADMIN) {
            admin.iter_mut().for_each(|own| own.adopt(&mut None));
        }
        Ok(Self {
            sockets,
            handed: true,
            admin,
            ready: Some(sys::inherit(handed.ready).context("the pipe of a handover")?),
        })
    }

    fn from_systemd() -> anyhow::Result<Self> {
        let [pid, count, names] = SYSTEMD.map(|name| env::var(name).ok());
        let own = std::process::id().to_string();
        if pid.as_ref() != Some(&own) {
            return Ok(Self::default());
        }
        let count: usize = count.unwrap_or_default().parse().context("LISTEN_FDS")?;
        ensure!(
            count <= MAX_FDS,
            "LISTEN_FDS has {count}: {MAX_FDS} are the most"
        );
        let names = names.unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = Vec::new();
        for fd in FIRST_FD..FIRST_FD + count as RawFd {
            sockets.push(Waiting {
                name: names.next().unwrap_or_default().to_owned(),
                address: None,
                socket: listening(fd)?,
            });
        }
        Ok(Self {
            sockets,
            ..Self::default()
        })
    }

    /// Returns the IP addresses of the sockets that no listener has taken.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let all = self.sockets.iter();
        all.filter_map(|own| own.socket.address().ok()?.ip())
    }

    /// Takes the sockets of a listener. A socket from systemd is found by the listener's name. A
    /// socket from the process before is found by its configured address alone, since names may
    /// have changed; if the kernel chose the port, by the name as well. If there is none, the
    /// sockets that stand on the address are taken.
    pub fn take(&mut self, name: &str, address: &ListenAddress) -> Vec<ListeningSocket> {
        let named = |own: &Waiting| own.name == name;
        let configured = |own: &Waiting| {
            own.address.as_ref() == Some(address) && (!address.is_any_port() || named(own))
        };
        let first: &dyn Fn(&Waiting) -> bool = match self.handed {
            true => &configured,
            false => &named,
        };
        let known = self.sockets.iter().any(first);
        let is_its = |own: &mut Waiting| match known {
            true => first(own),
            false => own.stands_on(address),
        };
        let its: Vec<_> = self.sockets.extract_if(.., is_its).collect();
        if let Some(other) = its.iter().find(|own| !own.stands_on(address))
            && !address.is_any_port()
        {
            let socket = other.socket.address().ok();
            tracing::warn!(
                listener = name,
                ?socket,
                %address,
                "an inherited socket stands on another address than its listener is to: \
                 the socket's is served"
            );
        }
        its.into_iter().map(|own| own.socket).collect()
    }

    /// Takes the admin listener's socket.
    pub fn take_admin(&mut self) -> Option<ListeningSocket> {
        self.admin.take()
    }

    /// Tells the process that is to be replaced that this one serves. Sockets that no listener
    /// has taken are logged and closed.
    pub fn settle(self) {
        for own in self.sockets {
            let (name, address) = (own.name, own.socket.address().ok());
            tracing::warn!(name, ?address, "no listener has this inherited socket");
        }
        if let Some(ready) = self.ready
            && let Err(error) = io::PipeWriter::from(ready).write_all(b"1")
        {
            tracing::warn!(%error, "the process before has not waited");
        }
    }
}

fn listening(fd: RawFd) -> anyhow::Result<ListeningSocket> {
    let inherited = sys::inherit(fd).and_then(ListeningSocket::inherited);
    inherited.with_context(|| format!("the inherited descriptor {fd} is of no use"))
}

/// The program and the arguments that the next process is started with.
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// The next process, which has not said yet that it serves.
pub struct Successor {
    /// The process, a child of this one.
    pub process: Child,
    ready: Option<PipeReader>,
}

impl Launch {
    /// Returns how this process was started. To be called before the program's file is replaced.
    ///
    /// # Errors
    ///
    /// The kernel does not tell the program's path.
    pub fn of_this() -> io::Result<Self> {
        let program = match path_as_given() {
            Some(program) => program,
            None => env::current_exe()?,
        };
        Ok(Self {
            program,
            arguments: env::args_os().skip(1).collect(),
        })
    }

    /// Starts the program that now stands under the same path, and hands it these sockets.
    ///
    /// # Errors
    ///
    /// The program does not start, or a descriptor cannot be duplicated.
    pub fn successor(&self, sockets: &[Lent], admin: Option<&LentAdmin>) -> io::Result<Successor> {
        let (reader, writer) = io::pipe()?;
        // Duplicates that an exec leaves open; closed here once it is done.
        let mut kept = Vec::new();
        let mut keep = |fd: &OwnedFd| {
            let fd = rustix::io::dup(fd)?;
            let number = fd.as_raw_fd();
            kept.push(fd);
            io::Result::Ok(number)
        };
        let mut listeners = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        let named = |own: &Lent| own.has_file.then(|| own.name.clone());
        let mut files: Vec<_> = sockets.iter().filter_map(named).collect();
        files.extend(admin.filter(|own| own.has_file).map(|_| ADMIN.to_owned()));
        for lent in sockets {
            let of_listener: &mut Vec<_> = listeners.entry(lent.name.clone()).or_default();
            of_listener.push(keep(&lent.socket)?);
            addresses.insert(lent.name.clone(), lent.address.to_string());
        }
        let handover = Handover {
            parent: std::process::id(),
            ready: keep(&writer.into())?,
            admin: admin.map(|own| keep(&own.socket)).transpose()?,
            listeners,
            addresses,
            files,
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(HANDOVER, serde_json::to_string(&handover)?);
        for name in SYSTEMD.iter().chain([&WATCHDOG_PID]) {
            command.env_remove(name);
        }
        Ok(Successor {
            process: command.spawn()?,
            ready: Some(reader),
        })
    }
}

/// Returns the path that this process was started by, with its symbolic links as they are: some
/// operators replace a program by leading a link to another. Returns `None` if this program does
/// not stand there.
fn path_as_given() -> Option<PathBuf> {
    let file = |path: &Path| {
        let data = path.metadata().ok()?;
        Some((data.dev(), data.ino()))
    };
    let own = file(Path::new("/proc/self/exe"))?;
    let is_own = |path: &PathBuf| file(path) == Some(own);
    let name = env::args_os().next()?;
    let given = match name.as_bytes().contains(&b'/') {
        true => Some(PathBuf::from(&name)).filter(is_own)?,
        // As a shell has found it.
        false => {
            let directories = env::var_os("PATH")?;
            let mut paths = env::split_paths(&directories).map(|place| place.join(&name));
            paths.find(is_own)?
        }
    };
    std::path::absolute(given).ok()
}

impl Successor {
    /// Returns a function that waits, on its thread, until the process serves, and returns false
    /// if it never will.
    pub fn waiting(&mut self) -> impl FnOnce() -> bool + Send + 'static {
        let ready = self.ready.take();
        move || {
            let mut word = [0];
            ready.is_some_and(|mut pipe| pipe.read_exact(&mut word).is_ok())
        }
    }

    /// Sends a signal to the process. Its number is its own even if it has ended, for it has not
    /// been waited for.
    pub fn tell(&self, signal: Signal) {
        let pid = self.process.id();
        tracing::info!(pid, ?signal, "telling the new process");
        if let Err(error) = kill_process(Pid::from_child(&self.process), signal) {
            tracing::warn!(pid, %error, "the new process cannot be told");
        }
    }

    /// Ends a process that has failed or takes too long; returns how it ended.
    pub fn end(mut self) -> String {
        // One that has failed is ending: what it says, and how it ends, is its own.
        let patience = Instant::now() + ENDS_WITHIN;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        // An error means that it has ended by itself.
        let _ = self.process.kill();
        let ended = self.process.wait();
        ended.map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}
