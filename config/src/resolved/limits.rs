//! Bounds on what one client may take.

use std::time::Duration;

pub use sprat_scheduler::limits::{Bucket, HeapBounds, MinRate};

/// The bounds on what clients of a listener may take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerLimits {
    /// Requests in progress, over all workers; `None` is without bound.
    pub max_requests: Option<usize>,
    /// The limits of each client.
    pub per_client: PerClient,
    /// The least that a client must move.
    pub min_rates: MinRates,
    /// The limit on requests over time.
    pub rate_limit: Option<RateLimit>,
}

/// Bounds on each client.
#[derive(Clone, Debug, PartialEq)]
pub struct PerClient {
    /// Open connections; `None` is without bound.
    pub max_connections: Option<usize>,
    /// Requests in progress; `None` is without bound.
    pub max_requests: Option<usize>,
    /// Leading bits of an IPv4 address that make a client; 32 at most.
    pub ipv4_prefix: u8,
    /// Leading bits of an IPv6 address that make a client; 128 at most.
    pub ipv6_prefix: u8,
}

impl Default for PerClient {
    fn default() -> Self {
        Self {
            max_connections: None,
            max_requests: None,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        }
    }
}

/// The least that a client must move while it is waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MinRates {
    /// The least rate of a request's body; `None` if anything will do.
    pub request_body: Option<MinRate>,
    /// The least rate of what is sent to a client; `None` if anything will do.
    pub response: Option<MinRate>,
    /// The least rate of a request's body, while others need its client's place.
    pub request_body_under_load: Option<MinRate>,
    /// The least rate of what is sent to a client, while others need its place.
    pub response_under_load: Option<MinRate>,
}

/// The least rates that a client must keep, with and without load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinRateRules {
    /// The least rate while others do not need the client's place.
    pub idle: MinRate,
    /// The least rate while others need the place.
    pub under_load: MinRate,
}

impl MinRateRules {
    /// Returns the rate that holds; `pressed` if others need the client's place.
    pub fn at(&self, pressed: bool) -> &MinRate {
        match pressed {
            true => &self.under_load,
            false => &self.idle,
        }
    }
}

impl MinRates {
    /// Returns the rates for request bodies; `None` if anything will do.
    pub fn of_request_body(&self) -> Option<MinRateRules> {
        rules(self.request_body, self.request_body_under_load)
    }

    /// Returns the rates for responses; `None` if anything will do.
    pub fn of_response(&self) -> Option<MinRateRules> {
        rules(self.response, self.response_under_load)
    }
}

fn rules(idle: Option<MinRate>, under_load: Option<MinRate>) -> Option<MinRateRules> {
    let idle = idle?;
    Some(MinRateRules {
        idle,
        under_load: under_load.map_or(idle, |own| MinRate {
            bytes_per_s: own.bytes_per_s.max(idle.bytes_per_s),
            window: own.window.min(idle.window),
        }),
    })
}

/// The limit on requests of each client over time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// The key by which requests count together.
    pub key: ClientBy,
    /// The number of requests that may come at once, and how fast more are allowed.
    pub bucket: Bucket,
    /// Clients that are told apart at a time.
    pub max_keys: usize,
}

/// The key by which clients are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientBy {
    /// The client's address, cut as [`PerClient`] says.
    Client,
    /// The value of this field (its name in lower case) of the client's requests; the address where
    /// there is none.
    Header(String),
}

/// The bounds on the process's memory, and how often it is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct OverloadManager {
    /// The bytes of memory at which requests and connections are refused, and exchanges ended.
    pub heap: HeapBounds,
    /// The interval at which memory is looked at; not zero.
    pub refresh_interval: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bytes_per_s: u64, window_s: u64) -> MinRate {
        MinRate {
            bytes_per_s,
            window: Duration::from_secs(window_s),
        }
    }

    #[test]
    fn under_load_a_rule_is_never_milder() {
        let none = MinRates::default();
        assert_eq!((none.of_request_body(), none.of_response()), (None, None));
        let rates = MinRates {
            request_body: Some(rate(100, 10)),
            request_body_under_load: Some(rate(50, 5)),
            response: Some(rate(200, 20)),
            response_under_load: Some(rate(300, 30)),
        };
        let request = rates.of_request_body().unwrap();
        assert_eq!(*request.at(false), rate(100, 10));
        assert_eq!(*request.at(true), rate(100, 5));
        let response = rates.of_response().unwrap();
        assert_eq!(*response.at(false), rate(200, 20));
        assert_eq!(*response.at(true), rate(300, 20));
    }

    #[test]
    fn the_rule_is_the_same_under_load_unless_it_is_given() {
        let rates = MinRates {
            response: Some(rate(200, 20)),
            request_body_under_load: Some(rate(50, 5)),
            ..MinRates::default()
        };
        assert_eq!(rates.of_request_body(), None);
        let same = MinRateRules {
            idle: rate(200, 20),
            under_load: rate(200, 20),
        };
        assert_eq!(rates.of_response(), Some(same));
    }
}
