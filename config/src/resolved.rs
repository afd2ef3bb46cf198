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
    /// Where the admin listener stands; none if switched off.
    pub admin: Option<Admin>,
    /// The listeners, at least one.
    pub listeners: Vec<Listener>,
    /// The scarce link towards the clients.
    pub uplink: Uplink,
    /// In the order of the file; the actions of routes point into it.
    pub clusters: Vec<Arc<Cluster>>,
    /// The routes, of which the first match wins.
    pub routes: Vec<Route>,
    /// Priority classes, and which requests belong to them.
    pub classes: Classes,
    /// Whom to turn away when there is too much to do.
    pub admission: Admission,
    /// The access logs; none if switched off.
    pub access_log: Vec<AccessLog>,
    /// The traces that requests have; none if switched off.
    pub tracing: Option<Tracing>,
    /// What is known of sizes before a response begins.
    pub catalogue: Catalogue,
    /// The authority that issues certificates; none if switched off.
    pub acme: Option<Acme>,
    /// What to stop doing as memory runs short; none if switched off.
    pub overload_manager: Option<OverloadManager>,
    /// What buffered bodies may take together.
    pub buffer: BufferTotals,
    /// What the file says, for who wants to see it.
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
    /// How long open requests may go on after SIGTERM.
    pub drain_timeout: Duration,
    /// How often to look whether the file has changed; none: never.
    pub reload_interval: Option<Duration>,
}

/// The admin listener and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Loopback unless the operator says otherwise.
    pub address: ListenAddress,
    /// Who may connect, where that is a Unix socket: its file's permissions.
    pub mode: u32,
    /// Whose that file is.
    pub owner: SocketOwner,
    /// What a request may call it, beside `localhost` and IP addresses.
    pub hosts: Vec<HostPattern>,
    /// The token that it wants for what is not for everyone.
    pub token_file: Option<FileAt>,
}

/// A socket that clients connect to, and the bounds on what they may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Unique among the listeners; its address when not named.
    pub name: String,
    /// The address that the listener binds.
    pub address: ListenAddress,
    /// Who may connect, where that is a Unix socket: its file's permissions.
    pub mode: u32,
    /// Whose that file is.
    pub owner: SocketOwner,
    /// Open connections; one over it is closed at once.
    pub max_connections: usize,
    /// Bytes of a request's head (request line and header section).
    pub max_header_bytes: usize,
    /// Header fields in a request.
    pub max_header_fields: usize,
    /// Bytes of a request's body; `None` is without bound (it is streamed).
    pub max_body_bytes: Option<u64>,
    /// From the first byte (or the accept) to the end of the head.
    pub header_timeout: Duration,
    /// Between two requests on a kept connection.
    pub idle_timeout: Duration,
    /// Without a byte of progress in either direction while a request is open
    /// and the client is the one that keeps it waiting.
    pub stream_idle_timeout: Duration,
    /// Whether a client that closes its sending side has gone, whatever it waits
    /// for.
    pub abort_on_close: bool,
    /// Connections that have switched to another protocol; one over it is
    /// answered 503.
    pub max_tunnels: usize,
    /// Bytes that the kernel may hold unsent for a connection
    /// (`TCP_NOTSENT_LOWAT`).
    pub max_unsent_bytes: u32,
    /// What its clients may take.
    pub limits: ListenerLimits,
    /// The forwarding headers that requests get.
    pub forwarding: Forwarding,
    /// How requests get identifiers; none if they get none.
    pub request_id: Option<RequestId>,
    /// What is made of paths before rules are matched.
    pub paths: PathRules,
    /// What is done about fields with an underscore in their name.
    pub underscores: HeadersWithUnderscores,
    /// None if it is switched off.
    pub http2: Option<Http2>,
    /// None for plain text.
    pub tls: Option<ListenerTls>,
    /// None if connections are their clients' own.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// What is done about fields with an underscore in their name, which some backends take for
/// a hyphen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadersWithUnderscores {
    /// Such requests pass as they are.
    #[default]
    Allow,
    /// The request is refused.
    RejectRequest,
    /// The fields are dropped, and the request passes.
    DropHeader,
}

/// What is said to the backend about the client (RFC 7239).
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarding {
    /// Send `X-Forwarded-For`, `-Proto`, `-Host`.
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
    /// How fast to send.
    pub rate: Rate,
    /// Whether a fixed rate gives way to a slower link that is found.
    pub adapt: bool,
    /// Whom to serve first.
    pub policy: Discipline,
    /// Who enforces the order.
    pub engine: Engine,
    /// Responses in progress; one over it is answered 503.
    pub max_flows: usize,
    /// Arrivals on the fast path above this multiple of their moving average
    /// drop to the ordinary order (TOCS03 2.2.3).
    pub guard_factor: f64,
    /// The percent of the link for what has gone longest without being served.
    pub floor_percent: u8,
    /// Whether it is worked out what `fair` would have given the same responses.
    pub counterfactual: bool,
    /// How many networks of clients have sums of their own in it; 0 if none is told apart.
    pub counterfactual_networks: usize,
    /// How those are told apart who share the link evenly; `None` if responses are
    /// ordered without regard to whose they are.
    pub share: Option<ClientBy>,
    /// Which code points responses bear; `None` if they bear none.
    pub marking: Option<Marking>,
    /// With whom the rate is divided; `None` if the link is this instance's alone.
    pub shared: Option<SharedUplink>,
}

/// A link that several instances send on.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedUplink {
    /// The store's place: `redis://` or `unix://`.
    pub url: String,
    /// The key that stands for the link.
    pub key: String,
    /// How long an instance is believed to live that the store does not hear of.
    pub lease: Duration,
    /// Instances to divide among until the store has told of them.
    pub instances: usize,
}

/// How fast to send, counted on the wire with all headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A rate in bits per second.
    Fixed(u64),
    /// Found by watching the queue that builds up.
    Auto,
    /// No pacing: everything at once.
    Unlimited,
}

/// Who enforces the order.
#[derive(Clone, Debug, PartialEq)]
pub enum Engine {
    /// Sprat decides who writes next. No privileges.
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
    /// How the endpoints' names are resolved.
    pub dns: Dns,
    /// How an endpoint is chosen.
    pub dispatch: Dispatch,
    /// What is hashed, if `dispatch` goes by affinity.
    pub hash_key: HashKey,
    /// How requests stay with an endpoint; none if they do not.
    pub stateful_session: Option<StatefulSession>,
    /// Requests in service at each endpoint; `usize::MAX` is without bound.
    pub max_requests: usize,
    /// How much of responses is read ahead of their clients; `None` is nothing.
    pub read_ahead: Option<ReadAhead>,
    /// Those that wait for an endpoint.
    pub wait_queue: WaitQueue,
    /// How long an endpoint that has come back takes to get its full share.
    pub slow_start: Duration,
    /// When endpoints are used, and how many requests it takes.
    pub resilience: Resilience,
    /// An HTML file for browsers that are answered 503.
    pub overload_page: Option<FileAt>,
    /// To open a connection to an endpoint.
    pub connect_timeout: Duration,
    /// Connections to each endpoint, over all workers; a request over it is
    /// answered 503.
    pub max_connections: usize,
    /// The file that has the endpoints, in place of `endpoints`, which is empty then.
    pub endpoints_file: Option<EndpointsFile>,
    /// How long a request waits for an endpoint where none can be reached; none: not at all.
    pub wait_for_endpoint: Option<Duration>,
    /// Idle connections kept to each endpoint, over all workers.
    pub max_idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Bytes of a response's head.
    pub max_header_bytes: usize,
    /// None for plain text.
    pub tls: Option<ClusterTls>,
    /// Connections begin with a header of this version.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Speak HTTP/2 with the endpoints.
    pub http2: Option<UpstreamHttp2>,
}

/// How much of responses is held for clients that take them slowly.
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
    /// How often to look whether it has changed.
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
    /// For requests of the highest class alone.
    pub reserved: bool,
    /// 0 is served by first; others as far as those before have failed.
    pub priority: u8,
}

/// What the hash of a request is made of, for dispatch by affinity.
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
    /// Who goes first among those of one level.
    pub order: WaitOrder,
    /// What a request waits for.
    pub scope: WaitScope,
    /// The most requests in each queue.
    pub max_requests: usize,
    /// How long one may wait; `None` is without bound.
    pub timeout: Option<Duration>,
}
