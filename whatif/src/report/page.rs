//! The report as one page of HTML that needs no other file: to be shown to
//! others.

use std::fmt::{self, Write as _};

use sprat_measure::page::STYLE;
use sprat_measure::plot::PlotError;
use sprat_measure::text::{escape_html as escape, rate_text, significant};
use sprat_measure::wire::Connection;

use super::charts::{self, Figure};
use super::content::{FiguresPart, PolicyPart, Report};
use super::words::{self, bytes, change, clients, count, percent, span};

/// The style that this page has beside that of all pages.
const OWN_STYLE: &str = include_str!("page.css");

/// Returns the page as HTML.
pub(super) fn html(report: &Report) -> Result<String, PlotError> {
    let figures = charts::draw(report)?;
    let mut page = String::new();
    // Writing into a String cannot fail.
    let _ = write_page(&mut page, report, &figures);
    Ok(page)
}

fn write_page(page: &mut String, report: &Report, figures: &[Figure]) -> fmt::Result {
    let rate = rate_text(report.link.uplink_bits_per_s);
    let title = format!("Scheduling by size on {rate}: what it would gain");
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n"
    )?;
    write_about(page, report)?;
    let verdict = words::verdict(report).join(" ");
    writeln!(page, "<p class=\"verdict\">{}</p>", escape(&verdict))?;
    write_tiles(page, report)?;
    write_today(page, report)?;
    for figure in figures {
        write_figure(page, figure)?;
    }
    write_classes(page, report)?;
    write_rates(page, report, "Mean ms by rate", |f| f.all.response_ms.mean)?;
    let largest = |f: &FiguresPart| f.largest_1_percent.response_ms.mean;
    write_rates(page, report, "Mean ms of the largest 1% by rate", largest)?;
    write_notes(page, report)?;
    page.write_str("</main>\n</body>\n</html>\n")
}

fn write_about(page: &mut String, report: &Report) -> fmt::Result {
    let (log, link) = (&report.log, &report.link);
    writeln!(
        page,
        "<p class=\"about\">{} requests in {} from {}: mean {}, median {}, largest {}. They ask \
         {} of the link, {} in the busiest minute.</p>",
        count(log.requests as u64),
        span(log.span_s),
        escape(&log.began),
        bytes(log.mean_bytes),
        bytes(log.median_bytes as f64),
        bytes(log.max_bytes as f64),
        percent(link.load),
        percent(link.peak_load),
    )
}

/// Writes the few figures that readers remember.
fn write_tiles(page: &mut String, report: &Report) -> fmt::Result {
    let parts = report.baseline().zip(report.chosen());
    let Some((baseline, chosen)) = parts else {
        return Ok(());
    };
    let (Some(before), Some(after)) = (report.today(baseline), report.today(chosen)) else {
        return Ok(());
    };
    let pair = |of: fn(&FiguresPart) -> f64| (of(before), of(after));
    let ms = |(before, after): (f64, f64)| {
        format!("{} \u{2192} {} ms", significant(before), significant(after))
    };
    let mean = pair(|f| f.all.response_ms.mean);
    let p95 = pair(|f| f.all.response_ms.p95);
    let slowdown = pair(|f| f.all.slowdown.mean);
    let largest = pair(|f| f.largest_1_percent.response_ms.mean);
    let tiles = [
        (change(mean.1, mean.0), "mean response time", ms(mean)),
        (change(p95.1, p95.0), "95th percentile", ms(p95)),
        (
            change(slowdown.1, slowdown.0),
            "mean slowdown",
            format!(
                "{} \u{2192} {}",
                significant(slowdown.0),
                significant(slowdown.1)
            ),
        ),
        (change(largest.1, largest.0), "the largest 1%", ms(largest)),
        (
            clients(chosen.clients),
            "clients",
            format!("served as well as {} serves now", report.baseline),
        ),
    ];
    writeln!(page, "<ul class=\"tiles\">")?;
    for (value, what, more) in tiles {
        writeln!(
            page,
            "<li><b>{}</b>{}<br><span>{}</span></li>",
            escape(&value.replace('-', "\u{2212}")),
            escape(what),
            escape(&more)
        )?;
    }
    writeln!(page, "</ul>")
}

/// Writes the table at the log's own rate.
fn write_today(page: &mut String, report: &Report) -> fmt::Result {
    let headings = [
        "policy",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "mean slowdown",
        "p99 slowdown",
        "largest 1% ms",
        "clients",
    ];
    let baseline = report.baseline().and_then(|part| report.today(part));
    write_table(page, report, "As it is now", &headings, |part| {
        let Some(figures) = report.today(part) else {
            return vec!["overload".to_owned()];
        };
        let is_baseline = part.policy == report.baseline;
        let against = |value: f64, of: fn(&FiguresPart) -> f64| {
            let than = baseline.filter(|_| !is_baseline).map(of);
            let than = than.map(|than| format!(" <small>{}</small>", change(value, than)));
            significant(value) + &than.unwrap_or_default()
        };
        let (ms, slowdown) = (figures.all.response_ms, figures.all.slowdown);
        vec![
            against(ms.mean, |f| f.all.response_ms.mean),
            significant(ms.p50),
            significant(ms.p95),
            significant(ms.p99),
            significant(slowdown.mean),
            significant(slowdown.p99),
            against(figures.largest_1_percent.response_ms.mean, |f| {
                f.largest_1_percent.response_ms.mean
            }),
            match is_baseline {
                true => String::new(),
                false => escape(&clients(part.clients)),
            },
        ]
    })
}

/// Writes the means by class of size.
fn write_classes(page: &mut String, report: &Report) -> fmt::Result {
    let names = words::classes(&report.size_classes);
    let mut headings = vec!["policy"];
    headings.extend(names.iter().map(String::as_str));
    write_table(
        page,
        report,
        "Mean ms by size, and p99",
        &headings,
        |part| {
            let figures = report.today(part).map(|figures| &figures.size_classes);
            let cell = |times: &super::Times| {
                let (mean, p99) = (times.response_ms.mean, times.response_ms.p99);
                format!("{} <small>{}</small>", significant(mean), significant(p99))
            };
            figures.into_iter().flatten().map(cell).collect()
        },
    )
}

/// Writes a figure of each policy by rate.
fn write_rates(
    page: &mut String,
    report: &Report,
    title: &str,
    figure: impl Fn(&FiguresPart) -> f64,
) -> fmt::Result {
    let names = report.rates.iter().map(|rate| {
        let load = report.link.load * rate;
        format!("\u{d7}{rate}, load {load:.2}")
    });
    let names: Vec<String> = names.collect();
    let mut headings = vec!["policy"];
    headings.extend(names.iter().map(String::as_str));
    write_table(page, report, title, &headings, |part| {
        let value = |at: &super::RatePart| match at.figures.as_ref().map(&figure) {
            Some(value) => significant(value),
            None => "overload".to_owned(),
        };
        part.rates.iter().map(value).collect()
    })
}

/// Writes a table with a line for each policy, of cells that are HTML already.
fn write_table(
    page: &mut String,
    report: &Report,
    title: &str,
    headings: &[&str],
    cells: impl Fn(&PolicyPart) -> Vec<String>,
) -> fmt::Result {
    write!(
        page,
        "<h2>{title}</h2>\n<div class=\"wide\"><table>\n<thead><tr>"
    )?;
    for heading in headings {
        write!(page, "<th scope=\"col\">{}</th>", escape(heading))?;
    }
    page.write_str("</tr></thead>\n<tbody>\n")?;
    let chosen = report.chosen().map(|part| part.policy.as_str());
    for part in &report.policies {
        let class = match part.policy.as_str() {
            policy if policy == report.baseline => " class=\"baseline\"",
            policy if Some(policy) == chosen => " class=\"chosen\"",
            _ => "",
        };
        write!(
            page,
            "<tr{class}><th scope=\"row\">{}</th>",
            escape(&part.policy)
        )?;
        for cell in cells(part) {
            write!(page, "<td>{cell}</td>")?;
        }
        page.write_str("</tr>\n")?;
    }
    page.write_str("</tbody>\n</table></div>\n")
}

fn write_figure(page: &mut String, figure: &Figure) -> fmt::Result {
    // Inside HTML the name space goes without saying.
    let inline = |svg: &str| svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    writeln!(
        page,
        "<figure>\n<div class=\"broad\">{}</div>\n<div class=\"narrow\">{}</div>\n\
         <figcaption>{}</figcaption>\n</figure>",
        inline(&figure.wide),
        inline(&figure.narrow),
        escape(&figure.caption)
    )
}

/// Writes what was read, and what the figures mean.
fn write_notes(page: &mut String, report: &Report) -> fmt::Result {
    let (log, link) = (&report.log, &report.link);
    let files: Vec<String> = log
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let kind = match link.connection {
        Connection::New => "a connection for each request",
        Connection::Keep => "kept connections",
        Connection::NewTls => "a connection and a TLS handshake for each request",
    };
    write!(
        page,
        "<h2>How this was made</h2>\n<div class=\"notes\">\n<p><code>sprat whatif</code> replayed \
         {} (format {}) in virtual time over a link of {}, with {kind}: the scheduler that Sprat \
         runs, in the place of the link's queue, {} responses in all. A response is ready whole \
         when its request comes; what a backend takes comes on top, and so do distances. \
         Percentiles are within 0.5%.</p>\n",
        escape(&files.join(", ")),
        log.format,
        rate_text(link.uplink_bits_per_s),
        count(report.simulated_requests),
    )?;
    writeln!(
        page,
        "<p><b>{}</b> gives each response an equal share: what a server without scheduling comes \
         to at best. Behind a queue of the kernel's or a router's it is slower. <b>Slowdown</b> is \
         the response time over what the response would take alone. <b>Clients</b> says how many \
         more there can be until the mean is that of {} now.</p>",
        escape(&report.baseline),
        escape(&report.baseline),
    )?;
    if log.grain_s >= 1.0 {
        writeln!(
            page,
            "<p>The log's times are whole seconds: each request is put within its second by a \
             draw that is the same every time.</p>"
        )?;
    }
    if log.is_cut {
        writeln!(
            page,
            "<p class=\"warning\">Only the first {} requests were read.</p>",
            count(log.requests as u64)
        )?;
    }
    if log.unreadable_lines > 0 {
        let first = log.unreadable.first();
        let first =
            first.map(|line| format!("{}:{}: {}", line.file.display(), line.line, line.reason));
        writeln!(
            page,
            "<p class=\"warning\">{} lines could not be read; the first: {}</p>",
            count(log.unreadable_lines),
            escape(&first.unwrap_or_default())
        )?;
    }
    writeln!(page, "</div>")
}
