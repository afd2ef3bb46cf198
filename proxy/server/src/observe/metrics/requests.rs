//! The metrics of requests, of all together and by priority class.

use sprat_config::resolved::Algorithm;
use sprat_net::buffer::Fallback;
use sprat_net::counters::{SIZE_CLASS_NAMES, Seconds, Slowdowns, Total};
use sprat_net::error::{Fault, Reason};
use sprat_net::metrics::{Labels, Row, Series, Topic};
use sprat_scheduler::Mark;

use super::labels::{CLASS, CLUSTER, CODES};
use super::snapshot::Snapshot;

const NONE: Labels = Labels::NONE;
const SIZE: Labels = NONE.and("size", SIZE_CLASS_NAMES.len());

#[rustfmt::skip]
pub(super) static REQUESTS: Topic<Snapshot> = Topic { title: "Requests", rows: &[
    Row::counter("sprat_requests_total", CLUSTER.and("code", CODES.len()).plus(CODES.len()),
        "Requests that are over, by cluster (empty if none matched) and class of the status code; none if the client got none",
        |now, out| {
            by_code(out, "", |code| now.sum(|own| &own.unrouted[code]));
            for (index, cluster) in now.view.clusters.iter().enumerate() {
                by_code(out, &cluster.name, |code| now.sum_named(|own| &own.clusters[index].responses[code]));
            }
        }),
    Row::gauge("sprat_open_requests", NONE,
        "Requests in progress",
        |now, out| out.one(now.sum(|own| &own.open_requests))),
    Row::counter("sprat_bad_requests_total", NONE.and("reason", Fault::Client.reasons()),
        "Requests that were malformed, or whose client went away, by reason",
        |now, out| by_reason(now, out, |fault| fault == Fault::Client)),
    Row::counter("sprat_failed_requests_total", NONE.and("reason", Fault::Upstream.reasons() + Fault::Proxy.reasons()),
        "Requests that failed for another reason, refusals included, by reason",
        |now, out| by_reason(now, out, |fault| fault != Fault::Client)),
    Row::counter("sprat_aborted_responses_total", NONE,
        "Responses that were cut short: by the client, the backend or a time-out",
        |now, out| out.one(now.sum(|own| &own.aborted))),
    Row::counter("sprat_mirrored_requests_total", NONE.and("result", 2),
        "Copies of requests for other clusters (request_mirror_policies): answered to the end, or dropped",
        |now, out| {
            out.put(&["answered"], now.sum(|own| &own.mirrored));
            out.put(&["dropped"], now.sum(|own| &own.mirrors_dropped));
        }),
    Row::counter("sprat_compressed_responses_total", NONE.and("coding", Algorithm::ALL.len()),
        "Responses that were compressed",
        |now, out| for algorithm in Algorithm::ALL {
            out.put(&[algorithm.name()], now.sum(|own| &own.compressed[algorithm.index()]));
        }),
    Row::counter("sprat_compressor_bytes_total", NONE.and("side", 2),
        "Bytes of bodies before compression (in) and after (out)",
        |now, out| for (side, name) in ["in", "out"].iter().enumerate() {
            out.put(&[name], now.sum(|own| &own.compressor_bytes[side]));
        }),
    Row::gauge("sprat_buffered_bytes", NONE.and("place", 2),
        "Bytes of bodies that routes have buffered (buffer): in memory, or in temporary files",
        |now, out| {
            out.put(&["memory"], now.view.buffers.memory_bytes());
            out.put(&["file"], now.view.buffers.file_bytes());
        }),
    Row::counter("sprat_buffered_early_ends_total", NONE,
        "Buffered responses that the endpoint had finished before the client had received them",
        |now, out| out.one(now.view.buffers.early())),
    Row::counter("sprat_buffer_fallbacks_total", NONE.and("reason", Fallback::ALL.len()),
        "Bodies that stopped being buffered and went on at the client's pace, by what was full (io: the file could not be written)",
        |now, out| for reason in Fallback::ALL {
            out.put(&[reason.name()], now.view.buffers.fallbacks(reason));
        }),
    Row::counter("sprat_response_bytes_total", NONE,
        "Bytes of response bodies handed to clients",
        |now, out| out.one(now.sum(|own| &own.response_bytes))),
    Row::counter("sprat_marked_bytes_total", NONE.and("mark", Mark::ALL.len()),
        "Bytes written to clients in packets with the code point of a mark, by mark",
        |now, out| for mark in Mark::ALL {
            out.put(&[mark.name()], now.sum(|own| &own.marked_bytes[mark.index()]));
        }),
    Row::histogram::<Seconds>("sprat_response_duration_seconds", SIZE,
        "From the end of the request's head to the response's last byte, by size class",
        |now, out| for (class, size) in SIZE_CLASS_NAMES.iter().enumerate() {
            out.put(&[size], Total::of(now.view.workers.iter().map(|own| &own.durations[class])));
        }),
    Row::histogram::<Seconds>("sprat_response_acknowledged_seconds", SIZE,
        "From the end of the request's head until the client's TCP had acknowledged all of the response, by size class (only if responses are paced)",
        |now, out| for (class, size) in SIZE_CLASS_NAMES.iter().enumerate() {
            out.put(&[size], Total::of(now.view.workers.iter().map(|own| &own.acknowledged[class])));
        }),
    Row::histogram::<Slowdowns>("sprat_response_slowdown_ratio", SIZE,
        "Time from the response's head to its last byte, divided by the time that the uplink alone needs for it, by size class (only if the uplink has a rate)",
        |now, out| for (class, size) in SIZE_CLASS_NAMES.iter().enumerate() {
            out.put(&[size], Total::of(now.view.workers.iter().map(|own| &own.slowdowns[class])));
        }),
] };

#[rustfmt::skip]
pub(super) static CLASSES: Topic<Snapshot> = Topic { title: "Priority classes", rows: &[
    Row::counter("sprat_class_responses_total", CLASS.and("code", CODES.len()),
        "Requests that are over, by priority class and class of the status code",
        |now, out| for (class, name) in now.view.classes.iter().enumerate() {
            by_code(out, name, |code| now.sum_named(|own| &own.classes[class].responses[code]));
        }),
    Row::counter("sprat_class_bytes_total", CLASS,
        "Bytes of bodies that went out whole",
        |now, out| for (class, name) in now.view.classes.iter().enumerate() {
            out.put(&[name], now.sum_named(|own| &own.classes[class].bytes));
        }),
    Row::histogram::<Seconds>("sprat_class_duration_seconds", CLASS,
        "From the end of the request's head to the response's last byte",
        |now, out| for (class, name) in now.view.classes.iter().enumerate() {
            out.put(&[name], Total::of(now.view.named.iter().map(|own| &own.classes[class].durations)));
        }),
] };

/// Adds the counts of responses under this name, by class of status code.
pub(super) fn by_code(out: &mut Series<'_, '_>, name: &str, of: impl Fn(usize) -> u64) {
    for (index, code) in CODES.into_iter().enumerate() {
        out.put(&[name, code], of(index));
    }
}

fn by_reason(now: &Snapshot, out: &mut Series<'_, '_>, is_wanted: impl Fn(Fault) -> bool) {
    for reason in Reason::ALL {
        if is_wanted(reason.facts().fault) {
            out.put(
                &[reason.name()],
                now.sum(|own| &own.failures[reason.index()]),
            );
        }
    }
}
