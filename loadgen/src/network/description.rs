//! The description of a running network, which commands and replays read.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::plan::{HostPlan, NetworkPlan};

/// The description of a running network, for a command and a replay.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// The prefix of the namespaces' names.
    pub(crate) name: String,
    /// The host that sends.
    pub(crate) farm: HostDescription,
    /// The groups of clients.
    pub(crate) groups: Vec<HostDescription>,
}

/// One namespace and its addresses.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostDescription {
    /// The group's name, or `farm`.
    pub(crate) name: String,
    /// The network namespace of the host.
    pub(crate) namespace: String,
    /// The host's addresses, one for each server or client.
    pub(crate) addresses: Vec<Ipv4Addr>,
    /// The group's part of the requests, relative to those of the other groups.
    pub(crate) share: f64,
}

impl Description {
    /// Describes the network that a plan builds.
    pub(crate) fn new(plan: &NetworkPlan) -> Self {
        let addresses = |hosts: &[HostPlan]| hosts.iter().map(|host| host.address).collect();
        Self {
            name: plan.name.clone(),
            farm: HostDescription {
                name: "farm".to_owned(),
                namespace: plan.farm.namespace.clone(),
                addresses: addresses(&plan.farm.servers),
                share: 0.0,
            },
            groups: plan
                .groups
                .iter()
                .map(|group| HostDescription {
                    name: group.name.clone(),
                    namespace: group.namespace.clone(),
                    addresses: addresses(&group.clients),
                    share: group.share,
                })
                .collect(),
        }
    }
}
