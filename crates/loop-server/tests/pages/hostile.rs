//! K14: what a model, a tool, a work item or a person writes is text on every page.

use loop_core::types::Status;
use loop_core::{EventKind, WorkItem};
use loop_server::pages::{ApproveForm, ApprovePage, OneRunPage, OneRunView, approve, run};
use loop_testkit::{World, draft, found, observed};
use serde_json::json;

use super::inert;
use super::runs;

const HOSTILE: [&str; 12] = [
    "</pre></title></script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "[x](javascript:alert(1)) ![y](https://evil.example/p.png?d=1)",
    "<a href=\"javascript:alert(1)\">x</a> <iframe srcdoc=x></iframe>",
    "\u{202e}gnp.exe\u{202c} \u{200b}\u{2066}a\u{2069} \u{feff}",
    "\u{1b}[2J\u{1b}]8;;https://evil.example\u{7}link\u{0}",
    "<svg/onload=alert(1)><style>*{display:none}</style>",
    "&lt;script&gt; &#60;script&#62; &amp;",
    "| a | <b> |\n|---|---|\n| [E1] | ![](//evil.example/x) |",
    "<!-- --> <![CDATA[ ]]> <?php ?> {{7*7}} ${7*7}",
    "\u{e0041}\u{e0042} \u{fffd} \u{ad}x\u{115f}",
];

/// A run whose every text is this one.
fn of(text: &str) -> World {
    let mut item: WorkItem = loop_testkit::item();
    (item.id, item.title, item.kind, item.full) = (text.into(), text.into(), text.into(), text.into());
    let body = format!("{text}\n\n# {text}\n- {text}\n> {text} [E1]\n```\n{text}\n```\n`{text}` **{text}**");
    let reply = draft("low")
        .section("Findings", &body)
        .section(text, &body)
        .member("reason", json!(text))
        .asks("fetch_device", json!({ "target": text, text: text }))
        .asks(text, json!({ "target": text }))
        .asks("restart", json!({ "target": text }));
    let mut world = loop_testkit::run().people().item(item).start_as("run-h").started().answered(&reply);
    let result = if text.len().is_multiple_of(2) { found(text) } else { observed(Status::PermanentError) };
    world = world.finished("1/action-0", result);
    if !text.trim().is_empty() {
        world.apply(EventKind::Instruction { text: text.into() });
    }
    world
}

#[test]
fn hostile_text_is_text_on_the_pages_of_a_run() {
    for text in HOSTILE {
        let world = of(text);
        let (id, recorded) = runs::recorded(&world);
        let html = run(&OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap());
        let seen = inert(&html).seen();
        let begins: String = text.chars().take_while(|c| c.is_ascii_graphic()).collect();
        assert!(seen.contains(&begins), "{begins} is missing in {seen}");
        let form = ApproveForm {
            csrf: text.to_owned(),
            account: text.to_owned(),
            is_for_reading: false,
            notice: None,
            others: vec![(text.to_owned(), text.to_owned())],
        };
        inert(&approve(&ApprovePage::of(&world.run, "[]", world.run.now(), form)));
    }
}

#[test]
fn a_huge_document_is_cut_and_says_how_much_is_left_out() {
    let line = "A line of a very large document, with a [E1] citation.\n\n";
    let table = format!("|{}\n|{}\n", "a|".repeat(5_000), "-|".repeat(5_000));
    let body = format!("{table}\n{}", line.repeat(10 * 1024 * 1024 / line.len()));
    let reply = draft("high")
        .section("Findings", &body)
        .asks("fetch_device", json!({ "target": "x".repeat(2_000_000) }));
    let world = loop_testkit::run().start_as("run-b").started().answered(&reply);
    let (id, recorded) = runs::recorded(&world);
    let html = run(&OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap());
    assert!(html.len() < 4_000_000, "{}", html.len());
    let seen = inert(&html).seen();
    let kept = world.run.document().get("findings").unwrap().body.len();
    assert!(kept > 9_000_000, "{kept}");
    let note = "more bytes are left out here: loopgate show run-b --json has all of it";
    assert!(seen.contains(note), "{}", &seen[..2_000]);
}
