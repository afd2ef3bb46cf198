//! The network that a worker connects over: the kernel's, unless a simulation
//! has put another in its place for the thread.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;

/// What a connection to an address comes to.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Opens a connection in a simulation.
pub(crate) type Connect = dyn Fn(SocketAddr) -> Connecting + Send + Sync;

thread_local! {
    /// The network of a simulation; none is the kernel's.
    static SIMULATED: RefCell<Option<Arc<Connect>>> = const { RefCell::new(None) };
}

/// While it lives, this thread's connections are made by a simulation.
pub struct Simulated(());

/// Has this thread's connections made by `connect`.
pub fn simulate(connect: Arc<Connect>) -> Simulated {
    SIMULATED.set(Some(connect));
    Simulated(())
}

impl Drop for Simulated {
    fn drop(&mut self) {
        SIMULATED.set(None);
    }
}

/// Whether neither the network nor time is the kernel's.
pub fn is_simulated() -> bool {
    SIMULATED.with_borrow(Option::is_some)
}

/// Connects to an address.
///
/// # Errors
///
/// As the kernel, or the simulation, says.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    match SIMULATED.with_borrow(Clone::clone) {
        None => TcpStream::connect(address).await,
        Some(simulated) => simulated(address).await,
    }
}

/// What is written goes at once, whatever is on its way already.
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
