//! Access logs: no bytes make a reader panic, no line is lost, and what comes out is in
//! order.
#![no_main]

#[path = "../../whatif/tests/fuzz/logs.rs"]
mod logs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| logs::read(data));
