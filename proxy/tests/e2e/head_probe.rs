//! Tests of HEAD probes, against origins that answer, stall, refuse and lie.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::*;

/// An origin's behaviour when it gets HEAD for `/<bytes>/...`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Heads {
    Honest,
    /// The length is ten times what GET sends.
    Lies,
    Refused,
    NoLength,
    Stalls,
    /// The connection is closed.
    Hangs,
}

/// An origin with one place. A GET of a path with `held` waits for its release.
struct Farm {
    origin: Origin,
    /// The requests that came, each as `METHOD path`.
    seen: Arc<Mutex<Vec<String>>>,
    entered: Receiver<()>,
    release: Sender<()>,
}

impl Farm {
    fn start(heads: Heads) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (enter, entered) = channel();
        let (release, released) = channel();
        let (enter, released) = (Mutex::new(enter), Mutex::new(released));
        let noted = Arc::clone(&seen);
        let origin = Origin::start(move |mut peer| {
            while let Some(request) = peer.try_message(true) {
                let mut words = request.start.split(' ');
                let (method, path) = (words.next().unwrap(), words.next().unwrap());
                noted.lock().unwrap().push(format!("{method} {path}"));
                let bytes: usize = path.split('/').nth(1).unwrap().parse().unwrap();
                let answer = match (method, heads) {
                    ("HEAD", Heads::Honest) => length(bytes),
                    ("HEAD", Heads::Lies) => length(10 * bytes),
                    ("HEAD", Heads::Refused) => {
                        "HTTP/1.1 405 No\r\nContent-Length: 9\r\n\r\n".to_owned()
                    }
                    ("HEAD", Heads::NoLength) => {
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
                    }
                    ("HEAD", Heads::Stalls) => {
                        std::thread::sleep(PATIENCE);
                        return;
                    }
                    ("HEAD", Heads::Hangs) => return,
                    _ if path.contains("held") => {
                        enter.lock().unwrap().send(()).unwrap();
                        released.lock().unwrap().recv().unwrap();
                        ok("held")
                    }
                    _ => ok(&"x".repeat(bytes)),
                };
                peer.send(answer);
            }
        });
        Self {
            origin,
            seen,
            entered,
            release,
        }
    }

    /// Starts a proxy with a place for one request, which serves the smallest waiting request
    /// first.
    fn proxy(&self, change: impl FnOnce(&mut HeadProbe)) -> Proxy {
        let mut config = config(&[self.origin.address]);
        with_cluster(&mut config, |cluster| cluster.max_requests = 1);
        let mut probe = HeadProbe {
            budget: PATIENCE,
            timeout: PATIENCE,
            max_concurrent: 4,
            negative_ttl: Duration::from_secs(600),
            max_bytes: 10_000,
        };
        change(&mut probe);
        config.routes[0].head_probe = Some(probe);
        Proxy::logging(config)
    }

    fn occupy(&self, proxy: &Proxy) -> Peer {
        let mut busy = proxy.connect();
        busy.send(get("/4/held"));
        self.entered.recv_timeout(PATIENCE).unwrap();
        busy
    }

    fn let_go(&self, mut busy: Peer) {
        self.release.send(()).unwrap();
        assert_eq!(busy.message().status(), 200);
    }

    fn seen(&self, method: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let of = seen.iter().filter_map(|line| line.strip_prefix(method));
        of.map(|path| path.trim().to_owned()).collect()
    }
}

fn length(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n")
}

/// Sends these requests one after the other, while the place is taken.
fn wait_in_line(proxy: &Proxy, paths: &[&str]) -> Vec<Peer> {
    let ask = |(index, path): (usize, &&str)| {
        let mut client = proxy.connect();
        client.send(get(path));
        proxy.wait_metric(&["sprat_waiting_requests"], (index + 1) as f64);
        client
    };
    paths.iter().enumerate().map(ask).collect()
}

fn answered(clients: Vec<Peer>) {
    for mut client in clients {
        assert_eq!(client.message().status(), 200);
    }
}

fn probes(proxy: &Proxy, result: &str) -> f64 {
    let label = format!("result=\"{result}\"");
    proxy.metric(&["sprat_catalogue_probes_total", &label])
}

#[test]
fn what_was_never_seen_waits_in_the_order_of_its_size() {
    let farm = Farm::start(Heads::Honest);
    let proxy = farm.proxy(|_| {});
    // With a place free nobody need know a size.
    assert_eq!(proxy.connect().ask(get("/3000/z")).status(), 200);
    assert!(farm.seen("HEAD").is_empty());
    let busy = farm.occupy(&proxy);
    let clients = wait_in_line(&proxy, &["/5000/a", "/10/b", "/70000/c", "/500/d"]);
    assert_eq!(
        farm.seen("HEAD"),
        ["/5000/a", "/10/b", "/70000/c", "/500/d"]
    );
    farm.let_go(busy);
    answered(clients);
    let order = farm.seen("GET");
    assert_eq!(order[2..], ["/10/b", "/500/d", "/5000/a", "/70000/c"]);
    assert_eq!(probes(&proxy, "told"), 4.0);
    assert_eq!(probes(&proxy, "lied"), 0.0);
    proxy.assert_no_leak();
}

#[test]
fn sita_sends_what_was_never_seen_to_its_endpoint() {
    let (small, large) = (Farm::start(Heads::Honest), Farm::start(Heads::Honest));
    let mut config = config(&[small.origin.address, large.origin.address]);
    with_cluster(&mut config, |cluster| {
        let cutoffs = sprat_scheduler::dispatch::Intervals::Fixed(vec![1000]);
        cluster.dispatch = Dispatch::Sita(cutoffs);
    });
    config.routes[0].head_probe = Some(HeadProbe {
        budget: PATIENCE,
        timeout: PATIENCE,
        max_concurrent: 4,
        negative_ttl: Duration::from_secs(600),
        max_bytes: 10_000,
    });
    let proxy = Proxy::logging(config);
    for path in ["/10/a", "/5000/b", "/20/c", "/6000/d"] {
        assert_eq!(proxy.connect().ask(get(path)).status(), 200);
    }
    assert_eq!(small.seen("GET"), ["/10/a", "/20/c"]);
    assert_eq!(large.seen("GET"), ["/5000/b", "/6000/d"]);
}

#[test]
fn requests_for_one_resource_share_a_probe() {
    let farm = Farm::start(Heads::Stalls);
    let proxy = farm.proxy(|probe| {
        probe.max_concurrent = 1;
        probe.budget = Duration::from_millis(1);
    });
    let busy = farm.occupy(&proxy);
    // The budget is spent, the probe goes on; nobody is refused for it.
    let clients = wait_in_line(&proxy, &["/5/a", "/5/a", "/6/b"]);
    wait_for("the probe to arrive", || farm.seen("HEAD") == ["/5/a"]);
    proxy.wait_metric(&["sprat_catalogue_probes_under_way"], 1.0);
    assert_eq!(probes(&proxy, "joined"), 1.0);
    assert_eq!(probes(&proxy, "busy"), 1.0);
    let errors = ["sprat_catalogue_lookups_total", "head_probe", "error"];
    assert_eq!(proxy.metric(&errors), 3.0);
    farm.let_go(busy);
    answered(clients);
    assert_eq!(farm.seen("HEAD"), ["/5/a"]);
}

#[test]
fn answers_that_tell_nothing_are_remembered() {
    for heads in [Heads::Refused, Heads::NoLength] {
        let farm = Farm::start(heads);
        let proxy = farm.proxy(|_| {});
        let busy = farm.occupy(&proxy);
        let mut clients = wait_in_line(&proxy, &["/5/a", "/5/a", "/6/b", "/7/c", "/8/d", "/9/e"]);
        assert_eq!(probes(&proxy, "useless"), 5.0, "{heads:?}");
        assert_eq!(probes(&proxy, "paused"), 1.0, "the second of /5/a");
        // Five in a row: the whole route is left alone.
        let mut client = proxy.connect();
        client.send(get("/10/f"));
        clients.push(client);
        proxy.wait_metric(&["sprat_catalogue_probes_total", "paused"], 2.0);
        farm.let_go(busy);
        answered(clients);
        assert_eq!(farm.seen("HEAD").len(), 5, "{heads:?}");
    }
}

#[test]
fn a_probe_that_is_not_answered_costs_the_budget_at_most() {
    let farm = Farm::start(Heads::Hangs);
    let proxy = farm.proxy(|_| {});
    let busy = farm.occupy(&proxy);
    let clients = wait_in_line(&proxy, &["/5/a", "/6/b"]);
    assert_eq!(probes(&proxy, "failed"), 2.0);
    farm.let_go(busy);
    answered(clients);
    proxy.assert_no_leak();
}

#[test]
fn lies_cost_order_and_are_found_out() {
    let farm = Farm::start(Heads::Lies);
    let proxy = farm.proxy(|_| {});
    let busy = farm.occupy(&proxy);
    let clients = wait_in_line(&proxy, &["/5/a"]);
    farm.let_go(busy);
    for mut client in clients {
        assert_eq!(client.message().body.len(), 5);
    }
    proxy.wait_metric(&["sprat_catalogue_probes_total", "lied"], 1.0);
    // The response knows better: nobody asks again.
    let busy = farm.occupy(&proxy);
    let clients = wait_in_line(&proxy, &["/5/a"]);
    farm.let_go(busy);
    answered(clients);
    assert_eq!(farm.seen("HEAD"), ["/5/a"]);
    let said = ["catalogue_error_doublings_count", "head_probe"];
    assert_eq!(proxy.metric(&said), 1.0);
    proxy.stop();
}
