//! The thread that carries packets between devices and links.

use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use serde::Serialize;
use sprat_scheduler::Time;
use tun_rs::SyncDevice;

use super::fabric::{Fabric, Port};

/// The wait below which the thread looks again instead of sleeping, for it would wake up late.
const SPIN: Duration = Duration::from_micros(20);
/// The most packets read from one device before the others have their turn.
const READS_MAX: usize = 32;
/// The thread's timer slack. By default the kernel wakes sleepers up to 50 us late, to save power.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;
const PACKET_BYTES_MAX: usize = 65_535;

/// The lateness of packets: the time from the moment that their links gave to the handover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Lateness {
    /// The number of packets handed over.
    pub(super) packets: u64,
    /// Mean lateness, in microseconds.
    pub(super) mean_us: f64,
    /// The greatest lateness, in microseconds.
    pub(super) max_us: u64,
    /// Packets that were more than a millisecond late.
    pub(super) over_1_ms: u64,
    /// Packets that a device did not take.
    pub(super) refused: u64,
}

/// A closure that reads the engine's state on the thread of the links.
pub(super) type Look = Box<dyn FnOnce(&Fabric, Lateness, Time) + Send>;

enum EngineRequest {
    Look(Look),
    Stop,
}

/// A running engine; it stops when this is dropped.
#[derive(Debug)]
pub(super) struct Engine {
    requests: Sender<EngineRequest>,
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the thread that carries packets between `devices` over the links.
    pub(super) fn start(
        devices: Vec<SyncDevice>,
        fabric: impl FnOnce(Time) -> Fabric + Send + 'static,
    ) -> anyhow::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let woken = wake.try_clone()?;
        let (requests, heard) = channel();
        let thread = std::thread::Builder::new()
            .name("links".to_owned())
            .spawn(move || {
                // Without it times are less exact, and that is told as lateness.
                let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
                Carrier::new(devices, fabric(Time::ZERO)).run(&woken, &heard);
            })
            .context("cannot start the thread of the links")?;
        Ok(Self {
            requests,
            wake,
            thread: Some(thread),
        })
    }

    /// Runs `look` on the thread of the links, and returns its result.
    pub(super) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Fabric, Lateness, Time) -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let (answer, answered) = channel();
        let look: Look = Box::new(move |fabric, lateness, now| {
            let _ = answer.send(look(fabric, lateness, now));
        });
        self.ask(EngineRequest::Look(look));
        answered
            .recv()
            .map_err(|_| anyhow!("the thread of the links has ended"))
    }

    fn ask(&self, request: EngineRequest) {
        // A thread that has ended is noticed by those who wait for its answer.
        let _ = self.requests.send(request);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.ask(EngineRequest::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread of the links.
struct Carrier {
    devices: Vec<SyncDevice>,
    fabric: Fabric,
    begun: Instant,
    lateness: Lateness,
    late_us_sum: u64,
    buffer: Box<[u8]>,
}

impl Carrier {
    fn new(devices: Vec<SyncDevice>, fabric: Fabric) -> Self {
        Self {
            devices,
            fabric,
            begun: Instant::now(),
            lateness: Lateness::default(),
            late_us_sum: 0,
            buffer: vec![0; PACKET_BYTES_MAX].into(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.begun.elapsed()
    }

    fn run(&mut self, wake: &OwnedFd, requests: &Receiver<EngineRequest>) {
        // The devices are beside the carrier while poll has them.
        let devices = std::mem::take(&mut self.devices);
        let mut polled: Vec<PollFd<'_>> = devices
            .iter()
            .map(|device| PollFd::new(device, PollFlags::IN))
            .collect();
        polled.push(PollFd::new(wake, PollFlags::IN));
        loop {
            let wait = self.wait();
            // Interrupted or not, the state is looked at again.
            let _ = poll(&mut polled, wait.as_ref());
            self.hand_over(&devices);
            for (device, state) in devices.iter().zip(&polled) {
                if !state.revents().is_empty() {
                    self.read(device, &devices);
                }
            }
            if polled.last().is_some_and(|wake| !wake.revents().is_empty())
                && !self.answer(wake, requests)
            {
                return;
            }
        }
    }

    /// Returns how long to sleep; `None` to sleep until a packet comes.
    fn wait(&mut self) -> Option<Timespec> {
        let due = self.fabric.next_event()?;
        let left = due.since(self.now());
        let left = if left <= SPIN { Duration::ZERO } else { left };
        Some(Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        })
    }

    /// Hands over the packets that have arrived by now.
    fn hand_over(&mut self, devices: &[SyncDevice]) {
        while let Some(due) = self.fabric.next_event() {
            let now = self.now();
            if due > now {
                return;
            }
            let late_us = now.since(due).as_micros() as u64;
            let (lateness, late_us_sum) = (&mut self.lateness, &mut self.late_us_sum);
            self.fabric.run(due, &mut |port, data| {
                write(devices, port, data, lateness);
                *late_us_sum += late_us;
                lateness.max_us = lateness.max_us.max(late_us);
                lateness.over_1_ms += u64::from(late_us > 1000);
            });
        }
    }

    fn read(&mut self, device: &SyncDevice, devices: &[SyncDevice]) {
        for _ in 0..READS_MAX {
            let Ok(length) = device.recv(&mut self.buffer) else {
                return;
            };
            let now = Time::ZERO + self.begun.elapsed();
            let lateness = &mut self.lateness;
            self.fabric
                .send(now, &self.buffer[..length], &mut |port, data| {
                    write(devices, port, data, lateness);
                });
        }
    }

    /// Answers the requests; returns whether the thread goes on.
    fn answer(&mut self, wake: &OwnedFd, requests: &Receiver<EngineRequest>) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(wake, &mut count);
        loop {
            match requests.try_recv() {
                Ok(EngineRequest::Look(look)) => {
                    let mut lateness = self.lateness;
                    lateness.mean_us = self.late_us_sum as f64 / lateness.packets.max(1) as f64;
                    look(&self.fabric, lateness, self.now());
                }
                Ok(EngineRequest::Stop) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// Writes a packet to a host's device, and counts it.
fn write(devices: &[SyncDevice], port: Port, data: &[u8], lateness: &mut Lateness) {
    lateness.packets += 1;
    match devices[port].send(data) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            let _ = devices[port].send(data);
        }
        Err(_) => lateness.refused += 1,
    }
}
