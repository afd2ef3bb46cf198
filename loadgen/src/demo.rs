//! `sprat-loadgen demo`: sends the same requests to several systems at once, and shows the systems
//! side by side on a live page.

mod board;
mod clients;
mod page;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use sprat_measure::wire::Connection;
use tokio::sync::mpsc;

use crate::cli;
use crate::replay::{self, Target};
use crate::trace::Trace;
use crate::workload::{self, Sizes, TracePlan};
use board::Snapshot;
use clients::{Demand, SharedSnapshot};

/// Show systems side by side under the same requests, on a web page.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each system is asked for the same responses at the same times, on a new connection
each, from the network namespace that is named (that needs root) or from here. The
requests are those of `gen`, at --load of --uplink, begun anew when they are over.

Examples:
  sprat-loadgen demo --uplink 10mbit --load 0.9 \\
      --system nginx=http://198.18.0.1:8080,namespace=demo-nginx-client \\
      --system sprat=http://198.18.0.1:8080,namespace=demo-sprat-client")]
pub struct DemoArgs {
    /// A system: its name, its address and, if requests are to be sent from there, a network
    /// namespace; two to four of them
    #[arg(long = "system", value_name = "NAME=URL[,namespace=NS]", value_parser = system, required = true)]
    systems: Vec<ShownSystem>,
    /// Where the page is served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8900")]
    listen: SocketAddr,
    /// Rate of each system's link; the load is a share of it
    #[arg(long, value_name = "RATE", default_value = "10mbit", value_parser = cli::rate)]
    uplink: u64,
    /// Load on the wire of each link
    #[arg(long, default_value = "0.9", value_parser = cli::load)]
    load: f64,
    /// Seed of sizes and arrivals
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Number of requests after which the sequence begins anew
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// End after this long and print the figures [default: at Ctrl-C]
    #[arg(long, value_name = "SPAN", value_parser = cli::span)]
    duration: Option<Duration>,
}

/// A system under comparison: its name, its address, and the network namespace of its clients.
#[derive(Clone, Debug)]
struct ShownSystem {
    name: String,
    target: Target,
    namespace: Option<String>,
}

/// The number of distinct files in the workload.
const FILES: u32 = 5_000;

/// The share of responses that count as large: the largest 1%.
const LARGE_SHARE: f64 = 0.01;

/// The time from the command's start to the first request, in which the clients get ready.
const START: Duration = Duration::from_millis(500);

const SYSTEMS_MAX: usize = 4;

/// The state that the page shows.
struct Demo {
    names: Vec<String>,
    shown: Vec<SharedSnapshot>,
    uplink_bits_per_s: u64,
    load: f64,
    large_bytes: u64,
    begun: Instant,
}

/// The state of all systems, as one event of the page's stream.
#[derive(Serialize)]
struct DemoState<'a> {
    at_s: f64,
    uplink_bits_per_s: u64,
    load: f64,
    large_bytes: u64,
    recent_s: f64,
    systems: Vec<SystemState<'a>>,
}

#[derive(Serialize)]
struct SystemState<'a> {
    name: &'a str,
    #[serde(flatten)]
    snapshot: Snapshot,
}

impl Demo {
    fn snapshots(&self) -> Vec<Snapshot> {
        let each = self.shown.iter().map(|shown| {
            let shown = shown.lock();
            shown
                .expect("no thread panics with a snapshot in hand")
                .clone()
        });
        each.collect()
    }

    /// Returns the state of all systems as JSON.
    fn state(&self) -> String {
        let systems = self.names.iter().zip(self.snapshots());
        let state = DemoState {
            at_s: self.begun.elapsed().as_secs_f64(),
            uplink_bits_per_s: self.uplink_bits_per_s,
            load: self.load,
            large_bytes: self.large_bytes,
            recent_s: board::RECENT_S,
            systems: systems
                .map(|(name, snapshot)| SystemState { name, snapshot })
                .collect(),
        };
        serde_json::to_string(&state).expect("numbers and names are JSON")
    }

    /// Returns the figures since the start, a line for each system.
    fn summary(&self) -> String {
        let lines = self.names.iter().zip(self.snapshots());
        let line = |(name, shown): (&String, Snapshot)| {
            let mean = shown.all.mean_ms.unwrap_or(f64::NAN);
            format!(
                "{name}: {} requests, mean {mean:.1} ms, {} failed\n",
                shown.all.count, shown.failed
            )
        };
        lines.map(line).collect()
    }
}

/// Runs `sprat-loadgen demo`.
///
/// # Errors
/// When the page cannot be served, or a system not be asked.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    ensure!(
        args.systems.len() <= SYSTEMS_MAX,
        "at most {SYSTEMS_MAX} systems go side by side"
    );
    cli::raise_open_files();
    let trace = trace(args)?;
    let large_bytes = largest(&trace);
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot serve {}; is the port taken?", args.listen))?;
    let demand = Demand {
        trace: Arc::new(trace),
        large_bytes,
        begun: Instant::now() + START,
    };
    let demo = Arc::new(Demo {
        names: args.systems.iter().map(|one| one.name.clone()).collect(),
        shown: args
            .systems
            .iter()
            .map(|_| SharedSnapshot::default())
            .collect(),
        uplink_bits_per_s: args.uplink,
        load: args.load,
        large_bytes,
        begun: demand.begun,
    });
    let ended = start(&args.systems, &demand, &demo)?;
    println!("The page: http://{}", listener.local_addr()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the page")?;
    let page = demo.clone();
    runtime.block_on(async {
        tokio::select! {
            served = page::serve(listener, page) => served,
            _ = tokio::signal::ctrl_c() => Ok(()),
            () = over(args.duration) => Ok(()),
            failed = broken(ended) => failed,
        }
    })?;
    print!("{}", demo.summary());
    Ok(())
}

/// Starts the clients of each system on a thread, and returns the channel of the errors that end
/// them.
fn start(
    systems: &[ShownSystem],
    demand: &Demand,
    demo: &Demo,
) -> anyhow::Result<mpsc::Receiver<anyhow::Error>> {
    let (failed, ended) = mpsc::channel(systems.len());
    for (system, shown) in systems.iter().zip(&demo.shown) {
        let (system, demand, shown) = (system.clone(), demand.clone(), shown.clone());
        let failed = failed.clone();
        std::thread::Builder::new()
            .name(format!("clients-{}", system.name))
            .spawn(move || {
                if let Err(error) = clients::drive(&system, &demand, &shown) {
                    // Nothing is left to tell when the command is over.
                    let _ = failed.try_send(error.context(format!("cannot ask {}", system.name)));
                }
            })
            .context("cannot start the clients")?;
    }
    Ok(ended)
}

/// Waits until a system's clients fail, and returns their error.
async fn broken(mut ended: mpsc::Receiver<anyhow::Error>) -> anyhow::Result<()> {
    match ended.recv().await {
        Some(error) => Err(error),
        // All clients are gone without a word, which only a panic does.
        None => bail!("the clients have ended"),
    }
}

async fn over(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(START + duration).await,
        None => std::future::pending().await,
    }
}

fn trace(args: &DemoArgs) -> anyhow::Result<Trace> {
    let mut trace = workload::generate(&TracePlan {
        seed: args.seed,
        requests: args.requests,
        files: FILES,
        sizes: Sizes::default(),
        requests_per_user: None,
    });
    ensure!(
        workload::scale_to_load(&mut trace, args.load, Connection::New, args.uplink),
        "one request makes no load; take more --requests"
    );
    Ok(trace)
}

/// Returns the size above which the largest 1% of the responses are.
fn largest(trace: &Trace) -> u64 {
    let mut sizes: Vec<u64> = trace.requests.iter().map(|request| request.bytes).collect();
    sizes.sort_unstable();
    sizes[((sizes.len() - 1) as f64 * (1.0 - LARGE_SHARE)) as usize]
}

fn system(text: &str) -> Result<ShownSystem, String> {
    let (name, rest) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("a system is NAME=URL, such as nginx=http://127.0.0.1:8080")?;
    let (url, namespace) = match rest.split_once(',') {
        None => (rest, None),
        Some((url, more)) => {
            let namespace = more
                .strip_prefix("namespace=")
                .filter(|name| !name.is_empty() && !name.contains('/'))
                .ok_or_else(|| format!("`{more}` is not namespace=NAME"))?;
            (url, Some(namespace.to_owned()))
        }
    };
    Ok(ShownSystem {
        name: name.to_owned(),
        target: replay::target(url)?,
        namespace,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_has_a_name_a_url_and_perhaps_a_namespace() {
        let plain = system("nginx=http://127.0.0.1:80").unwrap();
        assert_eq!((plain.name.as_str(), plain.namespace), ("nginx", None));
        let within = system("a=http://127.0.0.1:80,namespace=x-client").unwrap();
        assert_eq!(within.namespace.as_deref(), Some("x-client"));
        for text in [
            "http",
            "=http://127.0.0.1:80",
            "a=ftp://127.0.0.1",
            "a=http://127.0.0.1:80,x",
            "a=http://127.0.0.1:80,namespace=../x",
        ] {
            assert!(system(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_in_a_hundred_is_large() {
        let sizes = |count: u64| Trace {
            requests: (1..=count)
                .map(|bytes| crate::trace::Request {
                    t_s: 0.0,
                    bytes,
                    path: "/".into(),
                    user: None,
                })
                .collect(),
        };
        assert_eq!(largest(&sizes(1000)), 990);
        assert_eq!(largest(&sizes(1)), 1);
    }
}
