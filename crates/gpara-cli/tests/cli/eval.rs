//! `gpara eval` on the embedded scenes: every method runs, results resume, pages are made of recorded lines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::gpara;

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(name).canonicalize().unwrap()
}

/// Names of one kind in `gpara eval --methods`.
fn known(kind: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let rows = gpara(folder.path(), "eval --methods --json").success().json();
    let names = rows.as_array().unwrap().iter().filter_map(|row| row[0].as_str()?.strip_prefix(&format!("{kind} ")));
    names.map(str::to_owned).collect()
}

#[test]
fn smoke_runs_every_method_and_resumes_with_nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let command = format!("eval {} --quiet --json --out out", config("smoke.toml").display());
    let summary = gpara(folder.path(), &command).success().json();
    let entries = summary.as_array().unwrap();
    let named = |key: &str| entries.iter().filter_map(|entry| entry[key].as_str().map(str::to_owned)).collect();
    let (reconstructors, policies): (BTreeSet<String>, BTreeSet<String>) = (named("reconstructor"), named("policy"));
    assert_eq!(reconstructors, known("reconstructor"), "configs/smoke.toml runs every reconstructor");
    assert_eq!(policies, known("policy"), "configs/smoke.toml runs every policy");
    let value = |method: &str, metric: &str| {
        let found = entries.iter().find(|entry| entry["method"] == method && entry["metric"] == metric);
        found.unwrap_or_else(|| panic!("{method} {metric}"))["mean"].as_f64().unwrap()
    };
    assert_eq!(value("ads/ads-24", "network_calls"), 10.0);
    assert_eq!(value("ddnm/adasense-24", "network_calls_acquire"), 18.0);
    let (spearman, regret) = (value("one-step/random-12", "spearman"), value("one-step/random-12", "regret"));
    assert!((-1.0..=1.0).contains(&spearman) && spearman != 0.0 && regret >= 0.0, "{spearman} {regret}");
    // One draw of the ensemble chooses all points; the trajectories are stage II.
    assert_eq!(value("paper/active-24", "network_calls_acquire"), 6.0);
    assert_eq!(value("paper/random-24", "network_calls_acquire"), 0.0);
    for name in
        ["results.jsonl", "results.csv", "table.md", "smoke-points.svg", "smoke-seconds.svg", "scene-sample_0.png"]
    {
        assert!(folder.path().join("out").join(name).exists(), "{name}");
    }
    let table = std::fs::read_to_string(folder.path().join("out/table.md")).unwrap();
    assert!(table.contains("not run: it is not built") && table.contains("to `gaussian/random-24`"), "{table}");

    let lines = std::fs::read_to_string(folder.path().join("out/results.jsonl")).unwrap();
    gpara(folder.path(), &command).success();
    assert_eq!(std::fs::read_to_string(folder.path().join("out/results.jsonl")).unwrap(), lines);
    let changed = format!("{command} --set method.kriging.settings.covariance=matern32");
    let refused = gpara(folder.path(), &changed);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("`kriging/random-24`") && refused.stderr.contains("settings"),
        "{}",
        refused.stderr
    );
}

#[test]
fn cases_recorded_before_are_kept_by_a_run_that_looks_at_others() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\nabout = \"a\"\nseed = 1\n[data]\ntask = \"depth\"\nfirst = 2\nwindow = [24, 24]\n\
        [[method]]\nname = \"linear\"\nreconstructor = \"linear\"\npolicy = \"random\"\nbudget = [9, 30]\n\
        [[table]]\ntitle = \"t\"\nnumbers = [\"rmse\"]\nrow = [{ label = \"l\", method = \"linear/random-9\" }]\n";
    std::fs::write(folder.path().join("one.toml"), text).unwrap();
    let recorded = |only: &str, limit: u32| {
        let command =
            format!("eval one.toml --quiet --out out --record kept --only linear/random-{only} --limit {limit}");
        gpara(folder.path(), &command).success();
        let cases = gpara_eval::read_cases(&folder.path().join("kept/one.jsonl.gz")).unwrap();
        cases.iter().map(|case| (case.method.clone(), case.scene.clone())).collect::<Vec<_>>()
    };
    let first = recorded("9", 2);
    assert_eq!(first.len(), 2);
    let both = recorded("30", 1);
    assert_eq!((both.len(), both.iter().filter(|case| first.contains(case)).count()), (3, 2), "{both:?}");
    assert_eq!(recorded("30", 1), both);
}

#[test]
fn values_of_the_command_line_reach_the_run_and_wrong_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let only = folder.path().join("one.toml");
    let text = "title = \"t\"\nabout = \"a\"\nseed = 1\n[data]\ntask = \"depth\"\nfirst = 1\nwindow = [24, 24]\n\
        [[method]]\nname = \"linear\"\nreconstructor = \"linear\"\npolicy = \"random\"\nbudget = 9\n";
    std::fs::write(&only, text).unwrap();
    let run = |more: &str| gpara(folder.path(), &format!("eval one.toml --quiet --json {more}"));
    let summary = run("--out a --set method.linear.budget=30 --limit 2").success().json();
    let rmse = summary.as_array().unwrap().iter().find(|entry| entry["metric"] == "rmse").unwrap().clone();
    assert_eq!((&rmse["method"], &rmse["cases"]), (&Value::from("linear/random-30"), &Value::from(2)));
    let none = run("--out c --only linear/random-9 --stop-after 0").success().json();
    assert_eq!(none.as_array().unwrap().len(), 0, "no case begins after the time is over");
    let whole = run("--out c --only linear/random-9 --stop-after 3600").success().json();
    assert!(whole.as_array().unwrap().iter().all(|entry| entry["method"] == "linear/random-9"));
    for (more, named) in [
        ("--out b --set data.firts=2", "firts"),
        ("--out b --only linear/random-8", "it has linear"),
        ("--out b --set method.linear.reconstructor=lienar", "reconstructor `lienar` is not known"),
        ("--out b --set method.linear.policy=randm", "policy `randm` is not known"),
        ("--out b --set seed=one", "invalid type"),
        ("--out b --data nowhere", "nowhere"),
        ("--out b --only kriging", "it has linear"),
    ] {
        let refused = run(more);
        assert_eq!(refused.code, 2, "{more}");
        assert!(refused.stderr.contains(named) && refused.stderr.contains("hint: "), "{more}: {}", refused.stderr);
    }
}
