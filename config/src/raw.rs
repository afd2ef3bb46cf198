//! The file as it is written: the one definition of its keys, their types,
//! defaults and meaning. The decoder, the JSON Schema and the reference in
//! `docs/configuration.md` are all made from it.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::addresses::{Backend, Cidr, Host, HostHeader, ListenAddress, UrlPath};
use crate::containers::{List, Named, Or, Word};
use crate::decode::{Context, Decode, Field, Found, Of};
use crate::names::{Device, FilePath, Name, Pseudonym};
use crate::record::{choices, record, variants};
use crate::resolved::{HashKey, LogFormat, Qdisc, WaitOrder, WaitScope};
use crate::scalars::{
    Auto, BitRate, Bytes, Count, Factor, Flag, LearntWord, MAX_SIZE, Off, Paper, Time, TwoClass,
    Unlimited,
};
use crate::tree::{Kind, Node};

/// A bound on a number of things in memory.
pub(crate) type Limit = Count<1, 10_000_000>;
/// Bytes of a head; an HTTP/1 parser needs 8 KB to work with.
pub(crate) type HeadBytes = Bytes<8_192, 16_777_216>;
/// A time-out: at least a millisecond.
pub(crate) type Timeout = Time<1>;
/// Bytes of a size class's bound or of ageing: at least one.
pub(crate) type SomeBytes = Bytes<1, MAX_SIZE>;

record! {
    /// Sprat's configuration. Keys that start with `x-` are left to the
    /// operator, for YAML anchors.
    open struct File {
        /// Version of the file's format.
        required version: Count<1, 1>,
        /// Threads and shutdown.
        default("{}") runtime: Runtime,
        /// The admin listener: health, readiness, metrics. Keep it off public
        /// addresses.
        default("{}") admin: Or<Off, Admin>,
        /// Sockets that clients connect to.
        required listeners: List<Listener, 1>,
        /// The scarce link towards the clients, and who gets it first.
        default("{}") uplink: Uplink,
        /// Groups of backends that serve the same things, by name.
        required clusters: Named<Cluster>,
        /// Which requests go where: the first that matches wins. A request
        /// that none matches is answered 404.
        required routes: List<Route, 1>,
        /// One line for each request.
        default("off") access_log: Or<Off, AccessLog>,
        /// What earlier responses taught about sizes.
        default("{}") catalogue: Catalogue,
    }

    /// Threads and shutdown.
    closed struct Runtime {
        /// Worker threads, each with an event loop of its own; `auto` is one
        /// for each CPU that the process may use.
        default("auto") workers: Or<Auto, Count<1, 1024>>,
        /// How long open requests may go on after SIGTERM.
        default("30s") drain_timeout: Time<0>,
    }

    /// The admin listener.
    closed struct Admin {
        /// What to bind.
        default("127.0.0.1:9900") address: ListenAddress,
    }

    /// A socket that clients connect to, and the bounds on what they may do.
    closed struct Listener {
        /// Name in logs and metrics, unique; the address if absent.
        optional name: Name,
        /// What to bind.
        required address: ListenAddress,
        /// Open connections; one over it is closed at once.
        default("16384") max_connections: Limit,
        /// Bytes of a request's head: request line and header fields. A larger
        /// one is answered 431.
        default("64KB") max_request_headers: HeadBytes,
        /// Header fields in a request. One with more is answered 431.
        default("100") max_headers_count: Count<1, 10_000>,
        /// Bytes of a request's body. A larger one is answered 413. Bodies are
        /// streamed, so this costs no memory.
        default("unlimited") max_request_body: Or<Unlimited, Bytes<0, MAX_SIZE>>,
        /// From the first byte of a request (or from the connection's start)
        /// to the end of its head.
        default("10s") request_headers_timeout: Timeout,
        /// How long a kept connection may stand between two requests.
        default("75s") idle_timeout: Timeout,
        /// Without a byte of progress, while a request is open and it is the
        /// client that keeps it waiting.
        default("60s") stream_idle_timeout: Timeout,
        /// What the backend is told about the client.
        default("{}") forwarding: Forwarding,
    }

    /// What the backend is told about the client.
    closed struct Forwarding {
        /// Send `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
        default("true") x_forwarded: Flag,
        /// Send `Forwarded` (RFC 7239).
        default("false") forwarded: Flag,
        /// Clients whose own forwarding headers are kept and added to; those
        /// of any other are replaced.
        default("[]") trusted: List<Cidr, 0>,
        /// The name in the `Via` header that RFC 9110 asks of a proxy; `off`
        /// sends none.
        default("sprat") via: Or<Off, Pseudonym>,
    }

    /// The scarce link towards the clients, and who gets it first.
    closed struct Uplink {
        /// The link's nominal rate, with all headers; `auto` finds it by
        /// watching the queue that builds up; `unlimited` sends everything at
        /// once.
        default("auto") rate: Or<Auto, Or<Unlimited, BitRate>>,
        /// The order in which responses are sent.
        default("srpt") policy: Policy,
        /// Who enforces the order.
        default("pace") engine: Engine,
        /// Responses in progress; a request over it is answered 503.
        default("65536") max_flows: Limit,
        /// Connections and other small things go ahead of responses until
        /// they arrive this many times faster than their moving average; then
        /// they queue like the rest, so that a flood of them starves no one
        /// (TOCS03 2.2.3).
        default("4") guard_factor: Factor,
    }

    /// A policy without parameters.
    closed struct NoParameters {}

    /// Shortest remaining size first, with ageing.
    closed struct SrptAged {
        /// Bytes of advantage for each second of waiting: the larger, the
        /// sooner a large response gets its turn.
        default("10KB") ageing: SomeBytes,
    }

    /// Strict priority between size classes, fair within each.
    closed struct Bands {
        /// Where one class ends and the next begins: the paper's 1KB, 2KB,
        /// 5KB, 20KB, 50KB; two classes split at 1KB; a list of one's own; or
        /// learnt.
        default("paper") cutoffs: Or<Paper, Or<TwoClass, Cutoffs>>,
    }

    /// Cutoffs learnt from the sizes that pass.
    closed struct Learnt {
        /// How many classes.
        required learnt: Count<2, 16>,
    }

    /// `SO_PRIORITY` and the kernel's queueing discipline.
    closed struct Kernel {
        /// What `sprat link` installs.
        default("htb") qdisc: Qdisc,
        /// The network device of the uplink; needed by `sprat link` alone.
        optional device: Device,
    }

    /// A group of backends that serve the same things.
    closed struct Cluster {
        /// The backends.
        required endpoints: List<Endpoint, 1>,
        /// How one is chosen for a request.
        default("least_request") dispatch: Dispatch,
        /// Requests in service at each endpoint; more wait, in the wait
        /// queue's order.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Requests that wait for an endpoint.
        default("{}") wait_queue: WaitQueue,
        /// How long an endpoint that could not be reached, and now can, takes
        /// to get its full share of the requests; `off` gives it at once.
        default("off") slow_start: Or<Off, Timeout>,
        /// An HTML file that browsers get with a 503 of this cluster; read
        /// when Sprat starts, 1 MB at most.
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
        /// Bytes of a response's head. A larger one is answered 502.
        default("64KB") max_response_headers: HeadBytes,
    }

    /// A backend with parameters.
    closed struct WeightedEndpoint {
        /// Where it listens.
        required address: Backend,
        /// Its share of the requests, relative to the others.
        default("1") weight: Count<1, 1000>,
        /// The sizes of the responses that it is for, under `dispatch: sita`;
        /// as the cutoffs have it if absent.
        optional size_range: SizeRange,
        /// For requests of the highest class alone.
        default("false") reserved: Flag,
    }

    /// An interval of sizes.
    closed struct SizeRange {
        /// The smallest.
        default("0B") from: Bytes<0, MAX_SIZE>,
        /// The largest.
        default("unlimited") to: Or<Unlimited, Bytes<0, MAX_SIZE>>,
    }

    /// Requests that wait for an endpoint.
    closed struct WaitQueue {
        /// Who goes first among the waiting requests of one level.
        default("size") order: WaitOrder,
        /// What a request waits for: `cluster` is any endpoint, the first that
        /// is free; `endpoint` is the one chosen when it came. `auto` is
        /// `endpoint` where dispatch binds requests to endpoints (`sita`,
        /// `rpsq`, `ring_hash`, `maglev`), and `cluster` elsewhere.
        default("auto") scope: Or<Auto, WaitScope>,
        /// Requests that wait in each queue; one over it is answered 503,
        /// unless it displaces one of a lower level.
        default("1024") max_requests: Count<0, 10_000_000>,
        /// How long one may wait before it is answered 503.
        default("10s") timeout: Or<Off, Timeout>,
        /// The time over which the queue's length is averaged for early
        /// discard.
        default("500ms") averaging: Time<0>,
    }

    /// The first endpoints are reserved for the highest class.
    closed struct Rpsq {
        /// How many.
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
        /// What is hashed.
        default("url") key: HashKey,
    }

    /// Which requests go where.
    closed struct Route {
        /// What a request must look like; every request if absent.
        default("{}") matches as "match": Match,
        /// Where it goes.
        required cluster: Name,
        /// From the end of the request's head to the end of the response.
        default("off") timeout: Or<Off, Timeout>,
        /// From the end of the request to the response's head.
        default("60s") response_timeout: Timeout,
        /// Without a byte of progress, while a response is open and it is the
        /// backend that keeps it waiting.
        default("60s") idle_timeout: Timeout,
        /// Replaces the matched `prefix` (or `path`).
        optional prefix_rewrite: UrlPath,
        /// Replaces the `Host` that the backend sees.
        optional host_rewrite: HostHeader,
    }

    /// What a request must look like to take a route.
    closed struct Match {
        /// Any of these hosts, without port; `*.example.org` is every name
        /// below `example.org`. Every host if absent.
        optional hosts: List<Host, 1>,
        /// This path alone.
        optional path: UrlPath,
        /// This path and all below it: `/a` matches `/a` and `/a/b`, not
        /// `/ab`.
        optional prefix: UrlPath,
    }

    /// One line for each request.
    closed struct AccessLog {
        /// Where it goes: standard output, or a file that is appended to and
        /// reopened on SIGUSR1.
        default("stdout") path: Or<Stdout, FilePath>,
        /// How a line looks.
        default("json") format: LogFormat,
    }

    /// What earlier responses taught about sizes.
    closed struct Catalogue {
        /// Memory for it; 0 switches it off.
        default("32MB") max_size: Bytes<0, 1_099_511_627_776>,
        /// How long a size is believed.
        default("1h") ttl: Timeout,
    }
}

/// Standard output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stdout;

impl Word for Stdout {
    const WORD: &'static str = "stdout";
}

variants! {
    /// The order in which responses are sent.
    enum Policy: "a policy" {
        /// First come, first served.
        Fcfs(NoParameters) = "fcfs",
        /// Round robin by bytes: what a server without scheduling amounts to.
        Fair(NoParameters) = "fair",
        /// Shortest remaining size first.
        Srpt(NoParameters) = "srpt",
        /// Shortest remaining size first, with ageing, so that no large
        /// response starves.
        SrptAged(SrptAged) = "srpt-aged",
        /// Strict priority between size classes, fair within each (TOCS03).
        Bands(Bands) = "bands",
    }

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
        /// The one with the fewest bytes outstanding for its weight, as far as
        /// sizes are known.
        LeastWork(NoParameters) = "least_work",
        /// By the response's size: an interval of sizes for each endpoint.
        Sita(Sita) = "sita",
        /// The same resource to the same endpoint, by a hash on a ring.
        RingHash(Affinity) = "ring_hash",
        /// The same resource to the same endpoint, by Maglev's table.
        Maglev(Affinity) = "maglev",
    }

    /// Who enforces the order.
    enum Engine: "an engine" {
        /// Sprat decides who writes next. No privileges needed.
        Pace(NoParameters) = "pace",
        /// `SO_PRIORITY` and the kernel's queueing discipline (TOCS03), which
        /// `sprat link` installs. Orders by size class: `srpt` means the
        /// paper's classes.
        Kernel(Kernel) = "kernel",
    }
}

choices! {
    WaitOrder as "WaitOrder": "an order" {
        /// The smallest expected response first.
        "size" => Self::Size,
        /// First come, first served.
        "fcfs" => Self::Fcfs,
        /// The earliest deadline first.
        "edf" => Self::Edf,
        /// The highest value first.
        "value" => Self::Value,
    }

    WaitScope as "WaitScope": "what a request waits for" {
        /// Any endpoint.
        "cluster" => Self::Cluster,
        /// The endpoint chosen when it came.
        "endpoint" => Self::Endpoint,
    }

    HashKey as "HashKey": "what is hashed" {
        /// Host, path and query.
        "url" => Self::Url,
        /// The client's address.
        "client" => Self::Client,
    }

    Qdisc as "Qdisc": "a queueing discipline" {
        /// HTB classes that borrow from each other; needs the uplink's rate.
        "htb" => Self::Htb,
        /// `prio` with 16 bands.
        "prio" => Self::Prio,
    }

    LogFormat as "LogFormat": "a format" {
        /// One JSON object a line.
        "json" => Self::Json,
        /// The combined log format, then size, wait and slowdown.
        "combined" => Self::Combined,
    }
}

/// Cutoffs of one's own, or learnt ones.
#[derive(Clone, Debug)]
pub(crate) enum Cutoffs {
    Fixed(List<SomeBytes, 1>),
    Learnt(Learnt),
}

impl Decode for Cutoffs {
    fn expected() -> Cow<'static, str> {
        "a list of ascending sizes, such as [1KB, 10KB], or {learnt: 6}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut list = generator.subschema_for::<Of<List<SomeBytes, 1>>>();
        list.insert("maxItems".to_owned(), 15.into());
        json_schema!({"anyOf": [list, generator.subschema_for::<Of<Learnt>>()]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Sequence(_) => List::decode(node, cx).map(Self::Fixed),
            Kind::Mapping(_) => Learnt::decode(node, cx).map(Self::Learnt),
            Kind::Scalar(_) => {
                let text = cx.scalar(node, &Self::expected())?;
                cx.mismatch(&text.span, &Self::expected(), &Found::Text(&text.text));
                None
            }
        }
    }
}

/// A backend: its address alone, or with parameters.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Address(Field<Backend>),
    Weighted(WeightedEndpoint),
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
            Kind::Mapping(_) => WeightedEndpoint::decode(node, cx).map(Self::Weighted),
            _ => Some(Self::Address(Field::decode(node, cx))),
        }
    }
}
