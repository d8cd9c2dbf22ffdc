//! Properties: contracts, canonical arguments, citations; and money that is never passed, whatever a call uses.

use loop_testkit::*;

use loop_core::reply::citations;
use loop_core::run::{Phase, PromptSize, Purpose, Reserve, StopMode};
use loop_core::spec::{CostMode, NonceMode};
use loop_core::types::{Confidence, EvidenceId, PicoUsd, Slot, SubCallUse, canonical, digest as digest_of};
use loop_core::{Command, EventKind, Note};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

// ---- canonical arguments ----

/// JSON values, a few levels deep.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| Value::Number(n.into())),
        any::<u64>().prop_map(|n| Value::Number(n.into())),
        // Eighths: fractions that every reader of JSON takes for the same number.
        any::<i16>().prop_map(|n| json!(f64::from(n) / 8.0)),
        "[a-zé\"\\\\\n ]{0,6}".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[a-z]{1,3}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value, written with its members in the opposite order and with blanks between them.
fn written_otherwise(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .rev()
                .map(|(name, value)| format!("{} :  {}", json!(name), written_otherwise(value)))
                .collect();
            format!("{{ {} }}", members.join(" ,\n"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(written_otherwise).collect();
            format!("[ {} ]", items.join(" , "))
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(crate::common::cases(128))]

    #[test]
    fn canonical_text_does_not_depend_on_how_a_value_is_written(value in values()) {
        // S0-118: repeats are found by canonical arguments.
        let other: Value = serde_json::from_str(&written_otherwise(&value)).unwrap();
        prop_assert_eq!(canonical(&value), canonical(&other));
        prop_assert_eq!(digest_of("t", &value), digest_of("t", &other));
    }

    #[test]
    fn canonical_text_says_the_whole_value(value in values()) {
        let back: Value = serde_json::from_str(&canonical(&value)).unwrap();
        prop_assert_eq!(canonical(&back), canonical(&value));
        let wrapped = json!({"a": [&value], "b": {}});
        prop_assert_ne!(canonical(&wrapped), canonical(&value));
    }

    #[test]
    fn another_member_makes_another_digest(value in values(), name in "[a-z]{4}") {
        let mut members = value.as_object().cloned().unwrap_or_else(Map::new);
        let before = digest_of("t", &Value::Object(members.clone()));
        members.insert(name, json!(1));
        prop_assert_ne!(digest_of("t", &Value::Object(members)), before);
    }

    #[test]
    fn the_same_call_is_a_repeat_however_it_is_written(name in "[a-z]{1,6}", limit in 0_i64..9, swap in any::<bool>()) {
        // S0-118, I-7: the order of members, members that the tool does not take, and blanks make no new call.
        let first = json!({"target": name, "limit": limit, "colour": "red"});
        let second = if swap { json!({"limit": limit, "target": name}) } else { json!({"target": name, "limit": limit}) };
        let world = run().start().replied(&draft("low").asks("fetch_device", first)).all_finished();
        let world = world.replied(&draft("low").asks("fetch_devices", second));
        prop_assert_eq!(world.verdicts(), ["run", "duplicate"]);
        let world = run().start().replied(&draft("low").asks("fetch_device", json!({"target": name, "limit": limit})));
        let world = world.all_finished().replied(&draft("low").asks("fetch_device", json!({"target": name, "limit": limit + 1})));
        prop_assert_eq!(world.verdicts(), ["run", "run"]);
    }
}

// ---- citations ----

proptest! {
    #![proptest_config(crate::common::cases(128))]

    #[test]
    fn exactly_what_is_cited_outside_of_code_is_found(
        parts in prop::collection::vec((0_u32..30, 0_u8..5), 0..8),
    ) {
        let mut body = String::new();
        let mut expected: Vec<EvidenceId> = Vec::new();
        for (n, how) in parts {
            let (text, counts) = match how {
                0 => (format!("As [E{n}] says.\n"), true),
                1 => (format!("Both [E{n}, E{n}] do. "), true),
                2 => (format!("In code `[E{n}]`. "), false),
                3 => (format!("\n```\n[E{n}]\n```\n"), false),
                _ => (format!("Not [F{n}] nor E{n}. "), false),
            };
            body.push_str(&text);
            expected.extend(counts.then_some(EvidenceId(n)));
        }
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(citations(&body), expected);
    }
}

// ---- contracts ----

/// A block of a reply: what it says of its confidence, its nonce, and whether a tool has said the same before.
#[derive(Clone, Debug)]
struct Block {
    confidence: &'static str,
    nonce: Option<&'static str>,
    echoed: bool,
}

impl Block {
    fn contract(&self, n: usize) -> Value {
        // The reason tells the blocks apart, so that an echo is of one block and not of its like.
        let mut contract = json!({
            "analysis_confidence": self.confidence,
            "confidence_reason": format!("block {n}"),
            "ai_actions": [],
        });
        if let Some(nonce) = self.nonce {
            contract["nonce"] = nonce.into();
        }
        contract
    }
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let confidence = prop::sample::select(vec!["low", "medium", "high"]);
    let nonce = prop::sample::select(vec![None, Some(NONCE), Some("wrong")]);
    let block = (confidence, nonce, any::<bool>()).prop_map(|(confidence, nonce, echoed)| Block {
        confidence,
        nonce,
        echoed,
    });
    prop::collection::vec(block, 0..4)
}

/// Which of the blocks counts, as it is documented.
fn counting(blocks: &[Block], mode: NonceMode) -> Option<&Block> {
    let right = blocks.iter().rfind(|block| block.nonce == Some(NONCE));
    let bare = || blocks.iter().rfind(|block| block.nonce.is_none()).filter(|block| !block.echoed);
    match mode {
        NonceMode::Require => right,
        NonceMode::Prefer => right.or_else(bare),
    }
}

fn of_name(name: &str) -> Confidence {
    match name {
        "high" => Confidence::High,
        "medium" => Confidence::Medium,
        _ => Confidence::Low,
    }
}

proptest! {
    #![proptest_config(crate::common::cases(128))]

    #[test]
    fn the_contract_that_counts_is_the_one_that_is_documented(blocks in blocks(), required in any::<bool>()) {
        // K5: the right nonce wins; a wrong one and an echo of what a tool said count for nothing.
        let mode = if required { NonceMode::Require } else { NonceMode::Prefer };
        let stated_by_tool: Vec<String> = blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.echoed)
            .map(|(n, block)| format!("```json\n{}\n```\n", block.contract(n)))
            .collect();
        let world = run().nonce(mode).start().replied(
            &draft("low").member("nonce", json!(NONCE)).asks("fetch_device", target("a")),
        );
        let mut reply = String::from("## Situation\n\nIt is so.\n\n");
        for (n, block) in blocks.iter().enumerate() {
            reply.push_str(&format!("```json\n{}\n```\n\n", block.contract(n)));
        }
        let world = world.finished("1/action-0", found(&stated_by_tool.concat())).replied(&text(&reply));
        match counting(&blocks, mode) {
            Some(block) => {
                prop_assert_eq!(world.run.passes()[1].confidence, of_name(block.confidence), "{}", reply);
                prop_assert_ne!(world.phase(), "repairing");
            }
            None => prop_assert_eq!(world.phase(), "repairing", "{}", reply),
        }
    }
}

// ---- money ----

/// How the world spends: bytes of prompts, and usages in hundredths of what is true at most.
#[derive(Clone, Debug)]
struct Spending {
    limit: u64,
    prompts: Vec<(u64, u64)>,
    usages: Vec<Option<(u64, u64)>>,
    tokens: Option<u64>,
}

fn spendings() -> impl Strategy<Value = Spending> {
    let prompts = prop::collection::vec((200_u64..6_000, 0_u64..2_000), 8);
    let usages = prop::collection::vec(prop::option::weighted(0.8, (0_u64..=100, 0_u64..=100)), 12);
    let tokens = prop::option::of(1_000_u64..40_000);
    (100_000_000_u64..6_000_000_000, prompts, usages, tokens)
        .prop_map(|(limit, prompts, usages, tokens)| Spending { limit, prompts, usages, tokens })
}

/// A world in one mode of the limit.
fn poor(mode: CostMode, spending: &Spending) -> World {
    let setup = run().patient().limits(|limits| {
        limits.cost = Some(PicoUsd(spending.limit));
        limits.tokens = spending.tokens;
        limits.cost_mode = mode;
        limits.sub_call_bytes = 1_000;
    });
    // Sub-calls are paid at the price of the base model, so that they matter.
    setup.with(|spec| spec.models.selector = None).start()
}

fn spent(world: &World) -> u64 {
    world.run.totals().cost.known.0
}

fn taken(world: &World) -> (u64, u64) {
    let reserved = world.run.reserved();
    let tokens = world.run.totals().usage.total() + reserved.input_tokens + reserved.output_tokens;
    (spent(world) + reserved.cost.unwrap().0, tokens)
}

/// Money and tokens that the charges of the last event took beyond what was reserved for them.
fn beyond_the_reserves(before: &World, after: &World) -> (u64, u64) {
    let (mut money, mut tokens) = (0, 0);
    for note in after.notes() {
        let Note::CallCharged { key, usage, cost, .. } = note else { continue };
        let reserve = match (key.slot, before.run.phase()) {
            (Slot::Action(_), _) => {
                // Half a token for a byte of input.
                let limits = &before.spec.limits;
                let (input_tokens, output_tokens) = (limits.sub_call_bytes / 2, limits.sub_call_tokens);
                let price = before.spec.models.base.price.as_ref().unwrap();
                let cost = Some(price.fresh(input_tokens, output_tokens));
                Reserve { input_tokens, output_tokens, cost }
            }
            (
                _,
                Phase::Calling { call, purpose: Purpose::Main }
                | Phase::Calling { call, purpose: Purpose::Final { .. } }
                | Phase::Calling { call, purpose: Purpose::Repair { .. } },
            ) => call.started.unwrap().reserve,
            (_, phase) => panic!("charged while {}", phase.name()),
        };
        money += cost.unwrap().0.saturating_sub(reserve.cost.unwrap().0);
        tokens += usage.total().saturating_sub(reserve.input_tokens + reserve.output_tokens);
    }
    (money, tokens)
}

/// Runs to the end; `check` sees every event with the world before it. A call really uses as many tokens as its bytes
/// at most: of output what it was granted, and in `strict` all the bytes at which its reply is cut (T7).
fn spend(mode: CostMode, spending: &Spending, mut check: impl FnMut(&World, &World)) -> World {
    let mut world = poor(mode, spending);
    let (mut prompts, mut usages) = (spending.prompts.iter().cycle(), spending.usages.iter().cycle());
    let (mut bytes, arrives) = (0, if mode == CostMode::Strict { 6 } else { 1 });
    for n in 0_usize.. {
        let Some(command) = world.run.commands().into_iter().next() else { break };
        let before = world.clone();
        match command {
            Command::CallModel(call) if call.granted.is_none() => {
                let (size, more) = prompts.next().unwrap();
                let shared_bytes = if more % 3 == 0 { 0 } else { bytes };
                bytes = shared_bytes.max(*size) + more;
                world = world.started_with(PromptSize { bytes, shared_bytes });
            }
            Command::CallModel(call) => {
                let granted = call.granted.unwrap();
                let usage = usages.next().unwrap();
                let usage =
                    usage.map(|(input, output)| used(bytes * input / 100, arrives * granted * output / 100));
                let name = format!("{n}");
                let reply = draft("low")
                    .asks("fetch_docs", target(&name))
                    .asks("fetch_docs", target(&format!("{name}-more")));
                world = world.answered(&reply.using(usage));
            }
            Command::RunTool(tool) => {
                let mut observation = found(&tool.key.to_string());
                if let Some(budget) = tool.sub_call {
                    let usage = usages.next().unwrap().map(|(input, output)| {
                        used(budget.bytes * input / 100, arrives * budget.output_tokens * output / 100)
                    });
                    observation.sub_call = Some(SubCallUse::new(true, usage).into());
                }
                world.apply(EventKind::ToolFinished {
                    key: tool.key,
                    attempt: tool.attempt,
                    observation: observation.into(),
                });
            }
            other => panic!("not commanded here: {other:?}"),
        }
        check(&before, &world);
    }
    assert!(world.run.is_done());
    world
}

proptest! {
    #![proptest_config(crate::common::cases(32))]

    #[test]
    fn a_strict_limit_is_never_passed(spending in spendings()) {
        // I-1, S0-45: settled and reserved fit into the limit at every event.
        spend(CostMode::Strict, &spending, |_, world| {
            let (money, tokens) = taken(world);
            assert!(money <= spending.limit, "{money} of {}", spending.limit);
            assert!(spending.tokens.is_none_or(|limit| tokens <= limit), "{tokens} of {:?}", spending.tokens);
        });
    }

    #[test]
    fn an_estimated_limit_is_passed_by_no_more_than_what_was_in_flight_took_beyond_its_estimate(
        spending in spendings(),
    ) {
        // I-2: nothing starts beyond the limit, and a settlement adds no more than it took beyond its reserve.
        spend(CostMode::Estimated, &spending, |before, after| {
            let ((money, tokens), (then_money, then_tokens)) = (taken(after), taken(before));
            let (more_money, more_tokens) = beyond_the_reserves(before, after);
            assert!(money <= spending.limit.max(then_money + more_money), "{then_money} -> {money}");
            if let Some(limit) = spending.tokens {
                assert!(tokens <= limit.max(then_tokens + more_tokens), "{then_tokens} -> {tokens}");
            }
        });
    }

    #[test]
    fn after_the_spend_at_most_one_call_goes_beyond_the_limit(spending in spendings()) {
        // I-3, S0-51: no main call starts once the limit is reached, so one at most passes it.
        let mut beyond = 0;
        let world = spend(CostMode::After, &spending, |before, after| {
            let started = after.journal.last().unwrap().0.kind.name() == "call_started";
            if started {
                assert!(taken(before).0 < spending.limit);
            }
            let is_reply = after.journal.last().unwrap().0.kind.name() == "model_replied";
            if is_reply && spent(before) < spending.limit && spent(after) > spending.limit {
                beyond += 1;
            }
        });
        prop_assert!(beyond <= 1);
        prop_assert!(world.run.is_done());
    }

    #[test]
    fn a_stop_at_any_moment_passes_no_strict_limit_either(spending in spendings(), at in 0_usize..12) {
        // I-1: what is cut off is charged at its reserve, which was held.
        let mut journal = Vec::new();
        spend(CostMode::Strict, &spending, |before, _| journal.push(before.clone()));
        let world = journal.into_iter().nth(at).unwrap_or_else(|| poor(CostMode::Strict, &spending));
        if world.run.outcome().is_none() {
            let mut world = world.stop(StopMode::Now);
            if !world.run.is_done() {
                world = world.deadline();
            }
            prop_assert!(spent(&world) <= spending.limit);
        }
    }
}
