//! Queueing theory of a single server with Poisson arrivals (M/G/1).
//!
//! Times come in units of the time that one byte takes, so that the server's
//! rate does not matter; load is below 1.

use super::sizes::Grid;

/// The means over all requests that theory expects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Mean response time, in the time of one byte.
    pub response_bytes: f64,
    /// Mean of response time over size.
    pub slowdown: f64,
}

/// Returns the means of processor sharing: `E[S] / (1 - load)`; every size has the same slowdown
/// (Kleinrock 1967).
pub fn processor_sharing(grid: &Grid, load: f64) -> Expected {
    Expected {
        response_bytes: grid.mean_bytes() / (1.0 - load),
        slowdown: 1.0 / (1.0 - load),
    }
}

/// Returns the means of first come, first served: `E[S] + lambda E[S^2] / 2 (1 - load)` (Pollaczek
/// 1930, Khinchine 1932).
pub fn first_come_first_served(grid: &Grid, load: f64) -> Expected {
    let mean = grid.mean_bytes();
    let wait = load / mean * grid.mean_of(|x| x * x) / (2.0 * (1.0 - load));
    Expected {
        response_bytes: mean + wait,
        slowdown: 1.0 + wait * grid.mean_of(|x| 1.0 / x),
    }
}

/// Returns the means of shortest remaining processing time (Schrage and Miller 1966), integrated
/// over the grid. With F the distribution of sizes, f its density and load(x) = lambda * integral
/// of t f(t) to x, a response of size x waits
///
/// `lambda (integral of t^2 f(t) to x + x^2 (1 - F(x))) / 2 (1 - load(x))^2`
///
/// and is then served within the integral of 1 / (1 - load(t)) to x.
pub fn shortest_remaining(grid: &Grid, load: f64) -> Expected {
    let lambda = load / grid.mean_bytes();
    let (mut below, mut below_load, mut below_squares) = (0.0, 0.0, 0.0);
    let (mut residence, mut previous) = (0.0, 0.0);
    let mut expected = Expected {
        response_bytes: 0.0,
        slowdown: 0.0,
    };
    for &(x, share) in &grid.cells {
        residence += (x - previous) / (1.0 - below_load);
        previous = x;
        // Half of the cell's own requests are smaller, half are larger.
        let load_x = below_load + lambda * x * share / 2.0;
        let squares = below_squares + x * x * share / 2.0;
        let larger = 1.0 - below - share / 2.0;
        let wait = lambda * (squares + x * x * larger) / (2.0 * (1.0 - load_x).powi(2));
        expected.response_bytes += share * (wait + residence);
        expected.slowdown += share * (wait + residence) / x;
        below += share;
        below_load += lambda * x * share;
        below_squares += x * x * share;
    }
    expected
}

/// Returns the means of least attained service first, which shares the server among those that have
/// had the least (Kleinrock 1976, foreground-background). With sizes cut off at x, of which load(x)
/// is the load and m(x) the second moment, a response of size x takes `lambda m(x) / 2 (1 -
/// load(x))^2 + x / (1 - load(x))`.
pub fn least_attained(grid: &Grid, load: f64) -> Expected {
    let lambda = load / grid.mean_bytes();
    let mut expected = Expected {
        response_bytes: 0.0,
        slowdown: 0.0,
    };
    let (mut below, mut below_bytes, mut below_squares) = (0.0, 0.0, 0.0);
    for &(x, share) in &grid.cells {
        let larger = 1.0 - below;
        let load_x = lambda * (below_bytes + x * larger);
        let squares = lambda * (below_squares + x * x * larger);
        let response = squares / (2.0 * (1.0 - load_x).powi(2)) + x / (1.0 - load_x);
        expected.response_bytes += share * response;
        expected.slowdown += share * response / x;
        below += share;
        below_bytes += share * x;
        below_squares += share * x * x;
    }
    expected
}

/// Returns the means of shortest job first without preemption: a request of size x waits `lambda
/// E[S^2] / 2 (1 - load(x))^2` (Phipps 1956).
pub fn shortest_job(grid: &Grid, load: f64) -> Expected {
    let lambda = load / grid.mean_bytes();
    let residual = lambda * grid.mean_of(|x| x * x) / 2.0;
    let mut below_load = 0.0;
    let mut expected = Expected {
        response_bytes: 0.0,
        slowdown: 0.0,
    };
    for &(x, share) in &grid.cells {
        let wait = residual / (1.0 - below_load - lambda * x * share / 2.0).powi(2);
        expected.response_bytes += share * (wait + x);
        expected.slowdown += share * (wait + x) / x;
        below_load += lambda * x * share;
    }
    expected
}

/// Returns the mean wait of M/M/c, first come, first served, over the mean
/// service time: Erlang's C over c (1 - load).
pub fn erlang_wait(servers: u32, load: f64) -> f64 {
    // Erlang's B by its recursion, then C.
    let offered = load * f64::from(servers);
    let blocked = (1..=servers).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits / (f64::from(servers) * (1.0 - load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::sizes::SizeDistribution;

    fn grid(text: &str) -> Grid {
        text.parse::<SizeDistribution>().unwrap().grid()
    }

    fn close(found: f64, expected: f64, relative: f64) {
        let off = (found / expected - 1.0).abs();
        assert!(off < relative, "{found} for {expected}");
    }

    #[test]
    fn exponential_sizes_have_closed_forms() {
        let grid = grid("exponential:100KB");
        let mean = grid.mean_bytes();
        for load in [0.3, 0.9] {
            // M/M/1: FCFS and processor sharing have the same mean.
            let fcfs = first_come_first_served(&grid, load).response_bytes;
            close(fcfs, mean / (1.0 - load), 1e-3);
            let ps = processor_sharing(&grid, load);
            close(ps.response_bytes, fcfs, 1e-3);
        }
    }

    #[test]
    fn exponential_sizes_make_the_least_attained_the_shortest_by_expectation() {
        // Without a memory what was attained says nothing: the mean is that of any order.
        let grid = grid("exponential:100KB");
        for load in [0.3, 0.9] {
            let las = least_attained(&grid, load).response_bytes;
            close(las, grid.mean_bytes() / (1.0 - load), 5e-3);
        }
    }

    #[test]
    fn nearly_equal_sizes_are_served_in_turn() {
        // With sizes all but equal SRPT hardly ever preempts, and the order
        // among equals does not change the mean: M/D/1.
        let grid = grid("pareto:1,100000,100001");
        let srpt = shortest_remaining(&grid, 0.5).response_bytes;
        close(srpt, 1.5 * grid.mean_bytes(), 1e-3);
        let fcfs = first_come_first_served(&grid, 0.5).response_bytes;
        close(srpt, fcfs, 1e-3);
    }

    #[test]
    fn the_order_of_disciplines() {
        for sizes in ["workload", "exponential", "pareto"] {
            let grid = grid(sizes);
            for load in [0.1, 0.5, 0.9, 0.99] {
                let srpt = shortest_remaining(&grid, load).response_bytes;
                let sjf = shortest_job(&grid, load).response_bytes;
                let ps = processor_sharing(&grid, load).response_bytes;
                let fcfs = first_come_first_served(&grid, load).response_bytes;
                assert!(grid.mean_bytes() < srpt, "{sizes} {load}");
                assert!(srpt < ps && srpt < sjf && sjf < fcfs, "{sizes} {load}");
            }
        }
    }

    #[test]
    fn erlang_agrees_with_one_server_and_a_known_case() {
        close(erlang_wait(1, 0.9), 9.0, 1e-9);
        // Two servers: load^2 / (1 - load^2) of the service time.
        close(erlang_wait(2, 0.8), 0.64 / 0.36, 1e-9);
    }
}
