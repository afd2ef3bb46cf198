//! A client, and a connection between it and the server.

use std::collections::VecDeque;
use std::time::Duration;

use sprat_scheduler::rate_control::gate::Told;
use sprat_scheduler::{FlowId, Time};

use super::congestion::Algorithm;
use super::events::Alarm;
use super::habits::Habits;
use super::plan::ClientPlan;
use super::receiver::{Ack, Receiver};
use super::repeats::Repeats;
use super::sender::Sender;
use crate::links::{Link, Packet};
use crate::workload::Dice;

/// The content of a packet towards a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketContent {
    pub(super) connection: u32,
    pub(super) kind: PacketKind,
}

/// The kind of a packet towards a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum PacketKind {
    /// The second packet of a handshake.
    SynAck,
    /// The bytes `from..to` of the stream.
    Data { from: u64, to: u64, sent_at: Time },
    /// The acknowledgement of a request or of a FIN.
    Bare,
    /// The packet by which the server ends the connection.
    Fin,
}

impl PacketKind {
    /// Returns whether the packet is a segment with payload.
    pub(super) fn is_data(self) -> bool {
        matches!(self, Self::Data { .. })
    }
}

/// A packet from a client. Each takes half of a round trip, for the links towards the server are
/// never full, and is lost by chance alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Upward {
    Syn,
    /// A request, which ends the handshake too if the connection is new.
    Request,
    Ack(Ack),
    /// The packet by which the client ends the connection.
    Fin,
}

/// The part of a client's seed by which losses on the way to the server differ from those on the
/// client's link.
const UP_SEED: u64 = 0x0b57_ac1e << 32;

/// A client: an address with a link of its own.
pub(super) struct SimulatedClient {
    /// The link towards the client.
    pub(super) down: Link<PacketContent>,
    pub(super) down_alarm: Alarm,
    /// Packets on the way to the server: the time of arrival, the connection, the packet.
    pub(super) up: VecDeque<(Time, u32, Upward)>,
    pub(super) up_alarm: Alarm,
    pub(super) up_delay: Duration,
    up_loss: f64,
    up_dice: Dice,
    pub(super) quick_acks: u32,
    /// Whether the client keeps its connections.
    pub(super) keeps: bool,
    /// The idle connections that the client has kept.
    pub(super) idle: Vec<u32>,
}

impl SimulatedClient {
    /// Makes a client of a plan.
    pub(super) fn new(plan: &ClientPlan, seed: u64) -> Self {
        Self {
            down: Link::new(plan.link.clone(), seed, Time::ZERO),
            down_alarm: Alarm::default(),
            up: VecDeque::new(),
            up_alarm: Alarm::default(),
            up_delay: plan.up_delay,
            up_loss: plan.up_loss,
            up_dice: Dice::new(seed ^ UP_SEED),
            quick_acks: plan.quick_acks,
            keeps: plan.keeps,
            idle: Vec::new(),
        }
    }

    /// Draws whether a packet is lost on the way to the server.
    pub(super) fn loses_up(&mut self) -> bool {
        self.up_loss > 0.0 && self.up_dice.uniform() < self.up_loss
    }

    /// Gives a packet to the link towards the client.
    pub(super) fn offer(&mut self, now: Time, packet: Packet<PacketContent>) {
        // The link counts what it refuses.
        let _ = self.down.offer(now, packet);
    }
}

/// A connection, both of its ends.
pub(super) struct Connection {
    pub(super) client: u32,
    pub(super) sender: Sender,
    pub(super) sender_alarm: Alarm,
    pub(super) receiver: Receiver,
    pub(super) ack_alarm: Alarm,
    pub(super) handshake: Handshake,
    /// The request that the connection serves, or served last.
    pub(super) request: u32,
    /// The place in the stream where the response ends.
    pub(super) ends_at: u64,
    /// Whether the client has the whole response.
    pub(super) complete: bool,
    /// Whether the client has had an answer to its SYN.
    pub(super) answered: bool,
    /// The time at which the client sent its SYN last.
    pub(super) syn_at: Time,
    pub(super) repeats: Repeats,
    /// Whether the server has accepted the connection and not closed it yet.
    pub(super) is_open: bool,
    /// Whether the request that the connection serves is its last.
    pub(super) closes: bool,
    /// Whether the server ends the connection with the last byte.
    pub(super) fin_due: bool,
    pub(super) outlet: Outlet,
    /// The connection's segments in the server's own queue.
    pub(super) queued: u32,
    /// Whether the connection is told when the server's own queue has room.
    pub(super) waits: bool,
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Handshake {
    /// The SYN is on its way.
    Begun,
    /// The SYN-ACK was sent `times` times, last at `at`; the next is due at `due`.
    Answered { at: Time, times: u32, due: Time },
    /// The handshake is over: both ends know of each other.
    Over,
}

/// The state that a paced server keeps of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlet {
    pub(super) flow: Option<FlowId>,
    /// Bytes of the response that were not granted yet.
    pub(super) left: u64,
    /// Bytes of the response that were granted, and are not in the socket yet.
    pub(super) pending: u64,
    /// The most unsent bytes, `TCP_NOTSENT_LOWAT` of tcp(7).
    pub(super) max_unsent_bytes: u64,
    /// Wire bytes that the uplink was debited for the connection.
    pub(super) debited: u64,
    /// Bytes written since the kernel was last asked what it sent.
    pub(super) moved: u64,
    pub(super) settled_at: Time,
    /// The account of what a gate was told of the connection while it was followed.
    pub(super) told: Told,
    /// The bytes written up to which a gate was told as they were, while it was not.
    pub(super) passed_over: u64,
    /// Whether the connection held bytes back when the gate was last told.
    pub(super) is_held: bool,
}

impl Connection {
    /// Makes a connection that a client has begun to set up.
    pub(super) fn new(client: u32, algorithm: Algorithm, quick_acks: u32, habits: &Habits) -> Self {
        Self {
            client,
            sender: Sender::new(algorithm),
            sender_alarm: Alarm::default(),
            receiver: Receiver::new(quick_acks),
            ack_alarm: Alarm::default(),
            handshake: Handshake::Begun,
            request: 0,
            ends_at: 0,
            complete: true,
            answered: false,
            syn_at: Time::ZERO,
            repeats: Repeats::new(habits.rto_initial),
            is_open: false,
            closes: false,
            fin_due: false,
            outlet: Outlet::default(),
            queued: 0,
            waits: false,
        }
    }

    /// Returns when the server's timer for the connection is due.
    pub(super) fn timer_at(&self) -> Option<Time> {
        match self.handshake {
            Handshake::Answered { due, .. } => Some(due),
            _ => self.sender.timer_at(),
        }
    }
}
