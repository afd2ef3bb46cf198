//! Sprat's proxy-wasm filter: a thin driver of [`sprat_filter::Filter`], for
//! Envoy and any other proxy-wasm host.
//!
//! A worker of the host's has a virtual machine, and that has one filter; the
//! streams' contexts share it. A resumption and an answer take effect when the
//! callback at hand has returned, so the filter is never called from within
//! itself.

#![forbid(unsafe_code)]

mod calls;
mod context;
mod fields;

// The macro exports a function of its own, without a word about it.
#[allow(missing_docs)]
mod entry {
    use proxy_wasm::types::LogLevel;

    use crate::context::Root;

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|_| Box::new(Root::default()));
    }}
}
