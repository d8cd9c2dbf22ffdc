//! Random runs: legal and illegal events, each chosen by a number.

use loop_core::reply::FinishReason;
use loop_core::run::{
    CallModel, CheckResult, PersonAnswer, PromptSize, Refusal, RunTool, SaveResult, StopMode,
};
use loop_core::spec::{
    Breakers, CostMode, OnDenied, OnDuplicate, OnToolError, ProtocolSpec, RepeatScope, Repeats,
};
use loop_core::types::{Millis, PicoUsd, Status, SubCallUse};
use loop_core::{Command, EventKind, RunSpec};
use loop_testkit::{
    DraftReply, Setup, World, bare_draft, broken, calls, conversation, digest, draft, failure, found, key,
    observed, output, reflected, rejected, run, saved_at, target, text, used,
};
use proptest::prelude::*;
use serde_json::json;

/// Small runs with tight limits, of every kind.
pub fn setups() -> impl Strategy<Value = Setup> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let mode = prop::sample::select(vec![CostMode::Estimated, CostMode::Strict, CostMode::After]);
    let rules = (any::<bool>(), mode, prop::option::of(0_u64..4_000_000_000));
    let limits = (0_u32..5, 0_u32..8, 0_u32..6, 0_u32..3, prop::option::of(0_u64..60_000));
    (flags, limits, rules, judgements()).prop_map(
        |(
            (selector, people, saves, priced),
            (passes, model_calls, tool_calls, selected, tokens),
            (escalates, mode, cost),
            judgement,
        )| {
            let setup = if escalates { run().escalating() } else { run() };
            let setup = setup.limits(|limits| {
                limits.cost_mode = mode;
                limits.cost = cost.map_or(limits.cost, |cost| Some(PicoUsd(cost)));
                limits.passes = passes;
                limits.model_calls = model_calls;
                limits.tool_calls = tool_calls;
                limits.selected = selected;
                limits.tokens = tokens;
                limits.wall_ms = 60_000;
                limits.person_ms = Some(5_000);
            });
            setup.with(|spec| {
                spec.selection.enabled = selector;
                spec.selection.defaults.push(loop_core::spec::DefaultCall {
                    tool: "fetch_docs".into(),
                    parameters: r#"{"target":"d"}"#.into(),
                });
                spec.gate.people = people;
                spec.save = saves;
                if !priced {
                    spec.models.base.price = None;
                }
                judgement.set(spec);
            })
        },
    )
}

/// Small conversations and outputs with tight limits, of every kind.
pub fn native_setups() -> impl Strategy<Value = Setup> {
    let kind = (0_u8..3, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let all = [Repeats::NeverRerun, Repeats::Reuse, Repeats::ThreeTier, Repeats::Off];
    let repeats = prop::option::of(prop::sample::select(all.to_vec()));
    let rules = (repeats, 0_u32..3, 1_u32..3, 1_u32..4);
    let limits = (0_u32..6, 0_u32..9, 0_u32..6, prop::option::of(2_u32..16), prop::option::of(0_u64..60_000));
    (kind, rules, limits, judgements()).prop_map(
        |(
            (kind, parallel, people, saves, approves),
            (repeats, no_progress, attempts, passes_per_attempt),
            (passes, model_calls, tool_calls, messages, tokens),
            judgement,
        )| {
            let setup = match kind {
                0 => conversation(),
                1 => output(),
                _ => reflected(),
            };
            let setup = if parallel { setup.parallel() } else { setup };
            let setup = if approves { setup.approving(&["restart", "wipe"]) } else { setup };
            setup.with(|spec| {
                if let ProtocolSpec::Output(output) = &mut spec.protocol {
                    (output.attempts, output.passes_per_attempt) = (attempts, passes_per_attempt);
                }
                (spec.limits.passes, spec.limits.model_calls) = (passes, model_calls);
                (spec.limits.tool_calls, spec.limits.messages) = (tool_calls, messages);
                (spec.limits.tokens, spec.limits.wall_ms) = (tokens, 60_000);
                spec.limits.person_ms = Some(5_000);
                (spec.gate.repeats, spec.gate.no_progress) = (repeats, no_progress);
                (spec.gate.people, spec.save) = (people, saves);
                judgement.set(spec);
            })
        },
    )
}

/// What follows denials, failures and trouble that repeats, and what is demanded.
#[derive(Clone, Debug)]
struct Judgement {
    on_denied: OnDenied,
    on_duplicate: OnDuplicate,
    on_tool_error: OnToolError,
    scope: RepeatScope,
    /// When each breaker opens.
    breakers: u32,
    polls: u32,
    /// How many people approve a write.
    approvals: u32,
    forbids: bool,
    demands: bool,
    taints: bool,
}

impl Judgement {
    fn set(self, spec: &mut RunSpec) {
        let gate = &mut spec.gate;
        (gate.on_denied, gate.on_duplicate) = (self.on_denied, self.on_duplicate);
        (gate.on_tool_error, gate.scope) = (self.on_tool_error, self.scope);
        gate.approvals = self.approvals;
        let n = self.breakers;
        gate.breakers = Breakers { tool_failures: n, denied: n, bad_arguments: n };
        gate.forbid.extend(self.forbids.then(|| "w*".into()));
        gate.required_tools.extend(self.demands.then(|| "fetch_docs".into()));
        for tool in &mut spec.tools {
            tool.policy.repeats.polls = self.polls;
            tool.policy.cheap = self.demands;
            tool.policy.returns_untrusted = self.taints && tool.effect.is_read();
        }
    }
}

fn judgements() -> impl Strategy<Value = Judgement> {
    let errors = [OnToolError::Continue, OnToolError::Stop, OnToolError::EscalateAfter(2)];
    let duplicates = [OnDuplicate::SkipMessage, OnDuplicate::ReplayCached, OnDuplicate::Deny];
    let scopes = [RepeatScope::Run, RepeatScope::Attempt, RepeatScope::Step];
    let follows = (
        prop::sample::select(vec![OnDenied::FeedBack, OnDenied::Stop]),
        prop::sample::select(duplicates.to_vec()),
        prop::sample::select(errors.to_vec()),
        prop::sample::select(scopes.to_vec()),
    );
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let people = prop::sample::select(vec![1_u32, 1, 2]);
    (follows, 0_u32..4, 0_u32..3, people, flags).prop_map(
        |(follows, breakers, polls, approvals, (forbids, demands, taints))| {
            let (on_denied, on_duplicate, on_tool_error, scope) = follows;
            Judgement {
                on_denied,
                on_duplicate,
                on_tool_error,
                scope,
                breakers,
                polls,
                approvals,
                forbids,
                demands,
                taints,
            }
        },
    )
}

/// The numbers by which a walk is chosen.
pub fn choices(length: usize) -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec(any::<(u8, u8)>(), 0..length)
}

/// Walks; every step is checked by the world.
pub fn walked(setup: Setup, choices: &[(u8, u8)]) -> World {
    walked_on(setup.start(), choices)
}

/// Walks on from a world.
pub fn walked_on(mut world: World, choices: &[(u8, u8)]) -> World {
    for (what, how) in choices {
        world = step(world, *what, *how);
    }
    world
}

fn step(mut world: World, what: u8, how: u8) -> World {
    match what % 20 {
        0..=12 => {
            let commands = world.run.commands();
            let at = usize::from(what / 20) % commands.len().max(1);
            match commands.into_iter().nth(at) {
                Some(command) => follow(world, command, how),
                None if world.run.deadline().is_some() => world.deadline(),
                None => world,
            }
        }
        13 => {
            world.now += u64::from(how) * 10;
            world
        }
        14 if world.run.deadline().is_some() => world.deadline(),
        15 => attempt(world, EventKind::StopRequested { how: StopMode::AtGate }),
        16 => attempt(world, EventKind::StopWithdrawn),
        17 if how < 40 => attempt(world, EventKind::StopRequested { how: StopMode::Now }),
        18 => {
            world.now += u64::from(how);
            attempt(world, EventKind::Resumed { away_ms: u64::from(how) * 2, by: None })
        }
        _ => {
            let kind = stray(how);
            attempt(world, kind)
        }
    }
}

/// Tells something that may be out of order; the world checks that a rejection changes nothing.
fn attempt(mut world: World, kind: EventKind) -> World {
    let _rejected_or_not = world.try_apply(kind);
    world
}

/// Does what is commanded, one way or another.
pub fn follow(mut world: World, command: Command, how: u8) -> World {
    match command {
        Command::CallModel(call @ CallModel { granted: None, .. }) => {
            let bytes = if how.is_multiple_of(8) { 1_000_000 } else { 500 + u64::from(how) * 10 };
            let prompt = PromptSize { bytes, shared_bytes: u64::from(how) * 9 };
            match refused_elsewhere(&world, &call, prompt, how) {
                Some(kind) => attempt(world, kind),
                None => world.started_with(prompt),
            }
        }
        Command::CallModel(call)
            if let Some(kind) = how.is_multiple_of(5).then(|| early(&world, &call, how)).flatten() =>
        {
            world.apply(kind);
            world
        }
        Command::CallModel(call) => {
            let kind = settlement(&world, &call, how);
            world.apply(kind);
            world
        }
        Command::RunTool(RunTool { key, attempt, announced: false, .. }) => {
            world.apply(EventKind::ToolStarted { key, attempt });
            world
        }
        Command::RunTool(tool) => {
            let mut observation = observed_by(how);
            if tool.sub_call.is_some() && !how.is_multiple_of(3) {
                let usage = (how % 3 == 1).then(|| used(u64::from(how), 7));
                observation.sub_call = Some(SubCallUse::new(how.is_multiple_of(2), usage).into());
            }
            world.apply(EventKind::ToolFinished {
                key: tool.key,
                attempt: tool.attempt,
                observation: observation.into(),
            });
            world
        }
        Command::Check(check) => {
            let result = match how % 5 {
                0 => broken(),
                1 | 2 => CheckResult::Passed,
                _ => rejected("no"),
            };
            let asks = check.sub_call.is_some() && !how.is_multiple_of(3);
            let usage = (how % 3 == 1).then(|| used(u64::from(how), 7));
            world.check(result, asks.then(|| SubCallUse::new(how.is_multiple_of(2), usage)));
            world
        }
        Command::AskPerson { key, deadline, .. } => {
            let answer = if how.is_multiple_of(2) {
                PersonAnswer::Approved
            } else {
                PersonAnswer::Denied { why: "no".into() }
            };
            let approves = answer == PersonAnswer::Approved;
            let kind = match approves && (world.spec.gate.approvals > 1 || how.is_multiple_of(3)) {
                true => EventKind::ApprovedBy { key, by: world.next_approver(&key), binding: None },
                false => EventKind::PersonAnswered { key, answer, binding: None },
            };
            if deadline.is_none_or(|deadline| Millis(world.now) < deadline) {
                world.apply(kind)
            } else {
                world.apply(EventKind::DeadlineReached)
            };
            world
        }
        Command::Abort { .. } if how.is_multiple_of(4) => world.deadline(),
        Command::Abort { key, attempt } => {
            let reply = EventKind::ModelReplied { key, attempt, reply: reply_to(&world, how).reply().into() };
            if world.try_apply(reply).is_err() {
                world.apply(EventKind::ToolFinished { key, attempt, observation: observed_by(how).into() });
            }
            world
        }
        Command::Save { attempt } => {
            let retry_at = (how % 4 == 1).then(|| Millis(world.now + 30));
            let result = if how.is_multiple_of(4) {
                saved_at("x")
            } else {
                SaveResult::Failed { message: "busy".into(), retry_at }
            };
            world.saved(attempt, result)
        }
    }
}

/// Now and then the shared budget refuses the commanded call: it leaves a part of what the call and the final pass after
/// it may cost, or all of that, which is rejected.
fn refused_elsewhere(world: &World, call: &CallModel, prompt: PromptSize, how: u8) -> Option<EventKind> {
    let quote = world.run.quote(&call.key, prompt).ok().filter(|_| how % 9 == 4)?;
    let needs = quote.reserve.cost.unwrap_or_default().plus(world.run.final_pass_reserve(&call.key, &quote));
    let left = PicoUsd(needs.0 / 8 * u64::from(how / 27));
    let PromptSize { bytes: prompt_bytes, shared_bytes } = prompt;
    let (key, attempt, refusal) = (call.key, call.attempt, Refusal::SharedBudget { left });
    Some(EventKind::CallRefused { key, attempt, prompt_bytes, shared_bytes, refusal })
}

/// The announcement of a read that starts before its reply is complete, if one may.
fn early(world: &World, call: &CallModel, how: u8) -> Option<EventKind> {
    let (nth, reply) = (world.run.eager_reads().len(), native_reply_by(how / 5).reply());
    let next = reply.calls.get(nth)?;
    world.run.eager_read(Millis(world.now), (call.key, call.attempt), &next.name, &next.arguments).ok()
}

/// How a call in flight ends, one way or another.
pub fn settlement(world: &World, call: &CallModel, how: u8) -> EventKind {
    let (key, attempt) = (call.key, call.attempt);
    if how.is_multiple_of(7) {
        let mut failure = failure(how.is_multiple_of(2));
        failure.retry_at = (how.is_multiple_of(4)).then_some(Millis(u64::from(how) * 50));
        failure.partial = (how.is_multiple_of(5)).then(|| "## Situation\nkept\n## Findings\nha".into());
        failure.usage = (how.is_multiple_of(3)).then(|| used(9, 0));
        return EventKind::ModelFailed { key, attempt, failure: failure.into() };
    }
    if key.pass == 0 {
        let selections = json!([
            {"tool": "fetch_device", "params": target(name(how))},
            {"tool": "fetch_docs", "params": target("a")},
            {"tool": "wipe", "params": target("a")},
        ]);
        return EventKind::ModelReplied { key, attempt, reply: text(&selections.to_string()).reply().into() };
    }
    EventKind::ModelReplied { key, attempt, reply: reply_to(world, how).reply().into() }
}

fn name(how: u8) -> &'static str {
    ["a", "b", "c", "d", "e"][usize::from(how) % 5]
}

fn reply_to(world: &World, how: u8) -> DraftReply {
    if world.spec.protocol.properties().native_calls { native_reply_by(how) } else { reply_by(how) }
}

fn native_reply_by(how: u8) -> DraftReply {
    let usage = (!how.is_multiple_of(3)).then(|| used(u64::from(how) * 11, u64::from(how)));
    let to = target(name(how));
    let draft = match how % 13 {
        0 => text("\u{200b}"),
        1 => text("It is done."),
        2 => text("It is do").ending(FinishReason::MaxTokens),
        3 => text("No.").ending(FinishReason::Refusal),
        4 => calls(&[("fetch_device", to), ("fetch_devices", target("a"))]),
        5 => calls(&[("wipe", to.clone()), ("fetch_docs", to.clone()), ("wipe", to)]),
        6 => calls(&[("fetch_device", to.clone()), ("restart", to.clone()), ("fetch_device", to)]),
        7 => calls(&[("nope", to)]).calling("fetch_device", "{").calling("", ""),
        8 => calls(&[("save", to)]),
        9 => calls(&[("fetch_device", to.clone()), ("save", to), ("save", target("last"))]),
        10 => calls(&[("submit", json!({})), ("restart", to)]),
        11 => calls(&[("save", json!({"target": 1})), ("submit", json!({}))]),
        _ => calls(&[("fetch_docs", to)]).ending(FinishReason::Refusal),
    };
    draft.using(usage)
}

fn reply_by(how: u8) -> DraftReply {
    let usage = (!how.is_multiple_of(3)).then(|| used(u64::from(how) * 11, u64::from(how)));
    let draft = match how % 11 {
        0 => text(""),
        1 => text("## Situation\nno contract"),
        2 => draft("high"),
        3 => draft("low").member("refuse", json!("no")),
        4 => draft("medium").asks("fetch_device", target(name(how))).asks("fetch_device", target("a")),
        5 => draft("low").asks("wipe", target(name(how))).asks("fetch_docs", target(name(how))),
        6 => draft("low").asks("restart", target(name(how))).asks("wipe", target("a")),
        7 => bare_draft("low")
            .section("Findings", "[E1] [E9]")
            .asks("fetch_docs", target(name(how)))
            .asks("fetch_docs", target("b")),
        8 => draft("medium").asks("nope", target("a")).asks_as("nice_to_have", "fetch_device", target("z")),
        9 => draft("medium")
            .asks_as("recommended", "fetch_device", target(name(how)))
            .asks("fetch_devices", target("e")),
        _ => text("I cannot.").ending(FinishReason::Refusal),
    };
    draft.using(usage)
}

/// How a tool ends, one way or another.
pub fn observed_by(how: u8) -> loop_core::types::Observation {
    match how % 8 {
        0 => observed(Status::RetryableError),
        1 => observed(Status::PermanentError),
        2 => observed(Status::Timeout),
        3 => observed(Status::Empty),
        4 => observed(Status::InvalidInput),
        5 => {
            let retry_after_ms = Some(u64::from(how) * 20);
            loop_core::types::Observation { retry_after_ms, ..observed(Status::Pending) }
        }
        _ => found(name(how)),
    }
}

/// Something that seldom fits.
fn stray(how: u8) -> EventKind {
    let keys = [
        "0/select",
        "1/main",
        "2/main",
        "1/repair",
        "1/action-0",
        "0/action-1",
        "2/action-0",
        "3/final",
        "1/check",
    ];
    let key = key(keys[usize::from(how) % keys.len()]);
    let attempt = u32::from(how / 64);
    match how % 6 {
        5 => EventKind::Checked { key, attempt, result: CheckResult::Passed, used: None },
        0 => EventKind::ModelReplied { key, attempt, reply: reply_by(how).reply().into() },
        1 => EventKind::ToolFinished { key, attempt, observation: observed_by(how).into() },
        2 => EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, binding: None },
        3 => EventKind::CallStarted {
            key,
            attempt,
            tier: loop_core::types::Tier::Base,
            prompt_bytes: u64::from(how),
            shared_bytes: 0,
            prompt_hash: digest(),
            max_output_tokens: 4_096,
            reserve: loop_core::run::Reserve::default(),
        },
        _ => EventKind::DeadlineReached,
    }
}
