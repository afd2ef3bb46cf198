//! The reproduction as one page that needs nothing else, on paper and on a telephone.

use std::fmt::Write;
use std::path::Path;

use sprat_measure::page::STYLE;
use sprat_measure::text::{escape_html as escape, significant};

use super::plots::Drawn;
use super::record::{Record, file_of};
use super::reference::Paper;
use super::rows::{Reproduced, VerdictTally};
use super::run::PaperRun;
use super::verdict::Verdict;

/// The style of the rows, beside the style of all pages.
const ROWS_STYLE: &str = include_str!("page.css");

/// Returns the page of all papers as HTML.
///
/// # Errors
/// Never: writing into a string cannot fail.
pub(super) fn html(
    papers: &[Paper],
    runs: &[PaperRun],
    found: &[Reproduced],
    plots: &[Drawn],
    output: &Path,
) -> Result<String, std::fmt::Error> {
    let mut page = String::new();
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Five papers, row by row</title>\n<style>\n{STYLE}{ROWS_STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>Five papers, row by row</h1>\n"
    )?;
    write_summary(&mut page, papers, found)?;
    for paper in papers {
        write_paper(&mut page, paper, found, plots)?;
    }
    write_runs(&mut page, runs, output)?;
    page.write_str("</main>\n</body>\n</html>\n")?;
    Ok(page)
}

/// Writes the verdicts in numbers, and what they mean.
fn write_summary(page: &mut String, papers: &[Paper], found: &[Reproduced]) -> std::fmt::Result {
    page.write_str(
        "<p>The numbers that five papers on scheduling by size and class print, beside what the \
         same experiments come to with Sprat\u{2019}s scheduler. A row is <b>reproduced</b> if \
         ours is within the tolerance that its reference states, or beyond the paper\u{2019}s \
         where that is better: the table counts apart the rows <b>within</b> it and those \
         <b>beyond</b>. Else it <b>differs</b>, and says why. It is <b>not comparable</b> \
         where nothing of ours can be held against it. The papers\u{2019} curves are pictures \
         that could not be read: only numbers in their texts and tables are compared.</p>\n\
         <div class=\"wide\"><table class=\"tally\">\n<thead><tr><th scope=\"col\">paper</th>",
    )?;
    let headings = [
        "reproduced",
        "within",
        "beyond",
        "differs",
        "not comparable",
        "not run",
        "rows",
    ];
    for heading in headings {
        write!(page, "<th scope=\"col\">{heading}</th>")?;
    }
    page.write_str("</tr></thead>\n<tbody>\n")?;
    let mut line = |name: &str, link: &str, tally: VerdictTally| {
        writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td></tr>",
            match link {
                "" => name.to_owned(),
                link => format!("<a href=\"#{link}\">{name}</a>"),
            },
            tally.reproduced,
            tally.within(),
            tally.beyond,
            tally.differs,
            tally.not_comparable,
            tally.not_run,
            tally.all()
        )
    };
    for paper in papers {
        let rows = found.iter().filter(|own| own.paper == paper.name);
        line(&paper.name, &paper.name, VerdictTally::of(rows))?;
    }
    line("all", "", VerdictTally::of(found.iter()))?;
    page.write_str("</tbody>\n</table></div>\n")
}

/// Writes a paper: its rows, its plots, and the figures that have no rows.
fn write_paper(
    page: &mut String,
    paper: &Paper,
    found: &[Reproduced],
    plots: &[Drawn],
) -> std::fmt::Result {
    writeln!(
        page,
        "<h2 id=\"{0}\">{0}: {1}</h2>\n<p class=\"notes\">{2}. {3}.</p>",
        escape(&paper.name),
        escape(&paper.title),
        escape(&paper.authors),
        escape(&paper.published),
    )?;
    for note in &paper.notes {
        writeln!(page, "<p class=\"notes\">{}</p>", escape(note))?;
    }
    page.write_str("<table class=\"rows\">\n<thead><tr>")?;
    for heading in ["figure", "what", "paper", "ours", "ratio", "verdict", "why"] {
        write!(page, "<th scope=\"col\">{heading}</th>")?;
    }
    page.write_str("</tr></thead>\n<tbody>\n")?;
    for row in found.iter().filter(|own| own.paper == paper.name) {
        write_row(page, row)?;
    }
    page.write_str("</tbody>\n</table>\n")?;
    page.write_str("<div class=\"plots\">\n")?;
    for plot in plots.iter().filter(|own| own.paper == paper.name) {
        // Inside HTML the name space goes without saying.
        let svg = plot
            .narrow
            .replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
        writeln!(
            page,
            "<figure>{svg}<figcaption>{}</figcaption></figure>",
            escape(&plot.caption)
        )?;
    }
    page.write_str("</div>\n")?;
    write_omitted(page, paper)
}

fn write_row(page: &mut String, row: &Reproduced) -> std::fmt::Result {
    let class = match row.verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Differs => "differs",
        Verdict::NotComparable | Verdict::NotRun => "neither",
    };
    let tolerance = match row.tolerance {
        tolerance if tolerance > 0.0 => {
            format!(" <small>\u{b1}{:.0} %</small>", 100.0 * tolerance)
        }
        _ => String::new(),
    };
    let beyond = match row.is_beyond {
        true => " <small>beyond</small>",
        false => "",
    };
    let source = match row.source.as_str() {
        "" => String::new(),
        source => format!(" <small>{}</small>", escape(source)),
    };
    writeln!(
        page,
        "<tr class=\"{class}\"><th scope=\"row\">{}</th><td class=\"what\">{}{source}</td>\
         <td data-of=\"paper\">{}{tolerance}</td><td data-of=\"ours\">{}</td>\
         <td data-of=\"ratio\">{}</td><td class=\"verdict\">{}{beyond}</td>\
         <td class=\"why\">{}</td></tr>",
        escape(&row.figure),
        escape(&row.what),
        escape(&row.expected),
        escape(&row.ours),
        row.ratio.map_or(String::new(), significant),
        row.verdict,
        escape(&row.why),
    )
}

/// Writes which figures and tables have no rows, and why.
fn write_omitted(page: &mut String, paper: &Paper) -> std::fmt::Result {
    let omitted = paper
        .figures
        .iter()
        .filter_map(|own| Some((own, own.omitted.as_ref()?)));
    let omitted: Vec<_> = omitted.collect();
    if omitted.is_empty() {
        return Ok(());
    }
    page.write_str("<p class=\"notes\">Without rows: ")?;
    for (index, (figure, why)) in omitted.iter().enumerate() {
        let between = if index == 0 { "" } else { "; " };
        write!(
            page,
            "{between}{}, {} ({})",
            escape(&figure.figure),
            escape(&figure.title),
            escape(why)
        )?;
    }
    page.write_str(".</p>\n")
}

/// Writes how each experiment was run, so that the reader can run it again.
fn write_runs(page: &mut String, runs: &[PaperRun], output: &Path) -> std::fmt::Result {
    page.write_str(
        "<h2>Experiments</h2>\n<p class=\"notes\">Run them again with \
         <code>sprat-loadgen reproduce PAPER</code>; with <code>--quick</code> all that is \
         simulated. Each one\u{2019}s CSV has its parameters. Its values stay until it is run \
         again, also where the code has changed since: each says the last change of the code that \
         it was run with.</p>\n<dl>\n",
    )?;
    for run in runs {
        let record = Record::read(&file_of(output, run.paper(), run.name()));
        let how = match &record {
            Some(record) => format!(
                "{}, {:.0} s, code {}",
                record.scale, record.took_s, record.code
            ),
            None => "not run".to_owned(),
        };
        writeln!(
            page,
            "<dt>{} {} <small>{}</small></dt><dd>{}</dd>",
            escape(run.paper()),
            escape(run.name()),
            escape(&how),
            escape(run.about())
        )?;
    }
    page.write_str("</dl>\n")
}
