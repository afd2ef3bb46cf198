//! Pages, whose times follow from the mean latencies of their objects' sizes (SFD02, 4.4).

use super::findings::{Latencies, largest, least};
use crate::simulate::experiment::{Measured, PlotAxes, PlotSpec};

/// The plot of pages by what they gain.
pub(super) const PLOT: PlotSpec = PlotSpec {
    name: "figure-09",
    title: "Pages by how much faster S-SFD is",
    x: "improvement",
    y: "share of pages with less",
    axes: PlotAxes::Linear,
};

/// The latencies under drop-tail and under S-SFD, by which the paper compares pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageQueues<'a> {
    pub(super) dt: &'a Latencies,
    pub(super) s_sfd: &'a Latencies,
}

/// The seconds that a page takes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PageTime {
    /// The time if all objects are asked for at once: that of the slowest.
    parallel_s: f64,
    /// The time if they are asked for one after the other: their sum.
    sequential_s: f64,
}

impl PageTime {
    /// Returns the time of a page with objects of these sizes in bytes; `None` if no flow of such a
    /// size was seen.
    fn of(latencies: &Latencies, sizes: &[u64]) -> Option<Self> {
        let each = sizes.iter().map(|&bytes| latencies.near(bytes));
        let each: Vec<f64> = each.collect::<Option<_>>()?;
        Some(Self {
            parallel_s: each.iter().copied().fold(0.0, f64::max),
            sequential_s: each.iter().sum(),
        })
    }
}

/// The times of a page under both queues.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PageTimes {
    dt: PageTime,
    s_sfd: PageTime,
}

impl PageQueues<'_> {
    fn page(self, sizes: &[u64]) -> Option<PageTimes> {
        Some(PageTimes {
            dt: PageTime::of(self.dt, sizes)?,
            s_sfd: PageTime::of(self.s_sfd, sizes)?,
        })
    }
}

/// The objects of a page whose sizes are in one range.
struct PageObjects {
    least_kb: f64,
    most_kb: f64,
    count: usize,
}

/// Makes a part of a page: an object of that size in KB.
const fn one(kb: f64) -> PageObjects {
    some(1, kb, kb)
}

/// Makes a part of a page: objects whose sizes in KB go from the least to the most.
const fn some(count: usize, least_kb: f64, most_kb: f64) -> PageObjects {
    PageObjects {
        least_kb,
        most_kb,
        count,
    }
}

/// The pages of the paper's table 5.
#[rustfmt::skip]
const PAGES: [(&str, &[PageObjects]); 5] = [
    ("text", &[one(29.0), some(3, 7.0, 13.0)]),
    ("map", &[one(5.0), some(3, 1.0, 3.0), one(67.0)]),
    ("graphics", &[one(7.0), some(9, 1.0, 3.0), some(4, 9.0, 12.0)]),
    ("frames", &[some(4, 1.0, 2.0), one(7.0), one(83.0), some(14, 1.0, 3.0), some(7, 5.0, 19.0)]),
    ("java", &[one(8.0), some(7, 1.0, 2.0), some(3, 4.0, 11.0), some(14, 1.0, 3.0), some(11, 4.0, 18.0)]),
];

/// Adds table 6: the times of the pages of table 5, by the mean latencies of their sizes.
pub(super) fn retrieval(queues: PageQueues<'_>, measured: &mut Measured) {
    for (name, objects) in PAGES {
        let sizes = objects.iter().flat_map(|own| {
            let low = own.least_kb;
            let step = (own.most_kb - low) / own.count as f64;
            (0..own.count).map(move |index| ((low + (index as f64 + 0.5) * step) * 1024.0) as u64)
        });
        let sizes: Vec<u64> = sizes.collect();
        let Some(PageTimes { dt, s_sfd }) = queues.page(&sizes) else {
            continue;
        };
        for (how, dt_s, own_s) in [
            ("parallel", dt.parallel_s, s_sfd.parallel_s),
            ("sequential", dt.sequential_s, s_sfd.sequential_s),
        ] {
            measured.value(format!("{name} {how} DT s"), dt_s);
            measured.value(format!("{name} {how} S-SFD s"), own_s);
            measured.value(format!("{name} {how} reduction"), 1.0 - own_s / dt_s);
        }
    }
    for how in ["parallel", "sequential"] {
        let names = PAGES.map(|(name, _)| format!("{name} {how} reduction"));
        let found = names.iter().filter_map(|name| measured.values.get(name));
        let found: Vec<f64> = found.copied().collect();
        measured.value(format!("{how} reduction least"), least(&found));
        measured.value(format!("{how} reduction most"), largest(&found));
    }
}

/// Adds figure 9 with pages that are given as the bytes of their objects: the plot `plot`, and the
/// shares of the pages that its text names.
pub(super) fn improvements(
    queues: PageQueues<'_>,
    pages: &[Vec<u64>],
    plot: &str,
    measured: &mut Measured,
) {
    let times: Vec<PageTimes> = pages.iter().filter_map(|own| queues.page(own)).collect();
    let parallel = times
        .iter()
        .map(|own| 1.0 - own.s_sfd.parallel_s / own.dt.parallel_s);
    let sequential = times
        .iter()
        .map(|own| 1.0 - own.s_sfd.sequential_s / own.dt.sequential_s);
    let both: [(&str, Vec<f64>); 2] = [
        ("parallel", parallel.collect()),
        ("sequential", sequential.collect()),
    ];
    for (how, mut gains) in both {
        gains.sort_by(f64::total_cmp);
        let count = gains.len().max(1) as f64;
        let below = |bound: f64| gains.partition_point(|&gain| gain < bound) as f64 / count;
        measured.value(format!("pages 30% faster, {how}"), 1.0 - below(0.3));
        measured.value(format!("pages slower, {how}"), below(0.0));
        for step in -10..=20 {
            let bound = f64::from(step) * 0.05;
            measured.point(plot, how, bound, below(bound));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes latencies of a KB and of 40 KB.
    fn latencies(short_s: f64, long_s: f64) -> Latencies {
        let mut own = Latencies::default();
        own.add(1 << 10, short_s);
        own.add(40 << 10, long_s);
        own
    }

    #[test]
    fn pages_gain_by_their_slowest_object_or_by_the_sum() {
        let (dt, s_sfd) = (latencies(1.0, 2.0), latencies(0.5, 2.5));
        let queues = PageQueues {
            dt: &dt,
            s_sfd: &s_sfd,
        };
        // Two are short, one has a long object, and one has a size that was not seen.
        let pages = [
            vec![1_000],
            vec![700, 1],
            vec![1_000, 1_000, 1_000, 40_000],
            vec![2_000],
        ];
        let mut measured = Measured::default();
        improvements(queues, &pages, "figure-09", &mut measured);
        let value = |name: &str| measured.values[name];
        assert!((value("pages 30% faster, parallel") - 2.0 / 3.0).abs() < 1e-12);
        assert!((value("pages slower, parallel") - 1.0 / 3.0).abs() < 1e-12);
        // 5 s under drop-tail, 4 s under S-SFD.
        assert!((value("pages 30% faster, sequential") - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(value("pages slower, sequential"), 0.0);
        for how in ["parallel", "sequential"] {
            let line = measured.points.iter().filter(|own| own.line == how);
            let shares: Vec<f64> = line.map(|own| own.y).collect();
            assert_eq!((shares.len(), shares[0], shares[30]), (31, 0.0, 1.0));
            assert!(shares.is_sorted(), "{shares:?}");
        }
    }
}
