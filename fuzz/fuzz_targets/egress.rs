//! Operations on the uplink's scheduler, against the tests' model of it.
#![no_main]

#[path = "../../scheduler/tests/operations/bytes.rs"]
mod bytes;
#[allow(dead_code)]
#[path = "../../scheduler/tests/egress/driver.rs"]
mod driver;
#[path = "../../scheduler/tests/egress/from_bytes.rs"]
mod from_bytes;
#[allow(dead_code)]
#[path = "../../scheduler/tests/egress/random_operations.rs"]
mod random_operations;

libfuzzer_sys::fuzz_target!(|data: &[u8]| from_bytes::run(data));
