//! The limits on the rate of each client's requests.

use std::hash::RandomState;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue};
use sprat_config::resolved::{RateLimit, Route};
use sprat_net::client::{ClientKey, ClientNumbers};
use sprat_net::error::{Advice, Denial, RateStatus, Reason};
use sprat_scheduler::Time;
use sprat_scheduler::limits::{Bucket, Exceeded, RateTable};
use tokio::time::Instant;

use super::lock;

/// The number of parts of the table of buckets, each with a lock of its own.
const SHARDS: usize = 8;

/// Token buckets, one for each client.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    clients: ClientNumbers,
    bucket: Bucket,
    shards: [Mutex<RateTable>; SHARDS],
    epoch: Instant,
}

impl RateLimiter {
    /// Makes the limiter, with all buckets full.
    pub(crate) fn new(config: &RateLimit) -> Self {
        let keys = config.max_keys.div_ceil(SHARDS);
        Self {
            clients: ClientNumbers::new(&config.key, RandomState::new()),
            bucket: config.bucket,
            shards: std::array::from_fn(|_| Mutex::new(RateTable::new(config.bucket, keys))),
            epoch: Instant::now(),
        }
    }

    /// Makes the limiter that a route asks for, if it asks for one.
    pub(crate) fn of_route(route: &Route) -> Option<Arc<Self>> {
        let limit = route.rate_limit.as_ref()?;
        Some(Arc::new(Self::new(limit)))
    }

    /// Takes a token for a request, or returns the denial that tells the client when to
    /// come again.
    pub(crate) fn admit(&self, client: ClientKey, headers: &HeaderMap) -> Result<(), Denial> {
        let key = self.clients.number(|| client, headers);
        let now = Time::ZERO + self.epoch.elapsed();
        // The lowest bits: a table goes by the highest.
        let shard = &self.shards[key as usize % SHARDS];
        let taken = lock(shard).take(key, now);
        taken
            .map(drop)
            .map_err(|exceeded| Denial::with(Reason::RateLimited, self.advice(exceeded)))
    }

    fn advice(&self, exceeded: Exceeded) -> Advice {
        let seconds = |time: std::time::Duration| time.as_millis().div_ceil(1000).max(1) as u64;
        let retry_after_s = seconds(exceeded.retry_after);
        let tokens = self.bucket.max_tokens;
        let window_s = seconds(self.bucket.interval.saturating_mul(tokens));
        let field = |text: String| HeaderValue::try_from(text).ok();
        let policy = field(format!("\"requests\";q={tokens};w={window_s}"));
        let state = field(format!("\"requests\";r=0;t={retry_after_s}"));
        Advice {
            rate: policy
                .zip(state)
                .map(|(policy, state)| RateStatus { policy, state }),
            ..Advice::later(retry_after_s)
        }
    }
}
