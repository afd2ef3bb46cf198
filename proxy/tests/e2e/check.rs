//! Tests of `sprat check`, which refuses a configuration that a server could not serve with, or not
//! fully.

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::binary::{Running, run, sprat, write};
use crate::common::*;

/// Returns whether a command succeeded, and its standard error.
fn outcome(output: &Output) -> (bool, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), said)
}

fn check(configuration: &Path) -> (bool, String) {
    let arguments = ["check", configuration.to_str().unwrap()];
    outcome(&sprat(&arguments).output().unwrap())
}

/// Returns the names of all files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_a_server_refuses_is_refused_beforehand() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    for (part, place, said) in [
        (
            format!("access_log: {{path: {}}}", at("none/access.log")),
            "7:20",
            format!(
                "cannot write the access log {}: its directory {}: No such file",
                at("none/access.log"),
                at("none")
            ),
        ),
        (
            format!("access_log: {{path: {}}}", at("")),
            "7:20",
            format!("cannot write the access log {}: it is a directory", at("")),
        ),
        (
            format!("access_log: {{syslog: {{address: {}}}}}", at("none.sock")),
            "7:13",
            format!(
                "cannot send the access log to syslog {}: No such file",
                at("none.sock")
            ),
        ),
        (
            "catalogue: {shared: {url: 'redis://127.0.0.1:99999'}}".to_owned(),
            "7:27",
            "the address of the shared store (`catalogue.shared.url`)".to_owned(),
        ),
    ] {
        let configuration = write(directory.path(), free_address(), &part);
        let (fine, checked) = check(&configuration);
        let runs = run(&configuration).output().unwrap();
        for (fine, told) in [(fine, checked), outcome(&runs)] {
            assert!(!fine && told.contains(&said), "{part}: {told}");
            assert!(told.contains(&format!("sprat.yaml:{place}")), "{told}");
        }
    }
    assert_eq!(names(directory.path()), ["sprat.yaml"]);
}

#[test]
fn what_a_server_would_go_without_is_refused_by_a_check_alone() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let broken = "path,bytes\n/a,1\n/b,many\nc,3\n";
    std::fs::write(at("broken.csv"), broken).unwrap();
    let (manifest, none) = (at("broken.csv"), at("none"));
    for (part, place, all_said) in [
        (
            format!("catalogue: {{manifests: [{{path: {none}}}]}}"),
            "7:32",
            vec![format!("manifest {none}: No such file")],
        ),
        (
            format!("catalogue: {{manifests: [{{path: {manifest}}}]}}"),
            "7:32",
            vec![
                format!("manifest {manifest}: line 3, column 2: `many` is not a number of bytes"),
                format!("manifest {manifest}: line 4, column 1: the path `c` does not begin"),
                "help: write a whole number without a unit".to_owned(),
            ],
        ),
        (
            format!("catalogue: {{snapshot: {{path: {none}/sizes}}}}"),
            "7:30",
            vec![format!(
                "cannot write the snapshot {none}/sizes: its directory {none}: No such"
            )],
        ),
        (
            format!("x-root: &root {{path: {none}}}"),
            "7:22",
            vec![format!("the document root {none}: No such file")],
        ),
        (
            format!("x-root: &root {{path: {manifest}}}"),
            "7:22",
            vec![format!("the document root {manifest}: Not a directory")],
        ),
    ] {
        let configuration = write(directory.path(), free_address(), &part);
        if part.starts_with("x-root") {
            let text = std::fs::read_to_string(&configuration).unwrap();
            let (before, root) = text.rsplit_once("x-root").unwrap();
            let before = before.replace("{cluster: farm}", "{cluster: farm, document_root: *root}");
            let (head, tail) = before.split_once("routes").unwrap();
            // An anchor stands above its alias.
            std::fs::write(
                &configuration,
                format!("{head}\nx-root{root}\nroutes{tail}"),
            )
            .unwrap();
        }
        let (fine, told) = check(&configuration);
        let all = all_said.iter().all(|said| told.contains(said));
        assert!(!fine && all, "{part}: {told}");
        assert!(told.contains(&format!("sprat.yaml:{place}")), "{told}");
        let running = Running::start(&configuration);
        running.says(&all_said[0]);
    }
    assert_eq!(names(directory.path()), ["broken.csv", "sprat.yaml"]);
}

#[test]
fn what_is_there_passes_and_nothing_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("sizes.csv"), "path,bytes\n/a,1\n").unwrap();
    std::fs::write(at("old"), "no snapshot\n").unwrap();
    let parts = |snapshot: &str| {
        format!(
            "access_log: {{path: {}}}\ncatalogue:\n  manifests: [{{path: {}}}]\n  snapshot: \
             {{path: {}}}\n  shared: {{url: 'redis://127.0.0.1:1/0'}}\n",
            at("access.log"),
            at("sizes.csv"),
            at(snapshot)
        )
    };
    let configuration = write(directory.path(), free_address(), &parts("sizes"));
    assert_eq!(check(&configuration), (true, String::new()));
    let configuration = write(directory.path(), free_address(), &parts("old"));
    let (fine, told) = check(&configuration);
    let overwritten = told.contains("it is no snapshot") && told.contains("warning");
    assert!(fine && overwritten, "{told}");
    assert_eq!(names(directory.path()), ["old", "sizes.csv", "sprat.yaml"]);
}

#[test]
fn the_pid_file_is_looked_at_by_both() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), free_address(), "");
    let configuration = configuration.to_str().unwrap();
    let pid_file = directory.path().join("none/sprat.pid");
    let pid_file = pid_file.to_str().unwrap();
    for command in ["check", "run"] {
        let arguments = [command, "-c", configuration, "--pid-file", pid_file];
        let (fine, told) = outcome(&sprat(&arguments).output().unwrap());
        let said = format!("cannot write the pid file {pid_file}: its directory");
        assert!(!fine && told.contains(&said), "{told}");
        assert!(!told.contains("listening"), "{told}");
    }
    let pid_file = directory.path().join("sprat.pid");
    let pid_file = pid_file.to_str().unwrap();
    let arguments = ["check", "-c", configuration, "--pid-file", pid_file];
    let told = outcome(&sprat(&arguments).output().unwrap());
    assert_eq!(told, (true, String::new()));
    assert_eq!(names(directory.path()), ["sprat.yaml"]);
}

#[test]
fn a_configuration_can_come_on_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let check = |more: &str| {
        let configuration = write(directory.path(), free_address(), more);
        let text = std::fs::read(configuration).unwrap();
        let mut command = sprat(&["check", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&text).unwrap();
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (outcome(&output), printed)
    };
    let good = ((true, String::new()), "<stdin>: ok\n".to_owned());
    assert_eq!(check(""), good);
    let ((fine, told), _) = check("uplnik: {}\n");
    assert!(!fine && told.contains("<stdin>:7:1"), "{told}");
    let (fine, told) = outcome(&sprat(&["run", "-c", "-"]).output().unwrap());
    assert!(!fine && told.contains("give it a file"), "{told}");
}

/// Returns a command's exit code, and all that it prints.
fn printed(arguments: &[&str]) -> (Option<i32>, String) {
    let output = sprat(arguments).output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

#[test]
fn a_directory_is_checked_with_what_its_file_includes() {
    let directory = tempfile::tempdir().unwrap();
    write(
        directory.path(),
        free_address(),
        "include: [conf.d/*.yaml]\n",
    );
    let parts = directory.path().join("conf.d");
    std::fs::create_dir(&parts).unwrap();
    let logged = parts.join("log.yaml");
    let log = format!("access_log:\n  path: {}/none/access.log\n", parts.display());
    std::fs::write(&logged, log).unwrap();
    let (fine, told) = check(directory.path());
    assert!(
        !fine && told.contains("cannot write the access log"),
        "{told}"
    );
    assert!(
        told.contains(&format!("{}:2:9", logged.display())),
        "{told}"
    );
    std::fs::remove_file(logged).unwrap();
    assert_eq!(check(directory.path()), (true, String::new()));
    let none = directory.path().join("conf.d");
    let (fine, told) = check(&none);
    assert!(!fine && told.contains("conf.d/sprat.yaml"), "{told}");
}

#[test]
fn a_diff_says_what_a_reload_would_change() {
    let directory = tempfile::tempdir().unwrap();
    let origin = free_address();
    let old = write(directory.path(), origin, "");
    let renamed = directory.path().join("old.yaml");
    std::fs::rename(&old, &renamed).unwrap();
    let more = "classes: {gold: {level: 1}}\nruntime: {workers: 7}\n";
    let new = write(directory.path(), origin, more);
    let text = std::fs::read_to_string(&new).unwrap();
    let text = text.replace("rate: unlimited", "rate: 10mbit");
    std::fs::write(&new, text).unwrap();
    let (old, new) = (renamed.to_str().unwrap(), new.to_str().unwrap());
    assert_eq!(printed(&["diff", old, old]), (Some(0), String::new()));
    let (code, told) = printed(&["diff", old, new]);
    let expected = "classes\n  + gold\nuplink\n  rate: unlimited -> 10mbit\nuntil a restart\n  ! \
                    `runtime.workers` stays ";
    assert!(code == Some(1) && told.starts_with(expected), "{told}");
    let (code, told) = printed(&["diff", old, new, "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["differs"]), (Some(1), &true.into()));
    assert_eq!(told["parts"][0]["changes"][0]["kind"], "added");
    assert_eq!(
        told["parts"][1]["changes"][0]["details"][0]["after"],
        "10mbit"
    );
    std::fs::write(new, "version: 2\n").unwrap();
    let (code, told) = printed(&["diff", old, new]);
    assert!(
        code == Some(2) && told.contains("sprat.yaml:1:10"),
        "{told}"
    );
    let (code, told) = printed(&["diff", "-", "-"]);
    assert!(
        code == Some(2) && told.contains("one configuration"),
        "{told}"
    );
}

#[test]
fn a_running_server_is_compared_without_its_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, admin) = (free_address(), free_address().to_string());
    // A number is told as it is written, which is not how JSON has it.
    let more = "runtime: {workers: 2}\nclasses: {gold: {level: 01}}\ncatalogue: {shared: {url: \
                'redis://user:pass@127.0.0.1:1/0', phrase: hush}}\n";
    let file = write(directory.path(), origin, more);
    let text = std::fs::read_to_string(&file).unwrap();
    let own = format!("admin: {{address: '{admin}'}}");
    let text = text.replace("admin: {address: 127.0.0.1:0}", &own);
    std::fs::write(&file, &text).unwrap();
    let _running = Running::start(&file);
    let new = file.to_str().unwrap();
    assert_eq!(printed(&["diff", "--admin", &admin, new]).0, Some(0));
    std::fs::write(&file, text.replace("rate: unlimited", "rate: 10mbit")).unwrap();
    let (code, told) = printed(&["diff", "--admin", &admin, new]);
    let wanted = "uplink\n  rate: unlimited -> 10mbit";
    assert!(code == Some(1) && told.trim() == wanted, "{told}");
    let (code, told) = printed(&["diff", "--admin", &admin, new, new]);
    assert!(code == Some(2) && told.contains("give the other"), "{told}");
    let (code, told) = printed(&["diff", new]);
    assert!(code == Some(2) && told.contains("--admin"), "{told}");
}

#[test]
fn a_trial_tells_what_is_carried_over_and_what_is_gained() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sites = "server { listen 8080; location / { proxy_pass http://127.0.0.1:81; } \
                 location /m { proxy_pass http://127.0.0.1:81; auth_jwt realm; } }\n";
    std::fs::write(
        at("nginx.conf"),
        "events {}\nhttp { include sites/*.conf; }\n",
    )
    .unwrap();
    std::fs::create_dir(at("sites")).unwrap();
    std::fs::write(at("sites/a.conf"), sites).unwrap();
    let line = |second: usize, bytes: usize| {
        format!(
            "192.0.2.1 - - [24/Nov/2026:11:{:02}:{:02} +0000] \"GET /{bytes} HTTP/1.1\" 200 {bytes}\n",
            second / 60,
            second % 60
        )
    };
    let lines = (0..600).map(|at| line(at / 10, if at % 10 == 0 { 90_000 } else { 900 }));
    std::fs::write(at("access.log"), lines.collect::<String>()).unwrap();
    let directory = at("");
    let (code, told) = printed(&["try", &directory, &at("access.log")]);
    assert_eq!(code, Some(0), "{told}");
    for part in [
        ", 1 not supported",
        "sites/a.conf:1: auth_jwt realm: not supported",
        "600 requests",
        "load 0.7",
        "srpt",
        "The link's rate was assumed",
        "sprat import nginx",
        "uplink: {rate: ",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    let (code, told) = printed(&["try", &directory, &at("access.log"), "--uplink", "3mbit"]);
    let named = told.contains("uplink: {rate: 3mbit}") && !told.contains("assumed");
    assert!(code == Some(0) && named, "{told}");
    let (code, told) = printed(&["try", &at("none.conf"), &at("access.log")]);
    assert!(code == Some(1) && told.contains("none.conf"), "{told}");
}
