//! Tests of endpoints listed in a file that changes while requests are served.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::binary::{self, Running, sprat};
use crate::common::*;
use sprat_config::resolved::*;

/// Replaces the file in one step, as a program that writes it should.
fn put(path: &Path, text: &str) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

/// Returns a configuration whose cluster's endpoints are listed in this file.
fn listing(path: &Path, change: impl FnOnce(&mut Cluster)) -> Config {
    let mut config = config(&[]);
    with_cluster(&mut config, |cluster| {
        cluster.endpoints_file = Some(EndpointsFile {
            at: FileAt {
                path: path.to_owned(),
                span: Span::default(),
            },
            interval: Duration::from_millis(20),
        });
        change(cluster);
    });
    config
}

fn named(name: &'static str) -> Origin {
    Origin::http(move |_| ok(name))
}

/// Returns the names of the origins that answer ten requests on one connection.
fn answering(proxy: &Proxy) -> HashSet<String> {
    let mut client = proxy.connect();
    (0..10).map(|_| client.ask(get("/")).text()).collect()
}

fn set<const N: usize>(names: [&str; N]) -> HashSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

const READS: &str = "sprat_endpoints_file_reads_total";

#[test]
fn a_file_s_endpoints_come_and_go_without_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("farm.endpoints");
    let (a, b) = (named("a"), named("b"));
    put(&path, &format!("# one\n{}\n", a.address));
    let proxy = Proxy::start(&listing(&path, |_| ()));
    assert_eq!(answering(&proxy), set(["a"]));
    let connections = a.connections();
    // As YAML, with parameters.
    put(
        &path,
        &format!(
            "- {}\n- {{address: '{}', weight: 1}}\n",
            a.address, b.address
        ),
    );
    wait_for("the other", || answering(&proxy) == set(["a", "b"]));
    // The connections to the one that stays are kept.
    assert_eq!(a.connections(), connections);
    // As JSON, and not renamed but written over.
    std::fs::write(&path, format!("[\"{}\"]", b.address)).unwrap();
    wait_for("the other alone", || answering(&proxy) == set(["b"]));
    // What is wrong leaves them as they are, and is told once.
    let good = proxy.metric(&[READS, "applied"]);
    // A look while the file was written over may have found it empty.
    let refused = proxy.metric(&[READS, "refused"]);
    for (number, wrong) in ["", "- nonsense\n", "a.example:80\n"]
        .into_iter()
        .enumerate()
    {
        put(&path, wrong);
        proxy.wait_metric(&[READS, "refused"], refused + (number + 1) as f64);
        assert_eq!(proxy.metric(&["sprat_endpoints_file_good"]), 0.0);
        assert_eq!(answering(&proxy), set(["b"]));
    }
    std::fs::remove_file(&path).unwrap();
    proxy.wait_metric(&[READS, "refused"], refused + 4.0);
    assert_eq!(answering(&proxy), set(["b"]));
    put(&path, &a.address.to_string());
    proxy.wait_metric(&[READS, "applied"], good + 1.0);
    assert_eq!(answering(&proxy), set(["a"]));
    assert_eq!(proxy.metric(&["sprat_endpoints_file_good"]), 1.0);
    // None at all, if it is said.
    put(&path, "[]\n");
    proxy.wait_metric(&[READS, "applied"], good + 2.0);
    assert_eq!(proxy.connect().ask(get("/")).status(), 503);
    proxy.stop();
}

#[test]
fn weights_of_a_file_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("farm.endpoints");
    let (a, b) = (named("a"), named("b"));
    let weighing = |weight: u32| {
        let (a, b) = (a.address, b.address);
        format!("- {{address: '{a}', weight: {weight}}}\n- '{b}'\n")
    };
    put(&path, &weighing(1));
    let proxy = Proxy::start(&listing(&path, |_| ()));
    let share = || {
        let mut client = proxy.connect();
        let answers = (0..40).map(|_| client.ask(get("/")).text());
        answers.filter(|answer| answer == "a").count()
    };
    assert_eq!(share(), 20);
    put(&path, &weighing(3));
    wait_for("another share", || share() == 30);
    proxy.stop();
}

#[test]
fn a_request_in_progress_ends_at_an_endpoint_that_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("farm.endpoints");
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let slow = Origin::http(move |_| {
        gone.lock().unwrap().recv().unwrap();
        ok("slow")
    });
    let other = named("other");
    put(&path, &slow.address.to_string());
    let proxy = Proxy::start(&listing(&path, |_| ()));
    let mut busy = proxy.connect();
    busy.send(get("/"));
    wait_for("a request", || slow.connections() == 1);
    put(&path, &other.address.to_string());
    wait_for("the other", || {
        proxy.metric(&["sprat_endpoint_weight", &other.address.to_string()]) == 1.0
    });
    assert_eq!(answering(&proxy), set(["other"]));
    go.send(()).unwrap();
    assert_eq!(busy.message().text(), "slow");
    proxy.stop();
}

#[test]
fn a_reload_with_a_bad_file_keeps_what_there_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("farm.endpoints");
    let a = named("a");
    put(&path, &a.address.to_string());
    let mut before = listing(&path, |_| ());
    before.listeners[0].address = free_address().into();
    let proxy = Proxy::start(&before);
    put(&path, "nonsense\n");
    // Another station is made.
    let mut after = before.clone();
    with_cluster(&mut after, |cluster| cluster.max_requests = 7);
    let control = proxy.server.as_ref().unwrap().control();
    control.reload(&after).unwrap();
    assert_eq!(answering(&proxy), set(["a"]));
    // A cluster that begins has nothing to keep.
    let error = sprat_server::server::Server::start(&listing(&path, |_| ()))
        .err()
        .unwrap();
    let error = format!("{error:#}");
    assert!(
        error.contains("the endpoints_file of the cluster `farm`"),
        "{error}"
    );
    assert!(
        error.contains("farm.endpoints:1:3: expected a host and a port"),
        "{error}"
    );
    proxy.stop();
}

#[test]
fn a_reload_by_which_a_cluster_cannot_have_its_endpoints_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("farm.endpoints");
    let address = free_address();
    let config = |more: &str| {
        let text = format!(
            "version: 1\nadmin: off\nlisteners: [{{address: '{address}'}}]\n\
             clusters: {{farm: {{endpoints_file: '{}'{more}}}}}\nroutes: [{{cluster: farm}}]\n",
            path.display()
        );
        let loaded = sprat_config::parse(&text, "test", &|_| None);
        loaded.unwrap_or_else(|errors| panic!("{errors}")).config
    };
    for (file, more) in [
        // The station would go on.
        ("- unix:/run/nowhere.sock\n", ", tls: {}"),
        // Another would be made.
        (
            "- {address: '127.0.0.1:1'}\n- {address: '127.0.0.1:2', priority: 1}\n",
            ", dispatch: rpsq",
        ),
    ] {
        put(&path, file);
        let proxy = Proxy::start(&config(""));
        let control = proxy.server.as_ref().unwrap().control();
        let error = format!("{:#}", control.reload(&config(more)).unwrap_err());
        assert!(error.contains("cannot keep its endpoints"), "{error}");
        // The file is as good as it was.
        assert_eq!(proxy.metric(&["sprat_endpoints_file_good"]), 1.0);
        proxy.stop();
    }
}

#[test]
fn sprat_reloads_whatever_a_file_has_unless_its_cluster_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("farm.endpoints");
    let a = named("a");
    put(&path, &a.address.to_string());
    let configure = |clusters: &str| {
        let written = binary::write(directory.path(), a.address, "");
        let text = std::fs::read_to_string(&written).unwrap();
        let fixed = format!("farm: {{endpoints: ['{}']}}", a.address);
        std::fs::write(&written, text.replace(&fixed, clusters)).unwrap();
        written
    };
    let listed = |name: &str, more: &str| {
        let path = path.display();
        format!("{name}: {{endpoints_file: '{path}'{more}}}")
    };
    let configuration = configure(&listed("farm", ""));
    let running = Running::start(&configuration);
    put(&path, "nonsense\n");
    // Another station is made.
    let changed = listed("farm", ", max_requests: 7");
    configure(&changed);
    running.signal("HUP");
    running.says("serving by the configuration as it is now");
    assert_eq!(Peer::connect(running.address).ask(get("/")).text(), "a");
    configure(&format!("{changed}, {}", listed("late", "")));
    running.signal("HUP");
    running.says("the configuration is refused");
    running.says("the endpoints_file of the cluster `late`");
    assert_eq!(Peer::connect(running.address).ask(get("/")).text(), "a");
    for command in ["check", "run"] {
        let arguments = [command, "-c", configuration.to_str().unwrap()];
        let output = sprat(&arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!output.status.success(), "{command}: {said}");
        assert!(
            said.contains("farm.endpoints:1:3: expected a host and a port"),
            "{command}: {said}"
        );
    }
}
