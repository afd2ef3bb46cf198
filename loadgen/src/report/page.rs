//! The report as one HTML page that needs nothing else.

use std::fmt::Write;

use sprat_measure::page::STYLE;
use sprat_measure::text::{escape_html as escape, rate_text};
use sprat_measure::wire::Connection;

use super::figures::Figure;
use super::runs::{Comparison, Run};
use super::summary::{self, LoadRows};
use crate::results::Mode;

/// Returns the report's page as HTML.
pub(crate) fn html(
    title: &str,
    comparison: &Comparison,
    loads: &[LoadRows],
    figures: &[Figure],
) -> String {
    let mut page = String::new();
    // Writing into a String cannot fail.
    let _ = write_page(&mut page, title, comparison, loads, figures);
    page
}

fn write_page(
    page: &mut String,
    title: &str,
    comparison: &Comparison,
    loads: &[LoadRows],
    figures: &[Figure],
) -> std::fmt::Result {
    let title = escape(title);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n"
    )?;
    for load in loads {
        write_table(page, comparison, load)?;
    }
    write_notes(page, comparison, loads)?;
    for figure in figures {
        // Inside HTML the name space goes without saying.
        let inline = |svg: &str| svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
        writeln!(
            page,
            "<figure>\n<div class=\"broad\">{}</div>\n<div class=\"narrow\">{}</div>\n\
             <figcaption>{}</figcaption>\n</figure>",
            inline(&figure.svg),
            inline(&figure.narrow),
            escape(&figure.caption)
        )?;
    }
    write_runs(page, comparison)?;
    page.write_str("</main>\n</body>\n</html>\n")
}

fn write_table(page: &mut String, comparison: &Comparison, load: &LoadRows) -> std::fmt::Result {
    let heading = load.heading(comparison.uplink_bits_per_s);
    let mut letters = heading.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    write!(
        page,
        "<h2>{}{}</h2>\n<div class=\"wide\"><table>\n<thead><tr>",
        escape(&first),
        escape(letters.as_str())
    )?;
    for heading in summary::HEADINGS {
        write!(page, "<th scope=\"col\">{heading}</th>")?;
    }
    page.write_str("</tr></thead>\n<tbody>\n")?;
    for row in &load.rows {
        let class = if row.system == comparison.baseline {
            " class=\"baseline\""
        } else if row.system.starts_with("ideal-") {
            " class=\"ideal\""
        } else {
            ""
        };
        write!(page, "<tr{class}>")?;
        for (index, cell) in summary::cells(row, &comparison.baseline).iter().enumerate() {
            let value = escape(&cell.value);
            match (index, cell.against.as_str()) {
                (0, _) => write!(page, "<th scope=\"row\">{value}</th>")?,
                (_, "") => write!(page, "<td>{value}</td>")?,
                (_, against) => {
                    let against = escape(against).replacen('x', "\u{d7}", 1);
                    write!(page, "<td>{value} <small>{against}</small></td>")?;
                }
            }
        }
        page.write_str("</tr>\n")?;
    }
    page.write_str("</tbody>\n</table></div>\n")
}

/// Writes notes on what the numbers of the tables mean.
fn write_notes(page: &mut String, comparison: &Comparison, loads: &[LoadRows]) -> std::fmt::Result {
    let baseline = escape(&comparison.baseline);
    writeln!(
        page,
        "<p class=\"notes\">Response time is from just before connect to the last byte; \
         goodput is the payload that arrived, from the first start to the last completion. \
         Small print beside a time is {baseline}\u{2019}s value over the system\u{2019}s \
         (\u{d7}2 is half the time), beside goodput the share of {baseline}\u{2019}s. \
         \u{201c}Of ideal\u{201d} is the mean over ideal SRPT\u{2019}s. Slowdown is response time \
         over what the response needs on the idle link: its bytes on the wire, with headers and \
         its share of a connection, at the link\u{2019}s rate. Sizes are ranked over all requests \
         of the trace, equal ones in trace order. \u{201c}Buckets faster\u{201d} counts the \
         half-percentiles of size whose mean is below {baseline}\u{2019}s.</p>"
    )?;
    let failed = |load: &LoadRows| load.rows.iter().any(|row| row.measures.failed > 0);
    if loads.iter().any(failed) {
        page.write_str(
            "<p class=\"notes warning\">Some requests failed. Times are over answered requests \
             only, which flatters a system that failed the slow ones.</p>\n",
        )?;
    }
    Ok(())
}

/// Writes how each run was made, so that the reader can make it again.
fn write_runs(page: &mut String, comparison: &Comparison) -> std::fmt::Result {
    const HEADINGS: [&str; 9] = [
        "system",
        "load on the wire",
        "load in payload",
        "uplink",
        "seed",
        "commit",
        "client",
        "took",
        "results",
    ];
    page.write_str("<h2>Runs</h2>\n<div class=\"wide\"><table class=\"runs\">\n<thead><tr>")?;
    for heading in HEADINGS {
        write!(page, "<th scope=\"col\">{heading}</th>")?;
    }
    page.write_str("</tr></thead>\n<tbody>\n")?;
    for run in comparison.groups.iter().flat_map(|group| &group.runs) {
        write!(
            page,
            "<tr><th scope=\"row\">{}</th>",
            escape(&run.info.name)
        )?;
        for value in facts(run) {
            write!(page, "<td>{}</td>", escape(&value))?;
        }
        page.write_str("</tr>\n")?;
    }
    page.write_str("</tbody>\n</table></div>\n")
}

/// Returns the cells of a run's row, after its name.
fn facts(run: &Run) -> [String; 8] {
    let info = &run.info;
    let load = |load: Option<f64>| load.map(|load| format!("{load:.4}")).unwrap_or_default();
    let file = run.file.file_name().unwrap_or_default();
    [
        load(info.load_wire),
        load(info.load_payload),
        info.uplink_bits_per_s.map(rate_text).unwrap_or_default(),
        info.seed.map(|seed| seed.to_string()).unwrap_or_default(),
        info.commit.clone().unwrap_or_default(),
        client_text(run),
        format!("{:.1} s", info.wall_s),
        file.to_string_lossy().into_owned(),
    ]
}

fn client_text(run: &Run) -> String {
    let Some(client) = &run.info.client else {
        return "computed".to_owned();
    };
    let mode = match client.mode {
        Mode::Open => "open loop",
        Mode::Closed => "closed loop",
        Mode::PartlyOpen => "partly open",
    };
    let connection = match client.connection {
        Connection::New => "new connections",
        Connection::Keep => "kept connections",
        Connection::NewTls => "new TLS connections",
    };
    let clients = client
        .clients
        .map_or_else(String::new, |clients| format!(", {clients} clients"));
    let warmup = match client.warmup {
        0 => String::new(),
        warmup => format!(", {warmup} for warm-up"),
    };
    format!(
        "{mode}, {connection}{clients}, time-out {} s{warmup}",
        client.timeout_ms as f64 / 1e3
    )
}
