//! Requests at a station, against a model that knows who is where.
#![no_main]

#[path = "../../scheduler/tests/operations/bytes.rs"]
mod bytes;
#[path = "../../scheduler/tests/operations/station.rs"]
mod station;

libfuzzer_sys::fuzz_target!(|data: &[u8]| station::run(data));
