use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

/// Makes jobs of pairs (arrival, work) in microseconds.
fn open(jobs: &[(u64, u64)]) -> Vec<Job> {
    let job = |&(arrival, work)| Job {
        arrival_ns: arrival * 1000,
        work_ns: work * 1000,
        user: None,
    };
    jobs.iter().map(job).collect()
}

fn done(jobs: &[Job], bound: Bound) -> Vec<u64> {
    let served = serve(jobs, bound);
    served.iter().map(|served| served.done_ns).collect()
}

fn mean_ns(jobs: &[Job], bound: Bound) -> f64 {
    let served = serve(jobs, bound);
    let sum: u64 = served.iter().map(|s| s.done_ns - s.start_ns).sum();
    sum as f64 / jobs.len() as f64
}

#[test]
fn a_preempted_job_goes_on_where_it_was() {
    // SRPT: B preempts A at 2 (3 < 8), C at 4 ties with B's last unit and
    // waits. PS: A alone for 2, A and B halves for 2, thirds until C is done
    // at 7, halves until B is done at 9.
    let jobs = open(&[(0, 10), (2, 3), (4, 1)]);
    assert_eq!(done(&jobs, Bound::Srpt), [14_000, 5_000, 6_000]);
    assert_eq!(done(&jobs, Bound::Sharing), [14_000, 9_000, 7_000]);
}

#[test]
fn equals_go_in_trace_order_and_end_together_when_shared() {
    let jobs = open(&[(0, 2), (0, 2), (0, 2)]);
    assert_eq!(done(&jobs, Bound::Srpt), [2_000, 4_000, 6_000]);
    assert_eq!(done(&jobs, Bound::Sharing), [6_000, 6_000, 6_000]);
}

#[test]
fn a_larger_newcomer_does_not_preempt() {
    let jobs = open(&[(0, 5), (2, 4), (3, 1)]);
    assert_eq!(done(&jobs, Bound::Srpt), [6_000, 10_000, 4_000]);
}

#[test]
fn an_idle_link_starts_afresh() {
    let jobs = open(&[(0, 1), (100, 3), (101, 1), (104, 2), (200, 0)]);
    assert_eq!(
        done(&jobs, Bound::Srpt),
        [1_000, 104_000, 102_000, 106_000, 200_000]
    );
    // 100-101 alone, 101-103 halves: the second small one is done at 103.
    assert_eq!(
        done(&jobs, Bound::Sharing),
        [1_000, 104_000, 103_000, 106_000, 200_000]
    );
}

#[test]
fn shares_of_a_nanosecond_round_up() {
    let job = |work_ns| Job {
        arrival_ns: 0,
        work_ns,
        user: None,
    };
    // Three share until 3 x 1 ns, two until 3 + 2 x 1, one until 6.
    let jobs = [job(1), job(2), job(3)];
    assert_eq!(done(&jobs, Bound::Sharing), [3, 5, 6]);
    let late = Job {
        arrival_ns: 1,
        ..job(1)
    };
    // The first has 1 ns left at 1: both are done at 3.
    assert_eq!(done(&[job(2), late], Bound::Sharing), [3, 3]);
}

#[test]
fn a_users_next_request_waits_for_the_one_before() {
    let mut jobs = open(&[(0, 4), (1, 1), (1, 1), (2, 9)]);
    jobs[0].user = Some(1);
    jobs[1].user = Some(1);
    jobs[2].user = Some(2);
    jobs[3].user = Some(3);
    let served = serve(&jobs, Bound::Srpt);
    let times: Vec<_> = served.iter().map(|s| (s.start_ns, s.done_ns)).collect();
    assert_eq!(
        times,
        [(0, 5_000), (5_000, 6_000), (1_000, 2_000), (2_000, 15_000)]
    );
}

#[test]
#[should_panic(expected = "order of their arrival")]
fn unsorted_jobs_are_refused() {
    serve(&open(&[(1, 1), (0, 1)]), Bound::Srpt);
}

/// Serves one unit of work a slot to the job with the least left, and returns the jobs' ends.
fn srpt_by_slots(jobs: &[(u64, u64)]) -> Vec<u64> {
    let mut left: Vec<u64> = jobs.iter().map(|job| job.1).collect();
    let mut done = vec![0; jobs.len()];
    let mut slot = 0;
    while left.iter().any(|&left| left > 0) {
        let present = (0..jobs.len()).filter(|&j| left[j] > 0 && jobs[j].0 <= slot);
        let next = present.min_by_key(|&j| (left[j], j));
        slot += 1;
        if let Some(job) = next {
            left[job] -= 1;
            done[job] = slot * 1000;
        }
    }
    done
}

/// Finds the least sum of completion times that any schedule reaches, by trying
/// every job in every slot.
fn least_sum_of_done(jobs: &[(u64, u64)], left: &mut [u64], slot: u64) -> u64 {
    if left.iter().all(|&left| left == 0) {
        return 0;
    }
    let mut least = u64::MAX;
    for job in 0..jobs.len() {
        if left[job] == 0 || jobs[job].0 > slot {
            continue;
        }
        left[job] -= 1;
        let ends = if left[job] == 0 { slot + 1 } else { 0 };
        least = least.min(ends + least_sum_of_done(jobs, left, slot + 1));
        left[job] += 1;
    }
    if least == u64::MAX {
        least = least_sum_of_done(jobs, left, slot + 1);
    }
    least
}

#[test]
fn srpt_is_the_best_of_all_schedules_of_three_jobs() {
    let mut cases = 0;
    for arrivals in 0..64 {
        let arrivals = [arrivals % 4, arrivals / 4 % 4, arrivals / 16];
        if !arrivals.is_sorted() {
            continue;
        }
        for works in 0..27 {
            let works = [works % 3 + 1, works / 3 % 3 + 1, works / 9 + 1];
            let jobs: Vec<_> = arrivals.into_iter().zip(works).collect();
            let found = done(&open(&jobs), Bound::Srpt);
            assert_eq!(found, srpt_by_slots(&jobs), "{jobs:?}");
            let least = least_sum_of_done(&jobs, &mut works.clone(), 0);
            assert_eq!(found.iter().sum::<u64>(), least * 1000, "{jobs:?}");
            cases += 1;
        }
    }
    assert_eq!(cases, 20 * 27);
}

/// Returns the times in which the link was busy: the union of the jobs' times in the system.
fn busy_periods(jobs: &[Job], bound: Bound) -> Vec<(u64, u64)> {
    let mut periods: Vec<(u64, u64)> = Vec::new();
    for served in serve(jobs, bound) {
        match periods.last_mut() {
            Some(period) if served.start_ns <= period.1 => period.1 = period.1.max(served.done_ns),
            _ => periods.push((served.start_ns, served.done_ns)),
        }
    }
    periods
}

prop_compose! {
    fn any_jobs()(rows in prop::collection::vec((0u64..30_000, 1u64..20_000), 1..200)) -> Vec<Job> {
        let mut arrival_ns = 0;
        rows.into_iter().map(|(gap_ns, work_ns)| {
            arrival_ns += gap_ns;
            Job { arrival_ns, work_ns, user: None }
        }).collect()
    }
}

proptest! {
    #[test]
    fn both_bounds_are_busy_at_the_same_times(jobs in any_jobs()) {
        let mut busy_until_ns = 0;
        for job in &jobs {
            busy_until_ns = job.arrival_ns.max(busy_until_ns) + job.work_ns;
        }
        let srpt = busy_periods(&jobs, Bound::Srpt);
        prop_assert_eq!(srpt.last().unwrap().1, busy_until_ns);
        prop_assert_eq!(srpt, busy_periods(&jobs, Bound::Sharing));
    }

    #[test]
    fn srpt_is_never_worse_than_sharing(jobs in any_jobs()) {
        prop_assert!(mean_ns(&jobs, Bound::Srpt) <= mean_ns(&jobs, Bound::Sharing));
    }

    #[test]
    fn no_job_is_faster_than_alone(jobs in any_jobs()) {
        for bound in Bound::ALL {
            for (served, job) in serve(&jobs, bound).iter().zip(&jobs) {
                prop_assert!(served.done_ns - served.start_ns >= job.work_ns);
            }
        }
    }
}

/// Draws jobs: Poisson arrivals at load `rho`, exponential work of mean 1 ms.
fn exponential_jobs(rho: f64, count: usize, seed: u64) -> Vec<Job> {
    const MEAN_NS: f64 = 1e6;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut exponential = |mean_ns: f64| -mean_ns * (1.0 - random.random::<f64>()).ln();
    let mut arrival_ns = 0.0;
    let mut job = || {
        arrival_ns += exponential(MEAN_NS / rho);
        Job {
            arrival_ns: arrival_ns as u64,
            work_ns: exponential(MEAN_NS) as u64,
            user: None,
        }
    };
    (0..count).map(|_| job()).collect()
}

#[test]
fn sharing_agrees_with_the_theory_of_m_m_1() {
    // E[T] = E[S] / (1 - rho).
    for (rho, tolerance) in [(0.5, 0.01), (0.8, 0.03)] {
        let jobs = exponential_jobs(rho, 400_000, 7);
        let mean_ms = mean_ns(&jobs, Bound::Sharing) / 1e6;
        let theory_ms = 1.0 / (1.0 - rho);
        assert!(
            (mean_ms / theory_ms - 1.0).abs() < tolerance,
            "load {rho}: {mean_ms} against {theory_ms}"
        );
    }
}

/// Returns the mean response time under SRPT (Schrage and Miller 1966) for exponential
/// work of mean 1, by the trapezoidal rule:
/// E[T(x)] = lambda (int_0^x t^2 f + x^2 (1 - F(x))) / (2 (1 - rho(x))^2)
///           + int_0^x dt / (1 - rho(t)).
fn schrage_miller(lambda: f64) -> f64 {
    const STEP: f64 = 1e-4;
    let (mut load, mut second, mut residence, mut mean) = (0.0, 0.0, 0.0, 0.0);
    for i in 0..400_000 {
        let x = (f64::from(i) + 0.5) * STEP;
        let density = (-x).exp();
        // Midpoints: half a step before x, half a step after.
        load += lambda * x * density * STEP / 2.0;
        second += x * x * density * STEP / 2.0;
        residence += STEP / 2.0 / (1.0 - load);
        let waiting = lambda * (second + x * x * density) / (2.0 * (1.0 - load) * (1.0 - load));
        mean += (waiting + residence) * density * STEP;
        load += lambda * x * density * STEP / 2.0;
        second += x * x * density * STEP / 2.0;
        residence += STEP / 2.0 / (1.0 - load);
    }
    mean
}

#[test]
fn srpt_agrees_with_schrage_and_miller() {
    for (rho, tolerance) in [(0.5, 0.01), (0.8, 0.02)] {
        let jobs = exponential_jobs(rho, 400_000, 11);
        let mean_ms = mean_ns(&jobs, Bound::Srpt) / 1e6;
        let theory_ms = schrage_miller(rho);
        assert!(
            (mean_ms / theory_ms - 1.0).abs() < tolerance,
            "load {rho}: {mean_ms} against {theory_ms}"
        );
    }
}

fn run_on(text: &str, connection: Connection, warmup: usize) -> anyhow::Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    let trace = dir.path().join("trace.csv");
    std::fs::write(&trace, text)?;
    main(&IdealArgs {
        trace,
        uplink: 8_000_000,
        connection,
        warmup,
        output: dir.path().join("out"),
    })?;
    Ok(dir)
}

#[test]
fn writes_results_like_any_system() {
    // 8 Mbit/s: a microsecond a byte.
    let text = "t_s,bytes,path\n0,1228,/a\n0.0005,100,/b\n";
    for (connection, own) in [(Connection::New, 330.0), (Connection::Keep, 0.0)] {
        let dir = run_on(text, connection, 0).unwrap();
        let file = dir.path().join("out/ideal-srpt.csv");
        let outcomes = results::read(&file).unwrap();
        let large_us = 1448.0 + 66.0 + own;
        let small_us = 320.0 + 66.0 + own;
        assert_eq!(outcomes[1].response_ms, small_us / 1e3);
        assert_eq!(outcomes[0].response_ms, (large_us + small_us) / 1e3);
        assert_eq!((outcomes[0].received, outcomes[0].status), (1228, 200));
        let info = RunInfo::read_beside(&file).unwrap();
        assert_eq!((info.name.as_str(), info.failed), ("ideal-srpt", 0));
        let wall_s = (large_us + small_us) / 1e6;
        assert!((info.goodput_bytes_per_s - 1328.0 / wall_s).abs() < 1e-6);
        let shared = results::read(&dir.path().join("out/ideal-ps.csv")).unwrap();
        assert!(shared[1].response_ms > outcomes[1].response_ms);
    }
}

#[test]
fn warm_up_is_left_out_but_served() {
    let text = "t_s,bytes,path\n0,1228,/a\n0,1228,/b\n";
    let dir = run_on(text, Connection::Keep, 1).unwrap();
    let outcomes = results::read(&dir.path().join("out/ideal-srpt.csv")).unwrap();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].response_ms, 2.0 * 1.514);
    let error = run_on(text, Connection::Keep, 2).unwrap_err().to_string();
    assert!(error.contains("leaves none of the 2 requests"), "{error}");
}
