//! Bounds on what one client may take.

use std::time::Duration;

use sprat_scheduler::Time;
use sprat_scheduler::limits::Patience;
pub use sprat_scheduler::limits::{Bucket, HeapBounds, MinRate};

/// The bounds on what clients of a listener may take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerLimits {
    /// The most requests in progress, over all workers; `None` is without bound.
    pub max_requests: Option<usize>,
    /// The limits of each client.
    pub per_client: PerClient,
    /// The least rates at which a client must send and receive.
    pub min_rates: MinRates,
    /// The limit on requests of each client over time; none if there is none.
    pub rate_limit: Option<RateLimit>,
}

/// The bounds on what each client takes at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct PerClient {
    /// The most open connections; `None` is without bound.
    pub max_connections: Option<usize>,
    /// The most requests in progress; `None` is without bound.
    pub max_requests: Option<usize>,
    /// The leading bits of an IPv4 address that identify a client; 32 at most.
    pub ipv4_prefix: u8,
    /// The leading bits of an IPv6 address that identify a client; 128 at most.
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

/// The least rates at which a client must send and receive, while Sprat waits for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MinRates {
    /// The least rate of a request's body; `None` if there is none.
    pub request_body: Option<MinRate>,
    /// The least rate of what is sent to a client; `None` if there is none.
    pub response: Option<MinRate>,
    /// The least rate of a request's body, while other clients need the client's place.
    pub request_body_under_load: Option<MinRate>,
    /// The least rate of what is sent to a client, while other clients need its place.
    pub response_under_load: Option<MinRate>,
}

/// The least rates that a client must keep, with and without load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinRateRules {
    /// The least rate while no other client needs the client's place.
    pub idle: MinRate,
    /// The least rate while other clients need the client's place.
    pub under_load: MinRate,
}

impl MinRateRules {
    /// Returns the rate that holds; `pressed` says whether other clients need the client's place.
    pub fn at(&self, pressed: bool) -> &MinRate {
        match pressed {
            true => &self.under_load,
            false => &self.idle,
        }
    }

    /// Returns when to look at a client next; `None` while it is not waited for. No event tells
    /// that others come to need its place. So it is looked at when it would be too slow under
    /// load, and again a window later, for as long as no other needs the place.
    pub fn next_look(&self, patience: &Patience, now: Time, pressed: bool) -> Option<Time> {
        let due = patience.due(&self.under_load)?;
        if pressed || now < due {
            return Some(due);
        }
        Some(patience.due(&self.idle)?.min(now + self.under_load.window))
    }
}

impl MinRates {
    /// Returns the least rates of request bodies; `None` if there are none.
    pub fn of_request_body(&self) -> Option<MinRateRules> {
        rules(self.request_body, self.request_body_under_load)
    }

    /// Returns the least rates of responses; `None` if there are none.
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
    /// The key by which requests are those of one client.
    pub key: ClientBy,
    /// The number of requests that may come at once, and how fast more are allowed.
    pub bucket: Bucket,
    /// The most clients that are counted at the same time.
    pub max_keys: usize,
}

/// The key by which clients are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientBy {
    /// The client's address, cut as [`PerClient`] says.
    Client,
    /// The value of this header field, named in lower case, of the client's requests. A request
    /// without it goes by the client's address.
    Header(String),
}

/// The bounds on the process's memory, and how often Sprat checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct OverloadManager {
    /// The bytes of memory from which Sprat refuses requests, refuses connections, and cuts
    /// exchanges.
    pub heap: HeapBounds,
    /// The interval at which memory is checked; not zero.
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

    #[test]
    fn a_client_is_looked_at_whenever_others_may_need_its_place() {
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let rules = MinRateRules {
            idle: rate(200, 12),
            under_load: rate(4000, 5),
        };
        let mut patience = Patience::default();
        assert_eq!(rules.next_look(&patience, at(1), false), None);
        patience.wait(at(1));
        let looks = |patience: &Patience, now, pressed| {
            let next = rules.next_look(patience, at(now), pressed);
            next.map(|next| next.since(Time::ZERO).as_secs())
        };
        assert_eq!(looks(&patience, 1, true), Some(6));
        // Without load, each look is later than the one before, up to what is due then.
        assert_eq!(looks(&patience, 1, false), Some(6));
        assert_eq!(looks(&patience, 6, false), Some(11));
        assert_eq!(looks(&patience, 11, false), Some(13));
        // What others need is due at once.
        assert_eq!(looks(&patience, 11, true), Some(6));
    }
}
