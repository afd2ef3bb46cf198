//! A name server whose answers a test can change.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::TXT;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use sprat_config::resolved::{Dns, DnsType, LookupFamily};

use super::*;

/// A name server on UDP. It answers with the records that a test has set, and with `NXDOMAIN` to
/// all other questions.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

#[derive(Default)]
struct Zone {
    /// The addresses of names, each with its time to live in seconds.
    names: HashMap<Name, (u32, Vec<IpAddr>)>,
    fails: bool,
    /// The type of records for which questions are answered with `SERVFAIL`.
    fails_for: Option<RecordType>,
    questions: usize,
    /// The directory that has a file for each name with texts, a text a line.
    texts: Option<PathBuf>,
}

impl NameServer {
    pub(crate) fn start() -> Self {
        // Not of the ports that outgoing connections get: `serve_tcp` wants the same of TCP.
        let bind = || UdpSocket::bind(free_address()).ok();
        let socket = std::iter::repeat_with(bind).flatten().next().unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone::default()));
        let known = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let question = Message::from_vec(&buffer[..length]).unwrap();
                let answer = known.lock().unwrap().answer(&question);
                let _ = socket.send_to(&answer.to_vec().unwrap(), from);
            }
        });
        Self { address, zone }
    }

    /// Starts to answer on TCP too, at the same port.
    pub(crate) fn serve_tcp(&self) {
        let listener = TcpListener::bind(self.address).unwrap();
        let zone = Arc::clone(&self.zone);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let zone = Arc::clone(&zone);
                std::thread::spawn(move || answer_all(stream, &zone));
            }
        });
    }

    /// Sets the addresses of a name.
    pub(crate) fn set(&self, name: &str, ttl_s: u32, addresses: &[IpAddr]) {
        let name = Name::from_ascii(format!("{name}.")).unwrap();
        let mut zone = self.zone.lock().unwrap();
        zone.names.insert(name, (ttl_s, addresses.to_vec()));
    }

    /// Sets the directory of texts (TXT): a name with a file there has the file's lines.
    pub(crate) fn set_texts(&self, directory: &Path) {
        self.zone.lock().unwrap().texts = Some(directory.to_owned());
    }

    /// Sets whether the server answers `SERVFAIL` to everything.
    pub(crate) fn fail(&self, fails: bool) {
        self.zone.lock().unwrap().fails = fails;
    }

    /// Sets whether the server answers `SERVFAIL` to questions for addresses of IPv6.
    pub(crate) fn fail_v6(&self, fails: bool) {
        self.zone.lock().unwrap().fails_for = fails.then_some(RecordType::AAAA);
    }

    /// Returns the number of questions that were asked.
    pub(crate) fn questions(&self) -> usize {
        self.zone.lock().unwrap().questions
    }

    /// Returns the settings of a resolver that asks this server alone, as often as it likes.
    pub(crate) fn dns(&self) -> Dns {
        Dns {
            resolvers: Some(vec![self.address]),
            min_ttl: Duration::from_millis(20),
            jitter_percent: 0,
            failure_base_interval: Duration::from_millis(20),
            failure_max_interval: Duration::from_millis(20),
            ..dns()
        }
    }
}

/// Answers the questions on a connection, each of which follows its length (RFC 1035 4.2.2).
fn answer_all(mut stream: TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut buffer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut buffer)?;
        let question = Message::from_vec(&buffer).unwrap();
        let answer = zone.lock().unwrap().answer(&question).to_vec().unwrap();
        let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &answer].concat())?;
    }
}

impl Zone {
    fn answer(&mut self, question: &Message) -> Message {
        self.questions += 1;
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        let query = question.queries[0].clone();
        answer.add_query(query.clone());
        if query.query_type() == RecordType::TXT {
            let lines = self.texts.as_ref().map(|directory| {
                let name = query.name().to_ascii().to_lowercase();
                std::fs::read_to_string(directory.join(name.trim_end_matches('.')))
            });
            let lines = lines.and_then(Result::ok).unwrap_or_default();
            answer.add_answers(lines.lines().map(|line| {
                let text = TXT::new(vec![line.to_owned()]);
                Record::from_rdata(query.name().clone(), 1, RData::TXT(text))
            }));
            return answer;
        }
        match self.names.get(query.name()) {
            _ if self.fails || self.fails_for == Some(query.query_type()) => {
                answer.metadata.response_code = ResponseCode::ServFail;
            }
            None => answer.metadata.response_code = ResponseCode::NXDomain,
            Some((ttl_s, addresses)) => {
                let kind = |ip: &&IpAddr| match query.query_type() {
                    RecordType::A => ip.is_ipv4(),
                    RecordType::AAAA => ip.is_ipv6(),
                    _ => false,
                };
                answer.add_answers(
                    addresses.iter().filter(kind).map(|ip| {
                        Record::from_rdata(query.name().clone(), *ttl_s, RData::from(*ip))
                    }),
                );
            }
        }
        answer
    }
}

/// Returns the settings of a cluster whose configuration says nothing of names.
pub(crate) fn dns() -> Dns {
    Dns {
        discovery: DnsType::Strict,
        resolvers: None,
        lookup_family: LookupFamily::V4Preferred,
        respect_dns_ttl: true,
        refresh_rate: Duration::from_secs(5),
        min_ttl: Duration::from_secs(1),
        max_ttl: Duration::from_secs(30),
        jitter_percent: 10,
        failure_base_interval: Duration::from_secs(1),
        failure_max_interval: Duration::from_secs(30),
        max_stale: None,
        timeout: Duration::from_secs(5),
        max_addresses: 64,
    }
}

/// Returns the address 127.0.0.`number`.
pub(crate) fn loopback(number: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, number])
}

/// Opens listening sockets on the same port of 127.0.0.1, 127.0.0.2 and so on.
pub(crate) fn listeners(count: u8) -> Vec<TcpListener> {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others = (2..=count).map(|number| TcpListener::bind((loopback(number), port)));
        // Somebody else may have the port on one of them.
        if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
            return [first].into_iter().chain(others).collect();
        }
    }
}
