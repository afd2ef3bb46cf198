//! The same of the Envoy filters' configuration.
#![no_main]

#[allow(dead_code)]
#[path = "../../config/tests/fuzz/parsing.rs"]
mod parsing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsing::filter(data));
