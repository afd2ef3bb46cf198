//! Figures in words, as both the terminal and the page have them.

use sprat_measure::text::significant;

use super::content::{Clients, Report, SizeClass};

/// Writes a span of time in its two largest units.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 10.0 => format!("{} s", significant(seconds)),
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min {} s", whole % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Writes a number of bytes with three digits: `937 B`, `8.60 KB` of 1024 bytes.
pub(super) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024.0 {
        return format!("{bytes:.0} B");
    }
    let mut value = bytes / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), UNITS[unit])
}

/// Writes a count with commas: `174,617`.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a figure in five characters at most: three digits, and thousands or millions where there
/// are more than four.
pub(super) fn short(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => significant(v / 1e6) + "M",
        v if v >= 9_999.5 => significant(v / 1e3) + "k",
        v => significant(v),
    }
}

/// Names the classes of size, each in a few characters.
pub(super) fn classes(classes: &[SizeClass]) -> Vec<String> {
    let mut last = None;
    let name = |class: &SizeClass| {
        let short = |bytes: u64| sprat_config::units::format_bytes(bytes);
        let name = match (last, class.up_to_bytes) {
            (None, Some(most)) => format!("to {}", short(most)),
            (Some(least), Some(most)) => {
                let (least, most) = (short(least), short(most));
                // Of two that have the same unit one says it.
                match least[least.len() - 2..] == most[most.len() - 2..] {
                    true => format!("{}-{most}", &least[..least.len() - 2]),
                    false => format!("{least}-{most}"),
                }
            }
            (Some(least), None) => format!("over {}", short(least)),
            (None, None) => "all".to_owned(),
        };
        last = class.up_to_bytes;
        name
    };
    classes.iter().map(name).collect()
}

/// Writes how a value compares with another: `-46%`, `x3.1` where it is many times as much.
pub(super) fn change(value: f64, than: f64) -> String {
    let ratio = value / than;
    match ratio {
        r if !r.is_finite() => "-".to_owned(),
        r if r >= 2.995 => format!("x{}", significant(r)),
        r => format!("{:+.0}%", (r - 1.0) * 100.0),
    }
}

/// Writes how many more clients a policy is worth.
pub(super) fn clients(clients: Option<Clients>) -> String {
    let more = |times: f64| match times {
        t if t >= 2.995 => format!("x{}", significant(t)),
        t => format!("{:+.0}%", (t - 1.0) * 100.0),
    };
    match clients {
        None => "-".to_owned(),
        Some(Clients::Times(times)) => more(times),
        Some(Clients::AtLeast(times)) => format!(">{}", more(times)),
        Some(Clients::Below(times)) => format!("<{}", more(times)),
    }
}

/// Returns what the prediction comes to, in a few sentences.
pub(super) fn verdict(report: &Report) -> Vec<String> {
    let today = |part| report.today(part);
    let parts = report.baseline().zip(report.chosen());
    let Some((baseline, chosen)) = parts else {
        return vec!["There is no policy to compare with.".to_owned()];
    };
    let (Some(before), Some(after)) = (today(baseline), today(chosen)) else {
        return vec![overload(report.link.load)];
    };
    let (name, than) = (&chosen.policy, &baseline.policy);
    let (old, new) = (before.all.response_ms.mean, after.all.response_ms.mean);
    let gain = match old / new {
        ratio if ratio >= 1.005 => format!("{} times less than", significant(ratio)),
        ratio if ratio <= 0.995 => format!("{} times more than", significant(1.0 / ratio)),
        _ => "as much as".to_owned(),
    };
    let mut sentences = vec![format!(
        "Under {name} the mean is {} ms on the link, {gain} under {than} ({} ms).",
        significant(new),
        significant(old),
    )];
    let largest = (
        after.largest_1_percent.response_ms.mean,
        before.largest_1_percent.response_ms.mean,
    );
    let pays = match largest.0 / largest.1 - 1.0 {
        more if more >= 0.005 => format!("take {:.0}% longer", more * 100.0),
        less if less <= -0.005 => format!("take {:.0}% less time", less * -100.0),
        _ => "take as long as before".to_owned(),
    };
    sentences.push(format!("The largest 1% {pays}."));
    sentences.extend(match chosen.clients {
        Some(Clients::Times(times)) if times > 1.0 => Some(format!(
            "It serves {} times as many clients as well as {than} serves today's.",
            significant(times)
        )),
        Some(Clients::AtLeast(times)) => Some(at_least(times, report.link.load, than)),
        _ => None,
    });
    sentences
}

/// The load from which on a link is all but full: the search for clients ends at 0.99.
const ALL_BUT_FULL: f64 = 0.985;

/// Returns that a policy serves so many times as many clients well. The link is all but full then,
/// unless too many responses waited at a higher rate.
fn at_least(times: f64, load: f64, than: &str) -> String {
    let when = match times * load >= ALL_BUT_FULL {
        true => ", when the link is all but full,",
        false => "",
    };
    format!(
        "With {} times as many clients{when} its mean is still less than that of {than} today.",
        significant(times)
    )
}

/// Returns why there are no figures at the log's own rate.
fn overload(load: f64) -> String {
    let why = match load >= 1.0 {
        true => ": more than it carries, whatever the order",
        false => ", but more than 65,536 responses wait at a time",
    };
    format!(
        "The log asks {} of the link{why}. Look at --uplink, or at lower --rates.",
        percent(load)
    )
}

/// Writes a share: `42%`.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        value if value < 9.95 => format!("{value:.1}%"),
        value => format!("{value:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [count(7), count(1234), count(1_234_567)],
            ["7", "1,234", "1,234,567"]
        );
        assert_eq!(
            [span(0.5), span(59.6), span(61.0)],
            ["0.50 s", "1 min 0 s", "1 min 1 s"]
        );
        assert_eq!([span(3661.0), span(90_000.0)], ["1 h 1 min", "1 d 1 h"]);
        assert_eq!(
            [bytes(937.0), bytes(8806.4), bytes(3e6)],
            ["937 B", "8.60 KB", "2.86 MB"]
        );
        assert_eq!(
            [change(54.0, 100.0), change(310.0, 100.0)],
            ["-46%", "x3.10"]
        );
        assert_eq!(change(1.0, f64::NAN), "-");
        assert_eq!(
            [short(0.5), short(9999.0), short(10_000.0)],
            ["0.50", "9999", "10.0k"]
        );
        assert_eq!([short(999_499.0), short(1.6e6)], ["999k", "1.60M"]);
    }

    #[test]
    fn a_link_is_said_to_be_full_only_where_it_is() {
        let full = at_least(1.98, 0.5, "fair");
        assert!(
            full.starts_with("With 1.98 times as many clients, when the link is all but full, its")
        );
        let flooded = at_least(1.5, 0.5, "fair");
        assert!(flooded.starts_with("With 1.50 times as many clients its mean"));
    }

    #[test]
    fn classes_have_names() {
        let bounds = [Some(1 << 10), Some(10 << 10), Some(1 << 20), None];
        let bounds = bounds.map(|up_to_bytes| SizeClass { up_to_bytes });
        let names = classes(&bounds);
        assert_eq!(names, ["to 1KB", "1-10KB", "10KB-1MB", "over 1MB"]);
    }
}
