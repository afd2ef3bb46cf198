//! The tasks of SDIS02: the objects of its table 2, with the times of its table 1.

use std::time::Duration;

use crate::workload::Dice;

/// Table 2 contradicts itself: audio and video are 0.2 and 0.1% of the
/// requests in one row; with the mean sizes of another they would be 12 and
/// 26% of the traffic, and not the 1.6 and 6.7% of a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Media {
    /// As many as the table's row of requests says.
    Requests,
    /// As many as make the traffic that the table says: 0.02% of the requests for each.
    Traffic,
}

/// The requests for audio, and for video, by their traffic, in per cent: 1.6 and 6.7% of 7.39 KB a
/// request, over their mean sizes.
const MEDIA_BY_TRAFFIC_PERCENT: f64 = 0.02;

/// A type of object in table 2.
struct ObjectType {
    /// The part of the requests, in per cent.
    requests_percent: f64,
    /// Whether the object is audio or video.
    media: bool,
    /// Mean size in KB.
    mean_kb: f64,
    /// Standard deviation of the size over its mean.
    cov: f64,
    dynamic: bool,
}

const fn objects(requests_percent: f64, mean_kb: f64, cov: f64, dynamic: bool) -> ObjectType {
    ObjectType {
        requests_percent,
        media: mean_kb > 100.0,
        mean_kb,
        cov,
        dynamic,
    }
}

/// The types of table 2: HTML, images, audio, video, dynamic, other.
const TYPES: [ObjectType; 6] = [
    objects(19.2, 5.76, 1.90, false),
    objects(68.8, 4.98, 2.46, false),
    objects(0.2, 579.9, 1.76, false),
    objects(0.1, 2503.9, 1.56, false),
    objects(3.9, 3.84, 1.33, true),
    objects(7.8, 19.0, 7.90, false),
];

/// The time of a static request on a server, which does 1,000 a second (SDIS02, table 1).
const STATIC: Duration = Duration::from_millis(1);
/// The time that a dynamic object takes beside (SDIS02, table 1).
const DYNAMIC: Duration = Duration::from_millis(10);
/// The time of a seek of the disk (SDIS02, table 1).
const SEEK: Duration = Duration::from_millis(1);
/// The throughput of the disk (SDIS02, table 1).
const DISK_BYTES_PER_S: f64 = 10e6;
/// The size from which files are not cached (SDIS02, table 1).
const CACHED_BYTES_MAX: f64 = 32.0 * 1024.0;

/// A task of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) bytes: u64,
    /// The time on a task server, processor and disk one after the other.
    pub(super) service: Duration,
}

/// A source that draws tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tasks {
    /// The share of the static files up to the cached size that is in the cache.
    pub(super) cache_hits: f64,
    pub(super) media: Media,
}

impl Tasks {
    /// Draws a task of table 2. Sizes of a type are lognormal with its mean and
    /// coefficient of variation.
    pub(super) fn draw(&self, dice: &mut Dice) -> Task {
        let kind = self.pick(dice.uniform());
        let variance = (1.0 + kind.cov * kind.cov).ln();
        let normal = normal(dice);
        let scale = (kind.mean_kb * 1024.0).ln() - variance / 2.0;
        let bytes = (scale + variance.sqrt() * normal).exp().max(1.0);
        let cached = bytes < CACHED_BYTES_MAX && dice.uniform() < self.cache_hits;
        let service = match (kind.dynamic, cached) {
            (true, _) => STATIC + DYNAMIC,
            (false, true) => STATIC,
            (false, false) => STATIC + SEEK + Duration::from_secs_f64(bytes / DISK_BYTES_PER_S),
        };
        Task {
            bytes: bytes as u64,
            service,
        }
    }

    /// Returns the share of a type in per cent of the requests; a little less than 100 in
    /// all by traffic.
    fn share(&self, kind: &ObjectType) -> f64 {
        match self.media {
            Media::Traffic if kind.media => MEDIA_BY_TRAFFIC_PERCENT,
            _ => kind.requests_percent,
        }
    }

    fn pick(&self, uniform: f64) -> &'static ObjectType {
        let total: f64 = TYPES.iter().map(|kind| self.share(kind)).sum();
        let mut left = uniform * total;
        for kind in &TYPES {
            let share = self.share(kind);
            if left < share {
                return kind;
            }
            left -= share;
        }
        // Rounding: the last one.
        &TYPES[TYPES.len() - 1]
    }

    /// Returns the mean time of a task on a task server, in seconds, from a
    /// million of them.
    pub(super) fn mean_service_s(&self) -> f64 {
        const DRAWS: u32 = 1_000_000;
        let mut dice = Dice::new(1);
        let times = (0..DRAWS).map(|_| self.draw(&mut dice).service.as_secs_f64());
        times.sum::<f64>() / f64::from(DRAWS)
    }
}

/// Draws a standard normal number (Box and Muller 1958).
fn normal(dice: &mut Dice) -> f64 {
    let radius = (2.0 * dice.exponential()).sqrt();
    radius * (2.0 * std::f64::consts::PI * dice.uniform()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(cache_hits: f64, media: Media) -> Tasks {
        Tasks { cache_hits, media }
    }

    #[test]
    fn by_traffic_there_is_less_audio_and_video() {
        let mean = |media| tasks(0.8, media).mean_service_s() * 1e3;
        let (requests, traffic) = (mean(Media::Requests), mean(Media::Traffic));
        // 0.18% of some 60 ms and 0.08% of some 250 ms.
        assert!(
            (0.2..0.5).contains(&(requests - traffic)),
            "{requests} {traffic}"
        );
        // Of 7.39 KB a request in all.
        for (percent, mean_kb) in [(1.6, 579.9), (6.7, 2503.9)] {
            let share: f64 = percent * 7.39 / mean_kb;
            assert!((share - MEDIA_BY_TRAFFIC_PERCENT).abs() < 0.001, "{share}");
        }
    }

    #[test]
    fn sizes_have_the_means_of_table_2() {
        let tasks = tasks(1.0, Media::Requests);
        let mut dice = Dice::new(7);
        let drawn: Vec<Task> = (0..400_000).map(|_| tasks.draw(&mut dice)).collect();
        let mean_kb = drawn.iter().map(|task| task.bytes as f64).sum::<f64>() / 400_000.0 / 1024.0;
        // The weighted sum of the rows; the paper's own total, 7.39, differs.
        let expected: f64 = TYPES.iter().map(|t| t.requests_percent * t.mean_kb).sum();
        let expected = expected / 100.0;
        assert!((expected - 9.83).abs() < 0.01, "{expected}");
        assert!((mean_kb / expected - 1.0).abs() < 0.15, "{mean_kb}");
        // Dynamic ones take 11 ms, whatever their size.
        let dynamic = drawn.iter().filter(|t| t.service.as_millis() == 11);
        let share = dynamic.count() as f64 / 400_000.0;
        assert!((share - 0.039).abs() < 0.003, "{share}");
    }

    #[test]
    fn what_is_not_cached_waits_for_the_disk() {
        let mean = |cache_hits| tasks(cache_hits, Media::Requests).mean_service_s() * 1e3;
        let (all, none) = (mean(1.0), mean(0.0));
        // 1 ms each, 10 ms for 3.9%, and the large files from the disk.
        assert!((1.7..2.5).contains(&all), "{all}");
        // A seek and 5 KB more for 95%.
        assert!((1.1..1.6).contains(&(none - all)), "{none}");
    }

    #[test]
    fn normal_numbers_are_normal() {
        let mut dice = Dice::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| normal(&mut dice)).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let variance = numbers.iter().map(|n| n * n).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
        let beyond = numbers.iter().filter(|n| **n > 1.96).count();
        assert!((2300..2700).contains(&beyond), "{beyond}");
    }
}
