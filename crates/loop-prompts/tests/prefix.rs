//! A pass costs what the pass adds: each prompt begins with the bytes of the one before.

use crate::common;

use common::*;
use loop_core::types::{Observation, ResultPicture, Status};
use loop_llm::Message;
use loop_prompts::{Dialogue, Layout, Prompt};

/// `later` begins with `earlier`, and says so to the byte.
#[track_caller]
fn expect_prefix(earlier: &Prompt, later: &Prompt) {
    assert!(bytes(later).starts_with(&bytes(earlier)), "{}\n---\n{}", shown(earlier), shown(later));
    assert_eq!(
        later.turns[..earlier.turns.len()],
        earlier.turns,
        "the turns are the same, not only their text"
    );
    assert_eq!(later.size.shared_bytes, earlier.size.bytes);
    assert_eq!(later.size.bytes, bytes(later).len() as u64);
}

/// What a fresh dialogue renders is the same, sizes included.
#[track_caller]
fn expect_same_anew(world: &World, prompt: &Prompt) {
    assert_eq!(world.prompt_anew(), *prompt);
}

#[test]
fn each_prompt_is_a_byte_prefix_of_the_next() {
    // S4-14
    // I-17, C19
    let mut world = start(spec(), item(), prompts());
    let first = world.prompt();
    assert_eq!((first.size.bytes, first.size.shared_bytes), (bytes(&first).len() as u64, 0));
    expect_same_anew(&world, &first);
    let reply = format!(
        "## 🔍 Situation\n\nSlips.\n\n## Extra! 🚲\n\nx\n\n{}",
        contract("low", &[("fetch_bike", "FR-0042")])
    );
    assert_eq!(world.replied(&reply), first);
    world.tools_end(|_| ok("a bicycle", "| frame |\n|---|\n| FR-0042 |"));

    let second = world.prompt();
    expect_prefix(&first, &second);
    expect_same_anew(&world, &second);
    // The undeclared section is taken away again, and comes back under another form of its heading.
    let reply = format!(
        "## Extra\n\n## Findings\n\nIt is known [E1].\n\n{}",
        contract("medium", &[("fetch_part", "P-12-A"), ("fetch_part", "P-12-B")])
    );
    world.replied(&reply);
    world.tools_end(|parameters| {
        if parameters.contains("12-A") {
            ok("two left", "2")
        } else {
            Observation::failed(Status::Timeout, "fetch_part", "timeout")
        }
    });

    let third = world.prompt();
    expect_prefix(&second, &third);
    let index = |prompt: &Prompt| {
        let last = prompt.turns.last().unwrap().text();
        last.split("## The document so far\n\n").nth(1).unwrap().split("\n\n").next().unwrap().to_owned()
    };
    assert_eq!(index(&second), "- `## 🔍 Situation` (pass 1)\n- `## Extra! 🚲` (pass 1)");
    assert_eq!(index(&third), "- `## 🔍 Situation` (pass 1)\n- `## Findings` (pass 2)");
    expect_same_anew(&world, &third);
    let reply = format!(
        "## EXTRA\n\ny\n\n## 🔍 Situation\n\nIt slips.\n\n{}",
        contract("high", &[("fetch_bike", "FR-0043")])
    );
    world.replied(&reply);
    world.tools_end(|_| Observation::failed(Status::Empty, "fetch_bike", "no data found"));

    let fourth = world.prompt();
    expect_prefix(&third, &fourth);
    expect_same_anew(&world, &fourth);
    assert_eq!(fourth.turns.len(), 7);

    // The final pass is appended like any other pass.
    world.replied(&contract("medium", &[("fetch_bike", "FR-0044")]));
    world.tools_end(|_| ok("another", "x"));
    let final_pass = world.prompt();
    assert_eq!(world.call().key.to_string(), "5/final");
    expect_prefix(&fourth, &final_pass);
    expect_same_anew(&world, &final_pass);
}

#[test]
fn pictures_of_evidence_are_in_the_turn_that_shows_it() {
    let mut world = start(spec(), item(), prompts());
    world.replied(&contract("low", &[("fetch_bike", "FR-0042")]));
    let picture = ResultPicture { media_type: "image/png".into(), base64: "QUJD".into() };
    world.tools_end(|_| Observation { pictures: vec![picture.clone()], ..ok("a bicycle", "[picture 1]") });
    let prompt = world.prompt();
    let images = prompt.turns.iter().map(|turn| match turn {
        Message::User { images, .. } => images.len(),
        Message::Assistant(_) | Message::Tool { .. } | Message::Operator { .. } => 0,
    });
    assert_eq!(images.collect::<Vec<_>>(), [0, 0, 1], "{}", shown(&prompt));
    expect_same_anew(&world, &prompt);
}

#[test]
fn two_parallel_retries_do_not_change_what_was_said() {
    let calls = [("fetch_bike", "FR-0001"), ("fetch_bike", "FR-0002")];
    let mut spec = spec();
    spec.gate.breakers.tool_failures = 0;
    let mut world = start(spec, item(), prompts());
    let mut before = world.replied(&contract("low", &calls));
    for n in 0..2 {
        world.tools_end(|_| Observation::failed(Status::RetryableError, "fetch_bike", "no connection"));
        let prompt = world.prompt();
        expect_prefix(&before, &prompt);
        expect_same_anew(&world, &prompt);
        let last = prompt.turns.last().unwrap().text();
        let expected = format!(
            "- fetch_bike (target: FR-0001): Failed — no connection [E{}]\n- fetch_bike (target: FR-0002): Failed",
            n * 2 + 1
        );
        assert!(last.contains(&expected), "{last}");
        before = world.replied(&contract("low", &calls));
    }
    world.tools_end(|_| ok("there", "x"));
    let prompt = world.prompt();
    expect_prefix(&before, &prompt);
    expect_same_anew(&world, &prompt);
}

#[test]
fn a_resumed_dialogue_goes_on_where_the_old_one_was() {
    let mut world = start(spec(), item(), prompts());
    let mut before = world.replied(&contract("low", &[("fetch_bike", "FR-0001")]));
    for n in 2..5 {
        world.tools_end(|_| ok("there", "x"));
        world.dialogue = Dialogue::default();
        let prompt = world.prompt();
        expect_prefix(&before, &prompt);
        before = world.replied(&contract("low", &[("fetch_bike", &format!("FR-000{n}"))]));
    }
}

#[test]
fn a_call_that_becomes_the_last_one_says_so() {
    // A try that fails may leave the next one as the last model call.
    let mut spec = spec();
    spec.limits.model_calls = 3;
    let mut world = start(spec, item(), prompts());
    world.replied(&contract("low", &[("fetch_bike", "FR-0001")]));
    world.tools_end(|_| ok("there", "x"));
    assert_eq!(world.call().key.to_string(), "2/main");
    let main = world.failed();
    assert_eq!(world.call().key.to_string(), "2/final");
    let final_pass = world.prompt();
    assert!(!bytes(&main).contains("This is the LAST call"));
    assert!(bytes(&final_pass).contains("This is the LAST call: the limit of 3 model calls leaves one."));
    assert_eq!(final_pass.size.shared_bytes, main.size.shared_bytes);
    expect_same_anew(&world, &final_pass);
}

#[test]
fn a_shortened_body_makes_another_prefix_and_everything_is_still_right() {
    let mut spec = spec();
    spec.models.base.context_tokens = 13_000;
    let mut world = start(spec, item(), prompts());
    world.replied(&contract("low", &[("fetch_bike", "FR-0001"), ("fetch_bike", "FR-0002")]));
    let body = format!("{}END", "long ".repeat(800));
    world.tools_end(|_| ok("the summary", &body));
    let second = world.replied(&contract("low", &[("fetch_bike", "FR-0003")]));
    assert_eq!(bytes(&second).matches("END").count(), 2);
    world.tools_end(|_| ok("the third", &body.repeat(3)));
    // Refused: the oldest body gives way.
    let refused = world.announce();
    expect_prefix(&second, &refused);
    let third = world.prompt();
    assert_eq!(world.run.evidence().iter().filter(|evidence| evidence.shortened).count(), 1);
    let text = bytes(&third);
    assert!(!text.starts_with(&bytes(&second)));
    assert!(text.contains("### E1 · fetch_bike {\"target\":\"FR-0001\"} · ok\n<<<E1 n-7f3a>>>\n(shortened) the summary\n<<<end E1 n-7f3a>>>"));
    assert_eq!(third.size.shared_bytes, third.system.len() as u64, "only the rules are the same for sure");
    assert_eq!(bytes(&world.prompt_anew()), text);
    // From here on the new prefix holds.
    let third = world.replied(&contract("low", &[("fetch_bike", "FR-0004")]));
    world.tools_end(|_| ok("small", "x"));
    let fourth = world.prompt();
    expect_prefix(&third, &fourth);
    expect_same_anew(&world, &fourth);
}

#[test]
fn the_system_prompt_is_the_same_for_every_run_of_a_domain() {
    // S0-95, C19
    let mut other = item();
    other.title = "Something else".into();
    other.full = hostile().into();
    let mut one = start(spec(), item(), prompts());
    let mut two = start_with(spec(), other, prompts(), "another-nonce");
    let first = one.replied(&contract("low", &[("fetch_bike", "FR-0001")]));
    one.tools_end(|_| ok("there", &hostile()));
    let second = one.prompt();
    let other = two.prompt();
    assert_eq!(first.system, second.system);
    assert_eq!(first.system, other.system);
    assert_ne!(first.hash(), second.hash());
}

#[test]
fn the_providers_own_turn_goes_back_unchanged() {
    let mut world = start(spec(), item(), prompts());
    let reply = contract("low", &[("fetch_bike", "FR-0001")]);
    world.replied(&reply);
    world.tools_end(|_| ok("there", "x"));
    let expected = Message::assistant(reply.as_str());
    assert_eq!(world.prompt().turns[1], expected);
}

#[test]
fn in_the_layout_with_evidence_in_the_system_prompt_nothing_is_said_to_be_shared() {
    // C19
    let mut world = start(spec(), item(), in_layout(Layout::SystemEvidence));
    let first = world
        .replied(&format!("## 🔍 Situation\n\nSlips.\n\n{}", contract("low", &[("fetch_bike", "FR-0001")])));
    world.tools_end(|_| ok("there", "BODY"));
    let second = world.prompt();
    expect_same_anew(&world, &second);
    assert_eq!((second.turns.len(), second.size.shared_bytes), (1, 0));
    assert!(second.system.starts_with(&*first.system) && second.system.contains("## Evidence\n\n### E1 ·"));
    assert!(
        second.turns[0]
            .text()
            .contains("<<<document n-7f3a>>>\n## 🔍 Situation\n\nSlips.\n<<<end document n-7f3a>>>")
    );
}
