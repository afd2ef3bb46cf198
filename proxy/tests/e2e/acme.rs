//! Tests of certificates that a real authority issues, over real sockets.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use crate::common::binary::sprat;
use crate::common::pebble::Pebble;
use crate::common::tls::*;
use crate::common::*;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use sprat_config::resolved::*;

const NAME: &str = "www.example.org";

/// A server with a plain listener and one that speaks TLS, and its storage of certificates.
struct Site {
    proxy: Proxy,
    config: Config,
    secure: SocketAddr,
    storage: tempfile::TempDir,
}

impl Site {
    /// Starts a server that shows a certificate of `shown`, and asks no authority for any.
    fn start(origin: &Origin, shown: &Authority) -> Self {
        let mut config = config(&[origin.address]);
        let mut secure = config.listeners[0].clone();
        secure.name = "secure".to_owned();
        let own = shown.issue("own", &["own.example"]);
        secure.tls = Some(listener_tls(&[&own]));
        config.listeners.push(secure);
        for listener in &mut config.listeners {
            listener.address = free_address().into();
        }
        let proxy = Proxy::start(&config);
        Self {
            secure: config.listeners[1].address.ip().unwrap(),
            proxy,
            config,
            storage: tempfile::tempdir().unwrap(),
        }
    }

    /// Reloads with a certificate of these names, to be issued by an authority.
    fn ask(&mut self, pebble: &Pebble, challenge: Challenge, names: &[&str]) -> IssuedCertificate {
        let acme = acme(pebble, self.storage.path(), challenge);
        self.ask_of(acme, names)
    }

    fn ask_of(&mut self, acme: Acme, names: &[&str]) -> IssuedCertificate {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let issued = IssuedCertificate::new(&acme, names, Span::default());
        let tls = self.config.listeners[1].tls.as_mut().unwrap();
        tls.certificates
            .push(ListenerCertificate::Issued(issued.clone()));
        self.config.acme = Some(acme);
        self.reload();
        issued
    }

    fn reload(&self) {
        let control = self.proxy.server.as_ref().unwrap().control();
        assert!(control.reload(&self.config).unwrap().is_empty());
    }

    fn orders(&self, result: &str) -> f64 {
        let result = format!("result=\"{result}\"");
        self.proxy.metric(&["sprat_acme_orders_total", &result])
    }

    /// Waits until a certificate has been issued and is shown. Returns a client that trusts it.
    fn wait(&self, issued: &IssuedCertificate, name: &str) -> TlsClient {
        let noted = issued.file.path.with_extension("failures.json");
        wait_long("a certificate", || {
            let failure = std::fs::read_to_string(&noted).ok();
            assert_eq!(failure, None);
            self.orders("issued") == 1.0
        });
        let client = believing(&issued.file.path);
        wait_long("the certificate is shown", || {
            client.try_connect(self.secure, name).is_ok()
        });
        client
    }
}

/// Waits for a condition as `wait_for` does, but as long as an authority may take.
fn wait_long(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("waited in vain for {what}");
}

fn acme(pebble: &Pebble, storage: &Path, challenge: Challenge) -> Acme {
    Acme {
        directory_url: pebble.directory_url.clone(),
        email: Some("ops@example.org".to_owned()),
        storage: file(&storage.join("acme")),
        challenge,
        ca_file: Some(file(&pebble.authority.file())),
    }
}

/// Returns a client that trusts the issuer of the certificate in a file, from the file's chain.
fn believing(path: &Path) -> TlsClient {
    let mut roots = RootCertStore::empty();
    let chain = CertificateDer::pem_file_iter(path).unwrap();
    let chain: Vec<_> = chain.collect::<Result<_, _>>().unwrap();
    roots.add(chain[1].clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    TlsClient {
        config: Arc::new(config),
    }
}

fn fine() -> Origin {
    Origin::http(|request| ok(request.start.split(' ').nth(1).unwrap()))
}

/// Finds all files that are not empty, in a directory and below it.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn a_name_is_proven_by_an_answer_and_a_restart_asks_for_nothing() {
    let (origin, shown) = (fine(), Authority::new());
    let mut site = Site::start(&origin, &shown);
    let pebble = Pebble::start(site.proxy.address, free_address());
    let issued = site.ask(&pebble, Challenge::Http01, &[NAME, "example.org"]);
    let client = site.wait(&issued, NAME);
    let mut peer = client.connect(site.secure, NAME);
    assert_eq!(peer.shown(), first_in(&issued.file.path));
    assert_eq!(peer.ask(get("/a")).text(), "/a");
    // The certificate in files is shown as before.
    TlsClient::new(&shown).connect(site.secure, "own.example");
    // What is no question that is waited for goes to the backend, which may have its own.
    let path = "/.well-known/acme-challenge/unknown";
    assert_eq!(site.proxy.connect().ask(get(path)).text(), path);
    let expiry = "sprat_acme_certificate_not_after_timestamp_seconds";
    let told = format!("certificate=\"{NAME}\"");
    wait_long("the metric", || site.proxy.metric(&[expiry, &told]) > 1.7e9);

    // Keys are for their owner alone, and no answer is left.
    let mut found = Vec::new();
    files(site.storage.path(), &mut found);
    for path in &found {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path:?}");
        assert!(!path.display().to_string().contains("challenges/"));
    }
    // The account, the certificate and the lock.
    assert_eq!(found.len(), 3, "{found:?}");

    // Another process finds all that it needs, without the authority.
    drop(pebble);
    let mut again = site.config.clone();
    for listener in &mut again.listeners {
        listener.address = free_address().into();
    }
    let second = Proxy::start(&again);
    let mut peer = client.connect(again.listeners[1].address.ip().unwrap(), NAME);
    assert_eq!(peer.shown(), first_in(&issued.file.path));
    assert_eq!(peer.ask(get("/b")).text(), "/b");
    second.wait_metric(&[expiry, &told], site.proxy.metric(&[expiry, &told]));
    // The storage is looked at twice more meanwhile.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(second.metric(&["sprat_acme_orders_total"]), 0.0);
}

#[test]
fn a_name_is_proven_by_a_handshake() {
    let (origin, shown) = (fine(), Authority::new());
    let mut site = Site::start(&origin, &shown);
    let pebble = Pebble::start(free_address(), site.secure);
    let issued = site.ask(&pebble, Challenge::TlsAlpn01, &[NAME]);
    let client = site.wait(&issued, NAME);
    assert_eq!(
        client.connect(site.secure, NAME).ask(get("/a")).text(),
        "/a"
    );
    // Nobody else gets to speak that protocol.
    let mut config = ClientConfig::clone(&client.config);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let asking = TlsClient {
        config: Arc::new(config),
    };
    assert!(asking.try_connect(site.secure, NAME).is_err());
}

#[test]
fn a_wildcard_is_proven_by_a_command() {
    let (origin, shown) = (fine(), Authority::new());
    let mut site = Site::start(&origin, &shown);
    let pebble = Pebble::start(free_address(), free_address());
    let zone = tempfile::tempdir().unwrap();
    pebble.names.set_texts(zone.path());
    let program = site.storage.path().join("hook");
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1 $2 $3 $4\" = \"$ACME_ACTION $ACME_DOMAIN $ACME_NAME $ACME_VALUE\" ] || exit 3\n\
         cd {} || exit 4\n\
         echo \"$1 $2\" >> log\n\
         case $1 in\n\
         present) echo \"$4\" >> \"$3\" ;;\n\
         cleanup) sed -i \"/^$4\\$/d\" \"$3\" ;;\n\
         esac\n",
        zone.path().display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let challenge = Challenge::Dns01(ChallengeCommand {
        program: file(&program),
        timeout: PATIENCE,
    });
    let issued = site.ask(&pebble, challenge, &["*.example.org", "example.org"]);
    let client = site.wait(&issued, "any.example.org");
    client.connect(site.secure, "example.org");
    let log = std::fs::read_to_string(zone.path().join("log")).unwrap();
    let [mut present, mut cleanup] = [0, 0];
    for line in log.lines() {
        match line {
            "present example.org" => present += 1,
            "cleanup example.org" => cleanup += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!([present, cleanup], [2, 2]);
    let left = std::fs::read_to_string(zone.path().join("_acme-challenge.example.org"));
    assert_eq!(left.unwrap(), "");
}

#[test]
fn a_certificate_is_renewed_under_load_without_a_failure() {
    let (origin, shown) = (fine(), Authority::new());
    let mut site = Site::start(&origin, &shown);
    let pebble = Pebble::start(site.proxy.address, free_address());
    // One that has a day left of sixty is there from before.
    let acme = acme(&pebble, site.storage.path(), Challenge::Http01);
    let names = vec![NAME.to_owned()];
    let path = IssuedCertificate::new(&acme, names, Span::default())
        .file
        .path;
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    let old = shown.issue_with("old", &[NAME], |parameters| {
        parameters.not_before = (now - 59 * day).into();
        parameters.not_after = (now + day).into();
    });
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    std::fs::write(&path, read(&old.key) + &read(&old.chain)).unwrap();

    let issued = site.ask_of(acme, &[NAME]);
    assert_eq!(issued.file.path, path);
    let client = TlsClient::new(&shown);
    let mut kept = client.connect(site.secure, NAME);
    assert_eq!(kept.shown(), first_in(&old.chain));
    let (stop, secure) = (AtomicBool::new(false), site.secure);
    let served = std::thread::scope(|scope| {
        // By whichever certificate is shown.
        let load = scope.spawn(|| {
            let mut served = 0;
            while !stop.load(Relaxed) {
                let renewed = || believing(&path).try_connect(secure, NAME);
                let mut peer = client
                    .try_connect(secure, NAME)
                    .or_else(|_| renewed())
                    .unwrap();
                assert_eq!(peer.ask(get("/load")).text(), "/load");
                assert_eq!(kept.ask(get("/kept")).text(), "/kept");
                served += 1;
            }
            served
        });
        site.wait(&issued, NAME);
        stop.store(true, Relaxed);
        load.join().unwrap()
    });
    assert!(served > 0);
    assert_eq!(kept.ask(get("/after")).text(), "/after");
    assert_eq!(site.orders("issued"), 1.0);
}

#[test]
fn processes_share_a_storage_and_one_asks() {
    let (origin, shown) = (fine(), Authority::new());
    // This one has no certificate to ask for, and is where the authority looks.
    let mut front = Site::start(&origin, &shown);
    let pebble = Pebble::start(front.proxy.address, free_address());
    let [mut first, mut second] = [(); 2].map(|()| Site::start(&origin, &shown));
    let acme = acme(&pebble, front.storage.path(), Challenge::Http01);
    front.config.acme = Some(acme.clone());
    front.reload();
    let issued = first.ask_of(acme.clone(), &[NAME]);
    second.ask_of(acme, &[NAME]);
    wait_long("a certificate", || issued.file.path.exists());
    let client = believing(&issued.file.path);
    for site in [&first, &second] {
        wait_long("the certificate is shown", || {
            client.try_connect(site.secure, NAME).is_ok()
        });
    }
    let issued = || [&front, &first, &second].map(|site| site.orders("issued"));
    // The file is there before it is safe on the disk, and only then it is counted.
    wait_long("it is counted", || issued().iter().sum::<f64>() >= 1.0);
    let all = issued();
    assert_eq!(all.iter().sum::<f64>(), 1.0, "{all:?}");
    assert_eq!(all[0], 0.0);
}

#[test]
fn an_authority_that_is_not_there_keeps_nobody_else_from_being_served() {
    let (origin, shown) = (fine(), Authority::new());
    let mut site = Site::start(&origin, &shown);
    let acme = Acme {
        directory_url: format!("https://{}/directory", free_address()),
        email: None,
        storage: file(&site.storage.path().join("acme")),
        challenge: Challenge::Http01,
        ca_file: None,
    };
    // A listener that has nothing else to show.
    let mut alone = site.config.listeners[1].clone();
    alone.name = "alone".to_owned();
    let address = free_address();
    alone.address = address.into();
    let issued = IssuedCertificate::new(&acme, vec![NAME.to_owned()], Span::default());
    alone.tls.as_mut().unwrap().certificates = vec![ListenerCertificate::Issued(issued)];
    site.config.listeners.push(alone);
    let issued = site.ask_of(acme, &[NAME]);
    wait_long("a failure", || site.orders("unreachable") == 1.0);
    let client = TlsClient::new(&shown);
    let mut peer = client.connect(site.secure, "own.example");
    assert_eq!(peer.ask(get("/a")).text(), "/a");
    let error = client.try_connect(address, NAME).err().unwrap().to_string();
    assert!(error.contains("AccessDenied"), "{error}");
    let handshakes = ["sprat_tls_handshakes_total", "result=\"no_certificate\""];
    site.proxy.wait_metric(&handshakes, 1.0);

    // It is noted when to try again, also for the next process.
    let noted = issued.file.path.with_extension("failures.json");
    let noted = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(&noted).unwrap_or_default()).unwrap_or_default()
    };
    wait_long("a note", || noted()["count"] == 1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // Soon, as the time of a machine under load goes.
    assert!(noted()["retry_at_s"].as_u64().unwrap() > now.unwrap().as_secs() - 3600);
    assert!(noted()["error"].as_str().unwrap().contains("refused"));
}

#[test]
fn check_opens_what_a_server_would() {
    let directory = tempfile::tempdir().unwrap();
    let text = |acme: &str, names: &str| {
        format!(
            "version: 1\nlisteners:\n- address: '127.0.0.1:0'\n  tls: {{certificates: [{{acme: \
             [{names}]}}]}}\nclusters: {{farm: {{endpoints: ['127.0.0.1:1']}}}}\nroutes: \
             [{{cluster: farm}}]\nacme: {{directory_url: 'https://a.example/dir', {acme}}}\n"
        )
    };
    let path = directory.path().join("sprat.yaml");
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("plain"), "").unwrap();
    let cases = [
        (format!("storage: {}", at("new")), NAME, None),
        (
            format!("storage: {}", at("no/where")),
            NAME,
            Some("cannot write the storage"),
        ),
        (
            format!("storage: {}", at("plain")),
            NAME,
            Some("it is not a directory"),
        ),
        (
            format!("storage: {}", at("new")),
            "'*.example.org'",
            Some("a wildcard is issued for a record in its zone alone"),
        ),
        (
            format!(
                "storage: {}, challenge: {{command: {}}}",
                at("new"),
                at("plain")
            ),
            "'*.example.org'",
            Some("it is not a program"),
        ),
    ];
    for (acme, names, refusal) in cases {
        std::fs::write(&path, text(&acme, names)).unwrap();
        let output = sprat(&["check", path.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match refusal {
            None => assert!(output.status.success(), "{said}"),
            Some(refusal) => {
                assert!(!output.status.success(), "{acme}");
                assert!(said.contains(refusal), "{said}");
            }
        }
        assert!(
            !Path::new(&at("new")).exists(),
            "looking has made something"
        );
    }
}
