//! The command line.
use std::process::ExitCode;
/// Runs.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
