//! Clusters as they are written: endpoints, dispatch, wait queues.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{
    CircuitBreakers, ClusterTls, Dns, HeadBytes, HealthChecks, Limit, NoParameters,
    OutlierDetection, Percent, SomeBytes, StatefulSession, Timeout, UpstreamHttp2,
};
use crate::addresses::Backend;
use crate::containers::{List, Or};
use crate::decode::{Context, Decode, Field, Of};
use crate::names::FilePath;
use crate::record::{choices, record, variants};
use crate::resolved::{HashKey, ProxyVersion, WaitOrder, WaitScope};
use crate::scalars::{Auto, Bytes, Count, Flag, LearntWord, MAX_SIZE, Off, Unlimited};
use crate::tree::{Kind, Node};

record! {
    /// A group of backends that serve the same things.
    closed struct Cluster {
        /// The backends. This, or `endpoints_file`.
        optional endpoints: List<Endpoint, 1>,
        /// A file with the backends: a list as under `endpoints`, in YAML or JSON, or an
        /// address in each line. A change of it takes effect by itself.
        optional endpoints_file: EndpointsFileAt,
        /// How the endpoints' names are resolved, and when that is done again.
        default("{}") dns: Dns,
        /// How one is chosen for a request.
        default("least_request") dispatch: Dispatch,
        /// Later requests of a client go to the endpoint that had its first, as
        /// long as that is well.
        default("off") stateful_session: Or<Off, StatefulSession>,
        /// Requests in service at each endpoint; more wait, in the wait
        /// queue's order.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Responses are read ahead of clients that take them slowly, so that the
        /// place at the endpoint is free for others; where places are bounded.
        default("{}") read_ahead: Or<Off, ReadAhead>,
        /// Requests that wait for an endpoint.
        default("{}") wait_queue: WaitQueue,
        /// How long a request waits for an endpoint where none can be reached, before it is
        /// answered 502 or 503: so that an endpoint may be started anew. As many wait as
        /// the wait queue may have.
        default("off") wait_for_endpoint: Or<Off, Timeout>,
        /// Endpoints whose answers are bad get no requests for a while.
        default("off") outlier_detection: Or<Off, OutlierDetection>,
        /// Endpoints are asked whether they are well; one that is not gets no
        /// requests.
        default("off") health_checks: Or<Off, HealthChecks>,
        /// If fewer endpoints than this share, in percent, are well, all are
        /// used: those that are left would be overrun.
        default("50") healthy_panic_threshold: Percent,
        /// Bounds on the cluster as a whole.
        default("{}") circuit_breakers: CircuitBreakers,
        /// How long an endpoint that is used again takes to get its full share
        /// of the requests, after it could not be reached or was not well;
        /// `off` gives it at once.
        default("off") slow_start: Or<Off, Timeout>,
        /// An HTML file that browsers get with a 503 of this cluster; read
        /// when Sprat starts and at each reload, 1 MB at most.
        optional overload_page: FilePath,
        /// To open a connection to an endpoint.
        default("5s") connect_timeout: Timeout,
        /// Connections to each endpoint; a request over it is answered 503.
        default("1024") max_connections: Limit,
        /// Idle connections kept to each endpoint, at most `max_connections`.
        default("256") max_idle_connections: Count<0, 10_000_000>,
        /// How long an idle connection is kept. Keep it below the backend's
        /// own.
        default("60s") idle_timeout: Timeout,
        /// Bytes of a response's head. A larger one is answered 502, and so is
        /// one of more than 100 fields.
        default("64KB") max_response_headers: HeadBytes,
        /// Speak TLS with the backends.
        default("off") tls: Or<Off, ClusterTls>,
        /// Tell the backends by the PROXY protocol whose connection each is. A
        /// kept one then serves the requests of one client's connection alone.
        default("off") proxy_protocol: Or<Off, ProxyVersion>,
        /// Speak HTTP/2 with the endpoints, with prior knowledge or chosen in
        /// the TLS handshake; `{}` with the defaults.
        default("off") http2: Or<Off, UpstreamHttp2>,
    }

    /// A file with backends.
    closed struct EndpointsFile {
        /// Where the file stands.
        required path: FilePath,
        /// How often to look whether it has changed.
        default("1s") interval: Timeout,
    }

    /// A backend with parameters.
    closed struct WeightedEndpoint {
        /// Where the endpoint listens.
        required address: Backend,
        /// The endpoint's share of the requests, relative to the others.
        default("1") weight: Count<1, 1000>,
        /// The sizes of the responses that it is for, under `dispatch: sita`;
        /// as the cutoffs have it if absent.
        optional size_range: SizeRange,
        /// For requests of the highest class alone.
        default("false") reserved: Flag,
        /// 0 is served by first, and 1 as far as those of 0 have failed: it stands
        /// by. Each takes up to 1.4 times its even share for others of its priority.
        default("0") priority: Count<0, 127>,
    }

    /// An interval of sizes.
    closed struct SizeRange {
        /// The smallest response of the interval.
        default("0B") from: Bytes<0, MAX_SIZE>,
        /// The largest response of the interval.
        default("unlimited") to: Or<Unlimited, Bytes<0, MAX_SIZE>>,
    }

    /// How much of responses is held for clients that take them slowly.
    closed struct ReadAhead {
        /// Bytes of each response.
        default("256KB") per_response: SomeBytes,
        /// Bytes of all of them.
        default("64MB") total: SomeBytes,
    }

    /// Requests that wait for an endpoint.
    closed struct WaitQueue {
        /// Who goes first among the waiting requests of one level.
        default("size") order: WaitOrder,
        /// What a request waits for: `cluster` is any endpoint, the first that
        /// is free; `endpoint` is the one chosen when it came. `auto` is
        /// `endpoint` where dispatch binds requests to endpoints (`sita`,
        /// `rpsq`, `ring_hash`, `maglev`) or `stateful_session` does, and
        /// `cluster` elsewhere.
        default("auto") scope: Or<Auto, WaitScope>,
        /// Requests that wait in each queue; one over it is answered 503.
        default("1024") max_requests: Count<0, 10_000_000>,
        /// How long one may wait before it is answered 503.
        default("10s") timeout: Or<Off, Timeout>,
    }

    /// The first endpoints are reserved for the highest class.
    closed struct Rpsq {
        /// How many endpoints are reserved.
        default("1") reserved: Count<1, 1000>,
    }

    /// An interval of sizes for each endpoint.
    closed struct Sita {
        /// Where one endpoint's interval ends and the next one's begins, one
        /// fewer than there are endpoints; or learnt, so that each gets the
        /// same load.
        default("learnt") cutoffs: Or<LearntWord, List<SomeBytes, 1>>,
    }

    /// The same resource to the same endpoint.
    closed struct Affinity {
        /// What of a request is hashed.
        default("url") key: HashKey,
    }
}

variants! {
    /// How an endpoint is chosen.
    enum Dispatch: "how to choose an endpoint" {
        /// In turn, by weight.
        RoundRobin(NoParameters) = "round_robin",
        /// At random, by weight.
        Random(NoParameters) = "random",
        /// The less loaded of two drawn at random.
        P2c(NoParameters) = "p2c",
        /// The one with the fewest requests outstanding for its weight.
        LeastRequest(NoParameters) = "least_request",
        /// The one with the fewest requests of this one's class level or a
        /// higher one (SDIS02).
        Psqf(NoParameters) = "psqf",
        /// As `psqf`, with endpoints reserved for the highest class (SDIS02).
        Rpsq(Rpsq) = "rpsq",
        /// The one with the least work before this request for its weight, as
        /// far as sizes are known: all bytes outstanding, or where it is seen to
        /// share its capacity, of each response at most as much as this one has.
        LeastWork(NoParameters) = "least_work",
        /// By the response's size: an interval of sizes for each endpoint.
        /// Learnt ones are let go of while all endpoints are seen to share
        /// their capacity.
        Sita(Sita) = "sita",
        /// The same resource to the same endpoint, by a hash on a ring.
        RingHash(Affinity) = "ring_hash",
        /// The same resource to the same endpoint, by Maglev's table.
        Maglev(Affinity) = "maglev",
    }
}

choices! {
    WaitOrder as "WaitOrder": "an order" {
        /// The smallest expected response first.
        "size" => Self::Size,
        /// First come, first served.
        "fcfs" => Self::Fcfs,
        /// The earliest `soft_deadline` first, or `deadline` where the class
        /// has none.
        "edf" => Self::Edf,
        /// The highest value over deadline first; values fall as deadlines
        /// pass (VRD).
        "vrd" => Self::Vrd,
        /// The highest value first.
        "value" => Self::Value,
    }

    WaitScope as "WaitScope": "what a request waits for" {
        /// Any endpoint of the cluster.
        "cluster" => Self::Cluster,
        /// The endpoint chosen when it came.
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
