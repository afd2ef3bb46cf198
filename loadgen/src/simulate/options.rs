//! Options that several simulations have on the command line.

use std::path::PathBuf;

use super::sizes::SizeDistribution;

/// The options that simulations share.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// Seed of arrivals and sizes
    #[arg(long, default_value_t = 7)]
    pub(super) seed: u64,
    /// Sizes: workload, exponential[:MEAN] or pareto[:ALPHA,LOW,HIGH]
    #[arg(long, value_name = "SIZES", default_value = "workload")]
    pub(super) sizes: SizeDistribution,
    /// Directory for a CSV and figures
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
}

/// Parses a load below 1: above, there is no steady state to measure.
pub(super) fn load(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if load > 0.0 && load < 1.0 => Ok(load),
        _ => Err("a load is above 0 and below 1, such as 0.9".to_owned()),
    }
}

/// Parses a share from 0 to 10.
pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=10.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 10, such as 0.1".to_owned()),
    }
}

/// Parses a quantum in bytes.
pub(super) fn quantum_bytes(text: &str) -> Result<u32, String> {
    let bytes = sprat_config::units::parse_bytes(text).map_err(|error| error.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("a quantum is from 1 byte to 4 GB".to_owned()),
    }
}
