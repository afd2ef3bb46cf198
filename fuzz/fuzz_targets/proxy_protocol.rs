//! PROXY headers: what is read of one is what another says that is written for it.
#![no_main]

#[allow(dead_code)]
#[path = "../../proxy/net/src/proxy_protocol/header.rs"]
mod header;
#[path = "../../proxy/net/src/proxy_protocol/again.rs"]
mod again;

libfuzzer_sys::fuzz_target!(|data: &[u8]| again::run(data));
