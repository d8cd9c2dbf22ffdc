//! Compares the results of an eval with a baseline.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::exact::{CasePair, p_value};
use super::read::Baseline;
use crate::eval::configuration::OWN_MODELS;
use crate::eval::result::CaseResult;
use crate::interval::{Interval, difference};

/// The share of comparisons of equal rates that are called a regression by chance, at most, over everything that one
/// command compares.
pub const FALSE_ALARMS: f64 = 0.05;

/// What a baseline says about the results.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BaselineComparison {
    /// The file.
    pub file: String,
    /// Whether a configuration passes less often than in the baseline, beyond noise.
    pub regressed: bool,
    /// The configurations that are in both. Empty: nothing could be compared.
    pub configurations: Vec<ComparedConfiguration>,
    /// Configurations of the results that the baseline does not have. They are not compared.
    pub new_configurations: Vec<String>,
    /// Configurations of the baseline that were not run. They are not compared.
    pub missing_configurations: Vec<String>,
    /// Cases that the baseline does not have. They are not compared.
    pub new_cases: Vec<String>,
    /// Cases of the baseline that were not run. They are not compared.
    pub missing_cases: Vec<String>,
    /// Cases that are not as they were for the baseline: their work, their tools or their expectations differ. They are not
    /// compared.
    pub changed_cases: Vec<String>,
}

/// A configuration compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedConfiguration {
    /// Its name.
    pub configuration: String,
    /// The configuration of the baseline that it is compared with: the one of the same name, or the only one.
    pub against: String,
    /// Cases that are compared.
    pub cases: u32,
    /// Runs of these cases in the baseline.
    pub runs_before: u32,
    /// Those of them that passed.
    pub passed_before: u32,
    /// Runs of these cases now.
    pub runs: u32,
    /// Those of them that passed.
    pub passed: u32,
    /// The rate now less the rate of the baseline.
    pub difference: f64,
    /// The lower end of the difference's interval (95 %, Newcombe).
    pub difference_low: f64,
    /// The upper end.
    pub difference_high: f64,
    /// The probability that so few runs pass now, or fewer, if each case passes as often as before.
    pub p_value: f64,
    /// The p-value up to which it is a regression.
    pub level: f64,
    /// Whether all cases together regressed, or one of them alone.
    pub regressed: bool,
    /// Cases that pass less often than before, the least probable first.
    pub fallen: Vec<FallenCase>,
}

/// A case that passes less often than before.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FallenCase {
    /// The case's name.
    pub case: String,
    /// Runs of it in the baseline.
    pub runs_before: u32,
    /// Those of them that passed.
    pub passed_before: u32,
    /// Runs of it now.
    pub runs: u32,
    /// Those of them that passed.
    pub passed: u32,
    /// The probability that so few of them pass, or fewer, if it passes as often as before.
    pub p_value: f64,
    /// Whether this alone is a regression.
    pub regressed: bool,
}

/// One side of a comparison: by configuration and case, the runs that passed and all runs, and the case's digest.
type ResultsByCase = BTreeMap<String, BTreeMap<String, (u32, u32, String)>>;

/// Compares results with a baseline; `file` is its name in reports.
///
/// The false alarms are divided: half for all cases of a configuration together, half for its cases one by one, and both
/// by the number of configurations that are compared.
/// Where no case is in both as it is now, no configuration is compared: [`Baseline::check`] says so before a run.
pub fn compare(baseline: &Baseline, results: &[CaseResult], file: &str) -> BaselineComparison {
    let ids = shared_ids(
        baseline.runs.iter().map(|run| (run.case_id.as_str(), run.file.as_path())),
        results.iter().map(|result| (result.case_id.as_str(), result.file.as_path())),
    );
    let mut before = ResultsByCase::new();
    for run in baseline.runs.iter().filter(|run| run.error.is_none()) {
        let case = name(&ids, &run.case_id, &run.file);
        add(&mut before, &run.configuration, case, run.passed, &run.case_digest);
    }
    let mut now = ResultsByCase::new();
    for result in results.iter().filter(|result| result.error.is_none()) {
        let configuration = if result.configuration.is_empty() { OWN_MODELS } else { &result.configuration };
        let case = name(&ids, &result.case_id, &result.file);
        add(&mut now, configuration, case, result.passed, &result.case_digest);
    }
    let pairs: Vec<(&str, &str)> = match (before.len(), now.len()) {
        (1, 1) => now.keys().zip(before.keys()).map(|(one, other)| (one.as_str(), other.as_str())).collect(),
        _ => now.keys().filter(|name| before.contains_key(*name)).map(|one| (&**one, &**one)).collect(),
    };
    let without = |side: &ResultsByCase, pick: fn(&(&str, &str)) -> String| -> Vec<String> {
        let used: BTreeSet<String> = pairs.iter().map(pick).collect();
        side.keys().filter(|name| !used.contains(*name)).cloned().collect()
    };
    let mut comparison = BaselineComparison {
        file: file.to_owned(),
        regressed: false,
        configurations: Vec::new(),
        new_configurations: without(&now, |(one, _)| (*one).to_owned()),
        missing_configurations: without(&before, |(_, other)| (*other).to_owned()),
        new_cases: Vec::new(),
        missing_cases: Vec::new(),
        changed_cases: Vec::new(),
    };
    let level = FALSE_ALARMS / pairs.len().max(1) as f64 / 2.0;
    for (configuration, against) in pairs {
        let (Some(old), Some(new)) = (before.get(against), now.get(configuration)) else { continue };
        let both = |case: &&String| old.contains_key(*case) && new.contains_key(*case);
        comparison.new_cases.extend(new.keys().filter(|case| !both(case)).cloned());
        comparison.missing_cases.extend(old.keys().filter(|case| !both(case)).cloned());
        let mut compared = Vec::new();
        for (case, now) in new {
            let Some(before) = old.get(case) else { continue };
            // A report of an earlier version does not say what its cases were.
            if before.2.is_empty() || now.2.is_empty() || before.2 == now.2 {
                compared
                    .push((case.as_str(), CasePair { before: (before.0, before.1), now: (now.0, now.1) }));
            } else {
                comparison.changed_cases.push(case.clone());
            }
        }
        if !compared.is_empty() {
            let of = ComparedConfiguration::new(configuration, against, &compared, level);
            comparison.regressed |= of.regressed;
            comparison.configurations.push(of);
        }
    }
    for names in [&mut comparison.new_cases, &mut comparison.missing_cases, &mut comparison.changed_cases] {
        names.sort();
        names.dedup();
    }
    comparison
}

impl ComparedConfiguration {
    fn new(configuration: &str, against: &str, cases: &[(&str, CasePair)], level: f64) -> Self {
        let pairs: Vec<CasePair> = cases.iter().map(|(_, pair)| *pair).collect();
        let sum = |of: fn(&CasePair) -> u32| pairs.iter().map(of).sum::<u32>();
        let (passed_before, runs_before) = (sum(|pair| pair.before.0), sum(|pair| pair.before.1));
        let (passed, runs) = (sum(|pair| pair.now.0), sum(|pair| pair.now.1));
        let p_value = p_value(&pairs);
        let of_case = level / pairs.len().max(1) as f64;
        let fell = |pair: &CasePair| {
            u64::from(pair.now.0) * u64::from(pair.before.1)
                < u64::from(pair.before.0) * u64::from(pair.now.1)
        };
        let fallen = cases.iter().filter(|(_, pair)| fell(pair));
        let mut fallen: Vec<FallenCase> =
            fallen.map(|(case, pair)| FallenCase::new(case, *pair, of_case)).collect();
        fallen.sort_by(|one, other| {
            one.p_value.total_cmp(&other.p_value).then_with(|| one.case.cmp(&other.case))
        });
        let between = difference(&Interval::of(passed_before, runs_before), &Interval::of(passed, runs));
        Self {
            configuration: configuration.to_owned(),
            against: against.to_owned(),
            cases: cases.len() as u32,
            runs_before,
            passed_before,
            runs,
            passed,
            difference: between.rate,
            difference_low: between.low,
            difference_high: between.high,
            p_value,
            level,
            regressed: p_value <= level || fallen.iter().any(|case| case.regressed),
            fallen,
        }
    }
}

impl FallenCase {
    fn new(case: &str, pair: CasePair, level: f64) -> Self {
        let p_value = p_value(&[pair]);
        Self {
            case: case.to_owned(),
            runs_before: pair.before.1,
            passed_before: pair.before.0,
            runs: pair.now.1,
            passed: pair.now.0,
            p_value,
            regressed: p_value <= level,
        }
    }
}

fn add(side: &mut ResultsByCase, configuration: &str, case: String, passed: bool, digest: &str) {
    let cases = side.entry(configuration.to_owned()).or_default();
    let (hits, all, of) = cases.entry(case).or_insert_with(|| (0, 0, digest.to_owned()));
    *hits += u32::from(passed);
    *all += 1;
    // Runs of one case that was changed in between are of no case that could be compared.
    if of != digest {
        "several".clone_into(of);
    }
}

/// The case ids that several files of one side have.
fn shared_ids<'a>(
    before: impl Iterator<Item = (&'a str, &'a Path)>,
    now: impl Iterator<Item = (&'a str, &'a Path)>,
) -> BTreeSet<&'a str> {
    let mut shared = BTreeSet::new();
    let mut collect = |cases: &mut dyn Iterator<Item = (&'a str, &'a Path)>| {
        let mut files: BTreeMap<&str, &Path> = BTreeMap::new();
        for (id, file) in cases {
            if *files.entry(id).or_insert(file) != file {
                shared.insert(id);
            }
        }
    };
    collect(&mut { before });
    collect(&mut { now });
    shared
}

/// The name of a case: its id, and its file if several files have the id.
fn name(shared: &BTreeSet<&str>, id: &str, file: &Path) -> String {
    if shared.contains(id) { format!("{id} ({})", file.display()) } else { id.to_owned() }
}
