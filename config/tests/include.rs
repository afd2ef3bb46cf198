//! Configurations of several files.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use sprat_config::{Config, Loaded, load};

const MAIN: &str = "version: 1\ninclude: [conf.d/*.yaml]\nlisteners: [{address: '127.0.0.1:80'}]\n\
                    clusters: {web: {endpoints: ['a:1']}}\nroutes: [{cluster: web}]\n";

/// Creates a directory with these files.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("conf.d")).unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

fn loaded(directory: &Path) -> Result<Loaded, Vec<String>> {
    let env = |name: &str| (name == "SITE").then(|| "conf.d".to_owned());
    // Names without the directory, which is another each time.
    let base = format!("{}/", directory.display());
    load(&directory.join("sprat.yaml"), &env)
        .map_err(|errors| errors.lines().map(|line| line.replace(&base, "")).collect())
}

fn farm(files: &[(&str, &str)]) -> Config {
    let directory = directory(files);
    loaded(directory.path()).unwrap().config
}

fn complaints(files: &[(&str, &str)]) -> Vec<String> {
    let directory = directory(files);
    loaded(directory.path()).unwrap_err()
}

/// Returns the name of each route's cluster.
fn routes(config: &Config) -> Vec<&str> {
    let json = config.shown.json();
    let routes = json["routes"].as_array().unwrap().iter();
    routes.map(|own| own["cluster"].as_str().unwrap()).collect()
}

#[test]
fn lists_and_names_are_joined_in_the_order_of_file_names() {
    let site = |name: &str| {
        format!(
            "clusters: {{{name}: {{endpoints: ['{name}:1']}}}}\n\
             routes: [{{match: {{hosts: [{name}.example]}}, cluster: {name}}}]\n"
        )
    };
    let (b, a) = (site("b"), site("a"));
    let c = "version: 1\nx-own: {any: thing}\nclasses: {gold: {level: 1}}\n\
             class_rules: [{match: {path: /c}, class: gold}]\nuplink: {rate: 1mbit}\n";
    let farm = farm(&[
        ("sprat.yaml", MAIN),
        ("conf.d/b.yaml", &b),
        ("conf.d/a.yaml", &a),
        ("conf.d/c.yaml", c),
        ("conf.d/empty.yaml", "# nothing yet\n"),
        ("conf.d/d.yaml.off", "not: [read"),
    ]);
    assert_eq!(routes(&farm), ["a", "b", "web"]);
    let names: Vec<_> = farm.clusters.iter().map(|own| &*own.name).collect();
    assert_eq!(names, ["a", "b", "web"]);
    let at = farm.classes.rules[0].at.as_ref().unwrap();
    assert!(at.to_string().starts_with("4 of ") && at.to_string().ends_with("conf.d/c.yaml"));
}

#[test]
fn what_was_read_is_told() {
    let directory = directory(&[
        ("sprat.yaml", MAIN),
        ("conf.d/a.yaml", "include: ['../more/x.yaml']\n"),
        ("more/x.yaml", "# nothing\n"),
    ]);
    let read = loaded(directory.path()).unwrap().read;
    let expected = [
        "sprat.yaml",
        "conf.d",
        "conf.d/a.yaml",
        "conf.d/../more/x.yaml",
    ];
    let expected = expected.map(|name| directory.path().join(name));
    assert_eq!(read, expected);
    // A directory is the file in it.
    let same = load(directory.path(), &|_| None).unwrap();
    assert_eq!(same.read, expected);
}

#[test]
fn an_error_names_the_file_and_the_line() {
    let routes = "routes:\n  - match: {hosts: [a.example]}\n    clustr: web\n";
    assert_eq!(
        complaints(&[("sprat.yaml", MAIN), ("conf.d/a.yaml", routes)]),
        ["conf.d/a.yaml:3:5: unknown key `clustr` (did you mean `cluster`?)",]
    );
    let syntax = "routes: [{cluster: web}\n";
    let complaints = complaints(&[("sprat.yaml", MAIN), ("conf.d/a.yaml", syntax)]);
    assert!(
        complaints[0].starts_with("conf.d/a.yaml:"),
        "{complaints:?}"
    );
    let unset = "clusters: {b: {endpoints: ['${HOST}']}}\nroutes: [{cluster: c}]\n";
    assert_eq!(
        self::complaints(&[("sprat.yaml", MAIN), ("conf.d/a.yaml", unset)]),
        [
            "sprat.yaml:5:10: this route can never match (the route on line 2 of conf.d/a.yaml \
             takes all its requests: put this one before it)",
            "conf.d/a.yaml:1:29: the environment variable `HOST` is not set (set it, or give a \
             default: `${HOST:-default}`)",
            "conf.d/a.yaml:2:20: there is no cluster `c` (the clusters are `b` and `web`)",
        ]
    );
}

#[test]
fn what_is_in_two_files_is_an_error_that_names_both() {
    let more = "uplink: {rate: 2mbit}\nclusters: {web: {endpoints: ['b:1']}}\n\
                listeners: [{address: '127.0.0.1:80'}]\n";
    let main = format!("{MAIN}uplink: {{rate: 1mbit}}\n");
    assert_eq!(
        complaints(&[("sprat.yaml", &main), ("conf.d/a.yaml", more)]),
        [
            "sprat.yaml:3:23: another listener has the same address (the other is on line 3 of \
             conf.d/a.yaml: change one of them)",
            "conf.d/a.yaml:1:1: the key `uplink` is given twice (it is first given on line 6 of \
             sprat.yaml: keep one of them)",
            "conf.d/a.yaml:2:12: the key `web` is given twice (it is first given on line 4 of \
             sprat.yaml: keep one of them)",
        ]
    );
    assert_eq!(
        complaints(&[
            ("sprat.yaml", MAIN),
            ("conf.d/a.yaml", "version: 2\nroutes: {cluster: web}\n"),
            ("conf.d/b.yaml", "- routes\n"),
        ]),
        [
            "conf.d/a.yaml:1:10: expected the number 1, found `2`",
            "conf.d/a.yaml:2:1: expected a list, found a mapping (`routes` is put together from \
             several files)",
            "conf.d/b.yaml:1:3: expected a mapping with keys such as `routes`, found a list",
        ]
    );
}

#[test]
fn includes_are_relative_to_their_file_and_bounded() {
    let main = MAIN.replace(
        "conf.d/*.yaml",
        "'${SITE}/a.yaml', conf.d/*.yaml, sites/*/s.yaml",
    );
    let route = "routes: [{match: {path: /a}, cluster: web}]\n";
    let nested = format!("include: [b.inc]\n{route}");
    let farm = farm(&[
        ("sprat.yaml", &main),
        ("conf.d/a.yaml", &nested),
        ("conf.d/b.inc", &route.replace("/a", "/b")),
        ("sites/one/s.yaml", &route.replace("/a", "/c")),
        ("sites/two/other.yaml", "not read"),
        ("sites/note", "a file beside directories"),
    ]);
    // A file that two patterns name is read once.
    assert_eq!(farm.routes.len(), 4);

    let cycle = complaints(&[
        ("sprat.yaml", MAIN),
        ("conf.d/a.yaml", "include: [../sprat.yaml]\n"),
    ]);
    assert_eq!(
        cycle,
        [
            "conf.d/a.yaml:1:11: `conf.d/../sprat.yaml` includes itself (remove one of the \
             includes that lead from the file to itself)"
        ]
    );
    let chain: Vec<_> = (0..10)
        .map(|i| {
            (
                format!("conf.d/{i}.inc"),
                format!("include: [{}.inc]\n", i + 1),
            )
        })
        .collect();
    let main = MAIN.replace("*.yaml", "0.inc");
    let mut files: Vec<_> = chain
        .iter()
        .map(|(n, t)| (n.as_str(), t.as_str()))
        .collect();
    files.push(("sprat.yaml", &main));
    assert_eq!(
        complaints(&files),
        ["conf.d/7.inc:1:11: more than 8 files include each other (include them from one file)"]
    );
    let large = format!("# {}\n", "x".repeat(600_000));
    assert_eq!(
        complaints(&[
            ("sprat.yaml", MAIN),
            ("conf.d/a.yaml", &large),
            ("conf.d/b.yaml", &large)
        ]),
        ["sprat.yaml:2:11: with `conf.d/b.yaml` the files are larger than 1048576 bytes"]
    );
}

#[test]
fn what_cannot_be_read_is_told_at_the_include() {
    let main = MAIN.replace("[conf.d/*.yaml]", "[conf.d/a.yaml, none/*.yaml, conf.d]");
    assert_eq!(
        complaints(&[("sprat.yaml", &main)]),
        [
            "sprat.yaml:2:11: cannot read `conf.d/a.yaml`: No such file or directory (os error 2)",
            "sprat.yaml:2:26: cannot read the directory `none`: No such file or directory (os \
             error 2)",
            "sprat.yaml:2:39: cannot read `conf.d`: it is not a file",
        ]
    );
    let directory = directory(&[("sprat.yaml", MAIN)]);
    // Nobody has put a file there yet.
    assert!(loaded(directory.path()).is_ok());
    std::fs::write(directory.path().join("conf.d/a.yaml"), b"# \xff\n").unwrap();
    assert_eq!(
        loaded(directory.path()).unwrap_err(),
        ["conf.d/a.yaml:1:3: the file is not UTF-8 from here on (save it as UTF-8)"]
    );
    let alone = sprat_config::parse(MAIN, "text", &|_| None).unwrap_err();
    let alone: Vec<_> = alone.lines().collect();
    assert_eq!(
        alone,
        [
            "text:2:10: `include` stands in a file, and this is text by itself (put what it \
          includes in its place)"
        ]
    );
}

#[test]
fn a_pattern_passes_over_files_among_its_directories() {
    let main = MAIN.replace("conf.d/*.yaml", "sites/*/*.yaml");
    let route = "routes: [{match: {path: /a}, cluster: web}]\n";
    let farm = farm(&[
        ("sprat.yaml", &main),
        ("sites/one/s.yaml", route),
        ("sites/note", "a file beside directories"),
    ]);
    assert_eq!(farm.routes.len(), 2);
}

#[test]
fn the_number_of_files_is_bounded() {
    let many = |number: usize| {
        let directory = directory(&[("more.yaml", "# nothing\n")]);
        for n in 0..number {
            std::fs::write(directory.path().join(format!("conf.d/{n}.yaml")), "").unwrap();
        }
        let main = MAIN.replace("]\nlisteners", ", more.yaml]\nlisteners");
        std::fs::write(directory.path().join("sprat.yaml"), main).unwrap();
        directory
    };
    // With the one that includes them, and the one that is included by its name.
    assert!(loaded(many(1022).path()).is_ok());
    assert_eq!(
        loaded(many(1023).path()).unwrap_err(),
        ["sprat.yaml:2:26: the configuration has more than 1024 files"]
    );
    // Said once, and where the first one too many is included.
    assert_eq!(
        loaded(many(1024).path()).unwrap_err(),
        ["sprat.yaml:2:11: the configuration has more than 1024 files"]
    );
    assert_eq!(
        loaded(many(1025).path()).unwrap_err(),
        ["sprat.yaml:2:11: `conf.d/*.yaml` fits more than 1024 names"]
    );
}

#[test]
fn bytes_and_values_are_counted_over_all_files() {
    let with = |bytes: usize| {
        let text = format!("#{}", "x".repeat(bytes - MAIN.len() - 1));
        let directory = directory(&[("sprat.yaml", MAIN), ("conf.d/a.yaml", &text)]);
        loaded(directory.path()).map(|_| ())
    };
    assert_eq!(with(1 << 20), Ok(()));
    assert_eq!(
        with((1 << 20) + 1),
        Err(vec![
            "sprat.yaml:2:11: with `conf.d/a.yaml` the files are larger than 1048576 bytes".into()
        ])
    );
    // An alias counts as all that it repeats: some 200,000 values.
    let zeros = vec!["0"; 1000].join(",");
    let values = format!("x-a: &a [{zeros}]\nx-b: [{}]\n", vec!["*a"; 200].join(","));
    let mut files = vec![
        ("sprat.yaml", MAIN),
        ("conf.d/a.yaml", &values),
        ("conf.d/b.yaml", &values),
    ];
    assert!(loaded(directory(&files).path()).is_ok());
    files.push(("conf.d/c.yaml", &values));
    assert_eq!(
        complaints(&files),
        [
            "conf.d/c.yaml:2:6: the configuration comes to more than 500000 values (an alias \
             counts as all that it repeats)"
        ]
    );
}

#[test]
fn what_is_put_together_is_of_one_kind() {
    for (text, expected) in [
        (
            "routes: web\n",
            "expected a list, found `web` (`routes` is put together from several files)",
        ),
        (
            "routes:\n",
            "expected a list, found nothing (`routes` is put together from several files)",
        ),
        (
            "routes: '~'\n",
            "expected a list, found `~` (`routes` is put together from several files)",
        ),
        (
            "clusters: null\n",
            "expected a mapping from names, found nothing (`clusters` is put together from \
             several files)",
        ),
        (
            "clusters: [web]\n",
            "expected a mapping from names, found a list (`clusters` is put together from \
             several files)",
        ),
    ] {
        assert_eq!(
            complaints(&[("sprat.yaml", MAIN), ("conf.d/a.yaml", text)]),
            [format!("conf.d/a.yaml:1:1: {expected}")]
        );
    }
}
