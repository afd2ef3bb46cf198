//! SDIS02's model (sections 3 and 4): a dispatcher, task servers with a queue
//! each, and a channel.
//!
//! The dispatcher and the task servers are two of the core's stations; each
//! server's channel is the core's egress, in turns by bytes and strict between
//! priorities (the paper's prioritized process sharing). This file has the
//! times that things take, and the clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use anyhow::{bail, ensure};
use sprat_scheduler::dispatch::Dispatch;
use sprat_scheduler::station::{
    Admission, Arrival, ClassSpec, Event, Order, Scope, Station, StationConfig, Ticket, Verdict,
};
use sprat_scheduler::{Size, Time};

use super::channel::Channel;
use super::workload::{Task, Tasks};
use crate::simulate::farm::endpoint;
use crate::workload::Dice;

/// Table 1: task servers.
pub(super) const SERVERS: usize = 4;
/// Table 1: the dispatcher's capacity, 4,000 requests a second.
const DISPATCH: Duration = Duration::from_micros(250);
/// 4.1: the dispatcher's queue.
const DISPATCH_QUEUE: usize = 1024;
/// 5.4: what watching the servers' load costs, of the service time.
const MONITORING: f64 = 0.1;

/// High and low.
pub(super) const CLASSES: usize = 2;

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) dispatch: Dispatch,
    /// Places in each server's queue.
    pub(super) queue: usize,
    /// The share of high-priority tasks.
    pub(super) high_ratio: f64,
    /// Whether the servers know of priorities.
    pub(super) prioritized: bool,
    /// Shares of the queues between which low-priority tasks are discarded
    /// early.
    pub(super) thresholds: Option<(f64, f64)>,
    /// Over which the queues' length is averaged for that.
    pub(super) averaging: Duration,
    /// After which whatever a task occupies is freed.
    pub(super) timeout: Duration,
    /// A high-priority task takes the place of a low-priority one in a full
    /// queue. Not in the paper.
    pub(super) displace: bool,
    pub(super) tasks: Tasks,
    /// Of each server's channel, in bits per second.
    pub(super) channel_bits_per_s: u64,
    /// Requests per second.
    pub(super) rate: f64,
    pub(super) requests: usize,
    pub(super) seed: u64,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// Its last byte left so long after it was accepted.
    Served(Duration),
    /// Turned away.
    Rejected,
    /// It ran into the time-out.
    Aborted,
}

/// Runs a setup; each task's class and fate, in the order of arrival.
///
/// # Errors
/// When the core breaks one of its promises.
pub(super) fn simulate(setup: &Setup) -> anyhow::Result<Vec<(usize, Fate)>> {
    let mut model = Model::new(setup);
    model.schedule(Time::ZERO, Happening::Arrival);
    while let Some(Reverse((at, _, happening))) = model.agenda.pop() {
        model.now = at;
        model.happen(happening)?;
    }
    model.close()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// The next request comes.
    Arrival,
    /// The dispatcher is done with a task.
    Dispatched(usize),
    /// A server is done with a task.
    Processed(usize),
    /// A server's channel is free.
    ChannelFree(usize),
    /// The oldest time-out.
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Dispatcher(Ticket),
    Server(Ticket),
    /// The channel of this server.
    Channel(usize),
    Over(Fate),
}

struct Present {
    class: usize,
    task: Task,
    random: u64,
    accepted: Time,
    place: Place,
}

struct Model<'a> {
    setup: &'a Setup,
    now: Time,
    agenda: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    scheduled: u64,
    dice: Dice,
    dispatcher: Station,
    servers: Station,
    channels: Vec<Channel>,
    tasks: Vec<Present>,
    /// By the tickets' index: the task.
    at_dispatcher: Vec<usize>,
    at_servers: Vec<usize>,
    /// Tasks in order of their time-outs.
    timeouts: VecDeque<usize>,
}

impl<'a> Model<'a> {
    fn new(setup: &'a Setup) -> Self {
        let channel = |_| Channel::new(setup.channel_bits_per_s, setup.requests);
        Self {
            setup,
            now: Time::ZERO,
            agenda: BinaryHeap::new(),
            scheduled: 0,
            dice: Dice::new(setup.seed),
            dispatcher: Station::new(setup.dispatcher()),
            servers: Station::new(setup.servers()),
            channels: (0..SERVERS).map(channel).collect(),
            tasks: Vec::with_capacity(setup.requests),
            at_dispatcher: Vec::new(),
            at_servers: Vec::new(),
            timeouts: VecDeque::new(),
        }
    }

    fn schedule(&mut self, at: Time, happening: Happening) {
        self.agenda.push(Reverse((at, self.scheduled, happening)));
        self.scheduled += 1;
    }

    fn happen(&mut self, happening: Happening) -> anyhow::Result<()> {
        match happening {
            Happening::Arrival => self.arrive()?,
            Happening::Dispatched(task) => self.dispatched(task)?,
            Happening::Processed(task) => self.processed(task)?,
            Happening::ChannelFree(server) => self.channel_free(server)?,
            Happening::Timeout => self.time_out(),
        }
        self.drain()
    }

    fn arrive(&mut self) -> anyhow::Result<()> {
        let number = self.tasks.len();
        let task = self.setup.tasks.draw(&mut self.dice);
        let class = usize::from(self.dice.uniform() >= self.setup.high_ratio);
        let random = self.dice.bits();
        let arrival = arrival(class, &task, random);
        let place = match self.dispatcher.arrive(self.now, &arrival) {
            Verdict::Start { ticket, .. } => {
                self.schedule(self.now + DISPATCH, Happening::Dispatched(number));
                Place::Dispatcher(ticket)
            }
            Verdict::Wait { ticket } => Place::Dispatcher(ticket),
            Verdict::Refuse(_) => Place::Over(Fate::Rejected),
        };
        if let Place::Dispatcher(ticket) = place {
            remember(&mut self.at_dispatcher, ticket, number);
            self.timeouts.push_back(number);
            self.schedule(self.now + self.setup.timeout, Happening::Timeout);
        }
        self.tasks.push(Present {
            class,
            task,
            random,
            accepted: self.now,
            place,
        });
        if self.tasks.len() < self.setup.requests {
            let gap_s = self.dice.exponential() / self.setup.rate;
            let next = self.now + Duration::from_secs_f64(gap_s);
            self.schedule(next, Happening::Arrival);
        }
        Ok(())
    }

    fn dispatched(&mut self, number: usize) -> anyhow::Result<()> {
        let present = &mut self.tasks[number];
        // It may have timed out since.
        let Place::Dispatcher(ticket) = present.place else {
            return Ok(());
        };
        self.dispatcher.finish(self.now, ticket, present.task.bytes);
        let arrival = arrival(present.class, &present.task, present.random);
        present.place = match self.servers.arrive(self.now, &arrival) {
            Verdict::Start { ticket, endpoint } => {
                remember(&mut self.at_servers, ticket, number);
                present.place = Place::Server(ticket);
                return self.process(number, endpoint);
            }
            Verdict::Wait { ticket } => {
                remember(&mut self.at_servers, ticket, number);
                Place::Server(ticket)
            }
            Verdict::Refuse(_) => Place::Over(Fate::Rejected),
        };
        Ok(())
    }

    /// A server begins with a task.
    fn process(&mut self, number: usize, server: usize) -> anyhow::Result<()> {
        let load = self.servers.load(server);
        ensure!(load.running == 1, "server {server} serves {load:?}");
        let service = self.tasks[number]
            .task
            .service
            .mul_f64(self.setup.watching());
        self.channels[server].expect(number);
        self.schedule(self.now + service, Happening::Processed(number));
        Ok(())
    }

    fn processed(&mut self, number: usize) -> anyhow::Result<()> {
        let present = &mut self.tasks[number];
        let Place::Server(ticket) = present.place else {
            return Ok(());
        };
        let Some(server) = self.channels.iter().position(|c| c.is_expected(number)) else {
            bail!("task {number} is processed by no server");
        };
        self.servers.finish(self.now, ticket, present.task.bytes);
        present.place = Place::Channel(server);
        let level = self.setup.level(present.class);
        let idle = self.channels[server].send(self.now, number, level, present.task.bytes)?;
        if idle {
            return self.channel_free(server);
        }
        Ok(())
    }

    fn channel_free(&mut self, server: usize) -> anyhow::Result<()> {
        if let Some(number) = self.channels[server].take_done(self.now) {
            let present = &mut self.tasks[number];
            let response = self.now.since(present.accepted);
            present.place = Place::Over(Fate::Served(response));
        }
        if let Some(until) = self.channels[server].next(self.now)? {
            self.schedule(until, Happening::ChannelFree(server));
        }
        Ok(())
    }

    /// The oldest task that was let in has had its time.
    fn time_out(&mut self) {
        let Some(number) = self.timeouts.pop_front() else {
            return;
        };
        let present = &mut self.tasks[number];
        match present.place {
            Place::Over(_) => return,
            Place::Dispatcher(ticket) => self.dispatcher.cancel(self.now, ticket),
            Place::Server(ticket) => self.servers.cancel(self.now, ticket),
            Place::Channel(server) => self.channels[server].cancel(self.now, number),
        }
        present.place = Place::Over(Fate::Aborted);
    }

    /// What the stations have decided meanwhile.
    fn drain(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.dispatcher.poll() {
            match event {
                Event::Started { ticket, .. } => {
                    let number = self.at_dispatcher[ticket.index()];
                    self.schedule(self.now + DISPATCH, Happening::Dispatched(number));
                }
                Event::Refused { ticket, .. } => {
                    let number = self.at_dispatcher[ticket.index()];
                    self.tasks[number].place = Place::Over(Fate::Rejected);
                }
            }
        }
        while let Some(event) = self.servers.poll() {
            match event {
                Event::Started { ticket, endpoint } => {
                    let number = self.at_servers[ticket.index()];
                    let held = self.tasks[number].place == Place::Server(ticket);
                    ensure!(held, "task {number} was started with another's ticket");
                    self.process(number, endpoint)?;
                }
                Event::Refused { ticket, .. } => {
                    let number = self.at_servers[ticket.index()];
                    self.tasks[number].place = Place::Over(Fate::Rejected);
                }
            }
        }
        self.check()
    }

    /// No server idles while a task waits for it.
    fn check(&self) -> anyhow::Result<()> {
        for server in 0..SERVERS {
            let load = self.servers.load(server);
            ensure!(
                load.running == 1 || load.requests == 0,
                "server {server} idles: {load:?}"
            );
        }
        Ok(())
    }

    /// The end: every task has met its fate, and nothing is left of any.
    fn close(self) -> anyhow::Result<Vec<(usize, Fate)>> {
        let left = self.dispatcher.waiting() + self.servers.waiting();
        ensure!(left == 0, "{left} tasks still wait at the end");
        for channel in &self.channels {
            ensure!(channel.is_empty(), "a channel is not empty at the end");
        }
        let fates = self.tasks.iter().map(|present| match present.place {
            Place::Over(fate) => Ok((present.class, fate)),
            place => bail!("a task is left at {place:?}"),
        });
        fates.collect()
    }
}

impl Setup {
    /// What watching the servers' load makes of a service time.
    fn watching(&self) -> f64 {
        match self.dispatch {
            Dispatch::RoundRobin => 1.0,
            _ => 1.0 + MONITORING,
        }
    }

    /// Tasks per second that the servers can do.
    pub(super) fn capacity(&self) -> f64 {
        SERVERS as f64 / (self.tasks.mean_service_s() * self.watching())
    }

    /// The priority of a class where it matters.
    fn level(&self, class: usize) -> u8 {
        if self.prioritized { class as u8 } else { 0 }
    }

    fn class(&self, class: usize) -> ClassSpec {
        let discarded = self.thresholds.filter(|_| class > 0);
        ClassSpec {
            level: self.level(class),
            drop_thresholds: discarded.unwrap_or((1.0, 1.0)),
            ..ClassSpec::default()
        }
    }

    fn station(&self) -> StationConfig {
        StationConfig {
            dispatch: Dispatch::RoundRobin,
            endpoints: vec![endpoint(0)],
            max_requests: 1,
            classes: vec![ClassSpec::default(); CLASSES],
            order: Order::Fcfs,
            scope: Scope::Endpoint,
            max_waiting: DISPATCH_QUEUE,
            slow_start: Duration::ZERO,
            admission: Admission {
                averaging: self.averaging,
                displace: self.displace,
                ..Admission::default()
            },
        }
    }

    /// The dispatcher takes tasks as they come: their priorities become known
    /// there.
    fn dispatcher(&self) -> StationConfig {
        self.station()
    }

    /// The servers are non-preemptive, strict between priorities, and first
    /// come, first served within one (3.3).
    fn servers(&self) -> StationConfig {
        StationConfig {
            dispatch: self.dispatch.clone(),
            endpoints: (0..SERVERS).map(endpoint).collect(),
            classes: (0..CLASSES).map(|class| self.class(class)).collect(),
            max_waiting: self.queue,
            ..self.station()
        }
    }
}

fn arrival(class: usize, task: &Task, random: u64) -> Arrival {
    Arrival {
        class,
        size: Size::Exact(task.bytes),
        hash: 0,
        random,
        channel_backlog: Duration::ZERO,
    }
}

fn remember(holders: &mut Vec<usize>, ticket: Ticket, number: usize) {
    if holders.len() <= ticket.index() {
        holders.resize(ticket.index() + 1, number);
    }
    holders[ticket.index()] = number;
}
