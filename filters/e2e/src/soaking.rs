//! The load generator's soak, against the Envoy of a test.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use sprat_loadgen::replay::Target;
use sprat_loadgen::soak::{Mix, Soak, Tally, soak_with};

use crate::PATIENCE;

/// The most requests under way at a time, and the number of connections for those over HTTP/2.
const CLIENTS: u32 = 32;
const HTTP2_CONNECTIONS: u32 = 3;

/// Sends requests of every kind that a proxy can get wrong, and checks the responses; `largest`
/// bounds the bodies, in bytes. Envoy must run with a bootstrap
/// [`for_soak`](crate::Bootstrap::for_soak).
///
/// # Errors
/// When a response was wrong. The error describes the first of them.
pub async fn soak(address: SocketAddr, requests: u64, largest: u64) -> anyhow::Result<Tally> {
    let soak = Soak {
        target: Target::plain(address),
        requests,
        clients: CLIENTS,
        http2: HTTP2_CONNECTIONS,
        mix: Mix {
            seed: 7,
            largest,
            retries: true,
        },
        deadline: PATIENCE,
    };
    let progress = indicatif::ProgressBar::hidden();
    // It has a runtime of its own.
    let tally = tokio::task::spawn_blocking(move || soak_with(&soak, &progress))
        .await
        .context("the soak panicked")??;
    ensure!(
        tally.failed() == 0,
        "{} of {requests}:\n{}",
        tally.failed(),
        tally.shown()
    );
    Ok(tally)
}
