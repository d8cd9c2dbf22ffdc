//! A page at an event shows the run as it was then (issue 18, part 6).

use loop_core::EventKind;
use loop_runtime::journal::Recorded;
use loop_runtime::spec::Prompts;
use loop_server::pages::{OneRunPage, OneRunView, PagePlace, run};

use loop_testkit::{Numbers, World, announced, random_run, random_setup};

use super::runs;
use super::{Node, inert};

fn page(id: &loop_core::types::RunId, recorded: &Recorded, at: Option<u64>) -> Node {
    let prompts = Prompts::builtin();
    let view = OneRunView { at, prompts: Some(&prompts), ..OneRunView::default() };
    inert(&run(&OneRunPage::of(id, recorded, view).unwrap()))
}

/// What is seen of a page, except for the number of the last event.
fn seen(page: &Node, last: u64) -> String {
    page.seen().replacen(&format!(" / {last} ·"), " / n ·", 1)
}

// The strongest check there is: of a run of n events, the page at event k is what a journal that ends with event k gives.
// What was learned later is nowhere on it.
#[test]
fn a_page_at_an_event_is_the_page_of_a_run_that_ended_there() {
    for (name, world) in runs::all() {
        holds_at_every_event(name, &world);
    }
}

#[test]
fn a_page_of_any_run_at_an_event_is_the_page_of_a_run_that_ended_there() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        holds_at_every_event(&format!("seed {seed}"), &random_run(setup, &mut numbers));
    }
}

#[track_caller]
fn holds_at_every_event(name: &str, world: &World) {
    let (id, recorded) = runs::recorded(world);
    let last = recorded.entries.len() as u64 - 1;
    for at in 0..=last {
        let then = Recorded { entries: recorded.entries[..=at as usize].to_vec(), ..recorded.clone() };
        let (then, now) = (page(&id, &then, None), page(&id, &recorded, Some(at)));
        let (then, now) = (seen(&then, at), seen(&now, last));
        let same = now.chars().zip(then.chars()).take_while(|(now, then)| now == then).count();
        let part = |text: &str| text.chars().skip(same.saturating_sub(80)).take(200).collect::<String>();
        assert!(now == then, "{name} at event {at} of {last}:\n now: {}\nthen: {}", part(&now), part(&then));
    }
}

#[test]
fn a_page_shows_every_part_of_a_run() {
    let (id, recorded) = runs::recorded(&runs::whole());
    let text = page(&id, &recorded, None).seen();
    let parts = [
        // the stop, its totals, tries and waits
        "confident: High confidence",
        "failed: try later",
        "waited 5 s: pause before the next try",
        "approved",
        // the document, its evidence, its history
        "The device says so [E1 ]",
        "rests only on untrusted evidence",
        // the gate, money, actions with rules, people, prompts
        "After pass 1: acts: 2 run, 1 wait for a person",
        "After pass 2: stops: confident",
        "Stated confidence: high",
        "limits.passes",
        "reserved for the final pass",
        "rule: repeats: ",
        "Asked to approve restart",
        "A person instructed: Be brief.",
        "of them shared with the request before",
        "save finished",
    ];
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
    // The first version of a section is seen at its event and not at the end.
    let old = "Nothing yet.";
    let at = recorded.entries.iter().position(|entry| entry.event.kind.name() == "model_replied").unwrap();
    assert!(page(&id, &recorded, Some(at as u64)).seen().contains(old));
    assert!(text.contains("-Nothing yet.") && text.matches(old).count() < 4, "{text}");
}

#[test]
fn prompts_are_those_that_were_sent_or_are_not_shown() {
    let (id, mut recorded) = runs::recorded(&runs::whole());
    // The world announces a digest of its own, which no template gives.
    let text = page(&id, &recorded, None).seen();
    assert!(text.contains("gives other bytes than those that were sent"), "{text}");
    let prompts = Prompts::builtin();
    recorded = sent(&id, recorded, &prompts);
    let text = page(&id, &recorded, None).seen();
    assert!(text.contains("<<<E0 ") && text.contains("The first "), "{text}");
    assert!(!text.contains("other bytes"), "{text}");
    let (other, began_otherwise) = runs::recorded(&runs::conversation());
    assert!(page(&other, &began_otherwise, None).seen().contains("not those that the run was begun with"));
    let none = OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap();
    assert!(inert(&run(&none)).seen().contains("The domain of this run is not at hand"));
}

/// The run with the digests of the prompts that these templates give.
pub(super) fn sent(id: &loop_core::types::RunId, mut recorded: Recorded, prompts: &Prompts) -> Recorded {
    use loop_core::{EventKind, Run};
    let mut dialogue = loop_prompts::Dialogue::default();
    let spec = std::sync::Arc::clone(&recorded.spec);
    let (mut state, _) = Run::open(&recorded.entries[0].event, spec).unwrap();
    assert_eq!(state.id(), id);
    for entry in recorded.entries.iter_mut().skip(1) {
        if let EventKind::CallStarted { key, .. } = &entry.event.kind {
            let prompt = dialogue.prompt(prompts, &state, *key).unwrap();
            let call = state.commands().into_iter().find_map(|command| match command {
                loop_core::Command::CallModel(call) => Some(call),
                _ => None,
            });
            entry.event.kind = announced(&state, &call.unwrap(), prompt.size, prompt.hash());
        }
        entry.notes = state.apply(&entry.event).unwrap();
    }
    recorded
}

#[test]
fn a_page_on_a_server_has_its_style_and_script_elsewhere() {
    let (id, recorded) = runs::recorded(&runs::waiting());
    let view = OneRunView { place: PagePlace::Server, at: Some(2), ..OneRunView::default() };
    let html = run(&OneRunPage::of(&id, &recorded, view).unwrap());
    inert(&html);
    assert!(
        !html.contains("<style>") && html.contains("<script src=\"/assets/page.js\" defer></script>"),
        "{html}"
    );
    assert!(html.contains("href=\"/assets/style.css\"") && html.contains("href=\"?at=1\""), "{html}");
    assert!(
        html.contains(&format!("data-run=\"{id}\" data-last=\"{}\"", recorded.entries.len() - 1)),
        "{html}"
    );
    // A page in a file names its own style and script by their digests, and permits no other.
    let html = run(&OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap());
    let policy =
        html.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(
        policy.contains("default-src &#39;none&#39;") || policy.contains("default-src 'none'"),
        "{policy}"
    );
    assert!(policy.contains("sha256-") && !policy.contains("unsafe"), "{policy}");
}

#[test]
fn a_run_that_does_not_follow_is_shown_as_far_as_it_does() {
    let (id, mut recorded) = runs::recorded(&runs::whole());
    recorded.entries.remove(4);
    let text = page(&id, &recorded, None).seen();
    assert!(text.contains("The rest of this run cannot be shown. entry "), "{text}");
    recorded.entries.clear();
    assert!(OneRunPage::of(&id, &recorded, OneRunView::default()).is_err());
}

/// The ids of the parts of a page, in their order.
fn parts(page: &Node) -> Vec<String> {
    let all = page.all_seen();
    let parts = all.into_iter().filter(|node| node.attribute("class") == Some("part"));
    parts.map(|part| part.attribute("id").unwrap().to_owned()).collect()
}

#[test]
fn the_document_is_first_and_how_it_came_to_be_follows() {
    let (id, recorded) = runs::recorded(&runs::whole());
    let page = page(&id, &recorded, None);
    let order = [
        "document", "values", "gate", "money", "actions", "timeline", "evidence", "people", "prompts",
        "events",
    ];
    assert_eq!(parts(&page), order);
    let text = page.seen();
    // One line says how the run is, and the decision that ended it is before those that led to it.
    let status = text.find("confident: High confidence").unwrap();
    let cost = text.find("· cost ").unwrap();
    assert!(status < cost && cost - status < 200, "{text}");
    let (last, first) = (text.find("After pass 2: stops").unwrap(), text.find("After pass 1: acts").unwrap());
    assert!(last < first, "{text}");
    // The calls are folded by pass, and a pass in which one failed says so.
    let all = page.all_seen();
    let passes: Vec<_> = all.iter().filter(|node| node.attribute("class") == Some("pass")).collect();
    assert_eq!(passes.len(), 2);
    assert!(passes.iter().all(|pass| pass.attribute("open").is_none()));
    assert!(passes[0].seen().contains("Pass 1 from ") && passes[0].seen().contains("a call failed"));
    assert!(!passes[1].seen().contains("a call failed"), "{}", passes[1].seen());
}

#[test]
fn a_long_document_has_a_table_of_contents_at_the_events_at_which_it_is_long() {
    let (id, recorded) = runs::recorded(&runs::chaptered());
    let contents = |at| -> Vec<(String, String)> {
        let page = page(&id, &recorded, at);
        let all = page.all_seen();
        let Some(nav) = all.iter().find(|node| node.attribute("class") == Some("toc")) else {
            return Vec::new();
        };
        let inner = nav.all_seen();
        let links =
            inner.into_iter().filter_map(|node| Some((node.seen(), node.attribute("href")?.to_owned())));
        let links: Vec<_> = links.collect();
        for (title, link) in &links {
            let place = all.iter().find(|node| node.attribute("id") == link.strip_prefix('#')).unwrap();
            assert!(place.seen().starts_with(title), "{title}: {}", place.seen());
        }
        links
    };
    let titles = ["Situation", "Findings", "Next Steps", "Cause"];
    let links = contents(None);
    assert_eq!(links.iter().map(|(title, _)| title.as_str()).collect::<Vec<_>>(), titles);
    assert_eq!(links[1].1, "#s-findings");
    // Its first pass wrote two sections of the four.
    let first = recorded.entries.iter().position(|entry| entry.event.kind.name() == "model_replied").unwrap();
    assert_eq!(contents(Some(first as u64)), []);
    // So has the answer of a conversation, whose code is not read for headings.
    let (id, recorded) = runs::recorded(&runs::explaining());
    let links = inert(&run(&OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap()));
    let all = links.all_seen();
    let nav = all.iter().find(|node| node.attribute("class") == Some("toc")).unwrap();
    assert_eq!(nav.seen(), "One Two Three Four");
}

#[test]
fn the_clock_and_the_words_of_a_reply_are_for_a_run_under_way() {
    let (id, recorded) = runs::recorded(&runs::begun());
    let began = recorded.entries[0].event.clone();
    let EventKind::Started(started) = &began.kind else { panic!() };
    let of = |id, recorded: &Recorded, now| {
        let view = OneRunView {
            place: PagePlace::Server,
            events: "/v1/runs/x/events",
            now,
            ..OneRunView::default()
        };
        run(&OneRunPage::of(id, recorded, view).unwrap())
    };
    let html = of(&id, &recorded, Some(started.unix_ms + 7_250));
    inert(&html);
    assert!(
        html.contains("data-clock=\"7250\"") && html.contains("role=\"log\" aria-live=\"polite\""),
        "{html}"
    );
    // Without a driver, or while a person is waited for, no clock runs; a run that has ended has neither.
    assert!(!of(&id, &recorded, None).contains("data-clock"));
    let (id, recorded) = runs::recorded(&runs::waiting());
    let html = of(&id, &recorded, Some(u64::MAX));
    assert!(!html.contains("data-clock") && html.contains("id=\"live\""));
    let (id, recorded) = runs::recorded(&runs::whole());
    let html = of(&id, &recorded, Some(u64::MAX));
    assert!(!html.contains("data-clock") && !html.contains("id=\"live\""));
}

#[test]
fn a_page_grows_with_its_run_and_no_faster() {
    let bytes = |passes| {
        let (id, recorded) = runs::recorded(&runs::long(passes));
        run(&OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap()).len()
    };
    let [few, more, most] = [20, 40, 60].map(bytes);
    // What is the same on each page is left out of the comparison, and numbers have a digit more.
    assert!((most - more) * 20 < (more - few) * 22, "{few} {more} {most}");
}
