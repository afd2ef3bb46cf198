//! Tests of requests at the desk.

use super::*;
use crate::host::Fields::{Request, Response as Answered};
use crate::module::{Config, configure};

const FARM: &str = r#"{
    "classes": {"gold": {"level": 0}},
    "class_rules": [{"match": {"headers": [{"name": "x-tier"}]}, "class": "gold"}],
    "clusters": {"farm": {"pools": ["one"], "max_requests": 1, "metadata_key": "pool",
        "wait_queue": {"max_requests": 2, "timeout": "2s"}}},
    "response_header": "x-sprat"
}"#;

fn config(name: &str, text: &str) -> Arc<Config> {
    configure(name, text).unwrap().0
}

fn request(path: &str) -> FakeHost {
    let host = FakeHost::responding(&[(":status", "200"), ("content-length", "500")]);
    host.asked(":method", "GET")
        .asked(":authority", "a.example")
        .asked(":path", path)
}

/// Makes a request, and returns its stream with the desk's decision.
fn ask(config: &Config, host: &mut FakeHost, now: Time) -> (Filter, Verdict) {
    let mut filter = config.filter();
    let verdict = filter.on_request_head(host, now, true);
    (filter, verdict)
}

/// Serves a request's whole response, and ends the stream.
fn serve(filter: &mut Filter, host: &mut FakeHost, now: Time) {
    assert_eq!(filter.on_response_head(host, now, false), Step::Continue);
    host.received.set(500);
    assert_eq!(filter.on_response_body(host, now, true), Step::Continue);
    filter.on_complete(Some(host), now);
}

#[test]
fn those_who_wait_go_by_class_and_are_told_on_their_own_worker() {
    let config = config("classes", FARM);
    let mut hosts = [(); 3].map(|()| request("/a"));
    hosts[2] = request("/a").asked("x-tier", "gold");
    let [one, base, gold] = &mut hosts;
    let (mut first, verdict) = ask(&config, one, at(0));
    assert_eq!(verdict, Verdict::Continue);
    assert_eq!(one.text(Request, "x-sprat-cluster"), Some("one"));
    assert_eq!(one.metadata["pool"], "one");
    assert_eq!(one.routed, 1);
    let (mut second, verdict) = ask(&config, base, at(1));
    assert_eq!(verdict, Verdict::Hold);
    let (mut third, verdict) = ask(&config, gold, at(2_000));
    assert_eq!(verdict, Verdict::Hold);
    assert_eq!(gold.added("sprat.waiting"), 2);
    serve(&mut first, one, at(5_000));
    assert_eq!([base.bell.rung(), gold.bell.rung()], [0, 1]);
    assert_eq!(gold.text(Request, "x-sprat-cluster"), None, "not from afar");
    assert_eq!(second.on_woken(base, at(5_001)), Woken::Nothing);
    assert_eq!(third.on_woken(gold, at(5_001)), Woken::Request);
    assert_eq!(gold.text(Request, "x-sprat-cluster"), Some("one"));
    serve(&mut third, gold, at(9_000));
    let told = gold.text(Answered, "x-sprat");
    assert_eq!(told, Some("class=gold, source=unknown, wait_ms=3"));
    assert_eq!(base.bell.rung(), 1);
    assert_eq!(second.on_woken(base, at(9_001)), Woken::Request);
    serve(&mut second, base, at(9_002));
    assert_eq!(gold.added("sprat.waiting"), 0, "told by who ended last");
}

#[test]
fn whoever_is_refused_is_told_why() {
    let config = config("refusals", FARM);
    let mut hosts = [(); 4].map(|()| request("/a"));
    let [one, two, three, four] = &mut hosts;
    let (_first, _) = ask(&config, one, at(0));
    let (mut second, _) = ask(&config, two, at(0));
    let (_third, _) = ask(&config, three, at(0));
    let (_, verdict) = ask(&config, four, at(0));
    let Verdict::Answer(answer) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!((answer.status, answer.reason), (503, "queue_full"));
    // No stream is at hand when their time is up: what is counted is told later.
    let desk = config.desk().unwrap();
    desk.tick(at(2_000_000));
    assert_eq!(two.added("sprat.refused.queue_timeout"), 0);
    assert_eq!([two.bell.rung(), three.bell.rung()], [1, 1]);
    let Woken::Answer(answer) = second.on_woken(two, at(2_000_001)) else {
        panic!("no answer");
    };
    assert_eq!(answer.reason, "queue_timeout");
    assert_eq!(two.added("sprat.refused.queue_timeout"), 2);
    assert_eq!(two.added("sprat.waiting"), 0);
}

#[test]
fn a_client_that_goes_gives_up_its_place_and_is_not_woken() {
    let config = config("goers", FARM);
    let mut hosts = [(); 3].map(|()| request("/a"));
    let [one, two, three] = &mut hosts;
    let (first, _) = ask(&config, one, at(0));
    let (mut second, _) = ask(&config, two, at(0));
    let (mut third, _) = ask(&config, three, at(1));
    second.on_complete(None, at(2));
    drop(first);
    assert_eq!([two.bell.rung(), three.bell.rung()], [0, 1]);
    assert_eq!(third.on_woken(three, at(3)), Woken::Request);
}

#[test]
fn a_request_that_envoy_itself_answers_gives_up_its_place_at_once() {
    let config = config("answered", FARM);
    let mut hosts = [(); 5].map(|()| request("/a"));
    let [one, two, three, four, five] = &mut hosts;
    let (mut first, _) = ask(&config, one, at(0));
    let (mut second, _) = ask(&config, two, at(0));
    let (mut third, _) = ask(&config, three, at(1));
    assert_eq!(second.on_response_head(two, at(2), false), Step::Continue);
    let (mut fourth, verdict) = ask(&config, four, at(3));
    assert_eq!(verdict, Verdict::Hold, "the queue has room again");
    first.on_complete(None, at(4));
    assert_eq!([two.bell.rung(), three.bell.rung()], [0, 1]);
    assert_eq!(second.on_woken(two, at(5)), Woken::Nothing);
    assert_eq!(third.on_woken(three, at(5)), Woken::Request);
    // The answer may also come between the decision and the wake-up.
    third.on_complete(None, at(6));
    assert_eq!(four.bell.rung(), 1);
    assert_eq!(fourth.on_response_head(four, at(7), false), Step::Continue);
    assert_eq!(fourth.on_woken(four, at(8)), Woken::Nothing);
    let (_fifth, verdict) = ask(&config, five, at(9));
    assert_eq!(verdict, Verdict::Continue, "its place is free again");
}

#[test]
fn a_field_that_a_client_has_forged_is_gone() {
    let text = FARM.replace("\"pools\"", "\"match\": {\"prefix\": \"/a\"}, \"pools\"");
    let config = config("forged", &text);
    let mut host = request("/b").asked("x-sprat-cluster", "admin");
    let (_filter, verdict) = ask(&config, &mut host, at(0));
    assert_eq!(verdict, Verdict::Continue);
    assert_eq!(host.text(Request, "x-sprat-cluster"), None);
    assert_eq!(host.routed, 1, "the route had followed it");
}

#[test]
fn a_path_that_is_no_text_has_the_rules_of_what_is_text_in_it() {
    let text = FARM.replace("\"pools\"", "\"match\": {\"prefix\": \"/a\"}, \"pools\"");
    let config = config("no_text", &text);
    let mut host = request("/b");
    host.path = Some(b"/a/\xff".to_vec());
    let (_filter, verdict) = ask(&config, &mut host, at(0));
    assert_eq!(verdict, Verdict::Continue);
    assert_eq!(host.text(Request, "x-sprat-cluster"), Some("one"));
}

const PROBED: &str = r#"{"clusters": {"farm": {
    "pools": [{"name": "small", "size_range": {"to": "10KB"}},
              {"name": "large", "size_range": {"from": "10KB"}}],
    "dispatch": "sita", "head_probe": {"budget": "5ms"}}}}"#;

#[test]
fn requests_for_one_resource_share_a_probe_whoever_sent_it() {
    let config = config("probed", PROBED);
    let mut hosts = [(); 3].map(|()| request("/a"));
    let [one, two, three] = &mut hosts;
    let (mut first, verdict) = ask(&config, one, at(0));
    assert_eq!(verdict, Verdict::Hold);
    let asked = "small :method=HEAD :authority=a.example :path=/a";
    assert_eq!(*one.asked.borrow(), [asked]);
    let (mut second, verdict) = ask(&config, two, at(1));
    assert_eq!(verdict, Verdict::Hold);
    assert!(two.asked.borrow().is_empty());
    let fields = [("content-length", "50000")];
    let head = crate::fake::List(&fields);
    first.on_answer(one, at(2), Some((200, &head)));
    assert_eq!([one.bell.rung(), two.bell.rung()], [1, 1]);
    for (filter, host) in [(&mut first, one), (&mut second, two)] {
        assert_eq!(filter.on_woken(host, at(3)), Woken::Request);
        assert_eq!(host.text(Request, "x-sprat-cluster"), Some("large"));
    }
    let (_third, verdict) = ask(&config, three, at(4));
    assert_eq!(verdict, Verdict::Continue);
    assert_eq!(three.added("sprat.size.learnt"), 1);
}

#[test]
fn a_probe_that_is_not_answered_in_time_holds_nobody() {
    let config = config("late", PROBED);
    let mut host = request("/a");
    let (mut filter, _) = ask(&config, &mut host, at(0));
    let desk = config.desk().unwrap();
    desk.tick(at(5_000));
    assert_eq!(host.bell.rung(), 1);
    assert_eq!(filter.on_woken(&mut host, at(5_001)), Woken::Request);
    assert_eq!(host.text(Request, "x-sprat-cluster"), Some("small"));
    filter.on_answer(&host, at(9_000), None);
    assert_eq!(host.added("sprat.head_probe.failed"), 1);
}

#[test]
fn a_response_without_its_length_is_ranked_by_what_was_learnt() {
    let config = config("ranked", r#"{"uplink": {"rate": "10mbit"}}"#);
    let unsized_response = |path: &str| {
        let host = FakeHost::responding(&[(":status", "200")]);
        host.asked(":method", "GET").asked(":path", path)
    };
    // Each is seen once, while the link is free.
    for (path, bytes, now) in [("/large", 60_000, at(0)), ("/small", 600, at(90_000))] {
        let mut host = unsized_response(path);
        let (mut filter, _) = ask(&config, &mut host, now);
        filter.on_response_head(&mut host, now, false);
        host.received.set(bytes);
        assert_eq!(filter.on_response_body(&host, now, true), Step::Continue);
    }
    let uplink = config.uplink().unwrap();
    let _busy = occupy_at(&uplink, at(200_000));
    let mut hosts = ["/large", "/small"].map(unsized_response);
    let mut filters = Vec::new();
    for host in &mut hosts {
        let (mut filter, _) = ask(&config, host, at(200_001));
        filter.on_response_head(host, at(200_001), false);
        hold(host);
        host.received.set(400);
        let step = filter.on_response_body(host, at(200_001), false);
        assert_eq!(step, Step::Hold);
        hold(host);
        filters.push(filter);
    }
    let mut now = at(200_001);
    while let Some(due) = uplink.tick(now) {
        let rung = hosts.each_ref().map(|host| host.bell.rung());
        if rung != [0, 0] {
            assert_eq!(rung, [0, 1], "the small one first");
            return;
        }
        now = due;
    }
    panic!("nobody had a turn");
}
