//! The authorised sources of a value that names a recipient or a target: the user, policy, or a trusted tool.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::policy::echo::{Parts, RequestedValues};
use crate::policy::free_text::gives;
use crate::policy::sought::{Sought, SoughtValue};
use crate::spec::RunSpec;
use crate::types::{Arguments, Evidence, Instruction, Status, WorkItem};

/// The authorised sources of values.
pub trait Sources {
    /// For each value, whether an authorised source gave exactly this text or number.
    fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<bool>;
}

/// No source: it authorises no value.
impl Sources for () {
    fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<bool> {
        vec![false; values.len()]
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
    fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<bool> {
        let sought = |(at, place)| Some((at, Sought::of(place)?));
        let open = values.iter().enumerate().filter_map(sought).collect();
        let mut search = Search { open, given: vec![false; values.len()] };
        self.in_item(&mut search);
        for instructions in self.instructions {
            search.find(|wanted| gives(&instructions.text, wanted));
        }
        self.in_tools(&mut search);
        search.given
    }
}

impl RunSources<'_> {
    fn in_item(&self, search: &mut Search<'_>) {
        let WorkItem {
            id,
            title,
            full,
            compact,
            scope,
            kind: _,
            form: _,
            caller: _,
            trace: _,
            traceparent: _,
        } = self.item;
        let by_rule = [&scope.account, &scope.account_name, &scope.asset, &scope.item, &scope.person];
        for part in by_rule.into_iter().flatten() {
            search.find(|wanted| wanted.scalar.is_text(part));
        }
        if self.spec.gate.item_untrusted {
            return;
        }
        for text in [id, title, full, compact].into_iter().chain(self.user_texts) {
            match serde_json::from_str(text) {
                Ok(data @ (Value::Array(_) | Value::Object(_))) => {
                    search.find(|wanted| data_gives(&data, wanted, gives));
                }
                Ok(_) | Err(_) => {
                    search.find(|wanted| gives(text, wanted));
                }
            }
        }
    }

    /// Searches the answers of people, and the results of trusted tools. A tool's result counts only in a pass before
    /// any tool was called with the value: a value that a call contained comes back as an echo, and the calls of one
    /// pass run in any order.
    fn in_tools(&self, search: &mut Search<'_>) {
        // The values found in tool results, each with the first pass.
        let mut returned: Vec<(usize, Sought<'_>, u32)> = Vec::new();
        let mut tools = Search { open: search.open.clone(), given: search.given.clone() };
        for Evidence { tool, pass, observation, .. } in self.evidence {
            let Some(tool) = self.spec.tool(tool) else {
                continue;
            };
            if observation.status != Status::Ok || tool.policy.returns_untrusted {
                continue;
            }
            if tool.policy.asks_person {
                search.find_in_json(&observation.data, gives);
                continue;
            }
            let found = match observation.data.as_text() {
                Some(text) => tools.find(|wanted| gives(text, wanted)),
                None => tools.find_in_json(&observation.data, |text, wanted| wanted.scalar.is_text(text)),
            };
            returned.extend(found.into_iter().map(|(at, wanted)| (at, wanted, *pass)));
        }
        if returned.is_empty() {
            return;
        }
        let before = self.requested_before.iter().map(|parameters| (0, parameters));
        let in_run = self.evidence.iter().filter_map(|Evidence { tool, pass, parameters, .. }| {
            let is_question = self.spec.tool(tool).is_none_or(|tool| tool.policy.asks_person);
            (!is_question).then_some((*pass, parameters))
        });
        let mut parts = Parts::default();
        for (pass, parameters) in before.chain(in_run) {
            if returned.iter().all(|(_, _, first)| *first < pass) {
                continue;
            }
            let requested = RequestedValues::of(parameters);
            returned.retain(|(_, wanted, first)| *first < pass || !requested.holds(&wanted.scalar));
            parts.add(&requested, pass);
        }
        // A tool may join the values of several arguments, from one call or from several.
        returned.retain(|(_, wanted, first)| !parts.make(&wanted.scalar, *first));
        for (at, ..) in returned {
            search.give(at);
        }
    }
}

/// Whether a text gives a value.
type OfText = fn(&str, &Sought<'_>) -> bool;

/// Values that are searched for in each source in turn until they are found.
struct Search<'a> {
    /// The values not found yet, with their positions in the request.
    open: Vec<(usize, Sought<'a>)>,
    given: Vec<bool>,
}

impl<'a> Search<'a> {
    /// Removes and returns the values that a source gives.
    fn find(&mut self, is_given: impl Fn(&Sought<'a>) -> bool) -> Vec<(usize, Sought<'a>)> {
        let (found, open) = std::mem::take(&mut self.open).into_iter().partition(|(_, it)| is_given(it));
        self.open = open;
        for (at, _) in &found {
            self.give(*at);
        }
        found
    }

    /// Removes and returns the values that a scalar in a JSON text equals; `of_text` compares texts. The JSON is parsed
    /// once, and only if it can contain one of the values.
    fn find_in_json(&mut self, json: &str, of_text: OfText) -> Vec<(usize, Sought<'a>)> {
        if !self.open.iter().any(|(_, wanted)| wanted.scalar.may_stand_in(json)) {
            return Vec::new();
        }
        match serde_json::from_str::<Value>(json) {
            Ok(data) => {
                self.find(|wanted| wanted.scalar.may_stand_in(json) && data_gives(&data, wanted, of_text))
            }
            Err(_) => Vec::new(),
        }
    }

    fn give(&mut self, at: usize) {
        if let Some(given) = self.given.get_mut(at) {
            *given = true;
        }
    }
}

/// Whether a scalar in JSON equals the value; `of_text` compares texts.
fn data_gives(data: &Value, wanted: &Sought<'_>, of_text: OfText) -> bool {
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
