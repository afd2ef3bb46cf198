//! Configurations: no text makes the reader panic, and a good one stays good.
#![no_main]

#[path = "../../config/tests/fuzz/parsing.rs"]
mod parsing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsing::run(data));
