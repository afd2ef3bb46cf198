//! Classes, dispatch, waiting, admission.

use std::time::Duration;

use sprat_filter::Step;
use sprat_filter::metrics::Counter;
use sprat_scheduler::station::RefusalReason;

use crate::host::{Did, Worker};

const POOL: &str = "
classes: {gold: {level: 0}, bulk: {level: 9}}
class_rules:
  - {match: {headers: [{name: x-tier, value: gold}]}, class: gold}
  - {match: {prefix: /bulk}, class: bulk}
catalogue:
  manifest: [{path: /1, bytes: 1}, {path: /20, bytes: 20}, {path: /300, bytes: 300},
             {path: /bulk/1, bytes: 1}]
clusters:
  farm: {pools: [one], max_requests: 1, wait_queue: {max_requests: 4, timeout: 2s}}
";

fn pool(id: u64) -> Did {
    Did::Field(id, "x-sprat-cluster".into(), "one".into())
}

#[test]
fn nothing_configured_is_nothing_done() {
    let worker = Worker::new("{}");
    assert!(worker.filter.is_passive());
    assert!(!Worker::new(POOL).filter.is_passive());
}

#[test]
fn those_who_wait_go_by_class_and_then_by_size() {
    let mut worker = Worker::new(POOL);
    let (first, step) = worker.get("/300", &[]);
    assert_eq!(step, Step::Continue);
    assert_eq!(worker.did(), [pool(first)]);
    let waits = |worker: &mut Worker, target: &str, fields: &[(&str, &str)]| {
        let (id, step) = worker.get(target, fields);
        assert_eq!(step, Step::Hold, "{target}");
        id
    };
    let bulk = waits(&mut worker, "/bulk/1", &[]);
    let large = waits(&mut worker, "/300", &[]);
    let small = waits(&mut worker, "/1", &[]);
    let gold = waits(&mut worker, "/300", &[("x-tier", "gold")]);
    assert_eq!(worker.host.waiting, 4);
    let mut running = first;
    for next in [gold, small, large, bulk] {
        worker.finish(running, 10);
        assert_eq!(worker.did(), [pool(next), Did::Request(next)]);
        running = next;
    }
    assert_eq!(worker.host.waiting, 0);
    assert_eq!(worker.filter.next_wakeup(), None, "nothing waits: no tick");
}

#[test]
fn a_client_that_goes_gives_up_its_place() {
    let mut worker = Worker::new(POOL);
    let (running, _) = worker.get("/1", &[]);
    let (gone, _) = worker.get("/1", &[]);
    let (next, _) = worker.get("/20", &[]);
    worker.did();
    worker.filter.done(worker.now, gone, &mut worker.host);
    // The one in service goes before it has a response.
    worker.filter.done(worker.now, running, &mut worker.host);
    assert_eq!(worker.did(), [pool(next), Did::Request(next)]);
    worker.finish(next, 20);
    assert!(worker.did().is_empty());
}

/// Envoy itself answers a request that waits, as after `stream_idle_timeout` or a chunk that is
/// none. Guards against a place that no stream had and none gave back.
#[test]
fn an_answer_of_the_hosts_own_to_one_that_waits_takes_no_place() {
    let mut worker = Worker::new(POOL);
    let (mut running, _) = worker.get("/1", &[]);
    for has_body in [true, false] {
        let (answered, step) = worker.get("/1", &[]);
        assert_eq!(step, Step::Hold);
        assert!(!worker.head(answered, if has_body { 10 } else { 0 }));
        if has_body {
            worker.finish(answered, 10);
        } else {
            worker.filter.done(worker.now, answered, &mut worker.host);
        }
        assert_eq!(worker.host.waiting, 0);
        // The pool serves one at a time, as before.
        let (next, step) = worker.get("/20", &[]);
        assert_eq!(step, Step::Hold);
        worker.did();
        worker.finish(running, 1);
        assert_eq!(worker.did(), [pool(next), Did::Request(next)]);
        running = next;
    }
    worker.finish(running, 20);
    let (_, step) = worker.get("/1", &[]);
    assert_eq!(step, Step::Continue);
}

/// The place of one that is answered so, and comes to its turn before its stream is over.
#[test]
fn a_place_that_comes_after_the_hosts_own_answer_is_given_back() {
    let mut worker = Worker::new(POOL);
    let (running, _) = worker.get("/1", &[]);
    let (answered, _) = worker.get("/1", &[]);
    let (next, step) = worker.get("/20", &[]);
    assert_eq!(step, Step::Hold);
    assert!(!worker.head(answered, 10));
    worker
        .filter
        .response_body(worker.now, answered, 10, true, &mut worker.host);
    worker.did();
    worker.finish(running, 1);
    assert_eq!(worker.did(), [pool(answered), Did::Request(answered)]);
    worker.filter.done(worker.now, answered, &mut worker.host);
    assert_eq!(worker.did(), [pool(next), Did::Request(next)]);
}

#[test]
fn a_full_queue_keeps_the_higher_class() {
    let mut worker = Worker::new(POOL);
    worker.get("/1", &[]);
    for _ in 0..3 {
        worker.get("/1", &[]);
    }
    let (bulk, step) = worker.get("/bulk/1", &[]);
    assert_eq!(step, Step::Hold);
    worker.did();
    let (_, step) = worker.get("/1", &[]);
    assert_eq!(step, Step::Hold);
    assert_eq!(worker.did(), [Did::Answer(bulk, "displaced")]);
    let (_, step) = worker.get("/bulk/1", &[("accept", "application/json")]);
    let Step::Answer(answer) = step else {
        panic!("{step:?}");
    };
    assert_eq!((answer.status, answer.reason), (503, "queue_full"));
    let retry = answer
        .fields
        .iter()
        .find(|(name, _)| *name == "retry-after");
    assert_eq!(retry.unwrap().1, "1");
    let refused = Counter::Refused(RefusalReason::QueueFull).name(&[]);
    assert_eq!(worker.counted(&refused), 1);
}

#[test]
fn whoever_waits_too_long_is_told() {
    let mut worker = Worker::new(POOL);
    worker.get("/1", &[]);
    let (late, _) = worker.get("/1", &[]);
    worker.did();
    let until = worker.now + Duration::from_secs(2);
    assert_eq!(worker.filter.next_wakeup(), Some(until));
    worker.now = until;
    worker.tick();
    assert_eq!(worker.did(), [Did::Answer(late, "queue_timeout")]);
    assert_eq!(worker.filter.next_wakeup(), None);
    // Its own answer passes through the filter, and changes nothing.
    assert!(!worker.head(late, 100));
    worker.finish(late, 100);
    assert!(worker.did().is_empty());
}

#[test]
fn a_pool_is_chosen_by_size_and_the_first_group_that_matches() {
    let mut worker = Worker::new(
        "
catalogue: {manifest: [{path: /s, bytes: 1KB}, {path: /l, bytes: 1MB}, {host: b.example, path: /s, bytes: 1MB}]}
clusters:
  other: {match: {prefix: /other}, pools: [elsewhere], header: x-other}
  farm:
    pools: [{name: small, size_range: {to: 10KB}}, {name: large, size_range: {from: 10KB}}]
    dispatch: sita
response_header: x-sprat
",
    );
    let mut chosen = |target: &str| {
        let (id, step) = worker.get(target, &[]);
        assert_eq!(step, Step::Continue);
        let did = worker.did();
        worker.head(id, 5);
        let Did::Field(_, name, value) = worker.did().remove(0) else {
            panic!("no field for {target}");
        };
        assert_eq!(name, "x-sprat");
        (did, value)
    };
    let field = |id, name: &str, value: &str| vec![Did::Field(id, name.into(), value.into())];
    let header = "x-sprat-cluster";
    let (did, told) = chosen("/s");
    assert_eq!(did, field(1, header, "small"));
    assert_eq!(told, "class=default, size=1024, source=manifest, wait_ms=0");
    assert_eq!(chosen("/l?x=1").0, field(2, header, "large"));
    let (did, told) = chosen("/other/1");
    assert_eq!(did, field(3, "x-other", "elsewhere"));
    assert_eq!(told, "class=default, source=unknown, wait_ms=0");
}

#[test]
fn a_route_never_follows_what_a_client_has_sent() {
    let mut worker = Worker::new(
        "
clusters:
  other: {match: {prefix: /other}, pools: [elsewhere], header: x-other}
  farm: {match: {prefix: /farm}, pools: [one], metadata_key: pool}
",
    );
    let forged = [("x-sprat-cluster", "admin"), ("x-other", "admin")];
    let off = |id, name: &str| Did::NoField(id, name.into());
    let (id, step) = worker.get("/none", &forged);
    assert_eq!(step, Step::Continue);
    assert_eq!(
        worker.did(),
        [off(id, "x-other"), off(id, "x-sprat-cluster")]
    );
    let (id, _) = worker.get("/farm/1", &forged[..1]);
    let named = Did::Metadata(id, "pool".into(), "one".into());
    assert_eq!(worker.did(), [off(id, "x-sprat-cluster"), pool(id), named]);
    let (id, _) = worker.get("/farm/1", &[]);
    assert_eq!(worker.did()[0], pool(id), "there is nothing to take off");
}
