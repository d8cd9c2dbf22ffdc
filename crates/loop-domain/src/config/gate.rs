//! `[gate]`: how it is decided after each pass whether to continue.

use loop_core::spec::{
    GroundingRule, OnDenied, OnDuplicate, OnInvalid, OnToolError, OpinionWhen, RepeatScope, Repeats, Resolve,
    Stale, TaintRule,
};
use loop_core::types::{Locale, Tier};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::Ordered;

/// How it is decided after each pass whether to continue.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GateConfig {
    /// Tools that must have run, with or without a finding, before confidence counts. Default: none.
    pub(crate) required_tools: Vec<String>,
    /// The operator's name for the policy, for example a date. It changes nothing. Default: none.
    pub(crate) label: Option<String>,
    /// Tools that may run, at least one, `*` for any characters. Default: all of them.
    #[schemars(length(min = 1))]
    pub(crate) allow: Option<Vec<String>>,
    /// Tools that never run, even if the model requests them, `*` for any characters. They are not offered to it.
    /// Default: none.
    pub(crate) forbid: Vec<String>,
    /// Tools that change something and run without a person's consent, `*` for any characters: to name one here is the
    /// consent. Default: none.
    pub(crate) approved: Vec<String>,
    /// Whether an approver can be asked: a run that needs consent or an answer then waits for it. Default: false.
    pub(crate) people: Option<bool>,
    /// How many people have to approve an action that needs consent: 1, or 2. With 2 they are two tokens of `loopgate serve`.
    /// Default: 1.
    #[schemars(range(min = 1, max = 2))]
    pub(crate) approvals: Option<u32>,
    /// Whether it matters what a run has read. `ask`: after something untrusted was read, an effect needs a person even where
    /// it is approved, and once something private was read as well nothing leaves unasked. `off`: it does not. Default: `ask`.
    #[schemars(extend("enum" = ["ask", "off"]), with = "Option<String>")]
    pub(crate) taint: Option<TaintRule>,
    /// Whether the work item itself is untrusted, because third parties can write it. Default: false.
    pub(crate) item_untrusted: Option<bool>,
    /// Values that the `authority` parameters of a tool may always have, for example an address. Default: none.
    pub(crate) authorities: Vec<String>,
    /// How a tool's name is found: `strict`, exactly; `alias`, also by its aliases; `fuzzy_unique`, also by a part of it that
    /// only one has, for tools that only look. Default: `alias`.
    #[schemars(extend("enum" = ["strict", "alias", "fuzzy_unique"]), with = "Option<String>")]
    pub(crate) resolve: Option<Resolve>,
    /// What follows a call that policy denies: `feed_back`, the denial is reported to the model, which continues;
    /// `stop`, the run ends. Default: `feed_back`.
    #[schemars(extend("enum" = ["feed_back", "stop"]), with = "Option<String>")]
    pub(crate) on_denied: Option<OnDenied>,
    /// What follows a reply that is not valid, since it calls a tool that is not there, or with parameters that do not
    /// fit, or answers with a blank text: `feed_back`, the fault is reported to the model, which continues; `stop`, the
    /// run ends as refused. Default: `feed_back`.
    #[schemars(extend("enum" = ["feed_back", "stop"]), with = "Option<String>")]
    pub(crate) on_invalid: Option<OnInvalid>,
    /// Not for the protocol `output`: whether a stop by a limit leaves a final pass, without tools, that finishes the answer,
    /// and for which part of each limit is reserved. With `false` the last permitted pass is like any other: its calls run,
    /// and the run ends before the next pass. Default: true.
    pub(crate) final_pass: Option<bool>,
    /// What follows a tool that fails: `continue`, the failure is reported to the model, which continues; `stop`, the
    /// run ends; `{ escalate_after = 2 }`, so many failures of one tool in a row need a person;
    /// `{ stop_or_escalate_after = 2 }`, a permanent failure ends the run, and so many that may pass need a person.
    /// Default: `continue`.
    #[schemars(schema_with = "on_tool_error")]
    pub(crate) on_tool_error: Option<OnToolError>,
    /// Whether a call of a `cheap` tool may start before the reply that requests it is complete; for native calls alone.
    /// Default: true, but false where `limits.cost_mode` is `strict`.
    pub(crate) eager: Option<bool>,
    /// For documents: what follows from a value (an amount, a day, an id, a name) that is in no evidence: `report`, it
    /// is marked and reported; `demand`, a confident answer with one is revised once, and else ends as
    /// `evidence_missing`; `off`, values are not looked for. Default: `report`.
    #[schemars(extend("enum" = ["off", "report", "demand"]), with = "Option<String>")]
    pub(crate) grounding: Option<GroundingRule>,
    /// For documents: how many words of its own, besides citations, a section needs that must `cite`. Default: 3.
    pub(crate) min_words: Option<u32>,
    /// For documents: the offset from UTC that runs read days and times by, such as `+01:00`: `yesterday` is the day before by
    /// this clock. Default: `Z`, UTC.
    #[schemars(regex(pattern = r"^(Z|[+-]\d\d:\d\d)$"))]
    pub(crate) utc_offset: Option<String>,
    /// How the document writes numbers and dates, which values are looked for by: `en`, `de`, `fr`, `es` or `ja`. Default:
    /// `en`.
    #[schemars(extend("enum" = ["en", "de", "fr", "es", "ja"]), with = "Option<String>")]
    pub(crate) locale: Option<Locale>,
    /// For documents: a file with what evals measured of the confidence that the domain's models state, from the folder of
    /// this file, or `none`. `loopgate eval --calibration FILE` writes it. The gate ends a run by the measured level where it
    /// is lower than the stated one. Default: none.
    pub(crate) calibration: Option<String>,
    /// For documents with `calibration`: whether a measured level may also be higher than the stated one. Default: false.
    pub(crate) allow_raise: Option<bool>,
    /// For documents: asks a second model before a run ends as `confident` whose document has a section with `verify = true`. It
    /// can take `confident` away and never give it. Default: none is asked.
    pub(crate) second_opinion: Option<SecondOpinionConfig>,
    /// When repeated failures end the run.
    pub(crate) breakers: BreakersConfig,
    /// What becomes of a call that was made before, with the same tool and parameters. `never_rerun`: it is not made again.
    /// `progress`: it is refused once it has returned the same result twice with nothing changed between, or goes in a cycle.
    /// `three_tier`: a limit for each tool, the same parameters, a search text that is alike. `reuse`: its result is given
    /// again as long as nothing was changed since. `off`: it is made again. Default: `never_rerun` for documents, else
    /// `progress`.
    #[schemars(extend("enum" = ["never_rerun", "progress", "three_tier", "reuse", "off"]), with = "Option<String>")]
    pub(crate) repeats: Option<Repeats>,
    /// Tools whose calls are judged as repeats, `*` for any characters. Default: all of them.
    pub(crate) repeats_for: Vec<String>,
    /// How far back a repeat is a repeat: `run` (or `turn`, which is a run of its own), `attempt` or `step`. Default: `run`.
    #[schemars(extend("enum" = ["run", "turn", "attempt", "step"]), with = "Option<String>")]
    pub(crate) scope: Option<RepeatScope>,
    /// What the model gets for a call that is refused as a repeat: `skip_message`, the reason; `replay_cached`, the earlier
    /// result; `deny`, a refusal by policy. Default: `skip_message`.
    #[schemars(extend("enum" = ["skip_message", "replay_cached", "deny"]), with = "Option<String>")]
    pub(crate) on_duplicate: Option<OnDuplicate>,
    /// When a result carries a note that it repeats something.
    pub(crate) repeat_notes: RepeatNotesConfig,
    /// The numbers of the policy `three_tier`.
    pub(crate) three_tier: ThreeTierConfig,
    /// Whether the `selector` model may reply where the cost limit does not pay for the base model. Its confidence counts as
    /// unknown. Default: false: the run ends as `budget_exceeded`.
    pub(crate) cheaper_tier: Option<bool>,
    /// For documents: whether high confidence ends the run although something that matters is still to be run. Default: false.
    pub(crate) high_is_final: Option<bool>,
    /// For documents, from the third pass on: the confidence that ends the run: `not_improved`, `equal` or `off`. Default:
    /// `not_improved`.
    #[schemars(extend("enum" = ["not_improved", "equal", "off"]), with = "Option<String>")]
    pub(crate) stale: Option<Stale>,
    /// For documents: whether a pass that saw new evidence never counts as stale. Default: false.
    pub(crate) stale_unless_new_evidence: Option<bool>,
    /// After how many passes in a row that returned nothing the run ends; 0 for never. A pass of a document returns new
    /// evidence or a changed section, any other a call that can be run. Default: 2 for documents, else 3.
    pub(crate) no_progress: Option<u32>,
    /// For documents: after how many passes in a row at low confidence the escalated model takes over; 0 for never. Default: 2.
    pub(crate) escalate_after: Option<u32>,
    /// Passes that are granted to repair a confident answer that lacks what is demanded. Default: 1.
    pub(crate) revision_passes: Option<u32>,
}

/// Which model gives a second opinion, and on what.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SecondOpinionConfig {
    /// The tier whose model is asked. A tier without a model of its own is the base model. Default: `selector`.
    #[schemars(extend("enum" = ["selector", "base", "escalated", "fallback"]), with = "Option<String>")]
    pub(crate) tier: Option<Tier>,
    /// What it is asked about: `ungrounded`, the sentences with a value that is not in the evidence that they cite; `always`,
    /// the whole text of the sections. Default: `ungrounded`.
    #[schemars(extend("enum" = ["ungrounded", "always"]), with = "Option<String>")]
    pub(crate) when: Option<OpinionWhen>,
}

/// When repeated failures end the run; 0 for never.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BreakersConfig {
    /// Failures of one tool in a row after which it does not run any more. Default: 3.
    pub(crate) tool_failures: Option<u32>,
    /// Calls in a row that policy denied after which a person has to continue. Default: 3.
    pub(crate) denied: Option<u32>,
    /// Calls in a row with an unknown tool or with parameters that do not fit after which a person has to go on. Default: 5.
    pub(crate) bad_arguments: Option<u32>,
}

/// When a result carries a note that it repeats something, not under `three_tier` and `off`; 0 for never. A note refuses
/// nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RepeatNotesConfig {
    /// Failures of one tool in a row, with any parameters and nothing changed between, from which on each carries a note.
    /// Default: 3.
    pub(crate) failures: Option<u32>,
    /// Equal results of a call, or equal failures of a tool, in a row and with nothing changed between, from which on each
    /// carries a note. Default: 2.
    pub(crate) same: Option<u32>,
    /// Searches in different words that returned the same, with nothing changed between, from which on each carries a note.
    /// Default: 3.
    pub(crate) searches: Option<u32>,
}

/// The numbers of the policy `three_tier`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ThreeTierConfig {
    /// How often each of these tools runs, by name. Default: 2 for `composio_execute`, `search_knowledge`,
    /// `semantic_search`, `search_codebase`, `smart_query_database`, `query_database`, `write_file` and `list_directory`, 3 for
    /// `read_file`.
    #[schemars(with = "Option<std::collections::BTreeMap<String, u32>>")]
    pub(crate) limits: Option<Ordered<u32>>,
    /// How often any other tool runs. Default: 3.
    pub(crate) other: Option<u32>,
    /// From which likeness on two search texts count as the same, from 0 to 1. Default: 0.75.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) similar: Option<f64>,
    /// Tools whose search texts are compared. Default: those with a limit of 2 that search.
    pub(crate) search: Option<Vec<String>>,
    /// Parameters that may hold a search text; the first that is there counts. Default: `query`, `search_query`, `q`,
    /// `question`, `search`, `text`.
    pub(crate) query: Option<Vec<String>>,
    /// Words that make a search text one about an action, such as `delete`. Default: twenty of them.
    pub(crate) dangerous: Option<Vec<String>>,
    /// Whether such words are taken out before comparing, which makes different actions alike. Default: false, two texts with
    /// such words are alike only where they hold the same ones.
    pub(crate) literal: Option<bool>,
}

fn on_tool_error(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "enum": ["continue", "stop"] },
            {
                "type": "object",
                "properties": { "escalate_after": { "type": "integer", "minimum": 1 } },
                "required": ["escalate_after"],
                "additionalProperties": false,
            },
            {
                "type": "object",
                "properties": { "stop_or_escalate_after": { "type": "integer", "minimum": 1 } },
                "required": ["stop_or_escalate_after"],
                "additionalProperties": false,
            },
        ],
    })
}
