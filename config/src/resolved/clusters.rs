//! Clusters after every check: their endpoints, and which of them a request goes to.

use std::time::Duration;

pub use sprat_scheduler::dispatch::Dispatch;
pub use sprat_scheduler::station::{Measured, Order as WaitOrder, Scope as WaitScope, SrqOrder};

use super::{
    ClusterTls, Dns, EndpointAddress, FileAt, ProxyVersion, Resilience, StatefulSession,
    UpstreamHttp2,
};

/// A group of endpoints that serve the same things.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The name, which no other cluster has.
    pub name: String,
    /// The endpoints, at least one; none if `endpoints_file` has them.
    pub endpoints: Vec<Endpoint>,
    /// The resolution of the endpoints' names.
    pub dns: Dns,
    /// The rule by which an endpoint is chosen.
    pub dispatch: Dispatch,
    /// The part of a request that is hashed, if `dispatch` goes by a hash.
    pub hash_key: HashKey,
    /// The sessions that bind requests to an endpoint; none if requests are not bound.
    pub stateful_session: Option<StatefulSession>,
    /// The most requests in service at each endpoint; `usize::MAX` is without bound.
    pub max_requests: usize,
    /// The most bytes of responses that are read ahead of their clients; `None` if none are.
    pub read_ahead: Option<ReadAhead>,
    /// The order and the bounds of requests that wait for an endpoint.
    pub wait_queue: WaitQueue,
    /// The time in which an endpoint that has come back gets its full share.
    pub slow_start: Duration,
    /// The rules by which endpoints go out of use, and the bounds on the cluster as a whole.
    pub resilience: Resilience,
    /// The HTML file for browsers whose requests are answered 503.
    pub overload_page: Option<FileAt>,
    /// The longest time that opening a connection to an endpoint may take.
    pub connect_timeout: Duration,
    /// The most connections to each endpoint, over all workers; a request over it is answered 503.
    pub max_connections: usize,
    /// The file that has the endpoints; `endpoints` is then empty.
    pub endpoints_file: Option<EndpointsFile>,
    /// The time that a request waits while no endpoint can be reached; none if it does not wait.
    pub wait_for_endpoint: Option<Duration>,
    /// The most idle connections that are kept to each endpoint, over all workers.
    pub max_idle_connections: usize,
    /// The time for which an idle connection is kept.
    pub idle_timeout: Duration,
    /// The most bytes of a response's head.
    pub max_response_headers: usize,
    /// The TLS that Sprat speaks with the endpoints; none for plain text.
    pub tls: Option<ClusterTls>,
    /// The version of the PROXY protocol's header at the beginning of each connection; none if
    /// there is no header.
    pub proxy_protocol: Option<ProxyVersion>,
    /// The bounds of HTTP/2 with the endpoints; none if it is off.
    pub http2: Option<UpstreamHttp2>,
}

/// The bounds on bytes of responses that are held for clients that take them slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// The most bytes of each response.
    pub per_response: usize,
    /// The most bytes of all responses of the cluster, over all workers.
    pub total: usize,
}

/// A file that has a cluster's endpoints.
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
    /// The sizes in bytes, from and to (inclusive), that the endpoint is for.
    pub size_range: Option<(u64, u64)>,
    /// Whether the endpoint is for requests of the highest class alone.
    pub reserved: bool,
    /// The priority: endpoints of 0 are used first, those of a higher number as far as lower ones
    /// fail.
    pub priority: u8,
}

/// The part of a request that a dispatch by hash goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// The host, the path and the query of the request.
    Url,
    /// The IP address of the client.
    Client,
}

/// The order and the bounds of requests that wait for an endpoint.
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
