//! Splitting the runs, trying settings on one half, and checking the choice on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use loop_core::{Digest, RunId, RunSpec, Totals};
use loop_domain::PolicyFile;

use super::labels::Labels;
use super::report::{HalfReport, TUNE_VERSION, TriedSettings, TuneReport, TuneVerdict};
use super::space::{Set, single_changes, together, toml};
use crate::backtest::{Backtested, Finding, FindingKind, NotTested, Policies, RunsOf};

/// What is demanded of the settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuneOptions {
    /// The share of good outcomes that has to be kept, above 0 and at most 1.
    pub keep: f64,
    /// Which runs are in which half. The same seed always gives the same halves.
    pub seed: u64,
}

/// Why nothing can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The demanded share is not a share.
    #[error("--keep {given}: a share is above 0 and at most 1; write for example 0.95")]
    Keep {
        /// The value as given.
        given: String,
    },
    /// A half has no run whose outcome is good.
    #[error(
        "{labelled} labelled runs of {items} work items are too few: each half needs a run whose outcome is good; label more runs, of other work items"
    )]
    TooFew {
        /// Runs with a label that have ended.
        labelled: usize,
        /// Their work items.
        items: usize,
    },
}

/// A labelled run that has ended.
#[derive(Clone, Debug)]
struct Known {
    /// The position of its journal.
    of: usize,
    run: RunId,
    /// Domain and work item: all runs of one are in the same half.
    group: (String, String),
    spec: Arc<RunSpec>,
    digest: Digest,
    totals: Totals,
    is_good: bool,
}

/// What a run does under some settings.
#[derive(Clone, Copy, Debug)]
struct Seen {
    is_kept: bool,
    is_known: bool,
    /// The most that it costs. `None`: it is not bounded.
    cost: Option<u64>,
}

/// How many rounds of combining there are: so many settings at most are combined.
const ROUNDS: usize = 4;
/// How many single changes are combined with others.
const MAX_COMBINED: usize = 40;

/// The cheapest settings that keep the demanded share of good outcomes on one half of the labelled runs, and what they do
/// on the other.
///
/// # Errors
/// If the share is not one, or a half has no good outcome.
pub async fn tune(
    of: &[RunsOf],
    labels: &Arc<Labels>,
    options: TuneOptions,
    done: &Arc<AtomicUsize>,
) -> Result<TuneReport, TuneError> {
    if !(options.keep > 0.0 && options.keep <= 1.0) {
        return Err(TuneError::Keep { given: options.keep.to_string() });
    }
    let search = Search { of, labels: Arc::clone(labels), done: Arc::clone(done) };
    let (known, left_out) = search.known().await;
    let (choosing, held_out) = halves(&known, options.seed);
    let good = |half: &[&Known]| half.iter().any(|run| run.is_good);
    if !good(&choosing) || !good(&held_out) {
        let items: BTreeSet<_> = known.iter().map(|run| &run.group).collect();
        return Err(TuneError::TooFew { labelled: known.len(), items: items.len() });
    }
    let (settings, mut tried) = search.chosen(&known, &choosing, options.keep).await;
    let on = |half: Vec<HalfReport>| half.into_iter().next().unwrap_or_default();
    let candidate = [settings.clone()];
    let choosing = on(search.scores(&candidate, &choosing).await);
    let held_out = on(search.scores(&candidate, &held_out).await);
    tried.sort_by_key(|tried| tried.on_choosing.order());
    Ok(TuneReport {
        version: TUNE_VERSION,
        keep: options.keep,
        seed: options.seed,
        labels: labels.count() as u32,
        runs: known.len() as u32,
        left_out,
        verdict: TuneVerdict::of(settings.is_empty(), &held_out, options.keep),
        settings: settings.iter().map(|(key, value)| format!("{key} = {value}")).collect(),
        toml: toml(&settings),
        choosing,
        held_out,
        tried,
    })
}

/// The two halves of the runs. Which items are in which depends on the seed and on their ids alone.
fn halves(known: &[Known], seed: u64) -> (Vec<&Known>, Vec<&Known>) {
    let mut groups: BTreeMap<&(String, String), Vec<&Known>> = BTreeMap::new();
    for run in known {
        groups.entry(&run.group).or_default().push(run);
    }
    let mut ordered: Vec<(Digest, Vec<&Known>)> = groups
        .into_iter()
        .map(|((domain, item), runs)| {
            let name = format!("{seed} {} {domain} {item}", domain.len());
            (Digest::of("tune", name.as_bytes()), runs)
        })
        .collect();
    ordered.sort_by_key(|(digest, _)| *digest);
    let second = ordered.split_off(ordered.len().div_ceil(2));
    (runs_of(ordered), runs_of(second))
}

fn runs_of(groups: Vec<(Digest, Vec<&Known>)>) -> Vec<&Known> {
    groups.into_iter().flat_map(|(_, runs)| runs).collect()
}

/// The runs and their labels.
struct Search<'a> {
    of: &'a [RunsOf],
    labels: Arc<Labels>,
    done: Arc<AtomicUsize>,
}

impl Search<'_> {
    /// The labelled runs that have ended, and how many labelled runs are left out.
    async fn known(&self) -> (Vec<Known>, u32) {
        let (mut known, mut left_out) = (Vec::new(), 0);
        let policies = Arc::new(Policies::new(Vec::new()));
        // Each run is read with a spec of its own, and most runs have the same.
        let mut specs: BTreeMap<Digest, Arc<RunSpec>> = BTreeMap::new();
        for (at, of) in self.of.iter().enumerate() {
            let labelled = of.runs.iter().filter(|run| self.labels.of(run.as_str()).is_some());
            let of = RunsOf { handles: of.handles.clone(), runs: labelled.cloned().collect() };
            for (run, result) in policies.over_each(&of, &self.done, |tested| tested.recorded).await {
                let is_good = self.labels.of(run.as_str()).is_some_and(|label| label.good);
                let ended = result.ok().and_then(|state| {
                    let (totals, digest) = (state.outcome()?.totals, state.started().spec);
                    let (domain, item) =
                        (state.spec().domain.to_string(), state.started().item.id.to_string());
                    Some(Known {
                        of: at,
                        run,
                        group: (domain, item),
                        spec: Arc::clone(specs.entry(digest).or_insert_with(|| Arc::clone(state.spec()))),
                        digest,
                        totals,
                        is_good,
                    })
                });
                match ended {
                    Some(run) => known.push(run),
                    None => left_out += 1,
                }
            }
        }
        (known, left_out)
    }

    /// The settings to choose, and all that were tried.
    async fn chosen(&self, known: &[Known], half: &[&Known], keep: f64) -> (Vec<Set>, Vec<TriedSettings>) {
        let used: Vec<Totals> = half.iter().map(|run| run.totals).collect();
        let mut specs: BTreeMap<Digest, &Arc<RunSpec>> = BTreeMap::new();
        known.iter().for_each(|run| {
            specs.entry(run.digest).or_insert(&run.spec);
        });
        let fits = |settings: &[Set]| {
            policy(settings).is_some_and(|file| specs.values().all(|spec| file.applied(spec).is_ok()))
        };
        let singles: Vec<Vec<Set>> = single_changes(&used).into_iter().filter(|it| fits(it)).collect();
        let mut first = vec![Vec::new()];
        first.extend(singles);
        let scores = self.scores(&first, half).await;
        let recorded = scores.first().copied().unwrap_or_default();
        let mut tried: Vec<TriedSettings> =
            first.iter().zip(&scores).map(|it| TriedSettings::new(it.0, *it.1)).collect();
        // What is neither good enough nor cheaper alone is not combined.
        let mut useful: Vec<(&Vec<Set>, HalfReport)> = first
            .iter()
            .zip(scores)
            .filter(|(_, score)| score.keeps(keep) && score.order() < recorded.order())
            .collect();
        useful.sort_by_key(|(_, score)| score.order());
        let Some((best, score)) = useful.first().copied() else { return (Vec::new(), tried) };
        let (mut best, mut score) = (best.clone(), score);
        for _ in 1..ROUNDS {
            let combined = useful.iter().take(MAX_COMBINED).map(|(change, _)| together(&best, change));
            let mut combined: Vec<Vec<Set>> = combined.filter(|it| it.len() > best.len()).collect();
            combined.sort();
            combined.dedup();
            let scores = self.scores(&combined, half).await;
            tried.extend(combined.iter().zip(&scores).map(|it| TriedSettings::new(it.0, *it.1)));
            let better = combined
                .into_iter()
                .zip(scores)
                .filter(|(_, it)| it.keeps(keep) && it.order() < score.order());
            match better.min_by_key(|(_, score)| score.order()) {
                Some(found) => (best, score) = found,
                None => break,
            }
        }
        (best, tried)
    }

    /// What the runs of a half do under each of the candidates.
    async fn scores(&self, candidates: &[Vec<Set>], half: &[&Known]) -> Vec<HalfReport> {
        let files: Vec<PolicyFile> = candidates.iter().filter_map(|settings| policy(settings)).collect();
        let mut scores = vec![HalfReport::default(); files.len()];
        let policies = Arc::new(Policies::new(files));
        for (at, of) in self.of.iter().enumerate() {
            let mine: BTreeMap<&RunId, &Known> =
                half.iter().filter(|run| run.of == at).map(|run| (&run.run, *run)).collect();
            let of =
                RunsOf { handles: of.handles.clone(), runs: mine.keys().map(|run| (*run).clone()).collect() };
            let labels = Arc::clone(&self.labels);
            let seen = move |tested: Backtested| -> Vec<Seen> {
                tested.findings.iter().map(|finding| seen(&labels, &tested, finding)).collect()
            };
            let tested: Vec<(RunId, Result<Vec<Seen>, NotTested>)> =
                policies.over_each(&of, &self.done, seen).await;
            for (run, result) in tested {
                let (Some(known), Ok(all)) = (mine.get(&run), result) else { continue };
                for (score, seen) in scores.iter_mut().zip(all) {
                    score.runs += 1;
                    score.good += u32::from(known.is_good);
                    score.kept += u32::from(seen.is_kept);
                    score.unknown += u32::from(!seen.is_known);
                    score.recorded_cost_pico_usd =
                        score.recorded_cost_pico_usd.saturating_add(known.totals.cost.known.0);
                    score.add_cost(seen.cost);
                }
            }
        }
        scores.into_iter().map(HalfReport::with_rate).collect()
    }
}

/// Whether a good outcome is kept under some settings, and what the run costs at most.
fn seen(labels: &Labels, tested: &Backtested, finding: &Finding) -> Seen {
    let label = labels.of(tested.recorded.id().as_str()).filter(|label| label.good);
    let is_known = finding.kind.is_known();
    let is_kept = label.is_some_and(|label| {
        let covers = label.good_from_pass.is_some_and(|pass| finding.totals.passes >= pass);
        is_known && (finding.is_same_result || finding.kind == FindingKind::StopsEarlier && covers)
    });
    let known = finding.totals.cost.known.0;
    let cost = match &finding.more {
        None => Some(known),
        Some(more) => more.cost.map(|more| known.saturating_add(more.0)),
    };
    Seen { is_kept, is_known, cost }
}

/// The settings as a policy. `None`: they are not one.
fn policy(settings: &[Set]) -> Option<PolicyFile> {
    PolicyFile::of_text("tuned.toml".into(), toml(settings), &[]).ok()
}
