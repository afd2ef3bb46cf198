//! Clusters as they are written: endpoints, dispatch, wait queues.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{
    CircuitBreakers, ClusterTls, Dns, HeadBytes, HealthChecks, Limit, NoParameters,
    OutlierDetection, Percent, SomeBytes, SrqOrder, StatefulSession, Timeout, UpstreamHttp2,
};
use crate::addresses::Backend;
use crate::containers::{List, Or};
use crate::decode::{Context, Decode, Field, Of};
use crate::names::FilePath;
use crate::record::{choices, record, variants};
use crate::resolved::{HashKey, ProxyVersion, WaitScope};
use crate::scalars::{Bytes, Count, Flag, MAX_SIZE};
use crate::tree::{Kind, Node};
use crate::words::{Auto, LearntWord, Off, Unlimited};

record! {
    /// A group of backends that serve the same content.
    closed struct Cluster {
        /// The backends of the cluster. A cluster has either `endpoints` or `endpoints_file`.
        optional endpoints: List<Endpoint, 1>,
        /// A file with the backends: a list as under `endpoints`, in YAML or JSON, or one address
        /// per line. If the file changes, Sprat uses the new list without a reload.
        optional endpoints_file: EndpointsFileAt,
        /// How and when Sprat resolves the endpoints' names.
        default("{}") dns: Dns,
        /// How Sprat chooses an endpoint for a request.
        default("least_request") dispatch: Dispatch,
        /// Sticky sessions: a client's later requests go to the endpoint that got its first one, as
        /// long as that endpoint is healthy.
        default("off") stateful_session: Or<Off, StatefulSession>,
        /// Requests in service at each endpoint. Requests over it wait in the `wait_queue`.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Read responses ahead of slow clients, so that the place at the endpoint is free for
        /// other requests. Takes effect where a bound such as `max_requests` limits the requests in
        /// service.
        default("{}") read_ahead: Or<Off, ReadAhead>,
        /// Order of and bounds on requests that wait for an endpoint.
        default("{}") wait_queue: WaitQueue,
        /// How long a request waits while no endpoint can be reached, for example while a backend
        /// restarts. After that it is answered 502 or 503. As many requests wait as the
        /// `wait_queue` allows.
        default("off") wait_for_endpoint: Or<Off, Timeout>,
        /// Eject endpoints with bad answers: they get no requests for a while.
        default("off") outlier_detection: Or<Off, OutlierDetection>,
        /// Check whether endpoints are healthy. An unhealthy one gets no requests.
        default("off") health_checks: Or<Off, HealthChecks>,
        /// Percentage of healthy endpoints below which Sprat uses all endpoints, since the few
        /// healthy ones would be overloaded.
        default("50") healthy_panic_threshold: Percent,
        /// Bounds on the cluster as a whole.
        default("{}") circuit_breakers: CircuitBreakers,
        /// Time in which an endpoint's share of the requests grows from a tenth to the full one,
        /// after the endpoint was unreachable, unhealthy, ejected or drained, or was added while
        /// Sprat runs. `off` gives it the full share at once.
        default("off") slow_start: Or<Off, Timeout>,
        /// HTML file that browsers get with a 503 of this cluster, 1 MB at most. Sprat reads it at
        /// the start and at each reload.
        optional overload_page: FilePath,
        /// Time to open a connection to an endpoint.
        default("5s") connect_timeout: Timeout,
        /// Connections to each endpoint. A request that would need one more is tried at another
        /// endpoint, or answered 503.
        default("1024") max_connections: Limit,
        /// Idle connections kept to each endpoint, at most `max_connections`.
        default("256") max_idle_connections: Count<0, 10_000_000>,
        /// How long an idle connection is kept. Set it below the backend's own timeout for idle
        /// connections.
        default("60s") idle_timeout: Timeout,
        /// Bytes of a response's head. If the head is larger, or has more than 100 fields, the
        /// request is answered 502.
        default("64KB") max_response_headers: HeadBytes,
        /// Speak TLS with the backends.
        default("off") tls: Or<Off, ClusterTls>,
        /// Tell the backends the client of each connection by the PROXY protocol. A kept connection
        /// then serves requests of one client connection only.
        default("off") proxy_protocol: Or<Off, ProxyVersion>,
        /// Speak HTTP/2 with the endpoints, with prior knowledge or chosen in the TLS handshake.
        /// `{}` takes the defaults.
        default("off") http2: Or<Off, UpstreamHttp2>,
    }

    /// A file with backends.
    closed struct EndpointsFile {
        /// Path of the file.
        required path: FilePath,
        /// How often Sprat checks whether the file has changed.
        default("1s") interval: Timeout,
    }

    /// A backend with parameters.
    closed struct WeightedEndpoint {
        /// Address that the endpoint listens on.
        required address: Backend,
        /// The endpoint's share of the requests, relative to the others.
        default("1") weight: Count<1, 1000>,
        /// Sizes of the responses that the endpoint serves under `dispatch: sita`. If absent,
        /// `cutoffs` decides.
        optional size_range: SizeRange,
        /// Use the endpoint only for requests of the highest class.
        default("false") reserved: Flag,
        /// Endpoints of priority 0 serve first. Those of 1 stand by, as backups: they get requests
        /// as far as endpoints of 0 have failed, and so on. An endpoint takes up to 1.4 times its
        /// even share in place of failed ones of its priority.
        default("0") priority: Count<0, 127>,
    }

    /// An interval of sizes.
    closed struct SizeRange {
        /// The smallest response of the interval.
        default("0B") from: Bytes<0, MAX_SIZE>,
        /// The largest response of the interval.
        default("unlimited") to: Or<Unlimited, Bytes<0, MAX_SIZE>>,
    }

    /// Bounds on the memory for responses that Sprat reads ahead of slow clients.
    closed struct ReadAhead {
        /// Bytes of each response.
        default("256KB") per_response: SomeBytes,
        /// Bytes of all responses of the cluster together.
        default("64MB") total: SomeBytes,
    }

    /// Order of and bounds on requests that wait for an endpoint.
    closed struct WaitQueue {
        /// Which of the waiting requests of one class level goes first.
        default("size") order: WaitOrder,
        /// Endpoint that a request waits for: with `cluster` the first one that is free, with
        /// `endpoint` the one that was chosen when the request came. `auto` is `endpoint` where
        /// dispatch binds requests to endpoints (`sita`, `rpsq`, `ring_hash`, `maglev`) or
        /// `stateful_session` does, and `cluster` elsewhere.
        default("auto") scope: Or<Auto, WaitScope>,
        /// Requests that wait in each queue; one over it is answered 503.
        default("1024") max_requests: Count<0, 10_000_000>,
        /// How long a request may wait before it is answered 503.
        default("10s") timeout: Or<Off, Timeout>,
    }

    /// The first endpoints of the cluster are reserved for the highest class.
    closed struct Rpsq {
        /// How many endpoints are reserved.
        default("1") reserved: Count<1, 1000>,
    }

    /// An interval of sizes for each endpoint.
    closed struct Sita {
        /// Sizes at which one endpoint's interval ends and the next one's begins, one fewer than
        /// there are endpoints. `learnt` finds them, so that each endpoint gets the same load.
        default("learnt") cutoffs: Or<LearntWord, List<SomeBytes, 1>>,
    }

    /// Requests with the same `key` go to the same endpoint.
    closed struct Affinity {
        /// Part of a request that is hashed.
        default("url") key: HashKey,
    }
}

variants! {
    /// How an endpoint is chosen.
    enum Dispatch: "how to choose an endpoint" {
        /// Each endpoint in turn, by weight.
        RoundRobin(NoParameters) = "round_robin",
        /// An endpoint at random, by weight.
        Random(NoParameters) = "random",
        /// The less loaded of two endpoints drawn at random.
        P2c(NoParameters) = "p2c",
        /// The endpoint with the fewest outstanding requests, relative to its weight.
        LeastRequest(NoParameters) = "least_request",
        /// The endpoint with the fewest outstanding requests of the same or a higher class level
        /// (SDIS02).
        Psqf(NoParameters) = "psqf",
        /// Like `psqf`, with endpoints reserved for the highest class (SDIS02).
        Rpsq(Rpsq) = "rpsq",
        /// The endpoint with the least work before the new request, relative to its weight, as far
        /// as sizes are known. Work is all outstanding bytes. If Sprat sees that the endpoint
        /// shares its capacity among its requests, each response counts for at most the new one's
        /// size.
        LeastWork(NoParameters) = "least_work",
        /// By the size of the response: each endpoint has an interval of sizes. While Sprat sees
        /// all endpoints share their capacity, it does not use learnt intervals.
        Sita(Sita) = "sita",
        /// The same endpoint for requests with the same `key`, by a hash on a ring.
        RingHash(Affinity) = "ring_hash",
        /// The same endpoint for requests with the same `key`, by Maglev's table.
        Maglev(Affinity) = "maglev",
    }

    /// Which of the waiting requests of one class level goes first.
    enum WaitOrder: "an order" {
        /// The smallest expected response first.
        Size(NoParameters) = "size",
        /// First come, first served.
        Fcfs(NoParameters) = "fcfs",
        /// The earliest `soft_deadline` first. If a class has none, its `deadline` counts.
        Edf(NoParameters) = "edf",
        /// The highest ratio of value to deadline first. Values fall as deadlines pass (VRD).
        Vrd(NoParameters) = "vrd",
        /// The highest value first.
        Value(NoParameters) = "value",
        /// Requests that are in service for long let others start beside them (SRQ06); what waits
        /// goes by deadline and value. For endpoints that share their capacity among requests,
        /// such as those with threads.
        Srq(Box<SrqOrder>) = "srq",
    }
}

choices! {
    WaitScope as "WaitScope": "what a request waits for" {
        /// Any endpoint of the cluster.
        "cluster" => Self::Cluster,
        /// The endpoint that was chosen when the request came.
        "endpoint" => Self::Endpoint,
    }

    HashKey as "HashKey": "what is hashed" {
        /// Host, path and query.
        "url" => Self::Url,
        /// The address that the client's connection comes from.
        "client" => Self::Client,
    }
}

/// A backend: its address alone, or with parameters.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Address(Field<Backend>),
    Weighted(Box<WeightedEndpoint>),
}

impl Decode for Endpoint {
    fn expected() -> Cow<'static, str> {
        "a host and a port, such as 127.0.0.1:8000, or {address, weight}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            generator.subschema_for::<Of<Backend>>(),
            generator.subschema_for::<Of<WeightedEndpoint>>(),
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Mapping(_) => WeightedEndpoint::decode(node, cx)
                .map(Box::new)
                .map(Self::Weighted),
            _ => Some(Self::Address(Field::decode(node, cx))),
        }
    }
}

/// A file with backends: its path alone, or with parameters.
#[derive(Clone, Debug)]
pub(crate) enum EndpointsFileAt {
    Path(Field<FilePath>),
    Full(Box<EndpointsFile>),
}

impl Decode for EndpointsFileAt {
    fn expected() -> Cow<'static, str> {
        "a file's path, or {path, interval}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            generator.subschema_for::<Of<FilePath>>(),
            generator.subschema_for::<Of<EndpointsFile>>(),
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Mapping(_) => EndpointsFile::decode(node, cx)
                .map(Box::new)
                .map(Self::Full),
            _ => Some(Self::Path(Field::decode(node, cx))),
        }
    }
}
