//! Complaints about files with endpoints.

use std::sync::Arc;

use sprat_config::resolved::{Cluster, Endpoint};
use sprat_config::{load_endpoints, parse, parse_endpoints};

use super::brief;

fn text(keys: &str) -> String {
    format!(
        "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nroutes: [{{cluster: a}}]\n\
         clusters:\n  a: {{{keys}}}\n"
    )
}

fn cluster(keys: &str) -> Arc<Cluster> {
    let loaded = parse(&text(keys), "sprat.yaml", &|_| None);
    Arc::clone(&loaded.unwrap().config.clusters[0])
}

const LISTED: &str = "endpoints_file: /etc/sprat/a";

fn listed(file: &str) -> Vec<Endpoint> {
    parse_endpoints(file, "a", &cluster(LISTED)).unwrap()
}

#[test]
fn endpoints_stand_here_or_in_a_file() {
    for (keys, expected) in [
        (
            "max_requests: 1",
            "the cluster `a` has no endpoints | give `endpoints`, a list such as [127.0.0.1:8000], or `endpoints_file`",
        ),
        (
            "endpoints: [b:1], endpoints_file: /x",
            "a cluster has its endpoints here or in a file, not both | remove `endpoints` or `endpoints_file`",
        ),
        (
            "endpoints_file: /x, dispatch: sita",
            "`sita` gives each endpoint an interval of sizes, and those of a file come and go | use another dispatch, such as least_work, or give `endpoints`",
        ),
    ] {
        let errors = parse(&text(keys), "sprat.yaml", &|_| None).unwrap_err();
        let said = brief(&errors);
        assert!(said.len() == 1 && said[0].ends_with(expected), "{said:?}");
    }
    let file = cluster("endpoints_file: {path: /x, interval: 5s}")
        .endpoints_file
        .clone();
    assert_eq!(file.unwrap().interval.as_secs(), 5);
    assert_eq!(
        cluster(LISTED)
            .endpoints_file
            .as_ref()
            .unwrap()
            .interval
            .as_secs(),
        1
    );
}

#[test]
fn a_file_is_written_in_several_ways() {
    let plain = listed("# farm\n\n10.0.0.1:80\n  [::1]:80  \nunix:/run/a.sock\n");
    let named = |all: &[Endpoint]| -> Vec<String> {
        all.iter().map(|own| own.address.to_string()).collect()
    };
    assert_eq!(
        named(&plain),
        ["10.0.0.1:80", "[::1]:80", "unix:/run/a.sock"]
    );
    let yaml = listed("---\n- 10.0.0.1:80\n- {address: '[::1]:80', weight: 3, priority: 1}\n");
    assert_eq!(named(&yaml), ["10.0.0.1:80", "[::1]:80"]);
    assert_eq!((yaml[1].weight, yaml[1].priority), (3, 1));
    assert_eq!(
        listed("[\"10.0.0.1:80\", {\"address\": \"10.0.0.2:80\"}]").len(),
        2
    );
    assert_eq!(listed("# none at present\n[]\n").len(), 0);
}

#[test]
fn none_of_a_file_stands_by_for_one_with_a_part_of_its_own() {
    let rpsq = cluster("endpoints_file: /x, dispatch: rpsq");
    let read = |priority: u8| {
        let file = format!(
            "- {{address: 10.0.0.1:80, priority: 1}}\n\
             - {{address: 10.0.0.2:80, priority: {priority}}}\n"
        );
        parse_endpoints(&file, "a", &rpsq).map(|all| all.len())
    };
    assert_eq!(read(1).unwrap(), 2);
    let said = brief(&read(0).unwrap_err());
    let expected = "this `dispatch` gives each endpoint its part: none can stand by for others | \
                    use another, such as least_work, or leave `priority` out";
    assert!(said.len() == 1 && said[0].ends_with(expected), "{said:?}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let host = "expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, or \
                unix:/run/app.sock";
    for (keys, file, expected) in [
        (LISTED, "", "there is no endpoint in it; `[]` is a list of none".to_owned()),
        (LISTED, "# only this\n", "there is no endpoint in it; `[]` is a list of none".to_owned()),
        (LISTED, "10.0.0.1:80\n10.0.0.2\n", format!("2:3 {host}, found `10.0.0.2` | add a port: 10.0.0.2:8000")),
        (LISTED, "- 10.0.0.1:80\n- 10.0.0.1:80\n", "2:3 the endpoint 10.0.0.1:80 is given twice | it is first given on line 1: use {address, weight} for a larger share".to_owned()),
        (LISTED, "b.example:80\n", "b.example:80 is a name, and a file has addresses alone | write its addresses, or give names under `endpoints`, where they are resolved".to_owned()),
        ("endpoints_file: /x, tls: {}", "unix:/run/a.sock", "a Unix socket has no name that a certificate could be for | give `sni`, the name in the endpoints' certificates, in `tls`".to_owned()),
        ("endpoints_file: /x, dispatch: rpsq", "- a\n", format!("1:3 {host}, found `a` | add a port: a:8000")),
    ] {
        let said = brief(&parse_endpoints(file, "a", &cluster(keys)).unwrap_err());
        assert!(said.len() == 1 && said[0].ends_with(&expected), "{said:?}\n{expected}");
    }
    let many: String = (0..4097)
        .map(|port| format!("10.0.0.1:{}\n", port + 1))
        .collect();
    let said = brief(&parse_endpoints(&many, "a", &cluster(LISTED)).unwrap_err());
    assert!(
        said[0].ends_with("a file has 4096 endpoints at most"),
        "{said:?}"
    );
}

#[test]
fn a_file_is_read_from_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("endpoints");
    std::fs::write(&path, "127.0.0.1:80\n127.0.0.1:81\n").unwrap();
    let read = load_endpoints(&path, &cluster(LISTED)).unwrap();
    let addresses: Vec<_> = read.iter().map(|own| own.address.to_string()).collect();
    assert_eq!(addresses, ["127.0.0.1:80", "127.0.0.1:81"]);
    std::fs::write(&path, "web.example\n").unwrap();
    let wrong = load_endpoints(&path, &cluster(LISTED)).unwrap_err();
    let place = wrong.diagnostics()[0].place.as_ref().unwrap();
    assert_eq!(place.file, path.display().to_string());
    std::fs::remove_file(&path).unwrap();
    let gone = load_endpoints(&path, &cluster(LISTED)).unwrap_err();
    assert_eq!(
        brief(&gone),
        ["cannot read the file: No such file or directory (os error 2)"]
    );
}
