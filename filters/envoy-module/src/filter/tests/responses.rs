//! Tests of responses under an uplink.

use super::*;
use crate::head::head_bytes;
use crate::host::Metric;

#[test]
fn without_an_uplink_everything_passes() {
    let mut filter = Filter::new(None, None);
    let mut host = small();
    filter.on_request_head(&mut host, at(0), true);
    assert_eq!(
        filter.on_response_head(&mut host, at(0), false),
        Step::Continue
    );
    host.received.set(500);
    assert_eq!(filter.on_response_body(&host, at(0), true), Step::Continue);
    assert_eq!(host.counted(Metric::Scheduled), 0);
    filter.on_complete(None, at(1));
}

#[test]
fn head_and_body_go_together_on_a_free_link() {
    let uplink = uplink();
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    assert_eq!(filter.on_response_head(&mut host, at(0), false), Step::Hold);
    host.received.set(500);
    assert_eq!(filter.on_response_body(&host, at(0), true), Step::Continue);
    assert_eq!(uplink.open_flows(), 0, "it is over");
    assert_eq!(host.counted(Metric::ReleasedBytes), head_bytes(&host) + 500);
    assert_eq!(host.counted(Metric::Waits), 0);
}

#[test]
fn a_small_response_waits_for_the_link_and_no_longer() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    assert_eq!(filter.on_response_head(&mut host, at(1), false), Step::Hold);
    host.received.set(200);
    assert_eq!(filter.on_response_body(&host, at(1), false), Step::Hold);
    hold(&host);
    // A wake that is none of its own changes nothing.
    assert_eq!(filter.on_woken(&mut host, at(2)), Woken::Nothing);
    host.received.set(300);
    assert_eq!(filter.on_response_body(&host, at(3), true), Step::Hold);
    hold(&host);
    uplink.tick(at(2_000_000));
    assert_eq!(host.bell.rung(), 1);
    assert_eq!(filter.on_woken(&mut host, at(2_000_001)), Woken::Response);
    assert_eq!(host.counted(Metric::ReleasedBytes), head_bytes(&host) + 500);
    assert_eq!(host.counted(Metric::Waits), 1);
    assert_eq!(host.counted(Metric::WaitSeconds), 2);
    assert_eq!(uplink.open_flows(), 1, "the busy one alone");
}

#[test]
fn a_chunk_that_comes_with_the_grant_takes_the_held_with_it() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    filter.on_response_head(&mut host, at(1), false);
    host.received.set(200);
    filter.on_response_body(&host, at(1), false);
    hold(&host);
    uplink.tick(at(20_000));
    host.received.set(300);
    assert_eq!(
        filter.on_response_body(&host, at(20_001), true),
        Step::Continue
    );
    assert_eq!(host.counted(Metric::ReleasedBytes), head_bytes(&host) + 500);
    host.received.set(0);
    host.held.set(0);
    assert_eq!(
        filter.on_woken(&mut host, at(20_002)),
        Woken::Nothing,
        "all is gone"
    );
}

#[test]
fn trailers_wait_with_their_body() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let mut host = FakeHost::responding(&[(":status", "200")]);
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    let step = filter.on_response_head(&mut host, at(1), false);
    assert_eq!(step, Step::Continue, "a head of unknown size goes ahead");
    host.received.set(100);
    assert_eq!(filter.on_response_body(&host, at(1), false), Step::Hold);
    hold(&host);
    assert_eq!(filter.on_response_trailers(&host, at(2)), Step::Hold);
    uplink.tick(at(20_000));
    assert_eq!(filter.on_woken(&mut host, at(20_000)), Woken::Response);
    assert_eq!(uplink.open_flows(), 1, "nothing comes after trailers");
}

#[test]
fn trailers_after_a_body_that_has_gone_pass() {
    let uplink = uplink();
    let mut host = FakeHost::responding(&[(":status", "200")]);
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    filter.on_response_head(&mut host, at(0), false);
    host.received.set(10);
    let step = filter.on_response_body(&host, at(10_000), false);
    assert_eq!(step, Step::Continue);
    assert_eq!(
        filter.on_response_trailers(&host, at(10_001)),
        Step::Continue
    );
    assert_eq!(uplink.open_flows(), 0);
}

#[test]
fn a_head_without_its_body_goes_after_a_moment() {
    let uplink = uplink();
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    assert_eq!(filter.on_response_head(&mut host, at(0), false), Step::Hold);
    uplink.tick(at(2_000));
    assert_eq!(host.bell.rung(), 1);
    assert_eq!(filter.on_woken(&mut host, at(2_000)), Woken::Response);
    assert_eq!(host.counted(Metric::ReleasedBytes), head_bytes(&host));
    host.received.set(500);
    assert_eq!(
        filter.on_response_body(&host, at(9_000), true),
        Step::Continue
    );
    assert_eq!(uplink.open_flows(), 0);
}

#[test]
fn bodiless_responses_go_ahead() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let mut host = FakeHost::responding(&[(":status", "304")]);
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    let before = uplink.wire_bytes();
    assert_eq!(
        filter.on_response_head(&mut host, at(1), true),
        Step::Continue
    );
    assert!(uplink.wire_bytes() > before, "they are debited");
    assert_eq!(uplink.open_flows(), 1);
}

#[test]
fn an_empty_body_ends_a_response() {
    let uplink = uplink();
    let mut host = FakeHost::responding(&[(":status", "200"), ("content-length", "0")]);
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    assert_eq!(filter.on_response_head(&mut host, at(0), false), Step::Hold);
    assert_eq!(filter.on_response_body(&host, at(0), true), Step::Continue);
    assert_eq!(uplink.open_flows(), 0);
}

#[test]
fn tunnels_are_left_alone() {
    let uplink = uplink();
    let upgraded = FakeHost::responding(&[(":status", "101")]);
    let connected = FakeHost::responding(&[(":status", "200")]).asked(":method", "CONNECT");
    let _busy = occupy(&uplink);
    for mut host in [upgraded, connected] {
        let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
        assert_eq!(
            filter.on_response_head(&mut host, at(0), false),
            Step::Continue
        );
        host.received.set(100_000);
        assert_eq!(filter.on_response_body(&host, at(0), false), Step::Continue);
        assert_eq!(host.counted(Metric::Scheduled), 0);
    }
}

#[test]
fn beyond_the_bound_responses_go_at_once_and_are_debited() {
    let uplink = uplink();
    let busy = [occupy(&uplink), occupy_more(&uplink), occupy_more(&uplink)];
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    let before = uplink.wire_bytes();
    assert_eq!(
        filter.on_response_head(&mut host, at(1), false),
        Step::Continue
    );
    host.received.set(500);
    assert_eq!(filter.on_response_body(&host, at(1), true), Step::Continue);
    assert_eq!(host.counted(Metric::AtCapacity), 1);
    assert!(uplink.wire_bytes() - before > 500);
    drop(busy);
    assert_eq!(uplink.open_flows(), 0);
}

/// Begins a response whose head is held.
fn occupy_more(uplink: &Arc<Ticking<Link>>) -> Filter {
    let mut filter = Filter::new(Some(Arc::clone(uplink)), None);
    filter.on_response_head(&mut small(), at(0), false);
    filter
}

#[test]
fn a_local_reply_takes_the_place_of_what_had_begun() {
    let uplink = uplink();
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    filter.on_response_head(&mut host, at(0), false);
    let mut reply = FakeHost::responding(&[(":status", "503"), ("content-length", "20")]);
    assert_eq!(
        filter.on_response_head(&mut reply, at(1), false),
        Step::Hold
    );
    assert_eq!(uplink.open_flows(), 1);
    reply.received.set(20);
    assert_eq!(filter.on_response_body(&reply, at(1), true), Step::Continue);
    assert_eq!(uplink.open_flows(), 0);
}

#[test]
fn who_leaves_leaves_nothing_behind() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    filter.on_response_head(&mut host, at(1), false);
    host.received.set(200);
    filter.on_response_body(&host, at(1), false);
    filter.on_complete(None, at(2));
    assert_eq!(uplink.open_flows(), 1);
    uplink.tick(at(30_000));
    assert_eq!(host.bell.rung(), 0);
}

#[test]
fn a_filter_that_gave_up_lets_everything_pass() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let mut host = small();
    let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
    filter.on_response_head(&mut host, at(1), false);
    filter.give_up(at(1));
    assert_eq!(uplink.open_flows(), 1);
    host.received.set(200);
    assert_eq!(filter.on_response_body(&host, at(2), false), Step::Continue);
    assert_eq!(filter.on_response_trailers(&host, at(2)), Step::Continue);
}

#[test]
fn frames_and_chunks_are_counted_with_what_they_carry() {
    let released = |mut host: FakeHost| {
        let mut filter = Filter::new(Some(uplink()), None);
        filter.on_response_head(&mut host, at(0), false);
        host.received.set(100);
        filter.on_response_body(&host, at(10_000), true);
        host.counted(Metric::ReleasedBytes)
    };
    assert_eq!(released(FakeHost::responding(&[(":status", "200")])), 112);
    let mut frames = FakeHost::responding(&[(":status", "200")]);
    frames.multiplexed = true;
    assert_eq!(released(frames), 109);
}

#[test]
fn a_class_of_a_better_level_goes_before_less_left() {
    let text = r#"{
        "uplink": {"rate": "10mbit"},
        "classes": {"gold": {"level": 0}, "base": {"level": 1}},
        "class_rules": [
            {"match": {"clients": ["192.0.2.0/24"]}, "class": "gold"},
            {"match": {"prefix": "/"}, "class": "base"}
        ]
    }"#;
    let (config, _) = crate::module::configure("levels", text).unwrap();
    let uplink = config.uplink().unwrap();
    let _busy = occupy(&uplink);
    let mut base = small();
    base.client = Some([198, 51, 100, 1].into());
    let mut gold = FakeHost::responding(&[(":status", "200"), ("content-length", "9000")]);
    gold.client = Some([192, 0, 2, 7].into());
    let mut hosts = [base, gold].map(|host| host.asked(":path", "/a"));
    let mut filters: Vec<_> = hosts.iter().map(|_| config.filter()).collect();
    for (filter, host) in filters.iter_mut().zip(&mut hosts) {
        filter.on_request_head(host, at(1), true);
        assert_eq!(filter.on_response_head(host, at(1), false), Step::Hold);
        host.received.set(400);
        assert_eq!(filter.on_response_body(host, at(1), false), Step::Hold);
        hold(host);
    }
    let mut now = at(1);
    while let Some(due) = uplink.tick(now) {
        let rung = hosts.each_ref().map(|host| host.bell.rung());
        if rung != [0, 0] {
            assert_eq!(rung, [0, 1], "gold first, though it has more left");
            return;
        }
        now = due;
    }
    panic!("nobody had a turn");
}

#[test]
fn where_envoy_forgets_what_it_holds_nothing_is_held_before_the_request_is_here() {
    let uplink = uplink();
    let _busy = occupy(&uplink);
    let answer = |asked: bool, resuming: bool| {
        let mut host = small();
        host.holds_together = true;
        host.resuming = resuming;
        let mut filter = Filter::new(Some(Arc::clone(&uplink)), None);
        filter.on_request_head(&mut host, at(1), false);
        if asked {
            filter.on_request_end();
        }
        let before = uplink.wire_bytes();
        let head = filter.on_response_head(&mut host, at(1), false);
        host.received.set(500);
        let body = filter.on_response_body(&host, at(1), true);
        assert_eq!(head, body);
        (head, uplink.wire_bytes() > before + 500)
    };
    assert_eq!(answer(true, false), (Step::Hold, false));
    assert_eq!(answer(false, false), (Step::Continue, true), "debited");
    assert_eq!(answer(true, true), (Step::Continue, true));
}
