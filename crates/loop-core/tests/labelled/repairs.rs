//! Productive runs in which a call fails, or finds nothing, until white space, case, quotes or dashes are right.
//!
//! The forms of one run differ in nothing else, so a rule that looks at words alone takes them for one call.

use serde_json::{Value, json};

use super::draft::{Draft, FILES, Rng, aside};
use super::loops::Maker;

/// How many runs each of these kinds has.
pub(crate) const OF_A_KIND: usize = 42;

pub(crate) const KINDS: &[(&str, Maker)] = &[
    ("repair_python", python),
    ("repair_yaml", yaml),
    ("repair_shell", shell),
    ("repair_sql", sql),
    ("repair_path", path),
];

/// What differs between the forms of a run.
#[derive(Clone, Copy)]
enum Axis {
    Space,
    Case,
    Quotes,
    Dashes,
}

const AXES: &[Axis] = &[Axis::Space, Axis::Case, Axis::Quotes, Axis::Dashes];
const NAMES: &[&str] = &["total", "rows", "owner", "rate", "label", "depth", "offset", "branch"];

/// A word in four cases.
fn cased(word: &str) -> [String; 4] {
    let (first, rest) = word.split_at(1);
    let mixed: String = word
        .char_indices()
        .map(|(at, c)| if at % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
        .collect();
    [word.to_lowercase(), word.to_uppercase(), format!("{}{rest}", first.to_uppercase()), mixed]
}

fn quoted(text: &str) -> [String; 4] {
    [["'", "'"], ["\"", "\""], ["`", "`"], ["\u{201c}", "\u{201d}"]]
        .map(|[opens, closes]| format!("{opens}{text}{closes}"))
}

fn dashed(before: &str, after: &str) -> [String; 4] {
    ["-", "\u{2013}", "\u{2014}", "\u{2212}"].map(|dash| format!("{before}{dash}{after}"))
}

fn spaced(before: &str, after: &str) -> [String; 4] {
    ["", " ", "  ", "\t"].map(|space| format!("{before}{space}{after}"))
}

/// Forms in an order of chance: all but the last fail, or find nothing.
fn repair(rng: &mut Rng, draft: &mut Draft, forms: &[String], mut call: impl FnMut(&mut Draft, &str, bool)) {
    let times = rng.times(3, 4);
    let forms = rng.some(forms, times);
    for (at, form) in forms.iter().enumerate() {
        if at > 0 && rng.chance() {
            aside(rng, draft, 1);
        }
        call(draft, form, at + 1 == times);
    }
}

fn python(rng: &mut Rng, draft: &mut Draft) {
    let (name, n, file) = (*rng.select(NAMES), rng.number(100, 999), *rng.select(FILES));
    let forms = match rng.select(AXES) {
        Axis::Space => {
            ["", "  ", "    ", "\t"].map(|indent| format!("def f():\n{indent}return {name} + {n}\n"))
        }
        Axis::Case => cased("true").map(|word| format!("{name}{n} = {word}\n")),
        Axis::Quotes => quoted(name).map(|text| format!("print({text}, {n})\n")),
        Axis::Dashes => dashed(name, &format!(" {n}")).map(|text| format!("print({text})\n")),
    };
    let edits = rng.chance();
    let failure =
        *rng.select(&["SyntaxError: invalid syntax", "the old text was not found", "IndentationError"]);
    repair(rng, draft, &forms, |draft, form, works| match (edits, works) {
        (true, true) => draft.write("edit_file", json!({ "path": file, "old": form, "new": "" }), "edited"),
        (true, false) => {
            draft.write_fails("edit_file", json!({ "path": file, "old": form, "new": "" }), failure)
        }
        (false, true) => draft.exec("run_python", json!({ "code": form }), format!("{n}\n")),
        (false, false) => draft.exec_fails("run_python", json!({ "code": form }), failure),
    });
}

fn yaml(rng: &mut Rng, draft: &mut Draft) {
    let (name, n) = (*rng.select(NAMES), rng.number(100, 999));
    let forms = match rng.select(AXES) {
        Axis::Space => spaced(&format!("{name}:"), &n.to_string()),
        Axis::Case => cased("yes").map(|word| format!("{name}{n}: {word}")),
        Axis::Quotes => quoted(&n.to_string()).map(|text| format!("{name}: {text}")),
        Axis::Dashes => dashed("", &format!(" {name}{n}")),
    };
    let file = *rng.select(&["deploy/values.yaml", "ci.yml", "config/app.yaml"]);
    let failure =
        *rng.select(&["ParserError: expected <block end>", "ScannerError: mapping values", "not a mapping"]);
    repair(rng, draft, &forms, |draft, form, works| {
        let arguments = json!({ "path": file, "text": form });
        match works {
            true => draft.write("write_config", arguments, json!({ "ok": true })),
            false => draft.write_fails("write_config", arguments, failure),
        }
    });
}

fn shell(rng: &mut Rng, draft: &mut Draft) {
    let (name, n) = (*rng.select(NAMES), rng.number(100, 999));
    let forms = match rng.select(AXES) {
        Axis::Space => spaced(&format!("test {n} -gt 5 &&"), &format!("make {name}")),
        Axis::Case => cased(name).map(|word| format!("make {word}{n}")),
        Axis::Quotes => quoted(&format!("s/{n}/{name}/")).map(|text| format!("sed -i {text} notes.txt")),
        Axis::Dashes => dashed("tool ", &format!("{name}={n}")),
    };
    let failure = *rng.select(&["exit code 2", "sh: syntax error near unexpected token", "unknown option"]);
    repair(rng, draft, &forms, |draft, form, works| match works {
        true => draft.shell(form, &format!("done {n}")),
        false => draft.shell_fails(form, failure),
    });
}

fn sql(rng: &mut Rng, draft: &mut Draft) {
    let (name, n) = (*rng.select(NAMES), rng.number(100, 999));
    let key = *rng.select(&["query", "sql"]);
    let forms = match rng.select(AXES) {
        Axis::Space => spaced(&format!("select * from {name} where id ="), &n.to_string()),
        Axis::Case => cased(name).map(|word| format!("select * from {word} where id = {n}")),
        Axis::Quotes => quoted(&format!("{name}{n}")).map(|text| format!("select * from t where k = {text}")),
        Axis::Dashes => {
            dashed(name, &n.to_string()).map(|text| format!("select * from t where code = '{text}'"))
        }
    };
    let fails = rng.chance();
    repair(rng, draft, &forms, |draft, form, works| {
        let arguments = json!({ key: form });
        match (works, fails) {
            (true, _) => draft.read("run_query", arguments, json!([{ "id": n }])),
            (false, true) => {
                draft.read_fails("run_query", arguments, "ERROR: syntax error or no such column")
            }
            (false, false) => draft.read("run_query", arguments, json!([])),
        }
    });
}

fn path(rng: &mut Rng, draft: &mut Draft) {
    let (name, n) = (*rng.select(NAMES), rng.number(100, 999));
    let forms = match rng.select(AXES) {
        Axis::Space => spaced(&format!("docs/{name}"), &format!("{n}.md")),
        Axis::Case => cased(name).map(|word| format!("docs/{word}{n}.md")),
        Axis::Quotes => quoted(&format!("docs/{name} {n}.md")),
        Axis::Dashes => dashed(&format!("docs/{name}"), &format!("{n}.md")),
    };
    let fails = rng.chance();
    repair(rng, draft, &forms, |draft, form, works| {
        let arguments = json!({ "path": form });
        match (works, fails) {
            (true, _) => draft.read("read_text", arguments, format!("# {name} {n}")),
            (false, true) => draft.read_fails("read_text", arguments, "Error: no such file or directory"),
            (false, false) => draft.read("read_text", arguments, Value::Null),
        }
    });
}
