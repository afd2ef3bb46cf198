//! The file as it is written: the one definition of its keys, their types,
//! defaults and meaning. The decoder, the JSON Schema and the reference in
//! `docs/configuration.md` are all made from it.

mod access;
mod access_log;
mod acme;
mod bounds;
mod buffer;
mod catalogue;
mod classes;
mod clusters;
mod compressor;
mod dns;
mod filter;
mod health;
mod http2;
mod limits;
mod marking;
mod proxy_protocol;
mod routes;
mod sessions;
mod shared_uplink;
mod srq;
mod tls;
mod tracing;

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::actions::EditedName;
use crate::addresses::{Cidr, FileMode, Host, ListenAt, UnixAccount, UrlPath};
use crate::containers::{ByName, List, Or, Seldom};
use crate::decode::{Context, Decode, Field, Found, Of};
use crate::names::{Device, FilePath, Name, Pseudonym};
use crate::numbers::{Factor, FloorPercent};
use crate::paths::EscapedSlashes;
use crate::record::{choices, record, variants};
use crate::resolved::{HeadersWithUnderscores, Qdisc};
use crate::scalars::{BitRate, Bytes, Count, Flag, MAX_SIZE, Time};
use crate::tree::{Kind, Node};
use crate::words::{Auto, NoShare, Off, Paper, TwoClass, Unlimited};

pub(crate) use access::*;
pub(crate) use access_log::*;
pub(crate) use acme::*;
pub(crate) use bounds::*;
pub(crate) use buffer::*;
pub(crate) use catalogue::*;
pub(crate) use classes::*;
pub(crate) use clusters::*;
pub(crate) use compressor::*;
pub(crate) use dns::*;
pub(crate) use filter::*;
pub(crate) use health::*;
pub(crate) use http2::*;
pub(crate) use limits::*;
pub(crate) use marking::*;
pub(crate) use proxy_protocol::*;
pub(crate) use routes::*;
pub(crate) use sessions::*;
pub(crate) use shared_uplink::*;
pub(crate) use srq::*;
pub(crate) use tls::*;
pub(crate) use tracing::*;

record! {
    /// Sprat's configuration. Keys that start with `x-` are ignored: use them for YAML anchors.
    open struct File {
        /// Version of the file's format.
        required version: Count<1, 1>,
        /// Other files that are part of the configuration. Paths are relative to this file's
        /// directory, and `*` in a name stands for any text. Lists and names of all files are
        /// put together, those of included files first. Any other key may be in one file only.
        optional include: List<FilePath, 1>,
        /// Worker threads, shutdown and automatic reload of the process.
        default("{}") runtime: Runtime,
        /// The admin listener: health, readiness, metrics. Keep it off public
        /// addresses.
        default("{}") admin: Or<Off, AdminAt>,
        /// Sockets that clients connect to.
        required listeners: List<Listener, 1>,
        /// The scarce link towards the clients, and the order in which responses get it.
        default("{}") uplink: Uplink,
        /// Groups of backends that serve the same things, by name.
        required clusters: ByName<Cluster>,
        /// Which requests go where. The first route that matches wins; a request that no route
        /// matches is answered 404.
        required routes: List<Route, 1>,
        /// Answer 503 to every request, whatever it asks for, except from the clients in
        /// `exempt`. A route may have its own setting.
        default("off") maintenance: Or<Off, Seldom<Maintenance>>,
        /// Compress responses for clients that accept compression. A route may have its own
        /// setting.
        default("off") compressor: Or<Off, Seldom<Compressor>>,
        /// Buffer request and response bodies, so that no backend waits for a slow client.
        default("{}") buffer: Buffer,
        /// Priority classes, by name. Two classes exist even if you do not define them:
        /// `default`, for requests that no rule matches, and `background`, at the lowest level,
        /// for prefetches.
        optional classes: ByName<Class>,
        /// Which requests belong to which class. The first rule that matches wins. If no rule
        /// matches, a request with `Sec-Purpose: prefetch` (or `Purpose: prefetch`) is
        /// `background`.
        optional class_rules: List<ClassRule, 1>,
        /// Which requests Sprat refuses under overload.
        default("{}") admission: Admission,
        /// One line for each request, in one log or several.
        default("off") access_log: Or<Off, AccessLogs>,
        /// Distributed traces of requests: W3C Trace Context, and spans by OTLP.
        default("off") tracing: Or<Off, Tracing>,
        /// Sources that tell the size of a response before it begins.
        default("{}") catalogue: Catalogue,
        /// The authority that issues, by ACME, those certificates of the listeners that are not
        /// in files.
        default("off") acme: Or<Off, Acme>,
        /// What Sprat refuses or cuts when memory runs short.
        default("off") overload_manager: Or<Off, OverloadManager>,
    }

    /// Worker threads, shutdown and automatic reload of the process.
    closed struct Runtime {
        /// Worker threads, each with an event loop of its own; `auto` is one
        /// for each CPU that the process may use.
        default("auto") workers: Or<Auto, Count<1, 1024>>,
        /// How long open requests may go on after SIGTERM. Then Sprat cuts them.
        default("30s") drain_timeout: Time<0>,
        /// How often Sprat checks whether the configuration's files have changed. If they have,
        /// or if it refused them before, it loads the configuration again. With `off`, it does
        /// so on SIGHUP only.
        default("off") reload_interval: Or<Off, Timeout>,
    }

    /// The admin listener: dashboard, metrics, and changes at run time.
    closed struct Admin {
        /// The address to bind: an IP address with a port, or a Unix socket.
        default("127.0.0.1:9900") address: ListenAt,
        /// Permissions of the socket's file, in octal, if `address` is a Unix socket. They
        /// decide which users may connect. "0600" if absent.
        optional mode: FileMode,
        /// The owner of the socket's file, if `address` is a Unix socket: a name in
        /// `/etc/passwd` or a number. If absent, the user that Sprat runs as. To give the file
        /// another owner, Sprat needs root or CAP_CHOWN.
        optional owner: UnixAccount,
        /// The group of the socket's file, if `address` is a Unix socket: a name in
        /// `/etc/group` or a number. If absent, the kernel sets it: the group of Sprat's
        /// process, or of the directory if that has the set-group-ID bit. For a group that
        /// Sprat's user is not in, Sprat needs root or CAP_CHOWN.
        optional group: UnixAccount,
        /// Names that a request to the admin listener may have as its `Host`, without port,
        /// besides `localhost` and every IP address. `*.example.org` is every name below
        /// `example.org`. Any other name is answered 421, because a web page could make its own
        /// name lead here (DNS rebinding).
        default("[]") hosts: List<Host, 0>,
        /// A file with a token: one line of 16 to 1024 characters. Requests for `/flows`,
        /// `/events`, `/config` and `/config.yaml`, and every change, then need
        /// `Authorization: Bearer TOKEN`.
        /// Without a token, every client that reaches the address may read, and changes are
        /// accepted only on a loopback address or a Unix socket.
        optional token_file: FilePath,
    }

    /// A socket that clients connect to, and the bounds on what they may do.
    closed struct Listener {
        /// Name in logs and metrics, unique; the address if absent.
        optional name: Name,
        /// The address to bind: an IP address with a port, or a Unix socket.
        required address: ListenAt,
        /// Permissions of the socket's file, in octal, if `address` is a Unix socket. They
        /// decide which users may connect. "0660" if absent.
        optional mode: FileMode,
        /// The owner of the socket's file, if `address` is a Unix socket: a name in
        /// `/etc/passwd` or a number. If absent, the user that Sprat runs as. To give the file
        /// another owner, Sprat needs root or CAP_CHOWN.
        optional owner: UnixAccount,
        /// The group of the socket's file, if `address` is a Unix socket: a name in
        /// `/etc/group` or a number. If absent, the kernel sets it: the group of Sprat's
        /// process, or of the directory if that has the set-group-ID bit. For a group that
        /// Sprat's user is not in, Sprat needs root or CAP_CHOWN.
        optional group: UnixAccount,
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
        /// Longest time from the first byte of a request (or from the connection's start) to
        /// the end of its head. Then the request is answered 408; a connection without a byte
        /// of a request is closed.
        default("10s") request_headers_timeout: Timeout,
        /// How long a kept connection may be idle between two requests. Then Sprat closes it.
        default("75s") idle_timeout: Timeout,
        /// Longest time without a byte of progress while a request is open and Sprat waits for
        /// the client. Then the request is answered 408, or its response is cut.
        default("60s") stream_idle_timeout: Timeout,
        /// With `true`, a client that closes its sending side while it waits for a response is
        /// taken to have gone, and Sprat drops its request. With `false`, Sprat answers it; the
        /// client has gone when its connection is reset.
        default("false") abort_on_close: Flag,
        /// Connections that have switched to another protocol (WebSocket). A request to switch
        /// one more is answered 503.
        default("4096") max_tunnels: Limit,
        /// Bytes that the kernel may hold for a connection without sending them
        /// (`TCP_NOTSENT_LOWAT`); it may hold a little more. This bounds what a client that
        /// reads slowly costs in the kernel's memory. Sprat can no longer change the order of
        /// these bytes, so the uplink sets less where it needs to (1 byte under
        /// `engine: kernel`).
        default("128KB") tcp_notsent_lowat: Or<Unlimited, Bytes<4_096, 1_073_741_824>>,
        /// Requests in progress, of all clients together; one over it is answered 503.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Bounds on each client.
        default("{}") per_client: PerClient,
        /// The lowest rates at which a client must send or read while Sprat waits for it.
        default("{}") min_rates: Or<Off, MinRates>,
        /// How many requests each client may send over time, over all routes together.
        default("off") rate_limit: Or<Off, Seldom<RateLimit>>,
        /// Put paths in the normal form of RFC 3986 6.2.2, match rules with that form, and
        /// forward it. Characters that need no encoding are decoded, other encodings are
        /// written in capitals, and dot segments are resolved. A path that leads above the root
        /// is answered 400.
        default("true") normalize_path: Flag,
        /// Merge several slashes in a row into one, before dot segments are resolved.
        default("true") merge_slashes: Flag,
        /// What to do with an encoded slash or backslash in a path (`%2F`, `%5C`). Some
        /// backends take it for a slash that separates segments.
        default("keep_unchanged") path_with_escaped_slashes_action: EscapedSlashes,
        /// What to do with header fields that have an underscore in their name. Backends that
        /// follow CGI's rules (WSGI, Rack, PHP) take it for a hyphen. Whatever you choose,
        /// Sprat drops fields that could be taken for framing or for the connection's own
        /// (`Transfer_Encoding`, `Content_Length`, `Keep_Alive`, `Proxy_Connection`), and drops
        /// `Proxy`.
        default("allow") headers_with_underscores_action: HeadersWithUnderscores,
        /// Forwarding headers: what Sprat tells the backend about the client.
        default("{}") forwarding: Forwarding,
        /// Give each request an identifier. Sprat sends it to the backend and writes it to the
        /// access log.
        default("{}") request_id: Or<Off, RequestId>,
        /// Speak HTTP/2 with clients that begin with its preface, or that choose `h2` in the
        /// TLS handshake.
        default("{}") http2: Or<Off, Http2>,
        /// Whether clients speak TLS, and with which certificates.
        default("off") tls: Or<Off, ListenerTls>,
        /// Read the client's address from the PROXY protocol header that a load balancer in
        /// front sends.
        default("off") proxy_protocol: Or<Off, ProxyProtocol>,
    }

    /// Forwarding headers: what Sprat tells the backend about the client.
    closed struct Forwarding {
        /// Send `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
        default("true") x_forwarded: Flag,
        /// Send `Forwarded` (RFC 7239).
        default("false") forwarded: Flag,
        /// Addresses of clients whose own forwarding headers are kept and added to. From any
        /// other client, Sprat removes them before it adds its own: `Forwarded`, every
        /// `X-Forwarded-*`, and `X-Real-IP`, also if they are written with underscores for
        /// hyphens.
        default("[]") trusted: List<Cidr, 0>,
        /// The name in the `Via` header that Sprat adds to requests to backends; `off` adds
        /// none. nginx and other servers do not compress responses to requests with `Via`,
        /// because these come through a proxy, unless they are told to (`gzip_proxied`).
        default("off") via: Or<Off, Pseudonym>,
    }

    /// The identifier that each request gets.
    closed struct RequestId {
        /// The header field with the identifier, in requests and in responses.
        default("x-request-id") header: EditedName,
        /// Keep the identifier that the client sends, if it is 1 to 128 letters, digits and
        /// `-._~+/=:@`. Otherwise Sprat makes one. With `false`, it makes one for every
        /// request.
        default("true") preserve_external: Flag,
        /// Send the identifier to the client, too, in the response.
        default("false") in_response: Flag,
    }

    /// The scarce link towards the clients, and the order in which responses get it.
    closed struct Uplink {
        /// The link's nominal rate, which Sprat never exceeds; all headers count. With `auto`,
        /// Sprat finds a link that all clients share, by the queue that builds up on it. While
        /// there is none, it holds nothing back. `unlimited` sends everything at once.
        default("auto") rate: Or<Auto, Or<Unlimited, BitRate>>,
        /// Watch the link if `rate` is in bits per second. If the link turns out to be slower,
        /// Sprat finds the rate that the link carries and uses that. With `false`, Sprat keeps
        /// to `rate`.
        default("true") adapt: Flag,
        /// The order in which responses are sent.
        default("srpt") policy: Policy,
        /// The engine that enforces the order: Sprat itself, or the kernel.
        default("pace") engine: Engine,
        /// Responses in progress that are paced; a request over it is answered 503.
        default("65536") max_flows: Limit,
        /// Guard against floods. Connections, heads and other small things go ahead of
        /// responses. If they arrive this many times faster than their moving average, or take
        /// half of the link, they take turns with the rest, so that a flood of them starves no
        /// response (TOCS03 2.2.3). Without effect under `engine: kernel` and
        /// `rate: unlimited`.
        default("4") guard_factor: Factor,
        /// The share of the link, from 0% to 50%, for the response that has waited longest
        /// since its last turn. A response takes part once it is a second old. So every
        /// response moves, even if clients ask for more than the link carries. Under
        /// `policy: fair`, `fcfs` and `srq`, and under `edf` unless some classes have a
        /// `deadline` and others none, only classes of lower levels get it. Without effect
        /// under `engine: kernel` and `rate: unlimited`.
        default("5%") floor: FloorPercent,
        /// Calculate how long each response would have taken under `policy: fair`, so that the
        /// metrics and the admin listener tell what the policy gains. Without effect under
        /// `policy: fair` and `fcfs`, `engine: kernel` and `rate: unlimited`, where there is
        /// nothing to compare.
        default("true") counterfactual: Flag,
        /// Number of client networks for which the metrics and the admin listener tell the
        /// gain: those with the most responses. All other networks together are `other`; with
        /// 0, no network has its own figures. A network is the first 24 bits of an IPv4 address
        /// or the first 48 bits of an IPv6 address, or fewer if the listener's `per_client`
        /// cuts shorter. Without effect where `counterfactual` has none.
        default("16") counterfactual_networks: Count<0, 64>,
        /// How clients share the link, however many responses each asks for.
        default("{}") clients: UplinkClients,
        /// Code points (DSCP) on the packets of responses: `in` for the first bytes of each
        /// response, `out` for the rest (SFD02), so that routers further on can tell them
        /// apart. Also works under `rate: unlimited`. Under `policy: sfd` the policy decides
        /// which bytes are `in` and which are `out`. `off` marks nothing.
        default("off") marking: Or<Off, Marking>,
        /// Divide `rate` among the instances of Sprat that send on the same link and are alive,
        /// by what each has to send. Needs a `rate` in bits per second and `engine: pace`.
        /// `adapt` is then without effect, because no instance sees all of the link.
        default("off") shared: Or<Off, SharedUplink>,
    }

    /// How clients share the link.
    closed struct UplinkClients {
        /// Share the link evenly between clients, byte by byte, whatever number of connections
        /// and responses each has. `client` tells clients apart by address, as the listener's
        /// `per_client` cuts it. `{header: NAME}` tells them apart by the value of a request's
        /// header field, or by address if a request has none. Use a header field only if
        /// clients cannot choose its value. `none` has all responses in one order. Each
        /// client's own responses are sent in the policy's order. Classes come first: clients
        /// share what their class gets, and a class with `max_concurrency` keeps the policy's
        /// order. Needs `policy: srpt`, `srpt-aged`, `edf`, `vrd`, `fcfs` or `las`, and
        /// `engine: pace`. Without effect under `rate: unlimited`.
        default("none") share: Or<NoShare, ClientBy>,
    }

    /// A policy without parameters.
    closed struct NoParameters {}

    /// Shortest remaining size first, with ageing.
    closed struct SrptAged {
        /// Bytes of advantage for each second of waiting. A response goes before all responses
        /// that arrive more than (its remaining bytes / `ageing`) seconds after it. With 10KB,
        /// a response of 1MB gets its turn after 100 s of smaller ones that fill the link, and
        /// one of 20MB after 2,000 s.
        default("10KB") ageing: SomeBytes,
    }

    /// Strict priority between size classes, fair within each.
    closed struct Bands {
        /// Sizes where one class ends and the next begins. `paper` is 1KB, 2KB, 5KB, 20KB and
        /// 50KB (TOCS03), and `two-class` splits at 1KB. Or give a list of your own, or
        /// `{learnt: N}` for sizes that Sprat learns.
        default("paper") cutoffs: Or<Paper, Or<TwoClass, Cutoffs>>,
    }

    /// Cutoffs that Sprat learns from the sizes of responses.
    closed struct Learnt {
        /// Number of size classes to learn.
        required learnt: Count<2, 16>,
    }

    /// `SO_PRIORITY` and the kernel's queueing discipline.
    closed struct Kernel {
        /// The queueing discipline that `sprat link` installs.
        default("htb") qdisc: Qdisc,
        /// The network device of the uplink; only `sprat link` needs it.
        optional device: Device,
    }

    /// Conditions on a request, for a group of an Envoy filter.
    closed struct Match {
        /// The request's host is one of these, without port; `*.example.org` is every name
        /// below `example.org`. If absent, every host.
        optional hosts: List<Host, 1>,
        /// The request's path is exactly this one.
        optional path: UrlPath,
        /// The request's path is this one or below it: `/a` matches `/a` and `/a/b`, not `/ab`.
        optional prefix: UrlPath,
    }
}

variants! {
    /// The order in which responses are sent.
    enum Policy: "a policy" {
        /// First come, first served.
        Fcfs(NoParameters) = "fcfs",
        /// Round robin by bytes, as a server without scheduling shares the link.
        Fair(NoParameters) = "fair",
        /// Shortest remaining size first.
        Srpt(NoParameters) = "srpt",
        /// Shortest remaining size first, with ageing: a response that has waited long enough
        /// goes before smaller ones that arrive later. The larger the response, the longer that
        /// takes.
        SrptAged(SrptAged) = "srpt-aged",
        /// Strict priority between size classes, fair within each (TOCS03).
        Bands(Bands) = "bands",
        /// Earliest deadline first: the class's `soft_deadline`, or its `deadline` if it has no
        /// `soft_deadline`. Responses of a class without a `deadline` come last.
        Edf(NoParameters) = "edf",
        /// The highest value divided by deadline first, then first come, first served (VRD).
        /// The value falls as deadlines pass. Responses of a class without a `deadline` come
        /// last.
        Vrd(NoParameters) = "vrd",
        /// Queues by the bytes that each response has sent, with deadlines and values in each
        /// queue (SRQ06). The queues adapt to the traffic. For responses of unknown size; where
        /// sizes are known, `srpt` is better.
        Srq(Box<Srq>) = "srq",
        /// Least attained service: the response that has sent the fewest bytes goes first.
        /// Needs no sizes.
        Las(NoParameters) = "las",
        /// Short responses first. Every response counts as short until it has sent more bytes
        /// than a `threshold`. Then it goes after those that have not; responses on the same
        /// side take turns (SFD02). Needs no sizes.
        Sfd(Sfd) = "sfd",
    }

    /// The engine that enforces the order of responses.
    enum Engine: "an engine" {
        /// Sprat decides which response is written next. Needs no privileges.
        Pace(NoParameters) = "pace",
        /// `SO_PRIORITY` and the kernel's queueing discipline (TOCS03), which `sprat link`
        /// installs. Orders by size class: with this engine, `srpt` means the paper's classes.
        Kernel(Kernel) = "kernel",
    }
}

choices! {
    Qdisc as "Qdisc": "a queueing discipline" {
        /// HTB classes that borrow from each other; needs the uplink's rate.
        "htb" => Self::Htb,
        /// `prio` with 16 bands.
        "prio" => Self::Prio,
    }

    EscapedSlashes as "EscapedSlashes": "what to do about them" {
        /// Keep them encoded, within their segment. The request is answered 400 if its path
        /// with slashes in their place belongs to another route or class, or if a dot segment
        /// stands next to one of them.
        "keep_unchanged" => Self::KeepUnchanged,
        /// Answer the request with 400.
        "reject_request" => Self::RejectRequest,
        /// Decode them to slashes, and redirect the client to that path (307).
        "unescape_and_redirect" => Self::UnescapeAndRedirect,
        /// Decode them to slashes, and forward that path.
        "unescape_and_forward" => Self::UnescapeAndForward,
        /// Envoy's `keep_unchanged`: keep them encoded.
        "keep" => Self::KeepUnchanged,
        /// Envoy's `reject_request`: answer the request with 400.
        "reject" => Self::RejectRequest,
        /// Envoy's `unescape_and_forward`: decode them to slashes.
        "unescape" => Self::UnescapeAndForward,
    }

    HeadersWithUnderscores as "HeadersWithUnderscores": "what to do about them" {
        /// Forward the fields with underscores.
        "allow" => Self::Allow,
        /// Answer the request with 400. In trailers, drop the fields.
        "reject_request" => Self::RejectRequest,
        /// Drop the fields, before rules are matched.
        "drop_header" => Self::DropHeader,
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
                let text = cx.scalar(node, &Self::expected)?;
                cx.mismatch(&text.span, &Self::expected(), &Found::Text(&text.text));
                None
            }
        }
    }
}

/// The admin listener: where it stands, or with parameters.
#[derive(Clone, Debug)]
pub(crate) struct AdminAt(pub(crate) Box<Admin>);

impl Decode for AdminAt {
    fn expected() -> Cow<'static, str> {
        "an address, such as 127.0.0.1:9900 or unix:/run/admin.sock, or {address, ...}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            generator.subschema_for::<Of<ListenAt>>(),
            generator.subschema_for::<Of<Admin>>(),
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let Kind::Scalar(_) = &node.kind else {
            return Admin::decode(node, cx).map(Box::new).map(Self);
        };
        let text = cx.scalar(node, &Self::expected)?;
        if !text.text.contains([':', '/']) {
            cx.mismatch(&text.span, &Self::expected(), &Found::Text(&text.text));
            return None;
        }
        let defaults = cx.default("{}");
        let mut admin = Admin::decode(&defaults, cx)?;
        admin.address = Field::decode(node, cx);
        Some(Self(Box::new(admin)))
    }
}
