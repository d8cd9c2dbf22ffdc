//! A page at an event shows the run as it was then (issue 18, part 6).

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
        "held back for the final pass",
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
