//! The metrics of clients' connections, tunnels and logs.

use sprat_net::counters::Counter;
use sprat_net::metrics::{Labels, Row, Series, Topic};
use sprat_net::proxy_protocol::HEADER_RESULTS;

use super::labels::{CODES, LISTENER};
use super::requests::by_code;
use super::snapshot::Snapshot;
use crate::observe::stats::{ListenerStats, ListenerView, RefusedConnection};
use crate::observe::{access_log, standard_error};

const NONE: Labels = Labels::NONE;

#[rustfmt::skip]
pub(super) static CONNECTIONS: Topic<Snapshot> = Topic { title: "Listeners, connections and tunnels", rows: &[
    Row::counter("sprat_listener_requests_total", LISTENER.and("code", CODES.len()),
        "Requests that are over, by listener and class of the status code",
        |now, out| for own in &now.view.listeners {
            by_code(out, &own.name, |code| own.sum(|stats| &stats.responses[code]));
        }),
    Row::counter("sprat_connections_total", LISTENER,
        "Client connections accepted",
        |now, out| each(now, out, |own| &own.connections)),
    Row::gauge("sprat_listener_open_connections", LISTENER,
        "Client connections open at a listener (its bound is max_connections)",
        |now, out| now.view.listeners.iter().for_each(|own| out.put(&[&own.name], own.open.used()))),
    Row::gauge("sprat_open_connections", NONE,
        "Client connections open at all listeners, including those that a reload has removed",
        |now, out| out.one(now.sum(|own| &own.open_connections))),
    Row::gauge("sprat_parked_connections", NONE,
        "Idle client connections that are parked: kept open with little memory",
        |now, out| out.one(now.sum(|own| &own.parked_connections))),
    Row::counter("sprat_refused_connections_total", LISTENER.and("reason", RefusedConnection::ALL.len()),
        "Client connections closed at once, by reason: the bound of the listener or of the client is reached, or memory is short",
        |now, out| for own in &now.view.listeners {
            for reason in RefusedConnection::ALL {
                out.put(&[&own.name, reason.name()], own.sum(|stats| &stats.refused[reason as usize]));
            }
        }),
    Row::counter("sprat_accept_errors_total", LISTENER,
        "Client connections that could not be accepted",
        |now, out| each(now, out, |own| &own.accept_errors)),
    Row::counter("sprat_proxy_headers_total", NONE.and("result", HEADER_RESULTS.len()),
        "Headers of the PROXY protocol, by result; no sample if no listener expects them",
        |now, out| for (index, result) in HEADER_RESULTS.into_iter().enumerate().filter(|_| now.view.announced) {
            out.put(&[result], now.sum(|own| own.proxy_headers.of(index)));
        }),
    Row::counter("sprat_tunnels_total", NONE,
        "Connections that have switched to another protocol",
        |now, out| out.one(now.sum(|own| &own.tunnels))),
    Row::gauge("sprat_open_tunnels", NONE,
        "Connections open that have switched to another protocol",
        |now, out| out.one(now.sum(|own| &own.open_tunnels))),
    Row::counter("sprat_tunnel_bytes_total", NONE.and("direction", 2),
        "Bytes passed on after a switch to another protocol: to the client (downstream), to the endpoint (upstream)",
        |now, out| {
            out.put(&["downstream"], now.sum(|own| &own.tunnel_bytes_down));
            out.put(&["upstream"], now.sum(|own| &own.tunnel_bytes_up));
        }),
] };

#[rustfmt::skip]
pub(super) static LOGS: Topic<Snapshot> = Topic { title: "Logs", rows: &[
    Row::counter("sprat_access_log_dropped_lines_total", NONE,
        "Lines of the access log that were dropped because too many waited",
        |now, out| out.one(now.sum(|own| &own.log_lines_dropped))),
    Row::counter("sprat_access_log_lost_lines_total", NONE,
        "Lines of the access log that could not be written",
        |_, out| out.one(access_log::lines_lost())),
    Row::counter("sprat_log_lost_lines_total", NONE,
        "Lines of the log on standard error that were lost",
        |_, out| out.one(standard_error::lines_lost())),
] };

impl ListenerView {
    fn sum(&self, of: impl Fn(&ListenerStats) -> &Counter) -> u64 {
        self.stats.iter().map(|own| of(own).get()).sum()
    }
}

fn each(now: &Snapshot, out: &mut Series<'_, '_>, of: impl Fn(&ListenerStats) -> &Counter) {
    for own in &now.view.listeners {
        out.put(&[&own.name], own.sum(&of));
    }
}
