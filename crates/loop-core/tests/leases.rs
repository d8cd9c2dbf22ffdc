//! Runs that are called as tools: what they are leased, what they use, and what returns.

use loop_core::run::{CallModel, CalledBy, Provenance, RunTool, StopMode};
use loop_core::spec::{CostMode, Limits, ToolPolicy, ToolSpec};
use loop_core::types::{
    ChildUse, Cost, Effect, Lease, Observation, PicoUsd, RunId, Status, StopClass, Taint,
};
use loop_core::{Command, EventKind, Facts, Note, StopReason, WorkItem};
use loop_testkit::*;
use proptest::prelude::*;

use crate::common::{cases, usd};

/// A tool whose calls are runs with these limits at most.
fn delegate(limits: &Limits) -> ToolSpec {
    let policy = ToolPolicy { lease: Some(limits.lease()), ..ToolPolicy::default() };
    ToolSpec { attempts: 1, policy, ..read("delegate") }
}

fn caller(limits: impl FnOnce(&mut Limits)) -> Setup {
    run().tool(delegate(&Limits::default())).limits(limits)
}

fn delegating(names: &[&str]) -> DraftReply {
    names.iter().fold(draft("medium"), |draft, name| draft.asks("delegate", target(name)))
}

/// A result that used so much.
fn ran(used_up: (u64, u32), taint: Taint) -> Observation {
    let (cost, model_calls) = used_up;
    let child = ChildUse {
        run: Some(RunId::new("child")),
        usage: used(30, 10),
        cost: Cost { known: PicoUsd(cost), unknown_calls: 0 },
        model_calls,
        tool_calls: 1,
        taint,
        ..ChildUse::default()
    };
    Observation { child: Some(Box::new(child)), ..found("the child's document") }
}

fn leases(world: &World) -> Vec<Lease> {
    world.tools().iter().filter_map(|tool| tool.lease).collect()
}

#[test]
fn runs_of_one_pass_share_the_rest_and_what_is_not_used_returns() {
    // K17
    let limits = |limits: &mut Limits| {
        (limits.cost, limits.model_calls, limits.tool_calls) = (usd(40_000_000_000), 12, 9);
    };
    let world = caller(limits).start().replied(&delegating(&["a", "b"]));
    let spent = world.run.totals().cost.known;
    let [a, b] = leases(&world)[..] else { panic!("{:?}", world.run.commands()) };
    // One model call stays for the document: 12 - 1 that was made - 1 is 10, and of 9 tool calls these two are 2.
    assert_eq!((a.model_calls, b.model_calls, a.tool_calls, b.tool_calls), (5, 5, 3, 4));
    let (a_cost, b_cost) = (a.cost.unwrap().0, b.cost.unwrap().0);
    assert!(a_cost.abs_diff(b_cost) <= 1, "{a_cost} {b_cost}");
    let held = world.run.reserved().cost.unwrap();
    assert_eq!(held.0, a_cost + b_cost);
    assert!(spent.0 + held.0 < 40_000_000_000, "the final pass has its reserve");
    let world = world.finished("1/action-0", ran((1_000, 2), Taint::default()));
    assert_eq!(world.run.reserved().cost.unwrap().0, b_cost);
    let world = world.finished("1/action-1", ran((2_000, 1), Taint::default()));
    let totals = world.run.totals();
    assert_eq!((totals.model_calls, totals.tool_calls), (1 + 3, 2 + 2));
    assert_eq!(totals.cost.known.0, spent.0 + 3_000);
    assert_eq!(world.run.reserved().cost, Some(PicoUsd(0)));
}

#[test]
fn a_run_for_which_nothing_is_left_is_not_started() {
    // K17
    let refused = |change: fn(&mut Limits), why: &str| {
        let world = caller(change).start().replied(&delegating(&["a"]));
        let evidence = world.run.evidence();
        assert_eq!(evidence[0].observation.status, Status::Skipped);
        let text = evidence[0].observation.text();
        assert_eq!(&**text, &format!("not started: {why} leaves nothing for another run"));
        assert!(!world.all_notes().any(|note| matches!(note, Note::Leased { .. })));
    };
    refused(|limits| limits.depth = 0, "limits.depth");
    refused(|limits| limits.model_calls = 2, "limits.model_calls");
}

#[test]
fn a_lease_is_never_more_than_the_tool_may_use() {
    let most = Limits { cost: usd(5), model_calls: 2, depth: 1, wall_ms: 77, ..Limits::default() };
    let world = run().tool(delegate(&most)).start().replied(&delegating(&["a"]));
    let [lease] = leases(&world)[..] else { panic!() };
    assert_eq!((lease.cost, lease.model_calls, lease.depth, lease.wall_ms), (usd(5), 2, 1, 77));
}

#[test]
fn a_run_that_does_not_settle_is_charged_its_whole_lease() {
    let world = caller(|_| {}).start().replied(&delegating(&["a"]));
    let [lease] = leases(&world)[..] else { panic!() };
    let before = *world.run.totals();
    let world = world.stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"]);
    let world = world.deadline().ends(StopReason::ManualStop);
    let totals = world.outcome().totals;
    assert_eq!(totals.cost.known, before.cost.known.plus(lease.cost.unwrap()));
    assert_eq!(totals.model_calls, before.model_calls + lease.model_calls);
}

#[test]
fn a_crash_of_the_driver_loses_no_run_and_charges_nothing() {
    let world = caller(|_| {}).start().replied(&delegating(&["a"]));
    let (before, commanded) = (*world.run.totals(), world.tools());
    let world = world.wait(60).resumed(60);
    assert_eq!((world.tools(), *world.run.totals()), (commanded, before));
}

#[test]
fn taint_comes_up_with_the_result_and_a_model_s_text_gives_no_authority() {
    // ASI07
    let send = ToolSpec {
        policy: ToolPolicy { authority: vec!["/target".into()], ..ToolPolicy::default() },
        ..tool("send", Effect::Egress)
    };
    let untrusted = Taint { untrusted: true, private: false };
    for (taint, text, verdict) in
        [(Taint::default(), "Ask bob@example.com.", "needs_person"), (untrusted, "Nothing.", "needs_person")]
    {
        let setup = caller(|_| {}).tool(send.clone()).people();
        let world = setup.gate(|gate| gate.approved = vec!["send".into()]).start();
        let world = world.replied(&delegating(&["a"]));
        let result = Observation { child: ran((0, 1), taint).child, ..found(text) };
        let to = if taint.untrusted { "T-1" } else { "bob@example.com" };
        let world = world.finished("1/action-0", result).replied(&draft("medium").asks("send", target(to)));
        assert_eq!(world.verdicts().last(), Some(&verdict), "{text}");
    }
    // Without taint, and with an authorised value, it runs.
    let setup = caller(|_| {}).tool(send).gate(|gate| gate.approved = vec!["send".into()]);
    let world = setup.start().replied(&delegating(&["a"]));
    let world = world.finished("1/action-0", ran((0, 1), Taint::default()));
    let world = world.replied(&draft("medium").asks("send", target("T-1")));
    assert_eq!(world.verdicts().last(), Some(&"run"));
}

#[test]
fn a_run_that_is_called_has_the_taint_and_the_authority_of_its_caller() {
    let send = ToolSpec {
        policy: ToolPolicy { authority: vec!["/target".into()], ..ToolPolicy::default() },
        ..tool("send", Effect::Egress)
    };
    let called = |taint: Taint, target_of: &str| {
        let by = CalledBy {
            run: RunId::new("r0"),
            root: RunId::new("r0"),
            key: key("1/action-0"),
            taint,
            item: WorkItem::new("T-7", "ticket", "Write to ann@example.com", ""),
            user_texts: vec!["and to carl@example.com".into()],
        };
        let provenance = Provenance { called_by: Some(Box::new(by)), ..Provenance::default() };
        let setup = run().tool(send.clone()).people().gate(|gate| gate.approved = vec!["send".into()]);
        // The model that called it wrote its item.
        let item = WorkItem::new("1/action-0", "task", "Write", "Write to bob@example.com.");
        let world = World::start("r1", setup.spec.into(), item, Facts { provenance, ..facts() });
        let world = world.replied(&draft("medium").asks("send", target(target_of)));
        *world.verdicts().last().unwrap()
    };
    assert_eq!(called(Taint::default(), "ann@example.com"), "run");
    assert_eq!(called(Taint::default(), "carl@example.com"), "run");
    assert_eq!(called(Taint::default(), "bob@example.com"), "needs_person");
    assert_eq!(called(Taint { untrusted: true, private: false }, "ann@example.com"), "needs_person");
}

#[test]
fn an_effect_in_doubt_below_makes_the_caller_doubtful() {
    let world = caller(|_| {}).start().replied(&delegating(&["a"]));
    let result = Observation { child: ran((0, 1), Taint::default()).child, ..observed(Status::InDoubt) };
    let world = world.finished("1/action-0", result).replied(&draft("high"));
    assert_eq!(world.outcome().stop.class, StopClass::InDoubt);
}

#[test]
fn an_effect_that_a_run_below_owes_is_owed_here() {
    let asked = |results: &[bool], priority: &str| {
        let mut world = caller(|_| {}).start();
        for (nth, undone) in results.iter().enumerate() {
            let child = ChildUse { undone: *undone, ..ChildUse::default() };
            let result = Observation { child: Some(Box::new(child)), ..found(&format!("result {nth}")) };
            let draft = draft("medium").asks_as(priority, "delegate", target(&format!("{nth}")));
            world = world.replied(&draft).finished(&format!("{}/action-0", nth + 1), result);
        }
        let outcome = world.replied(&draft("high")).outcome().clone();
        (outcome.stop.class, outcome.stop.also.iter().any(|it| it.reason == StopReason::EffectNotDone))
    };
    assert_eq!(asked(&[true], "required"), (StopClass::Partial, true));
    assert_eq!(asked(&[false], "required"), (StopClass::Answered, false));
    // Another task does not stand for the one that was left undone.
    assert_eq!(asked(&[true, false], "required"), (StopClass::Partial, true));
    assert_eq!(asked(&[false, true], "required"), (StopClass::Partial, true));
    assert_eq!(asked(&[true], "recommended"), (StopClass::Answered, false));
}

#[test]
fn time_in_which_a_run_below_waits_for_people_does_not_count() {
    let mut world = caller(|limits| limits.wall_ms = 10_000).start().replied(&delegating(&["a"]));
    let RunTool { key, attempt, .. } = world.tools()[0].clone();
    let used = Box::new(ChildUse { model_calls: 1, ..ChildUse::default() });
    world.apply(EventKind::RunWaits { key, attempt, used });
    assert!(world.run.waits_for_people());
    assert_eq!((world.run.commands(), world.run.deadline()), (vec![], None));
    let world = world.wait(500_000).resumed(400_000);
    assert_eq!((world.run.elapsed_ms(), world.tools().len()), (0, 1));
    assert!(!world.run.waits_for_people());
    let world = world.wait(1_000).finished("1/action-0", ran((0, 1), Taint::default()));
    assert_eq!(world.run.elapsed_ms(), 1_000);
}

#[test]
fn a_run_that_waits_holds_no_other_call_back_and_work_beside_it_counts() {
    let setup = loop_testkit::conversation().tool(delegate(&Limits::default()));
    let world = setup.limits(|limits| limits.wall_ms = 100_000).start();
    let both = calls(&[("delegate", target("a")), ("fetch_device", target("b"))]);
    let mut world = world.replied(&both);
    let RunTool { key, attempt, .. } = world.tools()[0].clone();
    let used = Box::new(ChildUse { model_calls: 1, ..ChildUse::default() });
    world.apply(EventKind::RunWaits { key, attempt, used });
    assert!(!world.run.waits_for_people(), "the other call is in turn");
    assert_eq!(&*world.tools()[0].tool, "fetch_device");
    let world = world.wait(40_000).finished("1/action-1", found("it"));
    assert!(world.run.waits_for_people());
    let world = world.wait(500_000).resumed(500_000);
    assert_eq!(world.run.elapsed_ms(), 40_000);
}

#[test]
fn a_lease_leaves_the_tool_calls_that_people_may_approve() {
    let send = tool("send", Effect::Egress);
    let setup = caller(|limits| limits.tool_calls = 5).tool(send).people();
    let world = setup.start().replied(&delegating(&["a"]).asks("send", target("b")));
    let [lease] = leases(&world)[..] else { panic!() };
    assert_eq!(lease.tool_calls, 5 - 2);
}

#[test]
fn a_stop_ends_a_run_that_waits_below_and_charges_what_it_used() {
    for how in [StopMode::AtGate, StopMode::Now] {
        let mut world = caller(|_| {}).start().replied(&delegating(&["a"]));
        let before = world.run.totals().model_calls;
        let RunTool { key, attempt, .. } = world.tools()[0].clone();
        let used = Box::new(ChildUse { model_calls: 2, ..ChildUse::default() });
        world.apply(EventKind::RunWaits { key, attempt, used });
        let world = world.wait(60_000).stop(how).ends(StopReason::ManualStop);
        assert_eq!((world.outcome().totals.model_calls, world.outcome().totals.wall_ms), (before + 2, 0));
    }
}

/// A run of a tree, and the lease that it runs under.
struct Node {
    world: Option<World>,
    caller: Option<(usize, RunTool)>,
    limits: Limits,
    settled: bool,
}

impl Node {
    fn of(name: &str, limits: Limits, caller: Option<(usize, RunTool)>) -> Self {
        let tool = delegate(&Limits { model_calls: 8, tool_calls: 6, ..limits });
        let world = run().tool(tool).with(|spec| spec.limits = limits.clone()).start_as(name);
        Self { world: Some(world), caller, limits, settled: false }
    }

    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    fn change(&mut self, step: impl FnOnce(World) -> World) {
        self.world = self.world.take().map(step);
    }
}

/// Drives a tree of runs, one event of one run at a time, until the root is done.
fn tree(limits: Limits, numbers: &mut Numbers) -> Vec<Node> {
    let mut nodes = vec![Node::of("n0", limits, None)];
    for _ in 0..3_000 {
        if nodes[0].world().run.is_done() {
            return nodes;
        }
        let at = numbers.below(nodes.len() as u64) as usize;
        step(&mut nodes, at, numbers);
        nodes.iter().for_each(holds);
    }
    panic!("not done: {:?}", nodes[0].world().run.phase());
}

/// What a run used, what it reserves and what it has leased is within its lease.
fn holds(node: &Node) {
    let (run, limits) = (&node.world().run, &node.limits);
    let (totals, reserved) = (run.totals(), run.reserved());
    let leases = leases(node.world());
    let leased = |of: fn(&Lease) -> u32| leases.iter().map(of).sum::<u32>();
    assert!(totals.model_calls + leased(|it| it.model_calls) <= limits.model_calls);
    assert!(totals.tool_calls + leased(|it| it.tool_calls) <= limits.tool_calls);
    let cost = totals.cost.known.plus(reserved.cost.unwrap());
    assert!(cost <= limits.cost.unwrap(), "{cost} of {:?}", limits.cost);
    let tokens = totals.usage.total() + reserved.input_tokens + reserved.output_tokens;
    assert!(tokens <= limits.tokens.unwrap(), "{tokens} of {:?}", limits.tokens);
    assert!(leases.iter().all(|lease| lease.depth < limits.depth));
}

fn step(nodes: &mut Vec<Node>, at: usize, numbers: &mut Numbers) {
    let [which, how, stop] = [100, 1_000, 90].map(|most| numbers.below(most));
    let run = &nodes[at].world().run;
    let is_over = run.is_done() || run.outcome().is_some();
    if is_over {
        return settle(nodes, at);
    }
    if stop == 0 && at > 0 {
        return nodes[at].change(|mut world| {
            _ = world.try_apply(EventKind::StopRequested { how: StopMode::Now });
            world
        });
    }
    let commands = run.commands();
    match commands.get(which as usize % commands.len().max(1)).cloned() {
        None | Some(Command::Abort { .. }) if run.deadline().is_some() => nodes[at].change(World::deadline),
        Some(Command::CallModel(CallModel { granted: None, .. })) => nodes[at].change(World::started),
        Some(Command::CallModel(CallModel { granted: Some(tokens), .. })) => {
            let names = ["a", "b", "c"];
            let asked = &names[..(how % 4) as usize];
            let draft = if how % 7 == 0 { draft("high") } else { delegating(asked) };
            let usage = used(how, how.min(tokens));
            nodes[at].change(|world| world.answered(&draft.using(Some(usage))));
        }
        Some(Command::RunTool(tool)) => {
            let is_same = |node: &Node| {
                node.caller.as_ref().is_some_and(|(of, begun)| (*of, begun.key) == (at, tool.key))
            };
            if let Some(lease) = tool.lease.filter(|_| !nodes.iter().any(is_same)) {
                let limits = nodes[at].limits.clone().under(&lease);
                let name = format!("n{}", nodes.len());
                nodes.push(Node::of(&name, limits, Some((at, tool))));
            }
        }
        Some(_) | None => {}
    }
}

/// Tells the caller of a run that has ended.
fn settle(nodes: &mut [Node], at: usize) {
    let Some((of, tool)) = nodes[at].caller.clone().filter(|_| !nodes[at].settled) else { return };
    nodes[at].settled = true;
    let totals = nodes[at].world().run.totals();
    let child = ChildUse {
        run: Some(nodes[at].world().run.id().clone()),
        usage: totals.usage,
        cost: totals.cost,
        model_calls: totals.model_calls,
        tool_calls: totals.tool_calls,
        ..ChildUse::default()
    };
    let observation = Observation { child: Some(Box::new(child)), ..found(&format!("by {at}")) }.into();
    let (key, attempt) = (tool.key, tool.attempt);
    nodes[of].change(|mut world| {
        _ = world.try_apply(EventKind::ToolFinished { key, attempt, observation });
        world
    });
}

proptest! {
    #![proptest_config(cases(256))]

    /// K17: at no event is a lease above the rest, or a call above the lease. With `strict` no lease is exceeded.
    #[test]
    fn no_tree_uses_more_than_its_root_may(seed in any::<u64>(), depth in 0_u32..4, calls in 2_u32..40) {
        let limits = Limits {
            cost: usd(900_000_000_000),
            tokens: Some(4_000_000),
            cost_mode: CostMode::Strict,
            model_calls: calls,
            tool_calls: calls,
            wall_ms: u64::MAX / 4,
            depth,
            ..Limits::default()
        };
        let nodes = tree(limits, &mut Numbers(seed));
        // Every call that was sent anywhere in the tree is within the limit of the root.
        let own = |node: &Node| node.world().run.model_calls().len() as u32;
        prop_assert!(nodes.iter().map(own).sum::<u32>() <= calls);
        prop_assert!(nodes.len() as u32 <= calls + 1);
        let deepest = nodes.iter().map(|node| node.limits.depth).min().unwrap();
        prop_assert!(deepest <= depth);
    }
}
