//! The worth of a policy in clients: the rate at which its mean is that of the baseline today.

/// The most runs that are made to narrow a rate down.
const RUNS_MAX: usize = 3;

/// The share by which the mean may differ from the one that is wanted.
const NEAR: f64 = 0.02;

/// The highest load that is tried: at 1 the link has no time left.
const LOAD_MAX: f64 = 0.99;

/// The worth of a policy: how many times as many clients it serves as well as the baseline serves
/// those of today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worth {
    /// The mean is that of the baseline today at this multiple of today's rate, within 2%, or as
    /// near as three more runs came.
    Times(f64),
    /// The mean is no more than that of the baseline today even at this multiple, the highest that
    /// could be served.
    AtLeast(f64),
    /// The mean is more than that of the baseline today already at this multiple, the lowest that
    /// was tried.
    Below(f64),
}

/// A rate that was tried, with the mean response time that it makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// The rate, in multiples of today's.
    pub(super) rate: f64,
    pub(super) mean_s: f64,
}

/// Searches the rate at which the mean is `wanted_s`. `known` are rates that were tried. `means`
/// runs another, and returns its mean and how many requests that took. Returns the worth, and how
/// many requests were simulated.
pub(super) fn find(
    wanted_s: f64,
    load: f64,
    known: &mut [Tried],
    mut means: impl FnMut(f64) -> (Option<f64>, u64),
) -> Option<(Worth, u64)> {
    known.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let mut simulated = 0;
    let highest = LOAD_MAX / load;
    let mut low = known
        .iter()
        .rev()
        .find(|own| own.mean_s <= wanted_s)
        .copied();
    let mut high = known.iter().find(|own| own.mean_s > wanted_s).copied();
    if high.is_none() && known.last().is_none_or(|own| own.rate < highest) {
        let (mean_s, more) = means(highest);
        simulated += more;
        let rate = highest;
        match mean_s {
            Some(mean_s) if mean_s <= wanted_s => return Some((Worth::AtLeast(rate), simulated)),
            Some(mean_s) => high = Some(Tried { rate, mean_s }),
            // Where the flood begins is not known.
            None => return low.map(|own| (Worth::AtLeast(own.rate), simulated)),
        }
    }
    let Some(mut below) = low.take() else {
        return high.map(|own| (Worth::Below(own.rate), simulated));
    };
    let Some(mut above) = high else {
        return Some((Worth::AtLeast(below.rate), simulated));
    };
    for _ in 0..RUNS_MAX {
        if (below.mean_s / wanted_s - 1.0).abs() < NEAR {
            return Some((Worth::Times(below.rate), simulated));
        }
        let rate = between(below, above, wanted_s, load);
        let (mean_s, more) = means(rate);
        simulated += more;
        match mean_s {
            Some(mean_s) if (mean_s / wanted_s - 1.0).abs() < NEAR => {
                return Some((Worth::Times(rate), simulated));
            }
            Some(mean_s) if mean_s <= wanted_s => below = Tried { rate, mean_s },
            Some(mean_s) => above = Tried { rate, mean_s },
            None => break,
        }
    }
    Some((
        Worth::Times(between(below, above, wanted_s, load)),
        simulated,
    ))
}

/// Returns the rate between two at which the mean is `wanted_s`, if the mean grows as a power of
/// one over the link's idle share, as it does with processor sharing.
fn between(below: Tried, above: Tried, wanted_s: f64, load: f64) -> f64 {
    let busy = |rate: f64| -(1.0 - rate * load).max(1e-6).ln();
    let share = (wanted_s / below.mean_s).ln() / (above.mean_s / below.mean_s).ln();
    let (low, high) = (busy(below.rate), busy(above.rate));
    let between = low + (high - low) * share.clamp(0.02, 0.98);
    (1.0 - (-between).exp()) / load
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches the rate where the mean is 1 / (1 - rate / 2), as that of a queue.
    fn found(wanted_s: f64, known: &[f64]) -> (Worth, u64) {
        let mean = |rate: f64| 1.0 / (1.0 - rate / 2.0);
        let tried = |&rate: &f64| Tried {
            rate,
            mean_s: mean(rate),
        };
        let mut known: Vec<Tried> = known.iter().map(tried).collect();
        find(wanted_s, 0.5, &mut known, |rate| (Some(mean(rate)), 1)).unwrap()
    }

    #[test]
    fn the_rate_is_found_within_its_bound() {
        for wanted_s in [2.0, 2.5, 5.0, 20.0] {
            let (Worth::Times(rate), _) = found(wanted_s, &[0.5, 1.0, 1.5]) else {
                panic!("{wanted_s}");
            };
            let mean = 1.0 / (1.0 - rate / 2.0);
            assert!((mean / wanted_s - 1.0).abs() < NEAR, "{wanted_s}: {mean}");
        }
        // Known already: no more runs.
        assert_eq!(found(2.0, &[0.5, 1.0, 1.5]), (Worth::Times(1.0), 0));
    }

    #[test]
    fn there_are_ends() {
        assert_eq!(found(1000.0, &[1.0]).0, Worth::AtLeast(1.98));
        assert_eq!(found(1.1, &[0.5, 1.0]), (Worth::Below(0.5), 0));
        // Too many wait before the link is full.
        let mut known = [Tried {
            rate: 1.0,
            mean_s: 1.0,
        }];
        let flooded = find(2.0, 0.5, &mut known, |_| (None, 7));
        assert_eq!(flooded, Some((Worth::AtLeast(1.0), 7)));
        assert_eq!(find(2.0, 2.0, &mut [], |_| (None, 7)), None);
    }
}
