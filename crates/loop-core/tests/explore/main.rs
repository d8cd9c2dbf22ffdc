//! The walk: every reachable state of small runs, breadth first, with every invariant checked on every edge.
//!
//! In a test run a few ways through each alphabet are walked, and with `LOOPGATE_TESTS=full` all of them. `cargo xtask
//! explore` walks further, and prints what was seen.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub
)]

mod alphabet;
mod alphabets;
mod approvals;
mod checks;
mod conversations;
mod early;
mod earned;
mod edge;
mod judged;
mod money;
mod native;
mod oracle;
mod owed;
mod permits;
mod planned;
mod search;
mod shape;
mod strays;
mod trouble;
mod truth;
mod whole;

use loop_core::spec::CostMode;

use alphabet::Alphabet;
use search::{Scope, walk};

/// Walks an alphabet and prints a line about it.
fn explore(alphabet: impl Fn(bool) -> Alphabet, wide_states: usize) {
    let scope = wide(wide_states).unwrap_or_else(narrow);
    explore_within(&alphabet(times().is_some()), scope);
}

fn explore_within(alphabet: &Alphabet, scope: Scope) {
    let walked = walk(alphabet, scope);
    let ends: Vec<String> = walked.ends.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    println!(
        "{:20} {:8} states {:9} edges {:6.1} s  {:2} events deep, {} at most{}  {}",
        alphabet.name,
        walked.states,
        walked.edges,
        walked.seconds,
        walked.depth,
        walked.bound,
        if walked.whole { "" } else { " (cut)" },
        ends.join(", ")
    );
}

/// How many times the states of a wide walk are asked for: one or five; none where it is not to be wide.
#[expect(clippy::disallowed_methods, reason = "the scope of a test is not an input of a run")]
fn times() -> Option<usize> {
    let scope = std::env::var_os("LOOPGATE_EXPLORE")?;
    if scope == "wide" {
        return Some(1);
    }
    (scope == "full").then_some(5)
}

/// How far an alphabet is walked where the walk is wide.
fn wide(states: usize) -> Option<Scope> {
    let times = times()?;
    let stored = if times > 1 { 1 } else { 4 };
    Some(Scope { states: states * times, whole: false, ways: usize::MAX, stored })
}

/// How far an alphabet is walked in a test run.
fn narrow() -> Scope {
    if loop_testkit::is_full() { WHOLE } else { SHARE }
}

/// All there is; more states than a test run has time for are a mistake.
const WHOLE: Scope = Scope { states: 20_000, whole: true, ways: usize::MAX, stored: 8 };
/// A few ways from the start to an end.
const SHARE: Scope = Scope { states: 20_000, whole: false, ways: 8, stored: 8 };
/// States that a wide walk sees of one alphabet.
const MANY: usize = 30_000;

#[test]
fn the_alphabets_reach_every_reason_to_stop() {
    // S0-35, S0-40, S0-57: what a walk must reach is asserted by the walk itself.
    for reason in alphabets::REASONS {
        let reached = alphabets::all().iter().any(|alphabet| alphabet.reaches.contains(&reason));
        assert!(reached, "no alphabet has to reach {reason}");
    }
}

#[test]
fn the_bound_is_a_function_of_the_spec() {
    // I-8: 12 calls, 25 tool calls that are asked again twenty times each, five passes with as many questions, three parts of a
    // request that a provider may refuse, the way out.
    let spec = loop_testkit::run().spec;
    assert_eq!(
        loop_core::invariants::bound(&spec),
        1 + 3 * 12 + (5 + 3 * 20) * 25 + 5 * (1 + 2 * 25) + 2 + 2 * 3 + 2
    );
    println!("a run of the defaults takes {} events at most", loop_core::invariants::bound(&spec));
}

// S0-35, S0-117: one machine owns phases, passes, money, repeats, tiers and the ways out, and gets them right in every
// state that it can come to.

#[test]
fn plain() {
    explore(alphabets::plain, MANY);
}

#[test]
fn verdicts() {
    explore(|_| alphabets::verdicts(), MANY);
}

#[test]
fn tools() {
    explore(|_| alphabets::tools(), MANY);
}

#[test]
fn stops() {
    explore(|_| alphabets::stops(), MANY);
}

#[test]
fn time() {
    explore(alphabets::time, MANY);
}

#[test]
fn routes() {
    explore(|_| alphabets::routes(), MANY);
}

#[test]
fn crashes() {
    explore(|_| alphabets::crashes(), MANY);
}

#[test]
fn cuts() {
    explore(|_| alphabets::cuts(), MANY);
}

#[test]
fn lost_writes() {
    explore(alphabets::lost_writes, MANY);
}

#[test]
fn people() {
    explore(alphabets::people, MANY);
}

#[test]
fn money_strict() {
    explore(|wide| alphabets::money(CostMode::Strict, wide), MANY);
}

#[test]
fn money_estimated() {
    explore(|wide| alphabets::money(CostMode::Estimated, wide), MANY);
}

#[test]
fn money_after() {
    explore(|wide| alphabets::money(CostMode::After, wide), MANY);
}

#[test]
fn money_with_a_cheaper_tier() {
    explore(alphabets::cheaper, MANY);
}

#[test]
fn tokens_strict() {
    explore(|wide| alphabets::tokens(CostMode::Strict, wide), MANY);
}

#[test]
fn tokens_estimated() {
    explore(|wide| alphabets::tokens(CostMode::Estimated, wide), MANY);
}

#[test]
fn tokens_after() {
    explore(|wide| alphabets::tokens(CostMode::After, wide), MANY);
}

#[test]
fn context() {
    explore(alphabets::context, MANY);
}

#[test]
fn selection() {
    explore(alphabets::selection, MANY);
}

#[test]
fn five_passes() {
    explore(alphabets::five_passes, MANY);
}

// S1-14, S1-25, S2-16..18, S2-71..79, C3, C31: conversations and typed outputs in the same machine.

#[test]
fn ordered() {
    explore(conversations::ordered, MANY);
}

#[test]
fn side_by_side() {
    explore(conversations::side_by_side, MANY);
}

#[test]
fn interrupted() {
    explore(|_| conversations::interrupted(), MANY);
}

#[test]
fn consents() {
    explore(|_| conversations::consents(), MANY);
}

#[test]
fn reuse() {
    explore(|_| conversations::reuse(), MANY);
}

#[test]
fn messages() {
    explore(conversations::messages, MANY);
}

#[test]
fn answers_in_time() {
    explore(conversations::answers_in_time, MANY);
}

#[test]
fn outputs() {
    explore(conversations::outputs, MANY);
}

#[test]
fn reflections() {
    explore(conversations::reflections, MANY);
}

#[test]
fn interrupted_outputs() {
    explore(|_| conversations::interrupted_outputs(), MANY);
}

#[test]
fn compaction() {
    explore(conversations::compaction, MANY);
}

// Reads that start before their reply is complete.

#[test]
fn early_in_order() {
    explore(early::in_order, MANY);
}

#[test]
fn early_side_by_side() {
    explore(early::side_by_side, MANY);
}

// S4-9, S4-27, S4-40, S4-57, S4-67, S4-83, S4-84, S3-1..20, C4..C10, K2, K3: judgement.

#[test]
fn breakers() {
    explore(judged::breakers, MANY);
}

#[test]
fn failures() {
    explore(judged::failures, MANY);
}

#[test]
fn escalations() {
    explore(judged::escalations, MANY);
}

#[test]
fn denials() {
    explore(judged::denials, MANY);
}

#[test]
fn polls() {
    explore(judged::polls, MANY);
}

#[test]
fn tainted() {
    explore(judged::tainted, MANY);
}

#[test]
fn read_before() {
    for n in 0..4 {
        explore(|wide| judged::read_before(wide)[n].clone(), MANY);
    }
}

#[test]
fn planned() {
    explore(planned::planned, MANY);
}

#[test]
fn planned_by_the_domain() {
    explore(planned::planned_by_the_domain, MANY);
}

#[test]
fn vouched() {
    explore(judged::vouched, MANY);
}

#[test]
fn vouched_in_turns() {
    explore(judged::vouched_in_turns, MANY);
}

#[test]
fn echoes() {
    explore(judged::echoes, MANY);
}

#[test]
fn echoes_of_people() {
    explore(judged::echoes_of_people, MANY);
}

#[test]
fn questions() {
    explore(judged::questions, MANY);
}

#[test]
fn progress() {
    // Its last pass lies deep.
    explore(judged::progress, 100_000);
}

#[test]
fn three_tier() {
    explore(judged::three_tier, MANY);
}

#[test]
fn demanding() {
    explore(judged::demanding, MANY);
}

#[test]
fn demanding_output() {
    explore(judged::demanding_output, MANY);
}

#[test]
fn steps() {
    explore(judged::steps, MANY);
}

#[test]
fn step_documents() {
    explore(judged::step_documents, MANY);
}

#[test]
fn own_reasons() {
    explore(judged::own_reasons, MANY);
}

// Issue 19, parts 5 and 6: a confidence that has to be earned.

#[test]
fn calibrated() {
    explore(earned::calibrated, MANY);
}

#[test]
fn checks() {
    explore(earned::checks, MANY);
}

#[test]
fn checks_by_software() {
    explore(earned::check_kinds, MANY);
}

#[test]
fn everything() {
    let narrow = || Scope { states: 8_000, whole: false, ..narrow() };
    let (calls, scope) = wide(2 * MANY).map_or_else(|| (2, narrow()), |wide| (3, wide));
    explore_within(&alphabets::everything(calls), scope);
}
