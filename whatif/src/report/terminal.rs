//! The report in a terminal of 80 columns.

use std::fmt::Write as _;
use std::path::PathBuf;

use sprat_measure::text::rate_text;
use sprat_measure::wire::Connection;

use super::content::{FiguresPart, Report};
use super::words::{self, bytes, change, clients, count, percent, short, span};

/// The columns of the policies' names.
const NAME_WIDTH: usize = 12;

/// Returns the report as text.
pub fn terminal(report: &Report) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write_log(&mut text, report);
    let _ = write_today(&mut text, report);
    let _ = write_classes(&mut text, report);
    let title = "Mean ms, with more or fewer requests in the same time:";
    let _ = write_rates(&mut text, report, title, |f| f.all.response_ms.mean);
    let title = "The same of the largest 1%:";
    let _ = write_rates(&mut text, report, title, |f| {
        f.largest_1_percent.response_ms.mean
    });
    let _ = write_verdict(&mut text, report);
    text
}

/// Returns the report's beginning and end as text: the log, the figures at its own rate, and
/// what they come to.
pub fn brief(report: &Report) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write_log(&mut text, report);
    let _ = write_today(&mut text, report);
    let _ = write_verdict(&mut text, report);
    text
}

fn write_log(text: &mut String, report: &Report) -> std::fmt::Result {
    let (log, link) = (&report.log, &report.link);
    let name = |file: &PathBuf| match file.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let first = log.files.first().map(name);
    let more = match log.files.len() {
        0 | 1 => String::new(),
        files => format!(" and {} more", files - 1),
    };
    writeln!(text, "{}{more}", first.unwrap_or_default())?;
    writeln!(
        text,
        "  log    {} requests, format {}",
        count(log.requests as u64),
        log.format
    )?;
    writeln!(text, "  time   {} from {}", span(log.span_s), log.began)?;
    writeln!(
        text,
        "  sizes  mean {}, median {}, p99 {}, largest {}, with heads",
        bytes(log.mean_bytes),
        bytes(log.median_bytes as f64),
        bytes(log.p99_bytes as f64),
        bytes(log.max_bytes as f64)
    )?;
    let kind = match link.connection {
        Connection::New => "a connection for each",
        Connection::Keep => "connections kept",
        Connection::NewTls => "a connection with TLS for each",
    };
    writeln!(
        text,
        "  link   {}, {kind}: load {:.2}, busiest minute {:.2}",
        rate_text(link.uplink_bits_per_s),
        link.load,
        link.peak_load
    )?;
    if log.is_cut {
        writeln!(
            text,
            "  cut    only the first {} requests are read: see --max-requests",
            count(log.requests as u64)
        )?;
    }
    if log.out_of_order > 0 {
        writeln!(
            text,
            "  order  {} lines were out of order, by {} at most",
            count(log.out_of_order as u64),
            span(log.behind_s)
        )?;
    }
    if log.unreadable_lines > 0 {
        let lines = match log.unreadable_lines {
            1 => "1 line".to_owned(),
            lines => format!("{} lines", count(lines)),
        };
        writeln!(text, "  unread {lines} could not be read; the first:")?;
    }
    for line in &log.unreadable {
        writeln!(
            text,
            "    {}:{}: {}",
            line.file.display(),
            line.line,
            line.reason
        )?;
        let excerpt: String = line.excerpt.chars().take(70).collect();
        writeln!(text, "      {excerpt}")?;
    }
    Ok(())
}

/// Writes the table at the log's own rate.
fn write_today(text: &mut String, report: &Report) -> std::fmt::Result {
    let baseline = report.baseline().and_then(|part| report.today(part));
    writeln!(
        text,
        "\nAs it is: ms on the link; slowdown is that over the time of a response alone\n\n\
         {:NAME_WIDTH$}{:>30}{:>15}{:>15}",
        "", "response time", "slowdown", "largest 1%"
    )?;
    writeln!(
        text,
        "{:NAME_WIDTH$}{:>9}{:>7}{:>7}{:>7}{:>8}{:>7}{:>8}{:>7}{:>8}",
        "policy", "mean", "p50", "p95", "p99", "mean", "p99", "mean", "", "clients"
    )?;
    for part in &report.policies {
        let name = shortened(&part.policy);
        let Some(figures) = report.today(part) else {
            writeln!(text, "{name:NAME_WIDTH$}{:>9}", "overload")?;
            continue;
        };
        let (ms, slowdown) = (figures.all.response_ms, figures.all.slowdown);
        let largest_ms = figures.largest_1_percent.response_ms.mean;
        let is_baseline = part.policy == report.baseline;
        let pays = baseline.filter(|_| !is_baseline);
        let pays = pays.map(|b| change(largest_ms, b.largest_1_percent.response_ms.mean));
        let worth = if is_baseline {
            String::new()
        } else {
            clients(part.clients)
        };
        writeln!(
            text,
            "{name:NAME_WIDTH$}{:>9}{:>7}{:>7}{:>7}{:>8}{:>7}{:>8}{:>7}{worth:>8}",
            short(ms.mean),
            short(ms.p50),
            short(ms.p95),
            short(ms.p99),
            short(slowdown.mean),
            short(slowdown.p99),
            short(largest_ms),
            pays.unwrap_or_default(),
        )?;
    }
    writeln!(
        text,
        "\nclients: how many more until the mean is that of {} now",
        report.baseline
    )
}

/// Writes the means by class of size, at the log's own rate.
fn write_classes(text: &mut String, report: &Report) -> std::fmt::Result {
    let names = words::classes(&report.size_classes);
    write!(text, "\nMean ms by size, and p99:\n\n{:NAME_WIDTH$}", "")?;
    for name in &names {
        write!(text, "{name:>13}")?;
    }
    writeln!(text)?;
    let shown = report.baseline().and_then(|part| report.today(part));
    if let Some(figures) = shown {
        write!(text, "{:NAME_WIDTH$}", "of requests")?;
        for class in &figures.size_classes {
            let share = class.responses as f64 / figures.all.responses as f64;
            write!(text, "{:>13}", percent(share))?;
        }
        writeln!(text)?;
    }
    for part in &report.policies {
        let Some(figures) = report.today(part) else {
            continue;
        };
        write!(text, "{:NAME_WIDTH$}", shortened(&part.policy))?;
        for class in &figures.size_classes {
            let (mean, p99) = (class.response_ms.mean, class.response_ms.p99);
            write!(text, "{:>7}{:>6}", short(mean), short(p99))?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// Writes a figure of each policy by rate.
fn write_rates(
    text: &mut String,
    report: &Report,
    title: &str,
    figure: impl Fn(&FiguresPart) -> f64,
) -> std::fmt::Result {
    // What does not fit into 80 columns is in the page and in the JSON.
    let fits = (80 - NAME_WIDTH) / 9;
    write!(text, "\n{title}\n\n{:NAME_WIDTH$}", "times")?;
    for rate in report.rates.iter().take(fits) {
        write!(text, "{rate:>9}")?;
    }
    write!(text, "\n{:NAME_WIDTH$}", "load")?;
    for rate in report.rates.iter().take(fits) {
        write!(text, "{:>9.2}", report.link.load * rate)?;
    }
    writeln!(text)?;
    for part in &report.policies {
        write!(text, "{:NAME_WIDTH$}", shortened(&part.policy))?;
        for at in part.rates.iter().take(fits) {
            let value = at.figures.as_ref().map(&figure);
            let value = value.map_or_else(|| "overload".to_owned(), short);
            write!(text, "{value:>9}")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_verdict(text: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(text)?;
    for sentence in words::verdict(report) {
        writeln!(text, "{sentence}")?;
    }
    Ok(())
}

/// Returns a policy's name, or the beginning of its parameters.
fn shortened(policy: &str) -> String {
    match policy.chars().count() {
        0..NAME_WIDTH => policy.to_owned(),
        _ => policy.chars().take(NAME_WIDTH - 2).chain(['~']).collect(),
    }
}
