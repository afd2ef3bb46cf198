//! Tests of the logs of requests and of the server: formats, filters, identifiers, and the bytes
//! that clients may put into them.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use crate::common::*;
use serde_json::Value;
use sprat_config::resolved::*;

/// Returns the access logs of a configuration with this `access_log`.
fn logs(written: &str) -> Vec<AccessLog> {
    let text = format!(
        "version: 1\nlisteners: [{{address: '127.0.0.1:8080'}}]\nclusters: {{a: {{endpoints: \
         ['127.0.0.1:1']}}}}\nroutes: [{{cluster: a}}]\naccess_log: {written}\n"
    );
    let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
    loaded.unwrap().config.access_log
}

/// Waits for so many lines in a file, and returns them.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    wait_for(&format!("{count} lines"), || read().len() >= count);
    read()
}

/// Starts an origin that answers with the request's identifier.
fn telling() -> Origin {
    Origin::http(|request| {
        let ids: Vec<_> = request
            .fields
            .iter()
            .filter(|(name, _)| name == "x-request-id")
            .collect();
        assert!(ids.len() < 2, "{ids:?}");
        ok(request.field("x-request-id").unwrap_or("none"))
    })
}

fn identified(change: impl FnOnce(&mut RequestId)) -> (Origin, Proxy) {
    let origin = telling();
    let mut config = config(&[origin.address]);
    let mut ids = RequestId::default();
    change(&mut ids);
    config.listeners[0].request_id = Some(ids);
    let proxy = Proxy::logging(config);
    (origin, proxy)
}

#[test]
fn backend_and_log_are_told_the_same_identifier() {
    let (_origin, proxy) = identified(|_| {});
    let asked = |fields: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        let answer = proxy.connect().ask(request);
        assert_eq!(answer.field("x-request-id"), None);
        answer.text()
    };
    let made = asked("");
    assert_eq!(made.len(), 36);
    assert_eq!(asked("X-Request-Id: from-before_1\r\n"), "from-before_1");
    // What may not be one, or is taken away by the client, has another in its place.
    let bad = "a b";
    let other = asked(&format!("X-Request-Id: {bad}\r\n"));
    assert_eq!(other.len(), 36);
    let two = asked("X-Request-Id: a\r\nX-Request-Id: b\r\n");
    assert_eq!(two.len(), 36);
    let named = asked("X-Request-Id: c\r\nConnection: x-request-id\r\n");
    assert_eq!(named, "c");
    let ids = proxy
        .log_lines(5)
        .into_iter()
        .map(|line| line["request_id"].clone());
    let told = [&made, "from-before_1", &other, &two, "c"];
    assert_eq!(ids.collect::<Vec<_>>(), told.map(Value::from));
}

#[test]
fn clients_are_told_if_the_listener_says_so() {
    let (_origin, proxy) = identified(|ids| {
        ids.in_response = true;
        ids.preserve_external = false;
    });
    let answer = proxy
        .connect()
        .ask("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n");
    let told = answer.field("x-request-id").unwrap();
    assert_eq!(told, answer.text());
    assert_ne!(told, "mine");
    // An answer of Sprat's own, too.
    let refused = proxy.connect().ask("GET / HTTP/1.1\r\nHost: a b\r\n\r\n");
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.field("x-request-id").unwrap().len(), 36);
    let lines = proxy.log_lines(2);
    assert_eq!(
        lines[1]["request_id"],
        refused.field("x-request-id").unwrap()
    );
}

#[test]
fn a_client_that_has_gone_is_499() {
    let (enter, entered) = std::sync::mpsc::channel();
    let enter = std::sync::Mutex::new(enter);
    let origin = Origin::start(move |mut peer| {
        drop(peer.head());
        enter.lock().unwrap().send(()).unwrap();
        // Until the proxy gives up.
        assert!(peer.is_closed());
    });
    let proxy = Proxy::logging(config(&[origin.address]));
    let mut client = proxy.connect();
    assert!(client.send(get("/slow")));
    entered.recv().unwrap();
    reset(client);
    let line = &proxy.log_lines(1)[0];
    assert_eq!(line["status"], 499, "{line}");
    assert_eq!(line["reason"], "client_closed");
}

#[test]
fn formats_tell_of_both_heads_and_forge_nothing() {
    let origin = Origin::http(|_| {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Kind: a \"b\" \\\r\n\r\nok".to_owned()
    });
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut config = config(&[origin.address]);
    let at = directory.path().display();
    let text = "%RESPONSE_CODE% \"%REQ(User-Agent)%\" \"%RESP(X-Kind)%\" %UPSTREAM_HOST% %LISTENER% \
                %REQ(X-None)% %REQUEST_LINE%";
    config.access_log = logs(&format!(
        "\n- path: {at}/json\n  format: {{json: {{agent: '%REQ(USER-AGENT)%', kind: \
         '%RESP(X-Kind)%', status: '%RESPONSE_CODE%', path: '%PATH(NQ)%'}}}}\n\
         - path: {at}/text\n  format: {{text: '{text}'}}\n\
         - path: {at}/errors\n  filters: [{{min_status: 400}}]\n"
    ));
    let proxy = Proxy::start(&config);
    let agent = b"x\"\t\\ 200 \"forged";
    let mut request = b"GET /a?secret HTTP/1.1\r\nHost: a.example\r\nUser-Agent: ".to_vec();
    request.extend_from_slice(agent);
    request.extend_from_slice(b"\r\n\r\n");
    assert_eq!(proxy.connect().ask(&request).status(), 200);
    assert_eq!(
        proxy
            .connect()
            .ask("GET / HTTP/1.1\r\nHost: a b\r\n\r\n")
            .status(),
        400
    );
    let text = lines(&path("text"), 2);
    let escaped = "x\\x22\\x09\\x5C 200 \\x22forged";
    let kind = "a \\x22b\\x22 \\x5C";
    let endpoint = origin.address;
    assert_eq!(
        text[0],
        format!("200 \"{escaped}\" \"{kind}\" {endpoint} test - GET /a?secret HTTP/1.1")
    );
    assert_eq!(text[1], "400 \"-\" \"-\" - test - GET / HTTP/1.1");
    let json: Vec<Value> = lines(&path("json"), 2)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(json[0]["agent"], "x\"\t\\ 200 \"forged");
    assert_eq!(json[0]["kind"], "a \"b\" \\");
    assert_eq!(json[0]["path"], "/a");
    assert_eq!(json[1]["status"], 400);
    assert!(json[1]["agent"].is_null());
    let errors = lines(&path("errors"), 1);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("\"reason\":\"invalid_host\""),
        "{errors:?}"
    );
}

#[test]
fn every_line_of_the_own_log_is_an_object() {
    let origin = telling();
    let directory = tempfile::tempdir().unwrap();
    // Doubtful, and refused at a reload: both are told.
    let more = "class_rules: [{match: {hosts: [a.example]}, class: background}]\n";
    let path = binary::write(directory.path(), origin.address, more);
    let mut command = binary::run(&path);
    let process = binary::Running::of(command.args(["--log-format", "json"]));
    std::fs::write(&path, "version: 1\nlisteners: {a: \"b\n").unwrap();
    process.signal("HUP");
    process.says("the configuration is refused");
    for line in process.lines() {
        let line: Value = serde_json::from_str(&line).unwrap();
        assert!(
            line["time"].is_string() && line["level"].is_string(),
            "{line}"
        );
        assert!(!line["message"].as_str().unwrap().is_empty(), "{line}");
    }
    let line = process.line_with("the configuration is refused");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "error");
    assert_eq!(line["fields"]["file"], path.display().to_string());
}

/// Checks that no line is lost when a server stops during a reload. The reload waits for the reader
/// of another log, and the present log's writer is held.
#[test]
fn a_server_that_stops_during_a_reload_loses_no_line_and_says_so() {
    let origin = telling();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let made = Command::new("mkfifo").arg(at("pipe")).status().unwrap();
    assert!(made.success());
    let collector = free_address();
    let logging_to = |name: &str| {
        let more = format!(
            "access_log: {{path: '{}'}}\ntracing: {{otlp: {{endpoint: \
             'http://{collector}/v1/traces', timeout: 1s}}}}\n",
            at(name)
        );
        binary::write(directory.path(), origin.address, &more)
    };
    let mut running = binary::Running::start(&logging_to("log"));
    assert_eq!(Peer::connect(running.address).ask(get("/")).status(), 200);
    logging_to("pipe");
    running.signal("HUP");
    // Nothing tells that it has come so far.
    std::thread::sleep(std::time::Duration::from_secs(1));
    running.signal("TERM");
    wait_for("it to stop", || running.child.try_wait().unwrap().is_some());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    running.says("the thread that sends traces does not end");
    assert_eq!(running.has_said("the lines that wait are lost"), 0);
    assert_eq!(lines(Path::new(&at("log")), 1).len(), 1);
}

#[test]
fn a_reload_does_not_mind_a_syslog_server_that_is_away() {
    let origin = telling();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("log.sock");
    let server = UnixDatagram::bind(&socket).unwrap();
    let more = format!(
        "access_log: {{syslog: {{address: '{}'}}}}\n",
        socket.display()
    );
    let path = binary::write(directory.path(), origin.address, &more);
    let running = binary::Running::start(&path);
    drop(server);
    std::fs::remove_file(&socket).unwrap();
    running.signal("HUP");
    running.says("cannot send the access log to syslog");
    running.says("serving by the configuration as it is now");
}
