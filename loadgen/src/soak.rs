//! `sprat-loadgen soak`: makes many requests of every kind, and checks every byte.

mod client;
mod plan;
mod tally;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::task::LocalSet;

use crate::cli;
use crate::replay::{Target, target};

pub use plan::Mix;
pub use tally::{Failing, Tally};

/// Descriptors that the process needs beside its connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Ask for everything a proxy can get wrong, and check every byte.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Asks origins behind a proxy for bodies of 0 B to --largest, sized, chunked and
with trailers; HEAD and bodiless responses; over HTTP/1.1 (kept and closed
connections) and HTTP/2; clients that leave before the head and in the body, by
a FIN or a reset; upstreams that reset, cut or refuse. What the Nth request is
depends on --seed and N alone.

Exits non-zero, and says which requests, when a body has a wrong byte, a body is
cut that was not meant to be, a request has no end within --deadline, or a
status is another than it had to be.

Examples:
  sprat-loadgen soak --target http://127.0.0.1:10000 --requests 500000 --retries")]
pub struct SoakArgs {
    /// The proxy to ask
    #[arg(long, value_name = "http://HOST:PORT", value_parser = target)]
    target: Target,
    /// Number of requests in all
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    requests: u64,
    /// Requests under way at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// HTTP/2 connections that share their part of the requests
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    http2: u32,
    /// Seed of the mix
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Bytes of the largest body
    #[arg(long, value_name = "BYTES", default_value_t = 20_000_000)]
    largest: u64,
    /// The proxy retries requests that were reset before the response's head, and numbers the
    /// attempts (X-Envoy-Attempt-Count): send such requests, too
    #[arg(long)]
    retries: bool,
    /// A request without an end after this long is stuck
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = cli::span)]
    deadline: Duration,
}

/// The parameters of a soak.
#[derive(Clone, Debug)]
pub struct Soak {
    /// The proxy to ask.
    pub target: Target,
    /// The number of requests in all.
    pub requests: u64,
    /// The number of requests under way at once.
    pub clients: u32,
    /// The number of HTTP/2 connections.
    pub http2: u32,
    /// The mix of requests.
    pub mix: Mix,
    /// The time after which a request without an end is stuck.
    pub deadline: Duration,
}

/// Runs `sprat-loadgen soak`.
///
/// # Errors
/// When a request came otherwise than it had to.
pub fn run(args: &SoakArgs) -> anyhow::Result<()> {
    let descriptors = cli::raise_open_files().saturating_sub(DESCRIPTORS_SPARE);
    let clients = args
        .clients
        .min(u32::try_from(descriptors).unwrap_or(u32::MAX));
    let soak = Soak {
        target: args.target.clone(),
        requests: args.requests,
        clients: clients.max(1),
        http2: args.http2,
        mix: Mix {
            seed: args.seed,
            largest: args.largest,
            retries: args.retries,
        },
        deadline: args.deadline,
    };
    let begun = Instant::now();
    let progress = indicatif::ProgressBar::new(args.requests);
    let tally = soak_with(&soak, &progress)?;
    println!("{}", tally.summary(begun.elapsed()));
    match tally.failed() {
        0 => Ok(()),
        failed => bail!(
            "{failed} of {} came otherwise than they had to:\n{}",
            args.requests,
            tally.shown()
        ),
    }
}

/// Makes all requests and counts their results.
///
/// # Errors
/// When the runtime cannot be started.
pub fn soak_with(soak: &Soak, progress: &indicatif::ProgressBar) -> anyhow::Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the clients")?;
    let client = Rc::new(client::SoakClient::new(soak.target.clone(), soak.http2));
    let tally = Rc::new(RefCell::new(Tally::default()));
    let next = Rc::new(Cell::new(0));
    LocalSet::new().block_on(&runtime, async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..soak.clients {
            let (client, tally, next) = (client.clone(), tally.clone(), next.clone());
            let (soak, progress) = (soak.clone(), progress.clone());
            tasks.spawn_local(async move {
                while next.get() < soak.requests {
                    let index = next.replace(next.get() + 1);
                    let ask = soak.mix.ask(index);
                    let came = tokio::time::timeout(soak.deadline, client.make(&ask)).await;
                    tally.borrow_mut().count(&ask, came.ok().as_ref());
                    progress.inc(1);
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    });
    progress.finish_and_clear();
    Ok(tally.take())
}
