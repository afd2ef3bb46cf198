//! Configurations: no text makes the reader panic, a good one stays good, and what is
//! wrong with another has a place.
#![no_main]

#[allow(dead_code)]
#[path = "../../config/tests/fuzz/parsing.rs"]
mod parsing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsing::file(data));
