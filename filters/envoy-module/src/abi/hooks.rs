//! The functions that Envoy calls. Envoy refuses a module that lacks one of an HTTP filter's, so
//! all are here, even those without use. Each is safe to call with arguments that Envoy's ABI
//! allows, as [`super`] sums up.

use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;
use std::slice;
use std::sync::Arc;

use sprat_config::fields::Fields;

use super::callbacks::{
    CALLBACKS, Callbacks, LOG_ERROR, LOG_WARN, SUCCESS, callbacks, log, symbol,
};
use super::guard::{OurConfig, OurFilter, guarded, hook, log_panic};
use super::lent::{Buffer, Envoy, Field, Ours};
use super::metrics::Metrics;
use super::stream::{answer, is_answered_within, resume};
use crate::desk::Verdict;
use crate::filter::{Filter, Step, Woken};
use crate::module::configure;
use crate::timer;

/// The status of a hook that lets the stream go on.
pub(super) const CONTINUE: u32 = 0;
/// The status of a hook that holds a head or trailers.
pub(super) const STOP_ITERATION: u32 = 1;
/// The status of a hook that holds a body. Envoy reads the upstream no further than the buffer's
/// limit.
pub(super) const STOP_ITERATION_AND_WATERMARK: u32 = 2;
/// The status of a hook that holds a request's head. Envoy reads the client no further than the
/// buffer's limit.
pub(super) const STOP_ALL_AND_WATERMARK: u32 = 4;

/// Answers Envoy's first call with the version of the ABI; null refuses to be loaded.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    let found = guarded(|| match Callbacks::find() {
        Ok(found) => {
            CALLBACKS.get_or_init(|| found);
            timer::on_panic(log_panic);
            stay_loaded();
            true
        }
        Err(missing) => {
            let text =
                format!("sprat: this module is for Envoy 1.38 to 1.40; here {missing} is missing");
            // Not by Envoy's log, which may be what is missing.
            let _ = writeln!(std::io::stderr(), "{text}");
            false
        }
    });
    match found {
        Some(true) if symbol("envoy_dynamic_module_callback_log_v2\0").is_some() => {
            c"v0.2.0".as_ptr()
        }
        Some(true) => c"v0.1.0".as_ptr(),
        _ => std::ptr::null(),
    }
}

/// Keeps this library in memory: its thread and its uplinks outlive the configuration that loaded
/// it.
fn stay_loaded() {
    let here: unsafe extern "C" fn() -> *const c_char = envoy_dynamic_module_on_program_init;
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

/// Loads a configuration for Envoy; null refuses it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    envoy: Envoy,
    name: Buffer,
    config: Buffer,
) -> Ours {
    // SAFETY: both are there until this returns.
    let (name, text) = unsafe { (name.bytes(), config.bytes()) };
    let made = guarded(|| {
        let name = match String::from_utf8_lossy(name) {
            name if name.is_empty() => "sprat".to_owned(),
            name => name.into_owned(),
        };
        let text = std::str::from_utf8(text)
            .map_err(|_| format!("{name}: the configuration is not UTF-8"))?;
        let (config, warnings) = configure(&name, text)?;
        if let Some(warnings) = warnings {
            log(LOG_WARN, &warnings);
        }
        // SAFETY: the configuration is there while it is made.
        let metrics = unsafe { Metrics::define(envoy, config.classes()) };
        Ok(OurConfig {
            config,
            metrics: Arc::new(metrics),
        })
    });
    match made {
        Some(Ok(config)) => Box::into_raw(Box::new(config)).cast(),
        Some(Err(error)) => {
            let error: String = error;
            log(LOG_ERROR, &error);
            std::ptr::null()
        }
        None => std::ptr::null(),
    }
}

/// Frees a configuration that Envoy no longer uses.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(ours: Ours) {
    // SAFETY: made by config_new, and given back once.
    let config = unsafe { Box::from_raw(ours.cast::<OurConfig>().cast_mut()) };
    guarded(|| drop(config));
}

/// Creates the filter of a new stream.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config: Ours,
    _: Envoy,
) -> Ours {
    // SAFETY: made by config_new, and not destroyed yet.
    let ours = unsafe { &*config.cast::<OurConfig>() };
    let filter = guarded(|| ours.config.filter()).unwrap_or_else(|| Filter::new(None, None));
    let ours = OurFilter {
        filter,
        metrics: Arc::clone(&ours.metrics),
        waker: None,
    };
    Box::into_raw(Box::new(ours)).cast()
}

/// Frees the filter of a stream.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(ours: Ours) {
    // SAFETY: made by filter_new, and given back once.
    let filter = unsafe { Box::from_raw(ours.cast::<OurFilter>().cast_mut()) };
    guarded(|| drop(filter));
}

/// Handles the head of a request.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    envoy: Envoy,
    ours: Ours,
    end: bool,
) -> u32 {
    // SAFETY: as Envoy passes it.
    let verdict = unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_request_head(stream, timer::now(), end)
        })
    };
    match verdict {
        Ok(Verdict::Continue) | Err(_) => CONTINUE,
        Ok(Verdict::Hold) => STOP_ALL_AND_WATERMARK,
        Ok(Verdict::Answer(own)) => {
            // SAFETY: the stream is there; what it does to `ours` is none of
            // our concern any more.
            unsafe { answer(envoy, &own) };
            STOP_ITERATION
        }
    }
}

/// Handles a part of a request's body.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
    envoy: Envoy,
    ours: Ours,
    end: bool,
) -> u32 {
    if end {
        // SAFETY: as Envoy passes it.
        let _ = unsafe { hook(envoy, ours, |filter, _| filter.on_request_end()) };
    }
    CONTINUE
}

/// Handles the trailers of a request.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(
    envoy: Envoy,
    ours: Ours,
) -> u32 {
    // SAFETY: as Envoy passes it.
    let _ = unsafe { hook(envoy, ours, |filter, _| filter.on_request_end()) };
    CONTINUE
}

fn head_or_trailers(step: &Result<Step, Woken>) -> u32 {
    match step {
        Ok(Step::Hold) => STOP_ITERATION,
        Ok(Step::Continue) | Err(_) => CONTINUE,
    }
}

/// Handles the head of a response.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    envoy: Envoy,
    ours: Ours,
    end: bool,
) -> u32 {
    // SAFETY: as Envoy passes it.
    head_or_trailers(&unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_response_head(stream, timer::now(), end)
        })
    })
}

/// Handles a part of a response's body.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_body(
    envoy: Envoy,
    ours: Ours,
    end: bool,
) -> u32 {
    // SAFETY: as Envoy passes it.
    let step = unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_response_body(stream, timer::now(), end)
        })
    };
    match step {
        Ok(Step::Hold) => STOP_ITERATION_AND_WATERMARK,
        Ok(Step::Continue) | Err(_) => CONTINUE,
    }
}

/// Handles the trailers of a response.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(
    envoy: Envoy,
    ours: Ours,
) -> u32 {
    // SAFETY: as Envoy passes it.
    head_or_trailers(&unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_response_trailers(stream, timer::now())
        })
    })
}

/// Lets a stream go on. A hook calls this last, since the stream may end within.
///
/// # Safety
/// The stream exists when this is called.
unsafe fn let_go(envoy: Envoy, what: Woken) {
    // SAFETY: the stream is there; what it does to our filter is none of our
    // concern any more.
    unsafe {
        match what {
            Woken::Nothing => {}
            Woken::Request => resume(envoy),
            Woken::Answer(own) => answer(envoy, &own),
            Woken::Response => (callbacks().continue_encoding)(envoy),
        }
    }
}

/// Handles a wake-up of the stream by [`Scheduler::wake`].
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    envoy: Envoy,
    ours: Ours,
    _event: u64,
) {
    // SAFETY: as Envoy passes it.
    unsafe {
        let woken = hook(envoy, ours, |filter, stream| {
            filter.on_woken(stream, timer::now())
        });
        let_go(envoy, woken.unwrap_or_else(|given_up| given_up));
    }
}

/// The fields of a callout's answer.
struct AnswerHead<'a>(&'a [Field]);

impl Fields for AnswerHead<'_> {
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        // SAFETY: lent during the hook, and this is not kept.
        let mut fields = self.0.iter().map(|f| unsafe { (f.key(), f.value()) });
        fields.any(|(key, value)| key == name.as_bytes() && see(&String::from_utf8_lossy(value)))
    }
}

impl AnswerHead<'_> {
    fn status(&self) -> Option<u16> {
        let mut status = None;
        self.any(":status", &mut |text| {
            status = text.parse().ok();
            true
        });
        status
    }
}

/// Handles the answer to a callout, or the callout's failure.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_http_callout_done(
    envoy: Envoy,
    ours: Ours,
    _callout: u64,
    result: u32,
    fields: *const Field,
    count: usize,
    _body: *const Buffer,
    _chunks: usize,
) {
    if is_answered_within(envoy) {
        return;
    }
    let fields = match fields.is_null() || result != SUCCESS {
        true => &[][..],
        // SAFETY: lent during the hook.
        false => unsafe { slice::from_raw_parts(fields, count) },
    };
    let head = AnswerHead(fields);
    // SAFETY: as Envoy passes it.
    unsafe {
        let done = hook(envoy, ours, |filter, stream| {
            let answer = head.status().map(|status| (status, &head as &dyn Fields));
            filter.on_answer(stream, timer::now(), answer);
        });
        if let Err(given_up) = done {
            let_go(envoy, given_up);
        }
    }
}

/// Notes that the stream has ended.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
    envoy: Envoy,
    ours: Ours,
) {
    // SAFETY: as Envoy passes it. After a panic there is nothing to let go.
    let _ = unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_complete(Some(stream), timer::now());
        })
    };
}

/// Defines hooks that Envoy asks for and this filter does not need; they change nothing.
macro_rules! unused {
    ($($name:ident($($argument:ty),*) $(-> $result:ty = $value:expr)?;)*) => {
        $(
            /// Lets Envoy go on, without any change.
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                $($value)?
            }
        )*
    };
}

/// Refuses a configuration for a route: an uplink belongs to no route.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    _: Buffer,
    _: Buffer,
) -> Ours {
    log(
        LOG_ERROR,
        "sprat: routes have no configuration of their own; remove it from typed_per_filter_config",
    );
    std::ptr::null()
}

unused! {
    envoy_dynamic_module_on_http_filter_per_route_config_destroy(Ours);
    envoy_dynamic_module_on_http_filter_http_stream_headers(Envoy, Ours, u64, *mut c_void, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_data(Envoy, Ours, u64, *const c_void, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_trailers(Envoy, Ours, u64, *mut c_void, usize);
    envoy_dynamic_module_on_http_filter_http_stream_complete(Envoy, Ours, u64);
    envoy_dynamic_module_on_http_filter_http_stream_reset(Envoy, Ours, u64, u32);
    envoy_dynamic_module_on_http_filter_config_scheduled(Envoy, Ours, u64);
    envoy_dynamic_module_on_http_filter_config_http_callout_done(Envoy, Ours, u64, u32, *mut c_void, usize, *mut c_void, usize);
    envoy_dynamic_module_on_http_filter_config_http_stream_headers(Envoy, Ours, u64, *mut c_void, usize, bool);
    envoy_dynamic_module_on_http_filter_config_http_stream_data(Envoy, Ours, u64, *const c_void, usize, bool);
    envoy_dynamic_module_on_http_filter_config_http_stream_trailers(Envoy, Ours, u64, *mut c_void, usize);
    envoy_dynamic_module_on_http_filter_config_http_stream_complete(Envoy, Ours, u64);
    envoy_dynamic_module_on_http_filter_config_http_stream_reset(Envoy, Ours, u64, u32);
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(Envoy, Ours);
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(Envoy, Ours);
    envoy_dynamic_module_on_http_filter_local_reply(Envoy, Ours, u32, Buffer, bool) -> u32 = CONTINUE;
}
