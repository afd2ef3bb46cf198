//! The state of a watch: the last two looks at a server, the order and the filter that the operator
//! has chosen, and what keys do.

use std::cmp::Reverse;
use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::told::{Flow, Looked, SizeClass, Stats, clean};

/// The time that latencies reach back, in milliseconds.
const WINDOW_MS: u64 = 10_000;

/// The most looks that are kept for latencies.
const MOST_KEPT: usize = 64;

/// The order in which responses are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The response that is next to send comes first.
    #[default]
    Turn,
    /// The response with the most left comes first.
    Left,
    /// The response that was sent the most comes first.
    Sent,
    /// The oldest response comes first.
    Age,
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Left => "left",
            Self::Sent => "sent",
            Self::Age => "age",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Turn => Self::Left,
            Self::Left => Self::Sent,
            Self::Sent => Self::Age,
            Self::Age => Self::Turn,
        }
    }
}

/// The effect of a key on the program: it goes on, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Goes,
    Ends,
}

/// The looks at the server that is watched, and how they are shown.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Option<Looked>,
    /// The figures of the look before the last.
    before: Option<Stats>,
    /// The sizes of earlier looks, with their times, the oldest first.
    sizes: VecDeque<(u64, Vec<SizeClass>)>,
    /// The reason why there is no answer at present.
    pub(crate) trouble: Option<String>,
    pub(crate) sort: Sort,
    pub(crate) is_paused: bool,
    pub(crate) shows_help: bool,
    /// The text that class, cluster, state or address must have in it.
    pub(crate) filter: String,
    pub(crate) is_typing: bool,
    /// The number of responses that are scrolled past.
    pub(crate) above: usize,
}

impl Watch {
    /// Takes in a look, or the error for which there was none. While the watch is paused, looks are
    /// passed over.
    pub(crate) fn take(&mut self, looked: anyhow::Result<Looked>) {
        match looked {
            Ok(_) if self.is_paused => self.trouble = None,
            Ok(looked) => {
                self.trouble = None;
                self.before = self.last.replace(looked).map(|own| own.stats);
                self.keep_sizes();
            }
            Err(error) => self.trouble = Some(clean(&format!("{error:#}"))),
        }
    }

    /// Keeps the sizes of the look before, for as long as latencies reach back.
    fn keep_sizes(&mut self) {
        let (Some(last), Some(before)) = (&self.last, &mut self.before) else {
            return;
        };
        let now_ms = last.stats.at_unix_ms;
        let sizes = std::mem::take(&mut before.sizes);
        self.sizes.push_back((before.at_unix_ms, sizes));
        let mut too_many = self.sizes.len().saturating_sub(MOST_KEPT);
        // The youngest of those that are old enough is what is compared with.
        while too_many > 0
            || (self.sizes.get(1)).is_some_and(|(at, _)| at.saturating_add(WINDOW_MS) <= now_ms)
        {
            self.sizes.pop_front();
            too_many = too_many.saturating_sub(1);
        }
    }

    /// Returns the mean latency of each size in milliseconds, over the last ten seconds or since
    /// the first look; over all time while there was one look alone.
    pub(crate) fn latencies(&self) -> Vec<(&str, Option<f64>)> {
        let Some(last) = &self.last else {
            return Vec::new();
        };
        let earlier = self.sizes.front().map(|(_, sizes)| sizes);
        let mean = |own: &SizeClass| {
            let find =
                |sizes: &'_ Vec<SizeClass>| sizes.iter().position(|old| old.size == own.size);
            let before = earlier.and_then(|sizes| Some(&sizes[find(sizes)?].durations_s));
            own.durations_s.mean_ms_since(before)
        };
        let sizes = last.stats.sizes.iter();
        sizes.map(|own| (own.size.as_str(), mean(own))).collect()
    }

    pub(crate) fn last(&self) -> Option<&Looked> {
        self.last.as_ref()
    }

    /// Returns by how much per second a counter has grown between the last two looks; `None` if
    /// there is only one, or the server was started anew.
    pub(crate) fn rate(&self, of: impl Fn(&Stats) -> Option<u64>) -> Option<f64> {
        let (last, before) = (&self.last.as_ref()?.stats, self.before.as_ref()?);
        let past_ms = last
            .at_unix_ms
            .checked_sub(before.at_unix_ms)
            .filter(|ms| *ms > 0)?;
        let grown = of(last)?.checked_sub(of(before)?)?;
        Some(grown as f64 * 1e3 / past_ms as f64)
    }

    /// Returns whether one of these texts has the filter in it, in upper or lower case.
    pub(crate) fn wants(&self, texts: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty()
            || texts
                .iter()
                .any(|text| text.to_lowercase().contains(&wanted))
    }

    /// Returns the responses that pass the filter, in the order chosen.
    pub(crate) fn flows(&self) -> Vec<&Flow> {
        let flows = self.last.as_ref().and_then(|own| own.flows.as_ref().ok());
        let flows = flows.into_iter().flat_map(|own| &own.flows);
        let mut flows: Vec<_> = flows
            .filter(|flow| self.wants(&[&flow.class, &flow.cluster, &flow.state]))
            .collect();
        match self.sort {
            Sort::Turn => {}
            Sort::Left => flows.sort_by_key(|flow| Reverse(flow.left_bytes)),
            Sort::Sent => flows.sort_by_key(|flow| Reverse(flow.sent_bytes)),
            Sort::Age => {
                flows.sort_by(|a, b| b.age_ms.total_cmp(&a.age_ms).then(a.number.cmp(&b.number)));
            }
        }
        flows
    }

    /// Carries out what a key commands.
    pub(crate) fn key(&mut self, key: KeyEvent) -> After {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => After::Ends,
                _ => After::Goes,
            };
        }
        if self.is_typing {
            match key.code {
                KeyCode::Char(letter) if self.filter.len() < 64 => self.filter.push(letter),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.filter.clear();
                }
                _ => {}
            }
            return After::Goes;
        }
        match key.code {
            KeyCode::Char('q') => return After::Ends,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::PageDown => self.scroll(10),
            KeyCode::PageUp => self.scroll(-10),
            KeyCode::Home => self.above = 0,
            _ => {}
        }
        After::Goes
    }

    fn scroll(&mut self, by: isize) {
        let most = self.flows().len().saturating_sub(1);
        self.above = self.above.saturating_add_signed(by).min(most);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::told::{Durations, Flows, Requests};

    pub(crate) fn flow(number: u64, class: &str, left: Option<u64>, sent: u64, age: f64) -> Flow {
        Flow {
            number,
            class: class.to_owned(),
            cluster: "farm".to_owned(),
            state: "waiting".to_owned(),
            size_bytes: left.map(|left| left + sent),
            size_is_exact: true,
            sent_bytes: sent,
            left_bytes: left,
            age_ms: age,
        }
    }

    pub(crate) fn looked(at_unix_ms: u64, open: u64, flows: Vec<Flow>) -> Looked {
        Looked {
            stats: Stats {
                at_unix_ms,
                requests: Requests {
                    open,
                    ..Requests::default()
                },
                ..Stats::default()
            },
            flows: Ok(Flows {
                is_paced: true,
                open: 3,
                waiting: 2,
                flows,
            }),
        }
    }

    fn press(watch: &mut Watch, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{8}' => KeyCode::Backspace,
                '\u{1b}' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            assert_eq!(watch.key(code.into()), After::Goes, "{key:?}");
        }
    }

    fn numbers(watch: &Watch) -> Vec<u64> {
        watch.flows().iter().map(|flow| flow.number).collect()
    }

    fn some() -> Watch {
        let mut watch = Watch::default();
        watch.take(Ok(looked(
            1_000,
            10,
            vec![
                flow(1, "gold", Some(10), 900, 5.0),
                flow(2, "default", Some(300), 0, 50.0),
                flow(3, "gold", None, 7, 1.0),
            ],
        )));
        watch
    }

    #[test]
    fn responses_are_ordered_and_filtered_by_keys() {
        let mut watch = some();
        assert_eq!(numbers(&watch), [1, 2, 3]);
        for order in [[2, 1, 3], [1, 3, 2], [2, 1, 3], [1, 2, 3]] {
            press(&mut watch, "s");
            assert_eq!(numbers(&watch), order, "{:?}", watch.sort);
        }
        press(&mut watch, "/GOLx\u{8}\n");
        assert_eq!(numbers(&watch), [1, 3]);
        press(&mut watch, "jjjjj");
        assert_eq!(watch.above, 1);
        press(&mut watch, "kk\u{1b}");
        assert_eq!((watch.above, numbers(&watch).len()), (0, 3));
        // What is typed is no command.
        press(&mut watch, "/q");
        assert_eq!(watch.filter, "q");
        press(&mut watch, "\u{1b}");
        assert_eq!(watch.filter, "");
        assert_eq!(watch.key(KeyCode::Char('q').into()), After::Ends);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(watch.key(control), After::Ends);
    }

    #[test]
    fn latencies_are_of_the_last_ten_seconds() {
        let mut watch = Watch::default();
        let look = |at, counts: [u64; 2], sum| {
            let mut looked = looked(at, 0, Vec::new());
            looked.stats.sizes = vec![SizeClass {
                size: "<=1K".to_owned(),
                durations_s: Durations {
                    counts: counts.into(),
                    sum,
                },
            }];
            Ok(looked)
        };
        watch.take(look(1_000, [1, 1], 4.0));
        assert_eq!(watch.latencies(), [("<=1K", Some(2_000.0))]);
        watch.take(look(2_000, [3, 3], 4.4));
        assert_eq!(watch.latencies()[0].1.map(f64::round), Some(100.0));
        watch.take(look(13_000, [3, 4], 5.4));
        assert_eq!(watch.latencies()[0].1.map(f64::round), Some(1_000.0));
        watch.take(look(24_000, [3, 4], 5.4));
        assert_eq!(watch.latencies()[0].1, None);
        // Started anew, it counts from the beginning.
        watch.take(look(25_000, [1, 0], 0.5));
        assert_eq!(watch.latencies()[0].1, None);
        for at in 0..200 {
            watch.take(look(25_100 + at, [1, 0], 0.5));
        }
        assert!(watch.sizes.len() <= MOST_KEPT);
    }

    #[test]
    fn rates_are_of_two_looks_at_one_process() {
        let mut watch = some();
        let open = |stats: &Stats| Some(stats.requests.open);
        assert_eq!(watch.rate(open), None);
        watch.take(Ok(looked(3_000, 40, Vec::new())));
        assert_eq!(watch.rate(open), Some(15.0));
        // Started anew, it counts from the beginning.
        watch.take(Ok(looked(4_000, 1, Vec::new())));
        assert_eq!(watch.rate(open), None);
        watch.take(Err(anyhow::anyhow!("gone\u{1b}[2J")));
        assert_eq!(watch.trouble.as_deref(), Some("gone?[2J"));
        assert!(watch.last().is_some(), "what was seen last stays");
        press(&mut watch, "p");
        watch.take(Ok(looked(
            5_000,
            3,
            some().last.unwrap().flows.unwrap().flows,
        )));
        assert_eq!((watch.trouble.is_none(), numbers(&watch).len()), (true, 0));
    }
}
