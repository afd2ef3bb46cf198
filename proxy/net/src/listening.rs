//! Sockets that clients connect to: on an IP address, or with a path.
//!
//! A connection over a Unix socket is handed on as a stream like any other. It is read and
//! written in the same way; calls that only TCP has return an error, which callers expect.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdTcp};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::os::unix::net::{UnixListener as StdUnix, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use sprat_config::resolved::{Config, ListenAddress, SocketOwner};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::accounts::{self, AccountKind};
use crate::network;
use crate::problem::Problem;

/// The most connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// The address that stands for clients over a Unix socket, which are on this machine.
pub const LOCAL_CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The owner and the permissions of a Unix socket's file.
#[derive(Clone, Copy, Debug)]
pub struct FileRights {
    mode: u32,
    user: Option<u32>,
    group: Option<u32>,
}

impl FileRights {
    /// Returns the rights as configured.
    ///
    /// # Errors
    ///
    /// There is no such user or group.
    pub fn of(mode: u32, owner: &SocketOwner) -> io::Result<Self> {
        let number = |kind: AccountKind, own: &Option<_>| {
            let own = own.as_ref();
            own.map(|own: &sprat_config::resolved::AccountAt| kind.number(&own.account))
                .transpose()
        };
        Ok(Self {
            mode,
            user: number(AccountKind::User, &owner.user)?,
            group: number(AccountKind::Group, &owner.group)?,
        })
    }

    /// Gives the rights to a socket's file. An owner that is not configured stays as it is.
    ///
    /// # Errors
    ///
    /// The file is not there, or this process may not change it.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        if self.user.is_some() || self.group.is_some() {
            lchown(path, self.user, self.group).map_err(|error| self.refused(&error))?;
        }
        fs::set_permissions(path, Permissions::from_mode(self.mode))
    }

    fn refused(&self, error: &io::Error) -> io::Error {
        let number = |kind: &str, own: Option<u32>| own.map(|own| format!("{kind} {own}"));
        let names = [number("user", self.user), number("group", self.group)];
        let names: Vec<_> = names.into_iter().flatten().collect();
        let what = format!(
            "its file cannot be given to {}: {error}; that takes root or CAP_CHOWN, and for a \
             group alone that Sprat's user is in it",
            names.join(" and ")
        );
        io::Error::new(error.kind(), what)
    }
}

/// Returns the problems with the owners of sockets' files in a configuration.
pub fn inspect(config: &Config) -> Vec<Problem> {
    let listeners = config.listeners.iter().map(|own| &own.owner);
    let admin = config.admin.iter().map(|own| &own.owner);
    listeners.chain(admin).flat_map(accounts::inspect).collect()
}

/// A socket that listens for connections.
#[derive(Debug)]
pub enum ListeningSocket {
    /// The socket listens on an IP address.
    Tcp(StdTcp),
    /// The socket listens at a path. The file, if this process owns it, is removed with the last
    /// hold on it.
    Unix(StdUnix, Option<Arc<SocketFile>>),
}

impl ListeningSocket {
    /// Opens a Unix socket, whose file gets these rights before it listens. A file at which no
    /// process listens any more is replaced.
    ///
    /// # Errors
    ///
    /// The path is in use or cannot be used.
    pub fn unix(path: &Path, rights: FileRights) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let descriptor: OwnedFd = socket.into();
        // The file begins with the socket's own permissions, less the umask: no client gets in
        // before those that are wanted are set.
        let descriptor = File::from(descriptor);
        descriptor.set_permissions(Permissions::from_mode(rights.mode))?;
        let socket = Socket::from(OwnedFd::from(descriptor));
        socket.bind(&SockAddr::unix(path)?)?;
        let file = SocketFile::of(path)?;
        rights.give(path)?;
        socket.listen(BACKLOG)?;
        let listener = StdUnix::from(OwnedFd::from(socket));
        Ok(Self::Unix(listener, Some(Arc::new(file))))
    }

    /// Takes over a socket that another process has opened.
    ///
    /// # Errors
    ///
    /// The socket does not listen, or is neither TCP's nor a Unix one.
    pub(crate) fn inherited(descriptor: OwnedFd) -> io::Result<Self> {
        let socket = SockRef::from(&descriptor);
        let listens = socket.is_listener()?;
        let address = socket.local_addr()?;
        let is_stream = socket.r#type()? == Type::STREAM;
        socket.set_nonblocking(true)?;
        let error = || io::Error::other("it is no listening socket of TCP, nor a Unix one");
        if !listens || !is_stream {
            return Err(error());
        }
        match address.domain() {
            Domain::UNIX => Ok(Self::Unix(descriptor.into(), None)),
            Domain::IPV4 | Domain::IPV6 => Ok(Self::Tcp(descriptor.into())),
            _ => Err(error()),
        }
    }

    /// Returns the address that the socket listens on.
    ///
    /// # Errors
    ///
    /// The kernel does not tell, or a Unix socket has no path.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(ListenAddress::Ip),
            Self::Unix(socket, _) => {
                let address = socket.local_addr()?;
                let path = address.as_pathname().map(Path::to_owned);
                let nameless = || io::Error::other("the Unix socket has no path");
                path.map(ListenAddress::Unix).ok_or_else(nameless)
            }
        }
    }

    /// Returns a second hold on the socket.
    ///
    /// # Errors
    ///
    /// No descriptor can be had.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Unix(socket, file) => Self::Unix(socket.try_clone()?, file.clone()),
        })
    }

    /// Returns a Unix socket's file, if this process owns it.
    pub fn file(&self) -> Option<&Arc<SocketFile>> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, file) => file.as_ref(),
        }
    }

    /// Makes this process the owner of a Unix socket's file, which it removes at the end. All
    /// holds on one socket share one `file`.
    pub(crate) fn adopt(&mut self, file: &mut Option<Arc<SocketFile>>) {
        if let Ok(ListenAddress::Unix(path)) = self.address()
            && let Self::Unix(_, own) = self
        {
            let found = file
                .take()
                .or_else(|| SocketFile::of(&path).ok().map(Arc::new));
            own.clone_from(&found);
            *file = found;
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket, _) => socket.as_fd(),
        }
    }
}

/// Removes the file of a Unix socket at which no process listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let what = "there is a file that is no socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match StdStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // It listens, or has a queue that is full, or is not ours to ask.
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// The file of a Unix socket, which this process has made or taken over. It is removed when the
/// last hold on its socket is given up, unless another process goes on with it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
    is_left: AtomicBool,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            identity: FileIdentity::of(&fs::symlink_metadata(path)?),
            path: path.to_owned(),
            is_left: AtomicBool::new(false),
        })
    }

    /// Leaves the file to another process: this one no longer removes it.
    pub fn leave(&self) {
        self.is_left.store(true, Relaxed);
    }
}

/// The facts that tell a file from others, even from a later one with the same inode number.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    /// The nanoseconds within the second of its modification.
    modified_ns: i64,
}

impl FileIdentity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            modified_ns: file.mtime_nsec(),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_it = |file: Metadata| FileIdentity::of(&file) == self.identity;
        if !self.is_left.load(Relaxed) && fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // What cannot be removed is stale, and makes way for the next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket from which an event loop accepts connections.
#[derive(Debug)]
pub enum Accepting {
    /// The socket listens on an IP address.
    Tcp(TcpListener),
    /// The socket listens at a path.
    Unix(UnixListener, Option<Arc<SocketFile>>),
}

impl Accepting {
    /// Registers a socket with the event loop of the calling task.
    ///
    /// # Errors
    ///
    /// The event loop does not take the socket.
    pub fn from_socket(socket: ListeningSocket) -> io::Result<Self> {
        Ok(match socket {
            ListeningSocket::Tcp(socket) => Self::Tcp(TcpListener::from_std(socket)?),
            ListeningSocket::Unix(socket, file) => {
                Self::Unix(UnixListener::from_std(socket)?, file)
            }
        })
    }

    /// Waits for a connection; returns it, and the client's address. If the wait is cancelled,
    /// no connection has been accepted.
    ///
    /// # Errors
    ///
    /// The kernel cannot accept the connection: it has no descriptor for it, for example.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Self::Tcp(socket) => socket.accept().await,
            Self::Unix(socket, _) => {
                let (stream, _) = socket.accept().await?;
                Ok((network::as_stream(stream)?, LOCAL_CLIENT))
            }
        }
    }

    /// Returns a Unix socket's file, if this process owns it.
    pub fn file(&self) -> Option<&Arc<SocketFile>> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, file) => file.as_ref(),
        }
    }
}

impl AsFd for Accepting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket, _) => socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(mode: u32) -> FileRights {
        FileRights {
            mode,
            user: None,
            group: None,
        }
    }

    #[test]
    fn a_file_has_its_owner_before_it_listens_or_there_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        let user = rustix::process::geteuid();
        let other = FileRights {
            group: Some(12_345),
            ..rights(0o660)
        };
        match ListeningSocket::unix(&path, other) {
            Ok(_socket) => assert_eq!(fs::metadata(&path).unwrap().gid(), 12_345),
            Err(error) => {
                assert!(!user.is_root(), "{error}");
                let text = error.to_string();
                assert!(text.contains("cannot be given to group 12345"), "{text}");
                assert!(!path.exists());
            }
        }
        let own = FileRights {
            user: Some(user.as_raw()),
            ..rights(0o640)
        };
        let _socket = ListeningSocket::unix(&path, own).unwrap();
        let file = fs::metadata(&path).unwrap();
        assert_eq!((file.uid(), file.mode() & 0o777), (user.as_raw(), 0o640));
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_file_is_removed_with_the_last_hold_on_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        let socket = ListeningSocket::unix(&path, rights(0o666)).unwrap();
        assert_eq!(mode(&path), 0o666);
        assert_eq!(socket.address().unwrap().path(), Some(path.as_path()));
        let again = ListeningSocket::unix(&path, rights(0o600)).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        let second = socket.try_clone().unwrap();
        drop(socket);
        assert!(StdStream::connect(&path).is_ok());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_makes_way_and_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        // As a process leaves it that was killed.
        drop(StdUnix::bind(&path).unwrap());
        assert!(path.exists());
        let socket = ListeningSocket::unix(&path, rights(0o600)).unwrap();
        assert_eq!(mode(&path), 0o600);
        // Another process goes on with it.
        socket.file().unwrap().leave();
        drop(socket);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        let error = ListeningSocket::unix(&path, rights(0o600)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_another_has_put_in_its_place_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        let socket = ListeningSocket::unix(&path, rights(0o600)).unwrap();
        fs::remove_file(&path).unwrap();
        let other = StdUnix::bind(&path).unwrap();
        drop(socket);
        assert!(StdStream::connect(&path).is_ok());
        drop(other);
    }
}
