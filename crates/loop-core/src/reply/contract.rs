//! The contract: the fenced JSON block with the confidence, its reason and the actions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reply::markdown::{FencedBlock, Layout, with_line_feeds};
use crate::reply::parse_warning::ParseWarning;
use crate::reply::sections::{body, without_thoughts};
use crate::spec::{NonceMode, PLAN};
use crate::types::{
    Action, Arguments, Confidence, Digest, Observation, Priority, SourceValue, cleaned, digest, is_default,
};

/// The member that identifies a contract block.
const MARK: &str = "analysis_confidence";

/// The content of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contract {
    pub(crate) confidence: Confidence,
    pub(crate) reason: Arc<str>,
    pub(crate) actions: Vec<Action>,
    pub(crate) refused: Option<Arc<str>>,
    pub(crate) escalated: Option<Arc<str>>,
    pub(crate) plan: Option<Arguments>,
}

/// The contract of a reply if one counts, and the byte ranges to leave out of the sections.
#[derive(Debug, Default)]
pub(crate) struct FoundContract {
    pub(crate) contract: Option<Contract>,
    pub(crate) hidden: Vec<Range<usize>>,
    pub(crate) parse_warnings: Vec<ParseWarning>,
}

impl FoundContract {
    fn ignore(&mut self, why: &str) {
        self.parse_warnings.push(ParseWarning::IgnoredContract { why: why.into() });
    }
}

/// The rules by which a contract block counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContractRules<'a> {
    pub(crate) nonce: &'a str,
    pub(crate) mode: NonceMode,
    /// The contracts in texts that the run has read.
    pub(crate) echoes: &'a Echoes,
}

/// Finds the contract among the top-level fenced blocks of a reply: the last block that counts.
pub(crate) fn find(text: &str, layout: &Layout, rules: ContractRules<'_>) -> FoundContract {
    let mut found = FoundContract::default();
    let mut unmarked = None;
    let mut marked = None;
    for block in &layout.blocks {
        let content = text.get(block.content.clone()).unwrap_or_default();
        if !is_meant(content) {
            continue;
        }
        if layout.open_thought.is_some_and(|thought| thought < block.whole.start) {
            found.hidden.push(block.whole.clone());
            found.ignore("it follows thinking that does not end");
            continue;
        }
        let repaired = found.parse_warnings.len();
        let parsed = match parse_object(content, &mut found.parse_warnings) {
            // A repaired block cannot be compared with earlier contracts, so only the nonce shows that it is not an
            // echo.
            Ok(object) if found.parse_warnings.len() > repaired && !object.contains_key("nonce") => {
                Err("trailing commas, and no nonce".to_owned())
            }
            parsed => parsed,
        };
        match parsed {
            Err(why) => {
                found.hidden.push(block.whole.clone());
                found.parse_warnings.push(ParseWarning::GarbledContract { why: why.into() });
                // The last block counts, and it cannot be parsed.
                if let Some((_, earlier)) = unmarked.take() {
                    found.hidden.push(earlier);
                    found.ignore("another one follows");
                }
            }
            Ok(object) if !object.contains_key(MARK) => {}
            Ok(object) => match object.get("nonce") {
                Some(nonce) => {
                    found.hidden.push(block.whole.clone());
                    if nonce.as_str() != Some(rules.nonce) {
                        found.ignore("wrong nonce");
                    } else if marked.replace((object, content)).is_some() {
                        found.ignore("another one follows");
                    }
                }
                None => {
                    if let Some((_, earlier)) = unmarked.replace(((object, content), block.whole.clone())) {
                        found.hidden.push(earlier);
                        found.ignore("another one follows");
                    }
                }
            },
        }
    }
    if let (Some(_), Some((_, whole))) = (&marked, &unmarked) {
        found.hidden.push(whole.clone());
        found.ignore("another one has the nonce");
    }
    let chosen = marked.or_else(|| {
        let ((object, content), whole) = unmarked?;
        let why = match rules.mode {
            NonceMode::Require => Some("no nonce"),
            NonceMode::Prefer => rules.echoes.objection(&object),
        };
        found.hidden.push(whole);
        if let Some(why) = why {
            found.ignore(why);
            return None;
        }
        Some((object, content))
    });
    found.hidden.sort_by_key(|range| range.start);
    found.contract = chosen.and_then(|(object, content)| read(&object, content, &mut found.parse_warnings));
    found
}

/// Whether a block is meant as a contract. Any other one, such as a text about contracts, is part of its section.
fn is_meant(content: &str) -> bool {
    let opening = content.trim_start();
    let is_object = opening.starts_with(['{', '[']) || opening.trim_start_matches('"').starts_with(MARK);
    is_object && content.contains(MARK)
}

/// Adds the contracts without a fence to the blocks, if no block is a contract: objects at the top level, on lines of
/// their own. Whether one was added.
pub(crate) fn take_bare(text: &str, layout: &mut Layout) -> bool {
    let is_contract = |block: &FencedBlock| text.get(block.content.clone()).is_some_and(is_meant);
    if !text.contains(MARK) || layout.blocks.iter().any(is_contract) {
        return false;
    }
    let mut bare = Vec::new();
    for piece in layout.outside(text.len()) {
        let within = text.get(piece.clone()).unwrap_or_default();
        objects(within, |at, object| {
            // Each blank is looked at from its neighbours alone, so that a line of objects takes no more time.
            let before = within.get(..at.start).unwrap_or_default();
            let after = within.get(at.end..).unwrap_or_default();
            let above = before.trim_end_matches(' ');
            let below = after.trim_start_matches([' ', '\t', '\r']);
            let is_alone = (above.is_empty() || above.ends_with('\n'))
                && before.len() - above.len() <= 3
                && (below.is_empty() || below.starts_with('\n'));
            // A part of a list or of an object that cannot be parsed.
            let is_part = ["[", "{", ",", "\":"].iter().any(|end| above.trim_end().ends_with(end));
            if is_alone && !is_part && object.get(MARK).is_some() {
                let rest = after.len() - below.len() + usize::from(!below.is_empty());
                let whole = piece.start + above.len()..piece.start + at.end + rest;
                bare.push(FencedBlock { content: whole.clone(), whole, closed: true });
            }
        });
    }
    let is_any = !bare.is_empty();
    layout.blocks.extend(bare);
    layout.blocks.sort_by_key(|block| block.whole.start);
    is_any
}

/// Whether a text holds at most contracts.
pub(crate) fn is_alone(text: &str) -> bool {
    let mut layout = Layout::of(text);
    take_bare(text, &mut layout);
    let is_contract = |block: &&FencedBlock| text.get(block.content.clone()).is_some_and(is_meant);
    let contracts: Vec<Range<usize>> =
        layout.blocks.iter().filter(is_contract).map(|block| block.whole.clone()).collect();
    body(text, 0..text.len(), &contracts).is_empty()
}

/// Where the last complete contract block ends. `None`: there is none.
pub(crate) fn end_of_last(text: &str, layout: &Layout) -> Option<usize> {
    let is_contract = |content: &str| {
        let object = parse_object(content, &mut Vec::new());
        content.contains(MARK) && object.is_ok_and(|object| object.contains_key(MARK))
    };
    let mut closed = layout.blocks.iter().rev().filter(|block| block.closed);
    let last = closed.find(|block| text.get(block.content.clone()).is_some_and(is_contract))?;
    Some(last.whole.end)
}

/// Finds the contract in the reply to a repair call: a fenced block, or the whole text as one object.
pub(crate) fn find_repaired(text: &str, rules: ContractRules<'_>) -> FoundContract {
    let fed = with_line_feeds(text);
    let text = &*without_thoughts(&fed);
    let mut layout = Layout::of(text);
    take_bare(text, &mut layout);
    let found = find(text, &layout, rules);
    if found.contract.is_some() || !text.trim_start().starts_with('{') {
        return found;
    }
    let fenced = format!("```json\n{}\n```\n", text.trim());
    find(&fenced, &Layout::of(&fenced), rules)
}

/// Joiners, which a model may drop when it repeats a text.
const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// The digests of the contracts in texts that the run has read. A contract without a nonce that equals one of them is
/// an echo and does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Echoes {
    known: BTreeSet<Digest>,
    /// Whether a text could not be searched completely. Its contracts are then unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    gave_up: bool,
}

impl Echoes {
    /// Adds the contracts in a text.
    ///
    /// The scan goes forward once: an object that parses is skipped as a whole, and its members are visited once. The
    /// text is scanned unchanged, as a prompt shows it, and as that without joiners.
    pub(crate) fn read(&mut self, text: &str) {
        let mut scan = |text: &str| {
            if text.contains(MARK) {
                self.scan(text);
            }
        };
        scan(text);
        let shown = cleaned(text);
        if let Cow::Owned(shown) = &shown {
            scan(shown);
        }
        if JOINERS.iter().any(|joiner| shown.contains(*joiner)) {
            scan(&shown.replace(JOINERS, ""));
        }
    }

    /// Adds the contracts in each part of an observation.
    pub(crate) fn read_observation(&mut self, observation: &Observation) {
        self.read(&observation.summary);
        self.read(observation.text());
        if let Some(failure) = &observation.failure {
            self.read(&failure.title);
        }
        self.read_data(&observation.data);
    }

    /// Adds the contracts in JSON, including those inside its strings.
    fn read_data(&mut self, data: &str) {
        match serde_json::from_str(data) {
            Ok(value) => self.value(&value),
            Err(_) => self.read(data),
        }
    }

    fn scan(&mut self, text: &str) {
        self.gave_up |= !objects(text, |_, value| self.value(&value));
    }

    /// Adds the contracts in a value and in its strings.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                if object.contains_key(MARK) {
                    self.known.insert(contract_digest(object));
                }
                object.values().for_each(|member| self.value(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.value(item)),
            Value::String(text) => self.read(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Why a block without a nonce does not count. `None`: it counts.
    fn objection(&self, object: &Map<String, Value>) -> Option<&'static str> {
        if !self.known.is_empty() && self.known.contains(&contract_digest(object)) {
            return Some("an echo of what was read");
        }
        // After an incomplete search an echo cannot be excluded.
        self.gave_up.then_some("no nonce, and what was read could not be searched whole")
    }
}

/// Visits the JSON objects of a text in order, each as a whole. `false`: the text was not searched completely.
fn objects(text: &str, mut visit: impl FnMut(Range<usize>, Value)) -> bool {
    /// The bytes parsed in all are at most this many times the text, so that unbalanced braces do not cost its
    /// square.
    const TIMES: usize = 8;
    let mut spare = text.len().saturating_mul(TIMES);
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find('{')).map(|open| at + open) {
        let rest = text.get(open..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                at = open + values.byte_offset().max(1);
                visit(open..at, value);
            }
            Some(Err(error)) => {
                let lines = rest.split_inclusive('\n').take(error.line().saturating_sub(1));
                let came: usize = lines.map(str::len).sum::<usize>() + error.column();
                spare = spare.saturating_sub(came);
                if spare == 0 {
                    return false;
                }
                at = open + 1;
            }
            None => return true,
        }
    }
    true
}

fn contract_digest(object: &Map<String, Value>) -> Digest {
    digest("contract", &Value::Object(object.clone()))
}

/// Parses strict JSON, then JSON with trailing commas. Anything else is an error for the model.
fn parse_object(text: &str, parse_warnings: &mut Vec<ParseWarning>) -> Result<Map<String, Value>, String> {
    let error = match serde_json::from_str(text.trim()) {
        Ok(Value::Object(object)) => return Ok(object),
        Ok(_) => return Err("not a JSON object".to_owned()),
        Err(error) => error,
    };
    let repaired = without_trailing_commas(text.trim());
    if let Ok(Value::Object(object)) = serde_json::from_str(&repaired) {
        parse_warnings.push(ParseWarning::RepairedContract { what: "trailing commas were left out".into() });
        return Ok(object);
    }
    Err(error.to_string())
}

fn without_trailing_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if in_string {
            (in_string, escaped) = match (c, escaped) {
                (_, true) => (true, false),
                ('\\', false) => (true, true),
                ('"', false) => (false, false),
                (_, false) => (true, false),
            };
        } else if c == '"' {
            in_string = true;
        } else if c == ',' {
            let rest = text.get(at + 1..).unwrap_or_default().trim_start();
            if rest.starts_with(['}', ']']) {
                continue;
            }
        }
        out.push(c);
    }
    out
}

/// Reads a contract. `content` is the block that the object was parsed from.
fn read(
    object: &Map<String, Value>,
    content: &str,
    parse_warnings: &mut Vec<ParseWarning>,
) -> Option<Contract> {
    let garbled = |why: &str| ParseWarning::GarbledContract { why: why.into() };
    let confidence = match object
        .get(MARK)
        .and_then(Value::as_str)
        .map(|word| word.trim().to_ascii_lowercase())
        .as_deref()
    {
        Some("high") => Confidence::High,
        Some("medium") => Confidence::Medium,
        Some("low") => Confidence::Low,
        _ => {
            parse_warnings.push(garbled("analysis_confidence is not high, medium or low"));
            return None;
        }
    };
    let written = SourceValue::read(content.trim())
        .or_else(|| SourceValue::read(&without_trailing_commas(content.trim())));
    for pointer in written.iter().flat_map(SourceValue::repeated) {
        parse_warnings.push(ParseWarning::RepeatedMember { pointer: pointer.into() });
    }
    let written = |n| written.as_ref()?.member("ai_actions")?.entry(n)?.member("parameters");
    let actions = match object.get("ai_actions") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(actions)) => actions
            .iter()
            .enumerate()
            .map(|(n, action)| read_action(n, action, written(n), parse_warnings))
            .collect(),
        Some(_) => {
            parse_warnings.push(garbled("ai_actions is not an array"));
            return None;
        }
    };
    Some(Contract {
        confidence,
        reason: text_of(object.get("confidence_reason")),
        actions,
        refused: statement(object.get("refuse")),
        escalated: statement(object.get("escalate")),
        plan: object.get(PLAN).filter(|plan| !plan.is_null()).map(|plan| Arguments::of(plan.clone())),
    })
}

/// Reads an action. `written` is the source of its parameters, with repeated members.
fn read_action(
    n: usize,
    value: &Value,
    written: Option<&SourceValue>,
    parse_warnings: &mut Vec<ParseWarning>,
) -> Action {
    let mut odd = |what: String| parse_warnings.push(ParseWarning::RepairedContract { what: what.into() });
    let id = match text_of(value.get("action_id")) {
        id if id.trim().is_empty() => Arc::from(format!("action-{n}")),
        id => id,
    };
    let priority = match value.get("priority").and_then(Value::as_str) {
        Some("required") => Priority::Required,
        Some("recommended") | None => Priority::Recommended,
        Some("nice_to_have") => Priority::NiceToHave,
        Some(other) => {
            odd(format!("{id}: priority `{other}` was taken as recommended"));
            Priority::Recommended
        }
    };
    let empty = Value::Object(Map::new());
    let parameters = match value.get("parameters") {
        None | Some(Value::Null) => &empty,
        Some(parameters) => parameters,
    };
    Action {
        tool: text_of(value.get("action_type")),
        reason: text_of(value.get("reason")),
        parameters: parameters_of(parameters, written),
        id,
        priority,
    }
}

/// The parameters as canonical JSON. With repeated members, all of them as the model wrote them.
pub(crate) fn parameters_of(parameters: &Value, written: Option<&SourceValue>) -> Arguments {
    match written.filter(|written| !written.repeated().is_empty()) {
        Some(written) => written.to_text().into(),
        None => Arguments::of(parameters.clone()),
    }
}

fn text_of(value: Option<&Value>) -> Arc<str> {
    value.and_then(Value::as_str).unwrap_or_default().into()
}

/// Reads `refuse` or `escalate`: a text is the reason, `true` has no reason, `false` and a blank text mean no.
fn statement(value: Option<&Value>) -> Option<Arc<str>> {
    match value? {
        Value::String(reason) if !reason.trim().is_empty() => Some(reason.trim().into()),
        Value::Bool(true) => Some("no reason given".into()),
        Value::Object(object) => statement(object.get("reason")),
        Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}
