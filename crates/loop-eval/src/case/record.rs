//! Converts a recorded run to a case that runs it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use loop_core::run::{PersonAnswer, StopMode};
use loop_core::types::{CommandKey, FailureKind, Status};
use loop_core::{EventKind, Note, Run, Verdict};
use loop_llm::scripted::{ScriptedCall, ScriptedReply};
use loop_runtime::journal::{Entry, Recorded};
use serde_json::{Map, Value};

use crate::case::{
    AnswerKind, CASE_VERSION, Case, CaseRecording, Counts, Expected, MockStatus, MockedOutcome, Names,
    OrderedMembers, PersonLine, StopAt,
};
use crate::eval::{VerifyError, verify};

/// Why a run cannot become a case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseRecordError {
    /// Its journal is inconsistent.
    #[error(transparent)]
    Broken(#[from] VerifyError),
    /// The run has not ended.
    #[error("it has not ended, so that nothing can be expected of it; go on with it first")]
    NotOver,
    /// A part of the run cannot be expressed in a case.
    #[error("it {what}, and a case has no place for that")]
    NoPlace {
        /// What the run does.
        what: &'static str,
    },
    /// A part of the run cannot be serialized.
    #[error("it cannot be written down: {0}")]
    Unwritable(#[from] serde_json::Error),
}

/// Converts a recorded run to a case with its work item, the replies of its models, the results of its tools, the
/// answers of people, and the reason for which it stopped. Text that is masked in the journal stays masked.
///
/// # Errors
/// The run has not ended, its journal is inconsistent, or a case cannot express a part of it.
pub fn case_of_run(name: &str, recorded: &Recorded) -> Result<Case, CaseRecordError> {
    let run = verify(recorded)?;
    let outcome = run.outcome().ok_or(CaseRecordError::NotOver)?;
    if run.started().history.is_some() {
        return Err(CaseRecordError::NoPlace { what: "goes on from earlier messages" });
    }
    let received = RecordedWorld::of(&run, recorded)?;
    let item = &run.started().item;
    let scope = match serde_json::to_value(&item.scope)? {
        Value::Object(scope) => scope,
        _ => Map::new(),
    };
    let (stop, totals) = (&outcome.stop, &outcome.totals);
    // The replies are those of the recorded model, whichever the domain has now.
    let overridden = &run.started().provenance.overridden;
    let overridden = overridden.iter().filter(|it| it.setting.split('.').next() != Some("models"));
    // One that a stop cut off may be cut off elsewhere the next time.
    let ran = outcome.actions.iter().filter(|it| it.verdict == Verdict::Run && it.evidence.is_some());
    let ran = ran.filter(|_| !received.was_stopped_at_work);
    let ran: BTreeSet<String> = ran.map(|it| it.tool_name().to_owned()).collect();
    // What was lost with a driver was counted then, and is not there to be lost again; a case stops a run only while it
    // waits for its model.
    let counts = (!received.was_resumed && !received.was_stopped_at_work).then_some(Counts {
        passes: Some(totals.passes),
        tool_calls: Some(totals.tool_calls),
        ..Counts::default()
    });
    Ok(Case {
        version: CASE_VERSION,
        case_id: name.to_owned(),
        shows: format!("A recorded run: {}.", item.title),
        covers: Vec::new(),
        goal: String::new(),
        domain: None,
        profile: None,
        spec: None,
        recorded: Some(CaseRecording {
            frozen: false,
            overridden: overridden.map(|it| (it.setting.to_string(), it.value.to_string())).collect(),
            spec: (*recorded.spec).clone(),
            tools: serde_json::from_str(&recorded.manifest)?,
            scope,
            compact: if item.compact == item.full { String::new() } else { item.compact.to_string() },
            kind: item.kind.to_string(),
            form: item.form,
            id: item.id.to_string(),
            title: item.title.to_string(),
        }),
        set: OrderedMembers::default(),
        item: None,
        text: Some(item.full.to_string()),
        replies: Some(received.replies),
        exhausted: None,
        script: None,
        model: None,
        models: OrderedMembers::default(),
        mocked_tools: received.tools,
        people: received.people,
        stop: received.stop,
        restart_after_pass: None,
        own_work: false,
        expected: Expected {
            stop_reason: Names(vec![stop.reason().name().to_owned()]),
            class: Some(stop.class.name().to_owned()),
            counts,
            required_tools: ran.into_iter().collect(),
            ..Expected::default()
        },
        origin: PathBuf::new(),
    })
}

/// The recorded replies, results and answers of a run.
#[derive(Default)]
struct RecordedWorld {
    replies: Vec<ScriptedReply>,
    tools: OrderedMembers<Vec<MockedOutcome>>,
    people: Vec<PersonLine>,
    stop: Option<StopAt>,
    was_resumed: bool,
    /// Whether a stop was requested while something other than the main model was working.
    was_stopped_at_work: bool,
}

impl RecordedWorld {
    fn of(run: &Run, recorded: &Recorded) -> Result<Self, CaseRecordError> {
        let mut calls: BTreeMap<CommandKey, (Arc<str>, Arc<str>)> = BTreeMap::new();
        for entry in &recorded.entries {
            for note in &entry.notes {
                if let Note::ActionJudged(judged) = note {
                    let tool = judged.tool_name().into();
                    calls.insert(judged.key, (tool, Arc::clone(judged.parameters.text())));
                }
            }
        }
        for evidence in run.evidence() {
            calls.insert(evidence.key, (Arc::clone(&evidence.tool), Arc::clone(evidence.parameters.text())));
        }
        let nonce = &run.started().nonce;
        let (mut received, mut by_tool) = (Self::default(), BTreeMap::<Arc<str>, Vec<MockedOutcome>>::new());
        let (mut pass, mut is_calling) = (0, false);
        let dropped = dropped(&recorded.entries);
        for entry in &recorded.entries {
            match &entry.event.kind {
                EventKind::ToolFinished { .. } if dropped.contains(&entry.seq) => {}
                EventKind::CallStarted { key, .. } => (pass, is_calling) = (key.pass.max(1), true),
                EventKind::ModelReplied { key, reply, .. } => {
                    is_calling = false;
                    let calls = reply.calls.iter().map(|call| ScriptedCall {
                        id: Some(call.id.to_string()),
                        name: call.name.to_string(),
                        arguments: Value::String(call.arguments.to_string()),
                    });
                    received.replies.push(ScriptedReply {
                        purpose: Some(key.slot.into()),
                        text: reply.text.replace(&**nonce, "{{nonce}}"),
                        calls: calls.collect(),
                        reasoning: reply.reasoning.as_deref().unwrap_or_default().to_owned(),
                        finish: Some(reply.finish),
                        usage: reply.usage,
                        no_usage: reply.usage.is_none(),
                        ..ScriptedReply::default()
                    });
                }
                EventKind::ModelFailed { key, failure, .. }
                    if failure.kind != FailureKind::ScriptExhausted =>
                {
                    received.replies.push(ScriptedReply {
                        purpose: Some(key.slot.into()),
                        text: failure.partial.as_deref().unwrap_or_default().replace(&**nonce, "{{nonce}}"),
                        usage: failure.usage,
                        fails: Some(failure.message.to_string()),
                        ..ScriptedReply::default()
                    });
                }
                EventKind::ToolFinished { key, observation, .. } => {
                    let (Some((tool, parameters)), Some(status)) =
                        (calls.get(key), MockStatus::of(observation.status))
                    else {
                        continue;
                    };
                    let is_ok = status == MockStatus::Ok;
                    let data: Value = serde_json::from_str(&observation.data)?;
                    by_tool.entry(Arc::clone(tool)).or_default().push(MockedOutcome {
                        status,
                        reason: if is_ok { String::new() } else { observation.summary.to_string() },
                        data: (!data.is_null()).then_some(data),
                        markdown: is_ok.then(|| observation.markdown.to_string()),
                        summary: is_ok.then(|| observation.summary.to_string()),
                        retry_after_ms: observation.retry_after_ms.filter(|_| status == MockStatus::Pending),
                        parameters: serde_json::from_str(parameters).ok(),
                        ..MockedOutcome::default()
                    });
                }
                EventKind::PersonAnswered { key, answer, .. } => {
                    let (say, text) = match answer {
                        PersonAnswer::Approved => (AnswerKind::Approve, String::new()),
                        PersonAnswer::Denied { why } => (AnswerKind::Deny, why.to_string()),
                        PersonAnswer::Answered { text } => (AnswerKind::Answer, text.to_string()),
                    };
                    let tool = calls.get(key).map(|(tool, _)| tool.to_string());
                    received.people.push(PersonLine { tool, say, text });
                }
                EventKind::ApprovedBy { key, .. } => {
                    let tool = calls.get(key).map(|(tool, _)| tool.to_string());
                    received.people.push(PersonLine { tool, say: AnswerKind::Approve, text: String::new() });
                }
                EventKind::StopRequested { how } => {
                    received.was_stopped_at_work |= !is_calling;
                    let is_first = received.stop.is_none() || *how == StopMode::Now;
                    received.stop = received
                        .stop
                        .filter(|_| !is_first)
                        .or(Some(StopAt { during_pass: pass.max(1), how: *how }));
                }
                EventKind::StopWithdrawn => received.stop = None,
                EventKind::Instruction { .. } => {
                    return Err(CaseRecordError::NoPlace { what: "was told something on its way" });
                }
                EventKind::Resumed { .. } => {
                    received.was_resumed = true;
                    if settled(entry).any(|(_, status)| status == Status::InDoubt) {
                        return Err(CaseRecordError::NoPlace { what: "lost a change with its driver" });
                    }
                }
                // What a person was asked about and did not answer.
                EventKind::DeadlineReached => {
                    received.people.extend(
                        settled(entry).filter(|(_, status)| *status == Status::Denied).map(|(key, _)| {
                            PersonLine {
                                tool: calls.get(&key).map(|(tool, _)| tool.to_string()),
                                say: AnswerKind::Nothing,
                                text: String::new(),
                            }
                        }),
                    );
                }
                EventKind::Started(_)
                | EventKind::CallRefused { .. }
                | EventKind::ModelFailed { .. }
                | EventKind::EagerStarted { .. }
                | EventKind::ToolStarted { .. }
                | EventKind::RunWaits { .. }
                | EventKind::CheckStarted { .. }
                | EventKind::Checked { .. }
                | EventKind::SaveFinished { .. } => {}
            }
        }
        received.tools = by_tool.into_iter().map(|(tool, outcomes)| (tool.to_string(), outcomes)).collect();
        Ok(received)
    }
}

/// The entries with results of eager reads that no action used.
fn dropped(entries: &[Entry]) -> BTreeSet<u64> {
    let mut open: BTreeMap<(CommandKey, u32), u64> = BTreeMap::new();
    let mut dropped = BTreeSet::new();
    for entry in entries {
        if let EventKind::ToolFinished { key, attempt, .. } = &entry.event.kind {
            open.insert((*key, *attempt), entry.seq);
        }
        for note in &entry.notes {
            if let Note::ReadDropped(read) = note
                && read.finished
            {
                dropped.extend(open.remove(&(read.key, read.attempt)));
            }
        }
    }
    dropped
}

/// The actions that an entry settled.
fn settled(entry: &Entry) -> impl Iterator<Item = (CommandKey, Status)> {
    entry.notes.iter().filter_map(|note| match note {
        Note::ActionSettled { key, status, .. } => Some((*key, *status)),
        _ => None,
    })
}
