//! A stream as hooks see it, and the calls that let it go on.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sprat_filter::Answer;
use sprat_filter::metrics::{Counter, Gauge};

use super::callbacks::{SUCCESS, callbacks, holds_apart};
use super::lent::{Buffer, Envoy, Field};
use super::metrics::Metrics;
use crate::host::{Fields, Host, Metric, Wake};

pub(super) const REQUEST_HEADERS: u32 = 0;
pub(super) const RESPONSE_HEADERS: u32 = 2;
pub(super) const RECEIVED_RESPONSE_BODY: u32 = 2;
const BUFFERED_RESPONSE_BODY: u32 = 3;
const ATTRIBUTE_REQUEST_PROTOCOL: u32 = 10;
const ATTRIBUTE_SOURCE_ADDRESS: u32 = 24;
const ATTRIBUTE_CONNECTION_ID: u32 = 28;

/// The namespace of the metadata by which Envoy chooses among the subsets of a cluster.
const LOAD_BALANCING: &str = "envoy.lb";

thread_local! {
    /// The stream whose request Envoy is being told to release.
    static RESUMING: Cell<Envoy> = const { Cell::new(std::ptr::null_mut()) };
    /// The stream whose callout Envoy is being told to send, until it answers that callout.
    static ASKING: Cell<Envoy> = const { Cell::new(std::ptr::null_mut()) };
}

/// Notes the answer to a callout, and returns whether it comes within the call that sends the
/// callout. The stream's filter is in use then, and the call tells it that there is no answer: an
/// answer that comes so is Envoy's own.
pub(super) fn is_answered_within(envoy: Envoy) -> bool {
    let within = ASKING.get() == envoy;
    if within {
        ASKING.set(std::ptr::null_mut());
    }
    within
}

const fn map(fields: Fields) -> u32 {
    match fields {
        Fields::Request => REQUEST_HEADERS,
        Fields::Response => RESPONSE_HEADERS,
    }
}

/// The handle that wakes a stream's filter on its worker.
pub(super) struct Scheduler(Envoy);

// SAFETY: Envoy's scheduler may be committed to and deleted by any thread.
unsafe impl Send for Scheduler {}
// SAFETY: as above; committing takes Envoy's own lock.
unsafe impl Sync for Scheduler {}

impl Wake for Scheduler {
    fn wake(&self) {
        // SAFETY: not deleted before it is dropped.
        unsafe { (callbacks().scheduler_commit)(self.0, 0) };
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: made by scheduler_new, and this is its only owner.
        unsafe { (callbacks().scheduler_delete)(self.0) };
    }
}

/// A stream of Envoy, during a hook.
pub(super) struct Stream<'a> {
    pub(super) envoy: Envoy,
    pub(super) metrics: &'a Metrics,
    pub(super) waker: RefCell<&'a mut Option<Arc<Scheduler>>>,
}

impl Stream<'_> {
    fn increment(&self, counter: Option<usize>, by: u64) {
        if let Some(id) = counter {
            // SAFETY: a counter of this stream's configuration, without labels.
            unsafe {
                (callbacks().increment_counter)(self.envoy, id, std::ptr::null_mut(), 0, by);
            }
        }
    }

    fn attribute(&self, id: u32) -> Option<&[u8]> {
        let mut text = Buffer::of(&[]);
        let found = &raw mut text;
        // SAFETY: the stream is there during a hook, and so is the text.
        unsafe { (callbacks().attribute_string)(self.envoy, id, found).then(|| text.bytes()) }
    }

    /// Shows each field of a head to `see`, and returns the number of fields.
    fn each_field(&self, map: u32, mut see: impl FnMut(&[u8], &[u8])) -> usize {
        const FEW: usize = 64;
        // SAFETY: the stream is there during a hook.
        let count = unsafe { (callbacks().get_headers_size)(self.envoy, map) };
        let (mut few, mut many) = ([Field::EMPTY; FEW], Vec::new());
        let found = if count <= FEW {
            &mut few[..count]
        } else {
            many.resize(count, Field::EMPTY);
            &mut many[..]
        };
        // SAFETY: there is room for as many fields as there are.
        if !unsafe { (callbacks().get_headers)(self.envoy, map, found.as_mut_ptr()) } {
            return 0;
        }
        for field in found.iter() {
            // SAFETY: lent until a field is set.
            unsafe { see(field.key(), field.value()) };
        }
        count
    }

    fn body_size(&self, kind: u32) -> u64 {
        // SAFETY: the stream is there during a hook.
        unsafe { (callbacks().get_body_size)(self.envoy, kind) as u64 }
    }
}

impl Host for Stream<'_> {
    fn value(&self, fields: Fields, name: &str, index: usize) -> Option<&[u8]> {
        let map = map(fields);
        let mut value = Buffer::of(&[]);
        let name = Buffer::of(name.as_bytes());
        let found = &raw mut value;
        // SAFETY: the stream is there during a hook, and so is the value until
        // a field is set, which no holder of it can do.
        unsafe {
            (callbacks().get_header)(self.envoy, map, name, found, index, std::ptr::null_mut())
                .then(|| value.bytes())
        }
    }

    fn response_head_bytes(&self) -> (u64, u64) {
        let mut bytes = 0;
        let fields = self.each_field(RESPONSE_HEADERS, |name, value| {
            bytes += name.len() + value.len();
        });
        (bytes as u64, fields as u64)
    }

    fn received_bytes(&self) -> u64 {
        self.body_size(RECEIVED_RESPONSE_BODY)
    }

    fn held_bytes(&self) -> u64 {
        self.body_size(BUFFERED_RESPONSE_BODY)
    }

    fn connection(&self) -> Option<u64> {
        let mut id = 0;
        // SAFETY: the stream is there during a hook.
        unsafe { (callbacks().attribute_int)(self.envoy, ATTRIBUTE_CONNECTION_ID, &raw mut id) }
            .then_some(id)
    }

    fn client(&self) -> Option<IpAddr> {
        let text = std::str::from_utf8(self.attribute(ATTRIBUTE_SOURCE_ADDRESS)?).ok()?;
        text.parse().map(|client: SocketAddr| client.ip()).ok()
    }

    fn is_multiplexed(&self) -> bool {
        let protocol = self.attribute(ATTRIBUTE_REQUEST_PROTOCOL);
        protocol.is_some_and(|protocol| !protocol.starts_with(b"HTTP/1"))
    }

    fn waker(&self) -> Arc<dyn Wake> {
        let mut waker = self.waker.borrow_mut();
        let waker = waker.get_or_insert_with(|| {
            // SAFETY: the stream is there during a hook.
            Arc::new(Scheduler(unsafe {
                (callbacks().scheduler_new)(self.envoy)
            }))
        });
        Arc::clone(waker) as Arc<dyn Wake>
    }

    fn count(&self, metric: Metric, by: u64) {
        self.increment(self.metrics.own[metric as usize], by);
    }

    fn add(&self, counter: Counter, by: u64) {
        let index = counter.index(self.metrics.classes);
        self.increment(self.metrics.counters.get(index).copied().flatten(), by);
    }

    fn set_gauge(&self, gauge: Gauge, value: u64) {
        if let Some(id) = self.metrics.gauges[gauge as usize] {
            // SAFETY: a gauge of this stream's configuration, without labels.
            unsafe { (callbacks().set_gauge)(self.envoy, id, std::ptr::null_mut(), 0, value) };
        }
    }

    fn request_fields(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        self.each_field(REQUEST_HEADERS, |name, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
            if let (Ok(name), Ok(value)) = (text(name), text(value)) {
                all.push((name, value));
            }
        });
        all
    }

    fn ask(&self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> bool {
        let mut head: Vec<Field> = head.iter().map(|(n, v)| Field::of(n, v)).collect();
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let (mut id, cluster) = (0, Buffer::of(cluster.as_bytes()));
        let outer = ASKING.replace(self.envoy);
        // SAFETY: the stream is there during a hook; Envoy copies what it is
        // given before it returns. The one hook of this stream that it may call
        // from here asks first whether it is within.
        let result = unsafe {
            let (fields, count) = (head.as_mut_ptr(), head.len());
            let body = Buffer::of(&[]);
            let id = &raw mut id;
            (callbacks().callout)(self.envoy, id, cluster, fields, count, body, timeout_ms)
        };
        let is_unanswered = ASKING.replace(outer) == self.envoy;
        result == SUCCESS && is_unanswered
    }

    fn holds_apart(&self) -> bool {
        holds_apart()
    }

    fn is_resuming(&self) -> bool {
        RESUMING.get() == self.envoy
    }

    fn set_field(&mut self, fields: Fields, name: &str, value: Option<&str>) {
        let name = Buffer::of(name.as_bytes());
        let value = value.map_or(Buffer::NULL, |value| Buffer::of(value.as_bytes()));
        // SAFETY: the stream is there during a hook, and no value of its heads is held here.
        unsafe { (callbacks().set_header)(self.envoy, map(fields), name, value) };
    }

    fn set_metadata(&mut self, key: &str, value: &str) {
        let [space, key, value] = [LOAD_BALANCING, key, value].map(|s| Buffer::of(s.as_bytes()));
        // SAFETY: the stream is there during a hook.
        unsafe { (callbacks().set_metadata)(self.envoy, space, key, value) };
    }

    fn clear_route_cache(&mut self) {
        // SAFETY: the stream is there during a hook.
        unsafe { (callbacks().clear_route_cache)(self.envoy) };
    }
}

/// Lets a stream's request go on. That may end the stream before this returns, so no reference to
/// its filter may be left.
///
/// # Safety
/// The stream exists, and its request is held.
pub(super) unsafe fn resume(envoy: Envoy) {
    let outer = RESUMING.replace(envoy);
    // SAFETY: as above.
    unsafe { (callbacks().continue_decoding)(envoy) };
    RESUMING.set(outer);
}

/// Answers a stream's request. Like [`resume`], that may end the stream before this returns.
///
/// # Safety
/// The stream exists, and has had no response yet.
pub(super) unsafe fn answer(envoy: Envoy, answer: &Answer) {
    let fields = answer.fields.iter();
    let mut fields: Vec<Field> = fields.map(|(n, v)| Field::of(n, v)).collect();
    if answer.is_grpc {
        // Envoy takes the module's word that all went well, unless told here.
        fields.push(Field::of("grpc-status", Answer::GRPC_STATUS));
    }
    let body = Buffer::of(answer.body.as_bytes());
    let details = format!("sprat_{}", answer.reason);
    let details = Buffer::of(details.as_bytes());
    let (first, count) = (fields.as_mut_ptr(), fields.len());
    let status = answer.status.into();
    // SAFETY: as above; Envoy copies all of it before it returns.
    unsafe { (callbacks().send_response)(envoy, status, first, count, body, details) };
}
