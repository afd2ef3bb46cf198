//! The functions that Envoy calls. It refuses a module that lacks one of those
//! of an HTTP filter, so that all are here, needed or not. Each is safe to call
//! with what Envoy's ABI says, as [`super`] sums it up.

use std::ffi::{c_char, c_void};
use std::io::Write as _;
use std::sync::Arc;

use super::*;

/// The first thing that Envoy calls; null refuses to be loaded.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    let found = guarded(|| match Callbacks::find() {
        Ok(found) => {
            CALLBACKS.get_or_init(|| found);
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

/// A configuration is loaded; null refuses it.
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
        let counters = Metric::ALL.map(|metric| define_counter(envoy, metric.name()));
        Ok(OurConfig {
            config,
            counters: Arc::new(counters),
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

fn define_counter(envoy: Envoy, name: &str) -> Option<usize> {
    let mut id = 0;
    let name = Buffer::of(name.as_bytes());
    let labels = std::ptr::null_mut();
    // SAFETY: the configuration is there while it is made; no labels.
    let result = unsafe { (callbacks().define_counter)(envoy, name, labels, 0, &raw mut id) };
    (result == 0).then_some(id)
}

/// A configuration is given up.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(ours: Ours) {
    // SAFETY: made by config_new, and given back once.
    let config = unsafe { Box::from_raw(ours.cast::<OurConfig>().cast_mut()) };
    guarded(|| drop(config));
}

/// A stream begins.
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
        counters: Arc::clone(&ours.counters),
        waker: None,
    };
    Box::into_raw(Box::new(ours)).cast()
}

/// A stream's filter is given up.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(ours: Ours) {
    // SAFETY: made by filter_new, and given back once.
    let filter = unsafe { Box::from_raw(ours.cast::<OurFilter>().cast_mut()) };
    guarded(|| drop(filter));
}

/// The request's head.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    envoy: Envoy,
    ours: Ours,
    _end: bool,
) -> u32 {
    // SAFETY: as Envoy passes it.
    unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_request_head(stream, timer::now());
            Step::Continue
        });
    }
    CONTINUE
}

/// The response's head.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    envoy: Envoy,
    ours: Ours,
    end: bool,
) -> u32 {
    // SAFETY: as Envoy passes it.
    let step = unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_response_head(stream, timer::now(), end)
        })
    };
    match step {
        Step::Continue => CONTINUE,
        Step::Hold => STOP_ITERATION,
    }
}

/// More of the response's body.
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
        Step::Continue => CONTINUE,
        Step::Hold => STOP_ITERATION_AND_WATERMARK,
    }
}

/// The response's trailers.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(
    envoy: Envoy,
    ours: Ours,
) -> u32 {
    // SAFETY: as Envoy passes it.
    let step = unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_response_trailers(stream, timer::now())
        })
    };
    match step {
        Step::Continue => CONTINUE,
        Step::Hold => STOP_ITERATION,
    }
}

/// Woken by [`Scheduler::wake`].
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    envoy: Envoy,
    ours: Ours,
    _event: u64,
) {
    // SAFETY: as Envoy passes it.
    let step = unsafe {
        hook(envoy, ours, |filter, stream| {
            filter.on_woken(stream, timer::now())
        })
    };
    if step == Step::Continue {
        // SAFETY: the stream is there; what it does to `ours` is none of our
        // concern any more.
        unsafe { (callbacks().continue_encoding)(envoy) };
    }
}

/// The stream is over.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
    envoy: Envoy,
    ours: Ours,
) {
    // SAFETY: as Envoy passes it.
    unsafe {
        hook(envoy, ours, |filter, _| {
            filter.on_complete(timer::now());
            Step::Continue
        });
    }
}

/// What Envoy asks for and this filter has no use of: it changes nothing.
macro_rules! unused {
    ($($name:ident($($argument:ty),*) $(-> $result:ty = $value:expr)?;)*) => {
        $(
            /// Changes nothing.
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                $($value)?
            }
        )*
    };
}

/// Refuses a configuration for a route: an uplink is not a route's.
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
    envoy_dynamic_module_on_http_filter_request_body(Envoy, Ours, bool) -> u32 = CONTINUE;
    envoy_dynamic_module_on_http_filter_request_trailers(Envoy, Ours) -> u32 = CONTINUE;
    envoy_dynamic_module_on_http_filter_http_callout_done(Envoy, Ours, u64, u32, *mut c_void, usize, *mut c_void, usize);
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
