//! `sprat`: a reverse proxy and load balancer that schedules by size.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    sprat::cli::main()
}
