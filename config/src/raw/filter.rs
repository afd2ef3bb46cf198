//! The configuration of an Envoy filter as it is written: the words and units
//! of Sprat's own, as JSON (which is YAML).

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{
    Admission, Class, ClassRule, Dispatch, Estimator, FloorPercent, Limit, Match, Policy,
    SizeRange, Timeout,
};
use crate::addresses::Host;
use crate::containers::{ByName, List, Or};
use crate::decode::{Context, Decode, Field, Of};
use crate::names::{EnvoyCluster, FieldName, MetadataKey, Target};
use crate::record::{choices, record};
use crate::resolved::{Hold, WaitOrder, WaitScope};
use crate::scalars::{BitRate, Bytes, Count, Flag, MAX_SIZE, Time};
use crate::tree::{Entry, Kind, Node};
use crate::words::{Auto, Off, Unlimited};

record! {
    /// The configuration of an Envoy filter. Keys that start with `x-` are left to the operator.
    /// Parts that are absent are switched off: the filter with `{}` passes everything on unchanged.
    open struct Filter {
        /// Priority classes, by name, as in Sprat's own configuration.
        optional classes: ByName<Class>,
        /// Which requests belong to which class. The first rule that matches wins.
        optional class_rules: List<ClassRule, 1>,
        /// Sources that tell a response's size before the response begins.
        default("{}") catalogue: Or<Off, FilterCatalogue>,
        /// The scarce link towards the clients, and which responses get it first.
        default("{}") uplink: FilterUplink,
        /// Which requests to refuse when there is too much to do.
        default("{}") admission: Admission,
        /// Groups of Envoy's clusters, by name. The filter dispatches requests among the clusters
        /// of a group, and requests wait for them. A request that no group matches is left to
        /// Envoy's routes.
        optional clusters: ByName<FilterCluster>,
        /// Header field of the response that shows the class, the size that was known, its source,
        /// and how long the request waited.
        default("off") response_header: Or<Off, FieldName>,
    }

    /// The scarce link towards the clients, as a filter can pace it.
    closed struct FilterUplink {
        /// The link's nominal rate, with all headers, shared by all workers. `unlimited` sends
        /// everything at once. A filter does not see sockets, so it cannot find the rate by itself.
        default("unlimited") rate: Or<Unlimited, BitRate>,
        /// The order in which responses are sent.
        default("srpt") policy: Policy,
        /// What the filter holds of a response until its turn. With `bodies` it sends the body
        /// chunk by chunk. With `heads` a response begins in its turn, and then passes freely. A
        /// proxy-wasm host that is neither Envoy nor made of the same parts may lose bodies that
        /// are held. `auto` is `heads` for the proxy-wasm filter, in Envoy as well, and `bodies`
        /// for the dynamic module.
        default("auto") hold: Or<Auto, Hold>,
        /// Responses in progress: on each worker in the proxy-wasm filter, on all workers together
        /// in the dynamic module. One over it is sent unpaced.
        default("65536") max_flows: Limit,
        /// The share of the link, from 0% to 50%, for the response that has waited longest since
        /// its last turn. A response takes part once it is a second old. The proxy-wasm filter
        /// gives it within each worker, and with `hold: heads` only among responses of like size
        /// (to 8 KB, to 32 KB, larger): smaller ones begin first. Under `policy: fair`, `fcfs` and
        /// `srq`, and under `edf` unless some classes have a `deadline` and others none, only
        /// classes of lower levels get it.
        default("5%") floor: FloorPercent,
    }

    /// Sources that tell a response's size before the response begins.
    closed struct FilterCatalogue {
        /// Memory for sizes learnt from earlier responses: in the proxy-wasm filter in each worker,
        /// and as much again for what the workers share; in the dynamic module once. 0 switches
        /// learning off.
        default("4MB") max_size: Bytes<0, 1_073_741_824>,
        /// How long a learnt size counts.
        default("1h") ttl: Timeout,
        /// Request header fields that distinguish the variants of a resource, where the response's
        /// `Vary` names them; at most 4.
        default("[accept-encoding]") vary: List<FieldName, 0>,
        /// Resources whose sizes are known beforehand.
        default("[]") manifest: List<ListedSize, 0>,
        /// Estimates by kind of resource, where nothing is known of the resource itself.
        default("{}") estimator: Or<Off, Estimator>,
    }

    /// A resource whose size is known beforehand.
    closed struct ListedSize {
        /// Host of the request; every host if absent.
        optional host: Host,
        /// Path of the request, with its query if that matters.
        required path: Target,
        /// The body's size in bytes.
        required bytes: Bytes<0, MAX_SIZE>,
    }

    /// A group of Envoy's clusters that serve the same content.
    closed struct FilterCluster {
        /// Requests that the group takes. If several groups match a request, the first one takes
        /// it. Every request if absent.
        default("{}") matches as "match": Match,
        /// Envoy's clusters, each a pool of endpoints.
        required pools: List<Pool, 1>,
        /// Request header field that the filter sets to the name of the chosen pool. The route's
        /// `cluster_header` follows it.
        default("x-sprat-cluster") header: FieldName,
        /// Key in the dynamic metadata of `envoy.lb` that also gets the name of the pool, for
        /// subsets of one cluster. Only in the dynamic module.
        optional metadata_key: MetadataKey,
        /// How the filter chooses a pool for a request.
        default("least_request") dispatch: Dispatch,
        /// Requests in service at each pool. Requests over it wait in the `wait_queue`.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Order of and bounds on requests that wait for a pool.
        default("{}") wait_queue: FilterWaitQueue,
        /// Ask a pool for sizes by HEAD, where the order of waiting requests
        /// or the choice of a pool depends on them.
        default("off") head_probe: Or<Off, FilterProbe>,
    }

    /// Order of and bounds on requests that wait for a pool.
    closed struct FilterWaitQueue {
        /// Which of the waiting requests of one class level goes first. A filter has no `srq`.
        default("size") order: FilterOrder,
        /// Pool that a request waits for: with `cluster` the first one that is free, with
        /// `endpoint` the one that was chosen when the request came. `auto` is `endpoint` where
        /// dispatch binds requests to pools (`sita`, `rpsq`, `ring_hash`, `maglev`), and `cluster`
        /// elsewhere.
        default("auto") scope: Or<Auto, WaitScope>,
        /// Requests that wait in each queue; one over it is answered 503.
        default("1024") max_requests: Count<0, 10_000_000>,
        /// How long a request may wait before it is answered 503.
        default("10s") timeout: Or<Off, Timeout>,
    }

    /// A pool with parameters.
    closed struct PoolParameters {
        /// The name of Envoy's cluster.
        required name: EnvoyCluster,
        /// The pool's share of the requests, relative to the others.
        default("1") weight: Count<1, 1000>,
        /// Sizes of the responses that the pool serves under `dispatch: sita`. If absent, `cutoffs`
        /// decides.
        optional size_range: SizeRange,
        /// Use the pool only for requests of the highest class.
        default("false") reserved: Flag,
    }

    /// HEAD requests that ask a pool for sizes.
    closed struct FilterProbe {
        /// Envoy's cluster that gets the HEAD requests; the group's first pool if absent.
        optional cluster: EnvoyCluster,
        /// Longest time that a request waits for the answer. The probe goes on, so that the next
        /// request for the resource can use its answer.
        default("10ms") budget: Timeout,
        /// Time for a probe, with its connection.
        default("2s") timeout: Timeout,
        /// Probes at the same time: on each worker in the proxy-wasm filter, on all workers
        /// together in the dynamic module.
        default("16") max_concurrent: Count<1, 10_000>,
        /// How long the filter sends no probe for a resource whose probe told nothing. After five
        /// such answers in a row, it sends none for the whole group, for the same time.
        default("60s") negative_ttl: Time<1000>,
        /// Memory for resources that get no probe at present (`negative_ttl`).
        default("64KB") max_size: Bytes<4_096, 1_073_741_824>,
    }
}

choices! {
    Hold as "Hold": "what is held of a response" {
        /// The response's head is held; its body passes.
        "heads" => Self::Heads,
        /// The response's head is held, and each part of its body.
        "bodies" => Self::Bodies,
    }

    WaitOrder as "FilterOrder": "an order" {
        /// The smallest expected response first.
        "size" => Self::Size,
        /// First come, first served.
        "fcfs" => Self::Fcfs,
        /// The earliest `soft_deadline` first. If a class has none, its `deadline` counts.
        "edf" => Self::Edf,
        /// The highest ratio of value to deadline first. Values fall as deadlines pass (VRD).
        "vrd" => Self::Vrd,
        /// The highest value first.
        "value" => Self::Value,
    }
}

/// The order of the requests that wait in a filter: one without parameters, for the proxy-wasm
/// filter has no room for the code of `srq`.
#[derive(Clone, Debug)]
pub(crate) struct FilterOrder(pub(crate) WaitOrder);

impl FilterOrder {
    fn is_srq(node: &Node) -> bool {
        let is_word = |node: &Node| match &node.kind {
            Kind::Scalar(scalar) => scalar.text == "srq",
            Kind::Mapping(_) | Kind::Sequence(_) => false,
        };
        let is_named = |entry: &Entry| entry.key == "name" && is_word(&entry.value);
        match &node.kind {
            Kind::Mapping(entries) => entries.iter().any(is_named),
            Kind::Scalar(_) | Kind::Sequence(_) => is_word(node),
        }
    }
}

impl Decode for FilterOrder {
    fn expected() -> Cow<'static, str> {
        <WaitOrder as Decode>::expected()
    }

    fn name() -> Option<&'static str> {
        <WaitOrder as Decode>::name()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <WaitOrder as Decode>::schema(generator)
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        if Self::is_srq(node) {
            let message = "a filter cannot order by `srq`: that takes Sprat itself".to_owned();
            let help = "write `edf` or `vrd`, which go by deadlines, or `size`".to_owned();
            cx.reporter.error(&node.span, message, Some(help));
            return None;
        }
        WaitOrder::decode(node, cx).map(Self)
    }
}

/// One of Envoy's clusters: its name alone, or with parameters.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Name(Field<EnvoyCluster>),
    Parameters(PoolParameters),
}

impl Decode for Pool {
    fn expected() -> Cow<'static, str> {
        "the name of one of Envoy's clusters, or {name, weight, size_range, reserved}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            generator.subschema_for::<Of<EnvoyCluster>>(),
            generator.subschema_for::<Of<PoolParameters>>(),
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Mapping(_) => PoolParameters::decode(node, cx).map(Self::Parameters),
            _ => Some(Self::Name(Field::decode(node, cx))),
        }
    }
}
