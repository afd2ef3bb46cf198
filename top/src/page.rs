//! The page: lines of text with styles, as many as there is room for.

use ratatui::layout::Size;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::told::{Class, Endpoint, Flow, Flows, Gain, Looked, Stats};
use crate::watch::Watch;

/// The lines that classes, and endpoints, may have where a third of the page is less.
const FEW: usize = 4;

/// The columns of a full bar, at most.
const BAR: usize = 20;

/// The look of a page: with colours, without them, or plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Colour,
    /// Bold, dim and reversed text alone.
    Mono,
    Plain,
}

impl Looks {
    fn with(self, colour: Color, otherwise: Modifier) -> Style {
        match self {
            Self::Colour => Style::new().fg(colour),
            Self::Mono => Style::new().add_modifier(otherwise),
            Self::Plain => Style::new(),
        }
    }

    fn title(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Colour | Self::Mono => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    fn bad(self) -> Style {
        self.with(Color::Red, Modifier::BOLD)
    }

    fn faint(self) -> Style {
        self.with(Color::DarkGray, Modifier::DIM)
    }

    fn busy(self) -> Style {
        self.with(Color::Green, Modifier::BOLD)
    }
}

/// Returns the lines of a page for a terminal of this size.
pub(crate) fn page(watch: &Watch, name: &str, size: Size, looks: Looks) -> Vec<Line<'static>> {
    let (columns, most) = (usize::from(size.width), usize::from(size.height));
    let mut page = vec![heading(watch, name, columns, looks)];
    if watch.shows_help {
        page.extend(HELP.iter().map(|line| Line::raw(*line)));
        page.truncate(most);
        return page;
    }
    let Some(looked) = watch.last() else {
        page.push(Line::raw("waiting for an answer"));
        return page;
    };
    page.extend(figures(watch, &looked.stats, columns, looks));
    let classes = classes(watch, &looked.stats);
    let endpoints = endpoints(watch, &looked.stats, looks);
    let below = lists(classes, endpoints, most.saturating_sub(page.len()), looks);
    let room = most.saturating_sub(page.len() + below.len());
    page.extend(flows(watch, looked, columns, room, looks));
    page.extend(below);
    page.truncate(most);
    page
}

fn heading(watch: &Watch, name: &str, columns: usize, looks: Looks) -> Line<'static> {
    let mut text = match watch.last() {
        Some(looked) => {
            let Stats {
                version,
                stage,
                uplink,
                ..
            } = &looked.stats;
            format!(" sprat {version}  {name}  {stage}  {}", uplink.policy)
        }
        None => format!(" sprat top  {name}"),
    };
    if let Some(trouble) = &watch.trouble {
        text += &format!("  NO ANSWER: {trouble}");
    } else if watch.is_paused {
        text += "  PAUSED";
    }
    if watch.is_typing || !watch.filter.is_empty() {
        let cursor = if watch.is_typing { "_" } else { "" };
        text += &format!("  /{}{cursor}", watch.filter);
    }
    let keys = "? help  q quit ";
    let (length, tail) = (text.chars().count(), keys.len());
    match length + tail < columns {
        true => text += &format!("{keys:>width$}", width = columns - length),
        false => text = fit(&text, columns),
    }
    Line::styled(text, looks.title())
}

const HELP: [&str; 13] = [
    "",
    "  s          order: turn, left, sent, age",
    "  /          show what has this in its class, cluster, state or address",
    "             (Enter: keep, Esc: all)",
    "  p, space   pause, go on",
    "  j k, arrows, page keys, Home: scroll through the responses",
    "  ?, h       this help, and back",
    "  q          quit",
    "",
    "  turn is the order of the policy: the first is the next to send.",
    "  left and size are bytes; ~ is an estimate, - is not known.",
    "  A bar is full for what is left, on a logarithmic scale to 1 GB.",
    "  docs/top.md has more.",
];

/// Returns the lines of the whole server's figures.
fn figures(watch: &Watch, stats: &Stats, columns: usize, looks: Looks) -> Vec<Line<'static>> {
    let uplink = &stats.uplink;
    let sent = watch.rate(|own| own.uplink.wire_bytes.or(Some(own.uplink.response_bytes)));
    let limit = match uplink.rate_bits_per_s {
        Some(rate) => format!("of {} ({})", bits(rate as f64), uplink.rate),
        None => format!("({}, nothing held back)", uplink.rate),
    };
    let sent = sent.map_or("-".to_owned(), |bytes| bits(bytes * 8.0));
    let first = format!(
        "uplink   {sent} {limit}   standing queue {}   backlog {}",
        span(uplink.standing_queue_ms),
        span(uplink.backlog_ms)
    );
    let codes = ["2xx", "3xx", "4xx", "5xx", "none"].map(|code| {
        let rate = watch.rate(|own| Some(*own.requests.by_code.get(code).unwrap_or(&0)));
        format!("{code} {}", per_s(rate))
    });
    let all = watch.rate(|own| Some(own.requests.by_code.values().sum()));
    let second = format!(
        "requests {} open   {}/s   {}   connections {}, tunnels {}",
        stats.requests.open,
        per_s(all),
        codes.join(" "),
        stats.connections.open,
        stats.connections.open_tunnels
    );
    let third = match &stats.gain {
        None => "gain     nothing to compare with".to_owned(),
        Some(gain) => format!(
            "gain     {} over fair in 10 min   last minute {}: mean {}, fair {}",
            factor(gain.ratio),
            factor(gain.last_minute.gain),
            span(gain.last_minute.mean_ms),
            span(gain.last_minute.fair_mean_ms)
        ),
    };
    let latencies = watch.latencies();
    let latencies = latencies
        .iter()
        .map(|(size, mean_ms)| format!("{size} {}", span(*mean_ms)));
    let latencies = latencies.collect::<Vec<_>>().join("   ");
    let mut worst: Vec<_> = stats.failures.iter().collect();
    worst.sort_by_key(|own| std::cmp::Reverse(own.count));
    let failures = worst
        .iter()
        .take(4)
        .map(|own| format!("{} {}", own.reason, own.count));
    let failures = failures.collect::<Vec<_>>().join(", ");
    let refusals = stats
        .refusals
        .iter()
        .map(|own| format!("{} {}", own.reason, own.count));
    let refusals = refusals.collect::<Vec<_>>().join(", ");
    let none = |text: String| {
        if text.is_empty() {
            "none".to_owned()
        } else {
            text
        }
    };
    let is_bad = !stats.refusals.is_empty();
    let fourth = vec![
        Span::raw("refused  "),
        Span::styled(
            none(refusals),
            if is_bad { looks.bad() } else { Style::new() },
        ),
        Span::raw(format!("   failures {}", none(failures))),
    ];
    let mut lines = vec![Line::raw(first), Line::raw(second), Line::raw(third)];
    lines.extend(gains(stats, columns));
    lines.push(Line::raw(format!("latency  {latencies}")));
    lines.push(Line::from(fourth));
    lines
}

/// Returns a line of the gains of the last ten minutes by size, and one by the clients' networks.
/// Each line is there if any of its gains is known, and has as many as there is room for.
fn gains(stats: &Stats, columns: usize) -> Vec<Line<'static>> {
    let Some(Gain {
        last_ten_minutes: told,
        ..
    }) = &stats.gain
    else {
        return Vec::new();
    };
    let sizes = told.sizes.iter().map(|own| (&own.size, own.gain));
    let networks = told.networks.iter().map(|own| (&own.network, own.gain));
    let lists = [
        (" by size ", sizes.collect::<Vec<_>>()),
        (" by net  ", networks.collect()),
    ];
    let known = lists
        .into_iter()
        .filter(|(_, list)| list.iter().any(|(_, gain)| gain.is_some()));
    known
        .map(|(name, list)| {
            let mut text = name.to_owned();
            for (of, gain) in list.into_iter().filter(|(_, gain)| gain.is_some()) {
                let gap = if text.len() > name.len() { "   " } else { "" };
                let more = format!("{gap}{of} {}", factor(gain));
                if text.chars().count() + more.chars().count() > columns {
                    break;
                }
                text += &more;
            }
            Line::raw(text)
        })
        .collect()
}

/// Returns the lines of responses in progress.
fn flows(
    watch: &Watch,
    looked: &Looked,
    columns: usize,
    room: usize,
    looks: Looks,
) -> Vec<Line<'static>> {
    let told = match &looked.flows {
        Ok(told) if told.is_paced => told,
        Ok(_) => {
            return vec![
                Line::raw(""),
                Line::raw("responses are not paced: none is in order"),
            ];
        }
        Err(error) => return vec![Line::raw(""), Line::styled(error.clone(), looks.bad())],
    };
    let wanted = watch.flows();
    let shown = wanted.iter().skip(watch.above).take(room.saturating_sub(2));
    let Flows { open, waiting, .. } = told;
    let sort = watch.sort.name();
    let mut lines = vec![
        Line::raw(format!(
            "responses {open}, {waiting} wait   order: {sort}   shown {}",
            wanted.len()
        )),
        Line::styled(
            format!(
                "{:>4} {:<12} {:<12} {:<8} {:>9} {:>9} {:>9} {:>8} ",
                "", "class", "cluster", "state", "left", "sent", "size", "age"
            ),
            looks.title(),
        ),
    ];
    let with_bar = columns >= 80 + 4;
    let line = |(at, flow): (usize, &&Flow)| {
        let estimate = if flow.size_is_exact { "" } else { "~" };
        let size = flow
            .size_bytes
            .map_or("-".to_owned(), |own| format!("{estimate}{}", bytes(own)));
        let text = format!(
            "{:>4} {:<12} {:<12} {:<8} {:>9} {:>9} {size:>9} {:>8} ",
            at + 1 + watch.above,
            fit(&flow.class, 12),
            fit(&flow.cluster, 12),
            fit(&flow.state, 8),
            flow.left_bytes.map_or("-".to_owned(), bytes),
            bytes(flow.sent_bytes),
            span(Some(flow.age_ms))
        );
        let style = match flow.state.as_str() {
            "sending" => looks.busy(),
            "idle" => looks.faint(),
            _ => Style::new(),
        };
        let width = if with_bar {
            BAR.min(columns.saturating_sub(80))
        } else {
            0
        };
        Line::styled(text + &bar(flow.left_bytes, width), style)
    };
    lines.extend(shown.enumerate().map(line));
    lines.truncate(room.max(1));
    lines
}

/// Returns a bar for what is left, from a byte to 1 GB, on a logarithmic scale.
fn bar(left: Option<u64>, width: usize) -> String {
    let Some(left) = left else {
        return String::new();
    };
    let part = ((left.max(1) as f64).log10() / 9.0).clamp(0.0, 1.0);
    "█".repeat((part * width as f64).round() as usize)
}

fn classes(watch: &Watch, stats: &Stats) -> Vec<Line<'static>> {
    let rate = |class: &Class, of: fn(&Class) -> u64| {
        watch.rate(|own| {
            own.classes
                .iter()
                .find(|own| own.class == class.class)
                .map(of)
        })
    };
    let line = |own: &Class| {
        Line::raw(format!(
            "{:<16} {:>5} {:>8} {:>13} {:>8} {:>8} {:>8}",
            fit(&own.class, 16),
            own.level,
            per_s(rate(own, |own| own.requests)),
            rate(own, |own| own.bytes).map_or("-".to_owned(), |rate| bits(rate * 8.0)),
            own.open_flows
                .map_or("-".to_owned(), |count| count.to_string()),
            own.waiting,
            own.refused
        ))
    };
    let wanted = stats
        .classes
        .iter()
        .filter(|own| watch.wants(&[&own.class]));
    wanted.map(line).collect()
}

fn endpoints(watch: &Watch, stats: &Stats, looks: Looks) -> Vec<Line<'static>> {
    let rate = |wanted: &Endpoint, of: fn(&Endpoint) -> u64| {
        let is_it =
            |own: &&Endpoint| (&own.cluster, &own.address) == (&wanted.cluster, &wanted.address);
        watch.rate(|stats| stats.endpoints.iter().find(is_it).map(of))
    };
    let line = |own: &Endpoint| {
        let state = match (own.used, own.ejected_for_ms, own.passes_checks) {
            (true, _, _) => "used".to_owned(),
            _ if own.draining => "drains".to_owned(),
            (false, Some(ms), _) => format!("out {}", span(Some(ms as f64))),
            (false, None, Some(false)) => "fails".to_owned(),
            (false, None, _) => "unused".to_owned(),
        };
        let text = format!(
            "{:<10} {:<21} {:<11} {:>8} {:>6} {:>6} {:>5} {:>5}",
            fit(&own.cluster, 10),
            fit(&own.address, 21),
            state,
            weight(own),
            per_s(rate(own, |own| own.requests)),
            per_s(rate(own, |own| own.errors)),
            own.outstanding,
            own.connections
        );
        Line::styled(text, if own.used { Style::new() } else { looks.bad() })
    };
    let wanted = stats.endpoints.iter();
    let wanted = wanted.filter(|own| watch.wants(&[&own.cluster, &own.address]));
    wanted.map(line).collect()
}

/// Returns an endpoint's weight, with the configured weight where that is another; `-` if the
/// server does not tell.
fn weight(own: &Endpoint) -> String {
    match (own.weight, own.configured_weight) {
        (0, _) => "-".to_owned(),
        (weight, configured) if weight == configured => weight.to_string(),
        (weight, configured) => format!("{weight} ({configured})"),
    }
}

/// Returns classes and endpoints under headings. Each list has a third of the lines, or a few if
/// that is more.
fn lists(
    classes: Vec<Line<'static>>,
    endpoints: Vec<Line<'static>>,
    room: usize,
    looks: Looks,
) -> Vec<Line<'static>> {
    let each = FEW.max(room / 3).min(room.saturating_sub(6) / 2);
    let mut lines = Vec::new();
    let class_heading = format!(
        "{:<16} {:>5} {:>8} {:>13} {:>8} {:>8} {:>8}",
        "class", "level", "req/s", "bytes", "flows", "waiting", "refused"
    );
    let endpoint_heading = format!(
        "{:<10} {:<21} {:<11} {:>8} {:>6} {:>6} {:>5} {:>5}",
        "cluster", "endpoint", "state", "weight", "req/s", "err/s", "open", "conns"
    );
    for (heading, list) in [(class_heading, classes), (endpoint_heading, endpoints)] {
        let more = list.len().saturating_sub(each);
        let heading = match more {
            0 => heading,
            more => format!("{heading}  (+{more})"),
        };
        if each > 0 && !list.is_empty() {
            lines.push(Line::styled(heading, looks.title()));
            lines.extend(list.into_iter().take(each));
        }
    }
    lines
}

/// Shortens a text to `most` characters at most.
fn fit(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text
            .chars()
            .take(most.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => text.to_owned(),
    }
}

/// Writes a number with the unit that keeps it short.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value >= step * 0.9995 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = usize::from(at > 0 && value < 100.0);
    format!("{value:.digits$} {}", units[at])
}

fn bytes(count: u64) -> String {
    scaled(count as f64, 1024.0, &["B", "KB", "MB", "GB", "TB"])
}

fn bits(per_s: f64) -> String {
    scaled(per_s, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

fn per_s(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 10.0 && rate > 0.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

fn span(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) if ms < 1e4 => format!("{ms:.0} ms"),
        Some(ms) if ms < 6e5 => format!("{:.0} s", ms / 1e3),
        Some(ms) => format!("{:.0} min", ms / 6e4),
    }
}

fn factor(gain: Option<f64>) -> String {
    gain.map_or("-".to_owned(), |gain| format!("{gain:.2}x"))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::widgets::Paragraph;

    use super::*;
    use crate::told::{Apart, Durations, Means, NetworkGain, SizeClass, SizeGain, Uplink};
    use crate::watch::tests::{flow, looked};

    /// Makes responses that took as many milliseconds as their size's name has letters.
    fn size_class(size: &str, responses: u64) -> SizeClass {
        SizeClass {
            size: size.to_owned(),
            durations_s: Durations {
                counts: vec![responses],
                sum: (responses * size.len() as u64) as f64 / 1e3,
            },
        }
    }

    fn size_gain(size: &str, gain: Option<f64>) -> SizeGain {
        let size = size.to_owned();
        SizeGain { size, gain }
    }

    fn network_gain(number: u8) -> NetworkGain {
        NetworkGain {
            network: format!("192.0.{number}.0/24"),
            gain: Some(f64::from(number)),
        }
    }

    fn watch() -> Watch {
        let mut watch = Watch::default();
        for (at, wire) in [(1_000, 0), (2_000, 1_250_000)] {
            let flows = (1..=30).map(|n| flow(n, "default", Some(1 << n.min(29)), 5, 12.0));
            let mut looked = looked(at, 7, flows.collect());
            let stats = &mut looked.stats;
            stats.version = "1.2.3".to_owned();
            stats.stage = "serving".to_owned();
            stats.uplink = Uplink {
                policy: "srpt".to_owned(),
                rate: "fixed".to_owned(),
                rate_bits_per_s: Some(20_000_000),
                standing_queue_ms: Some(0.0),
                backlog_ms: Some(12_345.0),
                wire_bytes: Some(wire),
                response_bytes: 0,
            };
            stats.gain = Some(Gain {
                ratio: Some(1.5),
                last_minute: Means {
                    mean_ms: Some(20.0),
                    fair_mean_ms: Some(30.0),
                    gain: Some(1.5),
                },
                last_ten_minutes: Apart {
                    sizes: vec![size_gain("<=1K", Some(2.0)), size_gain("<=10K", None)],
                    networks: (1..9).map(network_gain).collect(),
                },
            });
            let class = |name: &str| Class {
                class: name.to_owned(),
                ..Class::default()
            };
            stats.classes = ["a", "b", "c", "d", "e", "f", "g"].map(class).into();
            let sizes = ["<=1K", "<=10K", "<=100K", "<=1M", ">1M"];
            stats.sizes = sizes.map(|size| size_class(size, at)).into();
            stats.endpoints = vec![Endpoint {
                cluster: "farm".to_owned(),
                address: "10.0.0.1:80".to_owned(),
                ejected_for_ms: Some(4_000),
                weight: 3,
                configured_weight: 1,
                ..Endpoint::default()
            }];
            watch.take(Ok(looked));
        }
        watch
    }

    /// Returns the lines that a terminal of this size shows.
    fn shown(watch: &Watch, columns: u16, lines: u16, looks: Looks) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        let page = page(watch, "127.0.0.1:9900", Size::new(columns, lines), looks);
        terminal
            .draw(|frame| frame.render_widget(Paragraph::new(page), frame.area()))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let rows = (0..lines).map(|y| {
            let cells = (0..columns).map(|x| buffer[(x, y)].symbol().to_owned());
            cells.collect::<String>().trim_end().to_owned()
        });
        rows.collect()
    }

    #[test]
    fn all_is_on_a_page_of_80_by_24() {
        let rows = shown(&watch(), 80, 24, Looks::Mono);
        let expected = [
            " sprat 1.2.3  127.0.0.1:9900  serving  srpt                      ? help  q quit",
            "uplink   10.0 Mbit/s of 20.0 Mbit/s (fixed)   standing queue 0.0 ms   backlog 12",
        ];
        assert_eq!(rows[..2], expected, "{rows:#?}");
        let text = rows.join("\n");
        for part in [
            "gain     1.50x over fair in 10 min   last minute 1.50x: mean 20 ms, fair 30 ms",
            " by size <=1K 2.00x\n",
            " by net  192.0.1.0/24 1.00x   192.0.2.0/24 2.00x   192.0.3.0/24 3.00x\n",
            "latency  <=1K 4.0 ms   <=10K 5.0 ms   <=100K 6.0 ms   <=1M 4.0 ms   >1M 3.0 ms",
            "refused  none   failures none",
            "responses 3, 2 wait   order: turn   shown 30",
            "   1 default      farm         waiting        2 B       5 B       7 B    12 ms",
            "(+2)",
            "farm       10.0.0.1:80           out 4000 ms    3 (1)",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn an_endpoint_that_is_to_drain_is_told_from_one_that_fails() {
        let endpoint = |used, draining| Endpoint {
            used,
            draining,
            passes_checks: Some(false),
            ..Endpoint::default()
        };
        let stats = Stats {
            endpoints: vec![
                endpoint(true, false),
                endpoint(false, true),
                endpoint(false, false),
            ],
            ..Stats::default()
        };
        let lines = endpoints(&Watch::default(), &stats, Looks::Plain);
        let states = lines.iter().map(|line| line.to_string());
        let states = states.map(|line| line.split_whitespace().next().map(str::to_owned));
        let states: Vec<_> = states.flatten().collect();
        assert_eq!(states, ["used", "drains", "fails"]);
    }

    #[test]
    fn bars_are_as_long_as_what_is_left() {
        let rows = shown(&watch(), 110, 60, Looks::Mono);
        let bars: Vec<_> = rows
            .iter()
            .map(|row| row.matches('█').count())
            .filter(|n| *n > 0)
            .collect();
        assert!(bars.len() >= 20 && bars.is_sorted(), "{bars:?}\n{rows:#?}");
        assert_eq!(bar(Some(1 << 30), BAR).chars().count(), BAR);
        assert_eq!(bar(None, BAR), "");
    }

    #[test]
    fn a_page_fits_any_terminal() {
        let mut watch = watch();
        for help in [false, true] {
            watch.shows_help = help;
            for (columns, lines) in [(1, 1), (10, 3), (40, 8), (80, 10), (300, 100)] {
                let rows = shown(&watch, columns, lines, Looks::Colour);
                assert_eq!(rows.len(), usize::from(lines));
            }
        }
        watch.take(Err(anyhow::anyhow!("cannot connect")));
        assert!(shown(&watch, 80, 24, Looks::Mono)[0].contains("NO ANSWER: cannot connect"));
        assert!(shown(&Watch::default(), 80, 24, Looks::Mono)[1].contains("waiting"));
    }

    #[test]
    fn without_colours_there_are_none() {
        let styles = |looks| {
            let page = page(&watch(), "a", Size::new(100, 40), looks);
            let styles = page.into_iter().flat_map(|line| {
                let spans = line.spans.iter().map(|span| span.style).collect::<Vec<_>>();
                spans.into_iter().chain([line.style])
            });
            styles.collect::<Vec<_>>()
        };
        assert!(styles(Looks::Colour).iter().any(|style| style.fg.is_some()));
        assert!(styles(Looks::Mono).iter().all(|style| style.fg.is_none()));
        assert!(
            styles(Looks::Plain)
                .iter()
                .all(|style| *style == Style::new())
        );
    }

    #[test]
    fn numbers_are_short() {
        let told = [0, 999, 1023, 1024, 5_000, 1_000_000, u64::MAX].map(bytes);
        let expected = [
            "0 B",
            "999 B",
            "1023 B",
            "1.0 KB",
            "4.9 KB",
            "977 KB",
            "16777216 TB",
        ];
        assert_eq!(told, expected);
        assert_eq!(bits(12_345_678.0), "12.3 Mbit/s");
        assert_eq!(
            [Some(0.25), Some(250.0), Some(90_000.0)].map(span),
            ["0.2 ms", "250 ms", "90 s"]
        );
    }
}
