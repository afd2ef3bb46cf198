//! Look-ups and lessons of the table of sizes, against a model that forgets nothing.
#![no_main]

#[path = "../../scheduler/tests/operations/bytes.rs"]
mod bytes;
#[path = "../../scheduler/tests/operations/catalogue.rs"]
mod catalogue;

libfuzzer_sys::fuzz_target!(|data: &[u8]| catalogue::run(data));
