//! `sprat`: a reverse proxy and load balancer that schedules by size.

#![deny(unsafe_code)]

mod sys;
mod uplink;

fn main() {}
