//! The replay of one trace from the clients of a network: groups in namespaces of their own, and
//! many addresses in each.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::plan::Replay;
use super::run::{LEAD, replay_from, sessions};
use crate::network::{Description, HostDescription, enter};
use crate::results::Outcome;
use crate::trace::Trace;

/// The clients of a network, and the client of each request.
#[derive(Debug)]
pub(super) struct Groups {
    network: String,
    groups: Vec<HostDescription>,
    /// The client of each request.
    askers: Vec<Asker>,
}

/// The client that makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The client's group, as an index.
    pub(crate) group: usize,
    pub(crate) address: Ipv4Addr,
}

/// The most bytes of a network's description.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

impl Groups {
    /// Reads a running network's description, and splits the trace among its clients: by
    /// the groups' shares, and equally within a group. The seed decides; a user's
    /// requests stay together.
    pub(super) fn read(file: &Path, trace: &Trace, seed: u64) -> anyhow::Result<Self> {
        let told = || format!("cannot read the network in {}", file.display());
        let length = std::fs::metadata(file).with_context(told)?.len();
        ensure!(length <= DESCRIPTION_BYTES_MAX, "{}: too long", told());
        let text = std::fs::read_to_string(file).with_context(told)?;
        let description: Description = serde_json::from_str(&text).with_context(told)?;
        let groups = description.groups;
        ensure!(
            groups.iter().all(|group| !group.addresses.is_empty()),
            "{}: a group without clients",
            told()
        );
        let askers = split(&groups, trace, seed).with_context(told)?;
        Ok(Self {
            network: description.name,
            groups,
            askers,
        })
    }

    /// Returns the name of the network.
    pub(super) fn network(&self) -> &str {
        &self.network
    }

    /// Drops the clients of the first requests, which are no longer among the results.
    pub(super) fn skip(&mut self, requests: usize) {
        self.askers.drain(..requests);
    }

    /// Replays the trace from all groups at once; the outcomes are in the trace's order.
    pub(super) fn replay(
        &self,
        trace: &Trace,
        plan: &Replay,
        progress: &ProgressBar,
    ) -> anyhow::Result<Vec<Outcome>> {
        let plan = &Replay {
            open_max: (plan.open_max / self.groups.len().max(1) as u32).max(1),
            ..plan.clone()
        };
        let begun = Instant::now() + LEAD;
        let parts: Vec<anyhow::Result<Vec<Outcome>>> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..self.groups.len())
                .map(|group| scope.spawn(move || self.part(group, trace, plan, begun, progress)))
                .collect();
            let ended = started.into_iter().map(|thread| {
                let joined = thread.join();
                joined.unwrap_or_else(|_| Err(anyhow!("a group's thread has ended")))
            });
            ended.collect()
        });
        let mut parts = parts
            .into_iter()
            .map(|part| part.map(Vec::into_iter))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let outcomes = self.askers.iter().map(|asker| parts[asker.group].next());
        outcomes
            .collect::<Option<_>>()
            .context("a group has fewer outcomes than requests")
    }

    /// Replays the requests of one group, in its namespace.
    fn part(
        &self,
        group: usize,
        trace: &Trace,
        plan: &Replay,
        begun: Instant,
        progress: &ProgressBar,
    ) -> anyhow::Result<Vec<Outcome>> {
        enter(&self.groups[group].namespace)?;
        let own = || {
            let all = self.askers.iter().zip(&trace.requests);
            all.filter(|(asker, _)| asker.group == group)
        };
        let requests = own().map(|(_, request)| request.clone()).collect();
        let sources: Vec<Ipv4Addr> = own().map(|(asker, _)| asker.address).collect();
        replay_from(&Trace { requests }, &sources, plan, begun, progress)
    }

    /// Returns a line for each group: its requests, its failures and its mean response time.
    pub(super) fn summary(&self, outcomes: &[Outcome]) -> String {
        let line = |group: usize| {
            let of_group = || {
                let all = self.askers.iter().zip(outcomes);
                all.filter(move |(asker, _)| asker.group == group)
                    .map(|(_, outcome)| outcome)
            };
            let good = || of_group().filter(|outcome| outcome.error.is_none());
            let sum_ms: f64 = good().map(|outcome| outcome.response_ms).sum();
            format!(
                "  {}: {} requests from {} clients, {} failed, mean {:.2} ms",
                self.groups[group].name,
                of_group().count(),
                self.groups[group].addresses.len(),
                of_group().count() - good().count(),
                sum_ms / good().count().max(1) as f64,
            )
        };
        let lines: Vec<String> = (0..self.groups.len()).map(line).collect();
        lines.join("\n")
    }
}

/// Draws the client of each request by the groups' shares; `None` if every share is zero.
pub(crate) fn split(groups: &[HostDescription], trace: &Trace, seed: u64) -> Option<Vec<Asker>> {
    let total: f64 = groups.iter().map(|group| group.share).sum();
    let mut draws = Pcg64::seed_from_u64(seed);
    let mut askers = vec![None; trace.requests.len()];
    for session in sessions(trace) {
        let mut left = draws.random::<f64>() * total;
        let drawn = groups.iter().position(|group| {
            left -= group.share;
            left < 0.0
        });
        // What rounding leaves over is the last one's.
        let group = drawn.or_else(|| groups.iter().rposition(|group| group.share > 0.0))?;
        let addresses = &groups[group].addresses;
        let address = addresses[draws.random_range(0..addresses.len())];
        for request in session {
            askers[request] = Some(Asker { group, address });
        }
    }
    askers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Request;

    fn group(name: &str, network: u8, clients: u8, share: f64) -> HostDescription {
        HostDescription {
            name: name.to_owned(),
            namespace: name.to_owned(),
            addresses: (1..=clients)
                .map(|number| Ipv4Addr::new(198, 18, network, number))
                .collect(),
            share,
        }
    }

    fn trace(requests: usize, users: Option<u32>) -> Trace {
        let request = |number: usize| Request {
            t_s: number as f64,
            bytes: 1,
            path: "/".into(),
            user: users.map(|users| number as u32 % users),
        };
        Trace {
            requests: (0..requests).map(request).collect(),
        }
    }

    #[test]
    fn requests_are_split_by_share_and_equally_within_a_group() {
        let groups = [
            group("a", 1, 4, 3.0),
            group("none", 2, 1, 0.0),
            group("b", 3, 1, 1.0),
        ];
        let askers = split(&groups, &trace(8000, None), 7).unwrap();
        let of = |group: usize| askers.iter().filter(|asker| asker.group == group).count();
        assert!((5850..6150).contains(&of(0)), "{}", of(0));
        assert_eq!(of(1), 0);
        for address in &groups[0].addresses {
            let count = askers
                .iter()
                .filter(|asker| asker.address == *address)
                .count();
            assert!((1380..1620).contains(&count), "{address}: {count}");
        }
        assert_eq!(split(&groups, &trace(8000, None), 7).unwrap(), askers);
        assert_ne!(split(&groups, &trace(8000, None), 8).unwrap(), askers);
        assert_eq!(split(&[group("a", 1, 1, 0.0)], &trace(1, None), 7), None);
    }

    #[test]
    fn a_user_is_one_client() {
        let groups = [group("a", 1, 3, 1.0), group("b", 2, 3, 1.0)];
        let askers = split(&groups, &trace(100, Some(10)), 7).unwrap();
        for (index, asker) in askers.iter().enumerate() {
            assert_eq!(*asker, askers[index % 10]);
        }
        assert!(askers.iter().any(|asker| asker.group != askers[0].group));
    }

    #[test]
    fn a_missing_network_is_named() {
        let missing = Groups::read(Path::new("/nonexistent.json"), &trace(1, None), 7);
        let error = format!("{:#}", missing.unwrap_err());
        assert!(error.contains("/nonexistent.json"), "{error}");
    }
}
