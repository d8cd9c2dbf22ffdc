//! The authorised sources of a value that names a recipient or a target: the user, policy, or a trusted tool.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::policy::echo::{RequestedValues, SentTexts};
use crate::policy::free_text::{gives, has_name, mentions};
use crate::policy::pointer::within;
use crate::policy::scalar::Scalar;
use crate::policy::sought::{Needle, SoughtValue};
use crate::spec::RunSpec;
use crate::types::{Arguments, Evidence, EvidenceId, Instruction, Status, WorkItem};

/// An authorised source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueSource {
    /// The user's words: the work item, a message before it, an instruction, an answer to a question.
    User,
    /// The result of a trusted tool.
    Tool(EvidenceId),
    /// A trusted field of an untrusted result. Which of such values is used is the model's choice.
    TrustedField(EvidenceId),
}

/// The authorised sources of values.
pub trait Sources {
    /// For each value, the source that has exactly this text or number; the user takes precedence over tools. `None`:
    /// no source has it.
    fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<Option<ValueSource>>;

    /// Whether this value is anywhere in the user's text, as whole words.
    fn mention(&self, value: &Value) -> bool;
}

/// No source: it authorises no value.
impl Sources for () {
    fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<Option<ValueSource>> {
        vec![None; values.len()]
    }

    fn mention(&self, _: &Value) -> bool {
        false
    }
}

/// The authorised sources of a run: its work item, the instructions of people, and the results of trusted tools.
#[derive(Clone, Copy)]
pub struct RunSources<'a> {
    /// The spec: which tools are trusted, and whether the work item is.
    pub spec: &'a RunSpec,
    /// The work item. If it is untrusted, its scope still counts, because the domain took the scope from it by rule.
    pub item: &'a WorkItem,
    /// The results so far, in their order.
    pub evidence: &'a [Evidence],
    /// What people instructed during the run, in order.
    pub instructions: &'a [Instruction],
    /// The arguments of tool calls in the messages before the run. A result that repeats them is an echo, not a source.
    pub requested_before: &'a [Arguments],
    /// What the user wrote in the messages before the run. They count where the work item does: it is the user's next one.
    pub user_texts: &'a [Arc<str>],
}

impl Sources for RunSources<'_> {
    fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<Option<ValueSource>> {
        let sought = |(at, place)| Some((at, Needle::of(place)?));
        let open = values.iter().enumerate().filter_map(sought).collect();
        let mut search = SourceSearch { open, given: vec![None; values.len()] };
        self.in_item(&mut search);
        for instructions in self.instructions {
            search.find(ValueSource::User, |wanted| gives(&instructions.text, wanted));
        }
        self.in_tools(&mut search);
        search.given
    }

    fn mention(&self, value: &Value) -> bool {
        let Some(scalar) = Scalar::of(value).filter(Scalar::is_plain) else { return false };
        self.user_words().any(|text| mentions(text, scalar.text()))
    }
}

impl RunSources<'_> {
    fn in_item(&self, search: &mut SourceSearch<'_>) {
        let scope = &self.item.scope;
        let by_rule = [&scope.account, &scope.account_name, &scope.asset, &scope.item, &scope.person];
        for part in by_rule.into_iter().flatten() {
            search.find(ValueSource::User, |wanted| wanted.scalar.is_text(part));
        }
        for text in self.item_texts() {
            match serde_json::from_str(text) {
                Ok(data @ (Value::Array(_) | Value::Object(_))) => {
                    search.find(ValueSource::User, |wanted| data_gives(&data, wanted, gives));
                }
                Ok(_) | Err(_) => {
                    search.find(ValueSource::User, |wanted| gives(text, wanted));
                }
            }
        }
    }

    /// The texts of the work item, and the user's messages before it. None if the item is untrusted.
    fn item_texts(&self) -> impl Iterator<Item = &Arc<str>> {
        let WorkItem {
            id,
            title,
            full,
            compact,
            scope: _,
            kind: _,
            form: _,
            caller: _,
            trace: _,
            traceparent: _,
        } = self.item;
        let texts = [id, title, full, compact].into_iter().chain(self.user_texts);
        texts.filter(|_| !self.spec.gate.item_untrusted)
    }

    /// Whether the user's words name a value that the system knows by exactly this name.
    fn is_named_by_user(&self, wanted: &Needle<'_>) -> bool {
        self.user_words().any(|text| has_name(text, wanted))
    }

    /// What the user wrote: the work item, the messages before it, the instructions.
    fn user_words(&self) -> impl Iterator<Item = &Arc<str>> {
        self.item_texts().chain(self.instructions.iter().map(|instruction| &instruction.text))
    }

    /// Searches the answers of people, and the results of trusted tools and trusted fields. Such a result counts only in a
    /// pass before any tool was called with the value: a value that a call contained comes back as an echo, and the
    /// calls of one pass run in any order. A name that the user's words have counts as theirs if a result has it as well.
    fn in_tools(&self, search: &mut SourceSearch<'_>) {
        // The values found in tool results, each with the first pass.
        let mut returned: Vec<ReturnedValue<'_>> = Vec::new();
        for trusts_whole in [true, false] {
            let mut tools = SourceSearch { open: search.open.clone(), given: search.given.clone() };
            for Evidence { id, tool, pass, observation, .. } in self.evidence {
                let Some(tool) = self.spec.tool(tool).filter(|tool| tool.policy.lease.is_none()) else {
                    continue;
                };
                if observation.status != Status::Ok || tool.policy.returns_untrusted == trusts_whole {
                    continue;
                }
                if tool.policy.asks_person {
                    search.find_in_json(ValueSource::User, &observation.data, gives);
                    continue;
                }
                let found = match (observation.data.as_text(), trusts_whole) {
                    (Some(text), true) => tools.find(ValueSource::Tool(*id), |wanted| gives(text, wanted)),
                    (None, true) => {
                        tools.find_in_json(ValueSource::Tool(*id), &observation.data, |text, wanted| {
                            wanted.scalar.is_text(text)
                        })
                    }
                    (_, false) => {
                        let fields = &tool.policy.trusted_fields;
                        tools.find_in_fields(ValueSource::TrustedField(*id), &observation.data, fields)
                    }
                };
                returned.extend(found.into_iter().map(|(at, wanted)| ReturnedValue {
                    at,
                    wanted,
                    first: *pass,
                    by: if trusts_whole { ValueSource::Tool(*id) } else { ValueSource::TrustedField(*id) },
                }));
            }
        }
        if returned.is_empty() {
            return;
        }
        for ReturnedValue { at, wanted, .. } in &returned {
            if self.is_named_by_user(wanted) {
                search.give(*at, ValueSource::User);
            }
        }
        returned.retain(|it| search.given.get(it.at) == Some(&None));
        let before = self.requested_before.iter().map(|parameters| (0, parameters));
        let in_run = self.evidence.iter().filter_map(|Evidence { tool, pass, parameters, .. }| {
            let is_question = self.spec.tool(tool).is_none_or(|tool| tool.policy.asks_person);
            (!is_question).then_some((*pass, parameters))
        });
        let mut parts = SentTexts::default();
        for (pass, parameters) in before.chain(in_run) {
            if returned.iter().all(|it| it.first < pass) {
                continue;
            }
            let requested = RequestedValues::of(parameters);
            returned.retain(|it| it.first < pass || !requested.holds(&it.wanted.scalar));
            parts.add(&requested, pass);
        }
        // A tool may join the values of several arguments, from one call or from several.
        returned.retain(|it| !parts.make(&it.wanted.scalar, it.first));
        // Those of trusted tools come first.
        for ReturnedValue { at, by, .. } in returned {
            search.give(at, by);
        }
    }
}

/// A value that a tool returned.
struct ReturnedValue<'a> {
    /// Its position in the request.
    at: usize,
    wanted: Needle<'a>,
    /// The pass of the first result that has it.
    first: u32,
    by: ValueSource,
}

/// Whether a text gives a value.
type OfText = fn(&str, &Needle<'_>) -> bool;

/// Values that are searched for in each source in turn until they are found.
struct SourceSearch<'a> {
    /// The values not found yet, with their positions in the request.
    open: Vec<(usize, Needle<'a>)>,
    given: Vec<Option<ValueSource>>,
}

impl<'a> SourceSearch<'a> {
    /// Removes and returns the values that a source gives.
    fn find(&mut self, by: ValueSource, is_given: impl Fn(&Needle<'a>) -> bool) -> Vec<(usize, Needle<'a>)> {
        let (found, open) = std::mem::take(&mut self.open).into_iter().partition(|(_, it)| is_given(it));
        self.open = open;
        for (at, _) in &found {
            self.give(*at, by);
        }
        found
    }

    /// Removes and returns the values that a scalar in a JSON text equals; `of_text` compares texts. The JSON is parsed
    /// once, and only if it can contain one of the values.
    fn find_in_json(&mut self, by: ValueSource, json: &str, of_text: OfText) -> Vec<(usize, Needle<'a>)> {
        if !self.may_stand_in(json) {
            return Vec::new();
        }
        match serde_json::from_str::<Value>(json) {
            Ok(data) => {
                self.find(by, |wanted| wanted.scalar.may_stand_in(json) && data_gives(&data, wanted, of_text))
            }
            Err(_) => Vec::new(),
        }
    }

    /// The same in the parts of a JSON text at these pointers alone. Texts are compared exactly.
    fn find_in_fields(
        &mut self,
        by: ValueSource,
        json: &str,
        pointers: &[Arc<str>],
    ) -> Vec<(usize, Needle<'a>)> {
        if pointers.is_empty() || !self.may_stand_in(json) {
            return Vec::new();
        }
        let Ok(data) = serde_json::from_str::<Value>(json) else { return Vec::new() };
        let fields = pointers.iter().flat_map(|pointer| within(&data, pointer));
        let fields: Vec<&Value> = fields.collect();
        // The names of the members of a field are its values, as in `{"ada@brown.example": "reads"}`.
        let is_named = |field: &Value, wanted: &Needle<'_>| {
            field.as_object().is_some_and(|members| members.keys().any(|name| wanted.scalar.is_text(name)))
        };
        self.find(by, |wanted| {
            fields.iter().any(|field| {
                is_named(field, wanted)
                    || data_gives(field, wanted, |text, wanted| wanted.scalar.is_text(text))
            })
        })
    }

    fn may_stand_in(&self, json: &str) -> bool {
        self.open.iter().any(|(_, wanted)| wanted.scalar.may_stand_in(json))
    }

    fn give(&mut self, at: usize, by: ValueSource) {
        if let Some(given) = self.given.get_mut(at) {
            given.get_or_insert(by);
        }
    }
}

/// Whether a scalar in JSON equals the value; `of_text` compares texts.
fn data_gives(data: &Value, wanted: &Needle<'_>, of_text: OfText) -> bool {
    match data {
        Value::String(text) => of_text(text, wanted),
        Value::Number(_) | Value::Bool(_) | Value::Null => wanted.scalar.is(data),
        Value::Array(elements) => elements.iter().any(|value| data_gives(value, wanted, of_text)),
        Value::Object(members) => members.values().any(|value| data_gives(value, wanted, of_text)),
    }
}

impl fmt::Debug for RunSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunSources")
            .field("item", &self.item.id)
            .field("evidence", &self.evidence.len())
            .field("instructions", &self.instructions.len())
            .finish_non_exhaustive()
    }
}
