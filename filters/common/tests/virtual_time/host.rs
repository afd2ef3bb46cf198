//! A host in virtual time: it keeps what a filter says, and what workers share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use sprat_config::fields::Fields;
use sprat_filter::metrics::{Counter, Gauge};
use sprat_filter::{Answer, Filter, Host, RequestHead, ResponseHead, Step, StreamId};
use sprat_scheduler::Time;
use sprat_scheduler::catalogue::KeyHasher;

/// The values that workers share, with their versions.
pub(crate) type Shared = Rc<RefCell<BTreeMap<String, (Vec<u8>, u32)>>>;

/// A call that a filter has made to its host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Did {
    Field(StreamId, String, String),
    NoField(StreamId, String),
    Metadata(StreamId, String, String),
    Request(StreamId),
    Response(StreamId),
    Answer(StreamId, &'static str),
    Ask(u32, String),
    Ring(u32),
}

#[derive(Debug, Default)]
pub(crate) struct FakeHost {
    pub(crate) shared: Shared,
    pub(crate) did: Vec<Did>,
    pub(crate) counted: BTreeMap<String, u64>,
    pub(crate) waiting: u64,
    /// The number by which other workers have this one called.
    bell: Option<u32>,
    asked: u32,
}

impl Host for FakeHost {
    fn shared(&mut self, key: &str) -> (Option<Vec<u8>>, u32) {
        match self.shared.borrow().get(key) {
            Some((value, version)) => (Some(value.clone()), *version),
            None => (None, 0),
        }
    }

    fn set_shared(&mut self, key: &str, value: &[u8], version: u32) -> bool {
        let mut shared = self.shared.borrow_mut();
        let current = shared.get(key).map_or(0, |(_, version)| *version);
        if current != version {
            return false;
        }
        shared.insert(key.to_owned(), (value.to_vec(), version + 1));
        true
    }

    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.did.push(Did::Field(id, name.into(), value.into()));
    }

    fn remove_request_field(&mut self, id: StreamId, name: &str) {
        self.did.push(Did::NoField(id, name.into()));
    }

    fn set_pool_metadata(&mut self, id: StreamId, key: &str, pool: &str) {
        self.did.push(Did::Metadata(id, key.into(), pool.into()));
    }

    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.did.push(Did::Field(id, name.into(), value.into()));
    }

    fn resume_request(&mut self, id: StreamId) {
        self.did.push(Did::Request(id));
    }

    fn resume_response(&mut self, id: StreamId) {
        self.did.push(Did::Response(id));
    }

    fn answer(&mut self, id: StreamId, answer: &Answer) {
        self.did.push(Did::Answer(id, answer.reason));
    }

    fn request_fields(&mut self, _: StreamId) -> Vec<(String, String)> {
        let fields = [(":method", "GET"), (":path", "/a"), ("range", "bytes=0-1")];
        let owned = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        owned.to_vec()
    }

    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], _: Duration) -> Option<u32> {
        self.asked += 1;
        let head: Vec<String> = head.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let asked = format!("{cluster} {}", head.join(" "));
        self.did.push(Did::Ask(self.asked, asked));
        Some(self.asked)
    }

    fn connection(&mut self, id: StreamId) -> Option<u64> {
        // Two streams on each.
        Some(id / 2)
    }

    fn bell(&self) -> Option<u32> {
        self.bell
    }

    fn ring(&mut self, bell: u32) {
        self.did.push(Did::Ring(bell));
    }

    fn count(&mut self, counter: Counter, by: u64) {
        let classes = ["0", "1", "2", "3"].map(str::to_owned);
        *self.counted.entry(counter.name(&classes)).or_default() += by;
    }

    fn gauge(&mut self, gauge: Gauge, value: u64) {
        if gauge == Gauge::Waiting {
            self.waiting = value;
        }
    }
}

/// A worker: its filter, its host, and the time.
pub(crate) struct Worker {
    pub(crate) filter: Filter,
    pub(crate) host: FakeHost,
    pub(crate) now: Time,
    next: StreamId,
}

pub(crate) fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Header fields; the trait wants something of a known size.
pub(crate) struct List<'a>(pub(crate) &'a [(&'a str, &'a str)]);

impl Fields for List<'_> {
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        self.0.any(name, see)
    }
}

impl Worker {
    pub(crate) fn new(config: &str) -> Self {
        Self::sharing(config, 1, Shared::default())
    }

    /// Makes the worker of this number, which shares with others.
    pub(crate) fn sharing(config: &str, worker: u64, shared: Shared) -> Self {
        let loaded = sprat_config::parse_filter(config, "test", &|_| None).unwrap();
        let mut host = FakeHost {
            shared,
            bell: u32::try_from(worker).ok(),
            ..FakeHost::default()
        };
        let hasher = KeyHasher::new(worker, worker + 1);
        Self {
            filter: Filter::new(&loaded.config, hasher, worker, &mut host),
            host,
            now: ms(1_000_000),
            next: 0,
        }
    }

    /// Makes one filter of all workers.
    pub(crate) fn of_all(config: &str) -> Self {
        let loaded = sprat_config::parse_filter(config, "test", &|_| None).unwrap();
        Self {
            filter: Filter::of_all_workers(&loaded.config, KeyHasher::new(1, 2)),
            ..Self::new("{}")
        }
    }

    /// Sends a `GET` of this target, with fields; returns its stream and the filter's decision.
    pub(crate) fn get(&mut self, target: &str, fields: &[(&str, &str)]) -> (StreamId, Step) {
        self.next += 1;
        let head = RequestHead {
            client: None,
            method: "GET",
            authority: "a.example:80",
            target,
            fields: &List(fields),
            random: 0,
        };
        let id = self.next;
        let step = self
            .filter
            .request_head(self.now, id, &head, &mut self.host);
        (id, step)
    }

    /// Hands over the head of a stream's response, of so many bytes; returns whether it is held.
    pub(crate) fn head(&mut self, id: StreamId, bytes: u64) -> bool {
        let length = bytes.to_string();
        let head = ResponseHead {
            status: 200,
            fields: &List(&[("content-length", &length)]),
            end: bytes == 0,
        };
        self.filter
            .response_head(self.now, id, &head, &mut self.host)
    }

    /// Turns a stream into a tunnel; returns whether that is held.
    pub(crate) fn switch(&mut self, id: StreamId) -> bool {
        let head = ResponseHead {
            status: 101,
            fields: &List(&[]),
            end: false,
        };
        self.filter
            .response_head(self.now, id, &head, &mut self.host)
    }

    /// Hands over the rest of the response, and ends the stream.
    pub(crate) fn finish(&mut self, id: StreamId, bytes: u64) {
        self.filter
            .response_body(self.now, id, bytes, true, &mut self.host);
        self.filter.done(self.now, id, &mut self.host);
    }

    /// Makes a request and hands over its whole response.
    pub(crate) fn exchange(&mut self, target: &str, bytes: u64) {
        let (id, step) = self.get(target, &[]);
        assert_eq!(step, Step::Continue);
        assert!(!self.head(id, bytes));
        self.finish(id, bytes);
    }

    pub(crate) fn tick(&mut self) {
        self.filter.tick(self.now, &mut self.host);
    }

    /// Takes the calls that the filter has made to the host since the last look.
    pub(crate) fn did(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.host.did)
    }

    pub(crate) fn counted(&self, name: &str) -> u64 {
        self.host.counted.get(name).copied().unwrap_or(0)
    }
}
