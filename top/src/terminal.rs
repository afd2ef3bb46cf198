//! The terminal, which takes keys and shows pages, and is restored at the end.

use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::widgets::Paragraph;
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::{SIGHUP, SIGTERM};

use crate::ask::Listener;
use crate::page::{Looks, page};
use crate::told::Looked;
use crate::watch::{After, Watch};

/// The longest time that a key, or an answer, may wait to be seen.
const GLANCE: Duration = Duration::from_millis(50);

/// The time between two looks at whether the terminal is still there.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// The time from a signal, or the terminal's end, to the end of the program.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Shows a server until a key or a signal ends it, or the terminal is gone.
///
/// # Errors
///
/// The terminal cannot be had, or is gone.
pub(crate) fn show(listener: Listener, interval: Duration) -> anyhow::Result<()> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ends)).context("no signal handler")?;
    }
    end_with_the_terminal(Arc::clone(&ends))?;
    let name = listener.name().to_owned();
    let looks = looks();
    let answers = ask(listener, interval)?;
    // Also restored where this panics.
    let mut terminal = ratatui::try_init().context("the terminal cannot be had")?;
    let done = follow(&mut terminal, &answers, &name, looks, &ends);
    ratatui::restore();
    done
}

/// Starts the thread that ends the program with its terminal. The library that reads keys
/// takes a terminal that is gone for one with something to read, and asks it for ever.
fn end_with_the_terminal(ends: Arc<AtomicBool>) -> anyhow::Result<()> {
    let own = terminal().context("the terminal cannot be had")?;
    let look = move || {
        while !ends.load(Ordering::Relaxed) {
            // What has happened is told without being asked for: HUP, ERR.
            let mut looked = [PollFd::new(&own, PollFlags::empty())];
            if rustix::event::poll(&mut looked, Some(&LOOK_EVERY)).is_ok_and(|found| found > 0) {
                ends.store(true, Ordering::Relaxed);
            }
        }
        std::thread::sleep(ENDS_WITHIN);
        ratatui::restore();
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("terminal".to_owned());
    thread.spawn(look).context("no thread can be had")?;
    Ok(())
}

/// Returns the terminal that keys are read from.
fn terminal() -> std::io::Result<OwnedFd> {
    if std::io::stdin().is_terminal() {
        return Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0)?);
    }
    File::open("/dev/tty").map(OwnedFd::from)
}

/// Returns how pages look: without colours if `NO_COLOR` is set (no-color.org).
fn looks() -> Looks {
    let is_set = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_set { Looks::Mono } else { Looks::Colour }
}

/// Starts the thread that asks the listener, which ends when its answers are not taken any more.
fn ask(listener: Listener, interval: Duration) -> anyhow::Result<Receiver<anyhow::Result<Looked>>> {
    let (sender, answers) = sync_channel(1);
    let ask = move || {
        loop {
            let began = Instant::now();
            if sender.send(listener.look()).is_err() {
                return;
            }
            std::thread::sleep(interval.saturating_sub(began.elapsed()));
        }
    };
    let thread = std::thread::Builder::new().name("ask".to_owned());
    thread.spawn(ask).context("no thread can be had")?;
    Ok(answers)
}

fn follow(
    terminal: &mut DefaultTerminal,
    answers: &Receiver<anyhow::Result<Looked>>,
    name: &str,
    looks: Looks,
    ends: &AtomicBool,
) -> anyhow::Result<()> {
    let mut watch = Watch::default();
    let mut is_stale = true;
    while !ends.load(Ordering::Relaxed) {
        if is_stale {
            terminal.draw(|frame| {
                let area = frame.area();
                let lines = page(&watch, name, area.as_size(), looks);
                frame.render_widget(Paragraph::new(lines), area);
            })?;
        }
        is_stale = false;
        if event::poll(GLANCE)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if watch.key(key) == After::Ends {
                        return Ok(());
                    }
                    is_stale = true;
                }
                Event::Resize(..) => is_stale = true,
                _ => {}
            }
        }
        while let Ok(looked) = answers.try_recv() {
            watch.take(looked);
            is_stale = true;
        }
    }
    Ok(())
}
