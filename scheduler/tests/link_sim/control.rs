//! Ways to find the rate, behind one interface.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_scheduler::{Control, Egress, RateControl, RateControlConfig, SocketSample, Time, Write};

/// A controller of the rate, as the driver calls it.
pub(crate) trait Controller {
    fn rate_bits_per_s(&self) -> u64;

    fn wrote(&mut self, now: Time, socket: u64, network: u64, written: u64, position: u64);

    /// `tcp_info` gives bytes acknowledged and the least round-trip time.
    fn poll(&mut self, now: Time, backlogged: bool, tcp_info: impl Fn(u64) -> (u64, Duration));

    fn apply(&self, now: Time, egress: &mut Egress) {
        egress.set_rate(now, self.rate_bits_per_s());
    }

    /// Returns whether no more may be sent.
    fn window_full(&self, _position: u64) -> bool {
        false
    }
}

/// A number from the operator.
pub(crate) struct Fixed(pub u64);

impl Controller for Fixed {
    fn rate_bits_per_s(&self) -> u64 {
        self.0
    }

    fn wrote(&mut self, _: Time, _: u64, _: u64, _: u64, _: u64) {}

    fn poll(&mut self, _: Time, _: bool, _: impl Fn(u64) -> (u64, Duration)) {}
}

/// The controller under test.
pub(crate) struct Frontier {
    pub control: RateControl,
    last: Control,
    wanted: Vec<u64>,
}

impl Frontier {
    pub(crate) fn new(initial_rate_bits_per_s: u64) -> Self {
        let control = RateControl::new(RateControlConfig {
            initial_rate_bits_per_s,
            ..RateControlConfig::default()
        });
        Self {
            last: control.control(),
            control,
            wanted: Vec::new(),
        }
    }
}

impl Controller for Frontier {
    fn rate_bits_per_s(&self) -> u64 {
        self.last.rate_bits_per_s
    }

    fn wrote(&mut self, now: Time, socket: u64, network: u64, written: u64, position: u64) {
        self.control.on_write(
            now,
            Write {
                socket,
                network,
                written,
                position,
            },
        );
    }

    fn poll(&mut self, now: Time, backlogged: bool, tcp_info: impl Fn(u64) -> (u64, Duration)) {
        self.control.wanted(now, &mut self.wanted);
        let samples: Vec<SocketSample> = self
            .wanted
            .iter()
            .map(|&socket| {
                let (bytes_acked, min_rtt) = tcp_info(socket);
                SocketSample {
                    socket,
                    bytes_acked,
                    min_rtt,
                }
            })
            .collect();
        self.last = self.control.on_poll(now, &samples, backlogged);
    }
}

/// The other design, for comparison: the sum of the bytes in flight is kept
/// below anchor x base round-trip time + a few segments; the anchor is the
/// windowed maximum of the delivery rate while backlogged.
pub(crate) struct InFlightWindow {
    rate: f64,
    /// The bytes acknowledged and written, by socket.
    sockets: BTreeMap<u64, (u64, u64)>,
    delivered: u64,
    in_flight: u64,
    base_rtt: Duration,
    segments: u64,
    span: Option<(Time, u64)>,
    samples: Vec<(Time, f64)>,
}

impl InFlightWindow {
    pub(crate) fn new(initial_rate_bits_per_s: u64, segments: u64) -> Self {
        Self {
            rate: initial_rate_bits_per_s as f64,
            sockets: BTreeMap::new(),
            delivered: 0,
            in_flight: 0,
            base_rtt: Duration::MAX,
            segments,
            span: None,
            samples: Vec::new(),
        }
    }
}

impl Controller for InFlightWindow {
    fn rate_bits_per_s(&self) -> u64 {
        (self.rate * 1.1) as u64
    }

    fn wrote(&mut self, _: Time, socket: u64, _: u64, written: u64, _: u64) {
        let entry = self.sockets.entry(socket).or_insert((0, 0));
        self.in_flight += written - entry.1;
        entry.1 = written;
    }

    fn poll(&mut self, now: Time, backlogged: bool, tcp_info: impl Fn(u64) -> (u64, Duration)) {
        self.sockets.retain(|&socket, entry| {
            let (acked, min_rtt) = tcp_info(socket);
            self.base_rtt = self.base_rtt.min(min_rtt);
            self.delivered += acked - entry.0;
            self.in_flight -= acked - entry.0;
            entry.0 = acked;
            entry.0 < entry.1
        });
        if !backlogged {
            self.span = None;
        }
        let (start, from) = *self.span.get_or_insert((now, self.delivered));
        let span = now.since(start);
        if span >= Duration::from_millis(150) && backlogged {
            // Payload to wire, at a full segment's ratio.
            let bytes = (self.delivered - from) as f64 * 1514.0 / 1448.0;
            self.samples.push((now, bytes * 8.0 / span.as_secs_f64()));
            self.samples
                .retain(|(at, _)| now.since(*at) < Duration::from_secs(2));
            self.rate = self.samples.iter().map(|s| s.1).fold(0.0, f64::max);
            self.span = None;
        }
    }

    fn window_full(&self, _position: u64) -> bool {
        let base = self.base_rtt.min(Duration::from_secs(1)).as_secs_f64();
        let window = self.rate / 8.0 * (base + 0.000_75) + (self.segments * 1448) as f64;
        self.in_flight as f64 >= window
    }
}
