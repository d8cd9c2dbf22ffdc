//! Loops of the set, kind by kind.

use serde_json::json;

use super::draft::{Draft, FAILURES, FILES, PASSING, Rng, SUBJECTS, WORLDS, aside};
use super::productive;

pub(crate) type Maker = fn(&mut Rng, &mut Draft);

pub(crate) const KINDS: &[(&str, Maker)] = &[
    ("same", same),
    ("same_scattered", same_scattered),
    ("error", error),
    ("error_scattered", error_scattered),
    ("two", |rng, draft| circle(rng, draft, 2)),
    ("three", |rng, draft| circle(rng, draft, 3)),
    ("four", |rng, draft| circle(rng, draft, 4)),
    ("five", |rng, draft| circle(rng, draft, 5)),
    ("cycle_writes", cycle_writes),
    ("circle_shell", circle_shell),
    ("reordered", reordered),
    ("past_end_error", past_end_error),
    ("paraphrase", paraphrase),
    ("past_end", past_end),
    ("idle_write", idle_write),
    ("failed_write", failed_write),
    ("volatile", volatile),
    ("never_passes", never_passes),
    ("late", late),
    ("second_turn", second_turn),
    ("settles", settles),
];

/// Some reads before, or none.
fn start(rng: &mut Rng, draft: &mut Draft) {
    let times = rng.times(0, 4);
    aside(rng, draft, times);
}

/// Two calls that are still in order, then those that are not.
fn again(draft: &mut Draft, more: usize, mut call: impl FnMut(&mut Draft, usize)) {
    for n in 0..2 + more {
        if n == 2 {
            draft.loops();
        }
        call(draft, n);
    }
}

fn same(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let (world, more) = (rng.select(WORLDS), rng.times(1, 7));
    if rng.chance() {
        let subject = rng.select(SUBJECTS).join(" ");
        again(draft, more, |draft, _| {
            draft.read(world.search, json!({ "query": subject, "limit": 5 }), json!([]));
        });
    } else {
        let (n, value) = (rng.number(1, 90), *rng.select(&world.values));
        again(draft, more, |draft, _| draft.read(world.get, world.name(n), world.record(n, value)));
    }
}

fn same_scattered(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let (n, value, more) = (rng.number(1, 90), *rng.select(&world.values), rng.times(1, 5));
    again(draft, more, |draft, _| {
        draft.read(world.get, world.name(n), world.record(n, value));
        let times = rng.times(1, 3);
        aside(rng, draft, times);
    });
}

fn error(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let (failure, more) = (*rng.select(FAILURES), rng.times(1, 6));
    let world = rng.select(WORLDS);
    let n = rng.number(1, 90);
    again(draft, more, |draft, _| draft.read_fails(world.get, world.name(n), failure));
}

fn error_scattered(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let (failure, more) = (*rng.select(FAILURES), rng.times(1, 4));
    let world = rng.select(WORLDS);
    let (n, value) = (rng.number(1, 90), *rng.select(&world.values));
    again(draft, more, |draft, _| {
        let arguments = json!({ world.id: world.thing(n), world.field: value });
        draft.write_fails(world.update, arguments, failure);
        let times = rng.times(1, 3);
        aside(rng, draft, times);
    });
}

fn circle(rng: &mut Rng, draft: &mut Draft, length: usize) {
    start(rng, draft);
    let rounds = rng.times(3, 6);
    let worlds = rng.some(WORLDS, length);
    let n = rng.number(1, 90);
    for round in 0..rounds {
        if round == 2 {
            draft.loops();
        }
        for (at, world) in worlds.iter().enumerate() {
            match at % 3 {
                1 => draft.read(
                    world.list,
                    json!({ "limit": 10 }),
                    json!([world.thing(n), world.thing(n + 1)]),
                ),
                _ => draft.read(world.get, world.name(n), world.record(n, world.values[at % 4])),
            }
        }
    }
}

fn cycle_writes(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let rounds = rng.times(3, 5);
    let world = rng.select(WORLDS);
    let n = rng.number(1, 90);
    let values = rng.some(&world.values, 2);
    for round in 0..rounds {
        if round == 2 {
            draft.loops();
        }
        for value in &values {
            let arguments = json!({ world.id: world.thing(n), world.field: value });
            draft.write(world.update, arguments, json!({ "ok": true }));
            draft.read(world.get, world.name(n), world.record(n, value));
        }
    }
}

fn circle_shell(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let commands = [
        ("python reproduce.py", "Traceback: KeyError 'name'"),
        ("./configure --quiet", "configure: missing library z"),
        ("node check.js", "2 of 5 checks failed"),
        ("npm test", "1 failing: adds two numbers"),
        ("cargo run --quiet", "thread main panicked at src/main.rs:7"),
    ];
    let length = rng.times(1, 4);
    let chosen = rng.some(&commands, length);
    let rounds = rng.times(3, 6);
    for round in 0..rounds {
        if round == 2 {
            draft.loops();
        }
        for (command, reported) in &chosen {
            draft.shell(command, reported);
        }
    }
}

/// The same call, its members in one order and then in another: JSON in a text, as providers write it.
fn reordered(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let (line, file, more) = (rng.number(1, 90), rng.select(FILES), rng.times(1, 4));
    let forms = [
        format!("{{\"path\":\"{file}\",\"at\":{{\"line\":{line},\"column\":1}}}}"),
        format!("{{\"at\":{{\"column\":1,\"line\":{line}}},\"path\":\"{file}\"}}"),
    ];
    again(draft, more, |draft, n| {
        draft.read("blame_line", json!(forms[n % 2]), json!({ "commit": "5f2c", "author": "mo" }));
    });
}

/// Page after page of what cannot be listed.
fn past_end_error(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let (failure, more, first) = (*rng.select(FAILURES), rng.times(1, 5), rng.number(1, 40));
    again(draft, more, |draft, n| {
        draft.read_fails(world.list, json!({ "page": first + n as u64, "limit": 20 }), failure);
    });
}

fn paraphrase(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let subject = rng.select(SUBJECTS);
    let mut turned = subject.to_vec();
    turned.reverse();
    let texts = [
        subject.join(" "),
        format!("how do I find the {}?", turned.join(" ")),
        format!("{} please", subject.join(", ")),
        format!("where is our {}", turned.join(" and ")),
        format!("Show me {}", subject.join(" ")),
        turned.join(" "),
        format!("what about {} in my {}", subject[1..].join(" "), subject[0]),
    ];
    let more = rng.times(1, 5);
    let reported = match rng.chance() {
        true => json!([]),
        false => json!([{ "title": world.thing(3), "score": 41 }]),
    };
    let key = *rng.select(&["query", "q", "question"]);
    again(draft, more, |draft, n| {
        draft.read(world.search, json!({ key: texts[n], "limit": 5 }), reported.clone());
    });
}

fn past_end(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let (pages, more) = (rng.number(1, 4), rng.times(1, 5));
    let key = *rng.select(&["page", "offset", "start"]);
    let size = if key == "page" { 1 } else { 20 };
    for page in 0..pages {
        let items: Vec<String> = (0..3).map(|n| world.thing(page * 3 + n)).collect();
        draft.read(world.list, json!({ key: page * size, "limit": 20 }), json!(items));
    }
    let reported = rng.select(&["[]", "{\"items\":[]}", "No more results."]);
    again(draft, more, |draft, n| {
        draft.read(world.list, json!({ key: (pages + n as u64) * size, "limit": 20 }), *reported);
    });
}

fn idle_write(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let (file, more) = (rng.select(FILES), rng.times(1, 5));
    let reported = rng.select(&["written", "{\"ok\":true}", "0 bytes changed"]);
    again(draft, more, |draft, _| {
        draft.write("write_file", json!({ "path": file, "content": "version = 2\n" }), *reported);
    });
}

fn failed_write(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let (n, failure, more) = (rng.number(1, 90), *rng.select(FAILURES), rng.times(1, 4));
    let values = rng.some(&world.values, 2);
    again(draft, more, |draft, _| {
        draft.read(world.get, world.name(n), world.record(n, values[0]));
        let arguments = json!({ world.id: world.thing(n), world.field: values[1] });
        draft.write_fails(world.update, arguments, failure);
    });
}

fn volatile(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let (item, value, more) = (rng.number(1, 90), *rng.select(&world.values), rng.times(1, 6));
    let form = rng.number(0, 3);
    again(draft, more, |draft, n| {
        let mut reported = world.record(item, value);
        match form {
            0 => reported["timestamp"] = json!(format!("2025-03-04T10:{:02}:00Z", 11 + n)),
            1 => {
                reported["meta"] =
                    json!({ "request_id": format!("req-{}", 7001 + n * 13), "took_ms": 12 + n })
            }
            2 => {
                reported["generated_at"] = json!(1_741_082_400 + n * 9);
                reported["trace_id"] = json!(format!("{:08x}", 0x5a5a_0000 + n * 77));
            }
            _ => {
                reported["served_at"] = json!(format!("10:{:02}:31", 20 + n));
                reported["elapsed_ms"] = json!(30 + n * 3);
            }
        }
        draft.read(world.get, world.name(item), reported);
    });
}

fn never_passes(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let (n, failure, tries) = (rng.number(1, 90), *rng.select(PASSING), rng.times(4, 8));
    for attempt in 0..tries {
        if attempt == 3 {
            draft.loops();
        }
        draft.read_fails(world.get, world.name(n), failure);
    }
}

fn late(rng: &mut Rng, draft: &mut Draft) {
    let before = rng.some(productive::PLAIN, 2);
    for (_, make) in before {
        make(rng, draft);
    }
    let times = rng.times(2, 6);
    aside(rng, draft, times);
    let n = 200 + draft.fresh();
    let (one, two) = (&WORLDS[rng.times(0, 3)], &WORLDS[rng.times(4, 8)]);
    let more = rng.times(1, 4);
    let alone = rng.chance();
    again(draft, more, |draft, _| {
        draft.read(one.get, one.name(n), one.record(n, one.values[2]));
        if !alone {
            draft.read(two.get, two.name(n), two.record(n, two.values[1]));
        }
    });
}

fn second_turn(rng: &mut Rng, draft: &mut Draft) {
    let (_, make) = *rng.select(productive::PLAIN);
    make(rng, draft);
    let world = rng.select(WORLDS);
    let n = 200 + draft.fresh();
    let value = *rng.select(&world.values);
    let requested = rng.times(1, 2);
    for _ in 0..requested {
        draft.read(world.get, world.name(n), world.record(n, value));
    }
    draft.turn();
    let more = rng.times(1, 4);
    again(draft, more, |draft, _| draft.read(world.get, world.name(n), world.record(n, value)));
}

fn settles(rng: &mut Rng, draft: &mut Draft) {
    start(rng, draft);
    let world = rng.select(WORLDS);
    let n = rng.number(1, 90);
    let (before, after) = (world.record(n, world.values[0]), world.record(n, world.values[1]));
    let rounds = rng.times(4, 7);
    for round in 0..rounds {
        if round == 3 {
            draft.loops();
        }
        let moved = if round == 0 { rng.number(1, 5) } else { 0 };
        draft.write("sync_now", json!({ "what": world.noun }), json!({ "moved": moved }));
        let reported = if round == 0 { &before } else { &after };
        draft.read(world.get, world.name(n), reported.clone());
    }
}
