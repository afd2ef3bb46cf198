#[path = "tests/admission.rs"]
mod admission;
#[path = "tests/coverage.rs"]
mod coverage;
#[path = "tests/drawn.rs"]
mod drawn;

use super::verdict::Verdict;
use super::*;
use crate::simulate::experiment::Measured;
use crate::simulate::sample::tests::sample;

fn args(output: &Path, paper: &str, figures: &[&str]) -> ReproduceArgs {
    ReproduceArgs {
        paper: Some(paper.to_owned()),
        figures: figures.iter().map(|&figure| figure.to_owned()).collect(),
        quick: true,
        lab: false,
        sample: None,
        fresh: false,
        output: output.to_owned(),
    }
}

/// Returns a code by one name, for all kinds of experiments.
fn code(name: &str) -> RunCode {
    RunCode {
        simulated: name.to_owned(),
        lab: name.to_owned(),
    }
}

#[test]
fn every_row_has_a_number_a_figure_and_a_source() {
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    rows::check(&papers, &runs).unwrap();
    let names: Vec<&str> = papers.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, ["TOCS03", "EH99", "SFD02", "SRQ06", "SDIS02"]);
    for paper in &papers {
        for figure in &paper.figures {
            let rows = paper.rows.iter();
            let rows = rows.filter(|row| row.figure == figure.figure).count();
            // What has no rows says why.
            assert_eq!(
                rows > 0,
                figure.omitted.is_none(),
                "{} {figure:?}",
                paper.name
            );
        }
        for row in &paper.rows {
            let known = ["exact", "stated", "loose", "bound", "derived"];
            assert!(known.contains(&row.precision.as_str()), "{row:?}");
            assert!((0.0..=0.5).contains(&row.tolerance), "{row:?}");
        }
    }
}

#[test]
fn rows_over_real_sockets_are_run_where_they_are_asked_for() {
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    let has_lab = |lab, scale| {
        let args = ReproduceArgs {
            lab,
            ..args(Path::new("unused"), "EH99", &[])
        };
        let wanted = wanted(&args, scale, &papers, &runs).unwrap();
        assert!(wanted.iter().any(|run| !run.is_lab()));
        wanted.iter().any(PaperRun::is_lab)
    };
    assert!(!has_lab(false, Scale::Quick));
    assert!(has_lab(true, Scale::Quick));
    assert!(has_lab(false, Scale::Full));
}

#[test]
fn experiments_with_a_sample_are_run_where_there_is_one() {
    let papers = reference::all().unwrap();
    let names = |sample: Option<RecordedSample>, scale| -> Vec<&'static str> {
        let args = args(Path::new("unused"), "TOCS03", &["sample"]);
        let wanted = wanted(&args, scale, &papers, &run::all(sample)).unwrap();
        wanted.iter().map(PaperRun::name).collect()
    };
    for scale in [Scale::Quick, Scale::Full] {
        assert_eq!(names(None, scale), Vec::<&str>::new());
        assert_eq!(names(Some(sample("1,10,200,/a\n")), scale), ["sample"]);
    }
}

#[test]
fn rows_are_chosen_by_figure_or_by_experiment() {
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    let names = |asked: &str| -> Vec<&'static str> {
        let args = args(Path::new("unused"), "SRQ06", &[asked]);
        let wanted = wanted(&args, Scale::Quick, &papers, &runs).unwrap();
        wanted.iter().map(PaperRun::name).collect()
    };
    assert_eq!(names("shift-uplink"), ["shift-uplink"]);
    assert_eq!(names("Table IV"), ["shift", "shift-uplink"]);
    assert_eq!(names("14"), ["retrieval", "retrieval-uplink"]);
}

#[test]
fn a_row_that_lacks_something_is_found() {
    let runs = run::all(None);
    let checked = |change: fn(&mut reference::PaperRow)| {
        let mut papers = reference::all().unwrap();
        let row = papers[0].rows.iter_mut().find(|row| row.from.is_some());
        change(row.unwrap());
        rows::check(&papers, &runs).unwrap_err().to_string()
    };
    assert!(checked(|row| row.figure = "99".to_owned()).contains("not listed"));
    assert!(checked(|row| row.holds = true).contains("2 numbers"));
    let in_words = |row: &mut reference::PaperRow| {
        *row = reference::PaperRow {
            figure: row.figure.clone(),
            printed: Some("5 and 7".to_owned()),
            from: row.from.take(),
            ..reference::PaperRow::default()
        };
    };
    assert!(checked(in_words).contains("in words"));
    assert!(checked(|row| row.from = None).contains("is not comparable"));
    let other = |row: &mut reference::PaperRow| {
        row.from.as_mut().unwrap().run = "nowhere".to_owned();
    };
    assert!(checked(other).contains("no experiment nowhere"));
}

#[test]
fn a_row_is_reproduced_once_and_again_with_other_code() {
    let directory = tempfile::tempdir().unwrap();
    let args = args(directory.path(), "eh99", &["1"]);
    let ran = |name| reproduce(&args, Scale::Tiny, &code(name)).unwrap();
    assert_eq!([ran("one"), ran("one"), ran("other")], [1, 0, 1]);
    let file = directory.path().join("EH99/network.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("code,other")
            && text.contains("\"light alone\"") | text.contains("light alone")
    );
    // What was cut off while it was written is no record.
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert!(ran("other") <= 1);
    let rows = std::fs::read_to_string(directory.path().join("rows.csv")).unwrap();
    assert!(rows.contains("bounded rate, light: growth"), "{rows}");
    let page = std::fs::read_to_string(directory.path().join("index.html")).unwrap();
    assert!(
        page.contains("Five papers") && page.contains("<svg"),
        "{page}"
    );
    let caption = "Figure 2a: Light foreground, 10 Mbit/s. A link of 10 Mbit/s shared";
    assert!(page.contains(caption), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert!(directory.path().join("EH99/figure-02a.svg").exists());
}

#[test]
fn rows_of_a_sample_say_what_they_need_and_another_sample_is_another_run() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: [u32; 2]| {
        let file = directory.path().join(name);
        let rows = bytes.map(|bytes| format!("1,{bytes},200,/index.html\n"));
        let text = format!("t_s,bytes,status,url\n{}", rows.concat());
        std::fs::write(&file, text).unwrap();
        file
    };
    let (one, other) = (
        write("one.csv", [900, 4_000]),
        write("two.csv", [2_000, 5_000]),
    );
    let output = directory.path().join("papers");
    let ran = |sample: Option<&Path>| {
        let args = ReproduceArgs {
            sample: sample.map(Path::to_owned),
            ..args(&output, "TOCS03", &["sample"])
        };
        reproduce(&args, Scale::Tiny, &code("code")).unwrap()
    };
    let rows = || std::fs::read_to_string(output.join("rows.csv")).unwrap();
    assert_eq!(ran(None), 0);
    assert!(rows().contains("not_run,with the requests of a log of the World Cup's site"));
    assert_eq!(
        [ran(Some(&one)), ran(Some(&one)), ran(Some(&other))],
        [1, 0, 1]
    );
    let record = std::fs::read_to_string(output.join("TOCS03/sample.csv")).unwrap();
    assert!(
        record.contains("RecordedSample { requests: 2, bytes: 7000, pages: 2 }"),
        "{record}"
    );
    // What has been run stays, also where the sample is not.
    assert_eq!(ran(None), 0);
    assert!(
        rows().contains("\"requests for more than 1 KB, the sample\",50.0 %,0.25,stated,100.0 %"),
        "{}",
        rows()
    );
    assert!(output.join("TOCS03/figure-05a-sample.svg").exists());
    let missing = ReproduceArgs {
        sample: Some(directory.path().join("nowhere.csv")),
        ..args(&output, "TOCS03", &["sample"])
    };
    let error = reproduce(&missing, Scale::Tiny, &code("code")).unwrap_err();
    assert!(error.to_string().contains("nowhere.csv"), "{error}");
}

#[test]
fn papers_and_figures_that_are_not_there_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |paper, figures: &[&str]| {
        let args = args(directory.path(), paper, figures);
        reproduce(&args, Scale::Tiny, &code("code"))
            .unwrap_err()
            .to_string()
    };
    assert!(refused("SRPT", &[]).contains("TOCS03, EH99"));
    assert!(refused("SDIS02", &["99"]).contains("8-11"));
}

#[test]
fn rows_beyond_the_papers_value_are_counted_apart() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path();
    let mut measured = Measured::default();
    // The paper has 5 to 6 times for both, and less is better.
    measured.value("light ltdpool growth", 2.6);
    measured.value("heavy ltdpool growth", 5.5);
    let kept = record::Record {
        code: "one".to_owned(),
        scale: "quick".to_owned(),
        parameters: String::new(),
        took_s: 1.0,
        measured,
    };
    let file = record::file_of(output, "EH99", "network");
    kept.write(&file).unwrap();
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    let found = rows::judge(&papers, &runs, output).unwrap();
    let tally = VerdictTally::of(found.iter());
    assert_eq!((tally.reproduced, tally.within(), tally.beyond), (2, 1, 1));
    let page = page::html(&papers, &runs, &found, &[], output).unwrap();
    assert!(page.contains("reproduced <small>beyond</small>"), "{page}");
    assert!(
        page.contains("<small>quick, 1 s, code one</small>"),
        "{page}"
    );
    let args = args(output, "EH99", &[]);
    let told = told(&args, &papers, &found);
    assert!(
        told.contains("within the tolerance: 1, beyond the paper's where that is better: 1\n"),
        "{told}"
    );
}

/// Writes a record of TOCS03's LAN with these parameters and one value, and judges a row of it that
/// has the value, and one that has not.
fn of_lan(parameters: String) -> Vec<(Verdict, String)> {
    let directory = tempfile::tempdir().unwrap();
    let mut measured = Measured::default();
    measured.value("gain at 0.8", 5.0);
    let record = record::Record {
        code: "code".to_owned(),
        scale: "quick".to_owned(),
        parameters,
        took_s: 1.0,
        measured,
    };
    let file = record::file_of(directory.path(), "TOCS03", "lan");
    record.write(&file).unwrap();
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    let found = rows::judge(&papers, &runs, directory.path()).unwrap();
    let rows = ["FAIR over SRPT at 0.8", "FAIR over SRPT at 0.9 of the wire"].map(|what| {
        let mut of_paper = found.iter().filter(|row| row.paper == "TOCS03");
        let row = of_paper.find(|row| row.figure == "5a" && row.what == what);
        let row = row.unwrap();
        (row.verdict, row.why.clone())
    });
    rows.to_vec()
}

#[test]
fn a_value_that_an_older_record_lacks_is_not_run_and_one_that_a_run_lacks_differs() {
    let runs = run::all(None);
    let lan = runs.iter().find(|run| run.name() == "lan").unwrap();
    let reproduced = (Verdict::Reproduced, String::new());
    assert_eq!(
        of_lan(lan.parameters(Scale::Quick)),
        [reproduced.clone(), (Verdict::Differs, String::new())]
    );
    let since = (Verdict::NotRun, rows::MEASURED_SINCE.to_owned());
    assert_eq!(of_lan("others".to_owned()), [reproduced, since]);
}

/// Checks each row of the kept run. A row may wait for its experiment to be run again if that has
/// other parameters by now, and for no other reason. With `UPDATE=1` it first writes the run's
/// page anew, such as after a change of its words.
#[test]
fn the_run_that_is_kept_has_a_value_for_each_row() {
    let output = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/papers");
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    let found = rows::judge(&papers, &runs, &output).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        write(&output, &papers, &runs, &found).unwrap();
    }
    for row in &found {
        let is_lab = row.source.starts_with("lab");
        let waits = row.why == rows::MEASURED_SINCE;
        assert!(row.verdict != Verdict::NotRun || is_lab || waits, "{row:?}");
        let needs_value = matches!(row.verdict, Verdict::Reproduced | Verdict::Differs);
        assert!(!needs_value || row.value.is_some(), "{row:?}");
        // Evidence, or at least a reason.
        assert!(
            row.verdict == Verdict::Reproduced || !row.why.is_empty(),
            "{row:?}"
        );
    }
}
