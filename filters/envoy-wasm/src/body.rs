//! What the host calls beside the SDK's callbacks: the beginning, and bodies of
//! responses.
//!
//! The SDK knows two answers to a callback, go on and pause. The pause of a body
//! gathers all of it: one that is larger than the host's buffer is then lost. The
//! ABI passes a third answer on, which holds a body and has the host read no more
//! of it. So the callback of the SDK is called by one of ours, and
//! `scripts/filter.sh` puts ours under its name in what the module exports.

use proxy_wasm::types::LogLevel;

use crate::context;

/// `StopIterationAndWatermark` of Envoy, which hosts made of
/// `proxy-wasm-cpp-host` take by number.
const STOP_AND_WATERMARK: u32 = 2;

proxy_wasm::main! {{
    // A panic ends the virtual machine; this has its message logged.
    proxy_wasm::set_log_level(LogLevel::Warn);
    context::install();
}}

unsafe extern "C" {
    /// Handles a part of a body in the SDK, whose answer is an `Action`: 0 is to go on.
    fn proxy_on_response_body(context: u32, bytes: usize, end: bool) -> u32;
}

/// Hands a part of a response's body to the SDK; a pause becomes the answer that
/// holds it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sprat_on_response_body(context: u32, bytes: usize, end: bool) -> u32 {
    // SAFETY: it is called as the host would, which calls nothing meanwhile.
    match unsafe { proxy_on_response_body(context, bytes, end) } {
        0 => 0,
        _ => STOP_AND_WATERMARK,
    }
}
