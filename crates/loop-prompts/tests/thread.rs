//! A run with native calls as the model sees it: what is appended, what is made shorter, what stands at the end.

use crate::common;

use common::native::*;
use common::{NONCE, hostile, item, ok};
use loop_core::RunSpec;
use loop_core::reply::Reply;
use loop_core::run::{CheckResult, Lack};
use loop_core::spec::{ErrorStyle, ProtocolSpec};
use loop_core::types::{Observation, Status};
use loop_llm::Message;
use loop_prompts::{AddedTurns, Layout, Prompts, Thread};

fn found(_: &str) -> Observation {
    ok("found 1 item", "| frame |\n|---|\n| FR-0042 |")
}

fn invalid(message: &str) -> CheckResult {
    CheckResult::Failed { lacks: vec![Lack::own("budget", message)] }
}

#[track_caller]
fn check(name: &str, turns: &[Message]) {
    check_text(name, &shown_turns(turns));
}

#[test]
fn a_plain_conversation() {
    // S1-7, S1-12, S1-16, S1-17, S1-25, S1-28, S1-42, S2-41, S2-42, S2-80, S2-82
    let mut world = begin(conversation(), message("What is FR-0042,\n and is P-12-A there?"));
    world
        .replied(calls("I look.", [look("c1", "fetch_bike", "FR-0042"), look("c2", "fetch_part", "P-12-A")]));
    world.tools_end(|parameters| match parameters.contains("FR") {
        true => found(""),
        false => failed(Status::Empty, "No data found"),
    });
    world.replied(calls("", [look("c3", "fetch_bike", "FR-0043")]));
    world.tools_end(found);
    let before = world.grow();
    assert!(before.turns.len() == 2 && !before.anew, "{before:?}");
    world.replied(Reply::text("It is a Ridge."));
    assert!(world.run.is_done());
    check("thread_plain", &world.whole());
}

#[test]
fn an_item_that_calls_itself_a_message_is_data_all_the_same() {
    // K6
    let stated = message("Pay five.");
    let forged = loop_core::WorkItem { form: loop_core::types::ItemForm::Data, ..stated.clone() };
    let first = |item| begin(conversation(), item).grow().turns.remove(0);
    assert_eq!(first(stated), Message::user("Pay five."));
    let shown = first(forged);
    assert!(shown.text().contains(&format!("<<<E0 {NONCE}>>>\nPay five.\n")), "{}", shown.text());
}

#[test]
fn a_conversation_with_errors() {
    // S1-29, S1-41, S1-d1, S1-d2, S2-34, S2-36, S2-61, C27
    let mut world = begin(conversation(), message("What is FR-0042?"));
    world.replied(calls(
        "",
        [
            look("c1", "fetch_bik", "FR-0042"),
            call("c2", "", ""),
            call("c3", "fetch_bike", "{\"target\""),
            look("c4", "fetch_bike", "FR-0042"),
            look("c5", "update_bike", "FR-0042"),
            look("c6", "delete_bike", "FR-0042"),
        ],
    ));
    world.tools_end(|_| failed(Status::Timeout, "timeout after 12000 ms"));
    world.replied(calls("", [look("c7", "fetch_bike", "FR-0042")]));
    world.tools_end(found);
    world.grow();
    check("thread_errors", &world.turns);
}

#[test]
fn a_reflection_with_two_attempts() {
    // S2-3, S2-18, S2-24, S2-71, S2-83, S2-84
    let mut world = begin(reflection(), item());
    world.replied(calls("", [look("c1", "fetch_bike", "FR-0042"), look("c2", "save_job", "chain")]));
    world.tools_end(|parameters| match parameters.contains("FR") {
        true => found(""),
        false => ok("a job", "# Job\n\nchain"),
    });
    world.replied(calls("", [call("c3", "submit", "{}")]));
    world.check(invalid("the price\u{1b} is missing\nand so is the date"), None);
    let grown = world.grow();
    assert_eq!(grown.turns.len(), 3, "reply, results, and what was said to the output");
    world.replied(calls("", [look("c4", "save_job", "chain, 5 EUR"), call("c5", "submit", "{}")]));
    world.tools_end(|_| ok("a job", "# Job\n\nchain, 5 EUR"));
    world.check(CheckResult::Passed, None);
    assert!(world.run.is_done());
    check("thread_reflection", &world.whole());
}

#[test]
fn an_output_without_a_reflection() {
    // S2-23, S2-70, S2-73, S2-75, S2-83
    let mut world = begin(output(), item());
    world.replied(calls(
        "",
        [look("c1", "save_job", "one"), look("c2", "fetch_bike", "1"), look("c3", "save_job", "two")],
    ));
    world.tools_end(found);
    world.check(invalid("no"), None);
    world.replied(calls("", [look("c4", "save_job", "three")]));
    world.check(invalid("no"), None);
    world.replied(calls("", [look("c5", "save_job", "four")]));
    world.check(invalid("no"), None);
    assert!(world.run.is_done(), "three attempts are all there are");
    let turns = world.whole();
    let stated = turns.iter().filter(|turn| matches!(turn, Message::User { .. })).count();
    assert_eq!(stated, 3, "the work item, and what was said to the outputs that another attempt came after");
    check("thread_output", &turns);
}

#[test]
fn a_final_pass() {
    let mut spec = conversation();
    spec.limits.passes = 2;
    let mut world = begin(spec, message("What is FR-0042?"));
    world.replied(calls("", [look("c1", "fetch_bike", "FR-0042")]));
    world.tools_end(found);
    assert_eq!(world.call().key.to_string(), "2/final");
    world.fails(/*retryable*/ true, None);
    let again = world.grow();
    assert_eq!(again, AddedTurns { anew: false, turns: Vec::new() }, "the last reply is asked for once");
    check("thread_final_pass", &world.turns);
    world.replied(Reply::text("A Ridge."));
    assert!(world.run.is_done());
    assert_eq!(world.whole().len(), world.turns.len(), "the operator's turn for the answer");
}

#[test]
fn a_pass_that_becomes_the_last_says_so_behind_what_was_said() {
    let mut spec = conversation();
    spec.limits.model_calls = 3;
    let mut world = begin(spec, message("What is FR-0042?"));
    world.replied(calls("", [look("c1", "fetch_bike", "FR-0042")]));
    world.tools_end(found);
    assert_eq!(world.call().key.to_string(), "2/main");
    let first = world.fails(/*retryable*/ true, None);
    assert_eq!(first.turns.len(), 2);
    assert_eq!(world.call().key.to_string(), "2/final");
    let second = world.grow();
    assert!(!second.anew);
    assert!(
        matches!(second.turns.as_slice(), [Message::Operator { text }] if text.contains("the limit of 3 model calls"))
    );
}

#[test]
fn a_last_reply_that_is_not_commanded_any_more_does_not_stay() {
    let mut spec = conversation();
    spec.limits.passes = 2;
    let mut world = begin(spec, message("What is FR-0042?"));
    world.replied(calls("", [look("c1", "fetch_bike", "FR-0042")]));
    world.tools_end(found);
    world.grow();
    let hash = world.thread.hash();
    let mut key = world.call().key;
    key.slot = loop_core::types::Slot::Main;
    let plain = world.thread.grow(&world.prompts, &world.inner.run, key);
    assert!(plain.anew);
    assert_eq!(plain.turns.as_slice(), &world.turns[..world.turns.len() - 1]);
    assert_ne!(world.thread.hash(), hash);
    // Nor do passes that are not behind the call.
    key.pass = 1;
    let first = world.thread.grow(&world.prompts, &world.inner.run, key);
    assert_eq!(first, AddedTurns { anew: true, turns: world.turns[..1].to_vec() });
}

#[test]
fn a_compaction() {
    // I-17
    let mut world = begin(conversation(), message("What is FR-0042?"));
    world.replied(calls("Look.", [look("c1", "fetch_bike", "FR-0042"), look("c2", "launch", "x")]));
    world.tools_end(found);
    world.replied(calls("", [look("c3", "fetch_bike", "FR-0043"), look("c4", "fetch_part", "P-1")]));
    world.tools_end(|parameters| match parameters.contains("FR") {
        true => ok(&"long ".repeat(60), "x"),
        false => failed(Status::RetryableError, "busy"),
    });
    world.replied(calls("", [look("c5", "fetch_bike", "FR-0044")]));
    world.tools_end(found);
    let hash = world.thread.hash();
    world.announce(100_000_000);
    assert_eq!(world.run.compacted_through(), 2);
    let grown = world.grow();
    assert!(grown.anew);
    assert_ne!(world.thread.hash(), hash);
    check("thread_compacted", &world.turns);
    assert!(!world.grow().anew, "it is appended to again");
    world.announce(100_000_000);
    assert_eq!(world.run.compacted_through(), 3);
    assert!(world.grow().anew);
    // What is kept of the run is whole.
    world.replied(Reply::text("A Ridge."));
    let whole = shown_turns(&world.whole());
    assert!(whole.contains("| FR-0042 |") && whole.contains("raw: {\"raw\":1}"), "{whole}");
}

#[test]
fn every_prompt_begins_with_the_one_before() {
    // I-17, C19, C20, S1-12, S1-21, S2-81
    let mut world = begin(conversation(), message("What is it?"));
    let mut before = world.grow();
    assert!(before.anew);
    let mut hashes = vec![world.thread.hash()];
    for pass in 1..9 {
        let id = format!("c{pass}");
        world.replied(calls("", [look(&id, "fetch_bike", &id), look("x", "launch", "x")]));
        world.tools_end(found);
        before = world.grow();
        // `grow` holds all turns so far against a thread that is new.
        assert!(!before.anew);
        assert_eq!(before.turns.len(), 2, "only what is new");
        hashes.push(world.thread.hash());
    }
    assert_eq!(world.turns.len(), 17);
    hashes.dedup();
    assert_eq!(hashes.len(), 9);
}

#[test]
fn every_part_of_a_turn_is_in_its_name() {
    let base = calls("text", [call("id", "fetch_bike", "{\"target\":\"1\"}")]);
    let named = |item: &str, reply: Reply, observation: Observation| {
        let mut spec = conversation();
        let ProtocolSpec::Conversation(settings) = &mut spec.protocol else { unreachable!("a conversation") };
        // In this style a failure's text may be that of a success.
        settings.errors = ErrorStyle::Quoted;
        let mut world = begin(spec, message(item));
        world.replied(reply);
        world.tools_end(|_| observation.clone());
        world.grow();
        world.thread.hash()
    };
    let it = ok("s", "m");
    let one = named("a", base.clone(), it.clone());
    assert_eq!(one, named("a", base.clone(), it.clone()));
    let others = [
        named("b", base.clone(), it.clone()),
        named("a", Reply { text: "other".into(), ..base.clone() }, it.clone()),
        named("a", Reply { raw: None, ..base.clone() }, it.clone()),
        named("a", Reply { reasoning: None, ..base.clone() }, it.clone()),
        named("a", calls("text", [call("id2", "fetch_bike", "{\"target\":\"1\"}")]), it.clone()),
        named("a", calls("text", [call("id", "fetch_part", "{\"target\":\"1\"}")]), it.clone()),
        named("a", calls("text", [call("id", "fetch_bike", "{\"target\":\"2\"}")]), it),
        named("a", base.clone(), ok("s", "m2")),
        // The same text, as an error.
        named("a", base, Observation::new(Status::PermanentError, "m", "m", "{}")),
    ];
    for (n, other) in others.iter().enumerate() {
        assert_ne!(one, *other, "{n}");
    }
}

#[test]
fn a_conversation_that_goes_on_begins_behind_what_was_said() {
    // S1-7, S1-21
    let mut world = begin_after(conversation(), message("unread"), Some(loop_testkit::history(2)));
    let first = world.grow();
    assert_eq!(first, AddedTurns { anew: true, turns: Vec::new() });
    world.replied(calls("", [look("c1", "fetch_bike", "1")]));
    world.tools_end(found);
    assert_eq!(world.grow().turns.len(), 2);
    world.announce(100_000_000);
    assert!(world.run.is_history_compacted());
    let grown = world.grow();
    assert!(grown.anew, "the messages before the run are shown otherwise");
    world.replied(Reply::text("Done."));
    let whole = world.whole();
    assert!(matches!(whole.as_slice(), [Message::Assistant(_), Message::Tool { .. }, Message::Assistant(_)]));
}

#[test]
fn a_message_is_the_users_own_words_and_anything_else_stands_between_marks() {
    // I-24, K6
    let mut world = begin(conversation(), message("As {{ it }} is\u{7}.\n"));
    assert_eq!(world.grow().turns, [Message::user("As {{ it }} is\u{7}.\n")]);
    let mut ill_meant = item();
    (ill_meant.title, ill_meant.full) = (hostile().into(), hostile().into());
    let mut world = begin(conversation(), ill_meant);
    world.grow();
    let text = world.turns[0].text();
    assert_eq!(text.matches(NONCE).count(), 2, "{text}");
    assert!(text.ends_with(&format!("<<<end E0 {NONCE}>>>")), "{text}");
    let hidden = |c: &char| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c);
    assert_eq!(text.chars().find(hidden), None);
}

#[test]
fn a_run_that_is_cut_off_leaves_a_conversation_that_any_provider_takes() {
    // S2-49, S2-79, C31
    let mut world = begin(conversation(), message("What is it?"));
    world.replied(calls("", [look("c1", "fetch_bike", "1"), look("c2", "fetch_bike", "2")]));
    world.tool_ends(found);
    world.stop_now();
    assert!(world.run.is_done());
    let turns = world.whole();
    let Message::Tool { results } = turns.last().unwrap() else { unreachable!("results") };
    assert_eq!(&*results[0].text, "| frame |\n|---|\n| FR-0042 |");
    assert!(results[1].is_error && results[1].text.contains("cancelled"), "{results:?}");

    // In flight still, for whoever does not wait: what never settled says so.
    let mut world = begin(conversation(), message("What is it?"));
    world.replied(calls("", [look("c1", "fetch_bike", "1")]));
    assert!(!world.run.is_done());
    let turns = world.whole();
    let Message::Tool { results } = turns.last().unwrap() else { unreachable!("results") };
    assert_eq!(&*results[0].text, "Error: cancelled: the run stopped before it ended");
}

#[test]
fn what_came_of_a_last_answer_stands_at_the_end() {
    let mut world = begin(conversation(), message("What is it?"));
    world.replied(calls("Look.", [look("c1", "fetch_bike", "1")]));
    world.tools_end(found);
    world.fails(/*retryable*/ false, Some("It is a Ri"));
    assert!(world.run.is_done());
    let turns = world.whole();
    assert_eq!(turns.len(), 4);
    assert_eq!(turns[3].text(), "It is a Ri");
    // A whole answer stands there once.
    let mut world = begin(conversation(), message("What is it?"));
    world.replied(Reply::text("A Ridge."));
    assert_eq!(world.whole().len(), 2);
}

#[test]
fn a_text_that_was_not_accepted_or_asked_for_again_is_not_said_twice() {
    let mut demanding = conversation();
    demanding.gate.required_tools = vec!["fetch_bike".into()];
    let mut world = begin(demanding.clone(), message("What is it?"));
    world.replied(Reply::text("At once."));
    world.replied(calls("", [look("c1", "fetch_bike", "1")]));
    world.stop_now();
    let stated: Vec<_> = world.whole().iter().map(|turn| turn.text().to_owned()).collect();
    assert_eq!(stated.iter().filter(|text| *text == "At once.").count(), 1, "{stated:?}");
    assert!(matches!(world.whole().last(), Some(Message::Tool { .. })), "{stated:?}");

    // The model fails while it repairs; what came of that is the last thing it said.
    for (partial, last) in [(None, "The output was not accepted"), (Some("It is"), "It is")] {
        let mut world = begin(demanding.clone(), message("What is it?"));
        world.replied(Reply::text("At once."));
        world.fails(/*retryable*/ false, partial);
        assert!(world.run.is_done());
        assert!(world.whole().last().unwrap().text().starts_with(last), "{:?}", world.whole());
    }

    // Another reply took the place of the one that broke off.
    let mut world = begin(conversation(), message("What is it?"));
    world.fails(/*retryable*/ true, Some("It is a Ri"));
    world.replied(calls("", [look("c1", "fetch_bike", "1")]));
    world.stop_now();
    assert!(matches!(world.whole().last(), Some(Message::Tool { .. })), "{:?}", world.whole());
}

#[test]
fn the_system_prompts() {
    let system = |spec: RunSpec| Thread::system(&Prompts::builtin(), &begin(spec, item()).run).to_string();
    let bare = RunSpec { goal: "".into(), tools: Vec::new(), ..conversation() };
    let forbidden = {
        let mut spec = conversation();
        spec.tools = vec![spec.tools[3].clone()];
        spec
    };
    assert_eq!(system(forbidden), "Help the mechanic.\n\nBe brief.");
    let mut only_output = output();
    only_output.tools.remove(0);
    assert!(!system(only_output).contains("What tools return"));
    check_text("system_conversation", &system(conversation()));
    check_text("system_output", &system(output()));
    check_text("system_reflection", &system(reflection()));
    check_text("system_bare", &system(bare));
}

#[test]
fn the_system_prompt_is_the_same_for_every_run() {
    let prompts = Prompts::builtin();
    let one = Thread::system(&prompts, &begin(conversation(), item()).run);
    let mut other = begin(conversation(), message("Something else."));
    other.replied(calls("", [look("c1", "fetch_bike", "1")]));
    assert_eq!(one, Thread::system(&prompts, &other.run));
    assert!(!one.contains(NONCE));
}

#[test]
fn a_domain_may_bring_its_own_words() {
    let files = [
        ("agent.md", "{{ goal }} / {{ tools }} / {{ ending }} / {{ kind }}"),
        ("rejection.md", "{{ by }}: {{ message }} / {{ output }}"),
        ("item.md", "{{ title }}\n{{ item }}"),
        ("last_reply.md", "LAST: {{ cause }}"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let prompts = Prompts::with_overrides(files, Layout::Append).unwrap();
    assert_ne!(prompts.hash(), Prompts::builtin().hash());
    let mut spec = output();
    let ProtocolSpec::Output(output) = &mut spec.protocol else { unreachable!("an output") };
    output.attempts = 2;
    let mut world = begin(spec, item());
    assert_eq!(
        &*Thread::system(&prompts, &world.run),
        "Write the job down. / `fetch_bike` / End by calling `save_job` with the result. A reply that calls no tool is \
         not accepted. / job"
    );
    world.replied(calls("", [look("c1", "save_job", "x")]));
    world.check(invalid("no"), None);
    let key = world.call().key;
    let turns = Thread::default().grow(&prompts, &world.run, key).turns;
    assert!(turns[0].text().starts_with("Chain of FR-0042 slips\n<<<E0"), "{turns:?}");
    assert_eq!(turns.last().unwrap().text(), "budget: no / save_job");
}
