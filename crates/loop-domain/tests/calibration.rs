//! `gate.calibration` in a domain: what is taken of the file, and what is said where it cannot be taken.

use std::fs;
use std::path::Path;

use loop_core::spec::Calibration;
use loop_core::types::{Confidence, Tier};
use loop_domain::calibration::{CalibrationFile, CalibrationRow, CountedLevel};
use loop_domain::{Domain, LoadOptions, PolicyFile};

const FILE: &str = "calibration.json";

fn row(domain: &str, model: &str, passed: u32) -> CalibrationRow {
    let high = CountedLevel { passed, runs: 20 };
    CalibrationRow { domain: domain.into(), model: model.into(), high, ..CalibrationRow::default() }
}

/// A folder with a domain whose `[gate]` is this.
fn folder(gate: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "version = 1\nname = \"shop\"\ngoal = \"Answer\"\n[models.base]\nprovider = \"offline\"\nmodel = \"m\"\n[gate]\n{gate}\n\
         [[section]]\nid = \"answer\"\nheading = \"Answer\"\nrequired = true\n"
    );
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    folder
}

fn write(folder: &Path, rows: Vec<CalibrationRow>) {
    fs::write(folder.join(FILE), CalibrationFile::new(rows).to_text()).unwrap();
}

fn load(folder: &Path, options: &LoadOptions) -> Result<Domain, String> {
    Domain::load(folder, options).map_err(|error| error.to_string())
}

fn measured(domain: &Domain) -> Option<&Calibration> {
    domain.spec.gate.calibration.as_deref()
}

#[test]
fn what_evals_measured_is_in_the_spec_of_the_run() {
    // Issue 19, part 5.
    let folder = folder("calibration = \"calibration.json\"");
    write(folder.path(), vec![row("shop", "offline/m", 12), row("desk", "offline/m", 1)]);
    let domain = load(folder.path(), &LoadOptions::default()).unwrap();
    let found = measured(&domain).unwrap();
    let high = found.of(&domain.spec.models.base, Confidence::High, false).unwrap();
    assert_eq!((high.measured, high.runs.passed), (Confidence::Medium, 12));
    assert!(!domain.spec.gate.allow_raise);
    assert_eq!(domain.uncalibrated(), [] as [String; 0]);
    // The spec is what the journal keeps, so a replay needs no file.
    let text = serde_json::to_string(&*domain.spec).unwrap();
    assert_eq!(serde_json::from_str::<loop_core::RunSpec>(&text).unwrap(), *domain.spec);
    // A program that measures what models state does not apply what was measured before.
    let options = LoadOptions { uncalibrated: true, ..LoadOptions::default() };
    fs::remove_file(folder.path().join(FILE)).unwrap();
    assert_eq!(measured(&load(folder.path(), &options).unwrap()), None);
    let off = LoadOptions { set: vec![("gate.calibration".into(), "none".into())], ..LoadOptions::default() };
    assert_eq!(measured(&load(folder.path(), &off).unwrap()), None);
}

#[test]
fn a_file_that_cannot_be_taken_is_an_error_with_its_place() {
    let folder = folder("calibration = \"calibration.json\"");
    let path = folder.path().join(FILE);
    let fails = |part: &str| {
        let error = load(folder.path(), &LoadOptions::default()).err().unwrap();
        assert!(error.contains("loopgate.toml:8:") && error.contains(part), "{error}");
        assert!(error.contains("; ") && !error.contains('\n'), "{error}");
    };
    fails("calibration.json: cannot be read: ");
    fs::write(&path, "{}").unwrap();
    fails("it is not a calibration: it has no known `version`; ");
    write(folder.path(), vec![row("desk", "offline/m", 12)]);
    fails("it has no runs of the domain `shop`, only of desk; ");
    write(folder.path(), vec![row("shop", "offline/other", 12)]);
    fails("it has no runs of the base model offline/m in the domain `shop`, only of offline/other; ");
    write(folder.path(), vec![row("shop", "offline/m", 12)]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"passed\": 12", "\"passed\": 20")).unwrap();
    fails("it was changed after `loopgate eval` wrote it");
    fs::write(&path, " ".repeat(2 << 20)).unwrap();
    fails("it has more than 1048576 bytes");
}

#[test]
fn another_model_by_hand_and_a_thin_file_are_told() {
    let folder = folder("calibration = \"calibration.json\"\nallow_raise = true");
    write(folder.path(), vec![row("shop", "offline/m", 12)]);
    let models = vec![(Tier::Base, "offline/x".to_owned())];
    let domain = load(folder.path(), &LoadOptions { models, ..LoadOptions::default() }).unwrap();
    assert_eq!(
        domain.uncalibrated(),
        ["gate.calibration has no runs of offline/x: its confidence counts as it is stated"]
    );
    assert!(domain.warnings().contains(&domain.uncalibrated()[0]));
    assert_eq!(measured(&domain).map(|found| found.models.len()), Some(0));
    assert!(domain.spec.gate.allow_raise);
    let high = CountedLevel { passed: 1, runs: 3 };
    write(folder.path(), vec![CalibrationRow { high, ..row("shop", "offline/m", 0) }]);
    let domain = load(folder.path(), &LoadOptions::default()).unwrap();
    assert_eq!(
        domain.uncalibrated(),
        [
            "gate.calibration has fewer than 16 runs of offline/m for high (3 runs): that counts as it is stated"
        ]
    );
}

#[test]
fn raising_without_a_file_and_other_protocols_are_refused() {
    let alone = folder("allow_raise = true");
    let error = load(alone.path(), &LoadOptions::default()).err().unwrap();
    assert!(error.contains("loopgate.toml:8:"), "{error}");
    assert!(
        error.ends_with(
            ": nothing can be raised without `calibration`; name its file as well, or take this out"
        ),
        "{error}"
    );
    let chat = tempfile::tempdir().unwrap();
    let text =
        "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n[gate]\ncalibration = \"x\"\n";
    fs::write(chat.path().join("loopgate.toml"), text).unwrap();
    let error = load(chat.path(), &LoadOptions::default()).err().unwrap();
    assert!(error.contains("`gate.calibration` is not for the protocol `conversation`"), "{error}");
}

#[test]
fn a_policy_file_lays_a_calibration_over_a_run() {
    // For `backtest`: what the runs would have ended as.
    let folder = folder("");
    let spec = (*load(folder.path(), &LoadOptions::default()).unwrap().spec).clone();
    write(folder.path(), vec![row("shop", "offline/m", 12)]);
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[gate]\ncalibration = \"calibration.json\"\nallow_raise = true\n").unwrap();
    let changed = PolicyFile::read(&path, &[]).unwrap().applied(&spec).unwrap();
    let found = changed.gate.calibration.as_deref().unwrap();
    assert_eq!((found.models.len(), changed.gate.allow_raise), (1, true));
    let none = [("gate.calibration".to_owned(), "none".to_owned())];
    let back = PolicyFile::of_settings("none", &none).unwrap().applied(&changed).unwrap();
    assert_eq!(back, spec);
    fs::write(folder.path().join(FILE), "").unwrap();
    let error = PolicyFile::read(&path, &[]).unwrap().applied(&spec).unwrap_err().to_string();
    assert!(error.contains("policy.toml:2:") && error.contains("it is not a calibration"), "{error}");
}
