//! The configuration of an Envoy filter as it is written: the words and units
//! of Sprat's own, as JSON (which is YAML).

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{
    Admission, Class, ClassRule, Dispatch, Estimator, Limit, Match, Policy, SizeRange, Timeout,
    WaitQueue,
};
use crate::addresses::Host;
use crate::containers::{List, Named, Or};
use crate::decode::{Context, Decode, Field, Of};
use crate::names::{EnvoyCluster, FieldName, MetadataKey, Target};
use crate::record::{choices, record};
use crate::resolved::Hold;
use crate::scalars::{Auto, BitRate, Bytes, Count, Flag, MAX_SIZE, Off, Time, Unlimited};
use crate::tree::{Kind, Node};

record! {
    /// The configuration of an Envoy filter. Keys that start with `x-` are
    /// left to the operator. What is absent is switched off: the filter with
    /// `{}` passes everything on as it came.
    open struct Filter {
        /// Priority classes, by name, as in Sprat's own configuration.
        optional classes: Named<Class>,
        /// Which requests belong to which class: the first that matches wins.
        optional class_rules: List<ClassRule, 1>,
        /// What is known of sizes before a response begins.
        default("{}") catalogue: Or<Off, FilterCatalogue>,
        /// The scarce link towards the clients, and who gets it first.
        default("{}") uplink: FilterUplink,
        /// Whom to turn away when there is too much to do.
        default("{}") admission: Admission,
        /// Groups of Envoy's clusters among which requests are dispatched, and
        /// before which they wait, by name. A request that no group matches
        /// is left to Envoy's routes.
        optional clusters: Named<FilterCluster>,
        /// A field of the response's head that tells its class, what was known
        /// of its size, who knew it, and how long it waited.
        default("off") response_header: Or<Off, FieldName>,
    }

    /// The scarce link towards the clients, as a filter can pace it.
    closed struct FilterUplink {
        /// The link's nominal rate, with all headers, shared by all workers;
        /// `unlimited` sends everything at once. A filter does not see
        /// sockets, so it cannot find the rate by itself.
        default("unlimited") rate: Or<Unlimited, BitRate>,
        /// The order in which responses are sent.
        default("srpt") policy: Policy,
        /// What is held of a response until it is its turn. `bodies` lets
        /// them go chunk by chunk; `heads` has a response begin in its turn,
        /// and then pass. A proxy-wasm host that is not Envoy, or made of the
        /// same parts, may lose bodies that are held: `auto` is `heads` there,
        /// and in Envoy, and `bodies` for the dynamic module.
        default("auto") hold: Or<Auto, Hold>,
        /// Responses in progress on a worker; one over it is sent unpaced.
        default("65536") max_flows: Limit,
    }

    /// What is known of sizes before a response begins.
    closed struct FilterCatalogue {
        /// Memory for sizes learnt from earlier responses, in each worker, and
        /// as much again for what the workers share; 0 switches them off.
        default("4MB") max_size: Bytes<0, 1_073_741_824>,
        /// How long a learnt size is believed.
        default("1h") ttl: Timeout,
        /// Request header fields by which the variants of a resource are told
        /// apart, where the response's `Vary` names them; at most 4.
        default("[accept-encoding]") vary: List<FieldName, 0>,
        /// Sizes that are known beforehand.
        default("[]") manifest: List<ListedSize, 0>,
        /// Estimates by kind, where nothing is known of a resource itself.
        default("{}") estimator: Or<Off, Estimator>,
    }

    /// A resource whose size is known beforehand.
    closed struct ListedSize {
        /// The host asked for; every host if absent.
        optional host: Host,
        /// The path asked for, with its query if that matters.
        required path: Target,
        /// The body's size in bytes.
        required bytes: Bytes<0, MAX_SIZE>,
    }

    /// A group of Envoy's clusters that serve the same things.
    closed struct FilterCluster {
        /// Which requests are for it; the first group that matches has a
        /// request. Every request if absent.
        default("{}") matches as "match": Match,
        /// Envoy's clusters, each a pool of endpoints.
        required pools: List<Pool, 1>,
        /// The request header field that names the pool; the route's
        /// `cluster_header` follows it.
        default("x-sprat-cluster") header: FieldName,
        /// The key below which the dynamic metadata of `envoy.lb` names the
        /// pool too, for subsets of one cluster; the dynamic module's alone.
        optional metadata_key: MetadataKey,
        /// How a pool is chosen for a request.
        default("least_request") dispatch: Dispatch,
        /// Requests in service at each pool; more wait, in the wait queue's
        /// order.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Requests that wait for a pool.
        default("{}") wait_queue: WaitQueue,
        /// Ask a pool for sizes by HEAD, where the order of waiting requests
        /// or the choice of a pool depends on them.
        default("off") head_probe: Or<Off, FilterProbe>,
    }

    /// A pool with parameters.
    closed struct PoolParameters {
        /// The name of Envoy's cluster.
        required name: EnvoyCluster,
        /// The endpoint's share of the requests, relative to the others.
        default("1") weight: Count<1, 1000>,
        /// The sizes of the responses that it is for, under `dispatch: sita`;
        /// as the cutoffs have it if absent.
        optional size_range: SizeRange,
        /// For requests of the highest class alone.
        default("false") reserved: Flag,
    }

    /// HEAD requests that ask a pool for sizes.
    closed struct FilterProbe {
        /// Envoy's cluster that is asked; the group's first pool if absent.
        optional cluster: EnvoyCluster,
        /// How long a request waits for the answer at most. The probe goes on,
        /// for the next who asks.
        default("10ms") budget: Timeout,
        /// How long a probe may take, with its connection.
        default("2s") timeout: Timeout,
        /// Probes at a time, on each worker.
        default("16") max_concurrent: Count<1, 10_000>,
        /// How long a resource is left alone whose probe told nothing, and the
        /// group after five such answers in a row.
        default("60s") negative_ttl: Time<1000>,
        /// Memory for resources that are left alone.
        default("64KB") max_size: Bytes<4_096, 1_073_741_824>,
    }
}

choices! {
    Hold as "Hold": "what is held of a response" {
        /// The response's head; its body passes.
        "heads" => Self::Heads,
        /// The response's head, and each part of its body.
        "bodies" => Self::Bodies,
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
