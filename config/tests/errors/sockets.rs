//! Complaints about Unix sockets.

use sprat_config::parse;

use super::brief;

/// Returns the complaints about a listener and an endpoint at these addresses, with `more` keys of
/// the cluster.
fn of(listener: &str, endpoint: &str, more: &str) -> Vec<String> {
    let text = format!(
        "version: 1\nlisteners: [{{address: {listener}}}]\nroutes: [{{cluster: a}}]\n\
         clusters:\n  a: {{endpoints: ['{endpoint}']{more}}}\n"
    );
    match parse(&text, "sprat.yaml", &|_| None) {
        Ok(loaded) => brief(&loaded.warnings),
        Err(errors) => brief(&errors),
    }
}

const GOOD: &str = "unix:/run/app.sock";

#[test]
fn a_path_is_written_in_one_way() {
    assert_eq!(of("'unix:/run/s.sock', mode: '0660'", GOOD, ""), [""; 0]);
    for (wrong, what, help) in [
        ("unix:///run/a", None, "write unix:/run/a"),
        ("unix@/run/a", None, "write unix:/run/a"),
        ("unix//run/a", None, "write unix:/run/a"),
        ("/run/a", None, "write unix:/run/a"),
        (
            "http://unix:/run/a",
            None,
            "leave `http://` out: unix:/run/a",
        ),
        (
            "unix:a.sock",
            Some("the path of a Unix socket does not begin with `/`"),
            "write all of it, such as unix:/run/a.sock",
        ),
        (
            "unix:@a",
            Some(
                "abstract Unix sockets are not used: every user of the machine may connect to one",
            ),
            "use one with a path, such as unix:/run/app.sock, whose permissions say who may",
        ),
        (
            "unix:/run/",
            None,
            "write the path of a file, such as unix:/run/app.sock",
        ),
    ] {
        let said = of("'0.0.0.0:80'", wrong, "");
        assert_eq!(said.len(), 1, "{said:?}");
        let expected = format!(
            "expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, or \
             unix:/run/app.sock, found `{wrong}`"
        );
        let expected = format!("{} | {help}", what.unwrap_or(&expected));
        assert!(said[0].ends_with(&expected), "{said:?}\n{expected}");
    }
    let long = format!("unix:/run/{}", "x".repeat(103));
    let said = of("'0.0.0.0:80'", &long, "");
    assert!(
        said[0].contains("has 108 bytes, and 107 are the most"),
        "{said:?}"
    );
    let fits = format!("unix:/run/{}", "x".repeat(102));
    assert_eq!(of("'0.0.0.0:80'", &fits, ""), [""; 0]);
}

#[test]
fn permissions_are_octal_and_for_paths() {
    for (listener, expected) in [
        (
            "'0.0.0.0:80', mode: '0660'",
            "`mode` is for a Unix socket, and this is an IP address | leave `mode` out, or write \
             `address: unix:/run/sprat.sock`",
        ),
        (
            "'unix:/run/s.sock', mode: '0680'",
            "expected a file's permissions in octal, such as \"0660\", found `0680`",
        ),
        (
            "'unix:/run/s.sock', mode: 0660",
            "expected a file's permissions in octal, such as \"0660\", found `0660`, which is \
             not text | quote it",
        ),
        (
            "'0.0.0.0:80', owner: www-data",
            "`owner` is for a Unix socket, and this is an IP address | leave `owner` out, or \
             write `address: unix:/run/sprat.sock`",
        ),
        (
            "'0.0.0.0:80', group: 33",
            "`group` is for a Unix socket, and this is an IP address",
        ),
        (
            "'unix:/run/s.sock', owner: 'a b'",
            "expected a name or a number, such as www-data or 33, found `a b`",
        ),
        (
            "'unix:/run/s.sock', group: 4294967295",
            "expected a name or a number, such as www-data or 33, found `4294967295`",
        ),
    ] {
        let said = of(listener, GOOD, "");
        assert!(said[0].contains(expected), "{said:?}\n{expected}");
    }
    for good in ["owner: www-data, group: 33", "owner: '0', group: _ab-c.d"] {
        let listener = format!("'unix:/run/s.sock', {good}");
        assert_eq!(of(&listener, GOOD, ""), [""; 0]);
    }
}

#[test]
fn no_two_have_one_path() {
    let said = of(
        "'unix:/run/s.sock'}, {address: 'unix:/run/s.sock'",
        GOOD,
        "",
    );
    assert!(
        said[0].contains("another listener has the same address"),
        "{said:?}"
    );
    let said = of(
        "'unix:/run/s.sock'",
        GOOD,
        "}\nadmin: {address: 'unix:/run/s.sock'",
    );
    assert!(
        said[0].contains("the admin listener has the same address"),
        "{said:?}"
    );
}

#[test]
fn tls_to_a_path_wants_a_name() {
    let said = of("'0.0.0.0:80'", GOOD, ", tls: {}");
    let expected = "a Unix socket has no name that a certificate could be for | give `sni`, the \
                    name in the endpoints' certificates, in `tls`";
    assert!(said[0].contains(expected), "{said:?}");
    assert_eq!(
        of("'0.0.0.0:80'", GOOD, ", tls: {sni: app.example}"),
        [""; 0]
    );
}
