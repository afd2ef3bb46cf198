//! Bounds on what one client may take, as they are written.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Limit, SomeBytes, Timeout};
use crate::containers::Or;
use crate::decode::{Context, Decode, Field, Of};
use crate::names::FieldName;
use crate::numbers::Share;
use crate::record::{choices, record};
use crate::scalars::{Bytes, Count, MAX_SIZE, Time};
use crate::tree::{Kind, Node};
use crate::words::{Off, Unlimited};

record! {
    /// The lowest rates at which a client must send or read while Sprat waits for it. Time in
    /// which Sprat paces the response, or in which the backend is slow, does not count.
    closed struct MinRates {
        /// Bytes per second of a request's body. A slower request is answered 408.
        default("240B") request_body: Or<Off, SomeBytes>,
        /// Bytes per second of a response that the client acknowledges. A slower response is
        /// cut.
        default("240B") response: Or<Off, SomeBytes>,
        /// Waiting time over which the rates are averaged.
        default("20s") window: Timeout,
        /// Rates that apply while others need the place of the client's request: the listener
        /// has reached its `max_requests`, the endpoints of the request's cluster have reached
        /// theirs, or responses wait for the `max_concurrency` of the request's class on the
        /// uplink.
        default("{}") under_load: Or<Off, MinRatesUnderLoad>,
    }

    /// The lowest rates for a client while others need the place of its request. A rate that is
    /// `off` in `min_rates` stays off. Otherwise the higher rate and the shorter `window` of
    /// the two apply.
    closed struct MinRatesUnderLoad {
        /// Bytes per second of a request's body.
        default("4KB") request_body: SomeBytes,
        /// Bytes per second of a response that the client acknowledges.
        default("4KB") response: SomeBytes,
        /// Waiting time over which the rates are averaged.
        default("5s") window: Timeout,
    }

    /// Bounds on each client of a listener.
    closed struct PerClient {
        /// Open connections; one over it is closed at once.
        default("unlimited") max_connections: Or<Unlimited, Limit>,
        /// Requests in progress; one over it is answered 429.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Leading bits of an IPv4 address that identify a client. Addresses with the same bits
        /// are one client.
        default("32") ipv4_prefix: Count<8, 32>,
        /// Leading bits of an IPv6 address that identify a client. Addresses with the same bits
        /// are one client. One household has at least a /64.
        default("64") ipv6_prefix: Count<16, 128>,
    }

    /// How many requests each client may send over time. A request that comes too soon is
    /// answered 429, with `Retry-After` and `RateLimit` fields.
    closed struct RateLimit {
        /// Which requests count together. `client` counts by address, as the listener's
        /// `per_client` cuts it. `{header: NAME}` counts by the value of a request's header
        /// field, or by address if a request has none.
        default("client") key: ClientBy,
        /// How many requests may come at once, and how fast further ones are allowed.
        required token_bucket: TokenBucket,
        /// Clients that are counted at the same time, 16 bytes each. For one more, Sprat
        /// forgets the client whose bucket is closest to full.
        default("65536") max_keys: Count<1, 100_000_000>,
    }

    /// The value of a header field.
    closed struct HeaderKey {
        /// The name of the header field.
        required header: FieldName,
    }

    /// A token bucket: each request takes a token, and tokens come back evenly.
    closed struct TokenBucket {
        /// Tokens in a full bucket: the number of requests that may come at once.
        required max_tokens: Count<1, 1_000_000>,
        /// Tokens that come back in each `fill_interval`.
        default("1") tokens_per_fill: Count<1, 1_000_000>,
        /// Time in which `tokens_per_fill` tokens come back.
        required fill_interval: Timeout,
    }

    /// What Sprat refuses or cuts when memory runs short.
    closed struct OverloadManager {
        /// Bound on the process's resident memory. At the bound, Sprat cuts open requests, the
        /// newest first.
        required max_heap_size: Bytes<16_777_216, MAX_SIZE>,
        /// The share of `max_heap_size` from which new requests are answered 503.
        default("0.95") stop_accepting_requests: Share,
        /// The share of `max_heap_size` from which new connections are closed at once.
        default("0.98") stop_accepting_connections: Share,
        /// How often Sprat checks how much memory it uses.
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
