//! Calibration: how often a model's stated confidence was right, as evals measured it.
//!
//! Counts are integers, and so is every decision that is made from them.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::spec::models::ModelSpec;
use crate::types::{Confidence, is_default};

/// From this pass rate on, in per mille, a level is worth `medium`.
const MEDIUM_PER_MILLE: u64 = 500;
/// From this pass rate on, in per mille, a level is worth `high`.
const HIGH_PER_MILLE: u64 = 800;
/// The square of the 97.5th percentile of the normal distribution, in per mille: 1.96².
const Z2_PER_MILLE: u64 = 3_842;

/// What evals measured of the stated confidence of models, for one domain.
///
/// The gate decides by the measured level in place of the stated one. A level with fewer than
/// [`LEAST_RUNS`](MeasuredLevel::LEAST_RUNS) runs stays as it is stated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// One entry for each measured model of the run. The level of any other model stays as it is stated.
    pub models: Vec<MeasuredModel>,
}

/// How often the levels that one model states were right.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredModel {
    /// The provider's name, as in the run's models.
    pub provider: Arc<str>,
    /// The model's name at the provider.
    pub model: Arc<str>,
    /// Runs that ended at `low`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub low: MeasuredLevel,
    /// Runs that ended at `medium`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub medium: MeasuredLevel,
    /// Runs that ended at `high`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub high: MeasuredLevel,
}

/// How many runs that ended at one stated level passed their checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLevel {
    /// Runs that passed all their checks, at most `runs`.
    pub passed: u32,
    /// Runs that were counted. 0: the level is not measured.
    pub runs: u32,
}

/// A stated level that counts as another one, with the runs that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Calibrated {
    /// The level that the model stated.
    pub stated: Confidence,
    /// The level that it was measured to be worth.
    pub measured: Confidence,
    /// The runs that were counted of the stated level.
    pub runs: MeasuredLevel,
}

impl Calibration {
    /// The measured level, where it is another one than `model` states. `None`: the stated level counts.
    ///
    /// A level is lowered to that of its pass rate. It is raised only with `allow_raise` (`gate.allow_raise`), and only to a level whose least
    /// rate is below the 95 % interval (Wilson) of its pass rate.
    pub fn of(&self, model: &ModelSpec, stated: Confidence, allow_raise: bool) -> Option<Calibrated> {
        let is_it = |it: &&MeasuredModel| it.provider == model.provider && it.model == model.model;
        let runs = self.models.iter().find(is_it)?.level(stated)?;
        if runs.is_thin() {
            return None;
        }
        let by_rate = runs.by_rate();
        let measured = if by_rate <= stated {
            by_rate
        } else if allow_raise {
            [Confidence::High, Confidence::Medium]
                .into_iter()
                .find(|level| *level <= by_rate && *level > stated && runs.shows(*level))?
        } else {
            return None;
        };
        (measured != stated).then_some(Calibrated { stated, measured, runs })
    }
}

impl MeasuredModel {
    /// The runs that were counted of a stated level. `None`: `unknown`, which is not a level.
    pub fn level(&self, stated: Confidence) -> Option<MeasuredLevel> {
        match stated {
            Confidence::Unknown => None,
            Confidence::Low => Some(self.low),
            Confidence::Medium => Some(self.medium),
            Confidence::High => Some(self.high),
        }
    }
}

impl MeasuredLevel {
    /// The fewest runs whose level counts: with so many, and every one of them passed, the 95 % interval (Wilson) of the
    /// pass rate begins at the least rate of `high`, and with one less it does not.
    pub const LEAST_RUNS: u32 = 16;

    /// The least pass rate of a level, in per mille.
    pub fn least_per_mille(level: Confidence) -> u32 {
        match level {
            Confidence::Unknown | Confidence::Low => 0,
            Confidence::Medium => MEDIUM_PER_MILLE as u32,
            Confidence::High => HIGH_PER_MILLE as u32,
        }
    }

    /// Whether too few runs were counted for the level to change.
    pub fn is_thin(self) -> bool {
        self.runs < Self::LEAST_RUNS
    }

    /// The level of the pass rate as it was counted. Of no runs it is `low`.
    pub fn by_rate(self) -> Confidence {
        let (passed, runs) = self.counts();
        let reaches = |per_mille: u64| runs > 0 && passed * 1_000 >= runs * per_mille;
        if reaches(HIGH_PER_MILLE) {
            Confidence::High
        } else if reaches(MEDIUM_PER_MILLE) {
            Confidence::Medium
        } else {
            Confidence::Low
        }
    }

    /// Whether the lower end of the 95 % interval (Wilson) of the pass rate reaches the least rate of a level.
    pub fn shows(self, level: Confidence) -> bool {
        let per_mille = u128::from(Self::least_per_mille(level));
        let (passed, runs) = self.counts();
        let (found, least) = (u128::from(passed) * 1_000, u128::from(runs) * per_mille);
        // The score test that Wilson's interval inverts.
        runs > 0
            && found >= least
            && (found - least).pow(2) * 1_000
                >= u128::from(Z2_PER_MILLE) * u128::from(runs) * per_mille * (1_000 - per_mille)
    }

    fn counts(self) -> (u64, u64) {
        (self.passed.min(self.runs).into(), self.runs.into())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;

    fn of(high: (u32, u32), medium: (u32, u32), low: (u32, u32)) -> Calibration {
        let level = |(passed, runs)| MeasuredLevel { passed, runs };
        let (low, medium, high) = (level(low), level(medium), level(high));
        let models = vec![MeasuredModel { provider: "p".into(), model: "m".into(), low, medium, high }];
        Calibration { models }
    }

    #[track_caller]
    fn check(calibration: &Calibration, allow_raise: bool, stated: Confidence, expected: Option<Confidence>) {
        let found = calibration.of(&ModelSpec::new("p", "m"), stated, allow_raise);
        assert_eq!(found.map(|it| it.measured), expected, "{calibration:?} {stated:?}");
        assert!(found.is_none_or(|it| it.stated == stated));
    }

    #[test]
    fn a_level_is_lowered_to_its_rate_and_raised_only_where_that_is_allowed_and_shown() {
        use Confidence::{High, Low, Medium, Unknown};
        let none = (0, 0);
        check(&of((16, 20), none, none), false, High, None);
        check(&of((15, 20), none, none), false, High, Some(Medium));
        check(&of((9, 20), none, none), false, High, Some(Low));
        check(&of(none, (9, 20), none), false, Medium, Some(Low));
        // 15 runs are too few, whatever they came to.
        check(&of((0, 15), none, none), false, High, None);
        check(&of((0, 16), none, none), false, High, Some(Low));
        // Raised: not without permission, not by a rate that more runs may deny.
        check(&of(none, (20, 20), none), false, Medium, None);
        check(&of(none, (20, 20), none), true, Medium, Some(High));
        check(&of(none, (18, 20), none), true, Medium, None);
        check(&of(none, none, (18, 20)), true, Low, Some(Medium));
        check(&of(none, none, (20, 20)), true, Low, Some(High));
        check(&of((0, 20), none, none), true, Unknown, None);
        // Another model states what it states.
        let other = of((0, 20), none, none).of(&ModelSpec::new("p", "other"), High, false);
        assert_eq!(other, None);
    }

    #[test]
    fn the_fewest_runs_are_those_of_the_interval() {
        let all = |runs| MeasuredLevel { passed: runs, runs };
        assert!(all(MeasuredLevel::LEAST_RUNS).shows(Confidence::High));
        assert!(!all(MeasuredLevel::LEAST_RUNS - 1).shows(Confidence::High));
        assert!(!all(0).shows(Confidence::Medium));
        // A count that cannot be is not more than all.
        assert_eq!(MeasuredLevel { passed: 9, runs: 4 }.by_rate(), Confidence::High);
    }

    #[test]
    fn without_permission_no_level_is_raised_whatever_was_counted() {
        // Issue 19, part 5: over every small count, by the rule itself.
        for runs in 0..40 {
            for passed in 0..=runs {
                let counted = (passed, runs);
                for stated in [Confidence::Unknown, Confidence::Low, Confidence::Medium, Confidence::High] {
                    let kept = of(counted, counted, counted).of(&ModelSpec::new("p", "m"), stated, false);
                    assert!(kept.is_none_or(|it| it.measured < stated), "{passed} of {runs}: {kept:?}");
                }
            }
        }
    }

    #[test]
    fn it_is_stored_without_what_is_not_measured() {
        let text = serde_json::to_string(&of((3, 4), (0, 0), (0, 0))).unwrap();
        assert_eq!(text, r#"{"models":[{"provider":"p","model":"m","high":{"passed":3,"runs":4}}]}"#);
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), of((3, 4), (0, 0), (0, 0)));
    }
}
