//! A router's queue: which packets it keeps, and which one goes next.

use std::collections::VecDeque;
use std::time::Duration;

use sprat_scheduler::Time;

use super::counters::{LengthCounters, MarkCounters};
use super::red::{Red, RedSettings, RedVerdict};
use super::{Mark, Packet};

/// The bound of a FIFO, in packets and in bytes: neither is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBound {
    /// The most packets in the queue.
    pub packets: u64,
    /// The most bytes in the queue.
    pub bytes: u64,
}

impl QueueBound {
    /// Makes a bound in packets alone.
    pub const fn packets(packets: u64) -> Self {
        Self {
            packets,
            bytes: u64::MAX,
        }
    }

    /// Makes a bound in bytes. The number of packets has the same bound, for an empty packet counts
    /// no bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            packets: bytes,
            bytes,
        }
    }
}

/// The packets that OUT's average length counts in a virtual queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// The class's own packets, at its own arrivals (SFD02's words).
    Decoupled,
    /// Packets of both classes, at the arrivals of both (the default of ns-2's DiffServ,
    /// on which SFD02 ran). IN's average counts IN alone.
    Coupled,
}

/// A queue's kind and its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSettings {
    /// One FIFO, which drops what does not fit.
    Droptail {
        /// The bound of its FIFO.
        bound: QueueBound,
    },
    /// One FIFO under random early detection.
    Red {
        /// The bound of its FIFO.
        bound: QueueBound,
        /// RED's parameters for all packets.
        red: RedSettings,
    },
    /// One FIFO whose order is kept, with random early detection for each mark (VQ of
    /// SFD02).
    Virtual {
        /// The FIFO's bound, whatever the mark.
        bound: QueueBound,
        /// RED's parameters for IN and for OUT.
        red: [RedSettings; 2],
        /// The packets that OUT's average counts.
        average: Average,
    },
    /// Two FIFOs, each with random early detection; OUT waits while any IN does (PQ of
    /// SFD02).
    Priority {
        /// The bound of each FIFO.
        bound: QueueBound,
        /// RED's parameters for IN and for OUT.
        red: [RedSettings; 2],
    },
}

/// The queue of SFD02's routers: 50 packets.
const BUFFER: QueueBound = QueueBound::packets(50);

/// SFD02's RED parameters for IN and OUT (table 1). Each packet is dropped by itself, for SFD02
/// bounds the drop probability by max_p until the average is at max_th (3.2). The simulator that it
/// ran on did so until July 2002, in its DiffServ queues alone.
const SFD_CLASSES: [RedSettings; 2] = [RedSettings::SFD_IN.single(), RedSettings::SFD_OUT.single()];

impl QueueSettings {
    /// Makes SFD02's virtual queue, by the parameters of its table 1.
    pub const fn sfd_virtual(average: Average) -> Self {
        Self::Virtual {
            bound: BUFFER,
            red: SFD_CLASSES,
            average,
        }
    }

    /// Makes SFD02's priority queue, by the parameters of its table 1.
    pub const fn sfd_priority() -> Self {
        Self::Priority {
            bound: BUFFER,
            red: SFD_CLASSES,
        }
    }

    /// Makes SFD02's queue of plain RED (section 4.1).
    pub const fn sfd_red() -> Self {
        Self::Red {
            bound: BUFFER,
            red: RedSettings::SFD_OUT,
        }
    }
}

impl Default for QueueSettings {
    /// Makes SFD02's droptail queue of 50 packets.
    fn default() -> Self {
        Self::Droptail { bound: BUFFER }
    }
}

/// The reason why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The packet was dropped by RED's draw.
    Early,
    /// RED's average was at its upper threshold.
    Forced,
    /// The queue was full.
    Overflow,
}

/// A packet that was dropped instead of queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<T> {
    /// The packet that was refused.
    pub packet: Packet<T>,
    /// The reason for the refusal.
    pub why: Refusal,
}

/// The packets that wait for a link, and their counters.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    settings: QueueSettings,
    /// RED's state for IN and for OUT; plain RED has the first alone.
    reds: [Red; 2],
    /// The packets: by mark in a priority queue, and all in the first FIFO of other kinds.
    fifos: [VecDeque<Packet<T>>; 2],
    marks: [MarkCounters; 2],
    length: LengthCounters,
}

impl<T> Queue<T> {
    /// Makes an empty queue at `now`. `packet_time` is the time that a packet takes on the link
    /// behind the queue; by it RED's average fades while the queue is empty.
    pub fn new(settings: QueueSettings, packet_time: Duration, now: Time) -> Self {
        let red = match settings {
            // Not asked.
            QueueSettings::Droptail { .. } => [RedSettings::SFD_IN, RedSettings::SFD_OUT],
            QueueSettings::Red { red, .. } => [red, red],
            QueueSettings::Virtual { red, .. } | QueueSettings::Priority { red, .. } => red,
        };
        Self {
            settings,
            reds: red.map(|settings| Red::new(settings, packet_time, now)),
            fifos: [VecDeque::new(), VecDeque::new()],
            marks: [MarkCounters::new(now); 2],
            length: LengthCounters::new(now),
        }
    }

    /// Queues a packet, or drops it. `draw` is uniform in [0, 1), and used where the kind
    /// of queue drops by chance.
    ///
    /// # Errors
    /// Returns the packet that was dropped, with the reason.
    pub fn offer(&mut self, now: Time, packet: Packet<T>, draw: f64) -> Result<(), Refused<T>> {
        let counters = &mut self.marks[packet.mark.index()];
        counters.arrived.add(packet.bytes);
        let why = match self.judge(packet.mark, now, draw) {
            RedVerdict::Early => Some(Refusal::Early),
            RedVerdict::Forced => Some(Refusal::Forced),
            RedVerdict::Keep if self.is_full_for(&packet) => Some(Refusal::Overflow),
            RedVerdict::Keep => None,
        };
        let counters = &mut self.marks[packet.mark.index()];
        if let Some(why) = why {
            counters.refused(why, packet.bytes);
            return Err(Refused { packet, why });
        }
        counters.length.add(now, packet.bytes);
        self.length.add(now, packet.bytes);
        self.fifos[self.fifo_of(packet.mark)].push_back(packet);
        Ok(())
    }

    /// Takes the packet that goes next.
    pub fn take(&mut self, now: Time) -> Option<Packet<T>> {
        // The second FIFO has packets in a priority queue alone.
        let [first, second] = &mut self.fifos;
        let packet = first.pop_front().or_else(|| second.pop_front())?;
        let counters = &mut self.marks[packet.mark.index()];
        counters.departed.add(packet.bytes);
        counters.length.remove(now, packet.bytes);
        self.length.remove(now, packet.bytes);
        if self.counted(packet.mark) == 0 {
            self.reds[self.red_of(packet.mark)].emptied(now);
        }
        if self.is_coupled() && packet.mark == Mark::In && self.length.now().packets == 0 {
            self.reds[Mark::Out.index()].emptied(now);
        }
        Some(packet)
    }

    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.length.now().packets == 0
    }

    /// Returns the counters of IN and OUT.
    pub fn marks(&self) -> [MarkCounters; 2] {
        self.marks
    }

    /// Returns the length of the whole queue.
    pub fn length(&self) -> LengthCounters {
        self.length
    }

    /// Sets the time that a packet takes on the link behind the queue, whose rate has changed.
    pub fn set_packet_time(&mut self, packet_time: Duration) {
        for red in &mut self.reds {
            red.set_packet_time(packet_time);
        }
    }

    fn judge(&mut self, mark: Mark, now: Time, draw: f64) -> RedVerdict {
        if let QueueSettings::Droptail { .. } = self.settings {
            return RedVerdict::Keep;
        }
        if self.is_coupled() && mark == Mark::In {
            let all = self.length.now().packets;
            self.reds[Mark::Out.index()].observe(all, now);
        }
        let length = self.counted(mark);
        self.reds[self.red_of(mark)].arrive(length, now, draw)
    }

    fn is_coupled(&self) -> bool {
        let average = match self.settings {
            QueueSettings::Virtual { average, .. } => average,
            _ => Average::Decoupled,
        };
        average == Average::Coupled
    }

    /// Returns the number of packets that a mark's average counts.
    fn counted(&self, mark: Mark) -> u64 {
        let own = match self.settings {
            QueueSettings::Droptail { .. } | QueueSettings::Red { .. } => false,
            QueueSettings::Virtual { .. } => !(self.is_coupled() && mark == Mark::Out),
            QueueSettings::Priority { .. } => true,
        };
        let length = if own {
            &self.marks[mark.index()].length
        } else {
            &self.length
        };
        length.now().packets
    }

    fn red_of(&self, mark: Mark) -> usize {
        match self.settings {
            QueueSettings::Droptail { .. } | QueueSettings::Red { .. } => 0,
            QueueSettings::Virtual { .. } | QueueSettings::Priority { .. } => mark.index(),
        }
    }

    fn fifo_of(&self, mark: Mark) -> usize {
        match self.settings {
            QueueSettings::Priority { .. } => mark.index(),
            _ => 0,
        }
    }

    fn is_full_for(&self, packet: &Packet<T>) -> bool {
        let (bound, held) = match self.settings {
            QueueSettings::Droptail { bound }
            | QueueSettings::Red { bound, .. }
            | QueueSettings::Virtual { bound, .. } => (bound, self.length.now()),
            QueueSettings::Priority { bound, .. } => {
                (bound, self.marks[packet.mark.index()].length.now())
            }
        };
        held.packets >= bound.packets
            || held.bytes.saturating_add(packet.bytes.into()) > bound.bytes
    }
}

#[cfg(test)]
mod tests;
