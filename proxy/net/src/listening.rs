//! Sockets that clients connect to: on an IP address, or with a path.
//!
//! A connection over a Unix socket is handed on as a stream like any other: what is read
//! and written is the same, and what only TCP has is an error that callers expect.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdTcp};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener as StdUnix, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use sprat_config::resolved::ListenAddress;
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::network;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// The address of those who connect over a Unix socket: they are on this machine.
pub const LOCAL_CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A socket that listens.
#[derive(Debug)]
pub enum ListeningSocket {
    /// On an IP address.
    Tcp(StdTcp),
    /// At a path. The file is removed with the last hold on it, if it is ours.
    Unix(StdUnix, Option<Arc<SocketFile>>),
}

impl ListeningSocket {
    /// Opens a Unix socket that those may connect to whom `mode` lets use its file. A file
    /// that no process listens at any more makes way.
    ///
    /// # Errors
    ///
    /// The path cannot be had.
    pub fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let descriptor: OwnedFd = socket.into();
        // The file begins with the socket's own permissions, less the umask: nobody gets
        // in before those that are wanted are set.
        let descriptor = File::from(descriptor);
        descriptor.set_permissions(Permissions::from_mode(mode))?;
        let socket = Socket::from(OwnedFd::from(descriptor));
        socket.bind(&SockAddr::unix(path)?)?;
        let file = SocketFile::of(path)?;
        set_mode(path, mode)?;
        socket.listen(BACKLOG)?;
        let listener = StdUnix::from(OwnedFd::from(socket));
        Ok(Self::Unix(listener, Some(Arc::new(file))))
    }

    /// Takes a socket that another process has opened.
    ///
    /// # Errors
    ///
    /// It does not listen, or is of another kind.
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

    /// Returns where it stands.
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

    /// Returns a second hold on it.
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

    /// Returns the file of a Unix socket, if it is ours.
    pub fn file(&self) -> Option<&Arc<SocketFile>> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, file) => file.as_ref(),
        }
    }

    /// Takes the file of a Unix socket for this process's, which removes it at the end.
    /// Holds on one socket have one `file`.
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

/// Gives a socket's file these permissions.
///
/// # Errors
///
/// It is not there, or belongs to another user.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Removes a socket's file at which no process listens.
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

/// The file of a Unix socket that this process has made. It is removed when the last
/// hold on its socket is given up, unless another process goes on with it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64, i64),
    is_left: AtomicBool,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            identity: identity(&fs::symlink_metadata(path)?),
            path: path.to_owned(),
            is_left: AtomicBool::new(false),
        })
    }

    /// Leaves the file to another process.
    pub fn leave(&self) {
        self.is_left.store(true, Relaxed);
    }
}

/// Which file it is, even if one after it has the same number.
fn identity(file: &Metadata) -> (u64, u64, i64) {
    (file.dev(), file.ino(), file.mtime_nsec())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_it = |file: Metadata| identity(&file) == self.identity;
        if !self.is_left.load(Relaxed) && fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // What cannot be removed is stale, and makes way for the next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket that connections are accepted from in an event loop.
#[derive(Debug)]
pub enum Accepting {
    /// Listens on an IP address.
    Tcp(TcpListener),
    /// Listens at a path.
    Unix(UnixListener, Option<Arc<SocketFile>>),
}

impl Accepting {
    /// Has the event loop of the calling task look at a socket.
    ///
    /// # Errors
    ///
    /// It does not take it.
    pub fn from_socket(socket: ListeningSocket) -> io::Result<Self> {
        Ok(match socket {
            ListeningSocket::Tcp(socket) => Self::Tcp(TcpListener::from_std(socket)?),
            ListeningSocket::Unix(socket, file) => {
                Self::Unix(UnixListener::from_std(socket)?, file)
            }
        })
    }

    /// Waits for a connection; returns it, and the client's address. Cancelled, it has
    /// accepted none.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor for it, say.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Self::Tcp(socket) => socket.accept().await,
            Self::Unix(socket, _) => {
                let (stream, _) = socket.accept().await?;
                Ok((network::as_stream(stream)?, LOCAL_CLIENT))
            }
        }
    }

    /// Returns the file of a Unix socket, if it is ours.
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

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_file_is_removed_with_the_last_hold_on_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        let socket = ListeningSocket::unix(&path, 0o666).unwrap();
        assert_eq!(mode(&path), 0o666);
        assert_eq!(socket.address().unwrap().path(), Some(path.as_path()));
        let again = ListeningSocket::unix(&path, 0o600).unwrap_err();
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
        let socket = ListeningSocket::unix(&path, 0o600).unwrap();
        assert_eq!(mode(&path), 0o600);
        // Another process goes on with it.
        socket.file().unwrap().leave();
        drop(socket);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        let error = ListeningSocket::unix(&path, 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_another_has_put_in_its_place_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        let socket = ListeningSocket::unix(&path, 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        let other = StdUnix::bind(&path).unwrap();
        drop(socket);
        assert!(StdStream::connect(&path).is_ok());
        drop(other);
    }
}
