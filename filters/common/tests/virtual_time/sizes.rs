//! What workers learn, share and ask.

use std::time::Duration;

use sprat_filter::{ResponseHead, Step};
use sprat_scheduler::Size;
use sprat_scheduler::catalogue::KeyHasher;

use crate::host::{Did, List, Shared, Worker};

const TWO: &str = "
catalogue: {estimator: off}
clusters:
  farm:
    pools: [{name: small, size_range: {to: 10KB}}, {name: large, size_range: {from: 10KB}}]
    dispatch: sita
";

fn source(worker: &Worker, name: &str) -> u64 {
    worker.counted(&format!("sprat.size.{name}"))
}

#[test]
fn what_one_worker_learns_another_knows() {
    let shared = Shared::default();
    let mut first = Worker::sharing(TWO, 1, shared.clone());
    let mut second = Worker::sharing(TWO, 2, shared);
    first.exchange("/a", 50_000);
    let (id, _) = second.get("/a", &[]);
    assert_eq!(source(&second, "shared"), 1);
    let chosen = Did::Field(id, "x-sprat-cluster".into(), "large".into());
    assert_eq!(second.did(), [chosen]);
    second.get("/a", &[]);
    assert_eq!(source(&second, "learnt"), 1, "it need not ask twice");
    // What is no news is not written.
    let written = first.counted("sprat.shared.written");
    first.exchange("/a", 50_000);
    assert_eq!(first.counted("sprat.shared.written"), written);
}

#[test]
fn what_is_shared_is_bounded_whatever_clients_ask_for() {
    let mut worker = Worker::new(&TWO.replace("{estimator: off}", "{max_size: 64KB}"));
    for number in 0..5_000 {
        worker.exchange(&format!("/{number}"), 10 + number);
    }
    let shared = worker.host.shared.borrow();
    let bytes: usize = shared
        .iter()
        .map(|(key, (value, _))| key.len() + value.len())
        .sum();
    assert!(shared.len() <= 165, "{}", shared.len());
    assert!(bytes <= 64 << 10, "{bytes}");
}

#[test]
fn a_body_of_unknown_length_is_learnt_at_its_end() {
    let mut worker = Worker::new(TWO);
    let (id, _) = worker.get("/a", &[]);
    let head = ResponseHead {
        status: 200,
        fields: &List(&[]),
        end: false,
    };
    worker
        .filter
        .response_head(worker.now, id, &head, &mut worker.host);
    worker
        .filter
        .response_body(worker.now, id, 7_000, false, &mut worker.host);
    worker.finish(id, 8_000);
    worker.did();
    worker.get("/a", &[]);
    let chosen = Did::Field(2, "x-sprat-cluster".into(), "large".into());
    assert_eq!(worker.did(), [chosen]);
}

const PROBED: &str = "
catalogue: {estimator: off}
clusters:
  farm:
    pools: [{name: small, size_range: {to: 10KB}}, {name: large, size_range: {from: 10KB}}]
    dispatch: sita
    head_probe: {budget: 10ms}
";

#[test]
fn requests_for_one_resource_share_a_probe() {
    let mut worker = Worker::new(PROBED);
    let (first, step) = worker.get("/a", &[]);
    assert_eq!(step, Step::Hold);
    // For the whole of the resource, to the first pool.
    let asked = Did::Ask(1, "small :method=HEAD :path=/a".into());
    assert_eq!(worker.did(), [asked]);
    let (second, step) = worker.get("/a", &[]);
    assert_eq!(step, Step::Hold);
    assert!(worker.did().is_empty());
    let fields = List(&[("content-length", "50000")]);
    let answer = Some((200, &fields as _));
    worker
        .filter
        .probed(worker.now, 1, answer, &mut worker.host);
    let large = |id| Did::Field(id, "x-sprat-cluster".into(), "large".into());
    let expected = [
        large(first),
        Did::Request(first),
        large(second),
        Did::Request(second),
    ];
    assert_eq!(worker.did(), expected);
    worker.get("/a", &[]);
    assert_eq!(source(&worker, "learnt"), 1);
}

#[test]
fn a_probe_takes_no_longer_than_its_budget() {
    let mut worker = Worker::new(PROBED);
    let (id, _) = worker.get("/a", &[]);
    worker.did();
    let until = worker.now + Duration::from_millis(10);
    assert_eq!(worker.filter.next_wakeup(), Some(until));
    worker.now = until;
    worker.tick();
    let small = Did::Field(id, "x-sprat-cluster".into(), "small".into());
    assert_eq!(worker.did(), [small, Did::Request(id)]);
    // The answer comes all the same, for the next who asks.
    let fields = List(&[("content-length", "50000")]);
    let answer = Some((200, &fields as _));
    worker
        .filter
        .probed(worker.now, 1, answer, &mut worker.host);
    assert!(worker.did().is_empty());
    let (_, step) = worker.get("/a", &[]);
    assert_eq!(step, Step::Continue);
}

#[test]
fn a_stream_that_ends_takes_its_probe_along() {
    let mut worker = Worker::new(PROBED);
    let (gone, _) = worker.get("/a", &[]);
    let (waits, _) = worker.get("/a", &[]);
    worker.did();
    worker.filter.done(worker.now, gone, &mut worker.host);
    let small = Did::Field(waits, "x-sprat-cluster".into(), "small".into());
    assert_eq!(worker.did(), [small, Did::Request(waits)]);
    assert_eq!(worker.counted("sprat.head_probe.failed"), 1);
    assert_eq!(worker.filter.next_wakeup(), None);
}

#[test]
fn clients_that_go_do_not_make_probes_pause() {
    let mut worker = Worker::new(PROBED);
    for number in 0..20 {
        let (gone, step) = worker.get(&format!("/{number}"), &[]);
        assert_eq!(step, Step::Hold, "{number}");
        worker.filter.done(worker.now, gone, &mut worker.host);
    }
    assert_eq!(worker.counted("sprat.head_probe.withheld"), 0);
}

#[test]
fn one_filter_for_all_workers_shares_nothing_and_learns_from_its_predecessor() {
    let config = "{uplink: {rate: 10mbit}, catalogue: {estimator: off}}";
    let mut old = Worker::of_all(config);
    let (id, _) = old.get("/a", &[]);
    let known = |worker: &mut Worker, id, fields: &[(&str, &str)]| {
        let head = ResponseHead {
            status: 200,
            fields: &List(fields),
            end: false,
        };
        let (now, host) = (worker.now, &mut worker.host);
        worker.filter.response(now, id, &head, host).unwrap()
    };
    assert_eq!(known(&mut old, id, &[]).size, Size::Unknown);
    old.finish(id, 7_000);
    assert!(old.host.shared.borrow().is_empty(), "there is no other");
    assert_eq!(old.filter.next_wakeup(), None, "no head is held");
    let mut new = Worker::of_all(config);
    new.filter.learn_from(old.now, &mut old.filter);
    let (id, _) = new.get("/a", &[]);
    assert_eq!(source(&new, "learnt"), 1);
    assert_eq!(known(&mut new, id, &[]).size.bytes(), Some(7_000));
    let (id, _) = new.get("/a", &[]);
    let length = [("content-length", "6000")];
    assert_eq!(known(&mut new, id, &length).size, Size::Exact(6_000));
    // Keys of another secret mean nothing here.
    let mut stranger = Worker::of_all(config);
    let loaded = sprat_config::parse_filter(config, "test", &|_| None).unwrap();
    stranger.filter = sprat_filter::Filter::of_all_workers(&loaded.config, KeyHasher::new(3, 4));
    stranger.filter.learn_from(new.now, &mut new.filter);
    stranger.get("/a", &[]);
    assert_eq!(source(&stranger, "learnt"), 0);
}
