//! The result of a backtest for programs: what `loopgate backtest --json` prints. Schema: `docs/schema/backtest.schema.json`.

use std::collections::BTreeMap;

use loop_core::Outcome;
use loop_core::run::WorstCase;
use loop_core::types::{RunId, StopClass, Totals};
use loop_runtime::journal::label::{Label, RunLabel};
use schemars::JsonSchema;
use serde::Serialize;

use super::drive::Backtested;
use super::finding::{Finding, FindingKind};
use super::over::NotTested;
use super::policy::Policies;

/// The version of this format.
pub const BACKTEST_VERSION: u32 = 1;

/// Recorded runs under other policies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BacktestReport {
    /// The version of this format: 1.
    pub version: u32,
    /// The recorded runs as they were.
    pub recorded: RecordedTotals,
    /// The policies, in the order given.
    pub policies: Vec<PolicyReport>,
    /// The runs, in the order given.
    pub runs: Vec<BacktestedRun>,
    /// Runs that could not be tested.
    pub not_tested: Vec<UntestedRun>,
}

/// The recorded runs as they were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RecordedTotals {
    /// How many there are.
    pub runs: u32,
    /// How many of them have not ended.
    pub open: u32,
    /// How they ended.
    pub classes: Vec<ClassCount>,
    /// Cost of all of them in pico-dollars (10⁻¹² USD). Calls without a known price are not part of it.
    pub cost_pico_usd: u64,
    /// Milliseconds of all of them, without waits for people.
    pub wall_ms: u64,
}

/// What the runs do under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PolicyReport {
    /// The policy's name.
    pub name: String,
    /// What it sets, each as a domain file writes it.
    pub settings: Vec<String>,
    /// What it changes in the prompts. The backtest assumes that the model writes the same nevertheless.
    pub assumptions: Vec<String>,
    /// How many runs of each finding there are. Findings without a run are left out.
    pub findings: Vec<FindingCount>,
    /// How the runs end whose end is known. Classes without a run are left out.
    pub classes: Vec<ClassCount>,
    /// Runs whose end is known and that have another document, answer or output than the recorded one.
    pub other_results: u32,
    /// Cost of the runs whose end is known, in pico-dollars.
    pub cost_pico_usd: u64,
    /// What these runs cost less than the recorded ones, in pico-dollars.
    pub saved_pico_usd: u64,
    /// Milliseconds that these runs take less than the recorded ones.
    pub saved_ms: u64,
    /// Runs whose end is not known.
    pub unknown: u32,
    /// What the runs whose end is not known cost up to there, in pico-dollars.
    pub unknown_at_least_pico_usd: u64,
    /// What they cost at most, in pico-dollars. Null: the price of a model is not known, and no cost limit is set.
    pub unknown_at_most_pico_usd: Option<u64>,
    /// What becomes of the runs that a person labelled. Null: none is labelled.
    pub labelled: Option<LabelledRuns>,
}

/// Labelled runs under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabelledRuns {
    /// Those that are labelled good.
    pub good: LabelledCount,
    /// Those that are labelled bad.
    pub bad: LabelledCount,
}

/// Runs with one label under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabelledCount {
    /// How many there are.
    pub runs: u32,
    /// Those of them that end with another document, answer or output than the labelled one.
    pub other_results: u32,
    /// Those of them whose end is not known.
    pub unknown: u32,
}

/// How many runs have a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingCount {
    /// The finding.
    pub finding: FindingKind,
    /// How many runs have it.
    pub runs: u32,
}

/// How many runs end with a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClassCount {
    /// The class, for example `answered`.
    pub class: String,
    /// How many runs end with it.
    pub runs: u32,
}

/// A recorded run, and what it does under each policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BacktestedRun {
    /// The run's id.
    pub run: String,
    /// The domain's name.
    pub domain: String,
    /// The work item's id.
    pub item: String,
    /// Why it stopped. Null: it has not.
    pub reason: Option<String>,
    /// The class of the stop. Null: it has not stopped.
    pub class: Option<String>,
    /// Passes that it made.
    pub passes: u32,
    /// What it cost in pico-dollars. Null: the price of a call is not known.
    pub cost_pico_usd: Option<u64>,
    /// Milliseconds that it took, without waits for people.
    pub wall_ms: u64,
    /// What a person said it was worth. Null: it is not labelled.
    pub label: Option<Label>,
    /// What it does under each policy, in their order.
    pub under: Vec<RunUnderPolicy>,
}

/// What a recorded run does under a policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunUnderPolicy {
    /// The policy's name.
    pub policy: String,
    /// How it differs from the recorded run.
    pub finding: FindingKind,
    /// The number of the journal's entry at which it differs first, from 0. Null: it does not differ.
    pub entry: Option<u64>,
    /// The pass at which it differs first, from 1; 0 before the first. Null: it does not differ.
    pub pass: Option<u32>,
    /// What differs, in one line. Empty if nothing does.
    pub what: String,
    /// Why it ends; for `final_pass` the limit that causes it. Null: not known.
    pub reason: Option<String>,
    /// The class of that stop. Null: not known.
    pub class: Option<String>,
    /// Whether it ends with the document, the answer or the output of the recorded run. `false` if its end is not known.
    pub same_result: bool,
    /// What it cost up to its end, or up to the first difference if its end is not known, in pico-dollars. Null: the price
    /// of a call is not known.
    pub cost_pico_usd: Option<u64>,
    /// Milliseconds up to there, without waits for people.
    pub wall_ms: u64,
    /// Whether cost and time are exact. `false`: a call was in flight when it ended, and counts with its whole reserve.
    pub exact: bool,
    /// What it may use at most beyond that. Null: its end is known.
    pub more_at_most: Option<MayUse>,
    /// The document at its end, where it stops earlier and documents were asked for. Null otherwise.
    pub document: Option<Vec<EarlierSection>>,
}

/// What a run may still use at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MayUse {
    /// Model calls of every kind.
    pub model_calls: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Cost in pico-dollars. Null: the price of a model is not known, and no cost limit is set.
    pub cost_pico_usd: Option<u64>,
    /// Milliseconds, without waits for people.
    pub wall_ms: u64,
}

/// A section of the document at an earlier end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EarlierSection {
    /// The section's id.
    pub id: String,
    /// The heading.
    pub heading: String,
    /// The body as Markdown.
    pub body: String,
    /// The pass that last changed it, from 1.
    pub pass: u32,
}

/// A run that could not be tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UntestedRun {
    /// The run's id.
    pub run: String,
    /// Why not, in one line.
    pub why: String,
}

/// What a report needs of a tested run. It has no state, and a document only on request.
#[derive(Clone, Debug)]
pub struct TestedRun {
    run: BacktestedRun,
    totals: Totals,
    class: Option<StopClass>,
    findings: Vec<Finding>,
}

impl TestedRun {
    /// With `documents`, a run that stops earlier has its document.
    pub(super) fn new(policies: &Policies, tested: Backtested, documents: bool) -> Self {
        let under = policies.all().iter().zip(&tested.findings);
        let under = under.map(|(policy, finding)| RunUnderPolicy::new(policy.name(), finding, documents));
        let run = BacktestedRun::new(&tested, under.collect());
        let (totals, class) = (totals_of(&tested), tested.recorded.outcome().map(|it| it.stop.class));
        let findings = tested.findings.into_iter().map(|finding| Finding { outcome: None, ..finding });
        Self { run, totals, class, findings: findings.collect() }
    }
}

impl BacktestReport {
    /// The report of these runs.
    pub fn new(policies: &Policies, tested: Vec<(RunId, Result<TestedRun, NotTested>)>) -> Self {
        let mut recorded = RecordedCounts::default();
        let mut sums: Vec<PolicySums> = policies.all().iter().map(|_| PolicySums::default()).collect();
        let (mut runs, mut not_tested) = (Vec::new(), Vec::new());
        for (run, result) in tested {
            match result {
                Ok(tested) => {
                    recorded.add(&tested);
                    for (finding, sum) in tested.findings.iter().zip(&mut sums) {
                        sum.add(finding, tested.class.map(|_| &tested.totals));
                    }
                    runs.push(tested.run);
                }
                Err(error) => not_tested.push(UntestedRun { run: run.to_string(), why: error.to_string() }),
            }
        }
        let assumptions = policies.assumptions();
        let reports = policies.all().iter().zip(sums).enumerate().map(|(at, (policy, sum))| {
            let settings = policy.settings().iter().map(|(key, value)| format!("{key} = {value}"));
            let assumed = assumptions.iter().filter(|assumption| assumption.policy == at);
            let assumed = assumed.map(|assumption| assumption.text.clone()).collect();
            sum.report(policy.name(), settings.collect(), assumed)
        });
        Self {
            version: BACKTEST_VERSION,
            policies: reports.collect(),
            recorded: recorded.totals(),
            runs,
            not_tested,
        }
    }
}

impl BacktestReport {
    /// The report, and in it what becomes of the runs that have these labels.
    #[must_use]
    pub fn with_labels(mut self, labels: &BTreeMap<RunId, RunLabel>) -> Self {
        for run in &mut self.runs {
            run.label = labels.get(&RunId::new(run.run.as_str())).map(|label| label.label);
        }
        for (at, policy) in self.policies.iter_mut().enumerate() {
            for run in &self.runs {
                let (Some(label), Some(under)) = (run.label, run.under.get(at)) else { continue };
                let labelled = policy.labelled.get_or_insert_default();
                let count = match label {
                    Label::Good => &mut labelled.good,
                    Label::Bad => &mut labelled.bad,
                };
                count.runs += 1;
                match under.finding.is_known() {
                    true => count.other_results += u32::from(!under.same_result),
                    false => count.unknown += 1,
                }
            }
        }
        self
    }
}

impl LabelledRuns {
    /// The counts of one label, in a line.
    pub fn in_words(&self) -> String {
        let words = |label: Label, LabelledCount { runs, other_results, unknown }: LabelledCount| {
            format!(
                "{runs} labelled {}: {other_results} with another result, {unknown} not known",
                label.name()
            )
        };
        format!("{}; {}", words(Label::Good, self.good), words(Label::Bad, self.bad))
    }
}

impl BacktestedRun {
    fn new(tested: &Backtested, under: Vec<RunUnderPolicy>) -> Self {
        let run = &tested.recorded;
        let (outcome, totals) = (run.outcome(), totals_of(tested));
        Self {
            run: run.id().to_string(),
            domain: run.spec().domain.to_string(),
            item: run.started().item.id.to_string(),
            reason: outcome.map(|outcome| outcome.stop.reason().name().to_owned()),
            class: outcome.map(|outcome| outcome.stop.class.name().to_owned()),
            passes: totals.passes,
            cost_pico_usd: totals.cost.total().map(|cost| cost.0),
            wall_ms: totals.wall_ms,
            label: None,
            under,
        }
    }
}

/// What a recorded run used.
fn totals_of(tested: &Backtested) -> Totals {
    let run = &tested.recorded;
    let so_far = || Totals { wall_ms: run.elapsed_ms(), ..*run.totals() };
    run.outcome().map_or_else(so_far, |outcome| outcome.totals)
}

impl RunUnderPolicy {
    fn new(policy: &str, finding: &Finding, documents: bool) -> Self {
        let outcome = finding.outcome.as_deref().filter(|_| documents);
        let (reason, class) = finding.stop.unzip();
        Self {
            policy: policy.to_owned(),
            finding: finding.kind,
            entry: finding.at.map(|at| at.entry),
            pass: finding.at.map(|at| at.pass),
            what: finding.what.clone(),
            reason: reason.map(|reason| reason.name().to_owned()),
            class: class.map(|class| class.name().to_owned()),
            same_result: finding.is_same_result,
            cost_pico_usd: finding.totals.cost.total().map(|cost| cost.0),
            wall_ms: finding.totals.wall_ms,
            exact: finding.is_exact,
            more_at_most: finding.more.as_ref().map(MayUse::new),
            document: outcome.map(sections),
        }
    }
}

fn sections(outcome: &Outcome) -> Vec<EarlierSection> {
    let sections = outcome.document.sections.iter();
    let section = |section: &loop_core::reply::Section| EarlierSection {
        id: section.id.to_string(),
        heading: section.heading.to_string(),
        body: section.body.to_string(),
        pass: section.pass,
    };
    sections.map(section).collect()
}

impl MayUse {
    fn new(worst: &WorstCase) -> Self {
        Self {
            model_calls: worst.model_calls,
            tool_calls: worst.tool_calls,
            cost_pico_usd: worst.cost.map(|cost| cost.0),
            wall_ms: worst.wall_ms,
        }
    }
}

/// The recorded runs, counted one by one.
#[derive(Debug, Default)]
struct RecordedCounts {
    totals: RecordedTotals,
    classes: Classes,
}

/// How many runs end with each class.
type Classes = BTreeMap<&'static str, u32>;

fn counted(classes: Classes) -> Vec<ClassCount> {
    let count = |(class, runs): (&str, u32)| ClassCount { class: class.to_owned(), runs };
    classes.into_iter().map(count).collect()
}

fn add_class(classes: &mut Classes, class: StopClass) {
    *classes.entry(class.name()).or_default() += 1;
}

impl RecordedCounts {
    fn add(&mut self, tested: &TestedRun) {
        let (used, totals) = (&tested.totals, &mut self.totals);
        totals.runs += 1;
        match tested.class {
            Some(class) => add_class(&mut self.classes, class),
            None => totals.open += 1,
        }
        totals.cost_pico_usd = totals.cost_pico_usd.saturating_add(used.cost.known.0);
        totals.wall_ms = totals.wall_ms.saturating_add(used.wall_ms);
    }

    fn totals(self) -> RecordedTotals {
        RecordedTotals { classes: counted(self.classes), ..self.totals }
    }
}

/// What the runs do under one policy, counted one by one.
#[derive(Debug, Default)]
struct PolicySums {
    findings: BTreeMap<FindingKind, u32>,
    classes: Classes,
    other_results: u32,
    cost: u64,
    saved: u64,
    saved_ms: u64,
    unknown: u32,
    at_least: u64,
    /// In pico-dollars, beyond `at_least`.
    more: u64,
    is_unbounded: bool,
}

impl PolicySums {
    /// `recorded` is what the recorded run used, if it has ended.
    fn add(&mut self, finding: &Finding, recorded: Option<&Totals>) {
        *self.findings.entry(finding.kind).or_default() += 1;
        let cost = finding.totals.cost.known.0;
        if !finding.kind.is_known() {
            self.unknown += 1;
            self.at_least = self.at_least.saturating_add(cost);
            match finding.more.as_ref().and_then(|more| more.cost) {
                Some(more) => self.more = self.more.saturating_add(more.0),
                None => self.is_unbounded = true,
            }
            return;
        }
        self.cost = self.cost.saturating_add(cost);
        self.other_results += u32::from(!finding.is_same_result);
        if let Some((_, class)) = finding.stop {
            add_class(&mut self.classes, class);
        }
        if let Some(recorded) = recorded {
            self.saved = self.saved.saturating_add(recorded.cost.known.0.saturating_sub(cost));
            self.saved_ms =
                self.saved_ms.saturating_add(recorded.wall_ms.saturating_sub(finding.totals.wall_ms));
        }
    }

    fn report(self, name: &str, settings: Vec<String>, assumptions: Vec<String>) -> PolicyReport {
        let count = |(finding, runs): (FindingKind, u32)| FindingCount { finding, runs };
        PolicyReport {
            name: name.to_owned(),
            settings,
            assumptions,
            findings: self.findings.into_iter().map(count).collect(),
            classes: counted(self.classes),
            other_results: self.other_results,
            cost_pico_usd: self.cost,
            saved_pico_usd: self.saved,
            saved_ms: self.saved_ms,
            unknown: self.unknown,
            unknown_at_least_pico_usd: self.at_least,
            unknown_at_most_pico_usd: (!self.is_unbounded).then(|| self.at_least.saturating_add(self.more)),
            labelled: None,
        }
    }
}
