//! The boundary to Envoy: its ABI for dynamic modules, as far as it is used.
//!
//! This is the only module with `unsafe` code. What it relies on, and what
//! Envoy promises (`source/extensions/dynamic_modules/abi/abi.h`):
//!
//! - A pointer to one of our objects that Envoy passes to a hook is one that
//!   we gave it, and comes no more after the object's `destroy` hook.
//! - Hooks of one stream are called on one thread, one at a time, with one
//!   exception: [`Callbacks::continue_encoding`] may end the stream, and so
//!   call its hooks, `destroy` among them, before it returns. So it is the
//!   last thing that a hook does, when no reference to the filter is left.
//! - What Envoy lends (a header's value) is there until the hook returns.
//! - A scheduler may be used from any thread, and outlives its stream.
//!
//! Envoy's functions are looked up by name when the module is loaded. Where
//! one is missing, it is refused with an error that says so, rather than crash
//! in the middle of a request.
//!
//! Envoy 1.40 has version v0.2.0 of the ABI, 1.38 and 1.39 have v0.1.0; for
//! what is used here they are the same.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::{Arc, OnceLock};

use crate::filter::{Filter, Step};
use crate::host::{Fields, Host, Metric, Wake};
use crate::module::{Config, configure};
use crate::timer;

mod hooks;

/// Bytes lent by one side to the other.
#[repr(C)]
#[derive(Clone, Copy)]
struct Buffer {
    ptr: *const c_char,
    length: usize,
}

impl Buffer {
    fn of(bytes: &[u8]) -> Self {
        Self {
            ptr: bytes.as_ptr().cast(),
            length: bytes.len(),
        }
    }

    /// # Safety
    /// The bytes are there, unchanged, for `'a`.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { slice::from_raw_parts(self.ptr.cast(), self.length) }
    }
}

/// A header field as Envoy lends it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Field {
    key_ptr: *const c_char,
    key_length: usize,
    value_ptr: *const c_char,
    value_length: usize,
}

/// One of Envoy's objects.
type Envoy = *mut c_void;
/// One of ours.
type Ours = *const c_void;

const LOG_WARN: u32 = 3;
const LOG_ERROR: u32 = 4;
const REQUEST_HEADERS: u32 = 0;
const RESPONSE_HEADERS: u32 = 2;
const RECEIVED_RESPONSE_BODY: u32 = 2;
const BUFFERED_RESPONSE_BODY: u32 = 3;
const ATTRIBUTE_REQUEST_PROTOCOL: u32 = 10;
const ATTRIBUTE_SOURCE_ADDRESS: u32 = 24;
const ATTRIBUTE_CONNECTION_ID: u32 = 28;
/// Of every hook that answers with a status.
const CONTINUE: u32 = 0;
/// Of heads and trailers.
const STOP_ITERATION: u32 = 1;
/// Of bodies: held back, and the upstream is read no further than the buffer's
/// limit.
const STOP_ITERATION_AND_WATERMARK: u32 = 2;

/// Fields of a head that are looked at to tell its length.
const FIELDS_MAX: usize = 128;

macro_rules! callbacks {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Envoy's functions.
        struct Callbacks {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Callbacks {
            /// Looks them up in the program that loaded us.
            ///
            /// # Errors
            /// The name of the first that is not there.
            fn find() -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let name = concat!("envoy_dynamic_module_callback_", $name, "\0");
                        let found = symbol(name).ok_or(concat!(
                            "envoy_dynamic_module_callback_", $name
                        ))?;
                        // SAFETY: the function of that name has this type in
                        // every version of the ABI that is supported.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found) }
                    },)*
                })
            }
        }
    };
}

callbacks! {
    log = "log": fn(u32, Buffer);
    get_header = "http_get_header": fn(Envoy, u32, Buffer, *mut Buffer, usize, *mut usize) -> bool;
    get_headers_size = "http_get_headers_size": fn(Envoy, u32) -> usize;
    get_headers = "http_get_headers": fn(Envoy, u32, *mut Field) -> bool;
    get_body_size = "http_get_body_size": fn(Envoy, u32) -> usize;
    attribute_int = "http_filter_get_attribute_int": fn(Envoy, u32, *mut u64) -> bool;
    attribute_string = "http_filter_get_attribute_string": fn(Envoy, u32, *mut Buffer) -> bool;
    continue_encoding = "http_filter_continue_encoding": fn(Envoy);
    scheduler_new = "http_filter_scheduler_new": fn(Envoy) -> Envoy;
    scheduler_commit = "http_filter_scheduler_commit": fn(Envoy, u64);
    scheduler_delete = "http_filter_scheduler_delete": fn(Envoy);
    define_counter = "http_filter_config_define_counter": fn(Envoy, Buffer, *mut Buffer, usize, *mut usize) -> u32;
    increment_counter = "http_filter_increment_counter": fn(Envoy, usize, *mut Buffer, usize, u64) -> u32;
}

static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();

fn symbol(name: &'static str) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: a look-up by a name that ends in a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn callbacks() -> &'static Callbacks {
    CALLBACKS
        .get()
        .expect("Envoy calls nothing before on_program_init has answered")
}

fn log(level: u32, text: &str) {
    if let Some(callbacks) = CALLBACKS.get() {
        // SAFETY: the text outlives the call.
        unsafe { (callbacks.log)(level, Buffer::of(text.as_bytes())) };
    }
}

/// Has timers of this thread fire when they are due, not up to 50 us later.
pub(crate) fn wake_on_time() {
    // SAFETY: sets a number of the calling thread. Where it fails, timers are
    // late, which the pacer makes up for.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Keeps this library in memory: its thread and its uplinks outlive the
/// configuration that loaded it.
fn stay_loaded() {
    let here: unsafe extern "C" fn() -> *const c_char = hooks::envoy_dynamic_module_on_program_init;
    // SAFETY: zero is a value of these pointers; dladdr fills them in.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of our own, and a place for the answer.
    let found = unsafe { libc::dladdr(here as *const c_void, &raw mut info) } != 0;
    if found && !info.dli_fname.is_null() {
        const FLAGS: c_int = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the name is the loader's own; nothing is loaded anew.
        unsafe { libc::dlopen(info.dli_fname, FLAGS) };
    }
}

/// A counter's number in Envoy, none if it could not be had.
type Counters = [Option<usize>; Metric::ALL.len()];

/// What a configuration is to Envoy.
struct OurConfig {
    config: Arc<Config>,
    counters: Arc<Counters>,
}

/// What a stream's filter is to Envoy.
struct OurFilter {
    filter: Filter,
    counters: Arc<Counters>,
    waker: Option<Arc<Scheduler>>,
}

/// Wakes a filter on its worker.
struct Scheduler(Envoy);

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

/// A stream, during a hook.
struct Stream<'a> {
    envoy: Envoy,
    counters: &'a Counters,
    waker: std::cell::RefCell<&'a mut Option<Arc<Scheduler>>>,
}

impl Stream<'_> {
    fn attribute(&self, id: u32) -> Option<&[u8]> {
        let mut text = Buffer::of(&[]);
        let found = &raw mut text;
        // SAFETY: the stream is there during a hook, and so is the text.
        unsafe { (callbacks().attribute_string)(self.envoy, id, found).then(|| text.bytes()) }
    }

    fn body_size(&self, kind: u32) -> u64 {
        // SAFETY: the stream is there during a hook.
        unsafe { (callbacks().get_body_size)(self.envoy, kind) as u64 }
    }
}

impl Host for Stream<'_> {
    fn value(&self, fields: Fields, name: &str, index: usize) -> Option<&[u8]> {
        let map = match fields {
            Fields::Request => REQUEST_HEADERS,
            Fields::Response => RESPONSE_HEADERS,
        };
        let mut value = Buffer::of(&[]);
        let name = Buffer::of(name.as_bytes());
        let found = &raw mut value;
        // SAFETY: the stream is there during a hook, and so is the value, for
        // nothing here changes headers.
        unsafe {
            (callbacks().get_header)(self.envoy, map, name, found, index, std::ptr::null_mut())
                .then(|| value.bytes())
        }
    }

    fn response_head_bytes(&self) -> (u64, u64) {
        // SAFETY: the stream is there during a hook.
        let fields = unsafe { (callbacks().get_headers_size)(self.envoy, RESPONSE_HEADERS) };
        const EMPTY: Field = Field {
            key_ptr: std::ptr::null(),
            key_length: 0,
            value_ptr: std::ptr::null(),
            value_length: 0,
        };
        let mut found = [EMPTY; FIELDS_MAX];
        if fields > FIELDS_MAX {
            // 60 KB of head is Envoy's bound; this many are not small either.
            return (fields as u64 * 32, fields as u64);
        }
        // SAFETY: there is room for as many fields as there are.
        let good =
            unsafe { (callbacks().get_headers)(self.envoy, RESPONSE_HEADERS, found.as_mut_ptr()) };
        let found = if good { &found[..fields] } else { &[] };
        let lengths = found.iter().map(|f| f.key_length + f.value_length);
        (lengths.sum::<usize>() as u64, fields as u64)
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
        if let Some(id) = self.counters[metric as usize] {
            // SAFETY: a counter of this stream's configuration, without labels.
            unsafe {
                (callbacks().increment_counter)(self.envoy, id, std::ptr::null_mut(), 0, by);
            }
        }
    }
}

/// Runs a hook of a stream. After a panic the filter gives up, and is left out
/// of its stream.
///
/// # Safety
/// `ours` is a filter's, as Envoy passes it to hooks.
unsafe fn hook(
    envoy: Envoy,
    ours: Ours,
    run: impl FnOnce(&mut Filter, &Stream<'_>) -> Step,
) -> Step {
    // SAFETY: the filter is ours, and hooks of a stream come one at a time.
    let ours = unsafe { &mut *ours.cast::<OurFilter>().cast_mut() };
    let stream = Stream {
        envoy,
        counters: &ours.counters,
        waker: std::cell::RefCell::new(&mut ours.waker),
    };
    let filter = &mut ours.filter;
    let done = catch_unwind(AssertUnwindSafe(|| run(filter, &stream)));
    done.unwrap_or_else(|_| {
        stream.count(Metric::Panics, 1);
        log(
            LOG_ERROR,
            "sprat: a panic was caught; its stream goes on unscheduled",
        );
        // The lock may be what broke: then the flow stays open, which costs a
        // place in a table.
        let _ = catch_unwind(AssertUnwindSafe(|| filter.give_up(timer::now())));
        Step::Continue
    })
}

/// Runs what is of no stream; none after a panic.
fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(run));
    if done.is_err() {
        log(LOG_ERROR, "sprat: a panic was caught");
    }
    done.ok()
}

#[cfg(test)]
mod tests;
