//! Productive runs of the set, kind by kind.

use serde_json::json;

use super::draft::{Draft, FAILURES, FILES, PASSING, Rng, SUBJECTS, WORLDS, aside};
use super::loops::Maker;

pub(crate) const KINDS: &[(&str, Maker)] = &[
    ("batch_edit", batch_edit),
    ("batch_read", batch_read),
    ("similar_names", similar_names),
    ("paging", paging),
    ("polling", polling),
    ("waiting", waiting),
    ("reread", reread),
    ("reread_same", reread_same),
    ("retry", retry),
    ("test_edit_test", test_edit_test),
    ("rebuild", rebuild),
    ("refine", refine),
    ("new_turn", new_turn),
    ("list_after_delete", list_after_delete),
    ("times_matter", times_matter),
    ("double_check", double_check),
    ("navigate", navigate),
    ("notes", notes),
    ("undo", undo),
    ("fix_arguments", fix_arguments),
    ("repair", repair),
    ("flapping", flapping),
    ("session", session),
];

/// Those that others are put together from: no two of them make the same call.
pub(crate) const PLAIN: &[(&str, Maker)] = &[
    ("batch_edit", batch_edit),
    ("similar_names", similar_names),
    ("polling", polling),
    ("waiting", waiting),
    ("test_edit_test", test_edit_test),
    ("navigate", navigate),
    ("notes", notes),
    ("fix_arguments", fix_arguments),
];

fn batch_edit(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let (first, value, times) = (rng.number(1, 50), *rng.select(&world.values), rng.number(4, 12));
    for n in 0..times {
        let arguments = json!({ world.id: world.thing(first + n), world.field: value });
        draft.write(world.update, arguments, json!({ "ok": true }));
    }
}

fn batch_read(rng: &mut Rng, draft: &mut Draft) {
    let (first, times) = (rng.number(1, 90), rng.number(5, 12));
    let world = rng.select(WORLDS);
    for n in 0..times {
        draft.read(world.get, world.name(first + n), json!({ world.field: world.values[0] }));
    }
}

fn similar_names(rng: &mut Rng, draft: &mut Draft) {
    if rng.chance() {
        let names = ["Anna Berg", "Anne Berg", "Anna Bergh", "Hanna Berg", "Anna Borg", "Ann Berg"];
        let times = rng.times(4, 6);
        for name in rng.some(&names, times) {
            draft.read("lookup_person", json!({ "name": name }), json!({ "found": false }));
        }
    } else {
        let (first, times) = (rng.number(1000, 9000), rng.number(4, 9));
        for n in 0..times {
            let query = format!("invoice {}", first + n);
            draft.read("search_ledger", json!({ "query": query }), json!({ "state": "unpaid" }));
        }
    }
}

fn paging(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let pages = rng.number(3, 8);
    if rng.chance() {
        for page in 1..=pages {
            let items: Vec<String> = (0..3).map(|n| world.thing(page * 3 + n)).collect();
            draft.read(world.list, json!({ "page": page, "per_page": 3 }), json!(items));
        }
        draft.read(world.list, json!({ "page": pages + 1, "per_page": 3 }), json!([]));
    } else {
        let mut cursor = json!(null);
        for page in 1..=pages {
            let next = format!("cur{:x}", page * 7919);
            let reported = json!({ "items": [world.thing(page)], "next": next });
            draft.read(world.list, json!({ "cursor": cursor }), reported);
            cursor = json!(next);
        }
        draft.read(world.list, json!({ "cursor": cursor }), json!({ "items": [], "next": null }));
    }
}

fn polling(rng: &mut Rng, draft: &mut Draft) {
    let (job, times) = (rng.number(100, 999), rng.number(4, 9));
    for n in 0..=times {
        let reported = json!({ "job": job, "percent": n * 100 / times, "log": format!("step {n}") });
        draft.read("get_job", json!({ "job": job }), reported);
    }
}

fn waiting(rng: &mut Rng, draft: &mut Draft) {
    let (id, times) = (rng.number(100, 999), rng.times(3, 9));
    let word = *rng.select(&["pending", "queued", "running", "processing", "in_progress"]);
    let key = *rng.select(&["status", "state"]);
    draft.write("start_export", json!({ "report": id }), json!({ "export": format!("x{id}") }));
    for _ in 0..times {
        draft.read("export_status", json!({ "export": format!("x{id}") }), json!({ key: word }));
    }
    let reported = json!({ key: "done", "url": format!("/exports/x{id}.csv") });
    draft.read("export_status", json!({ "export": format!("x{id}") }), reported);
}

fn reread(rng: &mut Rng, draft: &mut Draft) {
    let (file, times) = (rng.select(FILES), rng.number(3, 7));
    let mut lines = vec!["# settings".to_owned()];
    draft.read("read_file", json!({ "path": file }), lines.join("\n"));
    for n in 0..times {
        let line = format!("option_{n} = {}", rng.number(1, 99));
        draft.write("append_line", json!({ "path": file, "line": line }), "ok");
        lines.push(line);
        draft.read("read_file", json!({ "path": file }), lines.join("\n"));
    }
}

fn reread_same(rng: &mut Rng, draft: &mut Draft) {
    let times = rng.times(3, 7);
    for file in rng.some(FILES, times) {
        draft.write("edit_file", json!({ "path": file, "old": "unwrap()", "new": "?" }), "edited");
        draft.read("list_diagnostics", json!({ "severity": "error" }), json!([]));
    }
}

fn retry(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let first = rng.number(1, 50);
    let things = rng.number(2, 5);
    for n in 0..things {
        let failure = *rng.select(PASSING);
        let fails = rng.number(0, 2);
        if rng.chance() {
            for _ in 0..fails {
                draft.read_fails(world.get, world.name(first + n), failure);
            }
            draft.read(world.get, world.name(first + n), world.record(n, world.values[0]));
        } else {
            let arguments = json!({ world.id: world.thing(first + n), world.field: world.values[2] });
            for _ in 0..fails {
                draft.write_fails(world.update, arguments.clone(), failure);
            }
            draft.write(world.update, arguments, json!({ "ok": true }));
        }
    }
}

fn test_edit_test(rng: &mut Rng, draft: &mut Draft) {
    let times = rng.number(3, 8);
    let file = rng.select(FILES);
    let stubborn = rng.chance();
    let in_shell = rng.chance();
    for n in 0..=times {
        let failed = if stubborn { 3 } else { times - n };
        if in_shell {
            let reported = format!("{failed} failed, 12 passed");
            match failed {
                0 => draft.shell("pytest -q tests", &reported),
                _ => draft.shell_fails("pytest -q tests", &reported),
            }
        } else {
            draft.exec("run_test_suite", json!({}), json!({ "failed": failed }));
        }
        if n < times {
            let new = format!("return total + {n} * {}", rng.number(2, 9));
            draft.write("patch_file", json!({ "path": file, "line": 10 + n, "new": new }), "patched");
        }
    }
}

fn rebuild(rng: &mut Rng, draft: &mut Draft) {
    let times = rng.number(3, 7);
    let file = rng.select(FILES);
    let build = *rng.select(&["make", "cargo build --quiet", "npm run build", "docker compose build"]);
    let reported = *rng.select(&["", "Build finished", "warning: unused variable"]);
    for n in 0..times {
        draft.shell(&format!("sed -i s/level={n}/level={}/ {file}", n + 1), "");
        draft.shell(build, reported);
        draft.shell("git status --short", &format!(" M {file}"));
    }
}

fn refine(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let (times, found) = (rng.times(4, 8), rng.number(0, 2));
    let subject = rng.select(SUBJECTS);
    let more = ["2023", "error", "europe", "internal", "draft", "printable", "legacy", "mobile"];
    for (n, word) in rng.some(&more, times).into_iter().enumerate() {
        let query = match n % 3 {
            0 => format!("{} {word}", subject.join(" ")),
            1 => format!("{} {word}", subject[0]),
            _ => format!("{word} {}", subject[1..].join(" ")),
        };
        let reported = match n as u64 % 3 < found {
            true => json!([{ "title": world.thing(n as u64), "for": word }]),
            false => json!([]),
        };
        draft.read(world.search, json!({ "query": query }), reported);
    }
}

fn new_turn(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let (turns, n) = (rng.times(3, 6), rng.number(1, 90));
    let twice = rng.chance();
    for _ in 0..turns {
        draft.turn();
        draft.read(world.get, world.name(n), world.record(n, world.values[0]));
        draft.read(world.list, json!({ "limit": 5 }), json!([world.thing(n)]));
        if twice {
            draft.read(world.get, world.name(n), world.record(n, world.values[0]));
        }
    }
}

fn list_after_delete(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let (first, times) = (rng.number(1, 50), rng.number(3, 7));
    // In one run in two the list shows a part only, which stays as it is.
    let cut = rng.chance();
    for n in 0..=times {
        let left: Vec<String> = match cut {
            true => (0..2).map(|n| world.thing(first + 90 + n)).collect(),
            false => (n..times + 2).map(|n| world.thing(first + n)).collect(),
        };
        draft.read(world.list, json!({ "sort": "newest" }), json!(left));
        if n < times {
            draft.write(world.delete, world.name(first + n), json!({ "deleted": true }));
        }
    }
}

fn times_matter(rng: &mut Rng, draft: &mut Draft) {
    let (first, times) = (rng.number(0, 90), rng.number(4, 8));
    let world = rng.select(WORLDS);
    let is_reading = rng.chance();
    for n in 0..times {
        if is_reading {
            let at = 1_741_000_000 + first * 60 + n * 60;
            let reported = json!({ "reading": { "timestamp": at, "celsius": 21 } });
            draft.read("read_sensor", json!({ "sensor": "hall" }), reported);
        } else {
            let at = format!("2025-05-0{}T09:00:00Z", n + 1);
            draft.read(world.get, world.name(first), json!({ "owner": "mo", "updated_at": at }));
        }
    }
}

fn double_check(rng: &mut Rng, draft: &mut Draft) {
    let worlds = rng.some(WORLDS, 3);
    let n = rng.number(1, 90);
    for world in &worlds {
        draft.read(world.get, world.name(n), world.record(n, world.values[2]));
    }
    let times = rng.times(1, 4);
    aside(rng, draft, times);
    for world in &worlds {
        draft.read(world.get, world.name(n), world.record(n, world.values[2]));
    }
    let world = worlds[0];
    let arguments = json!({ world.id: world.thing(n), world.field: world.values[3] });
    draft.write(world.update, arguments, json!({ "ok": true }));
    draft.read(world.get, world.name(n), world.record(n, world.values[3]));
}

fn navigate(rng: &mut Rng, draft: &mut Draft) {
    let (first, times) = (rng.number(1, 90), rng.number(5, 12));
    let is_read = rng.chance();
    for n in first..first + times {
        match is_read {
            true => draft.read("scroll_down", json!({}), format!("lines {n}00-{n}99 of a long file")),
            false => draft.exec("debugger_next", json!({}), format!("stopped at line {}", n * 3)),
        }
    }
}

fn notes(rng: &mut Rng, draft: &mut Draft) {
    let times = rng.number(4, 9);
    let tool = *rng.select(&["think", "todo_add", "log_step"]);
    for n in 0..times {
        let subject = rng.select(SUBJECTS).join(" ");
        let thought =
            json!({ "text": format!("{n}. Before the {subject}, check number {}.", rng.number(10, 99)) });
        match tool {
            "think" => draft.read(tool, thought, ""),
            _ => draft.write(tool, thought, "ok"),
        }
    }
}

fn undo(rng: &mut Rng, draft: &mut Draft) {
    let world = rng.select(WORLDS);
    let n = rng.number(1, 90);
    let values = rng.some(&world.values, 2);
    for value in [values[0], values[1], values[0]] {
        let arguments = json!({ world.id: world.thing(n), world.field: value });
        draft.write(world.update, arguments, json!({ "ok": true }));
        draft.read(world.get, world.name(n), world.record(n, value));
    }
    let times = rng.times(1, 3);
    aside(rng, draft, times);
}

fn fix_arguments(rng: &mut Rng, draft: &mut Draft) {
    let (failure, times) = (*rng.select(FAILURES), rng.times(2, 5));
    let dates = ["2025-02-30", "30 February 2025", "2025-02-29", "02/30/25", "end of February", "28.2."];
    for date in rng.some(&dates, times) {
        draft.write_fails("book_room", json!({ "room": "Oak", "date": date }), failure);
    }
    draft.write("book_room", json!({ "room": "Oak", "date": "2025-02-28" }), json!({ "booked": true }));
}

/// A call that fails, or finds nothing, until what was wrong with how its arguments are written is repaired.
fn repair(rng: &mut Rng, draft: &mut Draft) {
    let file = *rng.select(FILES);
    let n = rng.number(100, 999);
    let (key, forms): (&str, [String; 4]) = match rng.number(0, 5) {
        0 => {
            ("old", [format!("x = {n}"), format!("  x = {n}"), format!("\tx = {n}"), format!("    x = {n}")])
        }
        1 => (
            "old",
            [format!("say('{n}')"), format!("say(\"{n}\")"), format!("say(`{n}`)"), format!("say({n})")],
        ),
        2 => {
            ("old", [format!("a-{n}"), format!("a\u{2013}{n}"), format!("a\u{2014}{n}"), format!("a - {n}")])
        }
        3 => ("name", [format!("user {n}"), format!("User {n}"), format!("USER {n}"), format!("User  {n}")]),
        4 => ("name", [format!("{n}"), format!("#{n}"), format!("({n})"), format!("-{n}")]),
        _ => (
            "query",
            [format!("error {n}"), format!("Error {n}"), format!("\"error {n}\""), format!("+error {n}")],
        ),
    };
    let forms = rng.some(&forms, 4);
    let is_write = key == "old";
    let failure = "the text was not found";
    for (at, form) in forms.iter().enumerate() {
        let is_last = at + 1 == forms.len();
        match (is_write, is_last) {
            (true, false) => {
                draft.write_fails("edit_file", json!({ "path": file, key: form, "new": "y" }), failure)
            }
            (true, true) => {
                draft.write("edit_file", json!({ "path": file, key: form, "new": "y" }), "edited")
            }
            (false, false) => draft.read("find_entry", json!({ key: form }), json!([])),
            (false, true) => draft.read("find_entry", json!({ key: form }), json!([n])),
        }
    }
}

/// One thing that goes up and down by itself is looked at until it stays.
fn flapping(rng: &mut Rng, draft: &mut Draft) {
    let (link, times) = (rng.number(1, 90), rng.times(4, 9));
    let states = if rng.chance() { ["up", "down"] } else { ["open", "closed"] };
    let peer = rng.chance().then(|| rng.number(1, 90));
    for n in 0..times {
        draft.read("link_state", json!({ "link": link }), json!({ "link": link, "is": states[n % 2] }));
        if let Some(peer) = peer {
            draft.read(
                "ping_peer",
                json!({ "peer": peer }),
                json!({ "answers": true, "after_state": states[n % 2] }),
            );
        }
    }
    draft.read(
        "link_state",
        json!({ "link": link }),
        json!({ "link": link, "is": "stable", "for_s": 60 + link }),
    );
}

fn session(rng: &mut Rng, draft: &mut Draft) {
    for (_, make) in rng.some(PLAIN, 3) {
        make(rng, draft);
    }
}
