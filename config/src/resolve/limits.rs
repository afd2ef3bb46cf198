//! Bounds on what one client may take.

use std::time::Duration;

use sprat_scheduler::limits::{Bucket, HeapBounds, MinRate};

use super::values::{count, maybe, size, time};
use crate::containers::{Or, Seldom};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{ClientBy, ListenerLimits, MinRates, OverloadManager, PerClient, RateLimit};
use crate::scalars::Count;
use crate::words::{Off, Unlimited};

/// Resolves the limits of a listener.
pub(super) fn listener(raw: &raw::Listener) -> Option<ListenerLimits> {
    let per_client = raw.per_client.get()?;
    Some(ListenerLimits {
        max_requests: bound(&raw.max_requests)?,
        per_client: PerClient {
            max_connections: bound(&per_client.max_connections)?,
            max_requests: bound(&per_client.max_requests)?,
            ipv4_prefix: bits(&per_client.ipv4_prefix)?,
            ipv6_prefix: bits(&per_client.ipv6_prefix)?,
        },
        min_rates: match raw.min_rates.get()?.value() {
            None => MinRates::default(),
            Some(raw) => min_rates(raw)?,
        },
        rate_limit: rate_limit(&raw.rate_limit)?,
    })
}

fn bound(raw: &Field<Or<Unlimited, raw::Limit>>) -> Option<Option<usize>> {
    Some(raw.get()?.value().map(|Count(count)| size(*count)))
}

fn bits<const MIN: u64, const MAX: u64>(raw: &Field<Count<MIN, MAX>>) -> Option<u8> {
    u8::try_from(raw.copied()?.0).ok()
}

fn min_rates(raw: &raw::MinRates) -> Option<MinRates> {
    let window = time(&raw.window)?;
    let rate = |raw: &Field<Or<Off, raw::SomeBytes>>| {
        let bytes_per_s = raw.get()?.value().map(|bytes| bytes.0);
        Some(bytes_per_s.map(|bytes_per_s| MinRate {
            bytes_per_s,
            window,
        }))
    };
    let under_load = raw.under_load.get()?.value();
    let under_load = maybe(under_load, rates_under_load)?;
    Some(MinRates {
        request_body: rate(&raw.request_body)?,
        response: rate(&raw.response)?,
        request_body_under_load: under_load.as_ref().map(|own| own.request_body),
        response_under_load: under_load.as_ref().map(|own| own.response),
    })
}

/// The least rates under load.
struct RatesUnderLoad {
    request_body: MinRate,
    response: MinRate,
}

fn rates_under_load(raw: &raw::MinRatesUnderLoad) -> Option<RatesUnderLoad> {
    let window = time(&raw.window)?;
    let rate = |raw: &Field<raw::SomeBytes>| {
        Some(MinRate {
            bytes_per_s: raw.copied()?.0,
            window,
        })
    };
    Some(RatesUnderLoad {
        request_body: rate(&raw.request_body)?,
        response: rate(&raw.response)?,
    })
}

/// Resolves the rate limit of a listener or a route; `Some(None)` if it is off.
pub(super) fn rate_limit(
    raw: &Field<Or<Off, Seldom<raw::RateLimit>>>,
) -> Option<Option<RateLimit>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    let bucket = raw.token_bucket.get()?;
    let fill = time(&bucket.fill_interval)?;
    let per_fill = u32::try_from(bucket.tokens_per_fill.copied()?.0).ok()?;
    Some(Some(RateLimit {
        key: client_by(raw.key.get()?)?,
        bucket: Bucket {
            max_tokens: u32::try_from(bucket.max_tokens.copied()?.0).ok()?,
            interval: (fill / per_fill).max(Duration::from_nanos(1)),
        },
        max_keys: count(&raw.max_keys)?,
    }))
}

/// Resolves the key by which clients are told apart.
pub(super) fn client_by(raw: &raw::ClientBy) -> Option<ClientBy> {
    Some(match raw {
        raw::ClientBy::Client(word) => {
            word.get()?;
            ClientBy::Client
        }
        raw::ClientBy::Header(header) => ClientBy::Header(header.header.get()?.0.clone()),
    })
}

/// Resolves the bounds on the whole process; `Some(None)` if they are off.
pub(super) fn overload_manager(
    raw: &Field<Or<Off, raw::OverloadManager>>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<OverloadManager>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    let requests = raw.stop_accepting_requests.copied()?.0;
    let connections = raw.stop_accepting_connections.copied()?.0;
    if connections < requests {
        let message = "connections would be refused before requests are".to_owned();
        let help = format!("give at least {requests}, as `stop_accepting_requests` has it");
        let keys = [
            &raw.stop_accepting_connections,
            &raw.stop_accepting_requests,
        ];
        let given = keys.into_iter().find(|key| key.given);
        let span = &given.unwrap_or(&raw.stop_accepting_connections).span;
        reporter.error(span, message, Some(help));
        return None;
    }
    Some(Some(OverloadManager {
        heap: HeapBounds {
            max_bytes: raw.max_heap_size.copied()?.0,
            stop_accepting_requests: requests,
            stop_accepting_connections: connections,
        },
        refresh_interval: raw.refresh_interval.copied()?.0,
    }))
}
