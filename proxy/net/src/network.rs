//! The network that a worker connects over: the kernel's, unless a simulation
//! has put another in its place for the thread.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

/// The wait between two attempts at a Unix socket whose queue is full.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The future of a connection to an address.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// A function by which a simulation opens a connection.
pub(crate) type Connect = dyn Fn(SocketAddr) -> Connecting + Send + Sync;

thread_local! {
    /// The network of a simulation; `None` for the kernel's.
    static SIMULATED: RefCell<Option<Arc<Connect>>> = const { RefCell::new(None) };
}

/// A guard: while it lives, this thread's connections are made by a simulation.
pub struct Simulated(());

/// Lets `connect` make this thread's connections while the returned guard lives.
pub fn simulate(connect: Arc<Connect>) -> Simulated {
    SIMULATED.set(Some(connect));
    Simulated(())
}

impl Drop for Simulated {
    fn drop(&mut self) {
        SIMULATED.set(None);
    }
}

/// Returns whether this thread runs in a simulation, where neither the network nor time is the
/// kernel's.
pub fn is_simulated() -> bool {
    SIMULATED.with_borrow(Option::is_some)
}

/// Connects to an address, over the kernel's network or a simulation's.
///
/// # Errors
///
/// The connection cannot be made, as the kernel or the simulation says.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    match SIMULATED.with_borrow(Clone::clone) {
        None => TcpStream::connect(address).await,
        Some(simulated) => simulated(address).await,
    }
}

/// Connects to a Unix socket. One whose queue of connections is full is tried again until
/// the caller gives up: the kernel refuses at once, where TCP would wait.
///
/// # Errors
///
/// As the kernel says: the file is not there, or may not be used, or no process listens.
pub async fn connect_unix(path: &Path) -> io::Result<TcpStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(AGAIN_AFTER).await,
            connected => return as_stream(connected?),
        }
    }
}

/// Returns a connection over a Unix socket as one that is read and written like TCP's. Calls
/// that only TCP has return an error: addresses, options, `TCP_INFO`.
///
/// # Errors
///
/// The event loop does not take it.
pub fn as_stream(stream: UnixStream) -> io::Result<TcpStream> {
    let descriptor = OwnedFd::from(stream.into_std()?);
    TcpStream::from_std(StdStream::from(descriptor))
}

/// Asks the kernel to send what is written at once, even while earlier data is not acknowledged.
///
/// # Errors
///
/// The connection has ended.
pub fn set_nodelay(stream: &TcpStream) -> io::Result<()> {
    match is_simulated() {
        // What carries a simulated connection may not be TCP.
        true => Ok(()),
        false => stream.set_nodelay(true),
    }
}
