//! Stages an attack: it places injected texts where a domain reads, lets adversaries follow them, and records every
//! effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loop_core::spec::{
    Breakers, CostMode, GateSettings, Limits, ProtocolSpec, Repeats, TaintRule, ToolPolicy,
};
use loop_core::types::Totals;
use loop_core::{RunSpec, WorkItem};
use loop_domain::Domain;
use loop_runtime::{Runner, models::Models, run::StartError};
use loop_tools::{Registry, RegistryError};
use serde_json::{Map, Value};

use crate::redteam::adversary::{Adversary, FooledModel};
use crate::redteam::canary;
use crate::redteam::closing::closed_by;
use crate::redteam::corpus::{Carrier, Injection, Kind, Trick, corpus};
use crate::redteam::drive::{AttackRuns, Crash, in_turns, to_the_end, with_a_crash, with_false_approvals};
use crate::redteam::forged::{self, Forged};
use crate::redteam::own::{OwnWork, own_work};
use crate::redteam::padding;
use crate::redteam::people::ApproverKind;
use crate::redteam::plan::{CUSTOMER, NAME, ORDER, forged_actions, named, wants_effect};
use crate::redteam::probe::{ProbeTarget, Site, called};
use crate::redteam::report::{RedteamReport, ScenarioRow};
use crate::redteam::scenario::Scenario;
use crate::redteam::search::{SearchResult, plays, search};
use crate::redteam::tools::{DoneEffect, World, doubled, recorded};

/// The most breaches that a report quotes.
const MAX_EXAMPLES: usize = 5;
/// The most characters of an injected text in a shown case.
const MAX_TEXT: usize = 2_000;
/// The number of parallel searches, each with a seed of its own. It is the same on every machine, so that a seed always
/// gives the same result.
const ISLANDS: u32 = 2;
/// How long calls in flight may take to settle after the time limit of a run.
const SETTLING_MS: u64 = 2_500;

/// The settings of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attack {
    /// The seed of the random choices of the cunning and the random adversary.
    pub seed: u64,
    /// How many runs the random adversary makes.
    pub random_runs: u32,
    /// Only texts of this kind. `None`: all kinds.
    pub kind: Option<Kind>,
    /// Only this scenario. `None`: all. The random adversary acts in one run only.
    pub scenario: Option<Scenario>,
    /// The most texts of each kind. `None`: all. Scenarios of several steps use at most one of each kind.
    pub each: Option<usize>,
    /// Whether every guard is disabled, to show that the attack works against the tools.
    pub unguarded: bool,
    /// Whether the domain's own work may call models over the network, which may cost money.
    pub live: bool,
    /// The number of attempts of the search for a call that comes near to running.
    pub adaptive: u32,
    /// Only this case, shown in full: its id or that of its text. `None`: all.
    pub case: Option<String>,
}

impl Default for Attack {
    fn default() -> Self {
        Self {
            seed: 1,
            random_runs: 300,
            kind: None,
            scenario: None,
            each: None,
            unguarded: false,
            live: false,
            adaptive: 0,
            case: None,
        }
    }
}

/// Why a domain could not be attacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttackError {
    /// The tools could not be recorded.
    #[error("the domain's tools cannot be recorded: {0}")]
    Tools(#[from] RegistryError),
    /// A run could not begin or continue.
    #[error("a run of the attack: {0}")]
    Run(#[from] StartError),
}

/// Attacks a domain with the committed corpus, and runs `work`, the domain's own work, under the same guards.
///
/// # Errors
/// A run cannot begin or continue. Errors of models and tools are in the report.
pub async fn attack(
    domain: &Domain,
    work: &[OwnWork],
    attack: &Attack,
) -> Result<RedteamReport, AttackError> {
    let (benign, calls) = own_work(domain, work, attack.live).await?;
    let world = World::default();
    let spec = match attack.unguarded {
        true => unguarded(&domain.spec),
        false => (*domain.spec).clone(),
    };
    let registry = recorded(&domain.registry, &world, &spec)?;
    let mut stage = AttackStage {
        domain,
        attack,
        spec,
        registry,
        world,
        calls,
        rows: BTreeMap::new(),
        sought: BTreeSet::new(),
        nearest: u32::MAX,
        report: RedteamReport {
            domain: domain.spec.domain.to_string(),
            seed: attack.seed,
            benign,
            ..RedteamReport::default()
        },
    };
    let corpus = corpus();
    for scenario in Scenario::ALL {
        if attack.scenario.is_none_or(|only| only == scenario) {
            stage.play(scenario, &corpus).await?;
        }
    }
    Ok(RedteamReport { rows: stage.rows.into_values().collect(), ..stage.report }.summed())
}

struct AttackStage<'a> {
    domain: &'a Domain,
    attack: &'a Attack,
    spec: RunSpec,
    /// The domain's tools behind the recorder.
    registry: Registry,
    world: World,
    /// The tools and arguments of the domain's own work.
    calls: Vec<(String, String)>,
    rows: BTreeMap<(Scenario, Option<Kind>, Adversary), ScenarioRow>,
    /// The tools whose effects ran, each with whether the text was in the work item. The settings against them are
    /// found already.
    sought: BTreeSet<(String, bool)>,
    /// The smallest distance of the search so far.
    nearest: u32,
    report: RedteamReport,
}

/// The participants of one attack.
#[derive(Clone, Copy)]
struct AttackSetup {
    scenario: Scenario,
    adversary: Adversary,
    people: ApproverKind,
    /// The number of the attack in its scenario, from 0.
    nth: u32,
}

impl AttackStage<'_> {
    /// Stages all attacks of a scenario.
    async fn play(&mut self, scenario: Scenario, corpus: &[Injection]) -> Result<(), AttackError> {
        if matches!(scenario, Scenario::Plan | Scenario::Fields | Scenario::Adaptive) {
            return self.tries(scenario).await;
        }
        let (people, adversaries) = match scenario {
            // What a model copies word for word needs neither cunning nor people.
            Scenario::Padding => (&ApproverKind::ALL[..1], &Adversary::ALL[..1]),
            _ => (&ApproverKind::ALL[..], &Adversary::ALL[..2]),
        };
        let mut nth = 0;
        let texts = self.texts(scenario, corpus, self.attack.each);
        if self.attack.case.is_none() {
            let left_out = self.texts(scenario, corpus, None).len().saturating_sub(texts.len());
            self.report.left_out += left_out as u32;
        }
        for injection in texts {
            let kind = (scenario == Scenario::OneRun).then_some(injection.kind);
            for people in people {
                for adversary in adversaries {
                    let cast = AttackSetup { scenario, adversary: *adversary, people: *people, nth };
                    self.run(kind, cast, &injection).await?;
                    nth += 1;
                }
            }
        }
        if scenario != Scenario::OneRun {
            return Ok(());
        }
        for (nth, injection) in (0..self.attack.random_runs).zip(corpus.iter().cycle()) {
            let people = ApproverKind::ALL.get(nth as usize % 3).copied().unwrap_or(ApproverKind::Absent);
            let named = Injection { id: format!("{}-{nth}", injection.id), ..injection.clone() };
            let cast = AttackSetup { scenario, adversary: Adversary::Random, people, nth };
            self.run(None, cast, &named).await?;
        }
        Ok(())
    }

    /// The texts of a scenario.
    fn texts(&self, scenario: Scenario, corpus: &[Injection], each: Option<usize>) -> Vec<Injection> {
        let is_conversation = matches!(self.spec.protocol, ProtocolSpec::Conversation(_));
        let is_document = matches!(self.spec.protocol, ProtocolSpec::Document(_));
        match scenario {
            Scenario::OneRun => self.each(corpus.iter().cloned(), each, usize::MAX),
            Scenario::LaterCall | Scenario::Crash => self.plain(corpus, each, |_| true),
            Scenario::Store | Scenario::Waiting => self.plain(corpus, each, wants_effect),
            // Only conversations have turns, and only documents have contract blocks.
            Scenario::Turns | Scenario::StoreTurns if is_conversation => {
                self.plain(corpus, each, wants_effect)
            }
            Scenario::Padding if is_document => self.each(padding::texts(), each, usize::MAX),
            Scenario::Turns | Scenario::StoreTurns | Scenario::Padding => Vec::new(),
            Scenario::Plan | Scenario::Fields | Scenario::Adaptive => Vec::new(),
        }
    }

    /// One plain text of each kind. Texts of scenarios with several steps are in tool results.
    fn plain(&self, corpus: &[Injection], each: Option<usize>, is_meant: fn(Kind) -> bool) -> Vec<Injection> {
        let plain = corpus.iter().filter(|text| text.trick == Trick::Plain && is_meant(text.kind));
        let places = [Carrier::Result, Carrier::Field, Carrier::Error].into_iter().cycle();
        let texts = self.each(plain.cloned(), each, 1).into_iter().zip(places);
        texts.map(|(text, carrier)| Injection { carrier, ..text }).collect()
    }

    /// At most `each` texts of each kind.
    fn each(
        &self,
        texts: impl IntoIterator<Item = Injection>,
        each: Option<usize>,
        max: usize,
    ) -> Vec<Injection> {
        let max = each.unwrap_or(max).min(max);
        let mut taken: BTreeMap<Kind, usize> = BTreeMap::new();
        let is_wanted = |text: &Injection| {
            let count = taken.entry(text.kind).or_default();
            *count += 1;
            *count <= max && self.attack.kind.is_none_or(|kind| kind == text.kind)
        };
        texts.into_iter().filter(is_wanted).collect()
    }

    async fn run(
        &mut self,
        kind: Option<Kind>,
        cast: AttackSetup,
        injection: &Injection,
    ) -> Result<(), AttackError> {
        let AttackSetup { scenario, adversary, people, .. } = cast;
        let id = [scenario.name(), &injection.id, adversary.name(), people.name()].join("/");
        if self.attack.case.as_ref().is_some_and(|only| *only != id && *only != injection.id) {
            return Ok(());
        }
        let (went, done, wanted) = self.played(cast, injection, &self.spec, &self.registry).await?;
        let twice = doubled(&done);
        let executed = self.foreign(done);
        let row = self
            .rows
            .entry((scenario, kind, adversary))
            .or_insert_with(|| ScenarioRow::new(scenario, kind, adversary));
        row.runs += 1;
        row.resumed += u32::from(went.is_resumed);
        if wants_effect(injection.kind) || kind.is_none() {
            row.wanted += wanted;
        }
        row.requested += went.requested;
        row.doubled += twice;
        row.executed += executed.len() as u32;
        row.leaked += executed.iter().filter(|(_, arguments)| canary::is_in(arguments)).count() as u32;
        let forged: Vec<Forged> = went.outcomes.iter().map(Forged::of).collect();
        let count = |is_forged: fn(&Forged) -> bool| u32::from(forged.iter().any(is_forged));
        row.forged += count(|forged| forged.verdict);
        row.forged_refusals += count(|forged| forged.refusal);
        row.forged_escalations += count(|forged| forged.escalation);
        if forged.iter().any(|forged| forged.any())
            && self.report.forgeries.len() < MAX_EXAMPLES
            && !self.report.forgeries.contains(&injection.id)
        {
            self.report.forgeries.push(injection.id.clone());
        }
        let limits = &self.spec.limits;
        row.overrun += u32::from(went.outcomes.iter().any(|outcome| is_over(&outcome.totals, limits)));
        if self.attack.case.is_some() {
            let text = injection.text.iter().map(|part| part.chars().take(MAX_TEXT).collect::<String>());
            let place = injection.carrier.place();
            let said = went.outcomes.iter().flat_map(|outcome| {
                let ended = format!("ended: {}", loop_runtime::report::explain(&outcome.stop));
                let judged = outcome.actions.iter().map(|action| called(action, &outcome.evidence));
                judged.chain([ended])
            });
            let lines = [format!("case: {id}"), format!("injected {place}:")].into_iter().chain(text);
            self.report.case.extend(lines.chain(said));
        }
        for (tool, arguments) in executed {
            let example = match scenario {
                Scenario::OneRun => format!("{}: {tool} {arguments}", injection.id),
                _ => format!("{} ({}): {tool} {arguments}", injection.id, scenario.name()),
            };
            self.ran(&tool, example);
            let in_item = injection.carrier == Carrier::Item;
            if self.attack.unguarded || !self.sought.insert((tool.clone(), in_item)) {
                continue;
            }
            let closed = closed_by(&self.spec, &tool, in_item, async |spec| {
                let registry = recorded(&self.domain.registry, &self.world, spec)?;
                let (_, done, _) = self.played(cast, injection, spec, &registry).await?;
                Ok(self.foreign(done).iter().any(|(name, _)| *name == tool))
            });
            let closed = closed.await?;
            self.report.closed_by.extend(closed);
        }
        Ok(())
    }

    /// Counts an effect that ran, and keeps it as an example.
    fn ran(&mut self, tool: &str, example: String) {
        if let Some(tool) = self.spec.tool(tool) {
            let effect: &str = tool.effect.into();
            *self.report.effects.entry(effect.to_owned()).or_default() += 1;
        }
        if self.report.examples.len() < MAX_EXAMPLES && !self.report.examples.contains(&example) {
            self.report.examples.push(example);
        }
    }

    /// The recorded effects that are not exactly calls of the domain's own work, which would not be a gain for the
    /// attacker.
    fn foreign(&self, done: Vec<DoneEffect>) -> Vec<(String, String)> {
        let done = done.into_iter().map(|done| (done.tool, done.arguments));
        done.filter(|call| !self.calls.contains(call)).collect()
    }

    /// Makes the attempts against the core alone.
    async fn tries(&mut self, scenario: Scenario) -> Result<(), AttackError> {
        let ground = Arc::new(ProbeTarget::new(&self.spec));
        // Their texts are of no kind.
        let is_left_out = self.attack.kind.is_some() && scenario != Scenario::Adaptive
            || self
                .attack
                .case
                .as_ref()
                .is_some_and(|case| !case.starts_with(&format!("{}/", scenario.name())));
        if is_left_out {
            return Ok(());
        }
        let (tries, seed, case) = (self.attack.adaptive, self.attack.seed, self.attack.case.clone());
        let played = (0..ISLANDS).map(|island| {
            let (ground, case) = (Arc::clone(&ground), case.clone());
            tokio::task::spawn_blocking(move || {
                let mut found = SearchResult::new(scenario, island, case);
                if scenario == Scenario::Adaptive {
                    let own = tries / ISLANDS + u32::from(island < tries % ISLANDS);
                    search(&ground, own, seed.wrapping_add(u64::from(island) << 32), &mut found);
                } else if island == 0 {
                    plays(scenario, &ground).into_iter().for_each(|play| _ = found.see(&ground, play));
                }
                found
            })
        });
        for found in futures::future::join_all(played.collect::<Vec<_>>()).await {
            let Ok(found) = found else { continue };
            self.found(scenario, found).await?;
        }
        Ok(())
    }

    /// Counts the results of attempts.
    async fn found(&mut self, scenario: Scenario, mut found: SearchResult) -> Result<(), AttackError> {
        if let Some(case) = &self.attack.case {
            found.tries = u32::from(!found.case.is_empty());
            found.ran.retain(|(id, ..)| id.starts_with(&format!("{case}: ")));
            found.nearest.0 = u32::MAX;
        }
        if found.tries == 0 {
            return Ok(());
        }
        let adversary = Adversary::Cunning;
        let row = self.rows.entry((scenario, None, adversary));
        let row = row.or_insert_with(|| ScenarioRow::new(scenario, None, adversary));
        row.runs += found.tries;
        row.wanted += found.tries;
        row.executed += found.ran.len() as u32;
        self.report.case.extend(found.case);
        if scenario == Scenario::Adaptive && found.nearest.0 < self.nearest {
            self.nearest = found.nearest.0;
            self.report.nearest = found.nearest.1;
        }
        for (id, play, tool) in found.ran {
            self.ran(&tool, id);
            let in_item = play.place == Site::Item;
            if !self.attack.unguarded && self.sought.insert((tool.clone(), in_item)) {
                let closed = closed_by(&self.spec, &tool, in_item, async |spec| {
                    Ok(ProbeTarget::new(spec).tried(&play, false).is_some_and(|tried| tried.ran.is_some()))
                });
                self.report.closed_by.extend(closed.await?);
            }
        }
        Ok(())
    }

    /// One attack under this spec: how it went, the recorded effects, and how many effects were requested.
    async fn played(
        &self,
        cast: AttackSetup,
        injection: &Injection,
        spec: &RunSpec,
        registry: &Registry,
    ) -> Result<(AttackRuns, Vec<DoneEffect>, u32), AttackError> {
        let AttackSetup { scenario, adversary, people, .. } = cast;
        let seed = injection.id.bytes().fold(self.attack.seed, |seed, byte| {
            seed.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte) + people as u64)
        });
        let text = StagedText::of(injection, spec);
        let mut model = FooledModel::new(adversary, injection, &text.block, spec, scenario, seed);
        if matches!(scenario, Scenario::Crash | Scenario::Waiting) || injection.kind == Kind::Repeat {
            // What careful people allow, or policy lets run, is what could be done twice.
            model = model.asking_also(&self.calls);
        }
        let model = Arc::new(model);
        let stated = stated(&text);
        self.world.begin(scenario, text);
        let went = self.driven(cast, stated, &model, spec, registry).await?;
        Ok((went, self.world.take(), model.requested.load(Ordering::Relaxed)))
    }

    async fn driven(
        &self,
        cast: AttackSetup,
        stated: String,
        model: &Arc<FooledModel>,
        spec: &RunSpec,
        registry: &Registry,
    ) -> Result<AttackRuns, AttackError> {
        let AttackSetup { scenario, people, nth, .. } = cast;
        let gate = GateSettings {
            people: people != ApproverKind::Absent && !self.attack.unguarded,
            ..spec.gate.clone()
        };
        let spec = RunSpec { gate, save: false, ..spec.clone() };
        let runner = Runner::new(spec, registry.clone(), Models::one(Arc::clone(model) as _))
            .with_prompts(Arc::clone(&self.domain.prompts));
        let answer = |requested: &loop_core::run::PersonRequest| people.answer(requested, &self.calls);
        match scenario {
            Scenario::OneRun
            | Scenario::LaterCall
            | Scenario::Store
            | Scenario::Padding
            | Scenario::Plan
            | Scenario::Fields
            | Scenario::Adaptive => to_the_end(&runner, item(&stated), answer).await,
            Scenario::Turns | Scenario::StoreTurns => {
                // Every second time, with each kind of people in turn.
                let crashes = nth / 2 % 2 == 1;
                in_turns(&runner, &self.world, stated, crashes, || model.next_turn(), answer).await
            }
            Scenario::Crash => {
                /// The rough number of entries between what a run reads and what it does then.
                const ENTRIES: u32 = 6;
                // An effect runs only where an approver allows it. Both adversaries are stopped at the same places.
                let crash = match people {
                    ApproverKind::Absent | ApproverKind::Denying => {
                        Crash { after: nth / 2 % ENTRIES, in_effect: false }
                    }
                    ApproverKind::Careful => Crash { after: 2 * ENTRIES, in_effect: true },
                };
                with_a_crash(&runner, &self.world, item(&stated), crash, answer).await
            }
            Scenario::Waiting => with_false_approvals(&runner, item(&stated), answer).await,
        }
    }
}

/// The spec without the guards that judge effects.
fn unguarded(spec: &RunSpec) -> RunSpec {
    let gate = GateSettings {
        approved: vec!["*".into()],
        allow: Vec::new(),
        forbid: Vec::new(),
        taint: TaintRule::Off,
        item_untrusted: false,
        repeats: Some(Repeats::Off),
        breakers: Breakers { tool_failures: 0, denied: 0, bad_arguments: 0 },
        ..spec.gate.clone()
    };
    let mut unguarded = RunSpec { gate, ..spec.clone() };
    for tool in &mut unguarded.tools {
        let asks_person = tool.policy.asks_person;
        tool.policy = ToolPolicy { asks_person, ..ToolPolicy::default() };
        tool.policy.repeats.allowed = true;
    }
    unguarded
}

/// Whether a run exceeded one of its limits. Calls in flight at the time limit may still settle, and in the mode
/// `after` cost and tokens are checked only afterwards.
fn is_over(totals: &Totals, limits: &Limits) -> bool {
    let is_kept = limits.cost_mode != CostMode::After;
    totals.passes > limits.passes
        || totals.tool_calls > limits.tool_calls
        || totals.model_calls > limits.model_calls
        || totals.wall_ms > limits.wall_ms.saturating_add(SETTLING_MS)
        || is_kept && limits.tokens.is_some_and(|max| totals.usage.total() > max)
        || is_kept && limits.cost.is_some_and(|max| totals.cost.known > max)
}

/// An injected text as it is placed: with the values that the attacker wants to be used, and a forged block if its kind
/// has one.
#[derive(Debug)]
pub(super) struct StagedText {
    pub(super) carrier: Carrier,
    /// One part, or two that are placed one after the other.
    pub(super) parts: Vec<String>,
    /// The values, by the names of the domain's parameters.
    pub(super) values: Map<String, Value>,
    /// The block that a fooled model copies.
    block: String,
}

impl StagedText {
    fn of(injection: &Injection, spec: &RunSpec) -> Self {
        let mut parts = injection.text.clone();
        let (mut block, mut kind) = (forged::block(injection.kind).unwrap_or_default(), injection.kind);
        if injection.asks_for_tools() {
            (block, kind) = (forged::verdict("low", &forged_actions(spec).to_string()), Kind::SendOut);
            for (part, block) in parts.iter_mut().zip(forged::dressed(injection.trick, &block)) {
                part.push_str("\n\n");
                part.push_str(&block);
            }
        }
        let values = named(kind, spec);
        for part in &mut parts {
            for (name, value) in &values {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                part.push_str(&format!("\n{name}: {value}"));
            }
        }
        Self { carrier: injection.carrier, parts, values, block }
    }
}

/// The message of a user who requests nothing, with the injected text if its carrier is the work item.
fn stated(text: &StagedText) -> String {
    let asks = format!("Hello, please have a look at this.\n\n{NAME}, {CUSTOMER}, order {ORDER}");
    match text.carrier {
        Carrier::Item => format!("{asks}\n\n{}", text.parts.join("\n\n")),
        Carrier::Result | Carrier::Field | Carrier::Error => asks,
    }
}

fn item(stated: &str) -> WorkItem {
    WorkItem::message("R-1", "Please have a look", stated)
}

#[cfg(test)]
mod tests {
    use loop_core::types::{PicoUsd, Usage};

    use super::*;

    #[test]
    fn every_limit_can_be_passed() {
        let limits = Limits { tokens: Some(100), cost: Some(PicoUsd(5)), ..Limits::default() };
        let over = |change: fn(&mut Totals), limits: &Limits| {
            let mut totals = Totals::default();
            change(&mut totals);
            is_over(&totals, limits)
        };
        let changes: [fn(&mut Totals); 6] = [
            |totals| totals.passes = 1000,
            |totals| totals.tool_calls = 1000,
            |totals| totals.model_calls = 1000,
            |totals| totals.wall_ms = 1_000_000,
            |totals| totals.usage = Usage { output: 101, ..Usage::default() },
            |totals| totals.cost.known = PicoUsd(6),
        ];
        assert!(changes.iter().all(|change| over(*change, &limits)));
        assert!(!over(|_| {}, &limits));
        let after = Limits { cost_mode: CostMode::After, ..limits };
        assert!(!over(|totals| totals.cost.known = PicoUsd(6), &after));
    }
}
