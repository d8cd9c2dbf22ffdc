//! How the gate judges.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::spec::calibration::Calibration;
use crate::spec::policy::{
    Breakers, OnDenied, OnDuplicate, OnInvalid, OnToolError, RepeatNotes, RepeatScope, Repeats, Resolve,
    TaintRule, ThreeTier,
};
use crate::spec::second_opinion::SecondOpinion;
use crate::types::{Locale, is_default};

/// The settings of the gate. The domain's `[gate]` or the program sets them.
///
/// A setting with its default is left out of the stored text, so a spec that was stored before the setting existed
/// keeps its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateSettings {
    /// Canonical names of tools that must have returned before a high confidence counts. Empty: none is required.
    pub required_tools: Vec<Arc<str>>,
    /// Whether a cheaper tier may reply if the cost limit does not cover the wanted one. Default `false`: such a run
    /// ends as `budget_exceeded`.
    #[serde(skip_serializing_if = "is_default")]
    pub cheaper_tier: bool,
    /// Whether an approver can be asked. Default `false`: a call that needs approval is left undone.
    pub people: bool,
    /// How many people have to approve an action: 1 or 2. With 2 they are two accounts that the driver has checked. Default
    /// 1.
    #[serde(skip_serializing_if = "is_one")]
    pub approvals: u32,
    /// Canonical names of tools that never run, `*` for any characters. It takes precedence over `allow`. Empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<Arc<str>>,
    /// Whether a high confidence ends the run although required or recommended actions are open. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub high_is_final: bool,
    /// Which confidence counts as stale, from pass 3 on. Default: one that is not higher than in the pass before.
    #[serde(skip_serializing_if = "is_default")]
    pub stale: Stale,
    /// Whether a pass with new evidence is never stale. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub stale_unless_new_evidence: bool,
    /// Passes in a row without new evidence and without a changed section after which the run ends. Default 2; 0 is
    /// never. Where calls are native, it counts passes in which no call could run, and the presets set 3.
    #[serde(skip_serializing_if = "is_two")]
    pub no_progress: u32,
    /// Passes in a row at low confidence after which the escalated model takes over, once a run. Default 2; 0 is never.
    #[serde(skip_serializing_if = "is_two")]
    pub escalate_after: u32,
    /// Passes that are granted to revise a confident answer that lacks what the domain demands. Default 1; 0 grants
    /// none.
    #[serde(skip_serializing_if = "is_one")]
    pub revision_passes: u32,
    /// Canonical names of tools with an effect that run without asking, `*` for any characters. The entry is the
    /// consent of the domain's author. Empty: each effect needs approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Arc<str>>,
    /// How repeated calls are judged. `None` is the protocol's default: `never_rerun` for documents, else `progress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Canonical names of the tools whose calls are judged as repeats, `*` for any characters. Empty: all tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats_for: Vec<Arc<str>>,
    /// How far back a repeat counts. Default: the whole run.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: RepeatScope,
    /// What the model reads for a call that is refused as a repeat. Default: the reason.
    #[serde(skip_serializing_if = "is_default")]
    pub on_duplicate: OnDuplicate,
    /// When a result carries a note that it repeats something. The policies `three_tier` and `off` have no notes.
    #[serde(skip_serializing_if = "is_default")]
    pub repeat_notes: RepeatNotes,
    /// The numbers of the repeat policy `three_tier`; other policies ignore them.
    #[serde(skip_serializing_if = "is_default")]
    pub three_tier: ThreeTier,
    /// A name for this policy, for example a date. The domain's author sets it; it changes no decision. Empty: none.
    #[serde(skip_serializing_if = "is_default")]
    pub label: Arc<str>,
    /// Canonical names of the only tools that may run, `*` for any characters. Empty: all tools of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Arc<str>>,
    /// What follows a call that policy denies. Default: the model reads the denial.
    #[serde(skip_serializing_if = "is_default")]
    pub on_denied: OnDenied,
    /// What follows a reply that is not valid. Default: the model reads what is wrong.
    #[serde(skip_serializing_if = "is_default")]
    pub on_invalid: OnInvalid,
    /// What follows a tool that fails. Default: the model reads the failure.
    #[serde(skip_serializing_if = "is_default")]
    pub on_tool_error: OnToolError,
    /// Whether a stop by a limit is preceded by a final pass, for which part of each limit is reserved. Without it the
    /// calls of the last permitted pass run, and the run ends before the next pass.
    #[serde(skip_serializing_if = "is_true")]
    pub final_pass: bool,
    /// Which names of a tool count. Default: its own name and its declared aliases.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve: Resolve,
    /// Whether the taint of a run (untrusted, private) restricts its effects. Default: it does.
    #[serde(skip_serializing_if = "is_default")]
    pub taint: TaintRule,
    /// Whether the work item itself is untrusted. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub item_untrusted: bool,
    /// Values that `authority` parameters may always have, for example `support@example.com`. Empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<Arc<str>>,
    /// After how many failures in a row a circuit breaker opens.
    #[serde(skip_serializing_if = "is_default")]
    pub breakers: Breakers,
    /// Whether reads of tools that are `cheap` may start before the reply that requests them is complete. `None`: they
    /// may, except with the cost mode `strict`. Only native calls start early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eager: Option<bool>,
    /// What follows from a value of the document that is in no evidence. Default: it is reported.
    #[serde(skip_serializing_if = "is_default")]
    pub grounding: GroundingRule,
    /// How the document writes numbers and dates. Default: as in English.
    #[serde(skip_serializing_if = "is_default")]
    pub locale: Locale,
    /// How many words of its own, besides citations, a section needs that must cite. 0: one letter or digit is enough.
    #[serde(skip_serializing_if = "is_default")]
    pub min_words: u32,
    /// The offset from UTC that a run reads days and times by, in minutes: 60 is `+01:00`. The operator sets it. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub utc_offset: i32,
    /// What evals measured of the stated confidence. The gate ends a run by the measured level in place of the stated one.
    /// `None`: the stated level counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Arc<Calibration>>,
    /// Names of the domain's or the program's own validators that a document must pass before a confident end. Empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validators: Vec<Arc<str>>,
    /// Whether a second model is asked before a confident end. `None`: none is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_opinion: Option<SecondOpinion>,
}

/// What follows from a value of the document that is in no evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroundingRule {
    /// Nothing: values are not looked for.
    Off,
    /// It is reported with the outcome. It decides nothing.
    #[default]
    Report,
    /// Checked before a confident end. With such a value a pass to revise it is granted as for a missing citation, and
    /// else the run ends as `evidence_missing`. The same holds for a value that a sentence cites the wrong evidence for.
    Demand,
}

impl GroundingRule {
    /// Whether values are looked for.
    pub fn looks(self) -> bool {
        self != Self::Off
    }
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            required_tools: Vec::new(),
            cheaper_tier: false,
            approvals: 1,
            people: false,
            forbid: Vec::new(),
            high_is_final: false,
            stale: Stale::default(),
            stale_unless_new_evidence: false,
            no_progress: 2,
            escalate_after: 2,
            revision_passes: 1,
            approved: Vec::new(),
            repeats: None,
            repeats_for: Vec::new(),
            scope: RepeatScope::default(),
            on_duplicate: OnDuplicate::default(),
            repeat_notes: RepeatNotes::default(),
            three_tier: ThreeTier::default(),
            label: "".into(),
            allow: Vec::new(),
            on_denied: OnDenied::default(),
            on_invalid: OnInvalid::default(),
            on_tool_error: OnToolError::default(),
            final_pass: true,
            resolve: Resolve::default(),
            taint: TaintRule::default(),
            item_untrusted: false,
            authorities: Vec::new(),
            breakers: Breakers::default(),
            eager: None,
            grounding: GroundingRule::default(),
            locale: Locale::default(),
            min_words: 0,
            utc_offset: 0,
            calibration: None,
            validators: Vec::new(),
            second_opinion: None,
        }
    }
}

/// Which confidence counts as stale, compared with that of the pass before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stale {
    /// One that is not higher. Unknown counts as low.
    #[default]
    NotImproved,
    /// One that is the same: after a fall the run continues.
    Equal,
    /// None.
    Off,
}

impl Stale {
    /// The setting's value in a domain file.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotImproved => "not_improved",
            Self::Equal => "equal",
            Self::Off => "off",
        }
    }
}

fn is_true(on: &bool) -> bool {
    *on
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

fn is_two(n: &u32) -> bool {
    *n == 2
}
