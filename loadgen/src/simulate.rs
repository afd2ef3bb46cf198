//! Simulation in virtual time, which drives the core's own code: the simulated code is the code
//! that runs.
//!
//! Only what surrounds the core is made up: the arrivals, the times that a server
//! takes, and the clock. The order of requests, their endpoints and refusals are
//! decided by `sprat-scheduler`, as in the proxy.

mod arrivals;
mod charts;
mod cores;
mod dispatch;
mod eh99;
pub mod experiment;
mod farm;
mod findings;
mod link;
mod measure;
mod network;
mod options;
mod output;
pub(crate) mod papers;
mod row;
pub(crate) mod sample;
mod sdis02;
pub mod sizes;
mod srq06;
pub mod statistics;
pub mod theory;
mod waiting;

/// Simulate the core in virtual time.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # a link under every discipline, next to theory
  sprat-loadgen simulate link --load 0.5,0.7,0.9

  # the same with a heavier tail, with CSV and figures
  sprat-loadgen simulate link --sizes pareto:1.1,700,2MB -o results/link

  # eight requests at a time: who of the waiting goes first
  sprat-loadgen simulate waiting --load 0.5,0.7,0.9

  # four endpoints: which one
  sprat-loadgen simulate dispatch

  # TCP over networks with names, and over 200 random ones
  sprat-loadgen simulate network -o results/networks
  sprat-loadgen simulate network --seeds 0..200 --requests 1000

  # the paper's server, its figures 2 to 13
  sprat-loadgen simulate sdis02 -o results/sdis02

  # the request-aware scheduler's table IV and figures 9 to 15
  sprat-loadgen simulate srq -o results/srq

  # short flows first in routers, the paper's figures 3, 6, 7 and 8a
  sprat-loadgen simulate sfd -o results/sfd")]
pub struct SimulateArgs {
    #[command(subcommand)]
    system: SimulatedSystem,
}

/// The system that is simulated.
#[derive(Clone, Debug, clap::Subcommand)]
enum SimulatedSystem {
    Link(link::LinkArgs),
    Network(network::SimulatedNetworkArgs),
    Waiting(waiting::WaitingArgs),
    Dispatch(dispatch::DispatchArgs),
    Sdis02(sdis02::Sdis02Args),
    Srq(srq06::SrqArgs),
    Sfd(network::sfd::SfdArgs),
}

/// Runs the command `sprat-loadgen simulate`.
///
/// # Errors
/// When the core breaks an invariant, or the output cannot be written.
pub fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    match &args.system {
        SimulatedSystem::Link(args) => link::run(args),
        SimulatedSystem::Network(args) => network::run(args),
        SimulatedSystem::Waiting(args) => waiting::run(args),
        SimulatedSystem::Dispatch(args) => dispatch::run(args),
        SimulatedSystem::Sdis02(args) => sdis02::run(args),
        SimulatedSystem::Srq(args) => srq06::run(args),
        SimulatedSystem::Sfd(args) => network::sfd::run(args),
    }
}
