//! The presets that need networks, on the networks in `models/`.

use std::path::Path;

use crate::models::committed;
use crate::program::{files, gpara};

#[test]
fn paper_preset_counts_its_network_calls_and_measuring_helps() {
    let folder = tempfile::tempdir().unwrap();
    let run = gpara(folder.path(), "demo radio --preset paper --budget 32 --policy active --quiet --json --out out");
    let summary = run.success().json();
    // The ensemble of 4 and the 4 trajectories, five steps each; then 4 trajectories for the policy.
    assert_eq!(summary["prior"]["network_calls"], 40);
    assert_eq!(summary["active"]["network_calls"], 20);
    let rmse = |method: &str| summary[method]["rmse"].as_f64().unwrap();
    assert!(rmse("active") < rmse("prior") && rmse("prior") < 0.15, "{summary:#}");
    // Four trajectories have a spread, also without measurements.
    assert!(folder.path().join("out/sample_0_prior_std.png").exists());
}

#[test]
fn best_preset_works_or_names_the_network_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let run = gpara(folder.path(), "demo radio --preset best --budget 16 --policy active --quiet --json --out out");
    let embedded = committed();
    if ["radio-paper-prior", "radio-best-mean", "radio-best-spread"]
        .iter()
        .all(|name| embedded.iter().any(|found| found == name))
    {
        let summary = run.success().json();
        let rmse = |method: &str| summary[method]["rmse"].as_f64().unwrap();
        assert!(rmse("active") < rmse("prior") && rmse("prior") < 0.12, "{summary:#}");
    } else {
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains("model `radio-best-") && run.stderr.contains("hint: "), "{}", run.stderr);
        assert!(files(folder.path()).is_empty());
    }
}

#[test]
#[ignore = "two minutes of network evaluations"]
fn network_presets_give_the_same_files_for_one_and_two_threads() {
    let presets: &[&str] =
        if committed().iter().any(|name| name == "radio-best-mean") { &["paper", "best"] } else { &["paper"] };
    for preset in presets {
        let folder = tempfile::tempdir().unwrap();
        for threads in [1, 2] {
            let command = format!(
                "demo radio --preset {preset} --budget 24 --policy active --quiet --threads {threads} --out {threads}"
            );
            gpara(folder.path(), &command).success();
        }
        let found = |threads: &str| {
            let mut found = files(&folder.path().join(Path::new(threads)));
            // The summary holds the seconds; its numbers are also in the report.
            found.remove("summary.json");
            found
        };
        let (first, second) = (found("1"), found("2"));
        assert!(first.len() > 10);
        for (name, bytes) in &first {
            assert!(second[name] == *bytes, "{preset}: {name} differs between 1 and 2 threads");
        }
    }
}
