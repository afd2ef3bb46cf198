//! Clients, links and a server in virtual time.

mod arrivals;
mod local;

use std::time::Duration;

use sprat_measure::wire::RESPONSE_HEAD_BYTES;
use sprat_scheduler::marking::{FlowMarks, Marker};
use sprat_scheduler::{Time, WireCost};

use super::congestion::Algorithm;
use super::connection::{
    Connection, Handshake, PacketContent, PacketKind, SimulatedClient, Upward,
};
use super::events::{Alarm, Event, Events};
use super::listen::ListenQueue;
use super::outcome::{Counted, Ends, NetworkOutcome, RequestTimes};
use super::plan::{PlannedRequest, RunPlan};
use super::receiver::Ack;
use super::server::Paced;
use super::system::System;
use super::wire::{BARE_BYTES, MSS, SYN_ACK_BYTES};
use crate::links::{Link, Mark, Packet};
use local::Local;

/// The most times that a SYN-ACK is sent: more than Linux's, for a run in which a response never
/// comes has no mean.
const SYN_ACKS_MAX: u32 = 20;

/// The longest time before a SYN-ACK is sent again, as in Linux.
const SYN_ACK_WAIT_MAX: Duration = Duration::from_secs(120);

/// The most time that a run goes on after the last request.
const DRAIN: Duration = Duration::from_secs(1200);

/// The most flows that a router which marks packets remembers.
const MARKED_FLOWS: usize = 65_536;

/// The part of the seeds of senders that tells them from those of clients.
const BBR_SEED: u64 = 0xbb41_0000_0000;

/// The most bytes of a response that a proxy has at hand to offer at a time.
const HELD_MAX: u64 = 64 << 10;

/// The state of a run: clients, links, server and counts.
pub(super) struct World<'a> {
    now: Time,
    /// The time at which the run ends though responses are not complete.
    end: Time,
    plan: &'a RunPlan,
    events: Events,
    shared: Option<Link<PacketContent>>,
    shared_alarm: Alarm,
    clients: Vec<SimulatedClient>,
    connections: Vec<Connection>,
    algorithm: Algorithm,
    /// The pacers: none, one for all, or one for each client.
    paced: Vec<Paced>,
    /// The server's own queue, where that is the shared link's.
    local: Option<Local>,
    /// The router before the shared link, if it marks packets.
    marker: Option<Marker<u32>>,
    /// The server's listen queue, if it is bounded.
    listen: Option<ListenQueue>,
    counted: Counted,
    /// The request, by request, that a client makes once that one is complete.
    successors: Vec<Option<u32>>,
}

/// Serves all requests of a plan by a system.
///
/// # Errors
/// When bytes got lost, or the core broke one of its promises.
pub(super) fn run(plan: &RunPlan, system: System) -> anyhow::Result<NetworkOutcome> {
    run_each(plan, system).map(|(outcome, _)| outcome)
}

/// Runs the plan as [`run`] does, and returns how long each response took, too.
///
/// # Errors
/// As [`run`].
pub(super) fn run_each(
    plan: &RunPlan,
    system: System,
) -> anyhow::Result<(NetworkOutcome, RequestTimes)> {
    let mut world = World::new(plan, system);
    world.run();
    world.counted.events = world.events.count;
    let World {
        plan,
        shared,
        clients,
        connections,
        paced,
        listen,
        counted,
        now,
        ..
    } = &world;
    let ends = Ends {
        shared: shared.as_ref(),
        clients,
        connections,
        paced,
        listen: listen.as_ref().map(ListenQueue::counts),
    };
    let outcome = NetworkOutcome::of(plan, *now, counted, &ends)?;
    Ok((outcome, world.counted.into_times()))
}

/// Returns, for each request, the one that follows it.
fn successors(requests: &[PlannedRequest]) -> Vec<Option<u32>> {
    let mut found = vec![None; requests.len()];
    for (index, request) in requests.iter().enumerate() {
        if let Some(before) = request.after {
            found[before as usize] = Some(index as u32);
        }
    }
    found
}

impl<'a> World<'a> {
    fn new(plan: &'a RunPlan, system: System) -> Self {
        let clients =
            plan.clients.iter().enumerate().map(|(index, client)| {
                SimulatedClient::new(client, plan.seed ^ (index as u64 + 1))
            });
        let shared = plan.shared.as_ref();
        Self {
            now: Time::ZERO,
            end: Time::ZERO,
            events: Events::default(),
            shared: shared.map(|settings| Link::new(settings.clone(), plan.seed, Time::ZERO)),
            shared_alarm: Alarm::default(),
            clients: clients.collect(),
            connections: Vec::new(),
            algorithm: plan.algorithm,
            paced: Paced::of(system, plan),
            local: plan.local_packets.map(|most| Local {
                most,
                ..Local::default()
            }),
            marker: plan.marking.map(|own| Marker::new(own, MARKED_FLOWS)),
            listen: plan.listen.map(ListenQueue::new),
            counted: Counted::new(&plan.requests),
            successors: successors(&plan.requests),
            plan,
        }
    }

    fn run(&mut self) {
        for (number, paced) in self.paced.iter_mut().enumerate() {
            let first = paced.polls().then_some(Time::ZERO);
            let poll = Event::Poll(number as u32);
            paced.poll_alarm.set(&mut self.events, first, poll);
        }
        let last = self.plan.requests.last().map_or(Time::ZERO, |r| r.at);
        self.end = last + DRAIN;
        let requests = self.plan.requests.iter().enumerate();
        let mut arrivals = requests.filter(|(_, own)| own.after.is_none()).peekable();
        while self.counted.completed < self.plan.requests.len() {
            let arrival = arrivals.peek().map(|(_, request)| request.at);
            match (self.events.due(), arrival) {
                (due, Some(at)) if due.is_none_or(|due| at <= due) => {
                    self.now = at;
                    if let Some((index, request)) = arrivals.next() {
                        self.ask(index as u32, request);
                    }
                    self.counted.received_by_last = self.counted.received;
                    self.counted.open_by_last = self.counted.open.mean(self.now);
                }
                (Some(due), _) if due <= self.end => {
                    if let Some((at, event)) = self.events.take() {
                        self.now = at;
                        self.happen(event);
                    }
                }
                _ => return,
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Shared => {
                if self.shared_alarm.rings(self.now) {
                    self.pass_shared();
                }
            }
            Event::Down(client) => {
                if self.clients[client as usize].down_alarm.rings(self.now) {
                    self.pass_down(client);
                }
            }
            Event::Up(client) => {
                if self.clients[client as usize].up_alarm.rings(self.now) {
                    self.pass_up(client);
                }
            }
            Event::Again(c) => self.repeat(c),
            Event::Sender(c) => {
                let connection = &mut self.connections[c as usize];
                if connection.sender_alarm.rings(self.now) {
                    self.sender_timer(c);
                }
            }
            Event::DelayedAck(c) => {
                let connection = &mut self.connections[c as usize];
                if connection.ack_alarm.rings(self.now) {
                    let ack = connection.receiver.on_timer(self.now);
                    self.acknowledge(c, ack);
                }
            }
            Event::Wake(number) => {
                if self.paced[number as usize].wake.rings(self.now) {
                    self.grant(number);
                }
            }
            Event::Poll(number) => self.poll(number),
        }
    }

    // The client.

    /// Makes a client ask for a response, on a connection that it has kept or a new one.
    fn ask(&mut self, index: u32, request: &PlannedRequest) {
        let client = &mut self.clients[request.client as usize];
        if let Some(c) = client.idle.pop() {
            self.begin(c, index);
            self.send_up(c, Upward::Request);
            return;
        }
        let c = self.connections.len() as u32;
        self.connections.push(Connection::new(
            request.client,
            self.algorithm,
            client.quick_acks,
            &self.plan.tcp,
        ));
        let sender = &mut self.connections[c as usize].sender;
        sender.set_habits(self.plan.tcp);
        sender.set_first_window(self.plan.first_window);
        sender.set_seed(self.plan.seed ^ BBR_SEED ^ u64::from(c));
        self.begin(c, index);
        self.send_up(c, Upward::Syn);
    }

    fn begin(&mut self, c: u32, index: u32) {
        // A request that follows a response comes later than the plan can tell.
        self.end = self.end.max(self.now + DRAIN);
        self.counted.ask(index as usize, self.now);
        let bytes = self.plan.requests[index as usize].bytes + RESPONSE_HEAD_BYTES;
        let connection = &mut self.connections[c as usize];
        let is_last = !self.plan.users_keep || self.successors[index as usize].is_none();
        connection.closes = is_last && !self.clients[connection.client as usize].keeps;
        connection.request = index;
        connection.ends_at += bytes;
        connection.complete = false;
    }

    fn send_up(&mut self, c: u32, what: Upward) {
        let connection = &mut self.connections[c as usize];
        if matches!(what, Upward::Syn) {
            connection.syn_at = self.now;
        }
        let client_index = connection.client;
        let client = &mut self.clients[client_index as usize];
        if client.loses_up() {
            self.miss(c, what, self.now);
            return;
        }
        let at = self.now + client.up_delay;
        client.up.push_back((at, c, what));
        let due = client.up.front().map(|first| first.0);
        client
            .up_alarm
            .set(&mut self.events, due, Event::Up(client_index));
    }

    fn acknowledge(&mut self, c: u32, ack: Option<Ack>) {
        if let Some(ack) = ack {
            self.send_up(c, Upward::Ack(ack));
        }
        let connection = &mut self.connections[c as usize];
        let due = connection.receiver.due_at();
        connection
            .ack_alarm
            .set(&mut self.events, due, Event::DelayedAck(c));
    }

    /// Takes a packet that has reached its client.
    fn arrive(&mut self, content: PacketContent) {
        let c = content.connection;
        match content.kind {
            PacketKind::Bare => {}
            PacketKind::Fin => {
                // Acknowledged at once; the client's own goes with it.
                let connection = &mut self.connections[c as usize];
                if connection.complete {
                    let ack = connection.receiver.on_end();
                    self.acknowledge(c, Some(ack));
                    self.send_up(c, Upward::Fin);
                }
            }
            PacketKind::SynAck => {
                let connection = &mut self.connections[c as usize];
                if !std::mem::replace(&mut connection.answered, true) {
                    let is_first = connection.repeats.got();
                    if is_first
                        && matches!(connection.handshake, Handshake::Answered { times: 1, .. })
                    {
                        let round_trip = self.now.since(connection.syn_at);
                        let least = self.plan.tcp.rto_least;
                        connection.repeats.measure(round_trip, least);
                    }
                    self.send_up(c, Upward::Request);
                }
            }
            PacketKind::Data { from, to, sent_at } => {
                let connection = &mut self.connections[c as usize];
                let before = connection.receiver.received();
                let ack = connection.receiver.receive(self.now, from, to, sent_at);
                self.counted.received += connection.receiver.received() - before;
                self.acknowledge(c, ack);
                self.complete(c);
            }
        }
    }

    /// Notes that a response is complete if its last byte has come, and makes the client's next
    /// request.
    fn complete(&mut self, c: u32) {
        let connection = &mut self.connections[c as usize];
        if connection.complete || connection.receiver.received() < connection.ends_at {
            return;
        }
        connection.complete = true;
        let index = connection.request as usize;
        self.counted.done(index, self.now);
        if !connection.closes {
            self.clients[connection.client as usize].idle.push(c);
        }
        if let Some(next) = self.successors[index] {
            let plan = self.plan;
            self.ask(next, &plan.requests[next as usize]);
        }
    }

    // The links.

    fn send(&mut self, c: u32, wire_bytes: u64, kind: PacketKind) {
        let mark = self.mark(c, wire_bytes);
        if kind.is_data() {
            let request = self.connections[c as usize].request;
            self.counted.begin(request as usize, self.now);
        }
        let packet = Packet {
            bytes: wire_bytes as u32,
            mark,
            content: PacketContent {
                connection: c,
                kind,
            },
        };
        self.counted.sent_packets += 1;
        match &mut self.shared {
            Some(shared) => {
                // The link counts what it refuses.
                let taken = shared.offer(self.now, packet).is_ok();
                if let Some(local) = self.local.as_mut().filter(|_| taken) {
                    local.packets += 1;
                    self.connections[c as usize].queued += u32::from(kind.is_data());
                }
                let due = shared.next_event();
                self.shared_alarm.set(&mut self.events, due, Event::Shared);
            }
            None => self.offer_down(self.now, packet),
        }
    }

    /// Marks a packet as the router does, by the bytes of its connection in this direction.
    fn mark(&mut self, c: u32, wire_bytes: u64) -> Mark {
        let Some(marker) = &mut self.marker else {
            return Mark::In;
        };
        // A draw by the number of the packet: seeds and flows differ in it.
        let draw = FlowMarks::default().draw(self.plan.seed ^ self.counted.sent_packets);
        marker.mark(&c, self.now, wire_bytes, draw)
    }

    fn offer_down(&mut self, at: Time, packet: Packet<PacketContent>) {
        let index = self.connections[packet.content.connection as usize].client;
        let client = &mut self.clients[index as usize];
        client.offer(at, packet);
        let due = client.down.next_event();
        client
            .down_alarm
            .set(&mut self.events, due, Event::Down(index));
    }

    fn pass_shared(&mut self) {
        while let Some((due, packet)) = self.shared.as_mut().and_then(|s| s.take_due(self.now)) {
            self.offer_down(due, packet);
            self.left_server(packet.content);
        }
        let due = self.shared.as_ref().and_then(Link::next_event);
        self.shared_alarm.set(&mut self.events, due, Event::Shared);
    }

    fn pass_down(&mut self, index: u32) {
        while let Some((_, packet)) = self.clients[index as usize].down.take_due(self.now) {
            self.arrive(packet.content);
        }
        let client = &mut self.clients[index as usize];
        let due = client.down.next_event();
        client
            .down_alarm
            .set(&mut self.events, due, Event::Down(index));
    }

    fn pass_up(&mut self, index: u32) {
        while let Some(&(at, c, what)) = self.clients[index as usize].up.front()
            && at <= self.now
        {
            self.clients[index as usize].up.pop_front();
            match what {
                Upward::Syn => self.take_syn(c),
                Upward::Request => self.on_request(c),
                Upward::Ack(ack) => self.on_ack(c, ack),
                Upward::Fin => self.send(c, BARE_BYTES, PacketKind::Bare),
            }
        }
        let client = &mut self.clients[index as usize];
        let due = client.up.front().map(|first| first.0);
        client.up_alarm.set(&mut self.events, due, Event::Up(index));
    }

    // The server.

    fn answer_syn(&mut self, c: u32, times: u32) {
        self.counted.syn_acks_again += u64::from(times > 0);
        self.connections[c as usize].handshake = Handshake::Answered {
            at: self.now,
            times: times + 1,
            due: self.now + (self.plan.tcp.rto_initial * (1 << times)).min(SYN_ACK_WAIT_MAX),
        };
        self.send(c, SYN_ACK_BYTES, PacketKind::SynAck);
        self.set_timer(c);
    }

    fn on_request(&mut self, c: u32) {
        let connection = &mut self.connections[c as usize];
        let is_new = connection.handshake != Handshake::Over;
        let is_first = connection.repeats.got();
        if let Handshake::Answered { at, times, .. } = connection.handshake
            && times == 1
            && is_first
        {
            connection.sender.on_handshake(self.now.since(at));
        }
        connection.handshake = Handshake::Over;
        if is_new {
            connection.is_open = true;
            self.counted.open.open(self.now);
        }
        self.send(c, BARE_BYTES, PacketKind::Bare);
        let listen = self.listen.as_mut().filter(|_| is_new);
        if listen.is_none_or(|queue| queue.establish(c)) {
            self.serve(c, is_new);
        }
    }

    /// Serves the request of a connection, which is its first or has a process already.
    fn serve(&mut self, c: u32, is_new: bool) {
        let index = self.connections[c as usize].request as usize;
        let bytes = self.plan.requests[index].bytes + RESPONSE_HEAD_BYTES;
        let number = self.pacer_of(c);
        let Some(paced) = self.paced.get_mut(number as usize) else {
            self.connections[c as usize].sender.write(self.now, bytes);
            self.transmit(c);
            self.close_if_over(c);
            return;
        };
        let connection = &mut self.connections[c as usize];
        if is_new {
            paced.accept(self.now, connection);
        }
        paced.open(self.now, c, connection, bytes);
        self.offer_flow(c);
        self.grant(number);
    }

    /// Returns the number of the pacer that a connection's responses wait for.
    fn pacer_of(&self, c: u32) -> u32 {
        if self.paced.len() > 1 {
            self.connections[c as usize].client
        } else {
            0
        }
    }

    /// Tells the desk the bytes that a flow could write now.
    fn offer_flow(&mut self, c: u32) {
        let number = self.pacer_of(c) as usize;
        let Some(paced) = self.paced.get_mut(number) else {
            return;
        };
        let outlet = &mut self.connections[c as usize].outlet;
        if let Some(flow) = outlet.flow {
            let held = outlet.left.min(HELD_MAX);
            paced.desk.wait(self.now, flow, held);
        }
    }

    /// Makes the grants of a pacer that are due.
    fn grant(&mut self, number: u32) {
        while let Some(paced) = self.paced.get_mut(number as usize) {
            let Some(&c) = paced.desk.next(self.now) else {
                break;
            };
            let outlet = &mut self.connections[c as usize].outlet;
            let turn = outlet.flow.and_then(|flow| paced.desk.take(self.now, flow));
            let bytes = turn.map_or(0, |turn| turn.bytes);
            outlet.debited += WireCost::ETHERNET_IPV4.bytes(bytes);
            outlet.left -= bytes;
            outlet.pending = bytes;
            self.push(c);
        }
        if let Some(paced) = self.paced.get_mut(number as usize)
            && let Some(until) = paced.desk.next_wakeup()
        {
            let at = Some(until + paced.lateness());
            paced.wake.set(&mut self.events, at, Event::Wake(number));
        }
    }

    /// Writes the bytes that were granted, as far as the socket takes them.
    fn push(&mut self, c: u32) {
        let mut written = 0;
        loop {
            let connection = &mut self.connections[c as usize];
            let outlet = &mut connection.outlet;
            if outlet.pending == 0 || connection.sender.unsent() >= outlet.max_unsent_bytes {
                break;
            }
            let bytes = outlet.pending.min(MSS);
            outlet.pending -= bytes;
            outlet.moved += bytes;
            written += bytes;
            connection.sender.write(self.now, bytes);
            self.transmit(c);
        }
        let number = self.pacer_of(c) as usize;
        let Some(paced) = self.paced.get_mut(number) else {
            return;
        };
        let connection = &mut self.connections[c as usize];
        if written > 0 {
            paced.wrote(self.now, c, connection, written, &mut self.events);
        }
        if connection.outlet.pending > 0 {
            return;
        }
        if connection.outlet.left > 0 {
            self.offer_flow(c);
        } else if connection.outlet.flow.is_some() {
            paced.close(self.now, connection);
            self.close_if_over(c);
        }
    }

    /// Lets a connection that closes end with its last packet, for the server has written all that
    /// it will.
    fn close_if_over(&mut self, c: u32) {
        let connection = &mut self.connections[c as usize];
        connection.fin_due = connection.closes;
        self.send_fin(c);
    }

    fn send_fin(&mut self, c: u32) {
        let connection = &mut self.connections[c as usize];
        if connection.fin_due && connection.sender.unsent() == 0 {
            connection.fin_due = false;
            self.send(c, BARE_BYTES, PacketKind::Fin);
        }
    }

    /// Sends the segments of a connection that TCP and the server's own queue let go.
    fn transmit(&mut self, c: u32) {
        while self.has_room(c)
            && let Some(segment) = self.connections[c as usize].sender.next_segment(self.now)
        {
            let kind = PacketKind::Data {
                from: segment.from,
                to: segment.to,
                sent_at: self.now,
            };
            self.send(c, segment.to - segment.from + BARE_BYTES, kind);
        }
        self.send_fin(c);
        self.set_timer(c);
    }

    fn set_timer(&mut self, c: u32) {
        let connection = &mut self.connections[c as usize];
        let due = connection.timer_at();
        connection
            .sender_alarm
            .set(&mut self.events, due, Event::Sender(c));
    }

    fn sender_timer(&mut self, c: u32) {
        let connection = &mut self.connections[c as usize];
        if let Handshake::Answered { times, due, .. } = connection.handshake {
            if due > self.now {
                self.set_timer(c);
            } else if times < SYN_ACKS_MAX {
                self.answer_syn(c, times);
            }
            return;
        }
        connection.sender.on_timer(self.now);
        self.transmit(c);
    }

    fn on_ack(&mut self, c: u32, ack: Ack) {
        let connection = &mut self.connections[c as usize];
        connection.sender.on_ack(self.now, ack);
        self.transmit(c);
        let connection = &mut self.connections[c as usize];
        if connection.closes && connection.sender.acked() >= connection.ends_at {
            connection.sender.finish();
            if std::mem::take(&mut connection.is_open) {
                self.closed();
            }
        }
        let connection = &mut self.connections[c as usize];
        // The kernel wakes a writer once half of the bound is free.
        let outlet = &connection.outlet;
        if outlet.pending > 0 && 2 * connection.sender.unsent() < outlet.max_unsent_bytes {
            self.push(c);
            self.grant(self.pacer_of(c));
        }
    }

    // The controller.

    fn poll(&mut self, number: u32) {
        let paced = &mut self.paced[number as usize];
        if paced.poll_alarm.rings(self.now) {
            let next = paced.poll(self.now, &mut self.connections);
            let poll = Event::Poll(number);
            paced.poll_alarm.set(&mut self.events, next, poll);
        }
    }
}
