//! The settings of the proxy in a run, and the changes that a reload may make.

use fastrand::Rng;

use crate::health::Health;

/// The settings of a run's configuration; all others have their defaults.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The number of workers, which no reload changes.
    workers: usize,
    rate: &'static str,
    policy: &'static str,
    /// The settings of the class that some requests belong to.
    class: &'static str,
    /// The rule for the requests of that class.
    class_match: &'static str,
    /// The time-out of idle connections. It is longer than a healthy client takes to read what a
    /// socket may hold of the answer before.
    idle_timeout: &'static str,
    stream_idle_timeout: &'static str,
    /// Whether some requests go to `barn`; otherwise all go to `farm`.
    has_barn_route: bool,
    barn: Cluster,
    farm: Cluster,
    /// The health checks of the farm's endpoints.
    health: Option<Health>,
}

#[derive(Debug, Clone)]
struct Cluster {
    endpoints: Vec<&'static str>,
    dispatch: &'static str,
    max_requests: &'static str,
    waiting: &'static str,
    max_connections: &'static str,
    idle_timeout: &'static str,
    /// Whether the cluster's endpoints speak HTTP/2.
    http2: bool,
}

fn one(rng: &mut Rng, of: &[&'static str]) -> &'static str {
    of[rng.usize(..of.len())]
}

impl Settings {
    pub(crate) fn random(rng: &mut Rng, workers: usize) -> Self {
        Self {
            workers,
            rate: one(rng, &["unlimited", "1mbit", "10mbit", "10mbit", "100mbit"]),
            policy: policy(rng),
            class: class(rng),
            class_match: class_match(rng),
            idle_timeout: one(rng, &["75s", "90s"]),
            stream_idle_timeout: one(rng, &["60s", "90s"]),
            has_barn_route: rng.bool(),
            barn: Cluster::random(rng),
            farm: Cluster::random(rng),
            health: None,
        }
    }

    /// Returns these settings with some of them changed.
    pub(crate) fn changed(&self, rng: &mut Rng) -> Self {
        let mut next = self.clone();
        for _ in 0..rng.u8(1..=3) {
            match rng.u8(..9) {
                // Mostly from a rate to another: the uplink stays, and what
                // waits for it gets its place anew.
                0 => next.rate = one(rng, &["1mbit", "10mbit", "100mbit", "unlimited"]),
                1 => next.rate = one(rng, &["1mbit", "3mbit", "10mbit", "100mbit"]),
                2 => next.policy = policy(rng),
                3 => next.class = class(rng),
                4 => next.class_match = class_match(rng),
                5 => {
                    next.idle_timeout = one(rng, &["75s", "90s", "120s"]);
                    next.stream_idle_timeout = one(rng, &["60s", "90s", "70s"]);
                }
                6 => rng.shuffle(&mut next.farm.endpoints),
                7 => next.farm = Cluster::random(rng),
                _ => next.has_barn_route ^= true,
            }
        }
        next
    }

    /// Sets whether the farm's endpoints, and the barn's, speak HTTP/2.
    pub(crate) fn speak_http2(&mut self, which: [bool; 2]) {
        [self.farm.http2, self.barn.http2] = which;
    }

    /// Sets the health checks of the farm's endpoints.
    pub(crate) fn keep_health(&mut self, health: &Health) {
        self.health = Some(health.clone());
    }

    /// Returns the farm's endpoints, if they have health checks.
    pub(crate) fn kept_endpoints(&self) -> Option<&[&'static str]> {
        self.health.as_ref().map(|_| &*self.farm.endpoints)
    }

    /// Returns whether unsafe requests may be repeated.
    pub(crate) fn repeats_unsafe(&self) -> bool {
        let health = self.health.as_ref();
        health.is_some_and(|health| health.repeats_unsafe)
    }

    /// Returns whether every endpoint of the farm has its turn, sooner or later.
    pub(crate) fn takes_turns(&self) -> bool {
        ["round_robin", "random", "p2c"].contains(&self.farm.dispatch)
    }

    /// Returns whether any endpoint speaks HTTP/2.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.farm.http2 || self.barn.http2
    }

    /// Returns whether requests may be refused for want of room.
    pub(crate) fn is_narrow(&self) -> bool {
        self.farm.is_narrow() || self.barn.is_narrow()
    }

    /// Returns whether responses are not paced.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.rate == "unlimited"
    }

    /// Returns the configuration as the proxy reads it. Minimum rates for responses are off: they
    /// need `TCP_INFO`, which a simulated connection does not have.
    pub(crate) fn text(&self) -> String {
        let Self {
            workers,
            rate,
            policy,
            class,
            class_match,
            idle_timeout,
            stream_idle_timeout,
            health,
            ..
        } = self;
        let (kept, retried) = match health {
            None => Default::default(),
            Some(health) => (health.cluster(), health.route()),
        };
        let barn_route = match self.has_barn_route {
            true => "  - {match: {prefix: /r/1}, cluster: barn}\n",
            false => "",
        };
        format!(
            "version: 1
runtime: {{workers: {workers}}}
admin: off
listeners:
  - address: 127.0.0.1:0
    idle_timeout: {idle_timeout}
    stream_idle_timeout: {stream_idle_timeout}
    min_rates: {{response: off}}
uplink: {{rate: {rate}, policy: {policy}}}
classes:
  some: {{{class}}}
class_rules:
  - {{match: {{{class_match}}}, class: some}}
clusters:
  farm: {}
  barn: {}
routes:
{barn_route}  - cluster: farm
{retried}",
            self.farm.text(&kept),
            self.barn.text(""),
        )
    }
}

impl Cluster {
    fn random(rng: &mut Rng) -> Self {
        let endpoints = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"];
        Self {
            dispatch: one(
                rng,
                &[
                    "round_robin",
                    "random",
                    "p2c",
                    "least_request",
                    "least_work",
                    "psqf",
                ],
            ),
            max_requests: one(rng, &["unlimited", "unlimited", "1", "3"]),
            waiting: one(rng, &["1024", "1024", "2"]),
            max_connections: one(rng, &["1024", "1024", "2"]),
            idle_timeout: one(rng, &["60s", "1s"]),
            endpoints: endpoints[..rng.usize(1..=3)].to_vec(),
            http2: false,
        }
    }

    fn is_narrow(&self) -> bool {
        self.max_requests != "unlimited" || self.max_connections != "1024"
    }

    fn text(&self, more: &str) -> String {
        let Self {
            dispatch,
            max_requests,
            waiting,
            max_connections,
            idle_timeout,
            ..
        } = self;
        let http2 = match self.http2 {
            true => ", http2: {}",
            false => "",
        };
        let endpoints = self.endpoints.join(", ");
        format!(
            "{{endpoints: [{endpoints}], dispatch: {dispatch}, max_requests: {max_requests}, \
             wait_queue: {{max_requests: {waiting}}}, max_connections: {max_connections}, \
             idle_timeout: {idle_timeout}{http2}{more}}}"
        )
    }
}

fn policy(rng: &mut Rng) -> &'static str {
    let all = ["srpt", "srpt", "srpt-aged", "fair", "fcfs", "bands"];
    one(rng, &all)
}

/// Returns the settings of a class on the uplink alone: before a backend its requests may be
/// refused.
fn class(rng: &mut Rng) -> &'static str {
    let all = [
        "level: 0",
        "level: 3, weight: 1",
        "level: 3, weight: 5",
        "level: 15",
        "rate: 1mbit",
        "rate: 8mbit, level: 1",
        "idle_only: true",
        "idle_only: true, level: 9",
    ];
    one(rng, &all)
}

fn class_match(rng: &mut Rng) -> &'static str {
    let all = [
        "methods: [GET]",
        "prefix: /r/2",
        "prefix: /",
        "methods: [POST]",
    ];
    one(rng, &all)
}
