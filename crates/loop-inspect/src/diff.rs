//! Compares two recorded runs: settings and versions, decisions pass by pass, document, evidence, cost and stop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use loop_core::gate::{Measure, Remedy};
use loop_core::run::{Decision, SelectedBy};
use loop_core::spec::Setting;
use loop_core::types::{CommandKey, RunId, Totals};
use loop_core::{EventKind, Note, Outcome, Run, RunSpec, WorkItem};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use loop_runtime::journal::{Recorded, replay};
use loop_runtime::run::StartError;
use loop_runtime::spec::Prompts;

use crate::sent::sent_prompts;

/// The version of this format.
pub const DIFF_VERSION: u32 = 1;
/// How many unchanged lines are shown around a changed one.
const CONTEXT_LINES: usize = 2;
/// Bounds of the comparison of prompts: how many model calls are compared word by word, how many bytes of the prompt of
/// each, and how long the exact comparison of all of them may take. Beyond a bound, differences are shown in larger
/// pieces.
const MAX_PROMPTS: usize = 40;
const MAX_PROMPT_BYTES: usize = 32 * 1024;
const PROMPTS_WITHIN: Duration = Duration::from_millis(400);
/// How many bytes before and after a difference of two prompts are shown.
const CONTEXT_BYTES: usize = 120;
/// The setting of a run that ends with an output is under this member of the spec, and not under `output`.
const IN_PROTOCOL: [&str; 2] = ["protocol.attempts", "protocol.passes_per_attempt"];

/// What differs between two recorded runs. Ids, nonces and times never count as a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunDiff {
    /// The version of this format: 1.
    pub version: u32,
    /// The first run's id.
    pub a: String,
    /// The second run's id.
    pub b: String,
    /// Whether nothing differs.
    pub equal: bool,
    /// The work items, member by member. Empty if they are the same.
    pub item: Vec<ValueDiff>,
    /// The programs and the digests of prompts and tools. Empty if they are the same.
    pub versions: Vec<ValueDiff>,
    /// The settings. Empty if they are the same.
    pub settings: Vec<ValueDiff>,
    /// The passes whose decisions differ, in their order; pass 0 is what ran before the first.
    pub passes: Vec<PassDiff>,
    /// The sections of the document, the answer and the output, as far as they differ.
    pub document: Vec<TextChange>,
    /// The results of tools, by tool and parameters, as far as they differ.
    pub evidence: Vec<ValueDiff>,
    /// Usage and cost, as far as they differ. The time of a run is not part of it.
    pub totals: Vec<ValueDiff>,
    /// Reason, class and other conditions of the stop, as far as they differ.
    pub stop: Vec<ValueDiff>,
    /// The prompts of the calls that both runs made, as far as they differ: of each what the request before did not have.
    /// Empty if none does, or where the templates of a run are not at hand. The pieces are words, not lines.
    pub prompts: Vec<TextChange>,
}

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ValueDiff {
    /// Its name, for example the path of a setting.
    pub name: String,
    /// The value in the first run. Null: it has none.
    pub a: Option<String>,
    /// The value in the second run. Null: it has none.
    pub b: Option<String>,
}

/// A pass whose decisions differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PassDiff {
    /// The pass, from 1; 0 for what ran before the first.
    pub pass: u32,
    /// Its decisions, as far as they differ.
    pub differences: Vec<ValueDiff>,
}

/// A text that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TextChange {
    /// The section's id, `answer` or `output`.
    pub name: String,
    /// Lines that differ, each with `-` (first run), `+` (second run) or a blank (both) before it.
    pub lines: Vec<String>,
}

impl RunDiff {
    /// Compares two recorded runs. A run that has not ended is compared up to its last entry.
    ///
    /// # Errors
    /// If the entries of one do not follow from each other, or were decided otherwise by the program that wrote them.
    pub fn of(a: (&RunId, &Recorded), b: (&RunId, &Recorded)) -> Result<Self, StartError> {
        let sides = [ComparedRun::of(a)?, ComparedRun::of(b)?];
        let [a, b] = &sides;
        let mut diff = Self {
            version: DIFF_VERSION,
            a: a.run.id().to_string(),
            b: b.run.id().to_string(),
            equal: false,
            item: values(a.item(), b.item()),
            versions: values(a.versions(), b.versions()),
            settings: values(settings(a.run.spec()), settings(b.run.spec())),
            passes: passes(a, b),
            document: texts(a, b),
            evidence: values(a.evidence(), b.evidence()),
            totals: values(a.totals(), b.totals()),
            stop: values(a.stop(), b.stop()),
            prompts: Vec::new(),
        };
        diff.equal = diff.is_empty();
        Ok(diff)
    }

    /// [`of`](Self::of), and the prompts, word by word, rendered with the templates of each run. They follow from what
    /// is compared already, so they do not count for `equal`.
    pub fn with_prompts(
        mut self,
        a: (&RunId, &Recorded, &Prompts),
        b: (&RunId, &Recorded, &Prompts),
    ) -> Self {
        let (a, b) = (sent_texts(a), sent_texts(b));
        let end = Instant::now() + PROMPTS_WITHIN;
        let both = a.iter().filter_map(|(call, text)| Some((call, text, b.get(call)?)));
        self.prompts = both
            .take(MAX_PROMPTS)
            .filter(|(_, a, b)| a != b)
            .map(|(call, a, b)| TextChange { name: call.to_string(), lines: word_diff(a, b, end) })
            .collect();
        self
    }

    fn is_empty(&self) -> bool {
        let values = [&self.item, &self.versions, &self.settings, &self.evidence, &self.totals, &self.stop];
        values.into_iter().all(Vec::is_empty) && self.passes.is_empty() && self.document.is_empty()
    }
}

/// Values by name.
type Values = BTreeMap<String, String>;

/// One of the runs.
#[derive(Debug)]
struct ComparedRun<'a> {
    run: Run,
    recorded: &'a Recorded,
}

impl<'a> ComparedRun<'a> {
    fn of((id, recorded): (&RunId, &'a Recorded)) -> Result<Self, StartError> {
        Ok(Self { run: replay(id, recorded)?, recorded })
    }

    fn item(&self) -> Values {
        // Who requested the run, and under which trace, is not part of the work.
        let item =
            WorkItem { caller: None, trace: None, traceparent: None, ..self.run.started().item.clone() };
        leaves(&serde_json::to_value(item).unwrap_or_default())
    }

    fn versions(&self) -> Values {
        let started = self.run.started();
        let program = started.provenance.program.to_string();
        let all = [
            ("program", program),
            ("prompts", started.prompts.to_string()),
            ("tools", started.tools.to_string()),
        ];
        all.into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn evidence(&self) -> Values {
        let mut results = Values::new();
        for evidence in self.run.evidence() {
            let (status, digest) = (evidence.observation.status.name(), evidence.observation.digest.short());
            let result = format!("{status}, {} ({digest})", evidence.observation.summary);
            add(&mut results, format!("{} {}", evidence.tool, evidence.parameters), result);
        }
        results
    }

    fn totals(&self) -> Values {
        let Totals { passes, model_calls, tool_calls, sub_calls, usage, cost, .. } = self.run.totals();
        let all = [
            ("passes", passes.to_string()),
            ("model calls", model_calls.to_string()),
            ("tool calls", tool_calls.to_string()),
            ("calls of smart tools", sub_calls.to_string()),
            ("input tokens", usage.total_input().to_string()),
            ("output tokens", usage.total_output().to_string()),
            ("cost", cost.to_string()),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn stop(&self) -> Values {
        let mut values = Values::new();
        let Some(Outcome { stop, .. }) = self.run.outcome() else {
            values.insert("reason".to_owned(), format!("not ended: {}", self.run.phase().name()));
            return values;
        };
        values.insert("reason".to_owned(), stop.primary.reason.name().to_owned());
        values.insert("class".to_owned(), stop.class.name().to_owned());
        let also: Vec<&str> = stop.also.iter().map(|condition| condition.reason.name()).collect();
        values.insert("also".to_owned(), also.join(", "));
        values
    }

    /// The decisions of a pass.
    fn decisions(&self, pass: u32) -> Values {
        let mut values = Values::new();
        if let Some(record) = self.run.passes().iter().find(|record| record.pass == pass) {
            values.insert("tier".to_owned(), record.tier.name().to_owned());
            if self.run.spec().protocol.properties().states_confidence {
                values.insert("confidence".to_owned(), record.confidence.name().to_owned());
                if let Some(calibrated) = record.calibrated {
                    values.insert("measured confidence".to_owned(), calibrated.measured.name().to_owned());
                }
                values.insert("changed".to_owned(), record.changed.join(", "));
            }
            if record.final_pass {
                values.insert("final pass".to_owned(), "yes".to_owned());
            }
        }
        for action in self.run.actions().iter().filter(|action| action.key.pass == pass) {
            let verdict = action.verdict.name().to_owned();
            add(&mut values, format!("{} {}", action.tool_name(), action.parameters), verdict);
        }
        for note in self.recorded.entries.iter().flat_map(|entry| &entry.notes) {
            match note {
                Note::GateDecided { pass: of, decision, .. } if *of == pass => {
                    values.insert("gate".to_owned(), decided(decision));
                }
                Note::Selected { by, runs } if pass == 0 => {
                    let by = match by {
                        SelectedBy::Selector => "the auxiliary model".to_owned(),
                        SelectedBy::Defaults { why } => format!("the default tools ({why})"),
                    };
                    values.insert("selection".to_owned(), format!("{by}: {runs}"));
                }
                _ => {}
            }
        }
        values
    }

    /// The texts of the result, by name, in the order in which they are shown.
    fn texts(&self) -> Vec<(String, String)> {
        let sections = self.run.document().sections.iter();
        let mut texts: Vec<(String, String)> =
            sections.map(|section| (section.id.to_string(), section.body.to_string())).collect();
        if let Some(outcome) = self.run.outcome() {
            texts.extend(outcome.answer.iter().map(|answer| ("answer".to_owned(), answer.to_string())));
            texts.extend(outcome.output.iter().map(|output| ("output".to_owned(), output.value.to_string())));
        }
        texts
    }
}

/// Adds a value. A second value of the same name is appended to the first.
fn add(values: &mut Values, name: String, value: String) {
    values.entry(name).and_modify(|all| *all = format!("{all}; {value}")).or_insert(value);
}

/// A decision of the gate in words.
pub fn decided(decision: &Decision) -> String {
    match decision {
        Decision::Act { runs, asks: 0 } => format!("acts: {runs} run"),
        Decision::Act { runs, asks } => format!("acts: {runs} run, {asks} wait for a person"),
        Decision::Check { runs: 0 } => "checks the document or the output".to_owned(),
        Decision::Check { runs } => format!("checks the output: {runs} run"),
        Decision::Revise { missing } => format!("revises: {}", missing.join(", ")),
        Decision::FinalPass { cause } => format!("makes the final pass: {}", cause.reason),
        Decision::Stop(certificate) => format!("stops: {}", certificate.primary.reason),
    }
}

/// The settings of a spec: those that a decision can name by their path in a domain file, the others by their path in
/// the spec.
fn settings(spec: &RunSpec) -> Values {
    let mut values = Values::new();
    let mut written: BTreeSet<&str> = IN_PROTOCOL.into_iter().collect();
    for setting in Setting::ALL.iter().copied() {
        // The value is not read: only the setting is.
        let before = Remedy { setting, to: Measure::Count(0) }.before(spec);
        if let Some(before) = before {
            let line = before.to_string();
            let value = line.split_once(" = ").map_or(line.as_str(), |(_, value)| value);
            values.insert(setting.path().to_owned(), value.to_owned());
        }
        written.insert(setting.path());
    }
    for (path, value) in leaves(&serde_json::to_value(spec).unwrap_or_default()) {
        let is_written = written.iter().any(|known| {
            path == *known || path.strip_prefix(known).is_some_and(|rest| rest.starts_with('.'))
        });
        if !is_written {
            values.insert(path, value);
        }
    }
    values
}

/// The leaves of a JSON value by their dotted paths. Tools and sections are named by their own names.
fn leaves(value: &Value) -> Values {
    let mut values = Values::new();
    collect(value, String::new(), &mut values);
    values
}

fn collect(value: &Value, path: String, values: &mut Values) {
    let under = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| collect(member, under(name), values))
        }
        Value::Array(elements) if elements.iter().any(Value::is_object) => {
            for (n, element) in elements.iter().enumerate() {
                let name = ["name", "id"].iter().find_map(|key| element.get(key).and_then(Value::as_str));
                collect(element, under(&name.map_or_else(|| n.to_string(), str::to_owned)), values);
            }
        }
        Value::String(text) => _ = values.insert(path, text.clone()),
        other => _ = values.insert(path, other.to_string()),
    }
}

/// The values that differ, by name.
fn values(a: Values, b: Values) -> Vec<ValueDiff> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differing = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    differing
        .map(|name| ValueDiff { name: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() })
        .collect()
}

fn passes(a: &ComparedRun<'_>, b: &ComparedRun<'_>) -> Vec<PassDiff> {
    let last = |side: &ComparedRun<'_>| {
        let of_actions = side.run.actions().last().map_or(0, |action| action.key.pass);
        side.run.passes().last().map_or(0, |pass| pass.pass).max(of_actions)
    };
    (0..=last(a).max(last(b)))
        .filter_map(|pass| {
            let differences = values(a.decisions(pass), b.decisions(pass));
            (!differences.is_empty()).then_some(PassDiff { pass, differences })
        })
        .collect()
}

fn texts(a: &ComparedRun<'_>, b: &ComparedRun<'_>) -> Vec<TextChange> {
    let (a, b) = (a.texts(), b.texts());
    let text_of = |texts: &[(String, String)], name: &str| {
        texts.iter().find(|(of, _)| of == name).map_or_else(String::new, |(_, text)| text.clone())
    };
    let mut names: Vec<&String> = a.iter().map(|(name, _)| name).collect();
    names.extend(b.iter().map(|(name, _)| name).filter(|name| !a.iter().any(|(of, _)| of == *name)));
    names
        .into_iter()
        .filter_map(|name| {
            let lines = line_diff(&text_of(&a, name), &text_of(&b, name));
            (!lines.is_empty()).then(|| TextChange { name: name.clone(), lines })
        })
        .collect()
}

/// The text of each call that the request before it did not have, by the call's key, in the order of the passes. The
/// nonce is left out, since it differs in each run.
fn sent_texts((id, recorded, prompts): (&RunId, &Recorded, &Prompts)) -> BTreeMap<CommandKey, String> {
    let nonce = recorded.entries.first().and_then(|first| match &first.event.kind {
        EventKind::Started(started) if !started.nonce.is_empty() => Some(&*started.nonce),
        _ => None,
    });
    let sent = sent_prompts(id, recorded, prompts).unwrap_or_default();
    let first = sent.into_iter().filter(|sent| sent.attempt == 1).take(MAX_PROMPTS);
    let texts = first.filter_map(|sent| {
        let parts = sent.parts?.into_iter().map(|part| format!("{}:\n{}", part.role, part.text));
        let mut text = parts.collect::<Vec<_>>().join("\n\n");
        text.truncate(text.floor_char_boundary(MAX_PROMPT_BYTES));
        Some((sent.call, nonce.map_or(text.clone(), |nonce| text.replace(nonce, "…"))))
    });
    texts.collect()
}

/// The pieces of two texts, each with `-` (only in `a`), `+` (only in `b`) or a blank (in both) before it. Text that
/// both have is shown only next to a difference.
fn word_diff(a: &str, b: &str, end: Instant) -> Vec<String> {
    let diff = TextDiff::configure().deadline(end).diff_words(a, b);
    let mut pieces: Vec<String> = Vec::new();
    for change in diff.iter_all_changes() {
        let mark = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        match pieces.last_mut().filter(|last| last.starts_with(mark)) {
            Some(last) => last.push_str(change.value()),
            None => pieces.push(format!("{mark}{}", change.value())),
        }
    }
    for piece in pieces.iter_mut().filter(|piece| piece.starts_with(' ') && piece.len() > 3 * CONTEXT_BYTES) {
        let (begin, rest) = piece.split_at(piece.floor_char_boundary(CONTEXT_BYTES));
        let end = rest.split_at(rest.ceil_char_boundary(rest.len() - CONTEXT_BYTES)).1;
        *piece = format!("{begin} … {end}");
    }
    pieces
}

/// The lines that differ, each with `-` (only in `a`), `+` (only in `b`) or a blank (in both) before it, with a few around
/// them. Empty if none does.
pub fn line_diff(a: &str, b: &str) -> Vec<String> {
    if a == b {
        return Vec::new();
    }
    let diff = TextDiff::from_lines(a, b);
    let mut lines = Vec::new();
    for (n, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if n > 0 {
            lines.push("…".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let mark = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(format!("{mark}{}", change.value().trim_end_matches(['\n', '\r'])));
        }
    }
    lines
}
