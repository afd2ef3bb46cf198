//! Bounds on what one client may take, as they are written.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Limit, SomeBytes, Timeout};
use crate::containers::Or;
use crate::decode::{Context, Decode, Field, Of};
use crate::names::FieldName;
use crate::numbers::Share;
use crate::record::{choices, record};
use crate::scalars::{Bytes, Count, MAX_SIZE, Off, Time, Unlimited};
use crate::tree::{Kind, Node};

record! {
    /// The least that a client must move while it is the one that keeps Sprat
    /// waiting. Time in which Sprat paces it, or the backend is slow, does not
    /// count.
    closed struct MinRates {
        /// Bytes a second of a request's body. A slower one is answered 408.
        default("240B") request_body: Or<Off, SomeBytes>,
        /// Bytes a second of a response that the client acknowledges. A slower
        /// one is cut.
        default("240B") response: Or<Off, SomeBytes>,
        /// The time of waiting over which they are averaged.
        default("20s") window: Timeout,
        /// What holds in their place while the client keeps a place that others
        /// need: the listener has its `max_requests`, or the endpoints of the
        /// request's cluster have theirs.
        default("{}") under_load: Or<Off, MinRatesUnderLoad>,
    }

    /// The least that a client must move while others need its place. A rate that
    /// is off without load is off under it, and one that is higher stays.
    closed struct MinRatesUnderLoad {
        /// Bytes a second of a request's body.
        default("4KB") request_body: SomeBytes,
        /// Bytes a second of a response that the client acknowledges.
        default("4KB") response: SomeBytes,
        /// The time of waiting over which they are averaged.
        default("5s") window: Timeout,
    }

    /// Bounds on each client of a listener.
    closed struct PerClient {
        /// Open connections; one over it is closed at once.
        default("unlimited") max_connections: Or<Unlimited, Limit>,
        /// Requests in progress; one over it is answered 429.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Leading bits of an IPv4 address that make a client.
        default("32") ipv4_prefix: Count<8, 32>,
        /// Leading bits of an IPv6 address that make a client. One household
        /// has a /64 at least.
        default("64") ipv6_prefix: Count<16, 128>,
    }

    /// Requests of each client over time. One that comes too soon is answered
    /// 429, with `Retry-After` and `RateLimit` fields.
    closed struct RateLimit {
        /// Whose requests count together: `client` is an address, as
        /// `per_client` cuts it; or the value of a header field, and the
        /// address where a request has none.
        default("client") key: ClientBy,
        /// How many, and how fast.
        required token_bucket: TokenBucket,
        /// Clients that are told apart at a time, 16 bytes each.
        default("65536") max_keys: Count<1, 100_000_000>,
    }

    /// The value of a header field.
    closed struct HeaderKey {
        /// The name of the header field.
        required header: FieldName,
    }

    /// Each request takes a token; tokens come back evenly.
    closed struct TokenBucket {
        /// Requests that may come at once.
        required max_tokens: Count<1, 1_000_000>,
        /// Tokens that come back in each `fill_interval`.
        default("1") tokens_per_fill: Count<1, 1_000_000>,
        /// How often `tokens_per_fill` tokens come back.
        required fill_interval: Timeout,
    }

    /// What to stop doing as memory runs short.
    closed struct OverloadManager {
        /// Resident memory of the process. At it, exchanges are ended, the
        /// newest first.
        required max_heap_size: Bytes<16_777_216, MAX_SIZE>,
        /// The share of it from which new requests are answered 503.
        default("0.95") stop_accepting_requests: Share,
        /// The share of it from which new connections are closed at once.
        default("0.98") stop_accepting_connections: Share,
        /// How often memory is looked at.
        default("250ms") refresh_interval: Time<10>,
    }
}

/// A key that is the client's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByClient;

choices! {
    ByClient as "ByClient": "a key" {
        /// The address that the client's connection comes from.
        "client" => ByClient,
    }
}

/// The key by which clients are told apart.
#[derive(Clone, Debug)]
pub(crate) enum ClientBy {
    Client(Field<ByClient>),
    Header(HeaderKey),
}

impl Decode for ClientBy {
    fn expected() -> Cow<'static, str> {
        "`client` or {header: NAME}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            generator.subschema_for::<Of<ByClient>>(),
            generator.subschema_for::<Of<HeaderKey>>(),
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Mapping(_) => HeaderKey::decode(node, cx).map(Self::Header),
            _ => Some(Self::Client(Field::decode(node, cx))),
        }
    }
}
