//! A topology's YAML: keys, values, and what each may be.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sprat_config::units;

use crate::links::{
    Average, Change, DropSpread, LinkSettings, QueueBound, QueueSettings, RedSettings, Schedule,
};

/// A topology's file as a whole.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(deserialize_with = "version")]
    #[expect(dead_code, reason = "what is read says that it is the one known")]
    version: u64,
    #[serde(default = "default_name", deserialize_with = "name")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) farm: Farm,
    #[serde(default)]
    pub(super) shared: Option<Pair>,
    #[serde(default)]
    pub(super) marks: Marks,
    pub(super) groups: Vec<Group>,
}

/// The hosts that send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Farm {
    #[serde(default = "one", deserialize_with = "hosts")]
    pub(super) servers: u8,
    #[serde(default)]
    pub(super) link: Option<Pair>,
    #[serde(default)]
    pub(super) tbf: Option<FarmBucket>,
    #[serde(default)]
    pub(super) tcp: Tcp,
}

impl Default for Farm {
    fn default() -> Self {
        Self {
            servers: 1,
            link: None,
            tbf: None,
            tcp: Tcp::default(),
        }
    }
}

/// The kernel's token bucket on the farm's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FarmBucket {
    #[serde(deserialize_with = "rate")]
    pub(crate) rate: u64,
    #[serde(default = "bucket_queue", deserialize_with = "queue_bytes")]
    pub(crate) queue: u64,
}

/// The TCP settings of the farm's host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tcp {
    #[serde(default)]
    pub(crate) congestion: CongestionControl,
    #[serde(default, deserialize_with = "window")]
    pub(crate) initial_window: Option<u32>,
    #[serde(default)]
    pub(crate) recovery: Recovery,
}

/// The congestion control of the connections on which the farm sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CongestionControl {
    #[default]
    Cubic,
    Bbr,
    Reno,
}

impl CongestionControl {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Reno => "reno",
        }
    }
}

/// The way in which the farm's TCP detects losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Recovery {
    /// The kernel's own: RACK and tail loss probes.
    #[default]
    Rack,
    /// Three duplicate acknowledgements or a time-out, as in 2002.
    Classic,
}

/// The code points whose packets are marked OUT.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marks {
    #[serde(deserialize_with = "code_points")]
    pub(super) out: Vec<u8>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            out: vec![AF13, LOWER_EFFORT],
        }
    }
}

/// Clients, or groups of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    #[serde(deserialize_with = "name")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "some_hosts")]
    pub(super) clients: Option<u8>,
    #[serde(default, deserialize_with = "some_weight")]
    pub(super) share: Option<f64>,
    #[serde(default)]
    pub(super) link: Option<Pair>,
    #[serde(default)]
    pub(super) trunk: Option<Pair>,
    #[serde(default)]
    pub(super) groups: Vec<Group>,
}

/// A link in both directions; a direction that is left out passes every packet at once.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pair {
    #[serde(default)]
    pub(super) down: Direction,
    #[serde(default)]
    pub(super) up: Direction,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "DirectionFile")]
pub(super) struct Direction(pub(super) LinkSettings);

impl Default for Direction {
    fn default() -> Self {
        Self(LinkSettings {
            queue: DROPTAIL_100,
            overhead_bytes: ETHERNET_BYTES,
            ..LinkSettings::default()
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the keys of a link's direction")]
struct DirectionFile {
    #[serde(default, deserialize_with = "some_rate")]
    rate: Option<u64>,
    #[serde(default, deserialize_with = "delay")]
    delay: Duration,
    #[serde(default, deserialize_with = "delay")]
    jitter: Duration,
    #[serde(default, deserialize_with = "probability")]
    loss: f64,
    #[serde(default = "ethernet", deserialize_with = "overhead")]
    overhead: u32,
    #[serde(default)]
    queue: QueueKind,
    #[serde(default)]
    schedule: Vec<ChangeFile>,
    #[serde(default, deserialize_with = "some_repeat")]
    repeat: Option<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeFile {
    #[serde(deserialize_with = "moment")]
    at: Duration,
    #[serde(default, deserialize_with = "some_rate")]
    rate: Option<u64>,
    #[serde(default, deserialize_with = "some_delay")]
    delay: Option<Duration>,
}

impl TryFrom<DirectionFile> for Direction {
    type Error = String;

    fn try_from(file: DirectionFile) -> Result<Self, String> {
        let changes = &file.schedule;
        if changes.len() > CHANGES_MAX {
            return Err(format!("a schedule has at most {CHANGES_MAX} changes"));
        }
        if !changes.is_sorted_by(|a, b| a.at < b.at) {
            return Err("the times of a schedule must rise".to_owned());
        }
        if file.rate.is_none() && changes.iter().any(|change| change.rate.is_some()) {
            return Err("a schedule that changes the rate needs a `rate` to begin with".to_owned());
        }
        match (file.repeat, changes.last()) {
            (Some(_), None) => return Err("`repeat` is of a schedule".to_owned()),
            (Some(repeat), Some(last)) if repeat <= last.at => {
                return Err("`repeat` must be longer than the schedule".to_owned());
            }
            _ => {}
        }
        Ok(Self(LinkSettings {
            rate_bits_per_s: file.rate,
            delay: file.delay,
            jitter: file.jitter,
            loss: file.loss,
            overhead_bytes: file.overhead,
            queue: file.queue.0,
            schedule: Schedule {
                changes: changes
                    .iter()
                    .map(|change| Change {
                        at: change.at,
                        rate_bits_per_s: change.rate,
                        delay: change.delay,
                    })
                    .collect(),
                repeat: file.repeat,
            },
            ..LinkSettings::default()
        }))
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "QueueFile")]
struct QueueKind(QueueSettings);

impl Default for QueueKind {
    fn default() -> Self {
        Self(DROPTAIL_100)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFile {
    #[serde(default)]
    kind: QueueKeyword,
    #[serde(default, deserialize_with = "some_queue_packets")]
    packets: Option<u64>,
    #[serde(default, deserialize_with = "some_queue_bytes")]
    bytes: Option<u64>,
    #[serde(default)]
    red: Option<RedFile>,
    #[serde(default, rename = "in")]
    within: Option<RedFile>,
    #[serde(default)]
    out: Option<RedFile>,
    #[serde(default)]
    average: Option<AverageFile>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum QueueKeyword {
    #[default]
    Droptail,
    Red,
    Vq,
    Pq,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AverageFile {
    Decoupled,
    Coupled,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RedKeys")]
struct RedFile(RedSettings);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RedKeys {
    min_threshold: f64,
    max_threshold: f64,
    max_probability: f64,
    weight: f64,
}

impl TryFrom<RedKeys> for RedFile {
    type Error = String;

    fn try_from(keys: RedKeys) -> Result<Self, String> {
        let thresholds = 0.0 <= keys.min_threshold
            && keys.min_threshold < keys.max_threshold
            && keys.max_threshold <= QUEUE_PACKETS_MAX as f64;
        let shares = [keys.max_probability, keys.weight].map(|share| 0.0 < share && share <= 1.0);
        if !thresholds {
            return Err("thresholds are packets, 0 <= min_threshold < max_threshold".to_owned());
        }
        if shares != [true; 2] {
            return Err("max_probability and weight are above 0 and at most 1".to_owned());
        }
        Ok(Self(RedSettings {
            min_threshold: keys.min_threshold,
            max_threshold: keys.max_threshold,
            max_probability: keys.max_probability,
            weight: keys.weight,
            spread: DropSpread::Even,
        }))
    }
}

impl TryFrom<QueueFile> for QueueKind {
    type Error = String;

    fn try_from(file: QueueFile) -> Result<Self, String> {
        let bound = QueueBound {
            packets: file.packets.unwrap_or(match (file.bytes, file.kind) {
                (Some(_), _) => QUEUE_PACKETS_MAX,
                (None, QueueKeyword::Droptail) => DROPTAIL_PACKETS,
                (None, _) => SFD_PACKETS,
            }),
            bytes: file.bytes.unwrap_or(QUEUE_BYTES_MAX),
        };
        let classes = file.within.is_some() || file.out.is_some();
        let strange = match file.kind {
            QueueKeyword::Droptail => file.red.is_some() || classes || file.average.is_some(),
            QueueKeyword::Red => classes || file.average.is_some(),
            QueueKeyword::Vq => file.red.is_some(),
            QueueKeyword::Pq => file.red.is_some() || file.average.is_some(),
        };
        if strange {
            return Err(
                "`red` is of kind red, `in` and `out` of vq and pq, `average` of vq".to_owned(),
            );
        }
        let red = [
            file.within.map_or(RedSettings::SFD_IN, |file| file.0),
            file.out.map_or(RedSettings::SFD_OUT, |file| file.0),
        ];
        Ok(Self(match file.kind {
            QueueKeyword::Droptail => QueueSettings::Droptail { bound },
            QueueKeyword::Red => QueueSettings::Red {
                bound,
                red: file.red.map_or(RedSettings::SFD_OUT, |file| file.0),
            },
            QueueKeyword::Vq => QueueSettings::Virtual {
                bound,
                red,
                average: match file.average {
                    None | Some(AverageFile::Decoupled) => Average::Decoupled,
                    Some(AverageFile::Coupled) => Average::Coupled,
                },
            },
            QueueKeyword::Pq => QueueSettings::Priority { bound, red },
        }))
    }
}

/// A full packet of IP, the least that a queue has room for.
const PACKET_BYTES: u64 = 1500;
const ETHERNET_BYTES: u32 = 14;
/// The transmit queue of TOCS03's server, in packets.
const DROPTAIL_PACKETS: u64 = 100;
/// The queue of SFD02's routers, in packets.
const SFD_PACKETS: u64 = 50;
const QUEUE_PACKETS_MAX: u64 = 100_000;
const QUEUE_BYTES_MAX: u64 = 64 << 20;
const DROPTAIL_100: QueueSettings = QueueSettings::Droptail {
    bound: QueueBound::packets(DROPTAIL_PACKETS),
};
const CHANGES_MAX: usize = 1000;
const DELAY_MAX: Duration = Duration::from_secs(10);
const MOMENT_MAX: Duration = Duration::from_secs(24 * 3600);
/// The shortest time after which a schedule repeats: each repetition costs the link an event.
const REPEAT_MIN: Duration = Duration::from_millis(10);
const RATE_MIN: u64 = 1_000;
const RATE_MAX: u64 = 10_000_000_000;
/// The most clients of a group, and the most servers, within what 8 bits can address.
const HOSTS_MAX: u64 = 250;
const LOWER_EFFORT: u8 = 1;
const AF13: u8 = 14;

fn default_name() -> String {
    "sprat-net".to_owned()
}

fn one() -> u8 {
    1
}

fn ethernet() -> u32 {
    ETHERNET_BYTES
}

fn bucket_queue() -> u64 {
    DROPTAIL_PACKETS * 1514
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    number(from, 1, 1)
}

fn number<'de, D: Deserializer<'de>>(from: D, least: u64, most: u64) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let range = if least == most {
        format!("it must be {least}")
    } else {
        format!("it must be from {least} to {most}")
    };
    Err(D::Error::custom(format!("{number} cannot be: {range}")))
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    crate::lab::lab_name(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn hosts<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    Ok(number(from, 1, HOSTS_MAX)? as u8)
}

fn some_hosts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    hosts(from).map(Some)
}

fn window<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    Ok(Some(number(from, 1, 1000)? as u32))
}

fn overhead<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Ok(number(from, 0, 1000)? as u32)
}

fn some_queue_packets<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    number(from, 1, QUEUE_PACKETS_MAX).map(Some)
}

fn queue_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let bytes = units::parse_bytes(&text(from)?).map_err(D::Error::custom)?;
    if (PACKET_BYTES..=QUEUE_BYTES_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(D::Error::custom(
            "a queue has room for 1500 bytes at least, and 64MB at most",
        ))
    }
}

fn some_queue_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    queue_bytes(from).map(Some)
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let rate = units::parse_bit_rate(&text(from)?).map_err(D::Error::custom)?;
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        Ok(rate)
    } else {
        Err(D::Error::custom("a rate is from 1kbit to 10gbit"))
    }
}

fn some_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    rate(from).map(Some)
}

fn span<'de, D: Deserializer<'de>>(from: D, most: Duration) -> Result<Duration, D::Error> {
    let span = units::parse_duration(&text(from)?).map_err(D::Error::custom)?;
    if span <= most {
        Ok(span)
    } else {
        let most = units::format_duration(most);
        Err(D::Error::custom(format!("it must be {most} at most")))
    }
}

fn delay<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    span(from, DELAY_MAX)
}

fn some_delay<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    delay(from).map(Some)
}

fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    span(from, MOMENT_MAX)
}

fn some_repeat<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let span = span(from, MOMENT_MAX)?;
    if span < REPEAT_MIN {
        return Err(D::Error::custom("`repeat` is 10ms at least"));
    }
    Ok(Some(span))
}

/// Reads a share: `0.02`, or `2%`.
fn probability<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let text = text(from)?;
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(D::Error::custom(format!(
            "`{text}` is not a share from 0 to 1, such as 0.02 or 2%"
        ))),
    }
}

fn some_weight<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match f64::deserialize(from)? {
        weight if (0.0..=1e6).contains(&weight) => Ok(Some(weight)),
        weight => Err(D::Error::custom(format!(
            "{weight} is not a weight from 0 to 1000000"
        ))),
    }
}

fn code_points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    names
        .iter()
        .map(|name| code_point(name).map_err(D::Error::custom))
        .collect()
}

/// Parses a code point by its number or its name in RFC 2474, 2597, 3246 and 8622.
fn code_point(name: &str) -> Result<u8, String> {
    let digits = name.as_bytes();
    let found = match digits {
        b"default" | b"be" => Some(0),
        b"le" => Some(LOWER_EFFORT),
        b"ef" => Some(46),
        [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some((class - b'0') * 8 + (drop - b'0') * 2)
        }
        _ => name.parse().ok().filter(|number| *number < 64),
    };
    found.ok_or_else(|| format!("`{name}` is not a code point, such as af13, le, or 0 to 63"))
}

/// Reads a scalar as it is written; YAML has `0.02` for a number and `2%` for a text.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_names_and_numbers() {
        for (name, number) in [
            ("af11", 10),
            ("af13", 14),
            ("le", 1),
            ("ef", 46),
            ("cs1", 8),
            ("63", 63),
        ] {
            assert_eq!(code_point(name), Ok(number));
        }
        for name in ["af10", "af53", "cs8", "64", "", "-1"] {
            assert!(code_point(name).is_err(), "{name}");
        }
    }
}
