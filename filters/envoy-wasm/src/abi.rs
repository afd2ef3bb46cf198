//! The boundary to the host: proxy-wasm's ABI 0.2.1, as far as it is used.
//!
//! This is the only module with `unsafe` code. The bindings are our own, for
//! the published ones know two answers to a callback, go on and pause, and the
//! pause of a body gathers all of it: a body larger than the host's buffer is
//! then lost. [`Action`] has the third, which holds a body and has the host read
//! no more of it.
//!
//! What this relies on, and what hosts promise
//! (`proxy-wasm/spec`, `abi-versions/v0.2.1`):
//!
//! - A virtual machine has one thread. The host calls one of [`exports`] at a
//!   time, and none from within one of its own functions.
//! - What the host returns bytes in is memory that it asked [`exports`] for,
//!   of just that length, and is ours from then on.
//! - What we lend for a call is read before it returns.
//! - A function that fails says so by its status, and has written nothing.
//!
//! Away from wasm there is no host: every call fails, and in tests one that is
//! made up answers.

use std::ptr::{null, null_mut};
use std::time::Duration;

use pairs::{pairs, serialize};

mod exports;
#[cfg(test)]
pub(crate) mod fake;
mod pairs;

/// What a callback of a stream has the host do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Pass on what came, and all that was held before.
    Continue,
    /// Hold it until the stream is continued. Of a body: together with what was
    /// held before, and the upstream is read no further than the buffer's limit.
    Hold,
}

impl Action {
    /// Of heads and trailers.
    const PAUSE: u32 = 1;
    /// Of bodies: `StopIterationAndWatermark` of Envoy, which hosts made of
    /// `proxy-wasm-cpp-host` take by number. 1 would gather the whole body.
    const STOP_AND_WATERMARK: u32 = 2;

    fn of_head(self) -> u32 {
        match self {
            Self::Continue => 0,
            Self::Hold => Self::PAUSE,
        }
    }

    fn of_body(self) -> u32 {
        match self {
            Self::Continue => 0,
            Self::Hold => Self::STOP_AND_WATERMARK,
        }
    }
}

/// A message's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Request = 0,
    Response = 2,
    /// The answer to [`http_call`].
    CallResponse = 6,
}

/// The half of a stream that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Request = 0,
    Response = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Warn = 3,
    Error = 4,
    Critical = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    Counter = 0,
    Gauge = 1,
}

const OK: u32 = 0;
const PLUGIN_CONFIGURATION: u32 = 7;

macro_rules! imports {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        #[cfg(target_arch = "wasm32")]
        #[link(wasm_import_module = "env")]
        unsafe extern "C" {
            $(fn $name($($argument: $type),*) -> u32;)*
        }

        #[cfg(all(test, not(target_arch = "wasm32")))]
        use fake::{$($name),*};

        /// No host.
        #[cfg(not(any(test, target_arch = "wasm32")))]
        #[allow(clippy::too_many_arguments)]
        mod absent {
            const UNIMPLEMENTED: u32 = 12;
            $(pub(super) unsafe fn $name($(_: $type),*) -> u32 { UNIMPLEMENTED })*
        }
        #[cfg(not(any(test, target_arch = "wasm32")))]
        use absent::{$($name),*};
    };
}

imports! {
    fn proxy_log(level: u32, text: *const u8, length: usize);
    fn proxy_get_current_time_nanoseconds(time: *mut u64);
    fn proxy_set_tick_period_milliseconds(period: u32);
    fn proxy_get_buffer_bytes(
        buffer: u32, start: usize, most: usize, bytes: *mut *mut u8, length: *mut usize,
    );
    fn proxy_get_header_map_pairs(map: u32, bytes: *mut *mut u8, length: *mut usize);
    fn proxy_get_header_map_value(
        map: u32, name: *const u8, name_length: usize, bytes: *mut *mut u8, length: *mut usize,
    );
    fn proxy_replace_header_map_value(
        map: u32, name: *const u8, name_length: usize, value: *const u8, value_length: usize,
    );
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_length: usize);
    fn proxy_get_property(
        path: *const u8, path_length: usize, bytes: *mut *mut u8, length: *mut usize,
    );
    fn proxy_get_shared_data(
        key: *const u8, key_length: usize, bytes: *mut *mut u8, length: *mut usize,
        version: *mut u32,
    );
    fn proxy_set_shared_data(
        key: *const u8, key_length: usize, value: *const u8, value_length: usize, version: u32,
    );
    fn proxy_register_shared_queue(name: *const u8, length: usize, queue: *mut u32);
    fn proxy_enqueue_shared_queue(queue: u32, value: *const u8, length: usize);
    fn proxy_dequeue_shared_queue(queue: u32, bytes: *mut *mut u8, length: *mut usize);
    fn proxy_continue_stream(half: u32);
    fn proxy_send_local_response(
        status: u32, details: *const u8, details_length: usize, body: *const u8,
        body_length: usize, fields: *const u8, fields_length: usize, grpc_status: i32,
    );
    fn proxy_http_call(
        cluster: *const u8, cluster_length: usize, head: *const u8, head_length: usize,
        body: *const u8, body_length: usize, trailers: *const u8, trailers_length: usize,
        timeout_ms: u32, token: *mut u32,
    );
    fn proxy_set_effective_context(context: u32);
    fn proxy_define_metric(kind: u32, name: *const u8, length: usize, metric: *mut u32);
    fn proxy_increment_metric(metric: u32, by: i64);
    fn proxy_record_metric(metric: u32, value: u64);
}

/// Calls a function that returns bytes; none unless it says that it has.
fn bytes_of(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Option<Vec<u8>> {
    let (mut bytes, mut length) = (null_mut(), 0);
    if call(&raw mut bytes, &raw mut length) != OK {
        return None;
    }
    if bytes.is_null() {
        return Some(Vec::new());
    }
    let slice = std::ptr::slice_from_raw_parts_mut(bytes, length);
    // SAFETY: memory that the host was given by `exports`, of just
    // this length, and filled; it is ours alone from now on.
    Some(unsafe { Box::from_raw(slice) }.into_vec())
}

/// Writes to the host's log. A host that takes no log takes no complaint about
/// it either.
pub(crate) fn log(level: Level, text: &str) {
    // SAFETY: the text outlives the call.
    unsafe { proxy_log(level as u32, text.as_ptr(), text.len()) };
}

/// Since the epoch, the same on all workers; zero if the host has no clock.
pub(crate) fn now() -> Duration {
    let mut nanos = 0;
    // SAFETY: a place for the answer.
    unsafe { proxy_get_current_time_nanoseconds(&raw mut nanos) };
    Duration::from_nanos(nanos)
}

/// Has the root context called each `period`, or no more if that is zero.
/// False if the host does not.
pub(crate) fn set_tick_period(period: Duration) -> bool {
    let ms = u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
    // SAFETY: numbers alone.
    unsafe { proxy_set_tick_period_milliseconds(ms) == OK }
}

/// The plugin's configuration; none if it has none.
pub(crate) fn configuration() -> Option<Vec<u8>> {
    // SAFETY: places for the answer.
    bytes_of(|bytes, length| unsafe {
        proxy_get_buffer_bytes(PLUGIN_CONFIGURATION, 0, usize::MAX, bytes, length)
    })
}

/// All fields of a head whose values are text.
pub(crate) fn fields(head: Head) -> Vec<(String, String)> {
    // SAFETY: places for the answer.
    let found =
        bytes_of(|bytes, length| unsafe { proxy_get_header_map_pairs(head as u32, bytes, length) });
    found.map_or_else(Vec::new, |bytes| pairs(&bytes))
}

/// The values of a field, joined by the host; none if there is no such field,
/// or what there is is no text.
pub(crate) fn field(head: Head, name: &str) -> Option<String> {
    // SAFETY: the name outlives the call; places for the answer.
    let found = bytes_of(|bytes, length| unsafe {
        proxy_get_header_map_value(head as u32, name.as_ptr(), name.len(), bytes, length)
    });
    String::from_utf8(found?).ok()
}

/// Sets a field, in place of all of its name.
pub(crate) fn set_field(head: Head, name: &str, value: &str) -> bool {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    // SAFETY: both outlive the call.
    let status = unsafe {
        proxy_replace_header_map_value(
            head as u32,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    };
    status == OK
}

/// Takes all fields of a name off.
pub(crate) fn remove_field(head: Head, name: &str) -> bool {
    // SAFETY: the name outlives the call.
    unsafe { proxy_remove_header_map_value(head as u32, name.as_ptr(), name.len()) == OK }
}

/// One of the host's attributes.
pub(crate) fn property(path: &[&str]) -> Option<Vec<u8>> {
    let path = path.join("\0");
    // SAFETY: the path outlives the call; places for the answer.
    bytes_of(|bytes, length| unsafe {
        proxy_get_property(path.as_ptr(), path.len(), bytes, length)
    })
}

/// What workers share under a key, and its version; none and 0 if nothing.
pub(crate) fn shared(key: &str) -> (Option<Vec<u8>>, u32) {
    let mut version = 0;
    // SAFETY: the key outlives the call; places for the answers.
    let value = bytes_of(|bytes, length| unsafe {
        proxy_get_shared_data(key.as_ptr(), key.len(), bytes, length, &raw mut version)
    });
    (value, version)
}

/// Sets it; false if it is no longer of this version.
pub(crate) fn set_shared(key: &str, value: &[u8], version: u32) -> bool {
    // SAFETY: both outlive the call.
    let status = unsafe {
        proxy_set_shared_data(
            key.as_ptr(),
            key.len(),
            value.as_ptr(),
            value.len(),
            version,
        )
    };
    status == OK
}

/// A queue that any worker may write to, and that the root context at hand is
/// called for; none if the host has none.
pub(crate) fn register_queue(name: &str) -> Option<u32> {
    let mut queue = 0;
    // SAFETY: the name outlives the call; a place for the answer.
    let status = unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), &raw mut queue) };
    (status == OK).then_some(queue)
}

/// Has the context that a queue belongs to called as soon as its worker has
/// time. False if there is no such queue.
pub(crate) fn ring(queue: u32) -> bool {
    // SAFETY: nothing is lent.
    unsafe { proxy_enqueue_shared_queue(queue, null(), 0) == OK }
}

/// Empties a queue.
pub(crate) fn drain(queue: u32) {
    let take = || {
        // SAFETY: places for the answer.
        bytes_of(|bytes, length| unsafe { proxy_dequeue_shared_queue(queue, bytes, length) })
    };
    while take().is_some() {}
}

/// Lets go of what is held of the effective context's stream.
pub(crate) fn continue_stream(half: Half) -> bool {
    // SAFETY: numbers alone.
    unsafe { proxy_continue_stream(half as u32) == OK }
}

/// Answers the effective context's request in the backend's place.
pub(crate) fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> bool {
    const NO_GRPC: i32 = -1;
    let fields = serialize(fields);
    // SAFETY: all outlive the call.
    let status = unsafe {
        proxy_send_local_response(
            status.into(),
            null(),
            0,
            body.as_ptr(),
            body.len(),
            fields.as_ptr(),
            fields.len(),
            NO_GRPC,
        )
    };
    status == OK
}

/// Sends a request without a body to one of the host's clusters, for the
/// effective context; what its answer is called by.
pub(crate) fn http_call(cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32> {
    let (head, trailers) = (serialize(head), serialize(&[]));
    let mut token = 0;
    // SAFETY: all outlive the call; a place for the answer.
    let status = unsafe {
        proxy_http_call(
            cluster.as_ptr(),
            cluster.len(),
            head.as_ptr(),
            head.len(),
            null(),
            0,
            trailers.as_ptr(),
            trailers.len(),
            u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
            &raw mut token,
        )
    };
    (status == OK).then_some(token)
}

/// Calls are about this context from now on; false if there is none.
pub(crate) fn set_effective_context(context: u32) -> bool {
    // SAFETY: numbers alone.
    unsafe { proxy_set_effective_context(context) == OK }
}

/// What the host knows a metric by.
pub(crate) fn define_metric(kind: Metric, name: &str) -> Option<u32> {
    let mut metric = 0;
    // SAFETY: the name outlives the call; a place for the answer.
    let status =
        unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut metric) };
    (status == OK).then_some(metric)
}

/// Adds to a counter.
pub(crate) fn add(metric: u32, by: u64) {
    // SAFETY: numbers alone.
    unsafe { proxy_increment_metric(metric, i64::try_from(by).unwrap_or(i64::MAX)) };
}

/// Sets a gauge.
pub(crate) fn record(metric: u32, value: u64) {
    // SAFETY: numbers alone.
    unsafe { proxy_record_metric(metric, value) };
}

#[cfg(test)]
mod tests;
