//! The configuration after every check: no optional field is left that has a
//! default, no string that should be a number, no name that points nowhere.

mod access;
mod access_log;
mod acme;
mod actions;
mod buffer;
mod catalogue;
mod classes;
mod compressor;
mod conditions;
mod dns;
mod filter;
mod health;
mod http2;
mod limits;
mod marking;
mod network;
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
pub use sprat_scheduler::dispatch::Dispatch;
pub use sprat_scheduler::station::{Order as WaitOrder, Scope as WaitScope};

pub use classes::*;
pub use compressor::*;
pub use conditions::*;
pub use dns::*;
pub use filter::*;
pub use health::*;
pub use http2::*;
pub use limits::*;
pub use marking::*;
pub use network::*;
pub use proxy_protocol::*;
pub use routes::*;
pub use sessions::*;
pub use sockets::*;
pub use tls::*;
pub use tracing::*;

/// A whole configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The number of threads, and the shutdown.
    pub runtime: Runtime,
    /// The admin listener; none if it is switched off.
    pub admin: Option<Admin>,
    /// The listeners, at least one.
    pub listeners: Vec<Listener>,
    /// The scarce link towards the clients.
    pub uplink: Uplink,
    /// The clusters in the order of the file, which the actions of routes share.
    pub clusters: Vec<Arc<Cluster>>,
    /// The routes, of which the first match wins.
    pub routes: Vec<Route>,
    /// Priority classes, and which requests belong to them.
    pub classes: Classes,
    /// The rules by which requests are turned away when there is too much to do.
    pub admission: Admission,
    /// The access logs; none if switched off.
    pub access_log: Vec<AccessLog>,
    /// The traces that requests have; none if switched off.
    pub tracing: Option<Tracing>,
    /// The sources that tell a response's size before the response begins.
    pub catalogue: Catalogue,
    /// The authority that issues certificates; none if switched off.
    pub acme: Option<Acme>,
    /// The bounds on the process's memory; none if switched off.
    pub overload_manager: Option<OverloadManager>,
    /// The bounds that all buffered bodies share.
    pub buffer: BufferTotals,
    /// The file's keys and values as the operator is shown them, without secrets.
    pub shown: Shown,
}

impl Config {
    /// Returns a copy. Its code is in this crate alone; that of `clone` would be in each that
    /// calls it, some 30 KB.
    #[inline(never)]
    pub fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// The number of threads, and the shutdown.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// Worker threads, each with its own event loop; at least 1.
    pub workers: usize,
    /// The longest time that open requests go on after SIGTERM.
    pub drain_timeout: Duration,
    /// The interval at which the file is checked for changes; none if it is not checked.
    pub reload_interval: Option<Duration>,
}

/// The admin listener and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// The address that it binds: loopback unless the operator says otherwise.
    pub address: ListenAddress,
    /// The permissions of a Unix socket's file, which say which users may connect.
    pub mode: u32,
    /// The user and the group that own a Unix socket's file.
    pub owner: SocketOwner,
    /// The names that a request may call it by, beside `localhost` and IP addresses.
    pub hosts: Vec<HostPattern>,
    /// The file with the token that requests need for what is not open to all.
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
    /// Open connections; one over it is closed at once.
    pub max_connections: usize,
    /// Bytes of a request's head (request line and header section).
    pub max_header_bytes: usize,
    /// Header fields in a request.
    pub max_header_fields: usize,
    /// Bytes of a request's body; `None` is without bound (it is streamed).
    pub max_body_bytes: Option<u64>,
    /// The time from the first byte (or the accept) to the end of the head.
    pub header_timeout: Duration,
    /// The time between two requests on a kept connection.
    pub idle_timeout: Duration,
    /// The time without a byte of progress in either direction, while a request is open and the
    /// client is the one that keeps it waiting.
    pub stream_idle_timeout: Duration,
    /// Whether a client that closes its sending side is taken to have gone, whatever it waits for.
    pub abort_on_close: bool,
    /// Connections that have switched to another protocol; one over it is
    /// answered 503.
    pub max_tunnels: usize,
    /// Bytes that the kernel may hold unsent for a connection
    /// (`TCP_NOTSENT_LOWAT`).
    pub max_unsent_bytes: u32,
    /// The bounds on what the listener's clients may take.
    pub limits: ListenerLimits,
    /// The forwarding headers that requests get.
    pub forwarding: Forwarding,
    /// The rule by which requests get identifiers; none if they get none.
    pub request_id: Option<RequestId>,
    /// The rules that bring paths into normal form before routes and classes are matched.
    pub paths: PathRules,
    /// The treatment of fields with an underscore in their name.
    pub underscores: HeadersWithUnderscores,
    /// The bounds of HTTP/2 with clients; none if it is switched off.
    pub http2: Option<Http2>,
    /// The TLS that is spoken with clients; none for plain text.
    pub tls: Option<ListenerTls>,
    /// The PROXY protocol of load balancers in front; none if connections are their clients' own.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// The treatment of fields with an underscore in their name, where some backends see a hyphen.
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

/// The fields that tell the backend about the client (RFC 7239).
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarding {
    /// Whether `X-Forwarded-For`, `-Proto` and `-Host` are sent.
    pub x_forwarded: bool,
    /// Whether `Forwarded` (RFC 7239) is sent.
    pub forwarded: bool,
    /// Clients whose own forwarding headers are kept and appended to; those of
    /// any other are replaced.
    pub trusted: Vec<Network>,
    /// The pseudonym in `Via` (RFC 9110 7.6.3); `None` sends no `Via`.
    pub via: Option<String>,
}

/// The scarce link towards the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Uplink {
    /// The rate to send at.
    pub rate: Rate,
    /// Whether a fixed rate gives way to a slower link that is found.
    pub adapt: bool,
    /// The order in which responses are sent.
    pub policy: Discipline,
    /// The engine that enforces the order.
    pub engine: Engine,
    /// Responses in progress; one over it is answered 503.
    pub max_flows: usize,
    /// Arrivals on the fast path above this multiple of their moving average
    /// drop to the ordinary order (TOCS03 2.2.3).
    pub guard_factor: f64,
    /// The percent of the link for the response that has gone longest without being served.
    pub floor_percent: u8,
    /// Whether the uplink works out what `fair` would have given the same responses.
    pub counterfactual: bool,
    /// The number of client networks whose gain over `fair` is told apart; 0 for none.
    pub counterfactual_networks: usize,
    /// The key by which clients share the link evenly; `None` if responses are ordered without
    /// regard to whose they are.
    pub share: Option<ClientBy>,
    /// The code points that responses bear; `None` if they bear none.
    pub marking: Option<Marking>,
    /// The link's other instances, which share its rate; `None` if the link is this one's alone.
    pub shared: Option<SharedUplink>,
}

/// A link that several instances send on.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedUplink {
    /// The store's place: `redis://` or `unix://`.
    pub url: String,
    /// The key that stands for the link.
    pub key: String,
    /// The time for which an instance that the store does not hear of is believed to live.
    pub lease: Duration,
    /// The number of instances to divide among until the store has told of them.
    pub instances: usize,
}

/// The rate to send at, counted on the wire with all headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A rate in bits per second.
    Fixed(u64),
    /// A rate that is found by watching the queue that builds up.
    Auto,
    /// An unlimited rate: everything is sent at once, without pacing.
    Unlimited,
}

/// The engine that enforces the order.
#[derive(Clone, Debug, PartialEq)]
pub enum Engine {
    /// Sprat decides which response is written next, and needs no privileges for it.
    Pace,
    /// `SO_PRIORITY` and the kernel's queueing discipline (TOCS03).
    Kernel(KernelEngine),
}

/// The kernel engine's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelEngine {
    /// The queueing discipline that `sprat link` installs.
    pub qdisc: Qdisc,
    /// The network device; needed by `sprat link` only.
    pub device: Option<String>,
}

/// A queueing discipline with strict priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// HTB classes with `prio` and borrowing; needs the uplink's rate.
    Htb,
    /// `prio` with 16 bands.
    Prio,
}

/// A group of endpoints that serve the same things.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The name, which no other cluster has.
    pub name: String,
    /// The endpoints, at least one.
    pub endpoints: Vec<Endpoint>,
    /// The resolution of the endpoints' names.
    pub dns: Dns,
    /// The rule by which an endpoint is chosen.
    pub dispatch: Dispatch,
    /// The part of a request that is hashed, if `dispatch` goes by affinity.
    pub hash_key: HashKey,
    /// The sessions that bind requests to an endpoint; none if requests are not bound.
    pub stateful_session: Option<StatefulSession>,
    /// Requests in service at each endpoint; `usize::MAX` is without bound.
    pub max_requests: usize,
    /// The bytes of responses that are read ahead of their clients; `None` if none are.
    pub read_ahead: Option<ReadAhead>,
    /// The order and the bounds of requests that wait for an endpoint.
    pub wait_queue: WaitQueue,
    /// The time in which an endpoint that has come back gets its full share.
    pub slow_start: Duration,
    /// The rules by which endpoints go out of use, and the bounds on the cluster as a whole.
    pub resilience: Resilience,
    /// An HTML file for browsers that are answered 503.
    pub overload_page: Option<FileAt>,
    /// The longest time that opening a connection to an endpoint may take.
    pub connect_timeout: Duration,
    /// Connections to each endpoint, over all workers; a request over it is
    /// answered 503.
    pub max_connections: usize,
    /// The file that has the endpoints, in place of `endpoints`, which is empty then.
    pub endpoints_file: Option<EndpointsFile>,
    /// The time that a request waits while no endpoint can be reached; none if it does not wait.
    pub wait_for_endpoint: Option<Duration>,
    /// Idle connections kept to each endpoint, over all workers.
    pub max_idle_connections: usize,
    /// The time that an idle connection is kept.
    pub idle_timeout: Duration,
    /// Bytes of a response's head.
    pub max_header_bytes: usize,
    /// The TLS that is spoken with the endpoints; none for plain text.
    pub tls: Option<ClusterTls>,
    /// The version of the PROXY protocol whose header begins connections; none if there is none.
    pub proxy_protocol: Option<ProxyVersion>,
    /// The bounds of HTTP/2 with the endpoints; none if it is switched off.
    pub http2: Option<UpstreamHttp2>,
}

/// The bytes of responses that are held for clients that take them slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Bytes of each response.
    pub per_response: usize,
    /// Bytes of all responses of the cluster, over all workers.
    pub total: usize,
}

/// A file that a cluster's endpoints stand in.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointsFile {
    /// The path of the file, and where the configuration names it.
    pub at: FileAt,
    /// The interval at which the file is checked for changes.
    pub interval: Duration,
}

/// One backend of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// The address that the backend listens at.
    pub address: EndpointAddress,
    /// The endpoint's share, relative to the others; at least 1.
    pub weight: u32,
    /// The sizes in bytes, from and to (inclusive), that it is for.
    pub size_range: Option<(u64, u64)>,
    /// Whether the endpoint is for requests of the highest class alone.
    pub reserved: bool,
    /// The priority: 0 is used first, and each other one as far as those before it have failed.
    pub priority: u8,
}

/// The part of a request that is hashed, for dispatch by affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// Host, path and query.
    Url,
    /// The IP address of the client.
    Client,
}

/// Requests that wait for an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitQueue {
    /// The order of waiting requests of one level.
    pub order: WaitOrder,
    /// The endpoints that a request waits for: any of the cluster, or the one chosen for it.
    pub scope: WaitScope,
    /// The most requests in each queue.
    pub max_requests: usize,
    /// The longest wait of a request; `None` is without bound.
    pub timeout: Option<Duration>,
}
