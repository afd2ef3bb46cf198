//! Tests of `sprat healthcheck`, which asks a server whether it serves.

use std::net::SocketAddr;
use std::path::Path;

use crate::common::binary::{Running, sprat, stand_on, write};
use crate::common::tls::Authority;
use crate::common::*;

/// Returns whether the server of a configuration is found to be well, and the command's output.
fn check(configuration: &Path) -> (bool, String) {
    let arguments = ["healthcheck", "-c", configuration.to_str().unwrap()];
    let output = sprat(&arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(said).unwrap().trim().to_owned(),
    )
}

fn replace(configuration: &Path, what: &str, by: &str) {
    let text = std::fs::read_to_string(configuration).unwrap();
    assert!(text.contains(what));
    std::fs::write(configuration, text.replace(what, by)).unwrap();
}

const ADMIN: &str = "admin: {address: 127.0.0.1:0}";

#[test]
fn the_admin_listener_says_whether_the_server_serves() {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let (enter, entered) = std::sync::mpsc::channel();
    let origin = Origin::http(move |_| {
        enter.send(()).unwrap();
        let _ = gone.lock().unwrap().recv();
        ok("late")
    });
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let admin = free_address();
    let everywhere = format!("admin: {{address: '0.0.0.0:{}'}}", admin.port());
    replace(&configuration, ADMIN, &everywhere);
    assert_eq!(
        check(&configuration),
        (
            false,
            format!(
                "the admin listener {admin}: cannot connect: Connection refused (os error 111)"
            )
        )
    );
    let mut running = Running::start(&configuration);
    let ready = format!("ready, says the admin listener {admin}");
    assert_eq!(check(&configuration), (true, ready));
    let mut busy = Peer::connect(running.address);
    busy.send(get("/"));
    entered.recv_timeout(PATIENCE).unwrap();
    running.signal("TERM");
    running.says("draining");
    let (well, said) = check(&configuration);
    assert!(!well && said.contains("503 Service Unavailable"), "{said}");
    go.send(()).unwrap();
    assert_eq!(busy.message().text(), "late");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

/// Checks a server without an admin listener, whose listener has these further keys.
fn is_found_alive_without_an_admin_listener(more: &str) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("access.log");
    let logged = format!("access_log: {{path: '{}'}}\n", log.display());
    let configuration = write(directory.path(), free_address(), &logged);
    let address = free_address();
    stand_on(&configuration, address);
    replace(&configuration, ADMIN, "admin: off");
    replace(
        &configuration,
        &format!("address: '{address}'"),
        &format!("address: '{address}'{more}"),
    );
    let mut running = Running::start(&configuration);
    let answers = format!("alive: the listener {address} answers");
    assert_eq!(check(&configuration), (true, answers));
    // The kernel goes on to take connections of a process that stands still.
    running.signal("STOP");
    let (well, said) = check(&configuration);
    assert!(!well && said.contains("it does not answer"), "{said}");
    running.signal("CONT");
    assert!(check(&configuration).0);
    running.signal("TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
    assert!(!check(&configuration).0);
}

#[test]
fn a_listener_is_asked_where_there_is_no_admin_listener() {
    is_found_alive_without_an_admin_listener("");
}

#[test]
fn a_listener_with_tls_is_asked_as_well() {
    let authority = Authority::new();
    let issued = authority.issue("own", &["a.example"]);
    is_found_alive_without_an_admin_listener(&format!(
        ", tls: {{certificates: [{{certificate_chain: '{}', private_key: '{}'}}]}}",
        issued.chain.display(),
        issued.key.display()
    ));
}

#[test]
fn a_listener_behind_a_load_balancer_is_asked_as_well() {
    is_found_alive_without_an_admin_listener(", proxy_protocol: {trusted: [127.0.0.1/32]}");
}

#[test]
fn a_configuration_that_is_refused_says_nothing_about_what_runs() {
    let directory = tempfile::tempdir().unwrap();
    let address: SocketAddr = free_address();
    let configuration = write(directory.path(), address, "");
    replace(&configuration, "version: 1", "version: 2");
    let (well, said) = check(&configuration);
    assert!(
        well && said.starts_with("not asked: ") && said.contains("sprat.yaml:1:10"),
        "{said}"
    );
    let (well, said) = check(&directory.path().join("missing.yaml"));
    assert!(
        !well && said.contains("missing.yaml: No such file"),
        "{said}"
    );
}
