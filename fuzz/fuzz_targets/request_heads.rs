//! The watch over request heads, next to hyper's own parser.
#![no_main]

#[allow(dead_code)]
#[path = "../../proxy/net/src/framing.rs"]
mod framing;
#[path = "../../proxy/net/src/framing/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::run(data));
