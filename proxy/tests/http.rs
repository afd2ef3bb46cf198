//! HTTP/1.1 as it should be, over real sockets.

mod common;

use common::*;

#[test]
fn serves_and_keeps_connections_on_both_sides() {
    let origin = Origin::http(|request| ok(&format!("you asked {}", request.start)));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for n in 0..5 {
        let answer = client.ask(get(&format!("/{n}?q")));
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.text(), format!("you asked GET /{n}?q HTTP/1.1"));
    }
    assert_eq!(origin.connections(), 1);
    proxy.wait_metric(&["sprat_upstream_reuses_total"], 4.0);
    drop(client);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(5);
    assert_eq!(lines[4]["path"], "/4?q");
    assert_eq!(lines[4]["size_source"], "exact");
    assert_eq!(lines[4]["aborted"], false);
    proxy.stop();
}
