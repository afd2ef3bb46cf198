//! A proxy that asks the core whose turn it is: how `proxy/uplink/src/` drives
//! the egress, the pacer and the search for the rate.

use std::time::Duration;

use sprat_scheduler::rate_control::gate::GateConfig;
use sprat_scheduler::{Desk, Egress, EgressPolicy, FlowSpec, Pacer, Size, Time, WireCost};

use super::auto::AutoRate;
use super::connection::Connection;
use super::events::{Alarm, Event, Events};
use super::plan::RunPlan;
use super::system::System;
use super::wire::{BARE_BYTES, SYN_ACK_BYTES};
use crate::workload::Dice;

/// The rate of a pacer without a limit, beyond those of all links.
const UNLIMITED_BITS_PER_S: u64 = 10_000_000_000;

/// The lateness of a timer of the event loop, least and most in microseconds.
const LATE_US: (f64, f64) = (20.0, 80.0);

/// The wire bytes of a connection before its response: the SYN-ACK, and the ACK of the request.
/// [`CLOSING`] are those after it: the FIN, and the ACK of the client's.
const OPENING: u64 = SYN_ACK_BYTES + BARE_BYTES;
const CLOSING: u64 = 2 * BARE_BYTES;

/// The bytes written after which a connection's account is settled; [`MOVED_LEAST`] once the
/// account is as old as [`HORIZON`].
const MOVED_MAX: u64 = 64 << 10;
const MOVED_LEAST: u64 = 16 << 10;
const HORIZON: Duration = Duration::from_millis(250);

/// The pacer of a simulated proxy, with the flows that it serves.
pub(super) struct Paced {
    /// The number of the client, where each has a pacer of its own; otherwise 0.
    number: u32,
    /// The core's desk, which wakes flows by the numbers of their connections.
    pub(super) desk: Desk<u32>,
    pub(super) wake: Alarm,
    pub(super) poll_alarm: Alarm,
    auto: Option<AutoRate>,
    dice: Dice,
}

impl Paced {
    /// Returns the pacers of a system: none, one for all, or one for each client.
    pub(super) fn of(system: System, plan: &RunPlan) -> Vec<Self> {
        let count = match system {
            System::Fair => 0,
            System::Clients(_) | System::ClientsAuto => plan.clients.len() as u32,
            _ => 1,
        };
        (0..count)
            .map(|number| Self::new(system, plan, number))
            .collect()
    }

    fn new(system: System, plan: &RunPlan, number: u32) -> Self {
        let gated = |named_bits_per_s| {
            let config = GateConfig { named_bits_per_s };
            (0, Some(AutoRate::gated(plan.seed, &config)))
        };
        let (rate, auto) = match system {
            System::Fair | System::Unlimited => (UNLIMITED_BITS_PER_S, None),
            System::Clients(percent) => {
                let own = plan.clients[number as usize].link.rate_bits_per_s;
                (
                    own.map_or(UNLIMITED_BITS_PER_S, |own| own * percent / 100),
                    None,
                )
            }
            System::Named => (plan.named_bits_per_s.unwrap_or(UNLIMITED_BITS_PER_S), None),
            System::Rate(rate) => (rate, None),
            System::Watched(rate) => gated(rate.or(plan.named_bits_per_s)),
            System::Auto | System::ClientsAuto => gated(None),
            System::Search => (0, Some(AutoRate::alone(plan.seed))),
        };
        let rate = auto.as_ref().map_or(rate, AutoRate::rate_bits_per_s);
        let policy = EgressPolicy {
            max_flows: plan.requests.len().max(1),
            floor_percent: plan.floor_percent,
            ..EgressPolicy::new(plan.discipline.clone())
        };
        Self {
            number,
            desk: Desk::new(Egress::new(Pacer::new(rate), policy)),
            wake: Alarm::default(),
            poll_alarm: Alarm::default(),
            auto,
            dice: Dice::new(plan.seed ^ 0x5eed ^ (u64::from(number) << 16)),
        }
    }

    /// Returns the rate of the pacer.
    pub(super) fn rate_bits_per_s(&self) -> u64 {
        self.desk.egress().pacer().rate_bits_per_s()
    }

    /// Returns the search for the rate, if there is one.
    pub(super) fn auto(&self) -> Option<&AutoRate> {
        self.auto.as_ref()
    }

    /// Returns whether the caller has to call [`Paced::poll`].
    pub(super) fn polls(&self) -> bool {
        self.auto.is_some()
    }

    /// Draws how late the next timer will be.
    pub(super) fn lateness(&mut self) -> Duration {
        let (from, to) = LATE_US;
        Duration::from_nanos(((from + (to - from) * self.dice.uniform()) * 1e3) as u64)
    }

    /// Notes that a connection has been set up.
    pub(super) fn accept(&mut self, now: Time, connection: &mut Connection) {
        const LEAST: u64 = 2 * 1514;
        const MOST: u64 = 128 << 10;
        let outlet = &mut connection.outlet;
        outlet.max_unsent_bytes = (self.rate_bits_per_s() / 8 / 500).clamp(LEAST, MOST);
        outlet.settled_at = now;
        outlet.debited = OPENING;
        self.desk.egress_mut().connect(now, OPENING);
        if let Some(auto) = &mut self.auto {
            auto.overhead(now, OPENING);
        }
    }

    /// Notes that a response of `bytes` has begun.
    pub(super) fn open(&mut self, now: Time, c: u32, connection: &mut Connection, bytes: u64) {
        let spec = FlowSpec::new(0, Size::Exact(bytes), WireCost::ETHERNET_IPV4);
        let opened = self.desk.open(now, spec);
        let flow = opened.expect("there are no more flows than requests");
        self.desk.set_waker(flow, c);
        connection.outlet.flow = Some(flow);
        connection.outlet.left = bytes;
    }

    /// Notes that `bytes` were written to a connection's socket.
    pub(super) fn wrote(
        &mut self,
        now: Time,
        c: u32,
        connection: &mut Connection,
        bytes: u64,
        events: &mut Events,
    ) {
        let outlet = &connection.outlet;
        let is_old = now.since(outlet.settled_at) >= HORIZON;
        if outlet.moved >= MOVED_MAX || (outlet.moved >= MOVED_LEAST && is_old) {
            self.settle(now, connection);
        }
        if let Some(auto) = &mut self.auto {
            let position = self.desk.egress().stats().wire_bytes;
            if let Some(at) = auto.wrote(now, c, connection, bytes, position) {
                self.poll_alarm
                    .set(events, Some(at), Event::Poll(self.number));
            }
        }
    }

    /// Notes that the whole response is in the socket.
    pub(super) fn close(&mut self, now: Time, connection: &mut Connection) {
        if let Some(flow) = connection.outlet.flow.take() {
            self.desk.close(now, flow);
        }
        if connection.closes {
            self.settle(now, connection);
            self.desk.egress_mut().debit(now, CLOSING);
            if let Some(auto) = &mut self.auto {
                auto.overhead(now, CLOSING);
            }
        }
    }

    /// Corrects the bytes debited for a connection to those that the kernel has counted, as the
    /// proxy's ledger does.
    fn settle(&mut self, now: Time, connection: &mut Connection) {
        let counters = connection.sender.counters();
        let cost = WireCost::ETHERNET_IPV4;
        let unsent = cost.segment_bytes(connection.sender.unsent() + connection.outlet.pending);
        let counted = OPENING + counters.bytes_sent + counters.segments * BARE_BYTES + unsent;
        let outlet = &mut connection.outlet;
        let since = now.since(outlet.settled_at).as_secs_f64();
        let share = (HORIZON.as_secs_f64() / since.max(HORIZON.as_secs_f64())).min(1.0);
        let link_bytes =
            (self.desk.egress().pacer().rate_bits_per_s() / 8) as f64 * HORIZON.as_secs_f64();
        let present = |all: u64| (all as f64 * share).min(link_bytes) as u64;
        if counted > outlet.debited {
            self.desk
                .egress_mut()
                .debit(now, present(counted - outlet.debited));
        } else if counted < outlet.debited {
            self.desk
                .egress_mut()
                .refund(now, present(outlet.debited - counted));
        }
        outlet.debited = counted;
        outlet.moved = 0;
        outlet.settled_at = now;
    }

    /// Polls the kernel and sets the rate that the search has found. Returns the time of the next
    /// poll; `None` without a search.
    pub(super) fn poll(&mut self, now: Time, connections: &mut [Connection]) -> Option<Time> {
        let auto = self.auto.as_mut()?;
        let backlogged = self.desk.egress().waiting_flows() > 0;
        let (rate, next) = auto.poll(now, connections, backlogged);
        self.desk.egress_mut().set_rate(now, rate);
        Some(next)
    }
}
