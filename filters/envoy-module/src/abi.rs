//! The boundary to Envoy: its ABI for dynamic modules, as far as it is used.
//!
//! This is the only module with `unsafe` code. What it relies on, and what
//! Envoy promises (`source/extensions/dynamic_modules/abi/abi.h`):
//!
//! - A pointer to one of our objects that Envoy passes to a hook is one that
//!   we gave it, and comes no more after the object's `destroy` hook.
//! - Hooks of one stream are called on one thread, one at a time, with three
//!   exceptions: `continue_encoding`, `continue_decoding` and `send_response`
//!   may end the stream, and so call its hooks, `destroy` among them, before
//!   they return. So each is the last thing that a hook does, when no
//!   reference to the filter is left.
//! - What Envoy lends (a header's value) is there until the hook returns, or a
//!   field of that head is set.
//! - A scheduler may be used from any thread, and outlives its stream.
//! - Envoy 1.38 has one note for both directions of whether a stream goes on
//!   ([`Host::holds_apart`]).
//!
//! Envoy 1.40 has version v0.2.0 of the ABI, 1.38 and 1.39 have v0.1.0; for
//! what is used here they are the same.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use sprat_filter::Source;
use sprat_filter::metrics::{Counter, Gauge};

use crate::filter::{Filter, Woken};
use crate::host::{Host, Metric};
use crate::module::{Config, configure};
use crate::timer;
use callbacks::{CALLBACKS, Callbacks, callbacks, log, symbol};
use stream::{Scheduler, Stream};

mod callbacks;
mod hooks;
mod stream;

/// Bytes lent by one side to the other.
#[repr(C)]
#[derive(Clone, Copy)]
struct Buffer {
    ptr: *const c_char,
    length: usize,
}

impl Buffer {
    /// The buffer that stands for no value, which is not the same as an empty one.
    const NULL: Self = Self {
        ptr: std::ptr::null(),
        length: 0,
    };

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

/// A header field, lent by one side to the other.
#[repr(C)]
#[derive(Clone, Copy)]
struct Field {
    key_ptr: *const c_char,
    key_length: usize,
    value_ptr: *const c_char,
    value_length: usize,
}

impl Field {
    const EMPTY: Self = Self {
        key_ptr: std::ptr::null(),
        key_length: 0,
        value_ptr: std::ptr::null(),
        value_length: 0,
    };

    fn of(name: &str, value: &str) -> Self {
        Self {
            key_ptr: name.as_ptr().cast(),
            key_length: name.len(),
            value_ptr: value.as_ptr().cast(),
            value_length: value.len(),
        }
    }

    /// # Safety
    /// As of [`Buffer::bytes`].
    unsafe fn key<'a>(self) -> &'a [u8] {
        let (ptr, length) = (self.key_ptr, self.key_length);
        // SAFETY: the caller vouches for it.
        unsafe { Buffer { ptr, length }.bytes() }
    }

    /// # Safety
    /// As of [`Buffer::bytes`].
    unsafe fn value<'a>(self) -> &'a [u8] {
        let (ptr, length) = (self.value_ptr, self.value_length);
        // SAFETY: the caller vouches for it.
        unsafe { Buffer { ptr, length }.bytes() }
    }
}

/// One of Envoy's objects.
type Envoy = *mut c_void;
/// A pointer to an object of this module.
type Ours = *const c_void;

const LOG_WARN: u32 = 3;
const LOG_ERROR: u32 = 4;
/// The result of metrics and callouts that have succeeded.
const SUCCESS: u32 = 0;
/// The status of every hook that lets the stream go on.
const CONTINUE: u32 = 0;
/// The status of heads and trailers that are held back.
const STOP_ITERATION: u32 = 1;
/// The answer that holds a body back, and the upstream is read no further than the buffer's
/// limit.
const STOP_ITERATION_AND_WATERMARK: u32 = 2;
/// The answer that holds a request's head back, and the client is read no further than the
/// buffer's limit.
const STOP_ALL_AND_WATERMARK: u32 = 4;

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

/// The numbers of metrics in Envoy, none for one that could not be had.
struct Metrics {
    own: [Option<usize>; Metric::ALL.len()],
    classes: usize,
    /// Envoy's numbers of the counters, by [`Counter::index`].
    counters: Vec<Option<usize>>,
    gauges: [Option<usize>; Gauge::ALL.len()],
}

impl Metrics {
    /// # Safety
    /// The configuration is being made.
    unsafe fn define(envoy: Envoy, classes: &[String]) -> Self {
        let (counter, gauge) = (callbacks().define_counter, callbacks().define_gauge);
        let define = |define: Define, name: &str| {
            let (mut id, name) = (0, Buffer::of(name.as_bytes()));
            // SAFETY: the caller vouches for the configuration; no labels.
            let result = unsafe { define(envoy, name, std::ptr::null_mut(), 0, &raw mut id) };
            (result == SUCCESS).then_some(id)
        };
        let all = Counter::all(classes.len()).into_iter();
        Self {
            own: Metric::ALL.map(|own| define(counter, own.name())),
            classes: classes.len(),
            counters: all
                .map(|own| is_ours(own).then(|| define(counter, &own.name(classes)))?)
                .collect(),
            gauges: Gauge::ALL.map(|own| match own {
                Gauge::Waiting => define(gauge, own.name()),
                Gauge::HeldResponses => None,
            }),
        }
    }
}

/// Returns whether a counter is of something that happens here: sizes are not shared, and responses
/// are the link's.
fn is_ours(counter: Counter) -> bool {
    use Counter::{Conflicts, Held, Shared, Size, Unscheduled};
    let elsewhere = [Conflicts, Held, Shared, Unscheduled, Size(Source::Shared)];
    !elsewhere.contains(&counter)
}

type Define = unsafe extern "C" fn(Envoy, Buffer, *mut Buffer, usize, *mut usize) -> u32;

/// The object that Envoy has for a configuration.
struct OurConfig {
    config: Arc<Config>,
    metrics: Arc<Metrics>,
}

/// The object that Envoy has for a stream's filter.
struct OurFilter {
    filter: Filter,
    metrics: Arc<Metrics>,
    waker: Option<Arc<Scheduler>>,
}

/// Runs a hook of a stream. After a panic the filter gives up and is left out
/// of its stream, and the answer is what is to be let go of that was held.
///
/// # Safety
/// `ours` is a filter's, as Envoy passes it to hooks.
unsafe fn hook<T>(
    envoy: Envoy,
    ours: Ours,
    run: impl FnOnce(&mut Filter, &mut Stream<'_>) -> T,
) -> Result<T, Woken> {
    // SAFETY: the filter is ours, and hooks of a stream come one at a time.
    let ours = unsafe { &mut *ours.cast::<OurFilter>().cast_mut() };
    let mut stream = Stream {
        envoy,
        metrics: &ours.metrics,
        waker: std::cell::RefCell::new(&mut ours.waker),
    };
    let filter = &mut ours.filter;
    let done = catch_unwind(AssertUnwindSafe(|| run(filter, &mut stream)));
    done.map_err(|_| {
        stream.count(Metric::Panics, 1);
        log(
            LOG_ERROR,
            "sprat: a panic was caught; its stream goes on unscheduled",
        );
        // What broke may break again: then its places stay taken.
        let given_up = catch_unwind(AssertUnwindSafe(|| filter.give_up(timer::now())));
        given_up.unwrap_or(Woken::Response)
    })
}

/// Runs what is of no stream; none after a panic.
fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(run));
    if done.is_err() {
        log_panic();
    }
    done.ok()
}

fn log_panic() {
    log(LOG_ERROR, "sprat: a panic was caught");
}

#[cfg(test)]
mod tests;
