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
use sprat_scheduler::station::{Arrival, Event, Station, Ticket, Verdict};
use sprat_scheduler::{Size, Time};

use super::channel::Channel;
use super::setup::{SERVERS, Setup};
use super::workload::Task;
use crate::workload::Dice;

/// The time that the dispatcher takes for a request: its capacity is 4,000 a second (SDIS02, table
/// 1).
const DISPATCH: Duration = Duration::from_micros(250);

/// The end of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TaskFate {
    /// The task was served: its last byte left this long after the request was accepted.
    Served(Duration),
    /// The request was turned away.
    Rejected,
    /// The request ran into the time-out.
    Aborted,
}

/// Runs a setup; returns each task's class and fate, in the order of arrival.
///
/// # Errors
/// When the core breaks one of its promises.
pub(super) fn simulate(setup: &Setup) -> anyhow::Result<Vec<(usize, TaskFate)>> {
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
    /// The oldest of the time-outs is over.
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Dispatcher(Ticket),
    Server(Ticket),
    /// The channel of this server.
    Channel(usize),
    Over(TaskFate),
}

struct PresentTask {
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
    tasks: Vec<PresentTask>,
    /// The task of each ticket, by the ticket's index.
    at_dispatcher: Vec<usize>,
    at_servers: Vec<usize>,
    /// The tasks that were let in, in the order of their time-outs.
    timeouts: VecDeque<usize>,
}

impl<'a> Model<'a> {
    fn new(setup: &'a Setup) -> Self {
        let channel = |_| Channel::new(setup.channel_bits_per_s, setup.requests, setup.classes());
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
            Verdict::Refuse(_) => Place::Over(TaskFate::Rejected),
        };
        if let Place::Dispatcher(ticket) = place {
            remember(&mut self.at_dispatcher, ticket, number);
            self.timeouts.push_back(number);
            self.schedule(self.now + self.setup.timeout, Happening::Timeout);
        }
        self.tasks.push(PresentTask {
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
            Verdict::Refuse(_) => Place::Over(TaskFate::Rejected),
        };
        Ok(())
    }

    /// Notes that a server begins with a task.
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
        let (class, bytes) = (present.class, present.task.bytes);
        let idle = self.channels[server].send(self.now, number, class, bytes)?;
        if idle {
            return self.channel_free(server);
        }
        Ok(())
    }

    fn channel_free(&mut self, server: usize) -> anyhow::Result<()> {
        if let Some(number) = self.channels[server].take_done(self.now) {
            let present = &mut self.tasks[number];
            let response = self.now.since(present.accepted);
            present.place = Place::Over(TaskFate::Served(response));
        }
        if let Some(until) = self.channels[server].next(self.now)? {
            self.schedule(until, Happening::ChannelFree(server));
        }
        Ok(())
    }

    /// Aborts the task whose time-out is the oldest, if the task is not over.
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
        present.place = Place::Over(TaskFate::Aborted);
    }

    /// Acts on the decisions that the stations have made meanwhile.
    fn drain(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.dispatcher.poll() {
            match event {
                Event::Started { ticket, .. } => {
                    let number = self.at_dispatcher[ticket.index()];
                    self.schedule(self.now + DISPATCH, Happening::Dispatched(number));
                }
                Event::Refused { ticket, .. } => {
                    let number = self.at_dispatcher[ticket.index()];
                    self.tasks[number].place = Place::Over(TaskFate::Rejected);
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
                    self.tasks[number].place = Place::Over(TaskFate::Rejected);
                }
            }
        }
        self.check()
    }

    /// Checks that no server idles while a task waits for it.
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

    /// Checks at the end that every task has met its fate, and that no queue or channel holds any.
    fn close(self) -> anyhow::Result<Vec<(usize, TaskFate)>> {
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

fn arrival(class: usize, task: &Task, random: u64) -> Arrival {
    Arrival {
        class,
        size: Size::Exact(task.bytes),
        hash: 0,
        random,
        channel_backlog: Duration::ZERO,
        channel_ahead: Duration::ZERO,
    }
}

fn remember(holders: &mut Vec<usize>, ticket: Ticket, number: usize) {
    if holders.len() <= ticket.index() {
        holders.resize(ticket.index() + 1, number);
    }
    holders[ticket.index()] = number;
}
