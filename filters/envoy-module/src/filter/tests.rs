mod requests;
mod responses;

use super::*;
use crate::fake::FakeHost;
use crate::link::{Link, Settings};
use crate::timer::Tick;
use sprat_scheduler::Discipline;

fn at(micros: u64) -> Time {
    // Far from the clock's own time, so that the thread that wakes streams
    // never has anything to do: here the tests do.
    Time::from_nanos((1 << 60) + micros * 1000)
}

fn uplink() -> Arc<Ticking<Link>> {
    let settings = Settings {
        rate_bits_per_s: 10_000_000,
        policy: Discipline::Srpt,
        max_flows: 3,
        floor_percent: 0,
        classes: Vec::new(),
    };
    Ticking::new(Link::new(settings, 1)).unwrap()
}

/// Keeps the link busy for 13 ms, by a response that stays open.
fn occupy(uplink: &Arc<Ticking<Link>>) -> Filter {
    occupy_at(uplink, at(0))
}

fn occupy_at(uplink: &Arc<Ticking<Link>>, now: Time) -> Filter {
    let mut host = FakeHost::responding(&[(":status", "200"), ("content-length", "1000000")]);
    let mut filter = Filter::new(Some(Arc::clone(uplink)), None);
    assert_eq!(filter.on_response_head(&mut host, now, false), Step::Hold);
    host.received.set(16_384);
    assert_eq!(filter.on_response_body(&host, now, false), Step::Continue);
    filter
}

fn small() -> FakeHost {
    FakeHost::responding(&[(":status", "200"), ("content-length", "500")])
}

/// Holds a chunk back as Envoy does.
fn hold(host: &FakeHost) {
    host.held.set(host.held.get() + host.received.take());
}
