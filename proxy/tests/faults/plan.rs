//! The plan of a run, all of which follows from the seed.

use fastrand::Rng;

use crate::health::{Health, Outage};
use crate::settings::Settings;
use crate::wire::Fault;

/// The plan of one run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// The settings with which the proxy begins.
    pub(crate) settings: Settings,
    /// The reloads, in the order of their times.
    pub(crate) reloads: Vec<ReloadPlan>,
    pub(crate) clients: Vec<ClientPlan>,
    /// The outages of endpoints that fail and return.
    pub(crate) outages: Vec<Outage>,
    /// The number of faults that occur, out of 100 that could.
    faults: u8,
}

/// A reload in the middle of the run.
#[derive(Debug, Clone)]
pub(crate) struct ReloadPlan {
    pub(crate) at_ms: u64,
    pub(crate) settings: Settings,
    /// Whether another uplink replaces the one before, so that connections end with their present
    /// request.
    pub(crate) drains: bool,
}

/// The plan of a client, and of its connection.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) number: u64,
    pub(crate) at_ms: u64,
    /// The worker that accepts the client.
    pub(crate) worker: usize,
    pub(crate) requests: Vec<RequestPlan>,
    /// The number of requests that are sent before the first is answered.
    pub(crate) pipelined: usize,
    pub(crate) fault: Option<Fault>,
    /// The plan for HTTP/2; none if the client speaks HTTP/1.1.
    pub(crate) http2: Option<Http2Plan>,
}

/// The plan of a client that has several requests at a time on its connection.
#[derive(Debug, Clone)]
pub(crate) struct Http2Plan {
    pub(crate) at_a_time: usize,
    /// The bytes of one answer, and of all answers, that the client accepts before it has taken
    /// them.
    pub(crate) stream_window_bytes: u32,
    pub(crate) connection_window_bytes: u32,
    /// The time after which the client resets each request, if it does.
    pub(crate) resets_ms: Vec<Option<u64>>,
}

#[derive(Debug, Clone)]
pub(crate) struct RequestPlan {
    /// The number of the request, which no other of the run has.
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// The bytes of the request's body.
    pub(crate) upload: usize,
    pub(crate) is_chunked: bool,
    /// The pause after the answer before.
    pub(crate) pause_ms: u64,
    pub(crate) is_last: bool,
    /// The bytes of each message of a conversation. If there are any, the request asks for another
    /// protocol, and the backend sends them back.
    pub(crate) messages: Vec<usize>,
}

/// The way in which the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    Close,
}

/// The answer of a backend to a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) length: usize,
    pub(crate) framing: Framing,
    pub(crate) delay_ms: u64,
    /// Whether a 103 comes first.
    pub(crate) has_hints: bool,
}

/// The fault of a backend, in place of its planned answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BackendFault {
    /// The backend closes when it has the request's head.
    CloseAtHead,
    /// The backend closes when it has the whole request.
    CloseAtEnd,
    /// The backend closes after so many thousandths of the answer.
    CutAnswer(u64),
    /// The backend stops after so many thousandths of the answer, and does not close.
    StallAnswer(u64),
    /// The backend answers with something else than HTTP.
    Garbage,
    /// The backend never answers.
    Silent,
    /// The backend answers before it has read the body, and closes.
    Early,
    /// The backend answers and then closes, without announcing that.
    CloseAfter,
}

/// The outcome of an attempt to connect to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Dial {
    Open { after_ms: u64 },
    Refused { after_ms: u64 },
    Unanswered,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        // Every fourth run is without faults: all must be well in it.
        let faults = [0, 3, 15, 40][(seed % 4) as usize];
        // Every other four are served by two workers.
        let workers = [2, 1][(seed / 4 % 2) as usize];
        let settings = Settings::random(&mut rng, workers);
        let clients = (0..rng.u64(1..=12)).map(|number| ClientPlan {
            worker: number as usize % workers,
            ..client(&mut rng, number, faults)
        });
        let clients = clients.collect();
        let reloads = match rng.bool() {
            true => reloads(&mut rng, &settings),
            false => Vec::new(),
        };
        let mut plan = Self {
            seed,
            clients,
            settings,
            reloads,
            outages: Vec::new(),
            faults,
        };
        // Of three runs in a row two know HTTP/2.
        if !seed.is_multiple_of(3) {
            plan.speak_http2();
        }
        // Of five two look after their endpoints' health.
        if seed % 5 < 2 {
            plan.keep_health();
        }
        plan
    }

    /// Adds health checks of the farm's endpoints, and outages if the run has faults.
    fn keep_health(&mut self) {
        let mut rng = self.rng("health", 0);
        let health = Health::random(&mut rng);
        self.settings.keep_health(&health);
        for reload in &mut self.reloads {
            reload.settings.keep_health(&health);
        }
        if self.faults > 0 {
            self.outages = (0..rng.u8(1..=4))
                .map(|_| Outage::random(&mut rng))
                .collect();
        }
    }

    /// Makes some of the clients, and some of the backends, speak HTTP/2.
    fn speak_http2(&mut self) {
        let mut rng = self.rng("http2", 0);
        let mut which = [rng.bool(), rng.bool()];
        self.settings.speak_http2(which);
        for reload in &mut self.reloads {
            which[0] ^= rng.u8(..4) == 0;
            reload.settings.speak_http2(which);
        }
        let upgrades = !self.all_settings().any(Settings::speaks_http2);
        for client in &mut self.clients {
            if client.pipelined == 1 && rng.bool() {
                client.http2 = Some(http2(&mut rng, client.requests.len(), self.faults));
            }
            if client.http2.is_some() || !upgrades {
                // Switching protocols is HTTP/1.1's.
                client
                    .requests
                    .iter_mut()
                    .for_each(|own| own.messages.clear());
            }
        }
    }

    /// Returns all settings of the proxy, in the order of their times.
    pub(crate) fn all_settings(&self) -> impl Iterator<Item = &Settings> {
        let later = self.reloads.iter().map(|reload| &reload.settings);
        std::iter::once(&self.settings).chain(later)
    }

    /// Returns whether the proxy may refuse requests without a fault.
    pub(crate) fn is_narrow(&self) -> bool {
        self.all_settings().any(Settings::is_narrow)
    }

    /// Returns whether the run has no faults.
    pub(crate) fn is_without_faults(&self) -> bool {
        self.faults == 0
    }

    /// Returns a generator for one thing, which does not depend on the use of others.
    pub(crate) fn rng(&self, what: &str, number: u64) -> Rng {
        let mut hash = self.seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in what.bytes().chain(number.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Rng::with_seed(hash)
    }

    /// Returns the plan of the request with this number.
    pub(crate) fn request(&self, id: u64) -> &RequestPlan {
        &self.clients[(id / 100) as usize].requests[(id % 100) as usize]
    }

    pub(crate) fn answer(&self, id: u64) -> Answer {
        let mut rng = self.rng("answer", id);
        let status = match rng.u8(..20) {
            0 => 204,
            1 => 304,
            2 => 404,
            _ => 200,
        };
        let bodiless = matches!(status, 204 | 304);
        // Some take long enough for a reload in their middle.
        let magnitude = match rng.u8(..16) {
            0 => 20,
            _ => rng.usize(0..=17),
        };
        Answer {
            status,
            length: if bodiless {
                0
            } else {
                rng.usize(0..=1 << magnitude)
            },
            framing: match rng.u8(..8) {
                _ if bodiless => Framing::Length,
                0 => Framing::Close,
                1..3 => Framing::Chunked,
                _ => Framing::Length,
            },
            delay_ms: [0, 0, 5, 300][rng.usize(..4)],
            has_hints: rng.u8(..16) == 0,
        }
    }

    /// Returns the backend's fault at the given attempt at a request, if there is one.
    pub(crate) fn backend_fault(&self, id: u64, attempt: u64) -> Option<BackendFault> {
        let mut rng = self.rng("backend", id * 1_000 + attempt);
        if rng.u8(..100) >= self.faults {
            return None;
        }
        let part = rng.u64(..1_000);
        Some(match rng.u8(..8) {
            0 => BackendFault::CloseAtHead,
            1 => BackendFault::CloseAtEnd,
            2 => BackendFault::CutAnswer(part),
            3 => BackendFault::StallAnswer(part),
            4 => BackendFault::Garbage,
            5 => BackendFault::Silent,
            6 => BackendFault::Early,
            _ => BackendFault::CloseAfter,
        })
    }

    pub(crate) fn dial(&self, number: u64) -> Dial {
        let mut rng = self.rng("dial", number);
        let after_ms = rng.u64(..20);
        if rng.u8(..100) >= self.faults {
            return Dial::Open { after_ms };
        }
        match rng.u8(..3) {
            0 => Dial::Unanswered,
            _ => Dial::Refused { after_ms },
        }
    }
}

fn reloads(rng: &mut Rng, first: &Settings) -> Vec<ReloadPlan> {
    let count = rng.u8(1..=3);
    let mut at_ms = 0;
    let mut before = first.clone();
    let reload = |_| {
        // Some in a row, some when only what is slow is left.
        let within_ms = [100, 1_500, 1_500, 20_000][rng.usize(..4)];
        at_ms += rng.u64(..within_ms);
        let settings = before.changed(rng);
        let drains = settings.is_unlimited() != before.is_unlimited();
        before = settings.clone();
        ReloadPlan {
            at_ms,
            settings,
            drains,
        }
    };
    (0..count).map(reload).collect()
}

fn client(rng: &mut Rng, number: u64, faults: u8) -> ClientPlan {
    let count = rng.u64(1..=6);
    let pipelines = rng.u8(..4) == 0;
    let requests = (0..count).map(|index| {
        let method = match rng.u8(..10) {
            0 => "HEAD",
            1..4 if !pipelines => "POST",
            _ => "GET",
        };
        let magnitude = rng.u32(0..=16);
        RequestPlan {
            id: number * 100 + index,
            method,
            upload: if method == "POST" {
                rng.usize(0..=1 << magnitude)
            } else {
                0
            },
            is_chunked: rng.bool(),
            pause_ms: [0, 0, 10, 2_000][rng.usize(..4)],
            is_last: index + 1 == count && rng.bool(),
            messages: Vec::new(),
        }
    });
    let mut requests: Vec<_> = requests.collect();
    if !pipelines && rng.u8(..6) == 0 {
        converse(rng, requests.last_mut().unwrap());
    }
    let magnitude = rng.u32(0..=17);
    let at = rng.u64(0..=1 << magnitude);
    let fault = (rng.u8(..100) < faults).then(|| match rng.u8(..4) {
        0 => Fault::CutReading(at),
        1 => Fault::CutWriting(at),
        2 => Fault::SilentReading(at),
        _ => Fault::SilentWriting(at),
    });
    ClientPlan {
        number,
        worker: 0,
        at_ms: rng.u64(..3_000),
        requests,
        pipelined: if pipelines { 3 } else { 1 },
        fault,
        http2: None,
    }
}

fn http2(rng: &mut Rng, requests: usize, faults: u8) -> Http2Plan {
    let window = |rng: &mut Rng| [1_000, 16_384, 65_535, 1 << 20][rng.usize(..4)];
    let reset_ms = |_| {
        let after_ms = [0, 5, 50, 500, 5_000][rng.usize(..5)];
        // No fault: it concerns nobody else.
        (rng.u8(..100) < 10 + faults).then_some(after_ms)
    };
    Http2Plan {
        resets_ms: (0..requests).map(reset_ms).collect(),
        at_a_time: [1, 2, 6][rng.usize(..3)],
        stream_window_bytes: window(rng),
        connection_window_bytes: window(rng).max(65_535),
    }
}

/// Turns a request into one for a conversation.
fn converse(rng: &mut Rng, request: &mut RequestPlan) {
    request.method = "GET";
    request.upload = 0;
    request.is_last = false;
    let magnitude = rng.u32(0..=15);
    let messages = (0..rng.u8(1..=8)).map(|_| rng.usize(0..=1 << magnitude));
    request.messages = messages.collect();
}

/// Returns the bytes of the body that belongs to a request, or to its answer.
pub(crate) fn body(id: u64, is_answer: bool, length: usize) -> Vec<u8> {
    let salt = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(is_answer);
    let byte = |index: usize| {
        let mixed = (salt ^ index as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> 56) as u8
    };
    (0..length).map(byte).collect()
}
