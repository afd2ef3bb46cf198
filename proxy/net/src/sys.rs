//! The one module with unsafe code: the kernel's answers about TCP connections, and descriptors
//! of our own on tokio's reactor.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The start of Linux's `struct tcp_info` (include/uapi/linux/tcp.h), up to
/// what Sprat reads. The kernel fills as much of it as it knows; the rest
/// stays zero.
#[repr(C)]
#[expect(
    missing_docs,
    reason = "the fields are the kernel's, and its header explains them"
)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// The state of the connection, a number of the kernel (`TCP_ESTABLISHED` is 1).
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub window_scales: u8,
    /// Bit 0: the application, not the network, limits the delivery rate.
    pub flags: u8,
    pub rto_us: u32,
    pub ato_us: u32,
    /// Bytes of payload in a full segment.
    pub snd_mss: u32,
    pub rcv_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent_ms: u32,
    pub last_ack_sent_ms: u32,
    pub last_data_recv_ms: u32,
    /// The time since the last acknowledgement came.
    pub last_ack_recv_ms: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub snd_ssthresh: u32,
    /// The congestion window, in segments.
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt_us: u32,
    pub rcv_space: u32,
    /// Segments that were sent again since the beginning.
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    /// Bytes of payload that the peer has acknowledged (RFC 4898 tcpEStatsAppHCThruOctetsAcked).
    pub bytes_acked: u64,
    pub bytes_received: u64,
    /// Segments sent, pure acknowledgements included.
    pub segs_out: u32,
    pub segs_in: u32,
    /// Bytes written and not yet sent.
    pub notsent_bytes: u32,
    /// The least round-trip time of late, in microseconds.
    pub min_rtt_us: u32,
    pub data_segs_in: u32,
    /// Segments sent that carried payload (RFC 4898 tcpEStatsPerfDataSegsOut).
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time_us: u64,
    /// The time in which the peer's window kept bytes from being sent, in microseconds.
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes of payload that were sent again (RFC 4898 tcpEStatsPerfOctetsRetrans).
    pub bytes_retrans: u64,
}

/// Takes over a descriptor that this process was started with, and does not let it be inherited
/// further. To be called once for each.
pub(crate) fn inherit(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes any number; one that is no descriptor is an error.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the parent process has made it over to this one: nothing else in
    // here knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads `TCP_INFO` of a connected socket.
pub fn tcp_info(socket: &impl AsRawFd) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut len = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: `info` is plain integers, valid for any bytes, and the kernel
    // writes at most `len` bytes to it; both outlive the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if outcome == 0 {
        Ok(info)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the memory of a socket's packets that were sent and are still in the host, in its
/// queueing discipline or its device: `SK_MEMINFO_WMEM_ALLOC` of `SO_MEMINFO` (Linux 4.12).
pub fn sent_memory(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut told = [0_u32; SENT_MEMORY + 1];
    let mut len = size_of_val(&told) as libc::socklen_t;
    // SAFETY: `told` is plain integers, valid for any bytes, and the kernel writes at most `len`
    // bytes to it; both outlive the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            told.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if outcome == 0 {
        Ok(told[SENT_MEMORY])
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The place of `SK_MEMINFO_WMEM_ALLOC` in what `SO_MEMINFO` tells (include/uapi/linux/sock_diag.h).
const SENT_MEMORY: usize = libc::SK_MEMINFO_WMEM_ALLOC as usize;

/// Returns the bytes written to a connected TCP socket that its peer has not acknowledged
/// (`SIOCOUTQ`, tcp(7)); the end of sending counts as one.
pub fn unacknowledged(socket: RawFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes an integer to `bytes`, which outlives the call; a number
    // that is no descriptor is an error.
    let outcome = unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut bytes) };
    if outcome == 0 {
        Ok(u32::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the bytes written to a connected TCP socket that have not been sent (`SIOCOUTQNSD`,
/// tcp(7)).
pub fn unsent(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes an integer to `bytes`, which outlives the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCOUTQNSD, &raw mut bytes) };
    if outcome == 0 {
        Ok(u32::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The `ioctl` request of Linux's include/uapi/linux/sockios.h, which the libc crate lacks.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

/// Returns whether a socket is writable now; if not, the kernel tells the reactor once it is.
pub fn is_writable(socket: &impl AsRawFd) -> io::Result<bool> {
    let mut asked = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: `asked` is one entry, which outlives the call; with no time-out it returns
    // at once.
    let outcome = unsafe { libc::poll(&raw mut asked, 1, 0) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    // A connection that has failed is writable, too, and the write says so.
    Ok(outcome > 0)
}

/// Bounds how fast TCP sends on a socket (`SO_MAX_PACING_RATE`), in bytes per
/// second.
pub fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    // SAFETY: the kernel reads the eight bytes of `bytes_per_s`, which outlives
    // the call.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the traffic class octet of the packets that opened a TCP connection. `IP_RECVTOS` and
/// `IP_PKTOPTIONS` (ip(7)) tell it, and their like for IPv6.
pub fn received_tos(socket: BorrowedFd<'_>, is_ipv6: bool) -> io::Result<u8> {
    let (level, receive, options) = match is_ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_RECVTOS, IP_PKTOPTIONS),
        true => (
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVTCLASS,
            IPV6_2292PKTOPTIONS,
        ),
    };
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads the bytes of `on`, which outlives the call.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            receive,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut control = ControlBuffer([0; CONTROL_BYTES]);
    let mut len = CONTROL_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `control`; both outlive
    // the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            options,
            (&raw mut control.0).cast(),
            &raw mut len,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    let told = control.0.get(..len as usize).unwrap_or_default();
    traffic_class(told).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The socket options of Linux's include/uapi/linux/in.h and in6.h, which the libc crate lacks.
const IP_PKTOPTIONS: libc::c_int = 9;
const IPV6_2292PKTOPTIONS: libc::c_int = 6;

/// The room for a TCP socket's control messages, in bytes.
const CONTROL_BYTES: usize = 256;

/// A buffer aligned as `struct cmsghdr` is.
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL_BYTES]);

/// Finds the traffic class among control messages. Each message is a length, a level and a type,
/// then data, aligned to a word.
fn traffic_class(mut told: &[u8]) -> Option<u8> {
    const WORD: usize = size_of::<usize>();
    const HEAD: usize = WORD + 8;
    let int = |bytes: &[u8]| Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?));
    loop {
        let len = usize::from_ne_bytes(told.get(..WORD)?.try_into().ok()?);
        let (level, kind) = (int(&told[WORD..])?, int(told.get(WORD + 4..)?)?);
        let data = told.get(HEAD..len)?;
        match (level, kind) {
            // One octet, unlike the other.
            (libc::IPPROTO_IP, libc::IP_TOS) => return data.first().copied(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => return u8::try_from(int(data)?).ok(),
            _ => told = told.get(len.next_multiple_of(WORD)..)?,
        }
    }
}

/// Makes the allocator return memory that this thread has freed to the kernel now, rather than
/// when it comes by it again.
pub fn release_free_memory() {
    // SAFETY: it takes a flag, and looks at nothing but the allocator's own structures.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Registers a descriptor for reading with the reactor of the calling task's runtime.
pub fn watch_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as it
    // lives, and it lives as long as the `AsyncFd` that takes it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    /// Returns the two ends of a connection: the server has sent 5,000 bytes, and all of them are
    /// acknowledged.
    fn connection_that_has_carried_5000_bytes() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 5000]).unwrap();
        client.read_exact(&mut [0; 5000]).unwrap();
        // The answer carries the acknowledgement. Until then it may be on its way.
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0; 1]).unwrap();
        (server, client)
    }

    #[test]
    fn tells_what_was_sent_and_acknowledged() {
        let (server, _client) = connection_that_has_carried_5000_bytes();
        let info = tcp_info(&server).unwrap();
        assert_eq!(info.bytes_sent, 5000);
        assert_eq!(info.bytes_acked, 5000);
        assert_eq!(info.notsent_bytes, 0);
        assert!(info.segs_out >= 1 && info.snd_mss > 500 && info.min_rtt_us > 0);
    }

    #[test]
    fn what_has_arrived_over_loopback_is_not_in_the_host() {
        let (server, _client) = connection_that_has_carried_5000_bytes();
        assert_eq!(sent_memory(&server).unwrap(), 0);
    }

    #[test]
    fn tells_how_a_connection_was_marked() {
        use socket2::{Domain, Socket, Type};
        for (address, domain) in [("127.0.0.1:0", Domain::IPV4), ("[::1]:0", Domain::IPV6)] {
            let Ok(listener) = TcpListener::bind(address) else {
                // A machine without IPv6.
                continue;
            };
            let is_ipv6 = domain == Domain::IPV6;
            for tos in [0, 0xb8] {
                let client = Socket::new(domain, Type::STREAM, None).unwrap();
                if is_ipv6 {
                    client.set_tclass_v6(tos).unwrap();
                } else {
                    client.set_tos_v4(tos).unwrap();
                }
                client
                    .connect(&listener.local_addr().unwrap().into())
                    .unwrap();
                let (server, _) = listener.accept().unwrap();
                let received = received_tos(server.as_fd(), is_ipv6).unwrap();
                assert_eq!(u32::from(received), tos, "{address}");
            }
        }
    }

    #[test]
    fn an_unconnected_descriptor_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(tcp_info(&file).is_err());
    }
}
