//! The present endpoints of a cluster: those of its configuration, with addresses in the place
//! of names.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use sprat_config::resolved::{Cluster, Dispatch, DnsType, Endpoint, EndpointAddress};
use sprat_scheduler::dispatch::{EndpointSpec, stable_hash};

use super::counts::EndpointCounts;
use super::listed::{Listed, Seen};
use super::stats::EndpointStats;
use crate::dns::{Name, Names};

/// An endpoint of a cluster at present, shared by all workers.
#[derive(Debug)]
pub struct Member {
    /// The name in metrics and logs, unique in the cluster: the endpoint's address, or its name
    /// if that is one endpoint.
    pub label: String,
    /// The address as the configuration has it: TLS expects a certificate for it.
    pub(super) address: EndpointAddress,
    pub(super) target: Target,
    /// The `Host` for a request that came without one.
    pub(super) authority: HeaderValue,
    /// The counts that all workers share.
    pub counts: Arc<EndpointCounts>,
    /// The counters of each worker.
    pub stats: Vec<Arc<EndpointStats>>,
}

/// The target that connections go to.
#[derive(Debug)]
pub(super) enum Target {
    Address(SocketAddr),
    /// The path of a Unix socket.
    Path(PathBuf),
    /// A name: connections go to the first of its addresses that accepts them.
    Name(Logical),
}

/// A name that is one endpoint, however many addresses it has.
#[derive(Debug)]
pub(super) struct Logical {
    name: Arc<Name>,
    port: u16,
    /// The name's address that has accepted the last connection.
    accepted: Mutex<Option<IpAddr>>,
}

impl Logical {
    fn new(name: &Arc<Name>, port: u16) -> Self {
        Self {
            name: Arc::clone(name),
            port,
            accepted: Mutex::default(),
        }
    }

    /// Returns the name's present addresses, in the order in which they are tried: the one that
    /// has accepted the last connection comes first.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let accepted = *self.accepted();
        let mut found = self.name.addresses().to_vec();
        found.sort_by_key(|ip| Some(*ip) != accepted);
        let found = found.into_iter().map(|ip| SocketAddr::new(ip, self.port));
        found.collect()
    }

    /// Notes that this address has accepted a connection.
    pub(super) fn has_accepted(&self, address: SocketAddr) {
        *self.accepted() = Some(address.ip());
    }

    fn accepted(&self) -> MutexGuard<'_, Option<IpAddr>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The configured endpoints that members are made from.
#[derive(Debug)]
pub(super) struct Source {
    cluster: Arc<Cluster>,
    /// The endpoints that the configuration itself lists.
    endpoints: Vec<Configured>,
    /// The endpoints of the file that the configuration names, if it names one.
    listed: Mutex<Arc<[Configured]>>,
    /// The state of that file at the last look for this station. While a reload is prepared,
    /// another station of the cluster may have seen another.
    seen: Mutex<Seen>,
    workers: usize,
}

/// An endpoint of the configuration, or of a file.
#[derive(Debug)]
struct Configured {
    endpoint: Endpoint,
    authority: HeaderValue,
    /// The name, if the address is one.
    name: Option<Arc<Name>>,
    size_range: Option<(u64, u64)>,
}

impl Source {
    /// Creates the source of a cluster's members, for so many workers. `listed` are the
    /// endpoints of its file, as it was seen.
    ///
    /// # Errors
    ///
    /// An endpoint's address cannot stand in a header field, or the thread that resolves names
    /// cannot be started.
    pub(super) fn new(
        cluster: &Arc<Cluster>,
        names: &Names,
        workers: usize,
        listed: Listed,
    ) -> anyhow::Result<Self> {
        let count = cluster.endpoints.len();
        let range = |index: usize, own: &Endpoint| match &cluster.dispatch {
            Dispatch::Sita(intervals) => own.size_range.or_else(|| intervals.range(index, count)),
            _ => own.size_range,
        };
        let endpoints = cluster.endpoints.iter().enumerate();
        let endpoints = endpoints.map(|(index, own)| {
            let name = match &own.address {
                EndpointAddress::Ip(_) | EndpointAddress::Unix(_) => None,
                EndpointAddress::Name { host, .. } => Some(names.get(host, &cluster.dns)?),
            };
            anyhow::Ok(Configured {
                endpoint: own.clone(),
                authority: HeaderValue::try_from(own.address.authority())?,
                name,
                size_range: range(index, own),
            })
        });
        Ok(Self {
            cluster: Arc::clone(cluster),
            endpoints: endpoints.collect::<Result<_, _>>()?,
            listed: Mutex::new(Self::configured(listed.endpoints)?),
            seen: Mutex::new(listed.seen),
            workers,
        })
    }

    fn configured(listed: Vec<Endpoint>) -> anyhow::Result<Arc<[Configured]>> {
        let one = |endpoint: Endpoint| {
            anyhow::Ok(Configured {
                authority: HeaderValue::try_from(endpoint.address.authority())?,
                name: None,
                size_range: endpoint.size_range,
                endpoint,
            })
        };
        listed.into_iter().map(one).collect()
    }

    /// Replaces the endpoints of the file.
    ///
    /// # Errors
    ///
    /// An endpoint's address cannot stand in a header field.
    pub(super) fn set_listed(&self, listed: Vec<Endpoint>) -> anyhow::Result<()> {
        *self.lock_listed() = Self::configured(listed)?;
        Ok(())
    }

    /// Returns the endpoints of the file, and the state in which this station saw it.
    pub(super) fn as_listed(&self) -> Listed {
        Listed {
            endpoints: self.listed(),
            seen: self.seen(),
        }
    }

    /// Returns the state of the file at the last look for this station.
    pub(super) fn seen(&self) -> Seen {
        *self.lock_seen()
    }

    /// Notes the state in which a look found the file; returns the state before.
    pub(super) fn saw(&self, seen: Seen) -> Seen {
        std::mem::replace(&mut *self.lock_seen(), seen)
    }

    fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the endpoints of the file.
    pub(super) fn listed(&self) -> Vec<Endpoint> {
        let listed = Arc::clone(&self.lock_listed());
        listed.iter().map(|own| own.endpoint.clone()).collect()
    }

    fn lock_listed(&self) -> MutexGuard<'_, Arc<[Configured]>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names among the endpoints, each once.
    pub(super) fn names(&self) -> Vec<&Arc<Name>> {
        let mut names: Vec<&Arc<Name>> = Vec::new();
        for name in self.endpoints.iter().filter_map(|own| own.name.as_ref()) {
            if !names.iter().any(|known| Arc::ptr_eq(known, name)) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the present targets of the configured endpoints. An address that two names have is
    /// one endpoint. An address that is configured itself is no name's.
    fn targets(&self, all: &[&Configured]) -> Vec<PresentTarget> {
        let mut targets = Vec::new();
        let mut seen: HashSet<SocketAddr> = all
            .iter()
            .filter_map(|own| match &own.endpoint.address {
                EndpointAddress::Ip(address) => Some(*address),
                EndpointAddress::Name { .. } | EndpointAddress::Unix(_) => None,
            })
            .collect();
        for (index, own) in all.iter().enumerate() {
            let address = &own.endpoint.address;
            match (address, &own.name) {
                (EndpointAddress::Name { port, .. }, Some(name)) => {
                    let found = name.addresses();
                    if self.cluster.dns.discovery == DnsType::Logical {
                        if !found.is_empty() {
                            targets.push(PresentTarget {
                                index,
                                label: address.to_string(),
                                target: Target::Name(Logical::new(name, *port)),
                            });
                        }
                        continue;
                    }
                    for ip in found.iter() {
                        let found = SocketAddr::new(*ip, *port);
                        if seen.insert(found) {
                            targets.push(PresentTarget::at(index, found));
                        }
                    }
                }
                (EndpointAddress::Ip(found), _) => targets.push(PresentTarget::at(index, *found)),
                (EndpointAddress::Unix(path), _) => targets.push(PresentTarget {
                    index,
                    label: address.to_string(),
                    target: Target::Path(path.clone()),
                }),
                // A name is resolved.
                (EndpointAddress::Name { .. }, None) => {}
            }
        }
        targets
    }

    /// Returns the present members, and what the station is told of each. A member that is
    /// `known` stays if its address and target are the same. If only its label is, its counts go
    /// on.
    pub(super) fn members(&self, known: &[Arc<Member>]) -> Vec<(Arc<Member>, EndpointSpec)> {
        let listed = Arc::clone(&self.lock_listed());
        let all: Vec<&Configured> = self.endpoints.iter().chain(listed.iter()).collect();
        let member = |present: PresentTarget| {
            let PresentTarget {
                index,
                label,
                target,
            } = present;
            let own = all[index];
            let configured = &own.endpoint;
            let spec = EndpointSpec {
                weight: configured.weight,
                reserved: configured.reserved,
                priority: configured.priority,
                size_range: own.size_range,
                identity: stable_hash(&[label.as_bytes()]),
            };
            let address = &configured.address;
            let same = known.iter().find(|known| known.label == label);
            let member = match same {
                Some(same) if same.address == *address && same.target.is(&target) => {
                    Arc::clone(same)
                }
                other => Arc::new(Member {
                    label,
                    address: address.clone(),
                    target,
                    authority: own.authority.clone(),
                    counts: other.map_or_else(Arc::default, |other| Arc::clone(&other.counts)),
                    stats: match other {
                        Some(other) => other.stats.clone(),
                        None => (0..self.workers).map(|_| Arc::default()).collect(),
                    },
                }),
            };
            (member, spec)
        };
        self.targets(&all).into_iter().map(member).collect()
    }
}

/// A target that a configured endpoint has at present.
struct PresentTarget {
    /// The place of the endpoint among the configured ones.
    index: usize,
    label: String,
    target: Target,
}

impl PresentTarget {
    fn at(index: usize, address: SocketAddr) -> Self {
        Self {
            index,
            label: address.to_string(),
            target: Target::Address(address),
        }
    }
}

impl Target {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(own), Self::Address(other)) => own == other,
            (Self::Path(own), Self::Path(other)) => own == other,
            (Self::Name(own), Self::Name(other)) => {
                Arc::ptr_eq(&own.name, &other.name) && own.port == other.port
            }
            _ => false,
        }
    }
}

/// A cluster's members in a station's slots.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// The members by slot. A member that is gone may still have requests; its slot waits for
    /// another member.
    pub(super) by_slot: Vec<Arc<Member>>,
    /// The slots of the members that are present, in order.
    pub(super) present: Vec<usize>,
}

impl Members {
    /// Puts members into their slots; returns the slots whose member was there before.
    pub(super) fn set(&mut self, slots: Vec<usize>, members: Vec<Arc<Member>>) -> Vec<usize> {
        let mut kept = Vec::new();
        for (&slot, member) in slots.iter().zip(members) {
            match self.by_slot.get_mut(slot) {
                Some(there) => {
                    if there.label == member.label && self.present.contains(&slot) {
                        kept.push(slot);
                    }
                    *there = member;
                }
                // Slots are handed out one after the other.
                None => self.by_slot.push(member),
            }
        }
        self.present = slots;
        kept
    }

    /// Returns the members that are present, with their slots.
    pub(super) fn present(&self) -> impl Iterator<Item = (usize, &Arc<Member>)> {
        let slots = self.present.iter();
        slots.map(|&slot| (slot, &self.by_slot[slot]))
    }
}
