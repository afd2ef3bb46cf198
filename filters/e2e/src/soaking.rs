//! The load generator's soak against an Envoy of a test.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use sprat_loadgen::replay::Target;
use sprat_loadgen::soak::{Mix, Soak, Tally, soak_with};

use crate::PATIENCE;

/// Requests under way at once, and the connections of those over HTTP/2.
const CLIENTS: u32 = 32;
const HTTP2_CONNECTIONS: u32 = 3;

/// Asks for everything that a proxy can get wrong; `largest` bounds the bodies,
/// in bytes. The bootstrap must be one
/// [`for_soak`](crate::Bootstrap::for_soak).
///
/// # Errors
/// When a request came otherwise than it had to, with the first of them.
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
