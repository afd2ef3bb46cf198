//! Header blocks and the screen of HTTP/2: whatever comes, in whatever parts.
#![no_main]

#[path = "../../proxy/net/src/forward.rs"]
mod forward;
#[allow(dead_code)]
#[path = "../../proxy/net/src/hpack.rs"]
mod hpack;
#[allow(dead_code)]
#[path = "../../proxy/net/src/screen.rs"]
mod screen;
#[path = "../../proxy/net/src/screen/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::run(data));
