//! `sprat`: a reverse proxy and load balancer that schedules by size. Its commands; what
//! serves is `sprat-server`.

#![forbid(unsafe_code)]

mod commands;

/// A request allocates and frees a dozen times, on one thread: what the C library takes for
/// that is a twentieth of its CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    commands::cli::main()
}
