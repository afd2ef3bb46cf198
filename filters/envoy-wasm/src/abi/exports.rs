//! The functions that the host calls. What is not here, such as bodies of
//! requests, it does not call at all.
//!
//! Away from wasm there is no `malloc` among them: it would take the place of
//! the C library's.

use super::{Level, log};
use crate::context;

/// Which version of the ABI this is for.
#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_abi_version_0_2_1() {}

/// The first thing that the host calls.
#[unsafe(no_mangle)]
pub(super) extern "C" fn _initialize() {
    // A panic ends the virtual machine; its message would be lost.
    std::panic::set_hook(Box::new(|panic| log(Level::Critical, &panic.to_string())));
}

/// Memory that the host fills, and passes to us.
#[cfg_attr(target_arch = "wasm32", unsafe(export_name = "malloc"))]
#[cfg_attr(not(target_arch = "wasm32"), unsafe(no_mangle))]
pub(super) extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; size].into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_context_create(context: u32, root: u32) {
    context::created(context, root);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_vm_start(_root: u32, _length: u32) -> u32 {
    1
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_configure(root: u32, _length: u32) -> u32 {
    context::configured(root).into()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_tick(root: u32) {
    context::ticked(root);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_queue_ready(root: u32, queue: u32) {
    context::rung(root, queue);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_request_headers(context: u32, _fields: u32, _end: u32) -> u32 {
    context::request_head(context).of_head()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_response_headers(context: u32, _fields: u32, end: u32) -> u32 {
    context::response_head(context, end != 0).of_head()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_response_body(context: u32, bytes: u32, end: u32) -> u32 {
    context::response_body(context, bytes.into(), end != 0).of_body()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_response_trailers(context: u32, _fields: u32) -> u32 {
    context::response_trailers(context).of_head()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_http_call_response(
    context: u32,
    token: u32,
    fields: u32,
    _body: u32,
    _trailers: u32,
) {
    context::call_answered(context, token, fields > 0);
}

/// True: nothing is left to do for the context.
#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_done(context: u32) -> u32 {
    context::done(context);
    1
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn proxy_on_delete(context: u32) {
    context::deleted(context);
}
