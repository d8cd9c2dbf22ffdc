//! The prompts of a run with a document contract: rendered once a turn, so that each is a byte prefix of the next.

use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::policy::{is_forbidden, is_selectable, offers_plan};
use loop_core::run::PromptSize;
use loop_core::spec::ToolSpec;
use loop_core::types::{CommandKey, Digest, EvidenceId, Instruction, Slot, cleaned};
use loop_core::{Evidence, Run, RunSpec, StopReason};
use loop_llm::Message;
use loop_llm::request::{AssistantTurn, Author, Raw};
use minijinja::Value;

use crate::anchors::EVIDENCE;
use crate::parts;
use crate::results::images;
use crate::template::{ANALYSIS, FINAL_PASS, INSTRUCTION, OPINION, REFINEMENT, REPAIR, SELECTOR};
use crate::text::{fence, line, line_without};
use crate::{Layout, Prompts};

/// A rendered prompt: everything that a model reads in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The system prompt. It is byte-identical for every run of a domain in the append layout.
    pub system: Arc<str>,
    /// The turns. The first and the last are the user's.
    pub turns: Vec<Message>,
    /// Its size in bytes, and how many of them it shares with the previous main call. For a selection: the bytes of the
    /// main call after it.
    pub size: PromptSize,
}

impl Prompt {
    /// The digest of the prompt.
    pub fn hash(&self) -> Digest {
        let mut bytes = Vec::with_capacity(self.size.bytes as usize);
        bytes.extend_from_slice(self.system.as_bytes());
        for turn in &self.turns {
            bytes.push(0);
            bytes.extend_from_slice(turn.text().as_bytes());
        }
        Digest::of("prompt", &bytes)
    }

    pub(crate) fn of(system: Arc<str>, turns: Vec<Message>) -> Self {
        let bytes = system.len() as u64 + turns.iter().map(Message::bytes).sum::<usize>() as u64;
        Self { system, turns, size: PromptSize { bytes, shared_bytes: 0 } }
    }
}

/// The statements of one section about which a second model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionQuestion {
    /// The section's id.
    pub section: Arc<str>,
    /// The statements, as written: sentences, or the whole section.
    pub statements: Vec<Arc<str>>,
    /// The evidence that the section cites, in order. `E0` is the work item.
    pub evidence: Vec<EvidenceId>,
}

/// The variables of a template.
type Variables = Vec<(&'static str, Value)>;

/// Renders the prompts of one run and caches the turns, so that rendering a turn costs only what the pass adds.
///
/// It can be dropped and rebuilt at any time: the same run gives the same bytes.
#[derive(Debug, Default)]
pub struct Dialogue {
    /// The variables that are the same in all prompts. System prompts use no others but the tools that can be selected.
    common: Option<Variables>,
    system: Option<Arc<str>>,
    /// The user turn of each main call, in order of pass.
    turns: Vec<Arc<str>>,
    /// How many evidence bodies were shortened when they were rendered.
    shortened: usize,
    /// The last pass in which evidence was shortened. Its prompt shares only the system prompt with the one before. 0:
    /// none.
    rewritten: u32,
}

impl Dialogue {
    /// The prompt of the model call `key` of `run`. `None`: `key` is not a model call.
    pub fn prompt(&mut self, prompts: &Prompts, run: &Run, key: CommandKey) -> Option<Prompt> {
        match key.slot {
            Slot::Select => {
                let mut prompt = selector(prompts, run, self.of_run(run));
                let main = self.prompt(prompts, run, CommandKey::new(1, Slot::Main));
                prompt.size.shared_bytes = main.map_or(0, |main| main.size.bytes);
                Some(prompt)
            }
            Slot::Repair => Some(repair(prompts, run, self.of_run(run))),
            Slot::Main | Slot::Final => Some(match prompts.layout() {
                Layout::Append => self.append(prompts, run, key),
                Layout::SystemEvidence => {
                    system_evidence(prompts, run, key, self.system(prompts, run), self.of_run(run))
                }
            }),
            Slot::Action(_) | Slot::Check | Slot::Save | Slot::Inherited(_) => None,
        }
    }

    /// The prompt that asks a second model about these statements.
    pub fn opinion(&mut self, prompts: &Prompts, run: &Run, questioned: &[SectionQuestion]) -> Prompt {
        opinion(prompts, run, questioned, self.of_run(run))
    }

    /// The variables that are the same for every run of a domain.
    fn common(&mut self, run: &Run) -> &Variables {
        self.common.get_or_insert_with(|| {
            vec![
                ("kind", Value::from(line(&run.started().item.kind))),
                ("goal", Value::from(line(&run.spec().goal))),
                ("sections", Value::from(parts::sections(run.spec().sections()))),
                ("tools", Value::from(parts::tools(offered(run.spec())))),
                ("selected", Value::from(run.spec().limits.selected)),
                ("plan", Value::from(offers_plan(run.spec()))),
            ]
        })
    }

    /// The variables of one run, for its user turns.
    fn of_run(&mut self, run: &Run) -> Variables {
        let mut variables = self.common(run).clone();
        variables.push(("title", Value::from(line_without(&run.started().nonce, &run.started().item.title))));
        variables.push(("nonce", Value::from(run.started().nonce.as_ref())));
        variables.push(("planned", Value::from(parts::planned(run))));
        variables
    }

    /// The system prompt of the main calls.
    fn system(&mut self, prompts: &Prompts, run: &Run) -> Arc<str> {
        if self.system.is_none() {
            self.system = Some(prompts.templates().system(&ANALYSIS, self.common(run)).into());
        }
        self.system.clone().unwrap_or_default()
    }

    fn append(&mut self, prompts: &Prompts, run: &Run, key: CommandKey) -> Prompt {
        let shortened = run.evidence().iter().filter(|evidence| evidence.shortened).count();
        if shortened != self.shortened {
            // A shortened body changes the prefix.
            self.rewritten = if self.turns.is_empty() { 0 } else { key.pass };
            self.turns.clear();
            self.shortened = shortened;
        }
        let system = self.system(prompts, run);
        // The turn of this pass is rendered for each try: a retry may be the last call although the try before was not.
        self.turns.truncate(key.pass.saturating_sub(1) as usize);
        while self.turns.len() < key.pass as usize {
            let turn = user_turn(prompts, run, self.turns.len(), self.of_run(run));
            self.turns.push(turn.into());
        }
        let mut turns = Vec::with_capacity(self.turns.len() * 2);
        for (n, user) in self.turns.iter().enumerate() {
            turns.push(with_pictures(run, n, user));
            if let Some(record) = run.passes().get(n).filter(|_| n + 1 < key.pass as usize) {
                turns.push(Message::Assistant(AssistantTurn {
                    text: Arc::clone(&record.reply),
                    raw: record.raw.clone().map(Raw::from_text),
                    ..AssistantTurn::default()
                }));
            }
        }
        let mut prompt = Prompt::of(system, turns);
        if key.pass > 1 {
            prompt.size.shared_bytes = if self.rewritten == key.pass {
                prompt.system.len() as u64
            } else {
                // The previous main call had everything except the last reply and the last turn.
                let added: usize = prompt.turns.iter().rev().take(2).map(|turn| turn.text().len()).sum();
                prompt.size.bytes.saturating_sub(added as u64)
            };
        }
        prompt
    }
}

/// The tools offered to the model: none with a limit of 0 calls, and none that policy forbids.
pub(crate) fn offered(spec: &RunSpec) -> impl Iterator<Item = &ToolSpec> {
    let all = if spec.limits.tool_calls == 0 { &[] } else { spec.tools.as_slice() };
    all.iter().filter(|tool| !is_forbidden(spec, tool))
}

/// The user turn of the main call after `done` earlier ones.
fn user_turn(prompts: &Prompts, run: &Run, done: usize, mut variables: Variables) -> String {
    let nonce = run.started().nonce.as_ref();
    let after = run.passes().get(done);
    let (evidence, actions) = new_in(run, done);
    let is_final_pass = after.map_or(run.phase().final_cause().is_some(), |pass| pass.final_pass);
    let final_pass = if is_final_pass { final_pass(prompts, run) } else { String::new() };
    variables.extend([
        ("evidence", Value::from(parts::evidence(evidence, nonce, run))),
        (
            "executed",
            Value::from(parts::executed(actions, run.evidence(), nonce, parts::unread(run, done as u32))),
        ),
        ("final_pass", Value::from(final_pass)),
        ("missing", Value::from(missing(run, done as u32 + 1))),
    ]);
    let template = if done == 0 {
        variables.push(("item", Value::from(parts::item(&run.started().item.full, nonce))));
        &ANALYSIS
    } else {
        let index = parts::index(run.passes().get(..done).unwrap_or_default(), run.spec());
        variables.push(("index", Value::from(index)));
        &REFINEMENT
    };
    let mut turn = prompts.templates().user(template, &variables);
    tell(&mut turn, prompts, run.instructions_for(done as u32 + 1));
    turn
}

/// The evidence and the actions that a model reads first in the pass after `done`.
fn new_in(run: &Run, done: usize) -> (&[Evidence], &[Arc<JudgedAction>]) {
    let before = done.checked_sub(1).and_then(|n| run.passes().get(n));
    let from = before.map_or((0, 0), |pass| (pass.evidence_seen as usize, pass.actions_seen as usize));
    let to = run.passes().get(done).map_or((run.evidence().len(), run.actions().len()), |pass| {
        (pass.evidence_seen as usize, pass.actions_seen as usize)
    });
    let evidence = run.evidence().get(from.0..to.0).unwrap_or_default();
    (evidence, run.actions().get(from.1..to.1).unwrap_or_default())
}

/// The user's turn of a pass, with the pictures of its evidence.
fn with_pictures(run: &Run, done: usize, text: &Arc<str>) -> Message {
    let shown = new_in(run, done).0.iter().filter(|evidence| !evidence.shortened);
    let images: Vec<_> = shown.flat_map(|evidence| images(&evidence.observation)).collect();
    match images.is_empty() {
        true => Message::user(Arc::clone(text)),
        false => Message::User { text: Arc::clone(text), images, author: Author::Runner },
    }
}

/// Appends the instructions of people, if there are any. They are last because they take precedence over the prompt's
/// own.
fn tell<'a>(turn: &mut String, prompts: &Prompts, instruction: impl Iterator<Item = &'a Instruction>) {
    let texts: Vec<String> =
        instruction.map(|instruction| cleaned(&instruction.text).trim().to_owned()).collect();
    if !texts.is_empty() {
        turn.push_str("\n\n");
        turn.push_str(
            &prompts.templates().user(&INSTRUCTION, &[("instruction", Value::from(texts.join("\n\n")))]),
        );
    }
}

/// The demanded evidence that a pass was granted to supply. Empty for other passes.
fn missing(run: &Run, pass: u32) -> String {
    run.revisions(pass).map_or_else(String::new, |missing| missing.join(", "))
}

/// The instructions of the final pass.
fn final_pass(prompts: &Prompts, run: &Run) -> String {
    let nonce = Value::from(run.started().nonce.as_ref());
    prompts.templates().user(&FINAL_PASS, &[("cause", Value::from(last_call(run))), ("nonce", nonce)])
}

/// Why this is the last call. It names only the limit, not the usage, so that rendering it again gives the same bytes.
pub(crate) fn last_call(run: &Run) -> String {
    let limits = &run.spec().limits;
    let reason = match run.phase().final_cause() {
        Some(cause) => cause.reason,
        None if run.passes().len() as u32 >= limits.passes => StopReason::MaxPasses,
        None => StopReason::MaxModelCalls,
    };
    match reason {
        StopReason::MaxPasses => {
            format!("pass {} of {} is the last that is permitted", limits.passes, limits.passes)
        }
        StopReason::BudgetExceeded => "the limit of money leaves one".to_owned(),
        StopReason::TokenLimit => "the limit of tokens leaves one".to_owned(),
        StopReason::Timeout => "the limit of time leaves one".to_owned(),
        StopReason::MaxMessages => "the limit of messages leaves one".to_owned(),
        StopReason::MaxToolCalls => format!("the limit of {} tool calls is reached", limits.tool_calls),
        StopReason::NoProgress => "none of the last calls could be run".to_owned(),
        StopReason::MaxModelCalls => format!("the limit of {} model calls leaves one", limits.model_calls),
        other => format!("the run would otherwise end as {other}"),
    }
}

/// The layout `system_evidence`: the system prompt grows with all evidence, the user message holds the document.
fn system_evidence(
    prompts: &Prompts,
    run: &Run,
    key: CommandKey,
    system: Arc<str>,
    mut variables: Variables,
) -> Prompt {
    let nonce = run.started().nonce.as_ref();
    let mut rules = system.as_ref().to_owned();
    let all = parts::evidence(run.evidence(), nonce, run);
    if !all.is_empty() {
        rules.push_str("\n\n");
        rules.push_str(EVIDENCE);
        rules.push_str("\n\n");
        rules.push_str(&all);
    }
    let is_final_pass = key.slot == Slot::Final;
    variables.extend([
        ("evidence", Value::from("It stands in the system prompt.")),
        (
            "executed",
            Value::from(parts::executed(
                run.actions(),
                run.evidence(),
                nonce,
                parts::unread(run, key.pass.saturating_sub(1)),
            )),
        ),
        ("final_pass", Value::from(if is_final_pass { final_pass(prompts, run) } else { String::new() })),
        ("missing", Value::from(missing(run, key.pass))),
    ]);
    let mut user = if run.passes().is_empty() {
        variables.push(("item", Value::from(parts::item(&run.started().item.full, nonce))));
        prompts.templates().user(&ANALYSIS, &variables)
    } else {
        let item = &run.started().item;
        let index = parts::index(run.passes(), run.spec());
        let document = parts::document(&run.document().to_markdown(), nonce);
        variables.push(("index", Value::from(format!("{index}\n\n{document}"))));
        let instructions = prompts.templates().user(&REFINEMENT, &variables);
        let compact = parts::item(&item.compact, nonce);
        format!(
            "The nonce of this run is `{nonce}`.\n\n## The {}: {}\n\n{compact}\n\n{instructions}",
            line(&item.kind),
            line_without(nonce, &item.title)
        )
    };
    // Earlier turns are not shown in this layout, so all instructions are here.
    tell(
        &mut user,
        prompts,
        run.instructions().iter().filter(|instruction| instruction.from_pass <= key.pass),
    );
    Prompt::of(rules.into(), vec![Message::user(user)])
}

fn selector(prompts: &Prompts, run: &Run, mut variables: Variables) -> Prompt {
    let selectable = offered(run.spec()).filter(|tool| is_selectable(tool));
    // The last of a name counts.
    variables.push(("tools", Value::from(parts::tools(selectable))));
    variables.push(("item", Value::from(parts::item(&run.started().item.full, &run.started().nonce))));
    let system = prompts.templates().system(&SELECTOR, &variables);
    let user = prompts.templates().user(&SELECTOR, &variables);
    Prompt::of(system.into(), vec![Message::user(user)])
}

/// What a second model reads: the statements in question, and the evidence that their sections cite. It reads neither the work
/// item, unless that is cited, nor what the first model thought.
fn opinion(prompts: &Prompts, run: &Run, questioned: &[SectionQuestion], mut variables: Variables) -> Prompt {
    let nonce = run.started().nonce.as_ref();
    let statements: Vec<String> = questioned
        .iter()
        .map(|it| fence(&format!("statements of {}", it.section), nonce, &it.statements.join("\n")))
        .collect();
    let mut cited: Vec<EvidenceId> = questioned.iter().flat_map(|it| it.evidence.iter().copied()).collect();
    cited.sort();
    cited.dedup();
    let is_cited = |evidence: &&Evidence| cited.contains(&evidence.id);
    let evidence: Vec<Evidence> = run.evidence().iter().filter(is_cited).cloned().collect();
    let mut blocks = Vec::new();
    if cited.contains(&EvidenceId::ITEM) {
        blocks.push(parts::item(&run.started().item.full, nonce));
    }
    if !evidence.is_empty() {
        blocks.push(parts::evidence(&evidence, nonce, run));
    }
    if blocks.is_empty() {
        blocks.push("No evidence is cited.".to_owned());
    }
    variables.extend([
        ("statements", Value::from(statements.join("\n\n"))),
        ("evidence", Value::from(blocks.join("\n\n"))),
    ]);
    let system = prompts.templates().system(&OPINION, &variables);
    let user = prompts.templates().user(&OPINION, &variables);
    Prompt::of(system.into(), vec![Message::user(user)])
}

fn repair(prompts: &Prompts, run: &Run, mut variables: Variables) -> Prompt {
    let reply = run.passes().last().map_or("", |pass| &pass.reply);
    variables.push(("reply", Value::from(fence("reply", &run.started().nonce, reply))));
    let system = prompts.templates().system(&REPAIR, &variables);
    let user = prompts.templates().user(&REPAIR, &variables);
    Prompt::of(system.into(), vec![Message::user(user)])
}
