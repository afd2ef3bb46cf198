//! A test in which one of four endpoints fails under load, and comes back.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::*;

/// An origin that can be killed, and started again on the same port.
struct Mortal {
    address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    requests: Arc<AtomicUsize>,
    life: Option<Life>,
}

struct Life {
    over: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    accepting: JoinHandle<()>,
}

impl Mortal {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut own = Self {
            address: listener.local_addr().unwrap(),
            mood: Arc::new(Mutex::new(Mood::Good)),
            requests: Arc::default(),
            life: None,
        };
        own.serve(listener);
        own
    }

    fn serve(&mut self, listener: TcpListener) {
        let (over, open) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (ends, streams) = (Arc::clone(&over), Arc::clone(&open));
        let (mood, requests) = (Arc::clone(&self.mood), Arc::clone(&self.requests));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                let streams: &Mutex<Vec<TcpStream>> = &streams;
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let (mood, requests) = (Arc::clone(&mood), Arc::clone(&requests));
                std::thread::spawn(move || {
                    let mut peer = Peer::new(stream);
                    while peer.try_message(true).is_some() {
                        requests.fetch_add(1, SeqCst);
                        if !answer(&mut peer, "fine", &mood) {
                            return;
                        }
                    }
                });
            }
        });
        self.life = Some(Life {
            over,
            open,
            accepting,
        });
    }

    fn kill(&mut self) {
        let Some(life) = self.life.take() else { return };
        life.over.store(true, SeqCst);
        // Wakes the thread, which closes the listener.
        drop(TcpStream::connect(self.address));
        life.accepting.join().unwrap();
        for stream in life.open.lock().unwrap().iter() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn revive(&mut self) {
        *self.mood.lock().unwrap() = Mood::Good;
        if self.life.is_none() {
            self.serve(TcpListener::bind(self.address).unwrap());
        }
    }

    fn fail(&mut self, fault: Fault) {
        match fault {
            Fault::Killed => self.kill(),
            Fault::In(mood) => *self.mood.lock().unwrap() = mood,
        }
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        *self.mood.lock().unwrap() = Mood::Cuts;
        self.kill();
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    In(Mood),
}

/// Clients that send requests without a pause until told to stop. The requests may be repeated.
/// They count their answers, and keep those that were not 200.
struct Load {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<u16>>>,
}

impl Load {
    fn start(proxy: SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicUsize::new(0));
        let clients = (0..4).map(|_| {
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            std::thread::spawn(move || {
                let mut client = Peer::connect(proxy);
                let mut bad = Vec::new();
                while !over.load(SeqCst) {
                    let status = client.ask(get("/")).status();
                    bad.extend((status != 200).then_some(status));
                    answered.fetch_add(1, SeqCst);
                }
                bad
            })
        });
        let clients = clients.collect();
        Self {
            over,
            answered,
            clients,
        }
    }

    /// Waits for so many further answers.
    fn more(&self, count: usize) {
        let until = self.answered.load(SeqCst) + count;
        wait_for("answers", || self.answered.load(SeqCst) >= until);
    }

    fn stop(self) -> Vec<u16> {
        self.over.store(true, SeqCst);
        let clients = self.clients.into_iter();
        clients.flat_map(|client| client.join().unwrap()).collect()
    }
}

fn one_of_four_fails(fault: Fault) {
    let mut origins: Vec<Mortal> = (0..4).map(|_| Mortal::start()).collect();
    let addresses: Vec<_> = origins.iter().map(|own| own.address).collect();
    let mut config = config(&addresses);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.outlier_detection = Some(OutlierConfig {
            // A machine that is overloaded looks like one more.
            max_ejection_percent: 25,
            ..outliers_for(Duration::from_secs(2))
        });
    });
    let retry = &mut config.routes[0].retry;
    retry
        .retry_on
        .extend([RetryOn::Reset, RetryOn::ServerError]);
    retry.per_try_timeout = Some(ms(1500));
    retry.num_retries = 3;
    let proxy = Proxy::start(&config);
    let load = Load::start(proxy.address);
    let bad = addresses[0].to_string();
    let used = ["sprat_endpoint_used", &bad];
    load.more(100);
    origins[0].fail(fault);
    // What may not be repeated fails until it is ejected, and not once later.
    // An ejection that ends meanwhile (a slow machine) is no proof.
    loop {
        proxy.wait_metric(&used, 0.0);
        let before = proxy.metric(&["sprat_ejections_total"]);
        let mut client = proxy.connect();
        let posts: Vec<u16> = (0..20).map(|_| client.ask(post()).status()).collect();
        let ended = proxy.metric(&used) == 1.0;
        if !ended && proxy.metric(&["sprat_ejections_total"]) == before {
            assert_eq!(posts, [200; 20], "{fault:?}");
            break;
        }
    }
    let had = origins[0].requests.load(SeqCst);
    origins[0].revive();
    wait_for("it to get requests again", || {
        origins[0].requests.load(SeqCst) > had + 20
    });
    assert_eq!(proxy.metric(&used), 1.0);
    load.more(100);
    assert_eq!(load.stop(), [0; 0], "{fault:?}");
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn one_of_four_is_killed() {
    one_of_four_fails(Fault::Killed);
}

#[test]
fn one_of_four_stalls() {
    one_of_four_fails(Fault::In(Mood::Stalls));
}

#[test]
fn one_of_four_answers_500() {
    one_of_four_fails(Fault::In(Mood::Status(500)));
}
