//! The properties of the metrics that must hold when a run is over.

use sprat_server::simulation::Simulated;

use crate::world::World;

/// The gauges that must be 0 at the end, when all that was taken has been given back.
pub(crate) const NOTHING_LEFT: [&str; 9] = [
    "sprat_open_requests",
    "sprat_open_connections",
    "sprat_open_tunnels",
    "sprat_waiting_requests",
    "sprat_upstream_outstanding",
    "sprat_upstream_idle_connections",
    "sprat_uplink_open_flows",
    "sprat_uplink_waiting_flows",
    "sprat_uplink_class_flows",
];

/// Checks that all that was taken has been given back, and that the uplink was debited for the
/// `sent` bytes that went out on the wire.
pub(crate) fn check(world: &World, proxy: &Simulated, sent: u64) {
    let metrics = &proxy.metrics();
    for name in NOTHING_LEFT {
        if sum(world, metrics, name).is_some_and(|left| left != 0.0) {
            world.wrong("the end", &format!("{name} is not 0"));
        }
    }
    // Each uplink has counted for itself.
    if world.plan.reloads.iter().any(|reload| reload.drains) {
        return;
    }
    let debited = proxy.debited_wire_bytes();
    if let Some(debited) = debited.map(|bytes| world.plant.debited(bytes))
        && debited != sent
    {
        let what = format!("{debited} bytes were debited for {sent} that went out");
        world.wrong("the end", &what);
    }
    // It may not have fallen, and so is no less.
    let told = sum(world, metrics, "sprat_uplink_wire_bytes_total");
    if told.is_some_and(|told| told < sent as f64) {
        let what = format!("{told:?} bytes are told of {sent} that went out");
        world.wrong("the end", &what);
    }
}

/// Returns the value of a metric that has these values among its labels'.
pub(crate) fn labelled(metrics: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut own = lines(metrics, name);
    let has = |line: &str| {
        labels
            .iter()
            .all(|own| line.contains(&format!("=\"{own}\"")))
    };
    own.find_map(|(line, value)| has(line).then_some(value))
}

/// Returns the sum of a metric over all its labels, if it exists.
pub(crate) fn total(metrics: &str, name: &str) -> Option<f64> {
    let values = lines(metrics, name).map(|(_, value)| value);
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

fn sum(world: &World, metrics: &str, name: &str) -> Option<f64> {
    total(metrics, name).map(|sum| world.plant.counted(name, sum))
}

/// Returns the lines of a metric, each with its value.
fn lines<'a>(metrics: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    let own = metrics.lines().filter(move |line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{']))
    });
    own.map(|line| (line, line.rsplit(' ').next().unwrap().parse().unwrap()))
}
