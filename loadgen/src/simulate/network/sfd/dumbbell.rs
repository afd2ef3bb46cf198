//! The paper's dumbbell with the paper's TCP: sessions, servers, links and queues in virtual
//! time.
//!
//! Responses cross a server's link, the bottleneck and a client's link. What goes the other
//! way, requests and acknowledgements, meets no queue (SFD02 4.1) and takes its delay.
//! Acknowledgements of requests share the bottleneck with the responses, as in the paper's
//! simulator.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use anyhow::ensure;
use sprat_scheduler::Time;
use sprat_scheduler::marking::Marker;

use super::reno::{RenoSender, Sink};
use super::sessions::{Page, Session};
use super::traffic::CLIENTS;
use super::{BOTTLENECK, SfdWay};
use crate::links::{Amount, Link, LinkSettings, Mark, Packet};
use crate::workload::Dice;

/// The bytes of a packet with data; [`BARE_BYTES`] are those of one without, [`REQUEST_BYTES`]
/// those of a request with its headers.
const DATA_BYTES: u32 = 1_040;
const BARE_BYTES: u32 = 40;
const REQUEST_BYTES: u32 = 48;

/// The most packets of a flow that is short, and of a piece of a long one.
const SHORT_PACKETS: u32 = 15;

/// The rate of the links of servers and clients, in bits per second; [`ACCESS`] is their delay.
pub(super) const ACCESS_BITS_PER_S: u64 = 10_000_000;
pub(super) const ACCESS: Duration = Duration::from_millis(10);
const MIDDLE: Duration = Duration::from_millis(20);

/// The most flows that the marking router remembers.
const MARKED_FLOWS: usize = 65_536;

/// The parameters of a run on the dumbbell.
#[derive(Clone, Debug)]
pub(super) struct DumbbellSetup {
    pub(super) seed: u64,
    pub(super) way: SfdWay,
    /// The mean seconds between two of the `sessions`.
    pub(super) gap_s: f64,
    pub(super) sessions: u32,
    /// The beginning of the run that is not measured; the part `measured` follows it.
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    /// The links of the clients that have sessions: rate and delay.
    pub(super) clients: Vec<(u64, Duration)>,
    /// The servers' processors, if they take time.
    pub(super) processor: Option<Processor>,
    /// A long transfer to a client of its own: its packets, and the seconds from one to the next.
    pub(super) transfer: Option<(u32, f64)>,
}

/// A server's processor, which serves one request at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Processor {
    pub(super) packets_per_s: f64,
    /// Whether the shortest task is served first; else the first come.
    pub(super) shortest: bool,
}

/// A response that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FinishedFlow {
    pub(super) packets: u32,
    pub(super) client: usize,
    pub(super) is_transfer: bool,
    /// The time from the response's first packet to its last, at the client.
    pub(super) transmission_s: f64,
    /// The time from the request to the response's last packet, at the client.
    pub(super) response_s: f64,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct DumbbellResults {
    pub(super) flows: Vec<FinishedFlow>,
    /// The part of the bottleneck that was used.
    pub(super) utilisation: f64,
    /// The part of the packets that the bottleneck's queue dropped.
    pub(super) loss: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DumbbellEvent {
    Session(u32),
    Page(u32),
    Object(u32),
    Link(usize),
    /// A packet reaches a server.
    Up(NumberedPacket),
    Timer(usize),
    Processed(usize),
    Transfer,
    WarmedUp,
}

/// The content of a packet: its number on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NumberedPacket {
    connection: usize,
    number: u32,
    is_ack: bool,
}

/// An object that a client has asked for: its page, both ends, its size, and the time.
#[derive(Clone, Copy, Debug)]
struct AskedObject {
    page: Option<u32>,
    client: usize,
    server: usize,
    packets: u32,
    at: Time,
}

/// A connection, a request's or a response's, with both of its ends.
struct MessageConnection {
    asked: AskedObject,
    is_response: bool,
    sender: RenoSender,
    sink: Sink,
    began: Time,
    /// The packets of the connection's message; `left` are those of pieces to come.
    packets: u32,
    left: u32,
    is_complete: bool,
    timer: Option<Time>,
}

/// A page whose objects a user is asking for.
struct Asking {
    session: u32,
    page: Page,
    launched: usize,
    done: usize,
}

#[derive(Default)]
struct WebServer {
    /// The tasks that wait, by the key of the processor's order and the order of arrival.
    waiting: BinaryHeap<Reverse<(u32, u64)>>,
    tasks: Vec<AskedObject>,
    at_work: Option<usize>,
}

struct Dumbbell<'a> {
    setup: &'a DumbbellSetup,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, DumbbellEvent)>>,
    scheduled: u64,
    /// The links of the servers, then the bottleneck, then those of the clients.
    links: Vec<Link<NumberedPacket>>,
    alarms: Vec<Option<Time>>,
    marker: Option<Marker<usize>>,
    sessions: Vec<Session>,
    pages: Vec<Asking>,
    connections: Vec<Option<Box<MessageConnection>>>,
    servers: Vec<WebServer>,
    dice: Dice,
    marks: Dice,
    run: DumbbellResults,
    /// The amounts at the bottleneck when the measured part began.
    before: LinkAmounts,
}

/// The bottleneck's place among the links.
const MIDDLE_LINK: usize = CLIENTS as usize;

/// Runs the sessions of a setup.
///
/// # Errors
/// When the counters of the bottleneck do not add up.
pub(super) fn run(setup: &DumbbellSetup) -> anyhow::Result<DumbbellResults> {
    let mut dumbbell = Dumbbell::new(setup);
    dumbbell.run();
    dumbbell.finish()
}

/// The amounts that a link has seen so far.
#[derive(Clone, Copy, Default)]
struct LinkAmounts {
    arrived: Amount,
    dropped: Amount,
    delivered: Amount,
}

impl LinkAmounts {
    fn of(link: &Link<NumberedPacket>) -> Self {
        let counters = link.counters();
        let [first, second] = counters.marks;
        Self {
            arrived: first.arrived.plus(second.arrived),
            dropped: first.dropped().plus(second.dropped()),
            delivered: counters.delivered,
        }
    }
}

impl<'a> Dumbbell<'a> {
    fn new(setup: &'a DumbbellSetup) -> Self {
        let access = LinkSettings {
            rate_bits_per_s: Some(ACCESS_BITS_PER_S),
            delay: ACCESS,
            ..LinkSettings::default()
        };
        let mut settings = vec![access.clone(); CLIENTS as usize];
        settings.push(LinkSettings {
            rate_bits_per_s: Some(BOTTLENECK),
            delay: MIDDLE,
            queue: setup.way.queue(),
            mean_packet_bytes: DATA_BYTES,
            ..LinkSettings::default()
        });
        // All routers have the queue (SFD02 4.1), those before the clients too.
        settings.extend(setup.clients.iter().map(|&(rate, delay)| LinkSettings {
            rate_bits_per_s: Some(rate),
            delay,
            queue: setup.way.queue(),
            mean_packet_bytes: DATA_BYTES,
            ..LinkSettings::default()
        }));
        // The transfer's client.
        settings.push(access);
        let links = settings.into_iter().enumerate();
        let links: Vec<_> = links
            .map(|(place, own)| Link::new(own, setup.seed ^ place as u64, Time::ZERO))
            .collect();
        let server = |_| WebServer::default();
        Self {
            now: Time::ZERO,
            events: BinaryHeap::new(),
            scheduled: 0,
            alarms: vec![None; links.len()],
            links,
            marker: setup
                .way
                .marking()
                .map(|own| Marker::new(own, MARKED_FLOWS)),
            sessions: Vec::new(),
            pages: Vec::new(),
            connections: Vec::new(),
            servers: (0..CLIENTS).map(server).collect(),
            dice: Dice::new(setup.seed),
            marks: Dice::new(setup.seed ^ 0x5eed),
            run: DumbbellResults::default(),
            before: LinkAmounts::default(),
            setup,
        }
    }

    fn run(&mut self) {
        let end = Time::ZERO + self.setup.warm_up + self.setup.measured;
        self.schedule(self.setup.warm_up, DumbbellEvent::WarmedUp);
        self.schedule(Duration::ZERO, DumbbellEvent::Session(0));
        if self.setup.transfer.is_some() {
            self.schedule(Duration::ZERO, DumbbellEvent::Transfer);
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            self.happen(event);
        }
    }

    fn finish(mut self) -> anyhow::Result<DumbbellResults> {
        let LinkAmounts {
            arrived,
            dropped,
            delivered,
        } = LinkAmounts::of(&self.links[MIDDLE_LINK]);
        ensure!(
            arrived.packets >= dropped.packets + delivered.packets,
            "the bottleneck delivered {} and dropped {} of {} packets",
            delivered.packets,
            dropped.packets,
            arrived.packets
        );
        let before = self.before;
        let bits = (delivered.bytes - before.delivered.bytes) as f64 * 8.0;
        self.run.utilisation = bits / self.setup.measured.as_secs_f64() / BOTTLENECK as f64;
        let sent = (arrived.packets - before.arrived.packets).max(1);
        self.run.loss = (dropped.packets - before.dropped.packets) as f64 / sent as f64;
        Ok(self.run)
    }

    fn schedule(&mut self, after: Duration, event: DumbbellEvent) {
        self.schedule_at(self.now + after, event);
    }

    fn schedule_at(&mut self, at: Time, event: DumbbellEvent) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    fn happen(&mut self, event: DumbbellEvent) {
        match event {
            DumbbellEvent::Session(number) => self.begin_session(number),
            DumbbellEvent::Page(session) => self.begin_page(session),
            DumbbellEvent::Object(page) => self.begin_object(page),
            DumbbellEvent::Link(place) => self.pass(place),
            DumbbellEvent::Up(content) => self.arrive(content),
            DumbbellEvent::Timer(c) => self.on_timer(c),
            DumbbellEvent::Processed(server) => self.processed(server),
            DumbbellEvent::Transfer => self.begin_transfer(),
            DumbbellEvent::WarmedUp => {
                self.before = LinkAmounts::of(&self.links[MIDDLE_LINK]);
            }
        }
    }

    // Users.

    fn begin_session(&mut self, number: u32) {
        let clients = self.setup.clients.len();
        self.sessions
            .push(Session::new(self.setup.seed, number, clients));
        self.begin_page(number);
        if number + 1 < self.setup.sessions {
            let gap = Duration::from_secs_f64(self.dice.exponential() * self.setup.gap_s);
            self.schedule(gap, DumbbellEvent::Session(number + 1));
        }
    }

    fn begin_page(&mut self, session: u32) {
        let Some(page) = self.sessions[session as usize].page() else {
            return;
        };
        self.pages.push(Asking {
            session,
            page,
            launched: 0,
            done: 0,
        });
        self.begin_object(self.pages.len() as u32 - 1);
    }

    fn begin_object(&mut self, number: u32) {
        let asking = &mut self.pages[number as usize];
        let object = asking.page.objects[asking.launched];
        asking.launched += 1;
        let is_last = asking.launched == asking.page.objects.len();
        let asked = AskedObject {
            page: Some(number),
            client: self.sessions[asking.session as usize].client,
            server: asking.page.server,
            packets: object.packets,
            at: self.now,
        };
        if !is_last {
            self.schedule(
                Duration::from_secs_f64(object.gap_s),
                DumbbellEvent::Object(number),
            );
        }
        if self.setup.way == SfdWay::NoLong && object.packets > SHORT_PACKETS {
            self.object_done(number);
        } else {
            self.connect(asked, false, 1, 0);
        }
    }

    /// Notes that an object has come; after the page's last one the user reads.
    fn object_done(&mut self, number: u32) {
        let asking = &mut self.pages[number as usize];
        asking.done += 1;
        if asking.done < asking.page.objects.len() {
            return;
        }
        let session = asking.session;
        asking.page.objects = Vec::new();
        let pause_s = self.sessions[session as usize].pause_s();
        self.schedule(
            Duration::from_secs_f64(pause_s),
            DumbbellEvent::Page(session),
        );
    }

    fn begin_transfer(&mut self) {
        let Some((packets, every_s)) = self.setup.transfer else {
            return;
        };
        let asked = AskedObject {
            page: None,
            client: self.setup.clients.len(),
            server: 0,
            packets,
            at: self.now,
        };
        self.connect(asked, true, packets, 0);
        self.schedule(Duration::from_secs_f64(every_s), DumbbellEvent::Transfer);
    }

    // Servers.

    /// Takes a request that has come.
    fn on_request(&mut self, asked: AskedObject) {
        let Some(processor) = self.setup.processor else {
            self.respond(asked);
            return;
        };
        let server = &mut self.servers[asked.server];
        let number = server.tasks.len();
        server.tasks.push(asked);
        let key = if processor.shortest { asked.packets } else { 0 };
        server.waiting.push(Reverse((key, number as u64)));
        self.work(asked.server);
    }

    /// Starts an idle processor on the task that comes next.
    fn work(&mut self, place: usize) {
        let Some(processor) = self.setup.processor else {
            return;
        };
        let server = &mut self.servers[place];
        if server.at_work.is_some() {
            return;
        }
        if let Some(Reverse((_, number))) = server.waiting.pop() {
            server.at_work = Some(number as usize);
            let packets = f64::from(server.tasks[number as usize].packets);
            let takes = Duration::from_secs_f64(packets / processor.packets_per_s);
            self.schedule(takes, DumbbellEvent::Processed(place));
        }
    }

    fn processed(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if let Some(number) = server.at_work.take() {
            let asked = server.tasks[number];
            self.respond(asked);
        }
        self.work(place);
    }

    fn respond(&mut self, asked: AskedObject) {
        let most = match self.setup.way {
            SfdWay::Pieces => SHORT_PACKETS,
            _ => u32::MAX,
        };
        let first = asked.packets.min(most);
        self.connect(asked, true, first, asked.packets - first);
    }

    // Connections.

    /// Opens a connection that carries `packets` packets of a message, of which `left` are to
    /// follow.
    fn connect(&mut self, asked: AskedObject, is_response: bool, packets: u32, left: u32) {
        let mut out = Vec::new();
        let connection = MessageConnection {
            asked,
            is_response,
            sender: RenoSender::new(self.now, packets, &mut out),
            sink: Sink::default(),
            began: self.now,
            packets,
            left,
            is_complete: false,
            timer: None,
        };
        self.connections.push(Some(Box::new(connection)));
        self.emit(self.connections.len() - 1, &out);
    }

    /// Sends packets of a connection, and sets its timer.
    fn emit(&mut self, c: usize, numbers: &[u32]) {
        let Some(connection) = self.connections[c].as_deref_mut() else {
            return;
        };
        let is_response = connection.is_response;
        let due = connection.sender.timer_at();
        // A timer that was put off is looked at again when it rings.
        if let Some(at) = due
            && connection.timer.is_none_or(|set| at < set)
        {
            connection.timer = Some(at);
            self.schedule_at(at, DumbbellEvent::Timer(c));
        }
        for &number in numbers {
            let bytes = match (number, is_response) {
                (0, _) => BARE_BYTES,
                (_, true) => DATA_BYTES,
                (_, false) => REQUEST_BYTES,
            };
            let content = NumberedPacket {
                connection: c,
                number,
                is_ack: false,
            };
            self.send(content, bytes, is_response);
        }
    }

    fn on_timer(&mut self, c: usize) {
        let Some(connection) = self.connections[c].as_deref_mut() else {
            return;
        };
        if connection.timer != Some(self.now) {
            return;
        }
        connection.timer = None;
        let mut out = Vec::new();
        connection.sender.on_timer(self.now, &mut out);
        self.emit(c, &out);
    }

    /// Takes a packet that has reached its end of a connection.
    fn arrive(&mut self, content: NumberedPacket) {
        let c = content.connection;
        let Some(connection) = self.connections[c].as_deref_mut() else {
            return;
        };
        if content.is_ack {
            let mut out = Vec::new();
            let sender = &mut connection.sender;
            sender.on_ack(self.now, content.number, &mut out);
            match sender.is_done() {
                true => self.is_over(c),
                false => self.emit(c, &out),
            }
            return;
        }
        let upto = connection.sink.receive(content.number);
        let is_response = connection.is_response;
        if upto > connection.packets && !connection.is_complete {
            connection.is_complete = true;
            self.complete(c);
        }
        let ack = NumberedPacket {
            connection: c,
            number: upto,
            is_ack: true,
        };
        self.send(ack, BARE_BYTES, !is_response);
    }

    /// Notes that a message is complete at its receiver; records a response.
    fn complete(&mut self, c: usize) {
        let Some(own) = self.connections[c].as_deref() else {
            return;
        };
        if own.is_response && own.began >= Time::ZERO + self.setup.warm_up {
            self.run.flows.push(FinishedFlow {
                packets: own.packets,
                client: own.asked.client,
                is_transfer: own.asked.page.is_none(),
                transmission_s: self.now.since(own.began).as_secs_f64(),
                response_s: self.now.since(own.asked.at).as_secs_f64(),
            });
        }
    }

    /// Ends a connection whose sender knows that all has come: the next message follows.
    fn is_over(&mut self, c: usize) {
        let Some(own) = self.connections[c].take() else {
            return;
        };
        if !own.is_response {
            self.on_request(own.asked);
        } else if own.left > 0 {
            let piece = own.left.min(SHORT_PACKETS);
            self.connect(own.asked, true, piece, own.left - piece);
        } else if let Some(page) = own.asked.page {
            self.object_done(page);
        }
    }

    // Links.

    fn send(&mut self, content: NumberedPacket, bytes: u32, is_down: bool) {
        let Some(own) = self.connections[content.connection].as_deref() else {
            return;
        };
        let asked = own.asked;
        if is_down {
            let packet = Packet {
                bytes,
                mark: Mark::In,
                content,
            };
            self.offer(asked.server, self.now, packet);
            return;
        }
        let tail = self.setup.clients.get(asked.client);
        let delay = tail.map_or(ACCESS, |own| own.1) + MIDDLE + ACCESS;
        self.schedule(delay, DumbbellEvent::Up(content));
    }

    /// Marks a packet that comes to the router by the servers; later routers go by the mark.
    fn mark(&mut self, at: Time, packet: &Packet<NumberedPacket>) -> Mark {
        let Some(marker) = &mut self.marker else {
            return Mark::In;
        };
        let draw = self.marks.uniform();
        marker.mark(&packet.content.connection, at, packet.bytes.into(), draw)
    }

    fn offer(&mut self, place: usize, at: Time, packet: Packet<NumberedPacket>) {
        // The link counts what it refuses.
        let _ = self.links[place].offer(at, packet);
        self.set_alarm(place);
    }

    fn set_alarm(&mut self, place: usize) {
        if let Some(due) = self.links[place].next_event()
            && self.alarms[place].is_none_or(|at| due < at)
        {
            self.alarms[place] = Some(due);
            self.schedule_at(due, DumbbellEvent::Link(place));
        }
    }

    /// Passes on the packets that have reached the far end of a link.
    fn pass(&mut self, place: usize) {
        if self.alarms[place] == Some(self.now) {
            self.alarms[place] = None;
        }
        while let Some((due, mut packet)) = self.links[place].take_due(self.now) {
            let content = packet.content;
            if place < MIDDLE_LINK {
                packet.mark = self.mark(due, &packet);
                self.offer(MIDDLE_LINK, due, packet);
            } else if place > MIDDLE_LINK {
                self.arrive(content);
            } else if let Some(own) = self.connections[content.connection].as_deref() {
                let client = MIDDLE_LINK + 1 + own.asked.client;
                self.offer(client, due, packet);
            }
        }
        self.set_alarm(place);
    }
}

#[cfg(test)]
#[path = "dumbbell/tests.rs"]
mod tests;
