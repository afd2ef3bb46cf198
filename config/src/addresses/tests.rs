use super::*;

/// Returns the value that a text is read as; none if its type refuses it.
fn read<T: Leaf>(text: &str) -> Option<T> {
    T::parse(text, TextClass::String).ok()
}

fn fault<T: Leaf>(text: &str) -> Fault {
    T::parse(text, TextClass::String).err().unwrap()
}

/// Returns the help for a text that its type refuses; empty if there is none.
fn help<T: Leaf>(text: &str) -> String {
    let fault = fault::<T>(text);
    assert_eq!(fault.message, None, "{text}");
    fault.help.unwrap_or_default()
}

#[test]
fn an_abstract_socket_is_named_as_such() {
    for text in ["@sprat", "abns@sprat", "unix:@sprat"] {
        for fault in [fault::<ListenAt>(text), fault::<Backend>(text)] {
            let message = fault.message.unwrap();
            assert!(message.starts_with("abstract Unix sockets are not used"));
        }
    }
}

#[test]
fn what_an_address_to_listen_on_lacks_is_said() {
    for (text, expected) in [
        ("*:80", "write 0.0.0.0:80 for every address"),
        (":80", "write 0.0.0.0:80 for every address"),
        ("80", "write 0.0.0.0:80 for every address"),
        ("localhost:80", "write 127.0.0.1:80"),
        ("127.0.0.1", "add a port: 127.0.0.1:8080"),
        ("::1", "add a port: [::1]:8080"),
        ("fd00::1", "add a port: [fd00::1]:8080"),
        (
            "localhost:",
            "write an address and a port, such as 127.0.0.1:8080",
        ),
        (
            "web.example",
            "write an address and a port, such as 127.0.0.1:8080",
        ),
        ("a b", ""),
    ] {
        assert_eq!(help::<ListenAt>(text), expected, "{text}");
    }
}

#[test]
fn a_backend_has_a_port_that_can_be_connected_to() {
    for text in ["127.0.0.1:8000", "[::1]:8000", "web1.example:8000"] {
        let Backend(address) = read(text).unwrap();
        assert_eq!(address.to_string(), text);
    }
    for text in [
        "127.0.0.1:0",
        "[::1]:0",
        "web1.example:0",
        "web1.example:00",
    ] {
        let message = fault::<Backend>(text).message.unwrap();
        assert_eq!(message, "port 0 cannot be connected to", "{text}");
    }
}

#[test]
fn a_port_has_no_sign() {
    for (host, port) in [
        ("web.example", "+80"),
        ("web.example", "-80"),
        ("192.0.2.1", "+80"),
        ("[::1]", "+80"),
        ("web.example", "+http"),
    ] {
        let text = format!("{host}:{port}");
        let faults = [
            (0, fault::<ListenAt>(&text)),
            (0, fault::<Backend>(&text)),
            (0, fault::<HostHeader>(&text)),
            (7, fault::<CollectorUrl>(&format!("http://{text}"))),
            (8, fault::<HttpsUrl>(&format!("https://{text}/directory"))),
        ];
        for (before, fault) in faults {
            let message = fault.message.unwrap();
            assert_eq!(message, format!("`{port}` is not a port"), "{text}");
            let at = before + host.len() + 1;
            assert_eq!(fault.part, Some(at..at + port.len()), "{text}");
        }
    }
    // A sign alone is not a number either.
    assert!(read::<Backend>("web.example:+").is_none());
    assert!(read::<HostHeader>("web.example:+").is_none());
}

#[test]
fn permissions_are_octal() {
    for (text, expected) in [
        ("0660", Some(0o660)),
        ("660", Some(0o660)),
        ("0777", Some(0o777)),
        ("000", Some(0)),
        ("1660", None),
        ("00660", None),
        ("66", None),
        ("680", None),
        ("+66", None),
        ("", None),
    ] {
        assert_eq!(read(text).map(|FileMode(own)| own), expected, "{text}");
    }
}

#[test]
fn an_account_is_a_number_or_a_name() {
    let named = |text: &str| Some(resolved::Account::Name(text.to_owned()));
    let numbered = |number| Some(resolved::Account::Number(number));
    let longest = "a".repeat(255);
    let too_long = "a".repeat(256);
    for (text, class, expected) in [
        ("33", TextClass::Integer, numbered(33)),
        ("33", TextClass::String, numbered(33)),
        ("4294967294", TextClass::Integer, numbered(4_294_967_294)),
        // What stands for no account.
        ("4294967295", TextClass::Integer, None),
        ("999999999", TextClass::String, numbered(999_999_999)),
        ("4294967294", TextClass::String, None),
        ("www-data", TextClass::String, named("www-data")),
        ("_apt", TextClass::String, named("_apt")),
        ("a.b-c_1", TextClass::String, named("a.b-c_1")),
        (&*longest, TextClass::String, named(&longest)),
        (&*too_long, TextClass::String, None),
        ("-data", TextClass::String, None),
        (".data", TextClass::String, None),
        ("1data", TextClass::String, None),
        ("www data", TextClass::String, None),
        ("", TextClass::String, None),
    ] {
        let account = UnixAccount::parse(text, class).ok();
        assert_eq!(account.map(|UnixAccount(own)| own), expected, "{text}");
    }
}

#[test]
fn a_name_server_is_given_by_its_address() {
    for (text, expected) in [
        ("10.0.0.53", "10.0.0.53:53"),
        ("10.0.0.53:5353", "10.0.0.53:5353"),
        ("fd00::53", "[fd00::53]:53"),
        ("[fd00::53]:5353", "[fd00::53]:5353"),
    ] {
        let DnsServer(address) = read(text).unwrap();
        assert_eq!(address.to_string(), expected);
    }
    assert_eq!(
        help::<DnsServer>("ns.example"),
        "give the server's address: its name would need a server itself"
    );
    assert_eq!(help::<DnsServer>("a b"), "");
    let message = |text| fault::<DnsServer>(text).message.unwrap();
    assert_eq!(message("10.0.0.53:0"), "port 0 cannot be asked");
    assert_eq!(message("10.0.0.53:65536"), "`65536` is not a port");
}

#[test]
fn a_certificate_is_for_a_name_with_a_domain() {
    for text in ["www.example.org", "*.example.org", "a-1.example"] {
        let CertificateName(own) = read(text).unwrap();
        assert_eq!(own, text);
    }
    for text in [
        "localhost",
        "*.localhost",
        "a_b.example",
        "a..b",
        "*",
        "a.*.example",
        "a b.example",
        "a_b",
    ] {
        assert_eq!(help::<CertificateName>(text), "", "{text}");
    }
    assert_eq!(
        help::<CertificateName>("a.example."),
        "leave the last dot out: a.example"
    );
}

#[test]
fn a_url_over_tls_has_a_host_and_no_spaces() {
    for text in ["https://a.example", "https://[::1]:8443/d?x#y"] {
        let HttpsUrl(own) = read(text).unwrap();
        assert_eq!(own, text);
    }
    for text in [
        "https://a.example/x y",
        "https://a.example/\u{e4}",
        "https://me@a.example/",
        "https:///x",
        "a.example",
    ] {
        assert_eq!(help::<HttpsUrl>(text), "", "{text}");
    }
    assert_eq!(help::<HttpsUrl>("http://a/b"), "write https://a/b");
}

#[test]
fn a_collector_is_read_in_its_parts() {
    for (text, expected) in [
        (
            "http://c.example",
            "false c.example 80 c.example /v1/traces",
        ),
        (
            "https://c.example/",
            "true c.example 443 c.example /v1/traces",
        ),
        (
            "http://c.example:4318/a",
            "false c.example 4318 c.example:4318 /a",
        ),
        ("https://[::1]/a?b", "true ::1 443 [::1] /a?b"),
        (
            "http://[fd00::1]:4318",
            "false fd00::1 4318 [fd00::1]:4318 /v1/traces",
        ),
    ] {
        let url: CollectorUrl = read(text).unwrap();
        let CollectorUrl {
            is_secure,
            host,
            port,
            authority,
            path,
        } = url;
        let parts = format!("{is_secure} {host} {port} {authority} {path}");
        assert_eq!(parts, expected, "{text}");
    }
    for (text, expected) in [
        ("c.example:4318", "write http://c.example:4318"),
        ("a b", ""),
        ("ftp://c.example", ""),
        ("http://c.example/a#b", ""),
        ("http://c.example/a b", ""),
        ("http:///v1/traces", ""),
    ] {
        assert_eq!(help::<CollectorUrl>(text), expected, "{text}");
    }
}

#[test]
fn a_host_has_no_port() {
    for (text, expected) in [
        (
            "www.example.org:8080",
            "leave the port out: www.example.org",
        ),
        ("www.example.org:x", ""),
        ("www.example.org:65536", ""),
        ("a b:80", ""),
        ("a b", ""),
        ("*.a b", ""),
        ("*", "leave `hosts` out to match every host"),
    ] {
        assert_eq!(help::<Host>(text), expected, "{text}");
    }
    // The dot of DNS's root is not part of what is compared.
    let host = |text| read(text).map(|Host(own)| own);
    let exact = HostPattern::Exact("a.example".to_owned());
    assert_eq!(host("A.example."), Some(exact));
    let below = HostPattern::Suffix(".example".to_owned());
    assert_eq!(host("*.example."), Some(below));
}

#[test]
fn a_store_is_given_with_its_scheme() {
    for text in ["redis://127.0.0.1:6379/0", "unix:///run/redis.sock"] {
        let RedisUrl(own) = read(text).unwrap();
        assert_eq!(own, text);
    }
    let scheme = "write it as redis://127.0.0.1:6379/0 or unix:///run/redis.sock";
    let tls = "TLS is not spoken here: put the store on a private network";
    for (text, expected) in [
        (":s3cret@127.0.0.1:6379", scheme),
        ("redis://", scheme),
        ("redis://:s3cret a@b", scheme),
        ("unix://", scheme),
        ("http://:s3cret@a", scheme),
        ("a b", scheme),
        ("http://a b", scheme),
        ("rediss://:s3cret@a", tls),
    ] {
        // Nothing of the text is told.
        let fault = fault::<RedisUrl>(text);
        let message = fault.message.as_deref();
        assert_eq!(message, Some("this is no address of a store"), "{text}");
        assert_eq!(fault.help.as_deref(), Some(expected), "{text}");
    }
}
