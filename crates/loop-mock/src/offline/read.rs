//! Parses a prompt: its tools, sections, work item, evidence and document.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use loop_llm::request::AssistantTurn;
use loop_llm::scripted::nonce_of;
use loop_llm::{Message, ModelRequest};
use loop_prompts::anchors::{
    CANCELLED, CHOICES, DENIED, DOCUMENT_LABEL, DOUBTED, EFFECT, EMPTY, ENTRY, EVIDENCE, EVIDENCE_HEADER,
    EVIDENCE_PARTS, EXAMPLES, EXECUTED, FAILED, FENCE, FENCE_CLOSES, FENCE_END, HEADING, ITEM, ITEM_LABEL,
    LAST_CALL, NAMES, NOT_RUN, OUTCOME, OUTCOME_ENDS, PARAMETER_ENTRY, PARAMETER_TYPE, PATTERN, PENDING,
    QUESTION, REQUIRED, SECTION_ENTRY, SECTIONS, SELECTABLE_TOOLS, SELECTED_AT_MOST, SKIPPED, SUCCESS, TOOLS,
};
use serde_json::Value;

use crate::offline::schema::{Field, Form};
use crate::offline::shape::Candidates;
use crate::offline::words::{overlap, parts, stems};

/// The content of a prompt.
#[derive(Debug, Default)]
pub(super) struct PromptText<'a> {
    pub(super) nonce: &'a str,
    pub(super) tools: Vec<Tool<'a>>,
    pub(super) sections: Vec<Section<'a>>,
    pub(super) title: &'a str,
    pub(super) item: &'a str,
    pub(super) evidence: Vec<Evidence<'a>>,
    /// The last body of each heading.
    pub(super) written: BTreeMap<&'a str, &'a str>,
    /// Every call that the prompt lists.
    pub(super) listed: Vec<ListedCall<'a>>,
    /// The most tools to select, if the prompt says so.
    pub(super) max: Option<usize>,
    pub(super) is_final_pass: bool,
    /// Computed from the texts when first needed.
    about: OnceCell<BTreeSet<String>>,
    candidates: OnceCell<Vec<(Candidates<'a>, Option<&'a str>)>>,
}

/// A tool as the prompt describes it.
#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) hints: &'a str,
    pub(super) parameters: Vec<Field<'a>>,
    /// Whether it looks something up, may change something, or asks a person.
    pub(super) use_of: ToolUse,
}

/// The use of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ToolUse {
    /// It reads.
    #[default]
    Read,
    /// It may change something.
    Change,
    /// It asks a person.
    Question,
}

/// A section that the prompt asks for.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) heading: &'a str,
    pub(super) describe: &'a str,
}

/// A piece of evidence.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) id: &'a str,
    pub(super) tool: &'a str,
    /// The values in the parameters of its call.
    pub(super) values: Vec<String>,
    pub(super) status: &'a str,
    pub(super) body: &'a str,
}

impl Evidence<'_> {
    pub(super) fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    pub(super) fn is_empty(&self) -> bool {
        self.status == "empty"
    }

    /// Whether its call had this value.
    pub(super) fn is_about(&self, value: &str) -> bool {
        self.values.iter().any(|requested| requested.eq_ignore_ascii_case(value))
    }
}

/// A call in the list of executed tools.
#[derive(Debug)]
pub(super) struct ListedCall<'a> {
    tool: &'a str,
    /// The parameters as `name: value` pairs, as in the list.
    parameters: &'a str,
    /// Whether the call did not run.
    pub(super) undone: bool,
}

impl ListedCall<'_> {
    fn is_about(&self, value: &str) -> bool {
        let mut values = self.parameters.split(", ").filter_map(|pair| pair.split_once(NAMES));
        values.any(|(_, requested)| requested.eq_ignore_ascii_case(value))
    }
}

/// A piece of a prompt: a line, or the fenced text between two marks, which is never parsed as part of the prompt.
enum Piece<'a> {
    Line(&'a str),
    Fenced { label: &'a str, text: &'a str },
}

impl<'a> PromptText<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let mut read = Self { nonce: nonce_of(request).unwrap_or_default(), ..Self::default() };
        read.read_rules(rules_of(request));
        read.read_turn(&request.system);
        for message in &request.messages {
            match message {
                Message::User { text, .. } | Message::Operator { text } => read.read_turn(text),
                Message::Assistant(AssistantTurn { text, .. }) => read.read_document(text),
                Message::Tool { .. } => {}
            }
        }
        read
    }

    /// The word stems of the item's topic.
    pub(super) fn about(&self) -> &BTreeSet<String> {
        self.about.get_or_init(|| {
            let mut about = stems(self.title);
            about.extend(stems(self.item));
            about
        })
    }

    /// Possible names in the item and in the results, each text with its evidence. `None`: the item. Paths of files
    /// count only in the item, since results may name any number of files.
    pub(super) fn candidates(&self) -> &[(Candidates<'a>, Option<&'a str>)] {
        self.candidates.get_or_init(|| {
            let item = [self.title, self.item].map(|text| (Candidates::of(text, /*with_paths*/ true), None));
            let results = self.evidence.iter().filter(|evidence| evidence.is_ok());
            let results = results
                .map(|evidence| (Candidates::of(evidence.body, /*with_paths*/ false), Some(evidence.id)));
            item.into_iter().chain(results).collect()
        })
    }

    /// Whether a call of this tool was made or refused before. With a value: whether such a call had this value.
    pub(super) fn was_requested(&self, tool: &str, value: Option<&str>) -> bool {
        let made = |evidence: &Evidence<'_>| {
            evidence.tool == tool && value.is_none_or(|value| evidence.is_about(value))
        };
        let listed =
            |call: &ListedCall<'_>| call.tool == tool && value.is_none_or(|value| call.is_about(value));
        self.evidence.iter().any(made) || self.listed.iter().any(listed)
    }

    /// Parses tools and sections.
    fn read_rules(&mut self, rules: &'a str) {
        let mut under = "";
        for line in rules.lines() {
            if line.starts_with(HEADING) || line == SELECTABLE_TOOLS {
                under = line;
            } else if let Some((_, max)) = line.rsplit_once(SELECTED_AT_MOST) {
                self.max = max.trim_end_matches('.').parse().ok();
            }
            match under {
                SECTIONS => self.sections.extend(section_line(line)),
                TOOLS | SELECTABLE_TOOLS => match (parameter_line(line), self.tools.last_mut()) {
                    (Some(parameter), Some(tool)) => tool.parameters.push(parameter),
                    (None, Some(tool)) if line.starts_with(EFFECT) => tool.use_of = ToolUse::Change,
                    (None, Some(tool)) if line.starts_with(QUESTION) => tool.use_of = ToolUse::Question,
                    _ => self.tools.extend(tool_line(line)),
                },
                _ => {}
            }
        }
    }

    /// Parses the item, the evidence, the executed tools, and the document if it is repeated.
    fn read_turn(&mut self, text: &'a str) {
        let mut under = "";
        self.is_final_pass = false;
        for piece in pieces(text) {
            match piece {
                Piece::Line(line) if line.starts_with('#') => {
                    under = line;
                    if let Some(title) = title(line)
                        && self.title.is_empty()
                    {
                        self.title = title;
                    }
                }
                Piece::Line(line) if under == EXECUTED => self.listed.extend(listed_line(line)),
                Piece::Line(line) => self.is_final_pass |= line.contains(LAST_CALL),
                Piece::Fenced { label: ITEM_LABEL, text } => self.item = text,
                Piece::Fenced { label: DOCUMENT_LABEL, text } => self.read_document(text),
                Piece::Fenced { label, text } => self.evidence.extend(evidence(under, label, text)),
            }
        }
    }

    fn read_document(&mut self, text: &'a str) {
        let mut rest = text;
        while let Some(at) = section_start(rest) {
            let after = rest.get(at + HEADING.len()..).unwrap_or_default();
            let (heading, body) = after.split_once('\n').unwrap_or((after, ""));
            let end = section_start(body).or_else(|| body.find("```json")).unwrap_or(body.len());
            self.written.insert(heading.trim(), body.get(..end).unwrap_or_default().trim());
            rest = body;
        }
    }
}

/// The rules in the system prompt: the text before the evidence, in the layout that puts evidence there.
fn rules_of(request: &ModelRequest) -> &str {
    request.system.split(&format!("\n{EVIDENCE}\n")).next().unwrap_or_default()
}

/// The title of a work item, in its heading.
pub(super) fn title(line: &str) -> Option<&str> {
    let (_, title) = line.strip_prefix(ITEM)?.split_once(NAMES)?;
    Some(title)
}

/// The text between the first marks.
pub(super) fn fenced(text: &str) -> Option<&str> {
    pieces(text).find_map(|piece| match piece {
        Piece::Fenced { text, .. } => Some(text),
        Piece::Line(_) => None,
    })
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, below) = rest.split_once('\n').unwrap_or((rest, ""));
        let mark = line.strip_prefix(FENCE).and_then(|mark| mark.strip_suffix(FENCE_CLOSES));
        if let Some((label, nonce)) = mark.and_then(|mark| mark.rsplit_once(' '))
            && let Some((text, after)) =
                below.split_once(&format!("\n{FENCE_END}{label} {nonce}{FENCE_CLOSES}"))
        {
            rest = after.trim_start_matches('\n');
            return Some(Piece::Fenced { label, text });
        }
        rest = below;
        Some(Piece::Line(line))
    })
}

fn section_start(text: &str) -> Option<usize> {
    if text.starts_with(HEADING) {
        return Some(0);
    }
    text.find(&format!("\n{HEADING}")).map(|at| at + 1)
}

/// `- ## Heading (required): what belongs in it`, the heading in code marks.
fn section_line(line: &str) -> Option<Section<'_>> {
    let (heading, rest) = line.strip_prefix(SECTION_ENTRY)?.split_once('`')?;
    let describe = rest.split_once(NAMES).map_or("", |(_, describe)| describe);
    Some(Section { heading, describe })
}

/// `- name: what it returns`
fn tool_line(line: &str) -> Option<Tool<'_>> {
    let (name, hints) = line.strip_prefix(ENTRY)?.split_once(NAMES)?;
    Some(Tool { name, hints, parameters: Vec::new(), use_of: ToolUse::Read })
}

/// The parameter's name in code marks, then `(type, required): what it means; one of …; matching …; for example …`.
fn parameter_line(line: &str) -> Option<Field<'_>> {
    let (name, rest) = line.strip_prefix(PARAMETER_ENTRY)?.split_once(PARAMETER_TYPE)?;
    let (kind, rest) = rest.split_once(')')?;
    let (rest, examples) = rest.rsplit_once(EXAMPLES).unwrap_or((rest, ""));
    let (rest, pattern) = rest.rsplit_once(PATTERN).unwrap_or((rest, ""));
    let choices = list(rest.rsplit_once(CHOICES).map_or("", |(_, choices)| choices));
    let pattern: Option<String> = serde_json::from_str(pattern).ok();
    let form = match kind.split(',').next() {
        Some("string" | "any") => Form::Text,
        Some("integer") => Form::Integer,
        Some("number") => Form::Number,
        // A truth value or an object: nothing here fills it.
        _ => Form::List,
    };
    Some(Field::new(name, kind.contains(REQUIRED), form, choices, pattern.as_deref(), &list(examples)))
}

/// Whether the name of a parameter says that it tells one thing from others.
pub(super) fn is_id(name: &str) -> bool {
    let words = "id uuid identifier number no ref reference key code";
    parts(name).iter().any(|part| words.split(' ').any(|word| word == part))
}

/// Whether a name in a text may be a value of a tool's parameter: a number is one of an id only behind `#` or a word of an
/// id, of the parameter or of the tool. A text says how many as well.
pub(super) fn is_meant(text: &str, name: &str, parameter: &str, tool: &str) -> bool {
    let at = (name.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let line = text.get(..at).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
    let mut words = line.rsplit(|c: char| !c.is_alphanumeric() && c != '_');
    let is_own = |word: &str| {
        let own = [parts(parameter), parts(tool)].concat().join(" ");
        is_id(word) || overlap(&stems(&own), &stems(&parts(word).join(" "))) > 0
    };
    !name.bytes().all(|byte| byte.is_ascii_digit())
        || line.ends_with('#')
        || words.find(|word| word.contains(char::is_alphabetic)).is_some_and(is_own)
}

/// JSON values with commas between them. Empty where they are something else.
fn list(text: &str) -> Vec<Value> {
    serde_json::from_str(&format!("[{text}]")).unwrap_or_default()
}

/// `- tool (name: value): Success — …`, without the brackets where the tool takes nothing.
fn listed_line(line: &str) -> Option<ListedCall<'_>> {
    let line = line.strip_prefix(ENTRY)?;
    // What a tool says comes after the first of these words.
    let marks = [SUCCESS, EMPTY, PENDING, DOUBTED, DENIED, CANCELLED, FAILED, NOT_RUN, SKIPPED]
        .map(|word| (word, format!("{OUTCOME}{word}{OUTCOME_ENDS}")));
    let found = marks.iter().filter_map(|(word, mark)| Some((line.find(mark)?, *word, mark.len())));
    let (at, word, length) = found.min_by_key(|(at, _, _)| *at)?;
    let call = line.get(..at)?;
    let (tool, parameters) = call.split_once(" (").unwrap_or((call, ""));
    let reported = line.get(at + length..)?;
    let undone = [NOT_RUN, SKIPPED].contains(&word) && !reported.starts_with("already ");
    Some(ListedCall { tool, parameters: parameters.strip_suffix(')').unwrap_or(parameters), undone })
}

/// A fence under its header `### E1 · tool {"name":"value"} · status`.
fn evidence<'a>(header: &'a str, label: &str, body: &'a str) -> Option<Evidence<'a>> {
    let (id, call) = header.strip_prefix(EVIDENCE_HEADER)?.strip_prefix('E')?.split_once(EVIDENCE_PARTS)?;
    let (call, status) = call.rsplit_once(EVIDENCE_PARTS)?;
    let (tool, parameters) = call.split_once(' ')?;
    let members: BTreeMap<String, Value> = serde_json::from_str(parameters).unwrap_or_default();
    let values = members
        .values()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    (label.strip_prefix('E') == Some(id)).then_some(Evidence { id, tool, values, status, body })
}
