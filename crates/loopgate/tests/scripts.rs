//! The scripted cases of the helpdesk: every way out, each with the certificate that it must end with.
//!
//! `UPDATE_SCRIPTS=1 cargo test -p loopgate --test it scripts::every_case_ends` writes what is found into the `.expect.json`
//! files; read the difference before you keep it.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use common::{Ran, Shell, root};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const SCRIPTS: &str = "examples/helpdesk/scripts";
/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A case as its file describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What it shows, in a sentence or two.
    shows: String,
    /// The ticket.
    item: String,
    /// The script of a tier, where it is not the one with the case's own name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    scripts: BTreeMap<String, String>,
    /// Settings, as `--set` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    set: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interrupt: Option<Interrupt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expected: Option<Expected>,
}

/// Ctrl-C while a pass waits for its reply.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Interrupt {
    during_pass: u32,
    times: u32,
}

/// How a case ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    reason: String,
    class: String,
    exit: i32,
    also: Vec<String>,
    /// Of the primary condition; a number of milliseconds is written as `*` here and below.
    value: String,
    threshold: Option<String>,
    change: Option<String>,
    confidence: String,
    limits: String,
    passes: u64,
    model_calls: u64,
    tool_calls: u64,
    cost_pico_usd: u64,
    /// Each call that was paid for: key, tier, tokens in and out, pico-dollars.
    calls: Vec<String>,
    /// Decisions and what was odd, in order.
    trail: Vec<String>,
    /// What was observed: number, tool, status, summary.
    evidence: Vec<String>,
    /// Each section with the pass that last changed it.
    sections: Vec<String>,
    undone: Vec<String>,
    missing: Vec<String>,
}

/// What a case printed, and what is said about it before and afterwards.
struct Played {
    plan: Value,
    found: Expected,
    outcome: Value,
    explained: String,
    shown: Ran,
    why: Value,
    why_in_words: Ran,
}

#[test]
fn every_case_ends_with_the_certificate_that_is_written_beside_it() {
    // The exit conditions of the gate, through the program:
    // S0-40 every gate decides, and any one condition stops;
    // S0-41, S0-53 confident; S0-42, S0-54 no new actions; S0-43, S0-50, S0-125 the pass limit;
    // S0-44, S0-55, S0-120 stale confidence; S0-45, S0-51 the budget, estimated, strict and after;
    // S0-46 stopped by hand, at the gate and at once; S0-56 the refinement with what new tools returned;
    // S0-48, S0-52, S0-118 the document is merged first, and what has run is not run again;
    // S0-119 the cost is the sum of every call; S0-121 escalation and its end, S0-126 bound by the budget;
    // S0-127 a selector that fails or is late; S0-128 a smart tool's model that fails;
    // S0-130 a stream that breaks off.
    let cases = cases();
    let update = std::env::var_os("UPDATE_SCRIPTS").is_some();
    let mut differences = Vec::new();
    for (name, played) in played() {
        let case = &cases[name];
        if update {
            differences.extend(shown_again(played).into_iter().map(|what| format!("{name}: {what}")));
            write(name, case, played.found.clone());
            continue;
        }
        let differs = differences_of(case.expected.as_ref(), &played.found).into_iter();
        let differs = differs.chain(shown_again(played));
        differences.extend(differs.map(|what| format!("{name}: {what}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn with_the_change_that_a_certificate_names_the_run_goes_on() {
    // C14. More time than nearly enough is used up by the same slow reply, so that timeouts cannot show it.
    let mut changed = BTreeMap::new();
    for (name, case) in cases() {
        let Some(expected) = &case.expected else { continue };
        // Where something else was true as well, one change is not enough.
        let Some(change) = expected.change.clone().filter(|_| expected.also.is_empty()) else { continue };
        let (setting, to) = change.split_once(" = ").unwrap();
        if expected.reason == "timeout" {
            continue;
        }
        let set = format!("{setting}={}", to.trim_start_matches('$'));
        let set = case.set.iter().cloned().chain([set]).collect();
        changed.insert(name, Case { set, ..case });
    }
    assert!(changed.len() >= 8, "{}", changed.len());
    for (name, found) in side_by_side(changed.keys(), |name| end_of(name, &changed[name])) {
        let before = changed[name].expected.as_ref().unwrap();
        let [here, there] =
            [&found, before].map(|end| (&end.reason, end.passes, end.model_calls, end.tool_calls));
        assert!(here != there, "{name} ends at the same place with {:?}", changed[name].set);
    }
}

/// What one setting of a continuation is under a value that is one less; nothing for one that is not a number.
fn one_less(change: &Value) -> Option<String> {
    let to: u64 = change["to"].as_str()?.parse().ok().filter(|to| *to > 0)?;
    Some(format!("{}={}", change["setting"].as_str()?, to - 1))
}

#[test]
fn why_names_the_settings_under_which_each_case_continues_and_no_more() {
    // C14, S4-65: computed by the gate under the changed settings, and shown by running the case again under them.
    let cases = cases();
    let (mut enough, mut too_little) = (BTreeMap::new(), BTreeMap::new());
    let mut ways = BTreeSet::new();
    for (name, Played { found, why, why_in_words: words, .. }) in played() {
        assert_eq!((why["status"].as_str(), words.code), (Some("ended"), 0), "{name}: {}", words.err);
        assert_eq!(why["conditions"][0]["reason"], found.reason, "{name}");
        assert!(words.out.contains(&format!("stopped: {} ({})", found.reason, found.class)), "{}", words.out);
        let continuation = &why["continuation"];
        let way = continuation["would_continue"].as_str().unwrap();
        ways.insert(way.to_owned());
        assert!(way != "unknown", "{name}: {continuation:#}");
        let Some(changes) = continuation["changes"].as_array() else { continue };
        // More time is used up by the same slow reply, so that it cannot be shown by running it again.
        if found.reason == "timeout" {
            continue;
        }
        let set = |change: &Value| {
            format!("{}={}", change["setting"].as_str().unwrap(), change["to"].as_str().unwrap())
        };
        let all: Vec<String> = changes.iter().map(set).collect();
        let with = |set: &[String]| {
            let case = &cases[name];
            Case { set: case.set.iter().chain(set).cloned().collect(), ..case.clone() }
        };
        enough.insert(name.clone(), with(&all));
        for (at, change) in changes.iter().enumerate() {
            let Some(less) = one_less(change) else { continue };
            let mut set = all.clone();
            set[at] = less;
            too_little.insert(format!("{name} {at}"), (name.clone(), with(&set)));
        }
    }
    assert_eq!(ways, BTreeSet::from(["no_setting", "with"].map(str::to_owned)));
    assert!(enough.len() >= 12 && too_little.len() >= 6, "{} {}", enough.len(), too_little.len());
    let end = |found: &Expected| (found.reason.clone(), found.passes, found.model_calls, found.tool_calls);
    for (name, found) in side_by_side(enough.keys(), |name| end_of(name, &enough[name])) {
        assert!(
            end(&found) != end(&played()[name].found),
            "{name} ends at the same place with {:?}",
            enough[name].set
        );
    }
    let again = side_by_side(too_little.keys(), |key| end_of(&too_little[key].0, &too_little[key].1));
    for (key, found) in again {
        let (name, case) = &too_little[key];
        // It may be enough for a final pass, which ends the run for the same reason.
        assert_eq!(found.reason, played()[name].found.reason, "{name} continues with {:?} already", case.set);
    }
}

#[test]
fn no_case_passes_what_plan_prints_for_it() {
    // S4-62: the worst case of each case, before it is run.
    for (name, Played { plan, outcome, .. }) in played() {
        let (most, totals) = (&plan["at_most"], &outcome["totals"]);
        for what in ["passes", "model_calls", "tool_calls", "tokens", "cost_pico_usd", "wall_ms"] {
            let [used, most] =
                [totals, most].map(|of| of[what].as_u64().unwrap_or_else(|| panic!("{name} {what}")));
            assert!(used <= most, "{name} uses {used} {what}, and the plan says {most}");
        }
    }
}

#[test]
fn the_line_that_the_table_gives_to_copy_runs() {
    let table = fs::read_to_string(folder().join("README.md")).unwrap();
    let line = table.lines().find_map(|line| line.strip_prefix("cargo run -q -p loopgate -- ")).unwrap();
    let args: Vec<&str> = line.split(' ').collect();
    let ran = Shell::new().run(&args);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("stopped: max_passes (partial)"), "{}", ran.err);
}

#[test]
fn every_script_belongs_to_a_case_and_every_case_stands_in_the_table() {
    let cases = cases();
    let used: BTreeSet<String> = cases.iter().flat_map(|(name, case)| scripts_of(name, case)).collect();
    let mut there = BTreeSet::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".json") && !name.ends_with(".expect.json") {
            there.insert(name);
        }
    }
    assert_eq!(there, used, "scripts that are there, and scripts that a case names");
    let table = fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, table) = table.split_once("## The cases").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    for (name, case) in &cases {
        let row = format!("| `{name}` | {} |", case.shows);
        assert!(rows.iter().any(|line| line.starts_with(&row)), "README.md has no row `{row}`");
    }
    assert_eq!(rows.len(), cases.len(), "README.md has a row too many");
}

#[test]
fn every_line_that_the_guide_to_stops_quotes_is_printed_by_its_case() {
    let guide = fs::read_to_string(root().join("docs/reference/stop-reasons.md")).unwrap();
    let mut quotes = Vec::new();
    let mut case = None;
    for line in guide.lines() {
        if let Some(rest) = line.strip_prefix("<!-- case: ") {
            case = rest.strip_suffix(" -->").map(str::to_owned);
        } else if line.starts_with("stopped: ") {
            quotes.push((case.clone().expect("a quotation stands below its case"), line.to_owned()));
        }
    }
    let cases = cases();
    let mut reasons = BTreeSet::new();
    let mut wrong = Vec::new();
    for (case, line) in &quotes {
        let Played { found, explained, .. } = &played()[case];
        if timeless(line) != *explained {
            wrong.push(format!("{case}:\n  quoted:  {line}\n  printed: {explained}"));
        }
        reasons.insert(found.reason.clone());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let heading = |reason: &String| guide.lines().any(|line| line.starts_with(&format!("## `{reason}`")));
    let all: BTreeSet<String> = cases
        .values()
        .filter_map(|case| case.expected.as_ref())
        .map(|expected| expected.reason.clone())
        .collect();
    assert_eq!(reasons, all, "reasons that are quoted, and reasons that a case ends with");
    assert!(all.iter().all(heading), "each of {all:?} has a heading");
}

fn folder() -> PathBuf {
    root().join(SCRIPTS)
}

/// The cases by name.
fn cases() -> BTreeMap<String, Case> {
    let mut cases = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".expect.json")) else {
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        let case = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        cases.insert(name.to_owned(), case);
    }
    assert!(!cases.is_empty());
    cases
}

fn write(name: &str, case: &Case, found: Expected) {
    let case = Case { expected: Some(found), ..case.clone() };
    let text = serde_json::to_string_pretty(&case).unwrap() + "\n";
    fs::write(folder().join(format!("{name}.expect.json")), text).unwrap();
}

/// The script of a tier of a case.
fn script_of(name: &str, case: &Case, tier: &str) -> String {
    case.scripts.get(tier).cloned().unwrap_or_else(|| format!("{name}.json"))
}

/// All scripts that a case names, also in its settings.
fn scripts_of(name: &str, case: &Case) -> Vec<String> {
    let mut scripts = vec![script_of(name, case, "selector"), script_of(name, case, "base")];
    scripts
        .extend(case.set.iter().filter_map(|set| Some(set.split_once(&format!("{SCRIPTS}/"))?.1.to_owned())));
    scripts
}

/// Some cases at a time; what they gave stands in the order of their names.
fn side_by_side<'a, T: Send>(
    names: impl Iterator<Item = &'a String>,
    play: impl Fn(&str) -> T + Sync,
) -> Vec<(&'a String, T)> {
    let names: Vec<&String> = names.collect();
    let (next, played) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = play(name);
                    played.lock().unwrap().push((*name, result));
                }
            });
        }
    });
    let mut played = played.into_inner().unwrap();
    played.sort_by_key(|(name, _)| *name);
    played
}

/// Every case, each played once with a journal of its own.
fn played() -> &'static BTreeMap<String, Played> {
    static PLAYED: OnceLock<BTreeMap<String, Played>> = OnceLock::new();
    PLAYED.get_or_init(|| {
        let cases = cases();
        let all = side_by_side(cases.keys(), |name| play(name, &cases[name]));
        all.into_iter().map(|(name, played)| (name.clone(), played)).collect()
    })
}

/// The domain, the item and the settings of a case, as `run` and `plan` take them.
fn args_of(name: &str, case: &Case) -> Vec<String> {
    let item = format!("examples/helpdesk/tickets/{}.json", case.item);
    let mut args =
        ["examples/helpdesk", &item, "--profile", "scripted", "--json"].map(str::to_owned).to_vec();
    let tiers = ["selector", "base"]
        .map(|tier| format!("models.{tier}.script={SCRIPTS}/{}", script_of(name, case, tier)));
    for set in tiers.iter().chain(&case.set) {
        args.extend(["--set".to_owned(), set.clone()]);
    }
    args
}

fn play(name: &str, case: &Case) -> Played {
    let shell = Shell::new();
    let args = args_of(name, case);
    let args: Vec<&str> = std::iter::once("plan").chain(args.iter().map(String::as_str)).collect();
    let plan = shell.json(&args);
    let (ran, outcome) = run_in(&shell, name, case);
    let shown = shell.run(&["show", "last"]);
    let events = shell.run(&["show", "last", "--events"]);
    let found = Expected { exit: ran.code, ..read(&outcome, &ran.err, &events.out) };
    let explained = ran.err.lines().find(|line| line.starts_with("stopped: ")).unwrap_or_default();
    let why = shell.json(&["why", "last", "--json"]);
    let explained = timeless(explained);
    Played { plan, found, outcome, explained, shown, why, why_in_words: shell.run(&["why", "last"]) }
}

/// How a case ends, without what its journal says.
fn end_of(name: &str, case: &Case) -> Expected {
    let (ran, outcome) = run_in(&Shell::new(), name, case);
    read(&outcome, &ran.err, "")
}

fn run_in(shell: &Shell, name: &str, case: &Case) -> (Ran, Value) {
    let args = args_of(name, case);
    let args: Vec<&str> =
        ["run", "-v", "--progress", "always"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let ran = bounded(name, shell.command(&args), case.interrupt);
    let outcome = serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{name}: {error}: {}\n{}", ran.out, ran.err));
    (ran, outcome)
}

/// Runs to the end, presses Ctrl-C where the case says so, and gives up on what hangs.
fn bounded(name: &str, mut command: Command, interrupt: Option<Interrupt>) -> Ran {
    let mut child = command.spawn().unwrap();
    let (mut out, err) = (child.stdout.take().unwrap(), BufReader::new(child.stderr.take().unwrap()));
    let pid = child.id();
    std::thread::scope(|scope| {
        let out = scope.spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).map(|_| text)
        });
        let err = scope.spawn(move || watch(err, pid, interrupt));
        let code = wait(name, &mut child);
        Ran { code, out: out.join().unwrap().unwrap(), err: err.join().unwrap() }
    })
}

fn wait(name: &str, child: &mut Child) -> i32 {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{name} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads standard error, and interrupts the program when its lines say that the time has come.
fn watch(err: impl BufRead, pid: u32, interrupt: Option<Interrupt>) -> String {
    let mut text = String::new();
    let mut pressed = 0;
    for line in err.lines() {
        let line = line.unwrap();
        if let Some(Interrupt { during_pass, times }) = interrupt {
            let sign = match pressed {
                0 => format!("pass {during_pass} with"),
                _ => "press Ctrl-C again".to_owned(),
            };
            if pressed < times && line.contains(&sign) {
                pressed += 1;
                assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
            }
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// What a run ended with, from its outcome, its own words, and its journal.
fn read(outcome: &Value, err: &str, events: &str) -> Expected {
    let primary = &outcome["stop"]["conditions"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> { value.as_array().unwrap().iter().map(text).collect() };
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let (mut calls, mut trail) = (Vec::new(), Vec::new());
    for line in events.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        note(&line["note"], &mut calls, &mut trail);
    }
    let undone = [
        "denied",
        "needs_person",
        "over_limit",
        "breaker_open",
        "one_at_a_time",
        "ended",
        "unknown_tool",
        "invalid_arguments",
    ];
    let undone = outcome["actions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|action| undone.iter().any(|verdict| action["verdict"] == *verdict));
    let limits = err.lines().find_map(|line| line.strip_prefix("limits:")).unwrap_or_default();
    Expected {
        reason: text(&outcome["stop"]["reason"]),
        class: text(&outcome["stop"]["class"]),
        exit: -1,
        also: texts(&outcome["stop"]["also"]),
        value: timeless(&text(&primary["value"])),
        threshold: primary["threshold"].as_str().map(str::to_owned),
        change: primary["change"].as_str().map(timeless),
        confidence: text(&outcome["confidence"]),
        limits: limits.split(';').next().unwrap_or_default().trim().to_owned(),
        passes: number(&outcome["totals"]["passes"]),
        model_calls: number(&outcome["totals"]["model_calls"]),
        tool_calls: number(&outcome["totals"]["tool_calls"]),
        cost_pico_usd: number(&outcome["totals"]["cost_pico_usd"]),
        calls,
        trail,
        evidence: outcome["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .map(|evidence| {
                let [id, tool, status, summary] =
                    ["id", "tool", "status", "summary"].map(|key| text(&evidence[key]));
                format!("{id} {tool}: {status}, {summary}")
            })
            .collect(),
        sections: outcome["document"]["sections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|section| format!("{} of pass {}", text(&section["type"]), section["pass"]))
            .collect(),
        undone: undone
            .map(|action| {
                let why = text(&action["verdict_reason"]);
                format!("{} {}: {why}", text(&action["tool"]), action["parameters"])
            })
            .collect(),
        missing: texts(&outcome["missing"]),
    }
}

/// What a note adds to the calls that were paid for, and to the trail.
fn note(note: &Value, calls: &mut Vec<String>, trail: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&note["type"]);
    match kind.as_str() {
        "call_charged" => {
            let usage = &note["usage"];
            let sum = |keys: &[&str]| keys.iter().filter_map(|key| usage[key].as_u64()).sum::<u64>();
            let input = sum(&["input", "cache_read", "cache_write_short", "cache_write_long"]);
            let output = sum(&["output", "reasoning"]);
            let (key, tier, cost) = (text(&note["key"]), text(&note["tier"]), &note["cost"]);
            calls.push(format!("{key} {tier}: {input} in, {output} out, {cost}"));
        }
        "selected" if note["by"]["by"] == "selector" => {
            trail.push(format!("selected: {} to run", note["runs"]))
        }
        "selected" => {
            let why = timeless(&text(&note["by"]["why"]));
            trail.push(format!("selected by default: {} to run, {why}", note["runs"]));
        }
        "gate_decided" => {
            let decision = &note["decision"];
            let what = match text(&decision["decision"]).as_str() {
                "act" => format!("act, {} to run", decision["runs"]),
                "revise" => format!("repair {}", decision["missing"]),
                other => format!("{other}, {}", text(&decision["primary"]["reason"])),
            };
            trail.push(format!("gate {}: {}, {what}", note["pass"], text(&note["confidence"])));
        }
        "call_refused" => trail.push(format!("{} refused: {}", text(&note["key"]), text(&note["refusal"]))),
        "call_retried" => trail.push(format!("{} again, try {}", text(&note["key"]), note["attempt"])),
        "tier_changed" => trail.push(format!("from {} to {}", text(&note["from"]), text(&note["to"]))),
        "merged" => {
            let bad = note["merge"]["bad_citations"].as_array().unwrap().iter();
            trail.extend(bad.map(|bad| format!("bad citation: {bad}")));
        }
        "evidence_shortened" => trail.push(format!("shortened: E{}", note["evidence"])),
        "reply_read" => {
            let odd = note["parse_warnings"].as_array().unwrap().iter();
            trail.extend(odd.map(|odd| format!("odd: {}, {}", text(&odd["odd"]), text(&odd["why"]))));
        }
        _ => {}
    }
}

/// A line with `*` for each number of milliseconds.
fn timeless(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let word = |at: usize| {
        let word = words[at];
        let (number, stop) = word.strip_suffix('.').map_or((word, ""), |number| (number, "."));
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_counted = words.get(at + 1).is_some_and(|next| next.starts_with("ms"));
        let is_set = at > 1 && words[at - 1] == "=" && words[at - 2].ends_with("_ms");
        if is_number && (is_counted || is_set) { format!("*{stop}") } else { word.to_owned() }
    };
    (0..words.len()).map(word).collect::<Vec<_>>().join(" ")
}

fn differences_of(expected: Option<&Expected>, found: &Expected) -> Vec<String> {
    let Some(expected) = expected else {
        return vec![
            "nothing is expected yet; write it down, or run with UPDATE_SCRIPTS=1 and read it".into(),
        ];
    };
    let (expected, found) = (serde_json::to_value(expected).unwrap(), serde_json::to_value(found).unwrap());
    let found = found.as_object().unwrap().iter();
    found
        .filter(|(key, value)| expected[key.as_str()] != **value)
        .map(|(key, value)| format!("{key}\n  expected: {}\n  found:    {value}", expected[key.as_str()]))
        .collect()
}

/// What `loopgate show` leaves out or tells otherwise, and what does not add up.
fn shown_again(played: &Played) -> Vec<String> {
    let Played { found, outcome, explained, shown, .. } = played;
    let mut wrong = Vec::new();
    let stated: Vec<String> = shown.out.lines().chain(shown.err.lines()).map(timeless).collect();
    let stated = stated.join("\n");
    let stop = &outcome["stop"];
    for condition in stop["conditions"].as_array().unwrap() {
        let (reason, value) = (condition["reason"].as_str().unwrap(), condition["value"].as_str().unwrap());
        let mut parts = vec![format!("- {reason}: {}", timeless(value))];
        parts.extend(
            // How much more a reply that was cut would have written is not known.
            condition["change"]
                .as_str()
                .filter(|_| reason != "output_limit")
                .map(|change| format!("would have continued with {}", timeless(change))),
        );
        wrong.extend(parts.into_iter().filter(|part| !stated.contains(part)));
    }
    let explanation = timeless(stop["explanation"].as_str().unwrap());
    wrong.extend([explained.clone(), explanation].into_iter().filter(|part| !stated.contains(part.as_str())));
    let mut wrong: Vec<String> =
        wrong.into_iter().map(|part| format!("show does not print: {part}")).collect();
    let exit = match found.class.as_str() {
        "answered" => 0,
        "partial" => 3,
        "refused" => 4,
        "needs_human" => 5,
        "failed" => 6,
        "cancelled" => 130,
        _ => -1,
    };
    if (found.exit, shown.code) != (exit, 0) {
        wrong.push(format!("exit code {} of class {}, and {} of show", found.exit, found.class, shown.code));
    }
    let costs = found.calls.iter().map(|call| call.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    if costs.sum::<u64>() != found.cost_pico_usd {
        wrong.push("the calls do not add up to the cost".to_owned());
    }
    wrong
}
