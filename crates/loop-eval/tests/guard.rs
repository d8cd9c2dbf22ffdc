//! Scores of guards: the published rules on sequences by hand, the sums on a file by hand, and what a reader refuses.

use std::path::PathBuf;

use loop_eval::guard::{GuardScores, Policy, RunScore, Split, Table, ToolEffects, Trajectories, Trajectory};
use serde_json::{Value, json};

/// A file that is there as long as this is.
struct Written {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn written(text: &str) -> Written {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.jsonl");
    std::fs::write(&path, text).unwrap();
    Written { _dir: dir, path }
}

fn runs(text: &str) -> Vec<Trajectory> {
    let file = written(text);
    Trajectories::open(&file.path).unwrap().map(Result::unwrap).collect()
}

/// Words as steps: `a=1` calls `a` and is told `1`, `b!x` calls `b` and fails with `x`, `|` is a new turn. What begins
/// with `w` writes.
fn steps(text: &str) -> Value {
    let mut turn = 0;
    let mut steps = Vec::new();
    for word in text.split_whitespace() {
        if word == "|" {
            turn += 1;
            continue;
        }
        let (at, is_error) = match (word.find('='), word.find('!')) {
            (Some(at), _) => (at, false),
            (None, at) => (at.unwrap(), true),
        };
        let tool = if word.starts_with('w') { "write_it" } else { "read_it" };
        let arguments = json!({ "what": word[..at] });
        steps.push(json!({
            "turn": turn, "tool": tool, "arguments": arguments, "result": word[at + 1..], "is_error": is_error,
        }));
    }
    json!(steps)
}

fn run(text: &str) -> Trajectory {
    runs(&json!({ "id": "r", "success": true, "steps": steps(text) }).to_string()).remove(0)
}

#[track_caller]
fn check(policy: &str, text: &str, refused: &[usize]) {
    let score = RunScore::of(policy.parse().unwrap(), &run(text), &ToolEffects::default());
    let steps: Vec<usize> = score.refused.iter().map(|refusal| refusal.step).collect();
    assert_eq!(steps, refused, "{policy}: {text}");
}

#[test]
fn five_times_the_same_one_to_five_calls_end_the_run() {
    check("cycles5", "a=1 a=1 a=1 a=1", &[]);
    // Results do not matter; nothing is counted after the end.
    check("cycles5", "a=1 a=2 a=3 a=4 a=5 a=6 a=7", &[4]);
    check("cycles5", "x=1 a=1 a=1 a=1 b=1 a=1 a=1", &[]);
    check("cycles5", "a=1 b=1 a=1 b=1 a=1 b=1 a=1 b=1 a=1", &[]);
    check("cycles5", "a=1 b=1 a=1 b=1 a=1 b=1 a=1 b=1 a=1 b=1", &[9]);
    let five = "a=1 b=1 c=1 d=1 e=1 ".repeat(5);
    check("cycles5", &five, &[24]);
    check("cycles5", &five[..five.len() - 4], &[]);
    check("cycles5", &"a=1 b=1 c=1 d=1 e=1 f=1 ".repeat(6), &[]);
    check("cycles5", "a=1 a=1 a=1 a=1 | a=1", &[]);
}

#[test]
fn equal_pairs_equal_failures_and_two_in_turn_end_the_run() {
    // It looks at what was run: the fifth is not made.
    check("openhands", "a=1 a=1 a=1 a=1 a=1 a=1", &[4]);
    check("openhands", "a=1 a=1 a=1 a=2 a=2 a=2", &[]);
    check("openhands", "a!x a!x a!x a!x", &[3]);
    check("openhands", "a!x a!y a!z b=1", &[3]);
    check("openhands", "a!x b!x a!x b=2", &[]);
    check("openhands", "a=1 b=2 a=1 b=2 a=1 b=2 c=3", &[6]);
    check("openhands", "a=1 b=2 a=1 b=2 a=1 b=3 c=3", &[]);
    check("openhands", "a=1 b=2 a=1 b=2 | a=1 b=2 a=1", &[]);
    check("openhands", "a=1 a=1 a=1 | a=1 a=1", &[]);
}

#[test]
fn more_than_so_many_in_a_row_are_refused_and_the_run_goes_on() {
    check("consecutive:2", "a=1 a=1 a=1 a=1 b=1 a=1 a=1 a=1", &[2, 3, 7]);
    check("consecutive", "a=1 a=1 a=1 a=1 a=1 a=1", &[5]);
    check("consecutive:2", "a=1 b=1 a=1 b=1 a=1", &[]);
    check("consecutive:2", "a=1 a=1 | a=1 a=1", &[]);
}

#[test]
fn the_third_of_three_equal_calls_ends_the_run() {
    check("last3", "a=1 a=2 a=3 a=4", &[2]);
    check("last3", "a=1 a=1 b=1 a=1 a=1", &[]);
    check("last3", "a=1 a=1 | a=1 a=1", &[]);
    check("last3", "b=1 a=1 a=1 | a=1 a=1 a=1", &[5]);
}

#[test]
fn our_policies_see_only_what_they_let_pass() {
    check("off", "a=1 a=1 a=1 a=1 a=1 a=1", &[]);
    check("never_rerun", "a=1 a=2 b=1 a=3", &[1, 3]);
    check("progress", "a=1 a=1 a=1 a=2 b=1", &[2, 3]);
    check("progress", "a=1 a=2 a=3 a=4 a=5", &[]);
    check("progress", "a=1 w1=ok a=1 w2=ok a=1 w3=ok a=1", &[]);
    // A write that failed changed nothing; a failure of no known kind is refused when it is told a third time.
    check("progress", "a=1 w1!no a=1 w2!no a=1", &[4]);
    check("progress", "a!no a!no a!no", &[2]);
    check("progress", "a!503 a!503 a!503 a!503", &[3]);
    check("progress", "a=1 a=1 | a=1 a=1", &[]);
    // A limit of three for each tool comes first.
    check("three_tier", "a=1 b=1 c=1 d=1", &[3]);
    check("three_tier", "a=1 a=2", &[1]);
}

#[test]
fn a_refused_result_is_new_where_it_differs_from_what_was_told_before() {
    let new = |policy: &str, text: &str| -> Vec<bool> {
        let score = RunScore::of(policy.parse().unwrap(), &run(text), &ToolEffects::default());
        score.refused.iter().map(|refusal| refusal.new).collect()
    };
    // The last that was told is the second `1`: both of what comes after a refusal are held against that.
    assert_eq!(new("consecutive:2", "a=1 a=1 a=1 a=2 a=2"), [false, true, true]);
    // A call of which nothing was told: whether its tool told the same before, and an action is always one.
    assert_eq!(new("three_tier", "a=1 b=2 c=3 d=3 e=4"), [false, true]);
    assert_eq!(new("three_tier", "w1=ok w2=ok w3=ok w4=ok"), [true]);
    assert_eq!(new("never_rerun", "a=1 | a=1 | a=2"), [] as [bool; 0]);
}

#[test]
fn the_whole_result_counts_and_not_its_beginning() {
    let cut = |end: &str| json!({ "tool": "read_it", "arguments": {}, "result": "same", "result_len": 9000, "result_sha256": end });
    let line = |ends: [&str; 4]| json!({ "id": "r", "steps": ends.map(cut) }).to_string();
    let refused = |line: &str| {
        let score = RunScore::of("progress".parse().unwrap(), &runs(line)[0], &ToolEffects::default());
        score.refused.len()
    };
    assert_eq!(refused(&line(["a", "b", "c", "d"])), 0);
    assert_eq!(refused(&line(["a", "a", "a", "a"])), 2);
}

#[test]
fn the_sums_are_those_of_a_file_by_hand() {
    let line = |id: &str, success: Value, more: &str, text: &str| {
        let mut run = json!({ "id": id, "success": success, "steps": steps(text) });
        if let Some(from) = more.strip_prefix("loop") {
            run["label"] = json!("loop");
            run["loop_from"] = json!(from.parse::<u64>().unwrap());
        } else if !more.is_empty() {
            run["label"] = json!(more);
        }
        run["kind"] = json!(if more.is_empty() { Value::Null } else { json!("k") });
        format!("{run}\n")
    };
    let text = [
        // last3 ends it at step 2, of a new result: 2 calls lost, 1 new.
        line("one", json!(true), "", "a=1 a=1 a=2 b=1"),
        line("two", json!(true), "", "a=1 b=1"),
        // Ends at step 3: 3 lost, and saved.
        line("three", json!(false), "", "b=1 a=1 a=1 a=1 a=1 a=1"),
        // Caught one call late: 2 lost, both saved.
        line("four", Value::Null, "loop1", "a=1 a=1 a=1 a=1"),
        // Hit before it loops.
        line("five", Value::Null, "loop5", "a=1 a=2 a=3 b=1 b=1 b=1"),
        line("six", Value::Null, "loop2", "a=1 b=1 a=1"),
        line("seven", Value::Null, "productive", "a=1 a=2 a=3"),
        line("eight", Value::Null, "productive", "a=1"),
    ];
    let mut table =
        Table::new(&["last3".parse().unwrap(), "off".parse().unwrap()], ToolEffects::default(), true);
    runs(&text.concat()).iter().for_each(|run| table.add(run));
    let table = table.finish();
    let last3 = &table.scores()[0];
    assert_eq!(
        (
            last3.successful.runs,
            last3.successful.calls,
            last3.successful.runs_hit,
            last3.successful.calls_lost
        ),
        (2, 6, 1, 2)
    );
    assert_eq!(last3.successful.new_refused, 1);
    assert_eq!((last3.failed.runs_hit, last3.failed.calls_lost, last3.failed.new_refused), (1, 3, 0));
    assert_eq!((last3.unknown.runs, last3.unknown.runs_hit), (5, 3));
    // 3 of the failed run, 2 of `four`, and of `five` the one from which it loops.
    assert_eq!(last3.calls_saved, 6);
    // Stops at calls 3, 4, 3, 3 and 3.
    assert_eq!(last3.stop, Some(3));
    let labelled = last3.labelled.clone().unwrap();
    assert_eq!((labelled.loops, labelled.caught, labelled.early, labelled.late_by), (3, 2, 1, Some(0)));
    assert_eq!((labelled.productive, labelled.false_positives), (2, 1));
    assert_eq!(labelled.kinds["k"], (5, 2));
    let off = &table.scores()[1];
    assert_eq!((off.successful.runs_hit, off.calls_saved, off.stop), (0, 0, None));

    let text = table.to_string();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        text.lines().next(),
        Some(
            "8 runs with 29 calls: 2 successful with 6 calls, 1 failed with 6 calls, 5 of unknown end with 17 calls."
        )
    );
    for row in [
        "last3 1 50.0 % 2 33.3 % 1",
        "last3 1 100.0 % 3 50.0 % 0",
        "last3 3 6",
        "last3 2 0.667 1 0 1 0.500 0",
        "off 0 0.000 0 - 0 0.000 0",
    ] {
        assert!(rows.contains(&row.split(' ').collect::<Vec<_>>()), "{row}\n{text}");
    }
    let details = table.details();
    for line in [
        "last3: one [successful]: step 2 read_it (the last three calls are the same, new); stopped at step 2; 1 calls not run",
        "last3: six [loop from step 2]: nothing refused",
        "off: six [loop from step 2]: nothing refused",
        "last3: kind k: 2 of 5 judged as labelled",
    ] {
        assert!(details.lines().any(|found| found == line), "{line}\n{details}");
    }
    assert!(!details.contains("eight") && !details.contains("two"));
    let json = table.to_json();
    assert_eq!(json["policies"][0]["successful"]["new_refused"], 1);
    assert_eq!(json["runs"][0]["refused"][0]["refusal"]["step"], 2);
}

#[track_caller]
fn refused(text: &str, what: &str) {
    let file = written(text);
    let problem = Trajectories::open(&file.path).unwrap().find_map(Result::err).unwrap();
    assert_eq!(problem.to_string(), format!("{}:{what}", file.path.display()));
    assert!(!what.contains('\n'));
}

#[test]
fn what_is_no_run_is_told_with_file_and_line() {
    let good = json!({ "id": "g", "steps": steps("a=1") });
    refused(&format!("{good}\n\n{{\"id\": \n"), "3: not JSON: EOF while parsing a value at column 6");
    refused("[1]", "1: not a run: invalid type: integer `1`, expected a string at column 2");
    refused("{\"steps\":[]}", "1: a run without `id`");
    refused("{\"id\":\"x\"}", "1: run `x` has no `steps`");
    let with = |step: Value| json!({ "id": "x", "steps": [steps("a=1")[0], step] }).to_string();
    refused(
        &with(json!({ "tool": "t", "arguments": {} })),
        "1: run `x`, step 1 (`t`): its result is missing",
    );
    refused(&with(json!({ "tool": "t", "result": null })), "1: run `x`, step 1 (`t`): its result is missing");
    refused(&with(json!({ "result": "r" })), "1: run `x`, step 1: it has no `tool`");
    refused(
        &with(json!({ "tool": "t", "result": "r", "result_len": 5000 })),
        "1: run `x`, step 1 (`t`): its result is cut, and `result_sha256` is missing",
    );
    for arguments in [json!([1]), json!(5), json!(true)] {
        refused(
            &with(json!({ "tool": "t", "arguments": arguments, "result": "r" })),
            "1: run `x`, step 1 (`t`): its arguments are neither an object nor a text",
        );
    }
    refused(
        &with(json!({ "tool": 5, "result": "r" })),
        "1: run `x`, step 1: invalid type: integer `5`, expected a string",
    );
    refused(&with(json!(7)), "1: run `x`, step 1: it is no JSON object");
    let labelled = |more: Value| {
        let mut run = good.clone();
        run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run.to_string()
    };
    refused(&labelled(json!({ "label": "loop" })), "1: run `g` is a loop without `loop_from`");
    refused(
        &labelled(json!({ "label": "loop", "loop_from": 1 })),
        "1: run `g` loops from step 1, and has 1 steps",
    );
    refused(
        &labelled(json!({ "label": "productive", "loop_from": 0 })),
        "1: run `g` has `loop_from` and is no loop",
    );
    refused(
        &labelled(json!({ "label": "stuck" })),
        "1: run `g` is labelled `stuck`: a label is `loop` or `productive`",
    );
    refused(
        &labelled(json!({ "effects": { "t": "reads" } })),
        "1: run `g`: the effect of `t` is `reads`, which is none: read, write, write_idempotent, write_keyed, \
         write_irreversible, egress or exec",
    );
    assert!(
        Trajectories::open(&PathBuf::from("no/such.jsonl"))
            .unwrap_err()
            .to_string()
            .starts_with("no/such.jsonl: ")
    );
}

#[test]
fn a_line_that_is_not_a_run_does_not_hide_those_after_it() {
    // X10
    let good = json!({ "id": "g", "steps": [] });
    let file = written(&format!("{good}\nno\n[]\n{good}\n"));
    let read: Vec<bool> = Trajectories::open(&file.path).unwrap().map(|run| run.is_ok()).collect();
    assert_eq!(read, [true, false, false, true]);
}

#[test]
fn whether_a_call_failed_may_be_null() {
    // X10: as recordings have it where nobody knew.
    let step = |is_error: Value| json!({ "tool": "t", "result": "r", "is_error": is_error });
    let line = json!({ "id": "g", "steps": [step(Value::Null), step(json!(true)), step(json!(false))] });
    let read = runs(&line.to_string());
    assert_eq!(read[0].steps.iter().map(|step| step.is_error).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_policy_goes_by_its_name() {
    for policy in Policy::DEFAULT {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!("consecutive:3".parse::<Policy>().unwrap().to_string(), "consecutive:3");
    for name in ["Progress", "", "consecutive:0", "consecutive:", "consecutive:x"] {
        let error = name.parse::<Policy>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{name}` is no policy: progress, three_tier,")), "{error}");
    }
    assert_eq!("held_out".parse(), Ok(Split::HeldOut));
    assert_eq!("test".parse::<Split>(), Err("`test` is no split: dev or held_out".to_owned()));
}

#[test]
fn effects_come_from_the_run_then_from_the_file_then_from_the_name() {
    // `frob` may write by its name, so that reading again after it is in order.
    let text = |effects: Value| {
        let step =
            |tool: &str, what: usize| json!({ "tool": tool, "arguments": { "n": what }, "result": "same" });
        let steps = [step("get", 0), step("frob", 1), step("get", 0), step("frob", 2), step("get", 0)];
        json!({ "id": "r", "effects": effects, "steps": steps }).to_string()
    };
    let refused = |line: &str, effects: &ToolEffects| {
        RunScore::of("progress".parse().unwrap(), &runs(line)[0], effects).refused.len()
    };
    let file = written("{\"frob\": \"read\"}");
    let stated = ToolEffects::read_file(&file.path).unwrap();
    assert_eq!(refused(&text(json!({})), &ToolEffects::default()), 0);
    assert_eq!(refused(&text(json!({})), &stated), 1);
    assert_eq!(refused(&text(json!({ "frob": "write" })), &stated), 0);
    // A program may have changed something before it failed, a write did not.
    let failing = |effect: &str| {
        let step = |tool: &str, n: usize, is_error: bool| json!({ "tool": tool, "arguments": { "n": n }, "result": "same", "is_error": is_error });
        let steps = [("get", 0), ("frob", 1), ("get", 0), ("frob", 2), ("get", 0)];
        let steps = steps.map(|(tool, n)| step(tool, n, tool == "frob"));
        json!({ "id": "r", "effects": { "frob": effect }, "steps": steps }).to_string()
    };
    assert_eq!(refused(&failing("write"), &ToolEffects::default()), 1);
    assert_eq!(refused(&failing("exec"), &ToolEffects::default()), 0);
    let bad = written("[]");
    let error = ToolEffects::read_file(&bad.path).unwrap_err().to_string();
    assert!(error.contains("a file of effects is one JSON object") && !error.contains('\n'), "{error}");
}

#[test]
fn many_runs_are_read_one_at_a_time() {
    let mut text = String::new();
    for n in 0..2_000 {
        let calls: String = (0..10).map(|at| format!("a{}={} ", at % 4, (n + at) % 3)).collect();
        text.push_str(
            &json!({ "id": n.to_string(), "success": n % 2 == 0, "steps": steps(&calls) }).to_string(),
        );
        text.push('\n');
    }
    let file = written(&text);
    let mut table = Table::new(&Policy::DEFAULT, ToolEffects::default(), false);
    for run in Trajectories::open(&file.path).unwrap() {
        table.add(&run.unwrap());
    }
    let table = table.finish();
    assert!(
        table.scores().iter().all(|score| score.successful.runs == 1_000 && score.failed.calls == 10_000)
    );
}

#[test]
fn a_note_a_refusal_and_a_stop_are_counted_apart() {
    let lines = [
        // A note at the second failure and at the third.
        json!({ "id": "noted", "success": false, "steps": steps("a!no b!no c!no") }),
        // A note, three refusals, a stop, one call not run, and the next turn as if nothing had been.
        json!({ "id": "stopped", "success": false, "steps": steps("a=1 a=1 a=1 a=1 a=1 a=1 | a=1 b=2") }),
        json!({ "id": "fine", "success": false, "steps": steps("a=1 b=2 c=3") }),
    ];
    let mut table = Table::new(&["progress".parse().unwrap()], ToolEffects::default(), true);
    lines.iter().flat_map(|line| runs(&line.to_string())).for_each(|run| table.add(&run));
    let table = table.finish();
    let failed = table.scores()[0].failed;
    assert_eq!((failed.runs, failed.runs_met, failed.runs_hit, failed.runs_stopped), (3, 2, 1, 1));
    assert_eq!((failed.notes, failed.refused, failed.new_refused, failed.calls_lost), (3, 3, 0, 4));
    let text = table.to_string();
    assert!(
        text.contains("progress                     2   66.7 %       3         3            0             1"),
        "{text}"
    );
    let line = "progress: stopped [failed]: step 2 read_it (the same result 2 times); step 3 read_it (the same result 2 \
        times); step 4 read_it (the same result 2 times); note at step 1 (the same result 2 times); stopped at step 4; 1 \
        calls not run";
    assert!(table.details().lines().any(|found| found == line), "{}", table.details());
    let page = loop_eval::guard::page(&table);
    assert!(page.contains("runs stopped") && page.contains("new refused"));
}

#[test]
fn a_result_that_differs_in_when_it_was_given_is_not_new() {
    let step =
        |at: u32| json!({ "tool": "read_it", "arguments": {}, "result": { "is": 1, "timestamp": at } });
    let line = json!({ "id": "r", "steps": (0..3).map(step).collect::<Vec<_>>() }).to_string();
    let score = RunScore::of("consecutive:1".parse().unwrap(), &runs(&line)[0], &ToolEffects::default());
    assert_eq!(score.refused.iter().map(|it| it.new).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn the_schema_is_that_of_the_scores() {
    let file = "../../docs/schema/guard.schema.json";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = serde_json::to_string_pretty(&schemars::schema_for!(GuardScores)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{file} is old: run this test with UPDATE_SCHEMA=1");
}

#[test]
fn the_default_refuses_nothing_in_a_productive_run_of_the_set() {
    // Issue 19, part 7: every loop is caught, no productive run is refused anything, no refused result is new.
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/loops.jsonl");
    let mut table = Table::new(&["progress".parse().unwrap()], ToolEffects::default(), true);
    Trajectories::open(&file).unwrap().for_each(|run| table.add(&run.unwrap()));
    let table = table.finish();
    let score = &table.scores()[0];
    let labelled = score.labelled.clone().unwrap();
    assert_eq!((labelled.caught, labelled.early, labelled.false_positives), (labelled.loops, 0, 0));
    assert_eq!(score.unknown.new_refused, 0, "{}", table.details());
    let repairs = labelled.kinds.iter().filter(|(kind, _)| kind.starts_with("repair_"));
    assert!(repairs.map(|(_, (runs, _))| runs).sum::<u64>() >= 200);
}
