//! A network as it is to be built: hosts with addresses, links, and the links between
//! each pair of hosts.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::file::{FarmBucket, File, Group, Pair, Tcp};
use crate::links::LinkSettings;

/// A network that can be built.
#[derive(Debug, PartialEq)]
pub(crate) struct NetworkPlan {
    /// The prefix of the namespaces' names.
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) farm: FarmPlan,
    /// Groups of clients; groups of groups are links alone.
    pub(crate) groups: Vec<GroupPlan>,
    pub(crate) links: Vec<LinkPlan>,
    /// The code points whose packets are marked OUT.
    pub(crate) out_code_points: Vec<u8>,
}

/// The farm as it is to be built: the host of the servers.
#[derive(Debug, PartialEq)]
pub(crate) struct FarmPlan {
    pub(crate) namespace: String,
    pub(crate) servers: Vec<HostPlan>,
    pub(crate) tbf: Option<FarmBucket>,
    pub(crate) tcp: Tcp,
}

/// The host of a group's clients.
#[derive(Debug, PartialEq)]
pub(crate) struct GroupPlan {
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The group's part of the requests, relative to the other groups'.
    pub(crate) share: f64,
    pub(crate) clients: Vec<HostPlan>,
}

/// The address of a server or client, and the links that lead to it.
#[derive(Debug, PartialEq)]
pub(crate) struct HostPlan {
    pub(crate) address: Ipv4Addr,
    /// Places in [`NetworkPlan::links`]: those of a server, or from the farm to a client.
    pub(crate) links: Vec<usize>,
}

/// A link in both directions.
#[derive(Debug, PartialEq)]
pub(crate) struct LinkPlan {
    pub(crate) name: String,
    pub(crate) down: LinkSettings,
    pub(crate) up: LinkSettings,
}

/// The name of the link that all clients are behind.
const SHARED: &str = "shared";
/// The most bytes of a topology's file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most groups with clients: each has a namespace and a device.
const GROUPS_MAX: usize = 64;
/// The most levels of groups in groups.
const DEPTH_MAX: usize = 4;

impl NetworkPlan {
    /// Reads a topology's file; `name`, if given, replaces the name in it.
    ///
    /// # Errors
    /// Names the file, the line, and what may stand there.
    pub(crate) fn read(path: &Path, name: Option<&str>) -> anyhow::Result<Self> {
        let length = std::fs::metadata(path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
        ensure!(
            length <= FILE_BYTES_MAX,
            "{} is larger than 1 MB",
            path.display()
        );
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, name).with_context(|| path.display().to_string())
    }

    /// Reads a plan like [`Self::read`], but from text.
    pub(super) fn parse(text: &str, name: Option<&str>) -> anyhow::Result<Self> {
        let mut file: File = serde_saphyr::from_str(text)?;
        if let Some(name) = name {
            file.name = name.to_owned();
        }
        let mut builder = Builder::default();
        let mut path = Vec::new();
        let servers = builder.servers(&file);
        if let Some(pair) = &file.shared {
            path.push(builder.link(SHARED.to_owned(), pair));
        }
        for group in &file.groups {
            builder.group(&file.name, group, &path, 1)?;
        }
        let groups = builder.groups;
        ensure!(!groups.is_empty(), "`groups` names no clients");
        ensure!(
            groups.iter().any(|group| group.share > 0.0),
            "every group has a share of 0"
        );
        Ok(Self {
            farm: FarmPlan {
                namespace: format!("{}-farm", file.name),
                servers,
                tbf: file.farm.tbf,
                tcp: file.farm.tcp,
            },
            name: file.name,
            seed: file.seed,
            groups,
            links: builder.links,
            out_code_points: file.marks.out,
        })
    }

    /// Returns the link that all clients are behind.
    pub(crate) fn shared(&self) -> Option<&LinkPlan> {
        self.links.iter().find(|link| link.name == SHARED)
    }

    /// Returns the name of every namespace.
    pub(super) fn namespaces(&self) -> Vec<String> {
        let groups = self.groups.iter().map(|group| group.namespace.clone());
        [self.farm.namespace.clone()]
            .into_iter()
            .chain(groups)
            .collect()
    }
}

#[derive(Default)]
struct Builder {
    links: Vec<LinkPlan>,
    groups: Vec<GroupPlan>,
    names: BTreeSet<String>,
}

impl Builder {
    fn link(&mut self, name: String, pair: &Pair) -> usize {
        self.links.push(LinkPlan {
            name,
            down: pair.down.0.clone(),
            up: pair.up.0.clone(),
        });
        self.links.len() - 1
    }

    fn servers(&mut self, file: &File) -> Vec<HostPlan> {
        let link = file.farm.link.as_ref();
        (1..=file.farm.servers)
            .map(|number| HostPlan {
                address: Ipv4Addr::new(198, 18, 0, number),
                links: link
                    .map(|pair| self.link(format!("server-{number}"), pair))
                    .into_iter()
                    .collect(),
            })
            .collect()
    }

    fn group(
        &mut self,
        network: &str,
        group: &Group,
        path: &[usize],
        depth: usize,
    ) -> anyhow::Result<()> {
        let name = &group.name;
        ensure!(
            name != "farm" && self.names.insert(name.clone()),
            "there are two groups `{name}`, or one is called as the farm"
        );
        ensure!(
            depth <= DEPTH_MAX,
            "group `{name}` is more than {DEPTH_MAX} deep"
        );
        let mut path = path.to_vec();
        if let Some(pair) = &group.trunk {
            path.push(self.link(name.clone(), pair));
        }
        let Some(clients) = group.clients else {
            ensure!(
                !group.groups.is_empty(),
                "group `{name}` has neither `clients` nor `groups`"
            );
            ensure!(
                group.link.is_none() && group.share.is_none(),
                "`link` and `share` are of groups with clients; group `{name}` has a `trunk`"
            );
            for inner in &group.groups {
                self.group(network, inner, &path, depth + 1)?;
            }
            return Ok(());
        };
        if !group.groups.is_empty() {
            bail!("group `{name}` has `clients` and `groups`: it takes one of them");
        }
        ensure!(
            self.groups.len() < GROUPS_MAX,
            "there are more than {GROUPS_MAX} groups with clients"
        );
        // 198.18.0.0/15 is set aside for benchmarks (RFC 2544).
        let network_number = self.groups.len() as u8 + 1;
        let clients: Vec<HostPlan> = (1..=clients)
            .map(|number| {
                let own = group
                    .link
                    .as_ref()
                    .map(|pair| self.link(format!("{name}-{number}"), pair));
                HostPlan {
                    address: Ipv4Addr::new(198, 18, network_number, number),
                    links: path.iter().copied().chain(own).collect(),
                }
            })
            .collect();
        self.groups.push(GroupPlan {
            name: name.clone(),
            namespace: format!("{network}-{name}"),
            share: group.share.unwrap_or(clients.len() as f64),
            clients,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
