//! The file as it is written: the one definition of its keys, their types,
//! defaults and meaning. The decoder, the JSON Schema and the reference in
//! `docs/configuration.md` are all made from it.

mod access;
mod access_log;
mod acme;
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
use crate::addresses::{Account, Cidr, FileMode, Host, ListenAddress, UrlPath};
use crate::containers::{List, Named, Or, Seldom};
use crate::decode::{Context, Decode, Field, Found, Of};
use crate::names::{Device, FilePath, Name, Pseudonym};
use crate::numbers::{Factor, FloorPercent};
use crate::paths::EscapedSlashes;
use crate::record::{choices, record, variants};
use crate::resolved::{HeadersWithUnderscores, Qdisc};
use crate::scalars::{
    Auto, BitRate, Bytes, Count, Flag, MAX_SIZE, NoShare, Off, Paper, Time, TwoClass, Unlimited,
};
use crate::tree::{Kind, Node};

pub(crate) use access::*;
pub(crate) use access_log::*;
pub(crate) use acme::*;
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
        /// Other files that are part of this one, relative to its directory; `*` in a name
        /// is any text. Lists and names are put together, those of included files first;
        /// any other key is in one file alone.
        optional include: List<FilePath, 1>,
        /// Threads of the process, and how long it takes to stop.
        default("{}") runtime: Runtime,
        /// The admin listener: health, readiness, metrics. Keep it off public
        /// addresses.
        default("{}") admin: Or<Off, AdminAt>,
        /// Sockets that clients connect to.
        required listeners: List<Listener, 1>,
        /// The scarce link towards the clients, and who gets it first.
        default("{}") uplink: Uplink,
        /// Groups of backends that serve the same things, by name.
        required clusters: Named<Cluster>,
        /// Which requests go where: the first that matches wins. A request
        /// that none matches is answered 404.
        required routes: List<Route, 1>,
        /// Answer 503 to all clients but a few, whatever they ask for; a route may say
        /// otherwise.
        default("off") maintenance: Or<Off, Seldom<Maintenance>>,
        /// Compress responses to clients that take it; a route may say otherwise.
        default("off") compressor: Or<Off, Seldom<Compressor>>,
        /// Keep of bodies what their clients have not sent or taken yet, so that no
        /// backend waits for them.
        default("{}") buffer: Buffer,
        /// Priority classes, by name. `default` and `background` are there
        /// without being given: the class of what no rule matches, and that
        /// of prefetches, at the lowest level.
        optional classes: Named<Class>,
        /// Which requests belong to which class: the first that matches wins.
        /// After them all, a request with `Sec-Purpose: prefetch` (or
        /// `Purpose: prefetch`) is `background`.
        optional class_rules: List<ClassRule, 1>,
        /// Whom to turn away when there is too much to do.
        default("{}") admission: Admission,
        /// One line for each request, in one log or several.
        default("off") access_log: Or<Off, AccessLogs>,
        /// Tell of requests as traces: W3C trace context, and spans by OTLP.
        default("off") tracing: Or<Off, Tracing>,
        /// What is known of sizes before a response begins.
        default("{}") catalogue: Catalogue,
        /// The authority that issues those certificates of listeners that are not in
        /// files.
        default("off") acme: Or<Off, Acme>,
        /// What to stop doing as memory runs short.
        default("off") overload_manager: Or<Off, OverloadManager>,
    }

    /// Threads of the process, and how long it takes to stop.
    closed struct Runtime {
        /// Worker threads, each with an event loop of its own; `auto` is one
        /// for each CPU that the process may use.
        default("auto") workers: Or<Auto, Count<1, 1024>>,
        /// How long open requests may go on after SIGTERM.
        default("30s") drain_timeout: Time<0>,
        /// How often to look whether this file has changed, and take it anew, or
        /// try one again that was refused; `off` leaves that to SIGHUP.
        default("off") reload_interval: Or<Off, Timeout>,
    }

    /// The admin listener: dashboard, metrics, and changes at run time.
    closed struct Admin {
        /// What to bind: an IP address with a port, or a Unix socket.
        default("127.0.0.1:9900") address: ListenAddress,
        /// Who may connect, where `address` is a Unix socket: the permissions of its
        /// file, in octal; "0600" if absent.
        optional mode: FileMode,
        /// The user whose the file is, where `address` is a Unix socket: a name of
        /// `/etc/passwd` or a number. If absent, the one that Sprat runs as; another
        /// needs root, or CAP_CHOWN.
        optional owner: Account,
        /// The group of the file, where `address` is a Unix socket: a name of
        /// `/etc/group` or a number. If absent, the one that the kernel gives it: that
        /// of Sprat's process, or of a directory with the set-group-ID bit. Another
        /// needs root, CAP_CHOWN, or that Sprat's user is in the group.
        optional group: Account,
        /// Names that it may be asked by, without port, beside `localhost` and every
        /// IP address; `*.example.org` is every name below `example.org`. Any other
        /// is answered 421: a web page could have its own name lead here.
        default("[]") hosts: List<Host, 0>,
        /// A file with a token, one line of 16 to 1024 characters, that `/flows`,
        /// `/events`, `/config` and every change want: `Authorization: Bearer TOKEN`.
        /// Where there is none, all who reach the address may read, and changes are
        /// made on a loopback address alone.
        optional token_file: FilePath,
    }

    /// A socket that clients connect to, and the bounds on what they may do.
    closed struct Listener {
        /// Name in logs and metrics, unique; the address if absent.
        optional name: Name,
        /// What to bind: an IP address with a port, or a Unix socket.
        required address: ListenAddress,
        /// Who may connect, where `address` is a Unix socket: the permissions of its
        /// file, in octal; "0660" if absent.
        optional mode: FileMode,
        /// The user whose the file is, where `address` is a Unix socket: a name of
        /// `/etc/passwd` or a number. If absent, the one that Sprat runs as; another
        /// needs root, or CAP_CHOWN.
        optional owner: Account,
        /// The group of the file, where `address` is a Unix socket: a name of
        /// `/etc/group` or a number. If absent, the one that the kernel gives it: that
        /// of Sprat's process, or of a directory with the set-group-ID bit. Another
        /// needs root, CAP_CHOWN, or that Sprat's user is in the group.
        optional group: Account,
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
        /// Take a client that closes its sending side while it waits for an
        /// answer to have gone, and drop its request. Otherwise it is answered,
        /// and has gone when its connection is reset.
        default("false") abort_on_close: Flag,
        /// Connections that have switched to another protocol (WebSocket). A
        /// request for one more is answered 503.
        default("4096") max_tunnels: Limit,
        /// Bytes that the kernel holds for a connection and has not sent yet
        /// (`TCP_NOTSENT_LOWAT`), and a little over: what a client that reads
        /// slowly costs in the kernel's memory, and what cannot be put in
        /// another order any more. An uplink with a rate sets less where it
        /// needs to.
        default("128KB") tcp_notsent_lowat: Or<Unlimited, Bytes<4_096, 1_073_741_824>>,
        /// Requests in progress, over all clients; one over it is answered
        /// 503.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Bounds on each client.
        default("{}") per_client: PerClient,
        /// The least that a client must move while it is the one that keeps
        /// Sprat waiting.
        default("{}") min_rates: Or<Off, MinRates>,
        /// Requests of each client over time, wherever they go.
        default("off") rate_limit: Or<Off, Seldom<RateLimit>>,
        /// Match rules with paths in the normal form of RFC 3986 6.2.2, and
        /// pass those on: what needs no encoding is decoded, encodings are in
        /// capitals, dot segments resolved. A path that leads above the root
        /// is answered 400.
        default("true") normalize_path: Flag,
        /// Take several slashes in a path for one, before dot segments are
        /// resolved.
        default("true") merge_slashes: Flag,
        /// What to do about a slash or a backslash that stands encoded in a
        /// path (`%2F`, `%5C`), which some backends take for one that
        /// separates segments.
        default("keep_unchanged") path_with_escaped_slashes_action: EscapedSlashes,
        /// What to do about header fields with an underscore in their name,
        /// which backends by CGI's rules (WSGI, Rack, PHP) take for a hyphen.
        /// Whatever this says, those are dropped that would be taken for
        /// framing or for the connection's own (`Transfer_Encoding`,
        /// `Content_Length`, `Keep_Alive`, `Proxy_Connection`), and so is
        /// `Proxy`.
        default("allow") headers_with_underscores_action: HeadersWithUnderscores,
        /// What the backend is told about the client.
        default("{}") forwarding: Forwarding,
        /// Give each request an identifier, which the backend and the access log
        /// get.
        default("{}") request_id: Or<Off, RequestId>,
        /// Speak HTTP/2 with clients that begin with its preface, or choose it
        /// in the TLS handshake.
        default("{}") http2: Or<Off, Http2>,
        /// Whether clients speak TLS, and with which certificates.
        default("off") tls: Or<Off, ListenerTls>,
        /// Be told by a load balancer in front whose connection each is.
        default("off") proxy_protocol: Or<Off, ProxyProtocol>,
    }

    /// What the backend is told about the client.
    closed struct Forwarding {
        /// Send `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
        default("true") x_forwarded: Flag,
        /// Send `Forwarded` (RFC 7239).
        default("false") forwarded: Flag,
        /// Clients whose own forwarding headers are kept and added to; those
        /// of any other are replaced: `Forwarded`, every `X-Forwarded-*`, and
        /// `X-Real-IP`, with underscores for hyphens as well.
        default("[]") trusted: List<Cidr, 0>,
        /// The name in a `Via` header that backends get; `off` adds none. For
        /// nginx and others a request with `Via` has come through a proxy, and
        /// they do not compress the response unless they are told to
        /// (`gzip_proxied`).
        default("off") via: Or<Off, Pseudonym>,
    }

    /// The identifier that each request gets.
    closed struct RequestId {
        /// The field that has it, in requests and in responses.
        default("x-request-id") header: EditedName,
        /// Take over the identifier that the client gives, if it is 1 to 128 letters,
        /// digits and `-._~+/=:@`; else all requests get one of Sprat's own.
        default("true") preserve_external: Flag,
        /// Tell the client, too.
        default("false") in_response: Flag,
    }

    /// The scarce link towards the clients, and who gets it first.
    closed struct Uplink {
        /// The link's nominal rate, with all headers: never exceeded. `auto` finds
        /// a link that all clients share by the queue that builds up, and holds
        /// nothing back while there is none; `unlimited` sends everything at once.
        default("auto") rate: Or<Auto, Or<Unlimited, BitRate>>,
        /// Whether a `rate` in bits per second is watched: where the link turns out to
        /// be slower, what it carries is found and taken instead. With `false` it is
        /// taken as it is.
        default("true") adapt: Flag,
        /// The order in which responses are sent.
        default("srpt") policy: Policy,
        /// Who enforces the order.
        default("pace") engine: Engine,
        /// Responses in progress that are paced; a request over it is answered 503.
        default("65536") max_flows: Limit,
        /// Connections, heads and other small things go ahead of responses
        /// until they arrive this many times faster than their moving
        /// average, or take half of the link; then they take turns with the
        /// rest, so that a flood of them starves no one (TOCS03 2.2.3).
        /// Without effect under `engine: kernel` and `rate: unlimited`.
        default("4") guard_factor: Factor,
        /// The share of the link for the response that has gone longest without being
        /// served, once it is a second old: so that everything moves while the link is
        /// offered more than it carries. From 0% to 50%. Without effect under `policy:
        /// fair`, `fcfs`, `edf` and `srq`, `engine: kernel` and `rate: unlimited`.
        default("5%") floor: FloorPercent,
        /// Work out beside how long each response would have taken under `policy: fair`,
        /// so that metrics and the admin listener tell what the policy gains. Without
        /// effect under `policy: fair` and `fcfs`, `engine: kernel` and
        /// `rate: unlimited`, where there is nothing to compare.
        default("true") counterfactual: Flag,
        /// How many networks of clients the gain is told of apart, in the metrics and by
        /// the admin listener: those with the most responses; all others together are
        /// `other`. A network is the first 24 bits of an IPv4 address and the first 48
        /// of an IPv6 one, or fewer where `per_client` of the listener cuts shorter. 0
        /// tells none apart. Without effect where `counterfactual` is.
        default("16") counterfactual_networks: Count<0, 64>,
        /// What clients have of the link, however many responses they ask for.
        default("{}") clients: UplinkClients,
        /// The code points (DSCP) of responses' packets: `in` for the first bytes of
        /// each, `out` for the rest (SFD02), so that routers beyond may tell them apart;
        /// also under `rate: unlimited`. Under `policy: sfd` the policy says what is
        /// which. `off` marks nothing.
        default("off") marking: Or<Off, Marking>,
        /// Other instances of Sprat send on the same link: its `rate` is divided among
        /// those that live, by what each has to send. Wants a `rate` in bits per second
        /// and `engine: pace`. `adapt` is without effect then: none of them sees all of
        /// the link.
        default("off") shared: Or<Off, SharedUplink>,
    }

    /// What each client has of the link.
    closed struct UplinkClients {
        /// Who shares the link evenly, byte by byte, whatever number of
        /// connections and responses each has: `client` is an address, as
        /// `per_client` of the listener cuts it; or the value of a header field
        /// of the request, and the address where it has none, which is right
        /// only where clients cannot choose the value. Each client's own
        /// responses are sent in the policy's order. Classes come first, and
        /// clients share what their class has; a class with `max_concurrency`
        /// keeps the policy's order. `none` has all responses in one order.
        /// Takes `policy: srpt`, `srpt-aged`, `edf`, `vrd`, `fcfs` or `las`,
        /// and `engine: pace`.
        /// Without effect under `rate: unlimited`.
        default("none") share: Or<NoShare, ClientBy>,
    }

    /// A policy without parameters.
    closed struct NoParameters {}

    /// Shortest remaining size first, with ageing.
    closed struct SrptAged {
        /// Bytes of advantage for each second of waiting: a response goes
        /// before all that come more than its remaining bytes over this later.
        /// With 10KB, 1MB gets its turn after 100 s of smaller ones that fill
        /// the link, and 20MB after 2,000 s.
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
        /// How many classes of sizes are learnt.
        required learnt: Count<2, 16>,
    }

    /// `SO_PRIORITY` and the kernel's queueing discipline.
    closed struct Kernel {
        /// What `sprat link` installs.
        default("htb") qdisc: Qdisc,
        /// The network device of the uplink; needed by `sprat link` alone.
        optional device: Device,
    }

    /// What a request must look like for a group of an Envoy filter.
    closed struct Match {
        /// Any of these hosts, without port; `*.example.org` is every name
        /// below `example.org`. Every host if absent.
        optional hosts: List<Host, 1>,
        /// The one path that matches.
        optional path: UrlPath,
        /// This path and all below it: `/a` matches `/a` and `/a/b`, not
        /// `/ab`.
        optional prefix: UrlPath,
    }
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
        /// Shortest remaining size first, with ageing: what has waited comes
        /// before smaller ones at last, large ones after long.
        SrptAged(SrptAged) = "srpt-aged",
        /// Strict priority between size classes, fair within each (TOCS03).
        Bands(Bands) = "bands",
        /// The earliest deadline first, by the classes' `soft_deadline`, or
        /// `deadline` where they have none; a class without comes last.
        Edf(NoParameters) = "edf",
        /// The highest value over deadline first, then first come, first
        /// served (VRD); values fall as deadlines pass. A class without a
        /// `deadline` comes last.
        Vrd(NoParameters) = "vrd",
        /// Queues by what a response has had, which adapt to what passes, and
        /// deadlines and values in each (SRQ06). For responses whose sizes are
        /// not known; where they are, `srpt` is better.
        Srq(Box<Srq>) = "srq",
        /// Least attained service: those that have had the fewest bytes first. Needs no
        /// sizes.
        Las(NoParameters) = "las",
        /// Short responses first, as far as each has come: what is within a threshold of
        /// bytes goes before what is beyond, and those that are alike take turns (SFD02).
        /// Needs no sizes.
        Sfd(Sfd) = "sfd",
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
    Qdisc as "Qdisc": "a queueing discipline" {
        /// HTB classes that borrow from each other; needs the uplink's rate.
        "htb" => Self::Htb,
        /// `prio` with 16 bands.
        "prio" => Self::Prio,
    }

    EscapedSlashes as "EscapedSlashes": "what to do about them" {
        /// They stay in their segment, as any other encoding. Where another
        /// route or class is for the path with slashes in their place, or
        /// that has a dot segment between them, the request is answered 400.
        "keep_unchanged" => Self::KeepUnchanged,
        /// The request is answered 400.
        "reject_request" => Self::RejectRequest,
        /// They are taken for slashes, and the client is sent to that path
        /// (307).
        "unescape_and_redirect" => Self::UnescapeAndRedirect,
        /// They are taken for slashes.
        "unescape_and_forward" => Self::UnescapeAndForward,
        /// Envoy's `keep_unchanged`: they stay.
        "keep" => Self::KeepUnchanged,
        /// Envoy's `reject_request`: the request is refused.
        "reject" => Self::RejectRequest,
        /// Envoy's `unescape_and_forward`: they are decoded.
        "unescape" => Self::UnescapeAndForward,
    }

    HeadersWithUnderscores as "HeadersWithUnderscores": "what to do about them" {
        /// Fields with underscores pass.
        "allow" => Self::Allow,
        /// The request is answered 400; in trailers they are dropped.
        "reject_request" => Self::RejectRequest,
        /// They are dropped, before rules are matched.
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
            generator.subschema_for::<Of<ListenAddress>>(),
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
