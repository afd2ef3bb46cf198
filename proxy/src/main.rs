//! The program `sprat`: a reverse proxy and load balancer that schedules by size. This crate has
//! its command line; the crate `sprat-server` serves.

#![forbid(unsafe_code)]

mod commands;

/// The allocator of the program. A request allocates and frees a dozen times, on one thread; the C
/// library's allocator takes a twentieth of a request's CPU time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    commands::cli::main()
}
