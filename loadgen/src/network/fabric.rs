//! All links of a network, and the route of each packet over them: sans-IO.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::Serialize;
use sprat_scheduler::Time;

use super::plan::NetworkPlan;
use crate::links::{Link, LinkCounters, Mark, Packet};

/// The number of a device, which packets come from and go to: 0 is the farm's, then the groups'.
pub(super) type Port = usize;

/// One of the two directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// The direction from the farm to a client.
    Down,
    /// The direction from a client to the farm.
    Up,
}

/// The data of a packet under way, and the route that it takes.
#[derive(Debug)]
struct Payload {
    data: Vec<u8>,
    port: Port,
    /// The links of the packet's way, in two parts: those of one host, then those of the other.
    route: [Arc<[usize]>; 2],
    /// The number of links that the packet has passed.
    passed: usize,
}

impl Payload {
    fn next_link(&self) -> Option<usize> {
        let [first, second] = &self.route;
        first
            .get(self.passed)
            .or_else(|| second.get(self.passed.checked_sub(first.len())?))
            .copied()
    }
}

/// The device of one host, and the links to and from it.
#[derive(Debug)]
struct HostLinks {
    port: Port,
    down: Arc<[usize]>,
    up: Arc<[usize]>,
}

/// The packets that the fabric dropped before any link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Strays {
    /// Packets other than IPv4, which hosts send of themselves.
    pub(super) other_protocols: u64,
    /// Packets that are not between a server and a client.
    pub(super) without_a_way: u64,
}

/// The links of a network with their packets.
#[derive(Debug)]
pub(super) struct Fabric {
    links: Vec<Link<Payload>>,
    /// The last answer of [`Link::next_event`] for each link.
    due: Vec<Option<Time>>,
    /// The times in `due`, the earliest first, among entries that are out of date.
    events: BinaryHeap<Reverse<(Time, usize)>>,
    servers: HashMap<Ipv4Addr, HostLinks>,
    clients: HashMap<Ipv4Addr, HostLinks>,
    /// The mark of each code point.
    marks: [Mark; 64],
    strays: Strays,
}

impl Fabric {
    /// Makes the links of `plan`, empty, whose schedules begin at `now`.
    pub(super) fn new(plan: &NetworkPlan, now: Time) -> Self {
        let mut seed = plan.seed;
        let mut link = |settings: &crate::links::LinkSettings| {
            seed = seed.wrapping_add(1);
            Link::new(settings.clone(), seed, now)
        };
        let links: Vec<_> = plan
            .links
            .iter()
            .flat_map(|pair| [link(&pair.down), link(&pair.up)])
            .collect();
        let down = |host: &[usize]| host.iter().map(|link| 2 * link).collect();
        let up = |host: &[usize]| host.iter().rev().map(|link| 2 * link + 1).collect();
        let host = |port, host: &super::plan::HostPlan| {
            let entry = HostLinks {
                port,
                down: down(&host.links),
                up: up(&host.links),
            };
            (host.address, entry)
        };
        let mut marks = [Mark::In; 64];
        for code_point in &plan.out_code_points {
            marks[usize::from(code_point & 63)] = Mark::Out;
        }
        Self {
            due: vec![None; links.len()],
            links,
            events: BinaryHeap::new(),
            servers: plan.farm.servers.iter().map(|h| host(0, h)).collect(),
            clients: (1..)
                .zip(&plan.groups)
                .flat_map(|(port, group)| group.clients.iter().map(move |h| (port, h)))
                .map(|(port, h)| host(port, h))
                .collect(),
            marks,
            strays: Strays::default(),
        }
    }

    /// Takes a packet that a host has sent, and gives `arrive` every packet that is due by `now`.
    pub(super) fn send(&mut self, now: Time, data: &[u8], arrive: &mut impl FnMut(Port, &[u8])) {
        let Some(header) = Header::read(data) else {
            self.strays.other_protocols += 1;
            return;
        };
        let Header { from, to, service } = header;
        let way = match (self.servers.get(&from), self.clients.get(&to)) {
            (Some(server), Some(client)) => Some((client.port, [&server.down, &client.down])),
            _ => match (self.clients.get(&from), self.servers.get(&to)) {
                (Some(client), Some(server)) => Some((server.port, [&client.up, &server.up])),
                _ => None,
            },
        };
        let Some((port, route)) = way else {
            self.strays.without_a_way += 1;
            return;
        };
        let packet = Packet {
            bytes: data.len() as u32,
            mark: self.marks[usize::from(service >> 2)],
            content: Payload {
                data: data.to_vec(),
                port,
                route: route.map(Clone::clone),
                passed: 0,
            },
        };
        self.pass_on(now, packet, arrive);
        self.run(now, arrive);
    }

    /// Returns when to call [`Self::run`] next, if no packet comes before.
    pub(super) fn next_event(&mut self) -> Option<Time> {
        while let Some(Reverse((when, link))) = self.events.peek() {
            if self.due[*link] == Some(*when) {
                return Some(*when);
            }
            self.events.pop();
        }
        None
    }

    /// Carries out all that the links have due by `now`, each at its own time.
    pub(super) fn run(&mut self, now: Time, arrive: &mut impl FnMut(Port, &[u8])) {
        while let Some(when) = self.next_event().filter(|when| *when <= now) {
            let Some(Reverse((_, link))) = self.events.pop() else {
                return;
            };
            self.due[link] = None;
            while let Some((due, mut packet)) = self.links[link].take_due(when) {
                packet.content.passed += 1;
                self.pass_on(due, packet, arrive);
            }
            self.remember(link);
        }
    }

    /// Returns the counters of a link of the plan in one direction.
    pub(super) fn counters(&self, link: usize, way: Way) -> LinkCounters {
        let direction = match way {
            Way::Down => 0,
            Way::Up => 1,
        };
        self.links[2 * link + direction].counters()
    }

    /// Returns the numbers of packets that belonged to no link.
    pub(super) fn strays(&self) -> Strays {
        self.strays
    }

    fn pass_on(
        &mut self,
        now: Time,
        packet: Packet<Payload>,
        arrive: &mut impl FnMut(Port, &[u8]),
    ) {
        match packet.content.next_link() {
            None => arrive(packet.content.port, &packet.content.data),
            Some(link) => {
                // The counters tell of those that are dropped.
                let _ = self.links[link].offer(now, packet);
                self.remember(link);
            }
        }
    }

    fn remember(&mut self, link: usize) {
        let due = self.links[link].next_event();
        if due != self.due[link] {
            self.due[link] = due;
            self.events.extend(due.map(|due| Reverse((due, link))));
        }
    }
}

/// The fields that the fabric reads of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    from: Ipv4Addr,
    to: Ipv4Addr,
    /// The octet with the code point.
    service: u8,
}

const HEADER_BYTES: usize = 20;

impl Header {
    fn read(data: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = data.first_chunk()?;
        let address =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        (header[0] >> 4 == 4).then(|| Self {
            from: address(12),
            to: address(16),
            service: header[1],
        })
    }
}

#[cfg(test)]
mod tests;
