//! The thread that keeps certificates issued and renewed, one through all configurations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder as Thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sprat_config::resolved::{Acme, Config, FileAt, IssuedCertificate, ListenerCertificate};
use sprat_net::background::Background;
use sprat_net::network;
use sprat_net::stamp::Stamp;
use sprat_net::tls::{Answers, Challenges, check_issued};
use sprat_net::writable::replaceable;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use x509_parser::pem::Pem;

use crate::answers;
use crate::issue::{Failure, issue};
use crate::metrics::{AcmeView, Stats};
use crate::schedule::{Cause, Validity, may_retry, wait_s};
use crate::storage::{self, Failures, Storage};

/// The time between two looks at the storage.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The state that workers and metrics share with the thread, kept through all configurations.
#[derive(Debug, Default)]
pub struct Shared {
    /// The answers that workers give to the authority's challenges.
    pub challenges: Arc<Challenges>,
    stats: Arc<Stats>,
}

impl Shared {
    /// Returns the source of ACME's metrics; none if no authority is configured.
    pub fn view(&self, config: &Config) -> Option<AcmeView> {
        let view = || AcmeView(Arc::clone(&self.stats));
        config.acme.is_some().then(view)
    }
}

/// The certificates that a configuration wants from an authority.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    acme: Acme,
    /// The certificates without repetition.
    certificates: Vec<IssuedCertificate>,
}

impl Wanted {
    fn of(config: &Config) -> Option<Self> {
        let acme = config.acme.clone()?;
        let tls = config.listeners.iter().filter_map(|own| own.tls.as_ref());
        let mut certificates: Vec<IssuedCertificate> = Vec::new();
        for certificate in tls.flat_map(|tls| &tls.certificates) {
            if let ListenerCertificate::Issued(own) = certificate
                && certificates.iter().all(|known| known.file != own.file)
            {
                certificates.push(own.clone());
            }
        }
        Some(Self { acme, certificates })
    }
}

/// The handle of the thread that keeps certificates issued.
pub struct Keeper {
    wanted: watch::Sender<Option<Wanted>>,
    shared: Arc<Shared>,
    thread: Option<Background>,
}

/// A thread that waits for certificates to keep, if one is needed. Dropping this ends it.
pub struct PreparedThread(Option<Background>);

impl Keeper {
    /// Starts keeping the certificates that a configuration wants.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub fn start(config: &Config, shared: &Arc<Shared>) -> io::Result<Self> {
        let mut own = Self {
            wanted: watch::Sender::new(None),
            shared: Arc::clone(shared),
            thread: None,
        };
        let prepared = own.prepare(config)?;
        own.commit(config, prepared);
        Ok(own)
    }

    /// Starts a thread, which waits, if the configuration needs one and there is none.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub fn prepare(&self, config: &Config) -> io::Result<PreparedThread> {
        if self.thread.is_some() || config.acme.is_none() || network::is_simulated() {
            return Ok(PreparedThread(None));
        }
        let (end, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (wanted, shared) = (self.wanted.subscribe(), Arc::clone(&self.shared));
        let work = async move {
            tokio::select! {
                () = keep(wanted, &shared) => {}
                // An error is the end, too.
                _ = ended => {}
            }
        };
        let run = move || {
            runtime.block_on(work);
            // A name may still be looked up.
            runtime.shutdown_background();
        };
        let thread = Thread::new().name("acme".to_owned()).spawn(run)?;
        Ok(PreparedThread(Some(Background::of(thread, end))))
    }

    /// Goes on with the certificates that a configuration wants. A failed one is tried again at
    /// once: the operator may have mended the cause.
    pub fn commit(&mut self, config: &Config, PreparedThread(thread): PreparedThread) {
        self.thread = self.thread.take().or(thread);
        self.wanted.send_replace(Wanted::of(config));
    }

    /// Ends the thread, and waits for its end. The next process asks again for a certificate that
    /// was not issued yet.
    pub fn join(self) {
        self.thread.into_iter().for_each(Background::join);
    }
}

/// Keeps certificates issued as each configuration wants them, until the server ends.
async fn keep(mut wanted: watch::Receiver<Option<Wanted>>, shared: &Shared) {
    // A process that is started again and again is not to ask each time; a reload asks.
    let mut asks_at_once = false;
    loop {
        let present = wanted.borrow_and_update().clone();
        if let Some(present) = &present {
            let storage = Storage::of(&present.acme);
            let mut kept = Kept::new(present, &storage, shared, asks_at_once);
            tokio::select! {
                () = kept.run(&wanted) => {}
                () = give_answers(&storage, &shared.challenges) => {}
            }
            shared.challenges.replace(Answers::default());
            asks_at_once = true;
        } else if wanted.changed().await.is_err() {
            return;
        }
        if wanted.has_changed().is_err() {
            return;
        }
    }
}

/// Copies the answers in the storage to the workers, every second.
async fn give_answers(storage: &Storage, challenges: &Challenges) {
    let mut gave_any = false;
    loop {
        let answers = answers::read(storage);
        let has_any = !answers.tokens.is_empty() || !answers.certificates.is_empty();
        if has_any || gave_any {
            challenges.replace(answers);
        }
        gave_any = has_any;
        sleep(LOOK_AGAIN).await;
    }
}

/// The facts that are known of a certificate's file.
struct Known {
    /// The stamp of the file; none if there is no file, or it could not be read.
    stamp: Option<Stamp>,
    /// The validity of the file's certificate; none if nothing in it can be used.
    validity: Option<Validity>,
    renew_at_s: i64,
}

impl Known {
    fn of(file: &FileAt) -> Self {
        // Before it is read: a change meanwhile is seen the next time.
        let stamp = Stamp::of(&file.path).ok();
        let read = storage::read(&file.path);
        // It may be for the lack of a descriptor, and so not for long: the next look reads again.
        let stamp = stamp.filter(|_| read.is_ok());
        let text = read.unwrap_or_default();
        let usable = check_issued(file, &text).ok();
        let validity = usable.and_then(|()| validity(&text));
        Self {
            stamp,
            validity,
            renew_at_s: validity.map_or(0, |own| own.renew_at_s(fastrand::u64(..))),
        }
    }
}

/// Returns the validity of the first certificate in a text.
fn validity(text: &[u8]) -> Option<Validity> {
    let mut found = Pem::iter_from_buffer(text).filter_map(Result::ok);
    let first = found.find(|part| part.label == "CERTIFICATE")?;
    let parsed = first.parse_x509().ok()?;
    Some(Validity {
        not_before_s: parsed.validity().not_before.timestamp(),
        not_after_s: parsed.validity().not_after.timestamp(),
    })
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970: nothing is valid, and the authority says so.
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

/// The state of the certificates of one configuration.
struct Kept<'a> {
    wanted: &'a Wanted,
    storage: &'a Storage,
    shared: &'a Shared,
    known: HashMap<PathBuf, Known>,
    /// The files of certificates that are asked for at once, whatever failed before.
    at_once: HashSet<PathBuf>,
    /// The failures under this configuration, by the certificate's file. They are in the storage
    /// too, unless it cannot be written: the authority must not be asked more often for that.
    failed: HashMap<PathBuf, Failures>,
    /// Whether the log says that the storage cannot be used.
    complained: bool,
}

impl<'a> Kept<'a> {
    fn new(wanted: &'a Wanted, storage: &'a Storage, shared: &'a Shared, at_once: bool) -> Self {
        let all = wanted.certificates.iter().filter(|_| at_once);
        Self {
            wanted,
            storage,
            shared,
            known: HashMap::new(),
            at_once: all.map(|own| own.file.path.clone()).collect(),
            failed: HashMap::new(),
            complained: false,
        }
    }

    /// Asks for each certificate when it is due, until another configuration takes over or the
    /// server ends.
    async fn run(&mut self, wanted: &watch::Receiver<Option<Wanted>>) {
        loop {
            self.tell();
            for certificate in &self.wanted.certificates {
                if wanted.has_changed().unwrap_or(true) {
                    return;
                }
                match self.ask(certificate).await {
                    Ok(()) => self.complained = false,
                    Err(error) if !self.complained => {
                        let path = self.wanted.acme.storage.path.display();
                        tracing::error!(%error, "the storage of ACME cannot be used: {path}");
                        self.complained = true;
                    }
                    Err(_) => {}
                }
            }
            if wanted.has_changed().unwrap_or(true) {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Updates the expiries of the certificates in the metrics.
    fn tell(&mut self) {
        let mut all = BTreeMap::new();
        for certificate in &self.wanted.certificates {
            let validity = self.look(certificate).validity;
            let not_after_s = validity.map_or(0, |own| own.not_after_s);
            // Of two with the same first name the one that is over first.
            let told = all.entry(certificate.names[0].clone());
            let told = told.or_insert(not_after_s);
            *told = not_after_s.min(*told);
        }
        self.shared.stats.tell(all);
    }

    /// Returns the facts about the certificate's file, read again if it has changed.
    fn look(&mut self, certificate: &IssuedCertificate) -> &Known {
        let path = &certificate.file.path;
        let stamp = Stamp::of(path).ok();
        let known = self.known.get(path);
        if known.is_none_or(|known| known.stamp != stamp) {
            self.known
                .insert(path.clone(), Known::of(&certificate.file));
        }
        &self.known[path]
    }

    /// Returns whether a certificate must be asked for now.
    fn is_due(&mut self, certificate: &IssuedCertificate) -> bool {
        let (now_s, path) = (now_s(), &certificate.file.path);
        if self.look(certificate).renew_at_s > now_s {
            // Another process may have had it: what failed before does not count any more.
            self.failed.remove(path);
            return false;
        }
        if self.at_once.contains(path) {
            return true;
        }
        let is_over = |own: &Failures| may_retry(own.retry_at_s, now_s);
        let own = self.failed.get(path);
        own.is_none_or(is_over) && is_over(&self.storage.failures(certificate))
    }

    /// Asks for a certificate if it is due, and no other process is asking.
    ///
    /// # Errors
    ///
    /// The storage cannot be used.
    async fn ask(&mut self, certificate: &IssuedCertificate) -> io::Result<()> {
        if !self.is_due(certificate) {
            return Ok(());
        }
        self.storage.create()?;
        let Some(lock) = self.storage.lock()? else {
            return Ok(());
        };
        // Another process may have had it meanwhile.
        if !self.is_due(certificate) {
            return Ok(());
        }
        self.storage.clear_answers(&lock);
        self.at_once.remove(&certificate.file.path);
        let names = certificate.names.join(" ");
        let directory = &self.wanted.acme.directory_url;
        tracing::info!(names, directory, "asking for a certificate");
        let issued = match replaceable(&certificate.file.path) {
            Ok(()) => issue(&self.wanted.acme, certificate, self.storage).await,
            // The authority counts what it issues, also if it is lost.
            Err(what) => Err(Failure {
                cause: Cause::Local,
                error: format!("cannot save it: {what}"),
            }),
        };
        self.settle(certificate, issued)
    }

    /// Saves the certificate that was issued, or records the failure.
    ///
    /// # Errors
    ///
    /// The record of the failure cannot be written.
    fn settle(
        &mut self,
        certificate: &IssuedCertificate,
        issued: Result<String, Failure>,
    ) -> io::Result<()> {
        let saved = issued.and_then(|text| self.save(certificate, &text));
        match saved {
            Ok(()) => {
                self.shared.stats.count(None);
                self.failed.remove(&certificate.file.path);
                self.storage.forget_failures(certificate);
                let names = certificate.names.join(" ");
                tracing::info!(names, "a certificate was issued");
                Ok(())
            }
            Err(failure) => self.note(certificate, &failure),
        }
    }

    /// Saves a certificate that was issued, once it is found usable and not yet due for renewal.
    fn save(&mut self, certificate: &IssuedCertificate, text: &str) -> Result<(), Failure> {
        let failure = |cause, error: String| Failure { cause, error };
        check_issued(&certificate.file, text.as_bytes())
            .map_err(|error| failure(Cause::Refused, format!("what was issued: {error}")))?;
        let saved = self.storage.save(certificate, text.as_bytes());
        saved.map_err(|error| failure(Cause::Local, format!("cannot save it: {error}")))?;
        // It would be asked for again and again.
        match self.look(certificate).renew_at_s > now_s() {
            true => Ok(()),
            false => {
                let error = "what was issued is over already: is this machine's clock right?";
                Err(failure(Cause::Local, error.to_owned()))
            }
        }
    }

    /// Records that a certificate was not issued, and the time of the next attempt.
    fn note(&mut self, certificate: &IssuedCertificate, failure: &Failure) -> io::Result<()> {
        let path = &certificate.file.path;
        let own = self.failed.get(path).map_or(0, |own| own.count);
        let before = self.storage.failures(certificate).count.max(own);
        let count = before.saturating_add(1);
        let wait_s = wait_s(count, failure.cause, fastrand::u64(..));
        self.shared.stats.count(Some(failure.cause));
        let (names, error) = (
            certificate.names.join(" "),
            failure.error.replace('\n', " "),
        );
        let validity = self.look(certificate).validity;
        let left_s = validity.map_or(0, |own| (own.not_after_s - now_s()).max(0));
        tracing::warn!(
            names,
            error,
            failures = count,
            retry_in_s = wait_s,
            present_valid_for_s = left_s,
            "no certificate was issued"
        );
        let failures = Failures {
            count,
            retry_at_s: now_s() + wait_s,
            error,
        };
        // First of all here: the storage may be what has failed.
        self.failed.insert(path.clone(), failures);
        self.storage.save_failures(certificate, &self.failed[path])
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use sprat_config::resolved::{Challenge, FileAt, Span};

    use super::*;

    const NAME: &str = "www.example.org";

    /// A certificate wanted from an authority that does not exist, and its storage.
    struct Site {
        wanted: Wanted,
        storage: Storage,
        shared: Shared,
        _directory: tempfile::TempDir,
    }

    impl Site {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let acme = Acme {
                directory_url: "https://127.0.0.1:1/directory".to_owned(),
                email: None,
                storage: FileAt {
                    path: directory.path().join("acme"),
                    span: Span::default(),
                },
                challenge: Challenge::Http01,
                ca_file: None,
            };
            let names = vec![NAME.to_owned()];
            let certificates = vec![IssuedCertificate::new(&acme, names, Span::default())];
            let storage = Storage::of(&acme);
            storage.create().unwrap();
            Self {
                wanted: Wanted { acme, certificates },
                storage,
                shared: Shared::default(),
                _directory: directory,
            }
        }

        fn certificate(&self) -> &IssuedCertificate {
            &self.wanted.certificates[0]
        }

        fn kept(&self) -> Kept<'_> {
            Kept::new(&self.wanted, &self.storage, &self.shared, false)
        }

        /// Makes the file of failures impossible to save: a directory is in its place, even for
        /// root.
        fn block_failures(&self) -> PathBuf {
            let path = self.certificate().file.path.with_extension("failures.json");
            fs::create_dir(&path).unwrap();
            path
        }

        /// Makes the certificate impossible to save: a directory is in its place.
        fn block_certificate(&self) -> PathBuf {
            let path = self.certificate().file.path.clone();
            fs::create_dir(&path).unwrap();
            path
        }
    }

    /// Creates a chain with its key, as an authority could issue it.
    fn issued() -> String {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([NAME.to_owned()]).unwrap();
        key.serialize_pem() + &parameters.self_signed(&key).unwrap().pem()
    }

    #[tokio::test]
    async fn a_failure_that_cannot_be_saved_has_its_pause_all_the_same() {
        let site = Site::new();
        let (certificate, mut kept) = (site.certificate(), site.kept());
        let path = &certificate.file.path;
        site.block_failures();
        assert!(kept.is_due(certificate));
        kept.ask(certificate).await.unwrap_err();
        let first = kept.failed[path].clone();
        assert_eq!(first.count, 1);
        assert!(!kept.is_due(certificate));
        // The next looks do not ask the authority.
        kept.ask(certificate).await.unwrap();
        assert_eq!(kept.failed[path], first);

        kept.failed.get_mut(path).unwrap().retry_at_s = now_s();
        kept.ask(certificate).await.unwrap_err();
        let second = &kept.failed[path];
        assert_eq!(second.count, 2);
        assert!(second.retry_at_s > first.retry_at_s, "{second:?}");
        assert!(!kept.is_due(certificate));

        // Another process has had it: nothing failed since.
        let text = issued();
        site.storage.save(certificate, text.as_bytes()).unwrap();
        assert!(!kept.is_due(certificate));
        assert!(kept.failed.is_empty());
    }

    #[test]
    fn a_certificate_that_cannot_be_saved_has_a_growing_pause() {
        let site = Site::new();
        let (certificate, mut kept) = (site.certificate(), site.kept());
        let path = &certificate.file.path;
        let blocked = [site.block_failures(), site.block_certificate()];
        let mut retry_at_s = 0;
        for count in 1..=3 {
            kept.settle(certificate, Ok(issued())).unwrap_err();
            let failed = &kept.failed[path];
            assert_eq!(failed.count, count);
            assert!(failed.error.starts_with("cannot save it: "), "{failed:?}");
            assert!(failed.retry_at_s > retry_at_s, "{failed:?}");
            retry_at_s = failed.retry_at_s;
            assert!(!kept.is_due(certificate));
        }
        for path in blocked {
            fs::remove_dir(path).unwrap();
        }
        assert!(!kept.is_due(certificate));
        kept.settle(certificate, Ok(issued())).unwrap();
        assert!(kept.failed.is_empty());
        assert!(!kept.is_due(certificate));
    }

    #[tokio::test]
    async fn nothing_is_asked_for_that_could_not_be_saved() {
        let site = Site::new();
        let (certificate, mut kept) = (site.certificate(), site.kept());
        let blocked = site.block_certificate();
        kept.ask(certificate).await.unwrap();
        let failed = site.storage.failures(certificate);
        assert_eq!(failed.error, "cannot save it: it is a directory");
        assert_eq!(kept.failed[&blocked], failed);
        assert!(!kept.is_due(certificate));
        // Nor does the next process ask.
        assert!(!site.kept().is_due(certificate));
    }

    #[test]
    fn a_time_to_retry_from_a_clock_that_was_ahead_is_past() {
        let site = Site::new();
        let certificate = site.certificate();
        for (after_s, is_due) in [(3600, false), (10 * 365 * 86_400, true)] {
            let failed = Failures {
                count: 1,
                retry_at_s: now_s() + after_s,
                error: "unreachable".to_owned(),
            };
            let (mut kept, path) = (site.kept(), certificate.file.path.clone());
            kept.failed.insert(path, failed.clone());
            assert_eq!(kept.is_due(certificate), is_due, "{failed:?}");
            site.storage.save_failures(certificate, &failed).unwrap();
            assert_eq!(site.kept().is_due(certificate), is_due, "{failed:?}");
            site.storage.forget_failures(certificate);
        }
    }

    #[test]
    fn a_certificate_for_another_key_is_none() {
        let site = Site::new();
        let (certificate, mut kept) = (site.certificate(), site.kept());
        let path = &certificate.file.path;
        let (own, other) = (issued(), issued());
        let key = other.split_inclusive("-----END PRIVATE KEY-----\n").next();
        let chain = own.split_inclusive("-----END PRIVATE KEY-----\n").nth(1);
        let mixed = key.unwrap().to_owned() + chain.unwrap();
        kept.settle(certificate, Ok(mixed.clone())).unwrap();
        let failed = &kept.failed[path];
        assert!(failed.error.starts_with("what was issued: "), "{failed:?}");
        assert!(!path.exists());
        kept.failed.clear();
        site.storage.forget_failures(certificate);
        // Nor is one of the operator's own, which no listener shows.
        site.storage.save(certificate, mixed.as_bytes()).unwrap();
        assert!(kept.is_due(certificate));
        site.storage.save(certificate, own.as_bytes()).unwrap();
        assert!(!kept.is_due(certificate));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_read_again_at_the_next_look() {
        let site = Site::new();
        let (certificate, mut kept) = (site.certificate(), site.kept());
        let path = site.block_certificate();
        assert!(Stamp::of(&path).is_ok());
        assert_eq!(kept.look(certificate).validity, None);
        assert_eq!(kept.known[&path].stamp, None);
        // One that is only damaged stays as it is known.
        fs::remove_dir(&path).unwrap();
        site.storage.save(certificate, b"damaged").unwrap();
        assert_eq!(kept.look(certificate).validity, None);
        assert_eq!(kept.known[&path].stamp, Stamp::of(&path).ok());
    }
}
