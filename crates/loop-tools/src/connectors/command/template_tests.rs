//! K12: what a caller can write into a program's arguments, and what it cannot.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use loop_core::types::Scope;
use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string" },
            "must": { "type": "string" },
            "count": { "type": "integer", "default": 5 },
            "deep": { "type": "boolean" },
            "paths": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["must"],
    })
}

/// A schema of only those parameters that the texts use.
fn used(texts: &[&str]) -> Value {
    let mut schema = schema();
    let all: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    for name in all {
        if !texts.iter().any(|text| text.contains(&format!("{{{name}}}"))) {
            schema["properties"].as_object_mut().unwrap().shift_remove(&name);
        }
    }
    schema
}

fn read(program: &str, args: &[&str], stdin: Option<&str>) -> Result<Template, String> {
    let texts: Vec<&str> = args.iter().copied().chain(stdin).collect();
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Template::read(Path::new(program), &args, stdin, &used(&texts), None).map_err(|error| error.to_string())
}

fn fill(args: &[&str], parameters: &Value) -> Result<Vec<String>, String> {
    let scope = Scope { account: Some("A-7".into()), asset: Some("--all".into()), ..Scope::default() };
    let values = Values { parameters, scope: &scope, key: "run-1/1/action-0" };
    read("/usr/bin/git", args, None).unwrap().fill(&values).map(|filled| filled.args)
}

#[test]
fn a_value_is_one_argument_and_never_an_option() {
    // K12: the table of argument injection.
    let free = ["log", "{path}"];
    let behind = ["log", "--", "{path}"];
    let refused = [
        "-",
        "--",
        "-n",
        "-rf",
        "--all",
        "--exec=id",
        "--output=/etc/passwd",
        "--upload-pack=id",
        "-oProxyCommand=id",
        "-c core.pager=id",
        "--config-env=x",
        "-\u{2010}x",
        "-\t",
        "-\n",
        "- ",
        "--help",
        "-1",
        "-0",
        "-e",
        "--eval",
    ];
    for value in refused {
        let error = fill(&free, &json!({ "path": value })).unwrap_err();
        assert!(error.contains("begins with `-`"), "{value}: {error}");
        // Behind the `--` of the operator the program takes it for what it is.
        assert_eq!(
            fill(&behind, &json!({ "path": value })),
            Ok(vec!["log".into(), "--".into(), value.into()])
        );
        // Within an element whose beginning is the operator's, it cannot begin anything.
        let within = fill(&["--author={path}"], &json!({ "path": value }));
        assert_eq!(within, Ok(vec![format!("--author={value}")]));
    }
    let whole = [
        "a b",
        "a;id",
        "a && id",
        "$(id)",
        "`id`",
        "a|id",
        "a>b",
        "a\nid",
        "a'b",
        "a\"b",
        "*",
        "~",
        "$HOME",
        "%PATH%",
        "a\\ b",
        "",
        " -x",
        "\u{2013}x",
        "\u{ff0d}x",
        "\u{200b}-x",
        "{must}",
        "{call_key}",
        "{{",
        "!id",
        "#",
        "=",
        "@file",
        "\u{1b}[31m",
        "..",
        "/etc/passwd",
    ];
    for value in whole {
        let args = fill(&free, &json!({ "path": value }));
        assert_eq!(args, Ok(vec!["log".into(), value.into()]), "{value:?}");
    }
    assert!(refused.len() + whole.len() >= 40);
    for value in ["\0", "a\0b", "a\0", "--\0"] {
        let error = fill(&behind, &json!({ "path": value })).unwrap_err();
        assert_eq!(error, "`path` has a NUL character in it");
    }
}

#[test]
fn every_kind_of_value_has_its_own_text() {
    let cases = [
        (json!({ "must": "x" }), Ok(vec!["x", "5"])),
        (json!({ "must": "x", "count": 7 }), Ok(vec!["x", "7"])),
        (json!({ "must": "x", "count": null }), Ok(vec!["x", "5"])),
        (json!({ "must": "x", "count": -7 }), Err("`-7` begins with `-`")),
        (json!({ "must": true }), Ok(vec!["true", "5"])),
        (json!({ "must": 1.5 }), Ok(vec!["1.5", "5"])),
        (json!({ "must": {} }), Err("not a text")),
        (json!({ "must": ["x"] }), Err("not a text")),
        (json!({ "must": [] }), Err("not a text")),
        (json!({}), Err("`must` is missing")),
    ];
    for (parameters, expected) in cases {
        match (fill(&["{must}", "{count}"], &parameters), expected) {
            (Ok(args), Ok(expected)) => assert_eq!(args, expected, "{parameters}"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (got, _) => panic!("{parameters}: {got:?}"),
        }
    }
}

#[test]
fn only_an_array_alone_becomes_several_arguments() {
    let args = ["ls", "--", "{paths}"];
    let cases = [
        (json!({ "paths": ["a", "-b", "c d"] }), vec!["ls", "--", "a", "-b", "c d"]),
        (json!({ "paths": [] }), vec!["ls", "--"]),
        (json!({}), vec!["ls", "--"]),
        // A text is one element, whatever is in it.
        (json!({ "paths": "a b" }), vec!["ls", "--", "a b"]),
    ];
    for (parameters, expected) in cases {
        assert_eq!(fill(&args, &parameters).unwrap(), expected);
    }
    for bad in [json!(["a", ["b"]]), json!([{ "a": 1 }]), json!([null])] {
        assert!(fill(&args, &json!({ "paths": bad })).unwrap_err().contains("not a text"));
    }
    assert!(
        fill(&["ls", "{paths}"], &json!({ "paths": ["a", "--x"] })).unwrap_err().contains("`--x` begins")
    );
}

#[test]
fn an_absent_value_drops_its_whole_element() {
    assert_eq!(fill(&["log", "--author={path}", "{deep}"], &json!({})).unwrap(), ["log"]);
    let both = json!({ "path": "x", "deep": false });
    assert_eq!(fill(&["log", "--author={path}", "{deep}"], &both).unwrap(), ["log", "--author=x", "false"]);
}

#[test]
fn the_scope_and_the_key_are_filled_in_and_never_left_out() {
    let args =
        fill(&["--account={scope.account}", "{call_key}", "{{{must}}}"], &json!({ "must": "x" })).unwrap();
    assert_eq!(args, ["--account=A-7", "run-1/1/action-0", "{x}"]);
    // The item is written by others: its values are guarded like those of the model.
    assert!(fill(&["{scope.asset}"], &json!({})).unwrap_err().contains("`--all` begins with `-`"));
    assert_eq!(fill(&["{scope.person}"], &json!({})).unwrap_err(), "the work item has no `scope.person`");
    assert!(read("/usr/bin/git", &["{call_key}"], None).unwrap().has_key());
    assert!(!read("/usr/bin/git", &["{scope.item}"], None).unwrap().has_key());
}

#[test]
fn what_a_program_reads_may_begin_with_anything() {
    let template = read("/usr/bin/tee", &["a.txt"], Some("Dear {path},\n{must}")).unwrap();
    let fill = |parameters: Value| {
        let values = Values { parameters: &parameters, scope: &Scope::default(), key: "k" };
        template.fill(&values).unwrap().stdin
    };
    assert_eq!(fill(json!({ "path": "-x", "must": "--" })).unwrap(), "Dear -x,\n--");
    assert_eq!(fill(json!({ "must": "--" })), None);
}

#[test]
fn a_place_at_which_a_value_could_be_more_than_a_value_is_refused_at_once() {
    let cases: [(&str, &[&str], &str); 28] = [
        ("git", &["{nobody}"], "there is no parameter for `{nobody}`; use one of {scope.account}"),
        ("git", &["{}"], "there is no parameter for `{}`"),
        ("git", &["a{"], "`a{` has a brace alone; write `{{` or `}}` for a brace"),
        ("git", &["a}"], "has a brace alone"),
        ("git", &["{must"], "has a brace alone"),
        ("git", &["x{paths}"], "`x{paths}` has a list within a text"),
        ("git", &["{paths}{must}"], "has a list within a text"),
        ("git", &["-{must}"], "`-{must}` lets the caller choose an option; write the option out"),
        ("git", &["--{must}"], "lets the caller choose an option"),
        ("git", &["-n", "{path}"], "`-n` would stand there without `{path}` where that is absent or empty"),
        // The `--` would be the value of `-e`, and what follows an option.
        ("grep", &["-e", "{path}", "--", "{must}"], "`-e` would stand there without `{path}`"),
        ("git", &["-n", "{paths}"], "`-n` would stand there without `{paths}`"),
        ("python3.12", &["-c", "{must}"], "takes what follows `-c` for a script"),
        ("perl", &["-e", "print {must}"], "takes what follows `-e` for a script"),
        ("node", &["--eval", "{must}"], "takes what follows `--eval` for a script"),
        ("php", &["-r", "{must}"], "takes what follows `-r` for a script"),
        // Issue 40, H8: the same in one argument, and behind other letters.
        ("python3.12", &["-c{must}"], "takes what follows `-c` for a script"),
        ("python3", &["-Bc{must}"], "takes what follows `-Bc` for a script"),
        ("python3", &["-Bc", "{must}"], "takes what follows `-Bc` for a script"),
        ("python3", &["-cprint({must})"], "for a script"),
        ("perl", &["-lane{must}"], "takes what follows `-lane` for a script"),
        ("ruby", &["-e{must}"], "takes what follows `-e` for a script"),
        ("node", &["--eval={must}"], "takes what follows `--eval=` for a script"),
        ("node", &["-pe", "{must}"], "takes what follows `-pe` for a script"),
        ("php", &["--run={must}"], "takes what follows `--run=` for a script"),
        ("deno", &["eval", "{must}"], "takes what follows `eval` for a script"),
        ("lua", &["-e{must}"], "takes what follows `-e` for a script"),
        ("git", &["a\0"], "it has a NUL character in it"),
    ];
    for (program, args, expected) in cases {
        let error = read(program, args, None).unwrap_err();
        assert!(error.contains(expected) && !error.contains('\n'), "{args:?}: {error}");
    }
    for fine in [
        &["-n", "{count}"][..],
        &["-n", "{must}"],
        &["-l", "--", "{paths}"],
        &["-", "{path}"],
        &["-c", "x{{}}"],
    ] {
        read("git", fine, None).unwrap();
    }
    // A letter that takes the rest for its value, a script that is complete, and what comes after it.
    for (program, fine) in [
        ("python3", &["-Wc{must}"][..]),
        ("python3", &["-cprint(1)", "{must}"]),
        ("python3", &["x.py", "--code={must}"]),
        ("perl", &["-I/srv/re/{must}", "x.pl"]),
        ("node", &["x.js", "--", "-e{must}"]),
    ] {
        read(program, fine, None).unwrap();
    }
    assert!(read("tee", &[], Some("{paths}")).unwrap_err().contains("has a list in it"));
    let unused = |target| {
        let args = ["log", "{path}", "{count}", "{deep}", "{paths}"].map(str::to_owned);
        Template::read(Path::new("git"), &args, None, &schema(), target).map_err(|error| error.to_string())
    };
    let refused = "the parameter `must` is nowhere in it; write `{must}`, or take it out";
    assert_eq!(unused(None).unwrap_err(), refused);
    // S0-76: what a smart tool looks for need not reach the program.
    assert_eq!(unused(Some("path")).unwrap_err(), refused);
    unused(Some("must")).unwrap();
}
