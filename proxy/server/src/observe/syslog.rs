//! A syslog server to which lines are written: a datagram for each line.
//!
//! Over UDP a message is that of RFC 5424. On a local socket it is what syslog(3) sends,
//! without the time, which rsyslog and the journal take from their own clocks there.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::net::UnixDatagram;

use sprat_config::resolved::{Syslog, SyslogAddress};

/// The most bytes of a line; what is longer is cut. A receiver need take no more than 2,048
/// (RFC 5424 6.1), and rsyslog takes 8 KiB unless it is told otherwise.
const LINE_MAX_BYTES: usize = 8_000;

/// The severity of a line that has none of its own: informational.
const INFORMATIONAL: u8 = 6;

/// A writer of lines to a syslog server: its socket, and what each message begins with.
#[derive(Debug)]
pub(crate) struct Messages {
    target: Syslog,
    socket: SyslogSocket,
    host: String,
    /// Whether lines begin with their severity, as for the journal: `<6>`.
    has_severity: bool,
    message: Vec<u8>,
}

#[derive(Debug)]
enum SyslogSocket {
    Local(UnixDatagram),
    Udp(UdpSocket),
}

impl SyslogSocket {
    fn open(address: &SyslogAddress) -> io::Result<Self> {
        Ok(match address {
            SyslogAddress::Local(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Self::Local(socket)
            }
            SyslogAddress::Udp(address) => {
                let any: IpAddr = match address.ip() {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                socket.connect(address)?;
                Self::Udp(socket)
            }
        })
    }

    fn send(&self, message: &[u8]) -> io::Result<usize> {
        match self {
            Self::Local(socket) => socket.send(message),
            Self::Udp(socket) => socket.send(message),
        }
    }
}

impl Messages {
    /// Opens a socket to a server. Lines have severities if they begin with them.
    ///
    /// # Errors
    ///
    /// Fails if there is no server on the local socket, or if no socket can be had.
    pub(crate) fn open(target: &Syslog, has_severity: bool) -> io::Result<Self> {
        // Not from /proc/sys, which systemd's `ProcSubset=pid` hides.
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy();
        let host: String = host.chars().filter(char::is_ascii_graphic).collect();
        Ok(Self {
            target: target.clone(),
            socket: SyslogSocket::open(&target.address)?,
            host: if host.is_empty() {
                "-".to_owned()
            } else {
                host
            },
            has_severity,
            message: Vec::with_capacity(1024),
        })
    }

    /// Makes the message of a line, in place of the one before.
    fn make(&mut self, line: &[u8]) -> io::Result<()> {
        let (severity, line) = match line {
            [b'<', digit @ b'0'..=b'7', b'>', line @ ..] if self.has_severity => {
                (digit - b'0', line)
            }
            _ => (INFORMATIONAL, line),
        };
        let line = line.trim_ascii_start();
        let line = &line[..line.len().min(LINE_MAX_BYTES)];
        let priority = self.target.facility * 8 + severity;
        let (name, process) = (&self.target.app_name, std::process::id());
        self.message.clear();
        match &self.socket {
            SyslogSocket::Local(_) => write!(self.message, "<{priority}>{name}[{process}]: ")?,
            SyslogSocket::Udp(_) => {
                let (now, host) = (jiff::Timestamp::now(), &self.host);
                write!(
                    self.message,
                    "<{priority}>1 {now:.3} {host} {name} {process} - - "
                )?;
            }
        }
        self.message.extend_from_slice(line);
        Ok(())
    }
}

impl Write for Messages {
    /// Sends the first of the lines, and returns how long that was, its end included.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let end = lines.iter().position(|byte| *byte == b'\n');
        let (line, taken) = match end {
            Some(end) => (&lines[..end], end + 1),
            None => (lines, lines.len()),
        };
        if line.is_empty() {
            return Ok(taken);
        }
        self.make(line)?;
        if self.socket.send(&self.message).is_err() {
            // A server that was started anew has another socket under the same name.
            self.socket = SyslogSocket::open(&self.target.address)?;
            self.socket.send(&self.message)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn target(address: SyslogAddress) -> Syslog {
        Syslog {
            address,
            facility: 23,
            app_name: "sprat".to_owned(),
        }
    }

    fn received(from: &UnixDatagram) -> String {
        let mut bytes = [0; 10_000];
        from.set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let count = from.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    #[test]
    fn each_line_is_a_message_on_a_local_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let target = target(SyslogAddress::Local(path.clone()));
        let mut own = Messages::open(&target, true).unwrap();
        let process = std::process::id();
        own.write_all(b"<3>one\n\n<9>two\nthree").unwrap();
        for (priority, text) in [(187, "one"), (190, "<9>two"), (190, "three")] {
            assert_eq!(
                received(&server),
                format!("<{priority}>sprat[{process}]: {text}")
            );
        }
        // What clients choose is no severity of a line.
        let mut access = Messages::open(&target, false).unwrap();
        access.write_all(b"<0>four\n").unwrap();
        assert_eq!(received(&server), format!("<190>sprat[{process}]: <0>four"));
        access.write_all(&[b'a'; 9_000]).unwrap();
        assert_eq!(received(&server).matches('a').count(), LINE_MAX_BYTES + 1);
        // A server that ends, and another in its place.
        drop(server);
        assert!(access.write_all(b"lost\n").is_err());
        std::fs::remove_file(&path).unwrap();
        let server = UnixDatagram::bind(&path).unwrap();
        access.write_all(b"five\n").unwrap();
        assert!(received(&server).ends_with(": five"));
    }

    #[test]
    fn over_udp_messages_are_those_of_rfc_5424() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = target(SyslogAddress::Udp(server.local_addr().unwrap()));
        let mut own = Messages::open(&target, false).unwrap();
        own.write_all(b"GET / 200\n").unwrap();
        let mut bytes = [0; 1_000];
        server
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let count = server.recv(&mut bytes).unwrap();
        let message = str::from_utf8(&bytes[..count]).unwrap();
        let parts: Vec<_> = message.splitn(8, ' ').collect();
        assert_eq!(parts[0], "<190>1", "{message}");
        assert!(parts[1].parse::<jiff::Timestamp>().is_ok(), "{message}");
        assert!(!parts[2].is_empty());
        let process = std::process::id().to_string();
        assert_eq!(parts[3..], ["sprat", &process, "-", "-", "GET / 200"]);
    }
}
