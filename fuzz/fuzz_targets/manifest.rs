//! Manifests of sizes: what is read of one is read again as it is written.
#![no_main]

#[path = "../../proxy/src/catalogue/manifest/lines.rs"]
mod lines;
#[path = "../../proxy/src/catalogue/manifest/wrong.rs"]
mod wrong;
#[path = "../../proxy/src/catalogue/manifest/again.rs"]
mod again;

libfuzzer_sys::fuzz_target!(|data: &[u8]| again::run(data));
