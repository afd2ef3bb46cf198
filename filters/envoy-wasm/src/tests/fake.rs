//! A stand-in for the host: the functions that the SDK calls, and a record of the calls.

// As many as the ABI has.
#![allow(clippy::too_many_arguments)]

use std::cell::RefCell;
use std::collections::BTreeMap;

unsafe extern "C" {
    /// The SDK's own allocator.
    safe fn proxy_on_memory_allocate(size: usize) -> *mut u8;
}

const OK: u32 = 0;
const REQUEST: u32 = 0;
const CALL_RESPONSE: u32 = 6;
const NOT_FOUND: u32 = 1;
const BAD_ARGUMENT: u32 = 2;
const EMPTY: u32 = 7;
const CAS_MISMATCH: u32 = 8;

/// The names and values of a message's head.
type Head = Vec<(String, Vec<u8>)>;

/// The state of the stand-in, and the record of calls to it.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    pub(crate) now_ns: u64,
    pub(crate) configuration: String,
    /// The heads of messages, by context and map.
    pub(crate) heads: BTreeMap<(u32, u32), Head>,
    /// The address of the client of the effective context's stream.
    pub(crate) client: Option<String>,
    /// The context that calls are about, which the host sets for a callback.
    pub(crate) effective: u32,
    pub(crate) log: Vec<(u32, String)>,
    pub(crate) tick_ms: u32,
    /// The contexts and halves that the filter has continued.
    pub(crate) continued: Vec<(u32, u32)>,
    /// The contexts, statuses and bodies of local answers.
    pub(crate) answered: Vec<(u32, u32, String)>,
    /// The clusters and heads of calls.
    pub(crate) calls: Vec<(String, Vec<(String, String)>)>,
    /// The names and values of metrics.
    pub(crate) metrics: Vec<(String, u64)>,
    /// The number of messages in each queue.
    pub(crate) queues: Vec<usize>,
    /// The names of the queues. A worker that registers a known name shares its queue.
    pub(crate) queue_names: Vec<String>,
    /// The contexts that no longer exist.
    pub(crate) gone: Vec<u32>,
    shared: BTreeMap<String, (Vec<u8>, u32)>,
}

impl Fake {
    /// Returns the value of a metric.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let found = self.metrics.iter().find(|(own, _)| own == name);
        found.map_or(0, |(_, value)| *value)
    }

    /// Returns the fields of a head that the effective context may read.
    fn head(&self, map: u32) -> Option<&Head> {
        // The answer to a call is the configuration's, whichever context asks.
        let context = match map {
            CALL_RESPONSE => super::ROOT,
            _ => self.effective,
        };
        self.heads.get(&(context, map))
    }
}

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::default();
}

/// Reads or changes this thread's stand-in for the host.
pub(crate) fn host<T>(act: impl FnOnce(&mut Fake) -> T) -> T {
    FAKE.with_borrow_mut(act)
}

/// Returns lent bytes as text.
///
/// # Safety
/// The bytes exist during the call.
unsafe fn text(bytes: *const u8, length: usize) -> String {
    // SAFETY: the caller vouches for them.
    let bytes = unsafe { slice(bytes, length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns lent bytes as a slice; none for a null pointer.
///
/// # Safety
/// The bytes exist for `'a`.
unsafe fn slice<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if bytes.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for them.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

/// Returns bytes as a host does: in memory that it asks the filter for.
///
/// # Safety
/// Both pointers are places for an answer.
unsafe fn give(found: Option<Vec<u8>>, bytes: *mut *mut u8, length: *mut usize) -> u32 {
    let Some(found) = found else {
        return NOT_FOUND;
    };
    // SAFETY: memory of that length, and places for the answers.
    unsafe {
        *length = found.len();
        *bytes = std::ptr::null_mut();
        if !found.is_empty() {
            *bytes = proxy_on_memory_allocate(found.len());
            (*bytes).copy_from_nonoverlapping(found.as_ptr(), found.len());
        }
    }
    OK
}

/// Writes an answer to its place, and returns success.
///
/// # Safety
/// The pointer is a place for an answer.
unsafe fn set<T>(place: *mut T, value: T) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { *place = value };
    OK
}

macro_rules! host_functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// Stands in for the host's function of this name.
            ///
            /// # Safety
            /// As the ABI demands: what is lent exists during the call.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
                // SAFETY: the caller vouches for all pointers.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

host_functions! {
    fn proxy_log(level: u32, bytes: *const u8, length: usize) {
        let text = text(bytes, length);
        host(|host| host.log.push((level, text)));
        OK
    }

    fn proxy_get_current_time_nanoseconds(time: *mut u64) {
        set(time, host(|host| host.now_ns))
    }

    fn proxy_set_tick_period_milliseconds(period: u32) {
        host(|host| host.tick_ms = period);
        OK
    }

    fn proxy_get_buffer_bytes(
        _buffer: u32, _start: usize, _most: usize, bytes: *mut *mut u8, length: *mut usize,
    ) {
        give(host(|host| Some(host.configuration.clone().into())), bytes, length)
    }

    fn proxy_get_header_map_pairs(map: u32, bytes: *mut *mut u8, length: *mut usize) {
        let fields = host(|host| host.head(map).cloned());
        give(Some(serialize(&fields.unwrap_or_default())), bytes, length)
    }

    fn proxy_get_header_map_value(
        map: u32, name: *const u8, name_length: usize, bytes: *mut *mut u8, length: *mut usize,
    ) {
        let mut name = text(name, name_length);
        // Envoy keeps a request's host under one name, and knows it by both.
        if map == REQUEST && name == "host" {
            name = ":authority".to_owned();
        }
        let found = host(|host| {
            let (_, value) = host.head(map)?.iter().find(|(own, _)| *own == name)?;
            Some(value.clone())
        });
        give(found, bytes, length)
    }

    fn proxy_replace_header_map_value(
        map: u32, name: *const u8, name_length: usize, value: *const u8, value_length: usize,
    ) {
        let field = (text(name, name_length), slice(value, value_length).to_vec());
        host(|host| {
            let fields = host.heads.entry((host.effective, map)).or_default();
            fields.retain(|(name, _)| *name != field.0);
            fields.push(field);
        });
        OK
    }

    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_length: usize) {
        let name = text(name, name_length);
        host(|host| {
            let fields = host.heads.entry((host.effective, map)).or_default();
            fields.retain(|(own, _)| *own != name);
        });
        OK
    }

    fn proxy_get_property(
        path: *const u8, path_length: usize, bytes: *mut *mut u8, length: *mut usize,
    ) {
        let found = match text(path, path_length).as_str() {
            "source\0address" => host(|host| host.client.clone().map(Into::into)),
            _ => None,
        };
        give(found, bytes, length)
    }

    fn proxy_get_shared_data(
        key: *const u8, key_length: usize, bytes: *mut *mut u8, length: *mut usize,
        version: *mut u32,
    ) {
        let key = text(key, key_length);
        let found = host(|host| host.shared.get(&key).cloned());
        set(version, found.as_ref().map_or(0, |(_, version)| *version));
        give(found.map(|(value, _)| value), bytes, length)
    }

    fn proxy_set_shared_data(
        key: *const u8, key_length: usize, value: *const u8, value_length: usize, version: u32,
    ) {
        let (key, value) = (text(key, key_length), slice(value, value_length).to_vec());
        host(|host| {
            let current = host.shared.get(&key).map_or(0, |(_, version)| *version);
            if version != 0 && version != current {
                return CAS_MISMATCH;
            }
            host.shared.insert(key, (value, current + 1));
            OK
        })
    }

    fn proxy_register_shared_queue(name: *const u8, length: usize, queue: *mut u32) {
        let name = text(name, length);
        let number = host(|host| {
            let known = host.queue_names.iter().position(|own| *own == name);
            known.unwrap_or_else(|| {
                host.queues.push(0);
                host.queue_names.push(name);
                host.queues.len() - 1
            })
        });
        set(queue, number as u32)
    }

    fn proxy_enqueue_shared_queue(queue: u32, _value: *const u8, _length: usize) {
        host(|host| match host.queues.get_mut(queue as usize) {
            Some(messages) => {
                *messages += 1;
                OK
            }
            None => NOT_FOUND,
        })
    }

    fn proxy_dequeue_shared_queue(queue: u32, bytes: *mut *mut u8, length: *mut usize) {
        let status = host(|host| match host.queues.get_mut(queue as usize) {
            None => NOT_FOUND,
            Some(0) => EMPTY,
            Some(messages) => {
                *messages -= 1;
                OK
            }
        });
        match status {
            OK => give(Some(b"!".to_vec()), bytes, length),
            status => status,
        }
    }

    fn proxy_continue_stream(half: u32) {
        host(|host| host.continued.push((host.effective, half)));
        OK
    }

    fn proxy_send_local_response(
        status: u32, _details: *const u8, _details_length: usize, body: *const u8,
        body_length: usize, _fields: *const u8, _fields_length: usize, _grpc_status: i32,
    ) {
        let body = text(body, body_length);
        host(|host| host.answered.push((host.effective, status, body)));
        OK
    }

    fn proxy_http_call(
        cluster: *const u8, cluster_length: usize, head: *const u8, head_length: usize,
        _body: *const u8, _body_length: usize, _trailers: *const u8, _trailers_length: usize,
        _timeout_ms: u32, token: *mut u32,
    ) {
        let cluster = text(cluster, cluster_length);
        if cluster == "absent" {
            return BAD_ARGUMENT;
        }
        let call = (cluster, pairs(slice(head, head_length)));
        let number = host(|host| {
            host.calls.push(call);
            host.calls.len() as u32
        });
        set(token, number)
    }

    fn proxy_set_effective_context(context: u32) {
        host(|host| {
            if host.gone.contains(&context) {
                return BAD_ARGUMENT;
            }
            host.effective = context;
            OK
        })
    }

    fn proxy_define_metric(_kind: u32, name: *const u8, length: usize, metric: *mut u32) {
        let name = text(name, length);
        let number = host(|host| {
            host.metrics.push((name, 0));
            host.metrics.len() as u32 - 1
        });
        set(metric, number)
    }

    fn proxy_increment_metric(metric: u32, by: i64) {
        host(|host| match host.metrics.get_mut(metric as usize) {
            Some((_, value)) => {
                *value = value.saturating_add_signed(by);
                OK
            }
            None => NOT_FOUND,
        })
    }

    fn proxy_record_metric(metric: u32, value: u64) {
        host(|host| match host.metrics.get_mut(metric as usize) {
            Some((_, own)) => {
                *own = value;
                OK
            }
            None => NOT_FOUND,
        })
    }
}

/// Encodes header fields as the ABI passes them. First comes their number, then the lengths of each
/// name and value, then those, each followed by a zero. Numbers have 32 bits, the least significant
/// byte first.
fn serialize(fields: &[(String, Vec<u8>)]) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = number(fields.len()).to_vec();
    for (name, value) in fields {
        bytes.extend(number(name.len()));
        bytes.extend(number(value.len()));
    }
    for (name, value) in fields {
        for part in [name.as_bytes(), value.as_slice()] {
            bytes.extend(part);
            bytes.push(0);
        }
    }
    bytes
}

/// Decodes the header fields that [`serialize`] has encoded.
fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let count = number(0);
    let mut at = 4 + count * 8;
    let mut part = |length: usize| {
        let part = String::from_utf8(bytes[at..at + length].to_vec()).unwrap();
        at += length + 1;
        part
    };
    let pair = |index: usize| {
        let (name, value) = (number(4 + index * 8), number(8 + index * 8));
        (part(name), part(value))
    };
    (0..count).map(pair).collect()
}

/// Defines functions that the SDK could call, and this filter does not.
macro_rules! not_called {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> u32 {
            panic!("the filter does not call {}", stringify!($name))
        }
    )*};
}

not_called! {
    proxy_get_log_level proxy_set_buffer_bytes proxy_set_header_map_pairs
    proxy_add_header_map_value proxy_set_property proxy_resolve_shared_queue
    proxy_close_stream proxy_grpc_call proxy_grpc_stream proxy_grpc_send
    proxy_grpc_cancel proxy_grpc_close proxy_get_status proxy_call_foreign_function
    proxy_done proxy_get_metric
}
