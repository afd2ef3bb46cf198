//! The functions that the host calls directly, beside the SDK's callbacks: the start, and the
//! bodies of responses.
//!
//! The SDK knows two answers to a callback, continue and pause. A pause gathers the whole body, and
//! one larger than the host's buffer is lost. The ABI allows a third answer, which holds a body and
//! has the host read no more of it. So a function of this module calls the SDK's callback, and
//! `scripts/filter.sh` exports it under the callback's name.

use proxy_wasm::types::LogLevel;

use crate::context;

/// The number of Envoy's `StopIterationAndWatermark`, which hosts made of `proxy-wasm-cpp-host`
/// take.
const STOP_AND_WATERMARK: u32 = 2;

proxy_wasm::main! {{
    // A panic ends the virtual machine; this has its message logged.
    proxy_wasm::set_log_level(LogLevel::Warn);
    context::install();
}}

unsafe extern "C" {
    /// Handles a part of a body in the SDK, and returns an `Action`: 0 is to go on.
    fn proxy_on_response_body(context: u32, bytes: usize, end: bool) -> u32;
}

/// Hands a part of a response's body to the SDK. Turns a pause into the answer that holds the body.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sprat_on_response_body(context: u32, bytes: usize, end: bool) -> u32 {
    // SAFETY: it is called as the host would, which calls nothing meanwhile.
    match unsafe { proxy_on_response_body(context, bytes, end) } {
        0 => 0,
        _ => STOP_AND_WATERMARK,
    }
}
