//! An estimator of a response's size from its kind: its route, extension and content type.
//!
//! Responses of one route that share a file extension or a content type are much alike. Each such
//! group keeps the mean and the variance of the logarithms of its sizes, and a histogram of the
//! sizes.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::table::Known;
use crate::histogram::SizeHistogram;

/// The number of sizes in a group's histogram at which all counts are halved, so that old sizes
/// weigh less.
const HALVE_AT: u64 = 1024;

/// The number of places in a set, for which the groups that fall into it compete.
const WAYS: usize = 4;

/// The number of sizes from which on a group's estimate is a quantile. Of fewer, a histogram's
/// quantile is coarser than the mean of the logarithms.
const QUANTILE_MIN: u32 = 32;

/// The least weight of the newest size in a group's mean and variance.
const NEWEST_MIN: f64 = 1.0 / 256.0;

/// The highest confidence of a group's estimate, below that of any size learnt of the resource
/// itself.
const CONFIDENCE_MAX: f64 = 0.75;

/// The longest extension that makes a group, in characters; a longer one is ignored.
const EXTENSION_MAX: usize = 8;

/// The parameters of an estimator of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimatorConfig {
    /// The most memory in bytes that the groups take; each takes a little more than 4 KB.
    pub max_bytes: usize,
    /// The quantile of a group's sizes that is its estimate, in thousandths: 500 is the median.
    /// The higher it is, the fewer large responses are taken for small ones.
    pub quantile_per_mille: u32,
    /// The number of sizes that a group must have seen before it gives an estimate.
    pub observations_min: u32,
}

/// The groups that a response belongs to: those of its route, its extension and its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    route: u64,
    extension: Option<u64>,
    content_type: Option<u64>,
}

impl Groups {
    /// Returns the groups of a request for `path` (without its query) on the route of index
    /// `route`. The content type is known only with the response: see
    /// [`Groups::with_content_type`].
    pub fn new(route: usize, path: &str) -> Self {
        let extension = extension(path);
        Self {
            route: hash(route, 0, ""),
            extension: extension.map(|extension| hash(route, 1, &extension)),
            content_type: None,
        }
    }

    /// Adds the group of a content type, which is given as the header field has it.
    #[must_use]
    pub fn with_content_type(self, route: usize, content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default();
        let essence = essence.trim().to_ascii_lowercase();
        Self {
            content_type: (!essence.is_empty()).then(|| hash(route, 2, &essence)),
            ..self
        }
    }

    /// Iterates over the keys of the groups, the most specific first.
    fn keys(&self) -> impl Iterator<Item = u64> {
        let specific = self.extension.into_iter().chain(self.content_type);
        specific.chain([self.route])
    }
}

/// Returns a path's extension in lower case: `js` of `/a/b.min.JS`.
fn extension(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let plain = extension.bytes().all(|b| b.is_ascii_alphanumeric());
    let good = !stem.is_empty() && plain && (1..=EXTENSION_MAX).contains(&extension.len());
    good.then(|| extension.to_ascii_lowercase())
}

fn hash(route: usize, kind: u8, text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(route as u64);
    hasher.write_u8(kind);
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The statistics of the sizes of one group.
#[derive(Clone, Debug)]
struct SizeGroup {
    key: u64,
    /// The number of sizes of groups without a place after which the group loses its own.
    hold: u32,
    observations: u32,
    /// The mean of the natural logarithms of the sizes.
    mean: f64,
    variance: f64,
    sizes: SizeHistogram,
    /// The group's estimate, renewed as sizes come.
    says: Known,
}

impl SizeGroup {
    fn new(key: u64) -> Self {
        Self {
            key,
            hold: 0,
            observations: 0,
            mean: 0.0,
            variance: 0.0,
            sizes: SizeHistogram::halving_at(HALVE_AT),
            says: Known {
                bytes: 0,
                confidence: 0.0,
            },
        }
    }

    fn observe(&mut self, bytes: u64, quantile_per_mille: u32) {
        self.observations = self.observations.saturating_add(1);
        self.hold = self.hold.saturating_add(1).min(1 << 16);
        let log = (bytes.max(1) as f64).ln();
        // The plain mean at first, then one that forgets.
        let newest = (1.0 / f64::from(self.observations)).max(NEWEST_MIN);
        let off = log - self.mean;
        self.mean += newest * off;
        self.variance = (1.0 - newest) * (self.variance + newest * off * off);
        self.sizes.observe(bytes);
        // The quantile of many changes slowly, and takes a scan.
        if self.observations < 2 * QUANTILE_MIN || self.observations.is_multiple_of(16) {
            self.says = self.say(quantile_per_mille);
        }
    }

    fn say(&self, quantile_per_mille: u32) -> Known {
        let bytes = match self.observations < QUANTILE_MIN {
            true => self.mean.exp().round() as u64,
            false => self.sizes.quantile_per_mille(u64::from(quantile_per_mille)),
        };
        // The share of sizes that a factor of two covers, counted where there
        // are enough to count, and of a log-normal group of few.
        let within = match self.observations < QUANTILE_MIN {
            true => 1.0 / (1.0 + self.variance.sqrt() / std::f64::consts::LN_2),
            false => self.sizes.share_between(bytes / 2, bytes.saturating_mul(2)),
        };
        let seen = f64::from(self.observations);
        let confidence = CONFIDENCE_MAX * within * seen / (seen + 8.0);
        Known {
            bytes,
            confidence: confidence as f32,
        }
    }
}

/// An estimator of sizes by group, in a fixed number of bytes.
#[derive(Clone, Debug)]
pub struct Estimator {
    config: EstimatorConfig,
    /// The groups, in sets of [`WAYS`].
    groups: Vec<Option<Box<SizeGroup>>>,
}

impl Estimator {
    /// Creates an estimator that has seen no size.
    pub fn new(config: EstimatorConfig) -> Self {
        let each = size_of::<SizeGroup>() + SizeHistogram::BYTES + size_of::<usize>();
        let sets = (config.max_bytes / each / WAYS).max(1);
        Self {
            config,
            groups: vec![None; sets * WAYS],
        }
    }

    fn set(&self, key: u64) -> std::ops::Range<usize> {
        let sets = (self.groups.len() / WAYS) as u64;
        let start = (key % sets) as usize * WAYS;
        start..start + WAYS
    }

    /// Counts the size of a response in each of its groups.
    pub fn observe(&mut self, groups: &Groups, bytes: u64) {
        let quantile_per_mille = self.config.quantile_per_mille;
        for key in groups.keys() {
            if let Some(group) = self.place(key) {
                group.observe(bytes, quantile_per_mille);
            }
        }
    }

    /// Returns a group, which gets a place if it can. A new group takes the place of the group
    /// seen the least lately, but has to come as often as that one did: names that clients make
    /// up push no group out.
    fn place(&mut self, key: u64) -> Option<&mut SizeGroup> {
        let set = self.set(key);
        let holds = |place: &Option<Box<SizeGroup>>| place.as_ref().map_or(0, |group| group.hold);
        let places = &mut self.groups[set];
        let own = |place: &Option<Box<SizeGroup>>| place.as_ref().is_some_and(|g| g.key == key);
        let index = match places.iter().position(own) {
            Some(index) => index,
            None => {
                let (index, place) = places
                    .iter_mut()
                    .enumerate()
                    .min_by_key(|(_, place)| holds(place))?;
                match place {
                    Some(group) if group.hold > 0 => {
                        group.hold -= 1;
                        return None;
                    }
                    _ => *place = Some(Box::new(SizeGroup::new(key))),
                }
                index
            }
        };
        places[index].as_deref_mut()
    }

    /// Estimates the size of a response by its most trusted group. The route as a whole counts
    /// only if no other group has seen enough.
    pub fn estimate(&self, groups: &Groups) -> Option<Known> {
        let says = |key: u64| {
            let found = self.groups[self.set(key)].iter().flatten();
            let mut found = found.filter(|group| group.key == key);
            let group = found.find(|group| group.observations >= self.config.observations_min);
            group.map(|group| group.says)
        };
        let specific = groups.extension.into_iter().chain(groups.content_type);
        let best = specific.filter_map(says);
        best.max_by(|a, b| a.confidence.total_cmp(&b.confidence))
            .or_else(|| says(groups.route))
    }

    /// Returns the number of places that are taken by groups, and the number of all places.
    pub fn occupancy(&self) -> (usize, usize) {
        let taken = self.groups.iter().flatten().count();
        (taken, self.groups.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(max_bytes: usize, quantile_per_mille: u32) -> Estimator {
        Estimator::new(EstimatorConfig {
            max_bytes,
            quantile_per_mille,
            observations_min: 4,
        })
    }

    fn groups(path: &str, content_type: &str) -> Groups {
        Groups::new(0, path).with_content_type(0, content_type)
    }

    #[test]
    fn extensions_are_told_from_what_looks_like_them() {
        for (path, expected) in [
            ("/a/b.min.JS", Some("js")),
            ("/a.b/c", None),
            ("/.htaccess", None),
            ("/a.", None),
            ("/a.tar.gz", Some("gz")),
            ("/a.b-c", None),
            ("/v1.123456789", None),
            ("", None),
        ] {
            assert_eq!(extension(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn kinds_differ_and_the_route_stands_in() {
        let mut estimator = estimator(1 << 20, 500);
        assert_eq!(estimator.estimate(&groups("/a.css", "")), None);
        for n in 0..200_u64 {
            estimator.observe(&groups(&format!("/{n}.css"), "text/css"), 2000 + n);
            estimator.observe(
                &groups(&format!("/{n}.jpg"), "image/jpeg"),
                90_000 + 100 * n,
            );
        }
        let bytes = |path, content_type| {
            let known = estimator.estimate(&groups(path, content_type)).unwrap();
            assert!(known.confidence > 0.5 || path == "/x", "{path} {known:?}");
            known.bytes
        };
        assert!((2000..2400).contains(&bytes("/new.css", "")));
        assert!((90_000..120_000).contains(&bytes("/new.jpg", "")));
        assert!((90_000..120_000).contains(&bytes("/x", "Image/JPEG; q=1")));
        // Of an unknown kind: between the two.
        assert!((2000..120_000).contains(&bytes("/x", "")));
        assert_eq!(estimator.estimate(&Groups::new(1, "/a.css")), None);
    }

    #[test]
    fn few_sizes_say_their_mean_and_many_the_quantile() {
        let mut few = estimator(1 << 20, 900);
        for bytes in [100, 10_000, 100, 10_000] {
            few.observe(&groups("/a", ""), bytes);
        }
        let known = few.estimate(&groups("/a", "")).unwrap();
        assert_eq!(known.bytes, 1000, "the mean of the logarithms");
        assert!(known.confidence < 0.1, "{known:?}");
        for n in 0..1000 {
            few.observe(&groups("/a", ""), if n % 10 < 8 { 100 } else { 10_000 });
        }
        let known = few.estimate(&groups("/a", "")).unwrap();
        assert!((10_000..11_000).contains(&known.bytes), "{known:?}");
    }

    #[test]
    fn it_follows_a_change() {
        let mut estimator = estimator(1 << 20, 500);
        for _ in 0..2000 {
            estimator.observe(&groups("/a", ""), 1000);
        }
        for _ in 0..2000 {
            estimator.observe(&groups("/a", ""), 50_000);
        }
        let known = estimator.estimate(&groups("/a", "")).unwrap();
        assert!((50_000..55_000).contains(&known.bytes), "{known:?}");
    }

    #[test]
    fn names_that_clients_make_up_push_nothing_out() {
        let mut estimator = estimator(64 << 10, 500);
        let (_, places) = estimator.occupancy();
        assert!(places * (SizeHistogram::BYTES + 100) <= 64 << 10);
        for _ in 0..1000 {
            estimator.observe(&groups("/a.css", "text/css"), 500);
        }
        for n in 0..20_000 {
            estimator.observe(&groups(&format!("/a.{n}"), "text/html"), 1_000_000);
        }
        let known = estimator.estimate(&groups("/a.css", "")).unwrap();
        assert!((500..600).contains(&known.bytes), "{known:?}");
    }

    /// Creates an estimator with room for `sets` sets of groups.
    fn with_sets(sets: usize) -> Estimator {
        let each = size_of::<SizeGroup>() + SizeHistogram::BYTES + size_of::<usize>();
        estimator(sets * WAYS * each, 500)
    }

    /// Returns a group that has seen these sizes, and estimates their median.
    fn group(sizes: impl IntoIterator<Item = u64>) -> SizeGroup {
        let mut group = SizeGroup::new(0);
        for bytes in sizes {
            group.observe(bytes, 500);
        }
        group
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    }

    #[test]
    fn few_sizes_have_a_mean_and_a_variance_of_their_logarithms() {
        use std::f64::consts::LN_2;

        let group = group([100, 400, 1600]);
        assert_near(group.mean, 400_f64.ln());
        // Two of three are two doublings off: 2/3 (2 ln 2)^2.
        assert_near(group.variance, 8.0 / 3.0 * LN_2 * LN_2);
        assert_eq!(group.says.bytes, 400);
        // The deviation is 1.632993 doublings, and 3 of 3 + 8 count: 3/4 / 2.632993 * 3/11.
        assert_near(f64::from(group.says.confidence), 0.077_685_3);
    }

    #[test]
    fn the_newest_size_weighs_no_less_than_one_of_256() {
        let mut group = group(std::iter::repeat_n(1, 999));
        assert_eq!((group.mean, group.variance), (0.0, 0.0));
        group.observe(1 << 8, 500);
        let ln = 256_f64.ln();
        assert_near(group.mean, ln / 256.0);
        assert_near(group.variance, 255.0 / 256.0 * ln * ln / 256.0);
    }

    #[test]
    fn from_32_sizes_on_the_quantile_is_said_and_counted() {
        let sizes = || {
            let sizes = [(8, 10), (16, 100), (8, 10_000)].into_iter();
            sizes.flat_map(|(count, bytes)| std::iter::repeat_n(bytes, count))
        };
        // The mean of the logarithms: 10^((7 + 32 + 32) / 31).
        assert_eq!(group(sizes().skip(1)).says.bytes, 195);
        let known = group(sizes()).says;
        // 100 is in the step from 96 to 103; half of the sizes are between 51 and 206.
        assert_eq!(known.bytes, 103);
        assert_near(f64::from(known.confidence), 0.75 * 0.5 * 32.0 / 40.0);
    }

    #[test]
    fn what_is_said_is_computed_each_time_and_from_64_sizes_on_each_sixteenth() {
        for (sizes, counted) in [(33, 33.0), (63, 63.0), (64, 64.0), (79, 64.0), (80, 80.0)] {
            let confidence = group(std::iter::repeat_n(1000, sizes)).says.confidence;
            assert_near(f64::from(confidence), 0.75 * counted / (counted + 8.0));
        }
    }

    #[test]
    fn sets_of_four_lie_side_by_side() {
        let mut estimator = with_sets(3);
        let sets = [0, 1, 2, 3, 7].map(|key| estimator.set(key));
        assert_eq!(sets, [0..4, 4..8, 8..12, 0..4, 4..8]);
        assert_eq!(estimator.occupancy(), (0, 12));
        for key in [0, 1, 2] {
            assert!(estimator.place(key).is_some());
        }
        assert_eq!(estimator.occupancy(), (3, 12));
    }

    #[test]
    fn a_new_group_comes_as_often_as_the_one_whose_place_it_takes() {
        let mut estimator = with_sets(1);
        for (key, sizes) in [(1, 5), (2, 2), (3, 5), (4, 5)] {
            for _ in 0..sizes {
                estimator.place(key).unwrap().observe(1000, 500);
            }
        }
        // The ninth has seen nothing yet, so the eighth takes its place at once.
        let placed = [9, 9, 9, 8].map(|key| estimator.place(key).is_some());
        assert_eq!(placed, [false, false, true, true]);
        let held = estimator.groups.iter().flatten().map(|group| group.key);
        assert_eq!(held.collect::<Vec<_>>(), [1, 8, 3, 4]);
    }
}
