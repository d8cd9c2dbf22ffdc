//! How the gate judges.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::spec::policy::{
    Breakers, OnDenied, OnDuplicate, OnInvalid, OnToolError, RepeatScope, Repeats, Resolve, Taint, ThreeTier,
};
use crate::types::is_default;

/// How the gate judges.
///
/// What a setting's default is stands in the text of no spec, so that a spec that was stored before the setting was
/// there keeps its hash; whether the newer settings count at all is told by [`RunSpec::version`](crate::RunSpec::version).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateSettings {
    /// Tools that must have been observed, with or without a finding, before `confident` counts.
    pub required_tools: Vec<Arc<str>>,
    /// Whether a cheaper tier's model may reply in place of one that the cost limit does not pay for. Off by default: such
    /// a run ends as `budget_exceeded`.
    #[serde(skip_serializing_if = "is_default")]
    pub cheaper_tier: bool,
    /// Whether somebody answers when an action needs a person's consent.
    pub people: bool,
    /// Tools that are never run, whatever the model asks; by their own names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<Arc<str>>,
    /// Whether high confidence ends the run although actions that matter are open (C15).
    #[serde(skip_serializing_if = "is_default")]
    pub high_is_final: bool,
    /// Which confidence counts as stale, from pass 3 on (S0-55, C16).
    #[serde(skip_serializing_if = "is_default")]
    pub stale: Stale,
    /// Whether a pass that saw new evidence is never stale.
    #[serde(skip_serializing_if = "is_default")]
    pub stale_unless_new_evidence: bool,
    /// After how many passes in a row without new evidence and without a changed section the run ends: 2; with 0
    /// it never does. Where calls are native, passes count in which nothing could be run, and the run ends after 3.
    #[serde(skip_serializing_if = "is_two")]
    pub no_progress: u32,
    /// After how many passes in a row at low confidence the escalated model takes over: 2 (S0-121); with 0 it never
    /// does.
    #[serde(skip_serializing_if = "is_two")]
    pub escalate_after: u32,
    /// How many passes are granted to mend an answer at high confidence that lacks what is demanded: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub mending_passes: u32,
    /// Tools that change something and run without a person's consent, by their own names: whoever wrote the name here
    /// has given it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Arc<str>>,
    /// What becomes of a call that was made before; what suits the protocol where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Tools whose calls are judged as repeats, `*` for any characters; all of them where there are none (S3-24).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats_for: Vec<Arc<str>>,
    /// How far back a repeat is a repeat.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: RepeatScope,
    /// What a model gets for a call that is refused as a repeat.
    #[serde(skip_serializing_if = "is_default")]
    pub on_duplicate: OnDuplicate,
    /// The numbers of the policy `three_tier`.
    #[serde(skip_serializing_if = "is_default")]
    pub three_tier: ThreeTier,
    /// What the policy is called by whoever keeps it, for example a date; it changes nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub label: Arc<str>,
    /// Tools that may run, by their own names, `*` for any characters; all of the spec's where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Arc<str>>,
    /// What follows a call that policy denies.
    #[serde(skip_serializing_if = "is_default")]
    pub on_denied: OnDenied,
    /// What follows a reply that is not valid.
    #[serde(skip_serializing_if = "is_default")]
    pub on_invalid: OnInvalid,
    /// What follows a tool that fails.
    #[serde(skip_serializing_if = "is_default")]
    pub on_tool_error: OnToolError,
    /// Whether a stop by a limit leaves a final pass, for which part of each limit is reserved. Without it the last
    /// permitted pass is one like any other: its calls run, and the run ends before the next (S4-85).
    #[serde(skip_serializing_if = "is_true")]
    pub final_pass: bool,
    /// How a tool's name is found.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve: Resolve,
    /// Whether a run remembers what it has read.
    #[serde(skip_serializing_if = "is_default")]
    pub taint: Taint,
    /// Whether the work item itself was written by whoever liked to.
    #[serde(skip_serializing_if = "is_default")]
    pub item_untrusted: bool,
    /// Values that authority-bearing parameters may have, as policy says, for example `support@example.com` (K3).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<Arc<str>>,
    /// When repeated trouble opens a breaker.
    #[serde(skip_serializing_if = "is_default")]
    pub breakers: Breakers,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            required_tools: Vec::new(),
            cheaper_tier: false,
            people: false,
            forbid: Vec::new(),
            high_is_final: false,
            stale: Stale::default(),
            stale_unless_new_evidence: false,
            no_progress: 2,
            escalate_after: 2,
            mending_passes: 1,
            approved: Vec::new(),
            repeats: None,
            repeats_for: Vec::new(),
            scope: RepeatScope::default(),
            on_duplicate: OnDuplicate::default(),
            three_tier: ThreeTier::default(),
            label: "".into(),
            allow: Vec::new(),
            on_denied: OnDenied::default(),
            on_invalid: OnInvalid::default(),
            on_tool_error: OnToolError::default(),
            final_pass: true,
            resolve: Resolve::default(),
            taint: Taint::default(),
            item_untrusted: false,
            authorities: Vec::new(),
            breakers: Breakers::default(),
        }
    }
}

/// Which confidence counts as stale, held against that of the pass before (C16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stale {
    /// One that is not higher (S0-120); unknown counts as low.
    #[default]
    NotImproved,
    /// One that is the same (S0-44): a fall goes on.
    Equal,
    /// None.
    Off,
}

impl Stale {
    /// The setting as it is written.
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
