//! Envoy's functions, looked up by name when the module is loaded. If one is missing, the module
//! refuses to load with an error that names it, rather than crash in the middle of a request.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use super::lent::{Buffer, Envoy, Field};

pub(super) const LOG_WARN: u32 = 3;
pub(super) const LOG_ERROR: u32 = 4;
/// The result of metrics and callouts that have succeeded.
pub(super) const SUCCESS: u32 = 0;

macro_rules! callbacks {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of Envoy that the module calls.
        pub(super) struct Callbacks {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Callbacks {
            /// Looks the functions up in the program that loaded the module.
            ///
            /// # Errors
            /// The name of the first function that is missing.
            pub(super) fn find() -> Result<Self, &'static str> {
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
    define_gauge = "http_filter_config_define_gauge": fn(Envoy, Buffer, *mut Buffer, usize, *mut usize) -> u32;
    set_gauge = "http_filter_set_gauge": fn(Envoy, usize, *mut Buffer, usize, u64) -> u32;
    set_header = "http_set_header": fn(Envoy, u32, Buffer, Buffer) -> bool;
    set_metadata = "http_set_dynamic_metadata_string": fn(Envoy, Buffer, Buffer, Buffer);
    clear_route_cache = "http_clear_route_cache": fn(Envoy);
    callout = "http_filter_http_callout": fn(Envoy, *mut u64, Buffer, *mut Field, usize, Buffer, u64) -> u32;
    continue_decoding = "http_filter_continue_decoding": fn(Envoy);
    send_response = "http_send_response": fn(Envoy, u32, *mut Field, usize, Buffer, Buffer);
}

pub(super) static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();

pub(super) fn symbol(name: &'static str) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: a look-up by a name that ends in a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns Envoy's functions, found when the module was loaded.
pub(super) fn callbacks() -> &'static Callbacks {
    CALLBACKS
        .get()
        .expect("Envoy calls nothing before on_program_init has answered")
}

pub(super) fn log(level: u32, text: &str) {
    if let Some(callbacks) = CALLBACKS.get() {
        // SAFETY: the text outlives the call.
        unsafe { (callbacks.log)(level, Buffer::of(text.as_bytes())) };
    }
}

/// Returns whether Envoy notes apart for requests and for responses whether they are held. Envoy
/// 1.38 does not; it lacks a function that later versions have.
pub(super) fn holds_apart() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    const LATER: &str = "envoy_dynamic_module_callback_http_filter_config_increment_counter\0";
    *FOUND.get_or_init(|| symbol(LATER).is_some())
}
