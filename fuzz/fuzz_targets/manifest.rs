//! Manifests of sizes: what is read of one is read again as it is written.
#![no_main]

#[path = "../../proxy/sizes/src/manifest/lines.rs"]
mod lines;
#[path = "../../proxy/sizes/src/manifest/wrong.rs"]
mod wrong;
#[path = "../../proxy/sizes/src/manifest/again.rs"]
mod again;

libfuzzer_sys::fuzz_target!(|data: &[u8]| again::run(data));
