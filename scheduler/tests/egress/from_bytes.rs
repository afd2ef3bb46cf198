//! The operations of `random_operations` as a fuzzer writes them.

use std::time::Duration;

use sprat_scheduler::srq::Trigger;
use sprat_scheduler::{Cutoffs, Discipline, FlowSpec, Size, WireCost};

use crate::bytes::Bytes;
use crate::driver::{plain, srq};
use crate::random_operations::{AGEING, CUTOFFS, Model, Op, shared_short_first, short_first};

/// Runs what the bytes say, against the model.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let Some(discipline) = discipline(&mut bytes) else {
        return;
    };
    let mut model = Model::new(discipline);
    while let Some(op) = op(&mut bytes) {
        model.apply(op);
    }
    model.drain();
}

fn discipline(bytes: &mut Bytes<'_>) -> Option<Discipline> {
    Some(match bytes.below(13)? {
        0 => Discipline::Fcfs,
        1 => Discipline::Fair,
        2 => Discipline::Srpt,
        3 => Discipline::SrptAged {
            ageing_bytes_per_s: AGEING,
        },
        4 => Discipline::Bands(Cutoffs::Fixed(CUTOFFS.to_vec())),
        5 => Discipline::Bands(Cutoffs::Learnt { classes: 4 }),
        6 => Discipline::Edf,
        7 => Discipline::Vrd,
        8 => srq(Trigger::Always),
        9 => srq(Trigger::Waiting(2)),
        10 => Discipline::Las,
        11 => short_first(),
        _ => shared_short_first(),
    })
}

fn op(bytes: &mut Bytes<'_>) -> Option<Op> {
    let kind = bytes.below(17)?;
    let mut flow = || bytes.next().map(usize::from);
    Some(match kind {
        0..2 => Op::Open(spec(bytes)?),
        2..5 => Op::Ready {
            flow: flow()?,
            bytes: bytes.amount()?,
        },
        5..8 => Op::Grant,
        8..10 => Op::Sent {
            flow: flow()?,
            bytes: bytes.amount()?,
        },
        10 => Op::Resize {
            flow: flow()?,
            size: size(bytes)?,
        },
        11 => Op::Close { flow: flow()? },
        // Amounts of the wire, as small as the model of debits has them.
        12 => Op::FastPath {
            wire_bytes: bytes.amount()? % 5000,
        },
        13 => Op::Debit {
            wire_bytes: bytes.amount()? % 5000,
        },
        14 => Op::SetRate {
            bits_per_s: bytes.amount()? % 100_000_000_000,
        },
        15 => Op::Reconfigure(discipline(bytes)?),
        _ => Op::Pass(Duration::from_nanos(bytes.amount()? % 10_000_000)),
    })
}

fn size(bytes: &mut Bytes<'_>) -> Option<Size> {
    Some(match bytes.below(3)? {
        0 => Size::Exact(bytes.amount()?),
        1 => Size::Estimate {
            bytes: bytes.amount()?,
            confidence: f32::from(bytes.next()?) / 255.0,
        },
        _ => Size::Unknown,
    })
}

fn spec(bytes: &mut Bytes<'_>) -> Option<FlowSpec> {
    Some(FlowSpec::new(
        usize::from(bytes.next()?),
        size(bytes)?,
        match bytes.below(4)? {
            0 => plain(1, 0),
            1 => plain(9000, 40),
            _ => WireCost::ETHERNET_IPV4,
        },
    ))
}
