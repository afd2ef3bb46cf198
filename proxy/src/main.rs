//! `sprat`: a reverse proxy and load balancer that schedules by size. Its commands; what
//! serves is `sprat-server`.

#![forbid(unsafe_code)]

mod commands;

fn main() -> std::process::ExitCode {
    commands::cli::main()
}
