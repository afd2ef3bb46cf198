//! The configuration after every check: no optional field is left that has a default, no string
//! that should be a number, no name that stands for nothing.

mod access;
mod access_log;
mod acme;
mod actions;
mod buffer;
mod catalogue;
mod classes;
mod clusters;
mod compressor;
mod conditions;
mod dns;
mod filter;
mod health;
mod http2;
mod limits;
mod marking;
mod network;
mod patterns;
mod proxy_protocol;
mod routes;
mod sessions;
mod sockets;
mod tls;
mod tracing;

use std::sync::Arc;
use std::time::Duration;

use sprat_scheduler::Discipline;

use crate::shown::Shown;

pub use crate::paths::{EscapedSlashes, PathRules};
pub use access::*;
pub(crate) use access_log::FACILITIES;
pub use access_log::*;
pub use acme::*;
pub use actions::*;
pub use buffer::*;
pub use catalogue::*;
pub use classes::*;
pub use clusters::*;
pub use compressor::*;
pub use conditions::*;
pub use dns::*;
pub use filter::*;
pub use health::*;
pub use http2::*;
pub use limits::*;
pub use marking::*;
pub use network::*;
pub use patterns::*;
pub use proxy_protocol::*;
pub use routes::*;
pub use sessions::*;
pub use sockets::*;
pub use tls::*;
pub use tracing::*;

/// A whole configuration, after every check.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The settings of the process: the number of threads, and the shutdown.
    pub runtime: Runtime,
    /// The admin listener; none if it is off.
    pub admin: Option<Admin>,
    /// The listeners, at least one.
    pub listeners: Vec<Listener>,
    /// The scarce link towards the clients.
    pub uplink: Uplink,
    /// The clusters in the order of the file, which the actions of routes share.
    pub clusters: Vec<Arc<Cluster>>,
    /// The routes in the order of the file; the first that matches a request takes it.
    pub routes: Vec<Route>,
    /// The priority classes, and the rules that give requests a class.
    pub classes: Classes,
    /// The rules by which admission turns requests away under overload.
    pub admission: Admission,
    /// The access logs; none if they are off.
    pub access_log: Vec<AccessLog>,
    /// The tracing of requests; none if it is off.
    pub tracing: Option<Tracing>,
    /// The sources that tell a response's size before the response begins.
    pub catalogue: Catalogue,
    /// The authority that issues certificates; none if it is off.
    pub acme: Option<Acme>,
    /// The bounds on the process's memory; none if they are off.
    pub overload_manager: Option<OverloadManager>,
    /// The bounds on what all buffered bodies take together.
    pub buffer: BufferTotals,
    /// The file's keys and values as Sprat shows them to the operator, without secrets.
    pub shown: Shown,
}

impl Config {
    /// Returns a copy of the configuration. The code of this function is in this crate alone; that
    /// of `clone` would be in each crate that calls it, some 30 KB.
    #[inline(never)]
    pub fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// The settings of the process: the number of threads, and the shutdown.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// The number of worker threads, each with its own event loop; at least 1.
    pub workers: usize,
    /// The longest time that open requests go on after SIGTERM.
    pub drain_timeout: Duration,
    /// The interval at which the file is checked for changes; none if it is never checked.
    pub reload_interval: Option<Duration>,
}

/// The admin listener and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// The address that the admin listener binds: loopback unless the operator says otherwise.
    pub address: ListenAddress,
    /// The permissions of a Unix socket's file, which say which users may connect.
    pub mode: u32,
    /// The user and the group that own a Unix socket's file.
    pub owner: SocketOwner,
    /// The names by which a request may address the admin listener, beside `localhost` and IP
    /// addresses.
    pub hosts: Vec<HostPattern>,
    /// The file with the token that a request needs for a page that is not open to all.
    pub token_file: Option<FileAt>,
}

/// A socket that clients connect to, and the bounds on what they may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The name, unique among the listeners; the address if none is given.
    pub name: String,
    /// The address that the listener binds.
    pub address: ListenAddress,
    /// The permissions of a Unix socket's file, which say which users may connect.
    pub mode: u32,
    /// The user and the group that own a Unix socket's file.
    pub owner: SocketOwner,
    /// The most open connections; one over it is closed at once.
    pub max_connections: usize,
    /// The most bytes of a request's head (request line and header section).
    pub max_request_headers: usize,
    /// The most header fields of a request.
    pub max_headers_count: usize,
    /// The most bytes of a request's body; `None` is without bound (it is streamed).
    pub max_request_body: Option<u64>,
    /// The time from the first byte (or the accept) to the end of the head.
    pub request_headers_timeout: Duration,
    /// The time between two requests on a kept connection.
    pub idle_timeout: Duration,
    /// The longest time without a byte of progress in either direction, while a request is open and
    /// its client keeps it waiting.
    pub stream_idle_timeout: Duration,
    /// Whether a client that closes its sending side is taken to have gone, even if it waits for a
    /// response.
    pub abort_on_close: bool,
    /// The most connections that have switched to another protocol; a request over it is answered
    /// 503.
    pub max_tunnels: usize,
    /// The most bytes that the kernel may hold unsent for a connection (`TCP_NOTSENT_LOWAT`).
    pub max_unsent_bytes: u32,
    /// The bounds on what the listener's clients may take.
    pub limits: ListenerLimits,
    /// The fields that tell backends about the client of a request.
    pub forwarding: Forwarding,
    /// The settings of requests' identifiers; none if requests get none.
    pub request_id: Option<RequestId>,
    /// The rules that bring paths into normal form before routes and classes are matched.
    pub paths: PathRules,
    /// The treatment of header fields with an underscore in their name.
    pub headers_with_underscores: HeadersWithUnderscores,
    /// The bounds of HTTP/2 with clients; none if it is off.
    pub http2: Option<Http2>,
    /// The TLS that Sprat speaks with clients; none for plain text.
    pub tls: Option<ListenerTls>,
    /// The PROXY protocol of load balancers in front; none if clients connect themselves.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// The treatment of header fields with an underscore in their name, which some backends read as a
/// hyphen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadersWithUnderscores {
    /// The request passes as it is.
    #[default]
    Allow,
    /// The request is refused.
    RejectRequest,
    /// The fields are dropped, and the request passes.
    DropHeader,
}

/// The fields that tell backends about the client of a request (RFC 7239).
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarding {
    /// Whether `X-Forwarded-For`, `-Proto` and `-Host` are sent.
    pub x_forwarded: bool,
    /// Whether `Forwarded` (RFC 7239) is sent.
    pub forwarded: bool,
    /// The clients whose own forwarding headers are kept and appended to; those of other clients
    /// are replaced.
    pub trusted: Vec<Network>,
    /// The pseudonym in `Via` (RFC 9110 7.6.3); `None` sends no `Via`.
    pub via: Option<String>,
}

/// The scarce link towards the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Uplink {
    /// The rate to send at.
    pub rate: Rate,
    /// Whether the uplink gives up a fixed rate if it finds that the link is slower.
    pub adapt: bool,
    /// The order in which responses are sent.
    pub policy: Discipline,
    /// The engine that enforces the order.
    pub engine: Engine,
    /// The most responses in progress; a request over it is answered 503.
    pub max_flows: usize,
    /// The multiple of the moving average of arrivals on the express lane, above which the guard
    /// has them take turns with the rest (TOCS03 2.2.3).
    pub guard_factor: f64,
    /// The part of the link for the response that has waited longest, in percent.
    pub floor_percent: u8,
    /// Whether the uplink calculates how long the same responses would have taken under `fair`.
    pub counterfactual: bool,
    /// The number of client networks that have their own figures of the gain over `fair`; 0 for
    /// none.
    pub counterfactual_networks: usize,
    /// The key by which clients share the link evenly; `None` if responses are ordered without
    /// regard to their clients.
    pub share: Option<ClientBy>,
    /// The code points of responses' packets; `None` if packets are not marked.
    pub marking: Option<Marking>,
    /// The settings of a link whose rate several instances share; `None` if the link is this
    /// instance's alone.
    pub shared: Option<SharedUplink>,
}

/// The settings of a link that several instances send on.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedUplink {
    /// The URL of the store that all instances reach: `redis://` or `unix://`.
    pub url: String,
    /// The key in the store that stands for the link.
    pub key: String,
    /// The time after which an instance that has not reported to the store is taken to be gone.
    pub lease: Duration,
    /// The number of instances to divide the rate among, until the store has told of them.
    pub instances: usize,
}

/// The rate at which the uplink sends, counted on the wire with all headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A rate in bits per second.
    Fixed(u64),
    /// A rate that Sprat finds by watching the queue that builds up.
    Auto,
    /// An unlimited rate: everything is sent at once, without pacing.
    Unlimited,
}

/// The engine that enforces the order of responses.
#[derive(Clone, Debug, PartialEq)]
pub enum Engine {
    /// The engine in which Sprat decides which response is written next; it needs no privileges.
    Pace,
    /// The engine that sets `SO_PRIORITY` for the kernel's queueing discipline (TOCS03).
    Kernel(KernelEngine),
}

/// The kernel engine's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelEngine {
    /// The queueing discipline that `sprat link` installs.
    pub qdisc: Qdisc,
    /// The network device; only `sprat link` needs it.
    pub device: Option<String>,
}

/// A queueing discipline with strict priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// The discipline `htb`: classes with `prio` and borrowing. It needs the uplink's rate.
    Htb,
    /// The discipline `prio` with 16 bands.
    Prio,
}
