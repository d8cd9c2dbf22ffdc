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

/// How it is decided after each pass whether to continue.
// The keys of `[gate]` in a domain file: editors and the reference show these comments. A setting with its default is left
// out of the stored text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GateSettings {
    /// Tools that must have returned, with or without a finding, before a high confidence counts. Default: none.
    pub required_tools: Vec<Arc<str>>,
    /// Whether the `selector` model may reply if the cost limit does not cover the base model. Its confidence counts as
    /// unknown. Default: false, such a run ends as `budget_exceeded`.
    #[serde(skip_serializing_if = "is_default")]
    pub cheaper_tier: bool,
    /// Whether an approver can be asked: a run that needs an approval or an answer then waits for it. Default: false, a call
    /// that needs an approval is left undone.
    pub people: bool,
    /// How many people have to approve an action that needs an approval: 1, or 2. With 2 they are two tokens of `loopgate serve`.
    /// Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2)))]
    pub approvals: u32,
    /// Tools that never run, even if the model requests them, `*` for any characters. They are not offered to it. It takes
    /// precedence over `allow`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<Arc<str>>,
    /// For documents: whether a high confidence ends the run although required or recommended actions are open. Default:
    /// false.
    #[serde(skip_serializing_if = "is_default")]
    pub high_is_final: bool,
    /// For documents, from the third pass on: which confidence ends the run as stale. Default: `not_improved`.
    #[serde(skip_serializing_if = "is_default")]
    pub stale: Stale,
    /// For documents: whether a pass with new evidence is never stale. Default: false.
    #[serde(skip_serializing_if = "is_default")]
    pub stale_unless_new_evidence: bool,
    /// After how many passes in a row without progress the run ends; 0 for never. Progress of a document is new evidence or
    /// a changed section, of any other run a call that can run. Default: 2 for documents, else 3.
    #[serde(skip_serializing_if = "is_two")]
    pub no_progress: u32,
    /// For documents: after how many passes in a row at low confidence the escalated model takes over, once a run; 0 for
    /// never. Default: 2.
    #[serde(skip_serializing_if = "is_two")]
    pub escalate_after: u32,
    /// Passes that are granted to revise a confident answer that lacks what is demanded. Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub revision_passes: u32,
    /// Tools with an effect that run without asking, `*` for any characters: to name one here is the consent of the domain's
    /// author. Default: none, each effect needs an approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Arc<str>>,
    /// How a call is judged that was made before, with the same tool and parameters. Default: `never_rerun` for documents,
    /// else `progress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Tools whose calls are judged as repeats, `*` for any characters. Default: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats_for: Vec<Arc<str>>,
    /// How far back a repeat counts. Default: `run`.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: RepeatScope,
    /// What the model reads for a call that is refused as a repeat. Default: `skip_message`.
    #[serde(skip_serializing_if = "is_default")]
    pub on_duplicate: OnDuplicate,
    /// When a result carries a note that it repeats something.
    #[serde(skip_serializing_if = "is_default")]
    pub repeat_notes: RepeatNotes,
    /// The numbers of the repeat policy `three_tier`. Other policies ignore them.
    #[serde(skip_serializing_if = "is_default")]
    pub three_tier: ThreeTier,
    /// The operator's name for the policy, for example a date. It changes no decision. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub label: Arc<str>,
    /// The only tools that may run, at least one, `*` for any characters. Default: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub allow: Vec<Arc<str>>,
    /// What follows a call that policy denies. Default: `feed_back`.
    #[serde(skip_serializing_if = "is_default")]
    pub on_denied: OnDenied,
    /// What follows a reply that is not valid: it calls an unknown tool, has parameters that do not fit, or answers with a
    /// blank text. Default: `feed_back`.
    #[serde(skip_serializing_if = "is_default")]
    pub on_invalid: OnInvalid,
    /// What follows a tool that fails. Default: `continue`.
    #[serde(skip_serializing_if = "is_default")]
    pub on_tool_error: OnToolError,
    /// Not for outputs: whether a stop by a limit is preceded by a final pass without tools that finishes the answer, for
    /// which part of each limit is reserved. With `false` the calls of the last permitted pass run, and the run ends before
    /// the next pass. Default: true.
    #[serde(skip_serializing_if = "is_true")]
    pub final_pass: bool,
    /// How the name of a tool is resolved. Default: `alias`.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve: Resolve,
    /// Whether the taint of a run (untrusted, private) restricts its effects. Default: `ask`.
    #[serde(skip_serializing_if = "is_default")]
    pub taint: TaintRule,
    /// Whether the work item itself is untrusted, because third parties can write it. Default: false.
    #[serde(skip_serializing_if = "is_default")]
    pub item_untrusted: bool,
    /// Values that the `authority` parameters of a tool may always have, for example `support@example.com`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<Arc<str>>,
    /// When repeated failures end the run.
    #[serde(skip_serializing_if = "is_default")]
    pub breakers: Breakers,
    /// Whether a call of a `cheap` tool may start before the reply that requests it is complete; for native calls alone.
    /// Default: true, but false where `limits.cost_mode` is `strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eager: Option<bool>,
    /// For documents: what follows from a value (an amount, a day, an id, a name) that the evidence contradicts. Default: `report`.
    #[serde(skip_serializing_if = "is_default")]
    pub grounding: GroundingRule,
    /// For documents: how the document writes numbers and dates, for which values are searched. Default: `en`.
    #[serde(skip_serializing_if = "is_default")]
    pub locale: Locale,
    /// For documents: how many words of its own, besides citations, a section needs that must `cite`. With 0 one letter or
    /// digit is enough. Default: 3 in a domain file, 0 in a program.
    #[serde(skip_serializing_if = "is_default")]
    pub min_words: u32,
    /// For documents: the offset from UTC by which runs read days and times, such as `+01:00`: `yesterday` is the day before by
    /// this clock. A program gives it in minutes. Default: `Z`, UTC.
    #[serde(skip_serializing_if = "is_default", with = "utc_offset")]
    #[cfg_attr(feature = "schema", schemars(with = "String", regex(pattern = r"^(Z|[+-]\d\d:\d\d)$")))]
    pub utc_offset: i32,
    /// For documents: what evals measured of the confidence that the models state. The gate ends a run by the measured level
    /// where it is lower than the stated one. A domain file names the file that `loopgate eval --calibration FILE` writes,
    /// relative to its own folder, or `none`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub calibration: Option<Arc<Calibration>>,
    /// For documents: tools that must accept the document before a confident end, in this order. Each is called with
    /// `document`, a JSON text: an object of the sections' texts by their ids. What a failure of one says is what the model
    /// reads. They are not offered to the model. A program may name validators of its own here. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validators: Vec<Arc<str>>,
    /// For documents with `calibration`: whether a measured level may also be higher than the stated one. Default: false.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_raise: bool,
    /// For documents: asks a second model before a run ends as `confident` whose document has a section with `verify = true`. It
    /// can take `confident` away and never give it. Default: none is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_opinion: Option<SecondOpinion>,
}

impl GateSettings {
    /// The settings of a run that is called as a tool by a run with the settings `caller`: its own, but nothing is allowed
    /// there that the caller's policy forbids, and the same people are asked.
    pub fn under(mut self, caller: &Self) -> Self {
        let forbidden = caller.forbid.iter().filter(|name| !self.forbid.contains(name));
        let forbidden: Vec<Arc<str>> = forbidden.map(Arc::clone).collect();
        self.forbid.extend(forbidden);
        self.people = caller.people;
        self.approvals = self.approvals.max(caller.approvals);
        self.item_untrusted |= caller.item_untrusted;
        if caller.taint == TaintRule::Ask {
            self.taint = TaintRule::Ask;
        }
        self
    }
}

/// What follows from a value of the document that the evidence contradicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
            allow_raise: false,
            second_opinion: None,
        }
    }
}

/// Which confidence counts as stale, compared with that of the pass before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        self.into()
    }
}

/// The offset from UTC in minutes, written as people write it: `Z`, `+01:00`.
mod utc_offset {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(minutes: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match (minutes, minutes.abs()) {
            (0, _) => serializer.serialize_str("Z"),
            (minutes, size) => {
                let sign = if *minutes < 0 { '-' } else { '+' };
                serializer.collect_str(&format_args!("{sign}{:02}:{:02}", size / 60, size % 60))
            }
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        let text = String::deserialize(deserializer)?;
        minutes(&text).ok_or_else(|| {
            let message = format!("`{text}` is not an offset from UTC; write it as \"+01:00\" or \"Z\"");
            de::Error::custom(message)
        })
    }

    fn minutes(text: &str) -> Option<i32> {
        if text == "Z" {
            return Some(0);
        }
        let (sign, rest) = match text.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':')?;
        let number = |part: &str| -> Option<i32> {
            let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse().ok()).flatten()
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
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
