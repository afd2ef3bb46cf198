//! Tests of Grafana's dashboard: that Grafana can read it, and that its panels' queries are valid.

use std::collections::BTreeSet;

use serde_json::Value;

/// The variable that Grafana replaces by the time that a rate is taken over.
const INTERVAL: &str = "$__rate_interval";

fn read(file: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker/grafana");
    std::fs::read_to_string(root.join(file)).unwrap()
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&read("dashboards/sprat.json")).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

/// Returns the queries of all panels, in the form in which Prometheus gets them.
pub(crate) fn queries() -> Vec<String> {
    let panels = panels();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap().replace(INTERVAL, "5m"));
    queries.collect()
}

/// Returns the cells of the grid that a panel takes.
fn cells(panel: &Value) -> impl Iterator<Item = (u64, u64)> {
    let of = |name: &str| panel["gridPos"][name].as_u64().unwrap();
    let (left, top, width, height) = (of("x"), of("y"), of("w"), of("h"));
    (top..top + height).flat_map(move |y| (left..left + width).map(move |x| (x, y)))
}

#[test]
fn the_dashboard_is_one_that_grafana_can_show() {
    let dashboard: Value = serde_json::from_str(&read("dashboards/sprat.json")).unwrap();
    for key in ["uid", "title"] {
        assert!(dashboard[key].is_string(), "{key}");
    }
    assert!(dashboard["schemaVersion"].is_u64());
    let source = read("provisioning/datasources/prometheus.yaml");
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id");
        assert!(
            ["timeseries", "stat"].contains(&panel["type"].as_str().unwrap()),
            "{title}: its type"
        );
        assert!(panel["description"].as_str().unwrap().ends_with('.'));
        for cell in cells(&panel) {
            assert!(cell.0 < 24 && taken.insert(cell), "{title}: at {cell:?}");
        }
        let (mut names, targets) = (BTreeSet::new(), panel["targets"].as_array().unwrap());
        for target in targets {
            assert!(names.insert(target["refId"].as_str().unwrap()), "{title}");
            for asked in [&panel, target] {
                let uid = asked["datasource"]["uid"].as_str().unwrap();
                assert!(source.contains(&format!("uid: {uid}\n")), "{title}: {uid}");
            }
        }
        assert!(!targets.is_empty(), "{title}: no query");
    }
    assert!(ids.len() >= 12);
    let provider = read("provisioning/dashboards/sprat.yaml");
    assert!(provider.contains("path: /etc/grafana/dashboards"));
}
