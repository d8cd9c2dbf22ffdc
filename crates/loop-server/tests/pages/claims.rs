//! What was found out about the values of a document, on the page of its run.

use loop_claims::ClaimTotals;
use loop_core::Run;
use loop_runtime::journal::{Recorded, replay};
use loop_server::pages::{ApproveForm, ApprovePage, OneRunPage, OneRunView, approve, run};
use loop_testkit::{Numbers, World, draft, found, random_run, random_setup, target};

use super::{Node, inert, runs};

fn page(world: &World, at: Option<u64>) -> Node {
    let (id, recorded) = runs::recorded(world);
    inert(&run(&OneRunPage::of(&id, &recorded, OneRunView { at, ..OneRunView::default() }).unwrap()))
}

/// The values of the document with this look, each with where it leads to and what is said of it.
fn marked(page: &Node, look: &str) -> Vec<(String, String, String)> {
    let class = format!("v v-{look}");
    let is_mark = |node: &&Node| node.attribute("class") == Some(&class) && node.attribute("title").is_some();
    let own = |name: &str, node: &Node| node.attribute(name).unwrap_or_default().to_owned();
    let seen = page.all_seen();
    let marks = seen.iter().copied().filter(is_mark);
    marks.map(|node| (node.seen(), own("href", node), own("title", node))).collect()
}

/// The text of the place that a link leads to.
fn place(page: &Node, link: &str) -> String {
    let id = link.strip_prefix('#').unwrap();
    page.all_seen().into_iter().find(|node| node.attribute("id") == Some(id)).unwrap().seen()
}

#[test]
fn each_value_is_marked_and_leads_to_its_place_in_the_evidence() {
    let page = page(&runs::stating(), None);
    let found = marked(&page, "found");
    for (value, evidence) in [
        ("42.5 GB", "42.5"),
        ("web-1.example", "web-1.example"),
        // The unit is in the name of the field.
        ("1.5 hours", "5400"),
        ("25 November 2026", "2026-11-25"),
        ("ann@x.example", "ann@x.example"),
    ] {
        let found = found.iter().find(|(text, link, _)| text == value && link.contains('-'));
        let (_, link, title) = found.unwrap_or_else(|| panic!("{value} is missing in {found:?}"));
        assert_eq!(place(&page, link), evidence, "{value}");
        assert!(title == "found, E1" || title == "found, E2", "{title}");
    }
    // How many there are has no one place.
    let (_, link, _) = found.iter().find(|(text, ..)| text == "2").unwrap();
    assert_eq!(link, "#E1");
    let contradicted = marked(&page, "contradicted");
    let title = "contradicted: in no evidence";
    assert_eq!(contradicted, [(format!("$13[?] ({title})"), String::new(), title.to_owned())]);
}

#[test]
fn a_value_stands_where_it_stood_at_the_event() {
    let world = runs::stating();
    let (_, recorded) = runs::recorded(&world);
    let at = |name: &str| {
        recorded.entries.iter().position(|entry| entry.event.kind.name() == name).unwrap() as u64
    };
    let is = |at: u64, look: &str| {
        marked(&page(&world, Some(at)), look).iter().any(|(text, ..)| text.starts_with("42.5 GB"))
    };
    let (replied, returned) = (at("model_replied"), at("tool_finished"));
    assert!(is(replied, "contradicted") && !is(replied, "found"));
    assert!(!is(returned, "contradicted") && is(returned, "found"));
}

/// What the page says of its totals. `None`: there are no values.
fn totals(page: &Node) -> Option<ClaimTotals> {
    let seen = page.all_seen();
    let line = seen.into_iter().find(|node| node.attribute("class") == Some("claims"))?.seen();
    let numbers: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [found, contradicted, not_checked] = numbers[..] else { panic!("{line}") };
    Some(ClaimTotals { found, contradicted, not_checked })
}

#[track_caller]
fn counts_as_the_core(name: &str, world: &World) {
    let (id, recorded) = runs::recorded(world);
    for at in 0..recorded.entries.len() {
        let then = Recorded { entries: recorded.entries[..=at].to_vec(), ..recorded.clone() };
        let run: Run = replay(&id, &then).unwrap();
        let of_core = Some(ClaimTotals::of(&loop_claims::of_run(&run)))
            .filter(|totals| *totals != ClaimTotals::default());
        assert_eq!(totals(&page(world, Some(at as u64))), of_core, "{name} at event {at}");
    }
}

// The page looks for the values of all versions together. At each event it has to come to what the core says of the run
// that ended there, which is what the gate judges and the command prints.
#[test]
fn at_each_event_the_page_counts_as_the_core_does() {
    for (name, world) in runs::all() {
        counts_as_the_core(name, &world);
    }
    for seed in 100..130 {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        counts_as_the_core(&format!("seed {seed}"), &random_run(setup, &mut numbers));
    }
}

// K14: a value, its sentence and its evidence are text from outside.
#[test]
fn hostile_values_are_text() {
    let value = "\"><img src=x onerror=alert(1)> <script>42 GB</script>\u{202e}\"";
    let body = format!(
        "It says \"{value}\" [E1].\n\nIt has </mark> 7 GB <mark id=\"E1-1\"> and **<b> 9 GB </b>** [E1]."
    );
    let first = draft("low").section("Findings", &body).asks("fetch_device", target("L-1"));
    let world = loop_testkit::run().start_as("run-8").started().answered(&first);
    let world = world.finished("1/action-0", found(&format!("{value} 7 GB </mark></pre><script> 9 GB")));
    let page = page(&world.autopilot(&draft("high")), None);
    let marks = marked(&page, "found");
    for value in ["7 GB", "9 GB"] {
        let found = marks.iter().find(|(text, ..)| text == value);
        let (_, link, _) = found.unwrap_or_else(|| panic!("{value} is missing in {marks:?}"));
        assert_eq!(place(&page, link), value);
    }
    assert!(page.seen().contains("<script>42 GB</script>"), "{}", page.seen());
}

#[test]
fn the_page_that_decides_says_what_the_document_states_against_the_evidence() {
    let asks =
        draft("low").section("Findings", "It has 42.5 GB and costs $13 <b>.").asks("restart", target("L-1"));
    let world = loop_testkit::run().people().start_as("run-9").started().answered(&asks);
    let html = approve(&ApprovePage::of(&world.run, "[]", world.run.now(), ApproveForm::default()));
    let text = inert(&html).seen();
    assert!(text.contains("2 values of the document so far are contradicted: 42.5 GB , $13"), "{text}");
}
