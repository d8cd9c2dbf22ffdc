//! The result of tuning for programs: what `loopgate tune --json` prints. Schema: `docs/schema/tune.schema.json`.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use super::space::Set;
use crate::interval::Interval;

/// The version of this format.
pub const TUNE_VERSION: u32 = 1;

/// The cheapest settings that keep the good outcomes, and how sure that is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TuneReport {
    /// The version of this format: 1.
    pub version: u32,
    /// The demanded share of good outcomes that has to be kept.
    pub keep: f64,
    /// The seed of the halves.
    pub seed: u64,
    /// Labels in the file.
    pub labels: u32,
    /// Labelled runs that were used.
    pub runs: u32,
    /// Labelled runs that were left out: they have not ended, or cannot be read.
    pub left_out: u32,
    /// What the held-out half says about the settings.
    pub verdict: TuneVerdict,
    /// The chosen settings, each as a domain file writes it. Empty: none is cheaper than the recorded ones.
    pub settings: Vec<String>,
    /// The chosen settings as a policy file. Empty if there are none.
    pub toml: String,
    /// The half on which the settings were chosen, under them.
    pub choosing: HalfReport,
    /// The half that the choice has not seen, under them.
    pub held_out: HalfReport,
    /// All settings that were tried, with what they do on the half on which they were chosen: cheapest first. The recorded
    /// settings are an empty list.
    pub tried: Vec<TriedSettings>,
}

/// What the held-out half says about the chosen settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TuneVerdict {
    /// No settings are cheaper and keep the demanded share.
    NothingCheaper,
    /// The whole interval is at or above the demanded share.
    Shown,
    /// The rate is at or above the demanded share, and its interval reaches below: there are too few runs to show it.
    NotShown,
    /// The rate is below the demanded share.
    Missed,
}

impl TuneVerdict {
    pub(super) fn of(is_recorded: bool, held_out: &HalfReport, keep: f64) -> Self {
        match () {
            () if is_recorded => Self::NothingCheaper,
            () if held_out.low >= keep => Self::Shown,
            () if held_out.keeps(keep) => Self::NotShown,
            () => Self::Missed,
        }
    }
}

/// What the runs of a half do under some settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HalfReport {
    /// Runs of the half.
    pub runs: u32,
    /// Runs whose recorded outcome is good.
    pub good: u32,
    /// Good outcomes that are kept.
    pub kept: u32,
    /// Runs whose end is not known. They are not kept.
    pub unknown: u32,
    /// `kept` of `good`.
    pub rate: f64,
    /// The lower end of the rate's interval (95 %, Wilson).
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// What the recorded runs cost, in pico-dollars.
    pub recorded_cost_pico_usd: u64,
    /// What the runs cost under the settings at most, in pico-dollars: exact where no end is unknown. Null: it is not bounded.
    pub cost_pico_usd: Option<u64>,
    /// Whether a run has no bound.
    #[serde(skip)]
    pub(super) is_unbounded: bool,
}

impl HalfReport {
    pub(super) fn add_cost(&mut self, cost: Option<u64>) {
        match cost {
            Some(cost) => {
                self.cost_pico_usd = Some(self.cost_pico_usd.unwrap_or_default().saturating_add(cost));
            }
            None => self.is_unbounded = true,
        }
    }

    /// The same, with the rate and its interval.
    pub(super) fn with_rate(self) -> Self {
        let Interval { rate, low, high } = Interval::of(self.kept, self.good);
        let cost_pico_usd = self.cost_pico_usd.filter(|_| !self.is_unbounded);
        Self { rate, low, high, cost_pico_usd, ..self }
    }

    /// Whether at least this share of the good outcomes is kept.
    pub fn keeps(&self, share: f64) -> bool {
        // A share such as 0.07 of 100 is a little more than 7 in binary.
        f64::from(self.kept) + 1e-9 >= share * f64::from(self.good)
    }

    /// What is better comes first: the cheaper, then the one that keeps more.
    pub(super) fn order(&self) -> (u64, Reverse<u32>) {
        (self.cost_pico_usd.unwrap_or(u64::MAX), Reverse(self.kept))
    }
}

/// Settings that were tried.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TriedSettings {
    /// The settings, each as a domain file writes it.
    pub settings: Vec<String>,
    /// What they do on the half on which settings are chosen.
    pub on_choosing: HalfReport,
}

impl TriedSettings {
    pub(super) fn new(settings: &[Set], on_choosing: HalfReport) -> Self {
        let settings = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        Self { settings, on_choosing }
    }
}
