//! The ledger: calls of one reply, stored ledgers, and a naive reading of the rules beside it.

use loop_core::repeats::{
    CallFacts, CallStatus, Fingerprint, Ledger, OtherCalls, RepeatRule, Rules, SettledCall,
};
use loop_core::spec::{GateSettings, Repeats, ToolRepeats};
use loop_core::types::{CommandKey, Digest, EvidenceId, Slot, Status};
use proptest::prelude::*;
use serde_json::json;

/// A call, and what it brings if it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    call: u8,
    is_write: bool,
    status: Status,
    result: u8,
}

#[derive(Clone)]
struct World {
    gate: GateSettings,
    repeats: Repeats,
    ledger: Ledger,
    pass: u32,
    calls: u32,
}

impl World {
    fn new(repeats: Repeats) -> Self {
        Self { gate: GateSettings::default(), repeats, ledger: Ledger::default(), pass: 0, calls: 0 }
    }

    /// One reply: what is said to each call. Those that may run have run afterwards.
    fn reply(&mut self, steps: &[Step]) -> Vec<CallStatus> {
        let rules = Rules::of(&self.gate, self.repeats);
        self.pass += 1;
        let (mut other_calls, mut settled, mut draft) = (OtherCalls::default(), Vec::new(), Vec::new());
        for (n, step) in (0..).zip(steps) {
            let arguments = json!({ "n": format!("{}", char::from(b'a' + step.call)) });
            let tool = if step.is_write { "write" } else { "read" };
            let repeats = ToolRepeats::default();
            let call =
                CallFacts { tool, arguments: &arguments, rules: &repeats, is_read: !step.is_write, tries: 2 };
            let fingerprint = Fingerprint::of(&call, &rules);
            let own = CommandKey::new(self.pass, Slot::Action(n));
            let call_status = self.ledger.call_status(&fingerprint, &rules, &other_calls);
            let run_as = match call_status {
                CallStatus::New => Some((own, 1)),
                CallStatus::Again { key, attempt } => Some((key, attempt)),
                CallStatus::Repeat { .. } | CallStatus::InDoubt => None,
            };
            draft.push(call_status);
            let Some((key, attempt)) = run_as else { continue };
            other_calls.add(&fingerprint, own, /*waits*/ false);
            self.calls += 1;
            self.ledger.started(&fingerprint, key, attempt, EvidenceId(self.calls));
            settled.push(SettledCall {
                signature: fingerprint.signature(),
                key,
                attempt,
                polled: 0,
                status: step.status,
                reported: Digest::of(step.status.name(), &[step.result]),
                ignored: Vec::new(),
                waits: step.status == Status::Pending,
                error: SettledCall::error_of(step.status, &step.result.to_string()),
            });
        }
        self.ledger.settled(&settled, &self.gate.repeat_notes);
        draft
    }
}

fn read(call: u8) -> Step {
    Step { call, is_write: false, status: Status::Ok, result: 0 }
}

fn write(call: u8) -> Step {
    Step { is_write: true, ..read(call) }
}

fn key(text: &str) -> CommandKey {
    text.parse().unwrap()
}

fn names(draft: &[CallStatus]) -> Vec<&'static str> {
    let name = |call_status: &CallStatus| match call_status {
        CallStatus::New => "new",
        CallStatus::Again { .. } => "again",
        CallStatus::Repeat { rule, .. } => rule.as_ref().map_or("repeat", RepeatRule::code),
        CallStatus::InDoubt => "in_doubt",
    };
    draft.iter().map(name).collect()
}

#[track_caller]
fn check(repeats: Repeats, replies: &[(&[Step], &[&str])]) {
    let mut world = World::new(repeats);
    for (n, (steps, expected)) in replies.iter().enumerate() {
        assert_eq!(names(&world.reply(steps)), *expected, "{repeats:?}, reply {n}");
    }
}

#[test]
fn equal_calls_of_one_reply_are_judged_by_each_policy() {
    // S0-118, S0-d8, S2-100
    let twice = [read(0), read(0)];
    check(Repeats::NeverRerun, &[(&twice, &["new", "repeat"]), (&twice, &["repeat", "repeat"])]);
    check(Repeats::ThreeTier, &[(&twice, &["new", "exact_duplicate"])]);
    check(Repeats::Reuse, &[(&twice, &["new", "repeat"]), (&[write(0), read(0)], &["new", "new"])]);
    check(Repeats::Off, &[(&twice, &["new", "new"]), (&twice, &["new", "new"])]);
    // Nothing has come back from the two before it, and a third will hardly tell more.
    let thrice = [read(0), read(0), read(0)];
    check(Repeats::Progress, &[(&thrice, &["new", "new", "exact_duplicate"])]);
    check(Repeats::Progress, &[(&twice, &["new", "new"]), (&twice, &["same_result", "same_result"])]);
    check(Repeats::Progress, &[(&[read(0)], &["new"]), (&twice, &["new", "exact_duplicate"])]);
    // With something changed between them each is worth it.
    let between = [read(0), write(0), read(0), write(1), read(0)];
    check(Repeats::Progress, &[(&between, &["new"; 5])]);
}

#[test]
fn a_repeat_names_the_earlier_call_and_its_evidence() {
    // C5
    let mut world = World::new(Repeats::Progress);
    world.reply(&[read(0), read(1)]);
    world.reply(&[read(1)]);
    let repeat = CallStatus::Repeat {
        of: Some(key("2/action-0")),
        evidence: Some(EvidenceId(3)),
        rule: Some(RepeatRule::SameResult { times: 2, ignored: Vec::new() }),
    };
    assert_eq!(world.reply(&[read(1)]), [repeat]);
    let mut world = World::new(Repeats::NeverRerun);
    let draft = world.reply(&[read(0), read(0)]);
    assert_eq!(draft[1], CallStatus::Repeat { of: Some(key("1/action-0")), evidence: None, rule: None });
}

#[test]
fn a_limit_of_nothing_names_no_call() {
    let mut world = World::new(Repeats::ThreeTier);
    world.gate.three_tier.other = 0;
    let repeat = CallStatus::Repeat { of: None, evidence: None, rule: Some(RepeatRule::Limit { limit: 0 }) };
    assert_eq!(world.reply(&[read(0)]), [repeat]);
}

#[test]
fn a_failure_that_may_pass_keeps_its_key_and_what_stands_beside_it_gets_its_own() {
    // I-6, C26
    for repeats in [Repeats::Progress, Repeats::Off] {
        let mut world = World::new(repeats);
        let failing = Step { status: Status::RetryableError, ..read(0) };
        world.reply(&[failing]);
        let draft = world.reply(&[read(0), read(0)]);
        assert_eq!(
            draft,
            [CallStatus::Again { key: key("1/action-0"), attempt: 2 }, CallStatus::New],
            "{repeats:?}"
        );
    }
}

#[test]
fn a_new_scope_forgets_results_and_keeps_keys_and_doubts() {
    // C6, I-6
    let mut world = World::new(Repeats::NeverRerun);
    let failing = Step { status: Status::Timeout, ..write(1) };
    let lost = Step { status: Status::InDoubt, ..write(2) };
    world.reply(&[read(0), failing, lost]);
    world.ledger.new_scope();
    let draft = world.reply(&[read(0), write(1), write(2)]);
    assert_eq!(draft[..2], [CallStatus::New, CallStatus::Again { key: key("1/action-1"), attempt: 2 }]);
    assert_eq!(draft[2], CallStatus::InDoubt);
    let mut world = World::new(Repeats::Progress);
    world.reply(&[lost]);
    world.ledger.new_scope();
    assert_eq!(world.reply(&[write(2)]), [CallStatus::InDoubt]);
}

#[test]
fn a_cut_off_write_is_not_begun_anew_under_another_key() {
    // I-6: both tries were cut off.
    let cut = Step { status: Status::Timeout, ..write(0) };
    check(Repeats::Progress, &[(&[cut], &["new"]), (&[cut], &["again"]), (&[cut], &["failed_before"])]);
}

// ---- a naive reading of the rules ----

/// What the policy `progress` says to a call after these, by reading the whole history each time: no failures here.
fn naive(history: &[Step], next: Step) -> &'static str {
    let is_same = |step: &Step| (step.call, step.is_write) == (next.call, next.is_write);
    // A changed result is progress: of the call itself always, and of any where nothing but reads was made.
    let is_steady = |round: &[Step]| {
        let reads_only = round.iter().all(|step| !step.is_write);
        let pairs = round.iter().flat_map(|one| round.iter().map(move |other| (one, other)));
        let mut same_calls = pairs.filter(|(a, b)| (a.call, a.is_write) == (b.call, b.is_write));
        same_calls.all(|(a, b)| a.result == b.result || !reads_only && !is_same(a))
    };
    // Two whole rounds at the end, the third of which it would begin.
    let goes_round = |length: &usize| {
        let tail = history.len().checked_sub(2 * length).map(|from| &history[from..]);
        let Some((round, again)) = tail.map(|tail| tail.split_at(*length)) else { return false };
        round == again && is_same(&round[0]) && round.iter().any(|step| !is_same(step)) && is_steady(round)
    };
    if (2..=5_usize).any(|length| goes_round(&length)) {
        return "cycle";
    }
    let times: Vec<usize> = (0..history.len()).filter(|at| is_same(&history[*at])).collect();
    let [.., first, second] = times[..] else { return "new" };
    let changed = |at: usize| {
        let step = history[at];
        let before =
            history[..at].iter().rev().find(|it| (it.call, it.is_write) == (step.call, step.is_write));
        let is_news = before.is_none_or(|before| before.result != step.result);
        // A write that tells something new, and a look at something that is otherwise than it was.
        is_news && (step.is_write || before.is_some()) && !is_same(&step)
    };
    let quiet = (first..history.len()).all(|at| !changed(at));
    if history[first].result == history[second].result && quiet { "same_result" } else { "new" }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..3_u8, any::<bool>(), prop_oneof![4 => Just(0_u8), 1 => 1..3_u8]).prop_map(
        |(call, is_write, result)| Step { result, ..if is_write { write(call) } else { read(call) } },
    );
    prop::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(crate::common::cases(256))]

    #[test]
    fn progress_says_what_a_naive_reading_of_its_rules_says(steps in steps()) {
        let mut world = World::new(Repeats::Progress);
        let mut history: Vec<Step> = Vec::new();
        for step in steps {
            let draft = names(&world.reply(&[step]))[0];
            prop_assert_eq!(draft, naive(&history, step), "{:?} after {:#?}", step, history);
            if draft == "new" {
                history.push(step);
            }
        }
    }

    #[test]
    fn progress_never_refuses_a_call_whose_last_results_differ(steps in steps()) {
        // C4
        let mut world = World::new(Repeats::Progress);
        let mut history: Vec<Step> = Vec::new();
        for step in steps {
            let reported: Vec<u8> = history
                .iter()
                .rev()
                .filter(|it| (it.call, it.is_write) == (step.call, step.is_write))
                .map(|it| it.result)
                .take(2)
                .collect();
            let draft = names(&world.reply(&[step]))[0];
            if draft == "new" {
                history.push(step);
            } else {
                prop_assert!(reported.len() == 2 && reported[0] == reported[1], "{draft}: {step:?} after {history:#?}");
            }
        }
    }

    #[test]
    fn a_call_with_one_result_is_stopped_at_the_third_time(before in steps(), call in 3..6_u8) {
        let mut world = World::new(Repeats::Progress);
        before.iter().for_each(|step| { world.reply(&[*step]); });
        let draft: Vec<_> = (0..3).map(|_| names(&world.reply(&[read(call)]))[0]).collect();
        prop_assert_eq!(draft, ["new", "new", "same_result"]);
    }

    #[test]
    fn what_is_said_to_calls_that_look_does_not_depend_on_their_order(before in steps(), mut calls in prop::collection::vec(0..4_u8, 1..4)) {
        calls.sort_unstable();
        calls.dedup();
        for repeats in [Repeats::Progress, Repeats::NeverRerun, Repeats::Reuse, Repeats::Off] {
            let mut world = World::new(repeats);
            before.iter().for_each(|step| { world.reply(&[*step]); });
            let mut turned = world.clone();
            let forth: Vec<Step> = calls.iter().map(|call| read(*call)).collect();
            let back: Vec<Step> = forth.iter().rev().copied().collect();
            let (mut a, b) = (names(&world.reply(&forth)), names(&turned.reply(&back)));
            a.reverse();
            // Only the first call of a reply can begin a round.
            if !a.contains(&"cycle") && !b.contains(&"cycle") {
                prop_assert_eq!(a, b, "{:?}", repeats);
            }
        }
    }

    #[test]
    fn a_ledger_that_was_stored_decides_as_before(steps in steps(), more in steps()) {
        for repeats in [Repeats::Progress, Repeats::ThreeTier, Repeats::Reuse] {
            let mut world = World::new(repeats);
            steps.chunks(2).for_each(|reply| { world.reply(reply); });
            let mut stored = world.clone();
            let text = serde_json::to_string(&world.ledger).unwrap();
            stored.ledger = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&stored.ledger, &world.ledger);
            for reply in more.chunks(3) {
                prop_assert_eq!(stored.reply(reply), world.reply(reply));
            }
        }
    }
}
