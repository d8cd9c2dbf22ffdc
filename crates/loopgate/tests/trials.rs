//! `loopgate eval` with several models, several times: columns, stored results, a baseline (issue 17, part 10).

use crate::common;

use common::Shell;
use serde_json::{Value, json};

fn case(name: &str) -> String {
    json!({
        "case_id": name,
        "goal": "When does the shop open?",
        "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" }, "repeats": true }] },
        "expected": { "stop_reason": "completed", "required_tools": ["read_hours"] },
    })
    .to_string()
}

fn script(replies: &Value) -> String {
    json!({ "version": 1, "replies": replies }).to_string()
}

/// A shell with two cases and two models: one looks up and answers, one answers at once.
fn shop() -> (Shell, String) {
    let shell = Shell::new();
    shell.file("shop/evals/hours.json", &case("hours"));
    shell.file("shop/evals/again.json", &case("again"));
    shell.file(
        "careful.json",
        &script(&json!([{ "calls": [{ "name": "read_hours" }] }, { "text": "At nine." }])),
    );
    shell.file("hasty.json", &script(&json!([{ "text": "At ten." }])));
    let folder = shell.state.path().join("shop").display().to_string();
    (shell, folder)
}

fn model(shell: &Shell, name: &str) -> String {
    format!("base=scripted/{}", shell.state.path().join(format!("{name}.json")).display())
}

#[test]
fn alternatives_are_rows_and_the_second_start_runs_nothing() {
    let (shell, folder) = shop();
    let (careful, hasty) = (model(&shell, "careful"), model(&shell, "hasty"));
    let args = ["eval", &folder, "--model", &careful, "--model", &hasty, "--repeat", "3", "--jobs", "4"];
    let first = shell.run(&args);
    assert_eq!(first.code, 1, "{}{}", first.out, first.err);
    assert!(first.err.contains("[12/12] ") && !first.err.contains("stored"), "{}", first.err);
    for part in [
        &*format!("{careful}     6 of 6  100.0 %  61.0 % to 100.0 %"),
        "0 of 6    0.0 %  0.0 % to 39.0 %",
        "\ncase        (1)        (2)\n",
        "\nagain    3 of 3     0 of 3\n",
        "completed 6",
        &format!("FAIL hours [{hasty}], 3 runs\n       `read_hours` did not run, and is required\n"),
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&first.out).contains(&squeezed(part)), "`{part}` is missing in {}", first.out);
    }
    // In the same order and with the same words, whichever run ended first; all of it is stored.
    let second = shell.run(&args);
    assert_eq!(second.out, first.out);
    assert_eq!(second.err.matches(" (stored)\n").count(), 12, "{}", second.err);
    let report = shell.json(&[&args[..], &["--json"]].concat());
    assert_eq!(report["configurations"][0]["passed"], json!({ "part": 6, "of": 6 }));
    assert_eq!(
        (&report["configurations"][1]["stored"], &report["cases"][11]["repeat"]),
        (&json!(6), &json!(3))
    );
    let fresh = shell.run(&[&args[..], &["--fresh"]].concat());
    assert!(!fresh.err.contains("stored"), "{}", fresh.err);
    // Only their owner reads what runs have read.
    let stored = std::process::Command::new("find")
        .arg(shell.state.path().join("cache"))
        .args(["-type", "f", "-perm", "/077"])
        .output();
    assert_eq!(String::from_utf8(stored.unwrap().stdout).unwrap(), "");
}

#[test]
fn a_regression_beyond_noise_fails_and_noise_does_not() {
    let (shell, folder) = shop();
    let baseline = shell.state.path().join("baseline.json");
    let (careful, hasty) = (model(&shell, "careful"), model(&shell, "hasty"));
    let of = |model: &str, more: &[&str]| {
        shell.run(&[&["eval", &folder, "--model", model, "--repeat", "5"], more].concat())
    };
    std::fs::write(&baseline, of(&careful, &["--json"]).out).unwrap();
    let baseline = baseline.to_str().unwrap();
    let same = of(&careful, &["--baseline", baseline]);
    assert_eq!(same.code, 0, "{}", same.out);
    assert!(
        same.out.contains(": no regression\n    10 of 10 runs passed, 10 of 10 in the baseline; 2 cases\n"),
        "{}",
        same.out
    );
    let xml = shell.state.path().join("junit.xml");
    let worse = of(&hasty, &["--baseline", baseline, "--junit", xml.to_str().unwrap()]);
    assert_eq!(worse.code, 1, "{}", worse.out);
    assert!(
        worse.out.contains(
            ": REGRESSION\n    0 of 10 runs passed, 10 of 10 in the baseline (compared with base=scripted/"
        ),
        "{}",
        worse.out
    );
    assert!(std::fs::read_to_string(xml).unwrap().contains("<failure type=\"regression\""));
    // Runs that fail as often as before are no regression: against a baseline only that counts.
    let bad = shell.file("bad.json", &of(&hasty, &["--json"]).out);
    let as_bad = of(&hasty, &["--baseline", bad.to_str().unwrap()]);
    assert_eq!(as_bad.code, 0, "{}", as_bad.out);
    // A plain report is a baseline as well.
    let plain = shell.file("plain.json", &shell.run(&["eval", &folder, "--json"]).out);
    assert_eq!(shell.run(&["eval", &folder, "--baseline", plain.to_str().unwrap()]).code, 0);
}

#[test]
fn slips_are_one_line_before_anything_runs() {
    let (shell, folder) = shop();
    let file = |name: &str, text: &str| shell.file(name, text).display().to_string();
    let (torn, foreign) =
        (file("torn.json", "{\"version\": 1, \"cases\": ["), file("foreign.json", "{\"a\": 1}"));
    let (newer, other) =
        (file("newer.json", "{\"version\": 9}"), file("other.json", "{\"version\": 1, \"cases\": []}"));
    let baseline =
        |file: &str, parts: &[&str]| shell.run(&["eval", &folder, "--baseline", file]).fails_with(parts);
    baseline("none.json", &["none.json: cannot be read", "eval --json"]);
    baseline(&torn, &["torn.json:1:25: is not whole JSON"]);
    baseline(&foreign, &["foreign.json: is not a report of `loopgate eval --json`: it has no `version`"]);
    baseline(&newer, &["newer.json: written by a newer loopgate: its format is 9"]);
    baseline(&other, &["other.json: it holds no case of this eval as the case is now"]);
    let fails =
        |args: &[&str], parts: &[&str]| shell.run(&[&["eval", &folder], args].concat()).fails_with(parts);
    fails(&["--model", "cheap=x/y"], &["--model cheap=x/y: expected PROVIDER/NAME"]);
    fails(
        &["--model", "base=offline/a", "--model", "base=offline/a"],
        &["--model base=offline/a: it is given twice"],
    );
    fails(
        &["--model", "base=nope/x"],
        &["--model: no case can be run with base=nope/x; the first one: ", "unknown provider `nope`"],
    );
    fails(&["--fresh"], &["--fresh: it is for --model, --set, --profile, --repeat and --calibration"]);
    fails(
        &["--base-url", "base=http://127.0.0.1:9/"],
        &["--base-url: it is for --model, --set, --profile, --repeat and --calibration"],
    );
    fails(&["--repeat", "2", "--cache", "Cargo.toml"], &["--cache Cargo.toml: "]);
    fails(
        &["--html", "no/such/page.html"],
        &["--html no/such/page.html: ", "name a file in a folder that is there"],
    );
    let many: Vec<String> = (0..17).map(|n| format!("--model=base=offline/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    fails(&many, &["17 combinations of models are more than 16"]);
    for wrong in [
        &["--repeat", "0"][..],
        &["--repeat", "1001"],
        &["--jobs", "0"],
        &["--repeat", "x"],
        &["--list", "--repeat", "2"],
    ] {
        assert_eq!(shell.run(&[&["eval", &folder], wrong].concat()).code, 2, "{wrong:?}");
    }
}
