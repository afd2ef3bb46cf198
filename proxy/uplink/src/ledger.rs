//! A connection's account with the uplink: what was debited for it, set against what the kernel
//! says has left.
//!
//! Grants are debited by a model of what they cost on the wire. Pure acknowledgements of an
//! upload, retransmissions and writes that share a segment are known to the kernel alone. The
//! kernel is asked every so many bytes, so that the difference is small each time. Bytes that
//! left long before they became known count, and delay no response: the link has had the time to
//! carry them.

use std::time::Duration;

use sprat_net::sys::TcpInfo;
use sprat_scheduler::{Time, WireCost};

/// The bytes of a SYN-ACK with Linux's options, beyond a segment's overhead.
pub(super) const SYN_ACK_OPTIONS: u64 = 8;

/// The time for which bytes that have left may still be on their way when that becomes known.
pub(super) const HORIZON: Duration = Duration::from_millis(250);

/// The bytes read or written after which the kernel is asked at the latest: their
/// acknowledgements come to 3 KB.
const MOVED_MAX: u64 = 64 << 10;

/// The bytes read or written after which the kernel is asked if [`HORIZON`] is over. It is not
/// asked for fewer, so that small requests make no system call of their own.
const MOVED_LEAST: u64 = 16 << 10;

/// A connection's account, in bytes on the wire.
#[derive(Debug)]
pub(super) struct Ledger {
    debited: u64,
    settled_at: Time,
    /// The bytes read and written since the last settlement.
    moved: u64,
}

/// The corrections of a settlement, in bytes on the wire; negative if too much was debited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// The bytes that left just now, with which the link is busy.
    pub(super) present: i64,
    /// The bytes that left long ago, or beyond what the link can have carried since.
    pub(super) past: i64,
}

impl Ledger {
    /// Creates the account of a connection that has just been accepted.
    pub(super) fn new(now: Time) -> Self {
        Self {
            debited: 0,
            settled_at: now,
            moved: 0,
        }
    }

    /// Notes that the uplink was debited for the connection.
    pub(super) fn debit(&mut self, wire_bytes: u64) {
        self.debited = self.debited.saturating_add(wire_bytes);
    }

    /// Notes that the uplink was given back a part of what was debited.
    pub(super) fn refund(&mut self, wire_bytes: u64) {
        self.debited = self.debited.saturating_sub(wire_bytes);
    }

    /// Notes that bytes were read or written; returns whether [`Ledger::is_due`], which needs
    /// the time, is worth a call.
    pub(super) fn moved(&mut self, bytes: u64) -> bool {
        self.moved = self.moved.saturating_add(bytes);
        self.moved >= MOVED_LEAST
    }

    /// Returns whether the kernel is to be asked.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let is_old = now.since(self.settled_at) >= HORIZON;
        self.moved >= MOVED_MAX || (self.moved >= MOVED_LEAST && is_old)
    }

    /// Sets what was debited to `counted`; returns the difference.
    ///
    /// The difference is taken to have left evenly since the last settlement. The part within
    /// [`HORIZON`] is present, but no more than `link_bytes`, which the link carries in that
    /// time.
    pub(super) fn settle(&mut self, now: Time, counted: u64, link_bytes: u64) -> Settled {
        let since = now.since(self.settled_at);
        let all = counted.abs_diff(self.debited);
        let recent = match since.as_nanos() {
            nanos if nanos <= HORIZON.as_nanos() => all,
            nanos => {
                let part = u128::from(all) * HORIZON.as_nanos() / nanos;
                u64::try_from(part).unwrap_or(all)
            }
        };
        let present = recent.min(link_bytes);
        let sign = if counted < self.debited { -1 } else { 1 };
        let signed = |bytes: u64| sign * i64::try_from(bytes).unwrap_or(i64::MAX);
        *self = Self {
            debited: counted,
            settled_at: now,
            moved: 0,
        };
        Settled {
            present: signed(present),
            past: signed(all - present),
        }
    }
}

/// Returns the wire bytes that an accepted connection has sent by the kernel's count,
/// acknowledgements and retransmissions included, and those that it has yet to send.
pub(super) fn counted(cost: WireCost, info: &TcpInfo) -> u64 {
    left(cost, info) + cost.segment_bytes(info.notsent_bytes.into())
}

/// Returns the wire bytes that have left a connection, by the kernel's count.
pub(super) fn left(cost: WireCost, info: &TcpInfo) -> u64 {
    // `segs_out` leaves the SYN-ACK out.
    let bare = u64::from(info.segs_out.wrapping_sub(info.data_segs_out)) + 1;
    // A segment on this host's loopback is longer than Ethernet's.
    let full = info.bytes_sent.div_ceil(u64::from(cost.mss.max(1)));
    let segments = bare + full.max(info.data_segs_out.into());
    info.bytes_sent + segments * u64::from(cost.segment_overhead) + SYN_ACK_OPTIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: WireCost = WireCost::ETHERNET_IPV4;
    const ACK: u64 = COST.segment_overhead as u64;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// A connection as the kernel sees it, which asks as the gauge does.
    struct Fake {
        ledger: Ledger,
        info: TcpInfo,
        now: Time,
        link_bytes: u64,
        largest: i64,
        present: i64,
        past: i64,
        looks: u32,
    }

    impl Fake {
        fn new(link_bytes: u64) -> Self {
            Self {
                ledger: Ledger::new(Time::ZERO),
                info: TcpInfo::default(),
                now: Time::ZERO,
                link_bytes,
                largest: 0,
                present: 0,
                past: 0,
                looks: 0,
            }
        }

        /// Moves `bytes`, and asks the kernel if that is due.
        fn moved(&mut self, bytes: u64) {
            if self.ledger.moved(bytes) && self.ledger.is_due(self.now) {
                self.look();
            }
        }

        fn look(&mut self) {
            let counted = counted(COST, &self.info);
            let settled = self.ledger.settle(self.now, counted, self.link_bytes);
            self.largest = self.largest.max(settled.present.abs());
            self.present += settled.present;
            self.past += settled.past;
            self.looks += 1;
        }

        fn total(&self) -> u64 {
            u64::try_from(self.present + self.past).unwrap()
        }
    }

    #[test]
    fn an_upload_is_settled_as_it_goes() {
        let mut upload = Fake::new(31_250);
        let opening = ACK + SYN_ACK_OPTIONS;
        // 60 MB in reads of 8 KB, 1 ms each, of six segments and three ACKs.
        for _ in 0..7_500 {
            upload.now = upload.now + Duration::from_millis(1);
            upload.info.segs_out += 3;
            upload.moved(8 << 10);
        }
        assert_eq!(upload.looks, 7_500 / 8);
        assert_eq!(upload.largest as u64, 8 * 3 * ACK + opening);
        assert_eq!(upload.past, 0);
        upload.look();
        assert_eq!(upload.total(), 7_500 * 3 * ACK + opening);
    }

    #[test]
    fn what_left_long_ago_does_not_move_the_clock() {
        let mut upload = Fake::new(31_250);
        upload.look();
        let opened = upload.total();
        // 2,000 acknowledgements in ten seconds in which nothing was read.
        upload.now = at(10_000);
        upload.info.segs_out = 2_000;
        upload.look();
        assert_eq!(upload.present as u64, opened + 2_000 * ACK / 40);
        assert_eq!(upload.total(), opened + 2_000 * ACK);
    }

    #[test]
    fn what_the_link_cannot_have_carried_does_not_move_the_clock() {
        let mut upload = Fake::new(3_125);
        upload.look();
        let opened = upload.total();
        upload.now = at(250);
        upload.info.segs_out = 2_000;
        upload.look();
        assert_eq!(upload.present as u64, opened + 3_125);
        assert_eq!(upload.total(), opened + 2_000 * ACK);
    }

    #[test]
    fn retransmissions_are_settled_as_they_go() {
        let mut download = Fake::new(312_500);
        let segment = 1448 + ACK;
        // 10,000 segments, each granted and debited; every tenth goes twice.
        for sent in 1..=10_000u32 {
            download.now = download.now + Duration::from_millis(1);
            download.ledger.debit(segment);
            let twice = u32::from(sent % 10 == 0);
            download.info.segs_out += 1 + twice;
            download.info.data_segs_out += 1 + twice;
            download.info.bytes_sent += 1448 * u64::from(1 + twice);
            download.moved(1448);
        }
        let most = 5 * segment + ACK + SYN_ACK_OPTIONS;
        assert!(download.largest as u64 <= most, "{}", download.largest);
        assert_eq!(download.past, 0);
        download.look();
        assert_eq!(download.total(), 1_000 * segment + ACK + SYN_ACK_OPTIONS);
    }

    #[test]
    fn what_was_debited_too_much_is_given_back() {
        let mut ledger = Ledger::new(at(0));
        ledger.debit(1_000);
        let settled = ledger.settle(at(250), 400, 500);
        assert_eq!((settled.present, settled.past), (-500, -100));
        ledger.debit(600);
        let settled = ledger.settle(at(750), 900, 500);
        assert_eq!((settled.present, settled.past), (-50, -50));
        ledger.refund(900);
        let settled = ledger.settle(at(750), 0, 500);
        assert_eq!((settled.present, settled.past), (0, 0));
    }

    #[test]
    fn small_requests_make_no_system_call_of_their_own() {
        let mut kept = Fake::new(31_250);
        for second in 0..63 {
            kept.now = at(1_000 * second);
            kept.moved(100);
            kept.moved(156);
        }
        assert_eq!(kept.looks, 0);
        kept.now = at(64_000);
        kept.moved(256);
        assert_eq!(kept.looks, 1);
    }

    #[test]
    fn counts_a_segment_of_the_loopback_as_several_of_ethernets() {
        let info = TcpInfo {
            segs_out: 3,
            data_segs_out: 2,
            bytes_sent: 100_000,
            notsent_bytes: 1_449,
            ..TcpInfo::default()
        };
        let segments = 1 + 1 + 70 + 2;
        assert_eq!(
            counted(COST, &info),
            101_449 + segments * ACK + SYN_ACK_OPTIONS
        );
    }
}
