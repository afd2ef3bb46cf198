//! Endpoints that fail and return, and a proxy that checks their health.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use sprat_server::simulation::Simulated;
use tokio::time::{sleep, timeout};

use crate::backend::number;
use crate::planted::Way;
use crate::wire::{Halves, pair};
use crate::world::World;
use crate::{counts, http};

/// The path of the proxy's health checks.
const CHECK: &str = "/health";

/// The path that the simulation asks for in the end, to see which endpoints answer.
const PROBE: &str = "/probe";

/// The time after which all endpoints that were out of use are in use again.
const SETTLED: Duration = Duration::from_secs(60);

/// The number of probes: enough for each of three endpoints to get some, even at random.
const PROBES: usize = 60;

/// The health checks of a cluster's endpoints, and the repetition of requests.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    outliers: Option<&'static str>,
    checks: Option<&'static str>,
    retry_on: &'static str,
    num_retries: u8,
    pub(crate) repeats_unsafe: bool,
}

/// A time in which an endpoint is away.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    endpoint: IpAddr,
    from_ms: u64,
    until_ms: u64,
    pub(crate) how: Away,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Away {
    /// The endpoint refuses connections, and closes those that are used.
    Refuses,
    /// The endpoint answers no attempt to connect.
    Unanswered,
    /// The endpoint answers every request with 503.
    Fails,
}

impl Health {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let outliers = "{consecutive_5xx: 3, consecutive_gateway_failure: 2, \
                        consecutive_local_origin_failure: 2, interval: 1s, \
                        base_ejection_time: 2s, max_ejection_time: 10s, \
                        max_ejection_percent: 100}";
        let checks = "{http_health_check: {path: /health}, interval: 5s, timeout: 1s, \
                      healthy_threshold: 2, unhealthy_threshold: 2}";
        let which = rng.u8(..3);
        Self {
            outliers: (which != 0).then_some(outliers),
            checks: (which != 1).then_some(checks),
            retry_on: [
                "connect-failure, refused-stream",
                "connect-failure, refused-stream, reset",
                "connect-failure, refused-stream, reset, 5xx",
            ][rng.usize(..3)],
            num_retries: rng.u8(1..=3),
            repeats_unsafe: rng.bool(),
        }
    }

    /// Returns the settings of the cluster, as the proxy reads them.
    pub(crate) fn cluster(&self) -> String {
        let mut text = ", circuit_breakers: {retry_budget: {budget_percent: 20, \
                        min_retry_concurrency: 3}}"
            .to_owned();
        for (key, value) in [
            ("outlier_detection", self.outliers),
            ("health_checks", self.checks),
        ] {
            text.extend(value.map(|value| format!(", {key}: {value}")));
        }
        text
    }

    /// Returns the settings of the cluster's route, as the proxy reads them.
    pub(crate) fn route(&self) -> String {
        let Self {
            retry_on,
            num_retries,
            repeats_unsafe,
            ..
        } = self;
        format!(
            "    retry_policy: {{retry_on: [{retry_on}], num_retries: {num_retries}, \
             retry_non_idempotent: {repeats_unsafe}}}\n"
        )
    }
}

impl Outage {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let from_ms = rng.u64(..4_000);
        Self {
            endpoint: IpAddr::from([10, 0, 0, rng.u8(1..=3)]),
            from_ms,
            until_ms: from_ms + rng.u64(..20_000),
            how: [Away::Refuses, Away::Unanswered, Away::Fails][rng.usize(..3)],
        }
    }

    /// Returns whether the outage concerns this endpoint at that time.
    pub(crate) fn is_of(&self, endpoint: IpAddr, now_ms: u64) -> bool {
        self.endpoint == endpoint && (self.from_ms..self.until_ms).contains(&now_ms)
    }
}

/// The treatment of a request by a backend, in place of the planned one.
pub(crate) enum Instead {
    /// The backend answers with this status.
    Answer(u16),
    /// The backend closes the connection.
    Close,
}

/// Returns the treatment of a request that comes while its endpoint is away, or that no client has
/// sent.
pub(crate) fn instead(world: &World, name: &str, endpoint: IpAddr, path: &str) -> Option<Instead> {
    let is_ours = [CHECK, PROBE].contains(&path);
    let instead = match world.away(endpoint) {
        None if is_ours => Instead::Answer(204),
        None => return None,
        Some(Away::Fails) => Instead::Answer(503),
        Some(Away::Refuses | Away::Unanswered) => Instead::Close,
    };
    match instead {
        Instead::Answer(204) if path == PROBE => drop(world.probed.borrow_mut().insert(endpoint)),
        _ if is_ours => {}
        Instead::Answer(_) => world.fault(name, Some(number(path)), "is away"),
        Instead::Close => world.fault(name, None, "is away"),
    }
    Some(instead)
}

/// Checks that every endpoint of the farm is used again when all faults are over and some time has
/// passed.
pub(crate) async fn check(world: &Rc<World>, proxy: &Simulated) {
    let settings = world.plan.all_settings().last().unwrap();
    let Some(endpoints) = settings.kept_endpoints() else {
        return;
    };
    world.is_calm.set(true);
    let outages = world.plan.outages.iter();
    let over_ms = outages.map(|own| own.until_ms).max().unwrap_or(0);
    sleep(Duration::from_millis(over_ms.saturating_sub(world.mark()))).await;
    sleep(SETTLED).await;
    let metrics = proxy.metrics();
    for name in ["sprat_ejections_total", "sprat_health_checks_total"] {
        let total = counts::total(&metrics, name);
        world.trace("the end", &format!("{name}: {total:?}"));
    }
    for endpoint in endpoints {
        let used = counts::labelled(&metrics, "sprat_endpoint_used", &["farm", endpoint]);
        if used != Some(1.0) {
            world.wrong(
                "the end",
                &format!("{endpoint} is not in use again: {used:?}"),
            );
        }
    }
    if timeout(SETTLED, probe(world, proxy)).await.is_err() {
        world.wrong("probe", "waits in vain for an answer");
    }
    for endpoint in endpoints {
        let ip = endpoint.parse::<SocketAddr>().unwrap().ip();
        if settings.takes_turns() && !world.probed.borrow().contains(&ip) {
            world.wrong("the end", &format!("{endpoint} gets no requests again"));
        }
    }
}

/// Sends so many probes to the farm that each endpoint has its turn.
async fn probe(world: &Rc<World>, proxy: &Simulated) {
    world.moved_ms.set(world.mark());
    let mut rng = world.plan.rng("probe", 0);
    let name = "probe".to_owned();
    let (theirs, mut wire) = pair(world, name, Way::ToClient, None, &mut rng).unwrap();
    let address = SocketAddr::from(([192, 168, 1, 1], 50_000));
    proxy.accept(0, 0, theirs, address).unwrap();
    let Halves {
        mut reader,
        mut writer,
    } = wire.halves();
    let request = format!("GET {PROBE} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    for _ in 0..PROBES {
        let sent = writer.send(request.as_bytes()).await;
        let head = http::head(&mut reader).await;
        let is_well = matches!(&head, Ok(Some(head)) if head.status() == 204);
        if sent.is_err() || !is_well {
            world.wrong("probe", &format!("is answered with {head:?}"));
            break;
        }
    }
    world.client_closed(wire.taken());
}
