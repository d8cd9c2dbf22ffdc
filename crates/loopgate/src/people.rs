//! What waits for people, and what they say to it: `pending`, `approve`, `deny`, `answer`, `tell`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::policy::shown;
use loop_core::run::{AnswerFault, PersonAnswer, PersonRequest, Started};
use loop_core::types::{Approver, CommandKey, Digest, Millis, Scope};
use loop_core::{EventKind, Run};
use loop_runtime::journal::versions::not_on_engine;
use loop_runtime::journal::{Journal, Recorded, replay};
use loop_runtime::people::PeopleReport;
use loop_runtime::report::PersonRequestReport;
use loop_runtime::run::{StartError, expire};
use serde_json::{Value, json};

use crate::args::{AnswerArgs, ApproveArgs, DenyArgs, PendingArgs, PersonArgs, TellArgs};
use crate::failure::Failure;
use crate::resume::Found;
use crate::{engine, places, show, stream};

/// `loopgate pending`: what waits, in one run or in all.
pub(crate) async fn pending(args: PendingArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let lines = match &args.run {
        Some(run) => vec![show::find(journal.as_ref(), run).await?],
        None => journal
            .runs()
            .await?
            .into_iter()
            // A row that was changed may hide what waits: reading it says so.
            .filter(|line| line.stop.is_none() && !line.is_imported || line.trouble.is_some())
            .collect(),
    };
    let (mut text, mut listed) = (String::new(), Vec::new());
    for line in lines {
        let read = match journal.read(&line.run).await {
            Ok(recorded) => replay(&line.run, &recorded).map(|run| (run, recorded)).map_err(StartError::from),
            Err(error) => Err(error.into()),
        };
        let (run, recorded) = match read {
            Ok(read) => read,
            // One damaged run must not hide what waits in the others.
            Err(error) if args.run.is_none() => {
                stream::note(format!("loopgate: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let requested = run.requested();
        if requested.is_empty() {
            let over = recorded.entries.last().filter(|_| !line.is_written && !run.is_done());
            if over.is_some_and(|entry| entry.event.kind == EventKind::DeadlineReached)
                && has_silence(&recorded)
            {
                let (run, at) = (&line.run, places::at(args.journal.journal.as_deref()));
                let _ = writeln!(
                    text,
                    "run {run}: it was not answered in time, which counts as a denial\n    loopgate resume {run}{at}\n"
                );
            }
            continue;
        }
        show::unverified(&line.run, &recorded);
        let now = recorded.now();
        let driven = not_on_engine(&line.run, &recorded);
        if requested.iter().any(|requested| requested.is_over(now)) {
            // What was seen to be over stays over. Where it cannot be journaled it is shown all the same.
            let _ = expire(journal.as_ref(), &line.run).await;
        }
        if let Err(driven) = driven {
            stream::note(driven.to_string());
        } else if line.is_written {
            stream::note(format!("run {} is being driven: it may be answered there", line.run));
        }
        let _ =
            writeln!(text, "{}", in_words(run.started(), &requested, now, args.journal.journal.as_deref()));
        for requested in &requested {
            listed.push(in_json(run.started(), requested)?);
        }
    }
    if args.json.json {
        let value = json!({ "version": 1, "pending": listed });
        stream::print_report(&value)?;
    } else if text.is_empty() {
        stream::note("nothing waits for a person");
    } else {
        stream::print(text.trim_end_matches('\n'));
        stream::print("\n");
    }
    Ok(ExitCode::SUCCESS)
}

/// `loopgate approve`.
pub(crate) async fn approve(args: ApproveArgs) -> Result<ExitCode, Failure> {
    let claim = places::named("--as", args.claim.as_deref())?;
    say(args.person, Said::Approves(approver(claim))).await
}

/// What a person says to a request.
pub(crate) enum Said {
    /// An approval, with the name that is claimed.
    Approves(Approver),
    Answers(PersonAnswer),
}

/// Who approves here: a name that is claimed. Nothing was checked, so it does not count where two people have to approve.
fn approver(claim: Option<Arc<str>>) -> Approver {
    Approver { account: "".into(), user: "".into(), claim }
}

/// The event of an answer that is given here.
pub(crate) fn answered(key: CommandKey, answer: PersonAnswer, binding: Option<Digest>) -> EventKind {
    match answer {
        PersonAnswer::Approved => EventKind::ApprovedBy { key, by: approver(None), binding },
        answer => EventKind::PersonAnswered { key, answer, binding },
    }
}

/// Whether a person at this terminal can answer this request: not where two tokens have to approve it.
pub(crate) fn may_answer_here(requested: &PersonRequest) -> bool {
    requested.approvals < 2
}

/// `loopgate deny`.
pub(crate) async fn deny(args: DenyArgs) -> Result<ExitCode, Failure> {
    let why = match args.why.as_deref().map(str::trim) {
        None => "a person refused it",
        Some("") => return Err(Failure::new("--why is empty; say why, or leave it out")),
        Some(why) => why,
    };
    say(args.person, Said::Answers(PersonAnswer::Denied { why: why.into() })).await
}

/// `loopgate answer`.
pub(crate) async fn answer(args: AnswerArgs) -> Result<ExitCode, Failure> {
    let text = args.text.trim();
    if text.is_empty() {
        return Err(Failure::new("the answer is empty; give some text, or refuse with `loopgate deny`"));
    }
    say(args.person, Said::Answers(PersonAnswer::Answered { text: text.into() })).await
}

/// `loopgate tell`.
pub(crate) async fn tell(args: TellArgs) -> Result<ExitCode, Failure> {
    let text = args.text.trim();
    if text.is_empty() {
        return Err(Failure::new("the instruction is empty; give some text"));
    }
    if let Some(url) = &args.engine.ingress {
        return engine::tell(url, &args.run, text).await;
    }
    let found = Found::open(&args.run, &args.go_on.again).await?;
    found.check_driver()?;
    let id = found.id();
    found.run.takes_instruction(text).map_err(|_| {
        let phase = found.run.phase().name();
        Failure::new(format!(
            "run {id} will make no further call that could read the instruction ({phase}); nothing was recorded"
        ))
    })?;
    let kind = EventKind::Instruction { text: text.into() };
    found.go_on(vec![kind], &args.go_on).await
}

async fn say(args: PersonArgs, said: Said) -> Result<ExitCode, Failure> {
    if let Some(url) = &args.engine.ingress {
        return engine::say(url, &args, said).await;
    }
    if args.run == "last" && args.binding.is_none() {
        return Err(Failure::new(
            "`last` may be another run than the one that you were shown; give its id, or --binding with what \
             `loopgate pending` shows",
        ));
    }
    let found = Found::any(&args.run, &args.go_on.again).await?;
    found.check_driver()?;
    let key = key_of(&found.run, &args.action)?;
    let own = found.run.binding(&key);
    if let Some(given) = &args.binding {
        let is_own = own.is_some_and(|own| own.to_string().starts_with(&given.to_ascii_lowercase()));
        if given.len() < BINDING_DIGITS || !is_own {
            return Err(Failure::new(format!(
                "{key} of run {}: --binding {given} is not its own, so it is not what you were shown; look again with \
                 `loopgate pending {}{}`",
                found.id(),
                found.id(),
                args.go_on.again.at()
            )));
        }
    }
    let now = found.recorded.now().max(found.run.now());
    let may = match &said {
        Said::Approves(by) => found.run.may_approve(now, &key, by, own.as_ref()),
        Said::Answers(answer) => found.run.may_answer(now, &key, answer, own.as_ref()),
    };
    if let Err(fault) = may {
        if matches!(fault, AnswerFault::Expired { .. }) {
            // From now on, whatever a clock is set to. The process that drives it journals that as well.
            let _ = expire(found.journal.as_ref(), found.id()).await;
        }
        return Err(refused(&found, &key, fault, &args.go_on.again.at()));
    }
    let kind = match said {
        Said::Approves(by) => EventKind::ApprovedBy { key, by, binding: own },
        Said::Answers(answer) => EventKind::PersonAnswered { key, answer, binding: own },
    };
    found.go_on(vec![kind], &args.go_on).await
}

/// The action that a person names: by its key, or by the model's own name for it.
fn key_of(run: &Run, named: &str) -> Result<CommandKey, Failure> {
    let requested = run.requested();
    if let Ok(key) = named.parse::<CommandKey>()
        && run.actions().iter().any(|action| action.key == key)
    {
        return Ok(key);
    }
    let mut waiting = requested.iter().filter(|requested| &*requested.id == named);
    match (waiting.next(), waiting.next()) {
        (Some(requested), None) => return Ok(requested.key),
        (Some(_), Some(_)) => {
            return Err(Failure::new(format!("several actions that wait are called {named}; give the key")));
        }
        (None, _) => {}
    }
    if let Some(action) = run.actions().iter().rev().find(|action| &*action.action.id == named) {
        return Ok(action.key);
    }
    let known: Vec<String> = requested.iter().map(|requested| requested.key.to_string()).collect();
    let waits = if known.is_empty() { "nothing waits in it".to_owned() } else { known.join(", ") };
    Err(Failure::new(format!("run {} has no action {named}; what waits: {waits}", run.id())))
}

/// Why an answer does not count, and what to do instead.
fn refused(found: &Found, key: &CommandKey, fault: AnswerFault, at: &str) -> Failure {
    let id = found.id();
    let answered = found.recorded.entries.iter().find_map(|entry| match &entry.event.kind {
        EventKind::PersonAnswered { key: of, answer, .. } if of == key => Some(match answer {
            PersonAnswer::Approved => "approved",
            PersonAnswer::Denied { .. } => "denied",
            PersonAnswer::Answered { .. } => "answered",
        }),
        EventKind::ApprovedBy { key: of, .. } if of == key => Some("approved"),
        _ => None,
    });
    let message = match (fault, answered) {
        (AnswerFault::Answered | AnswerFault::NotRequested { .. }, Some(answered)) => {
            format!("it has been {answered} already, and an answer counts once")
        }
        (AnswerFault::Answered | AnswerFault::NotRequested { .. }, None) if has_expired(found, key) => {
            format!(
                "it was not answered in time, which counts as a denial; `loopgate resume {id}{at}` continues the run"
            )
        }
        (AnswerFault::Expired { .. }, _) => {
            format!("{fault}; `loopgate resume {id}{at}` continues the run")
        }
        (AnswerFault::NotYet, _) => format!("{fault}; `loopgate resume {id}{at}` continues the run"),
        (AnswerFault::IsQuestion, _) => format!("{fault}; use `loopgate answer`, or `loopgate deny`"),
        (AnswerFault::IsNoQuestion, _) => format!("{fault}; use `loopgate approve`, or `loopgate deny`"),
        (other, _) => other.to_string(),
    };
    Failure::new(format!("{key} of run {id}: {message}"))
}

/// Whether it is journaled that no answer to an action came in time.
fn has_expired(found: &Found, key: &CommandKey) -> bool {
    let people = PeopleReport::of(&found.recorded);
    people.of_action(key).is_some_and(|requested| requested.answer.as_deref() == Some("expired"))
}

/// Whether something that a run asked people about was journaled as not answered in time.
fn has_silence(recorded: &Recorded) -> bool {
    PeopleReport::of(recorded)
        .requested
        .iter()
        .any(|requested| requested.answer.as_deref() == Some("expired"))
}

/// What waits in a run, for people: each action with its exact arguments, and the commands that answer it.
pub(crate) fn in_words(
    started: &Started,
    requested: &[PersonRequest],
    now: Millis,
    journal: Option<&Path>,
) -> String {
    let (run, item) = (&started.run, &started.item);
    let mut text = String::new();
    let mut row = |line: String| {
        text.push_str(&stream::one_line(&line));
        text.push('\n');
    };
    row(format!("run {run}: {} {}: {}", item.kind, item.id, item.title));
    let scope = scope_of(&item.scope);
    if !scope.is_empty() {
        row(format!("  what the item concerns, which a tool may use as well: {scope}"));
    }
    let at = places::at(journal);
    for requested in requested {
        let PersonRequest { key, id, tool, is_question, deadline, binding, .. } = requested;
        row(String::new());
        row(format!("  {key}  {tool}  ({}, the model calls it {id})", kind_of(requested)));
        for by in &requested.approvers {
            row(format!("    approved by {by}; another token has to approve it as well"));
        }
        details(requested).into_iter().for_each(|line| row(format!("    {line}")));
        let until = deadline.map(|deadline| show::time(started.unix_ms_at(deadline)));
        match deadline.zip(until) {
            None => row("    no deadline: it waits until it is answered".to_owned()),
            Some((deadline, until)) if deadline > now => {
                let left = left(deadline.since(now));
                row(format!("    until {until} UTC ({left} left), then it counts as a denial"));
            }
            Some((_, until)) => {
                row(format!("    its time was over at {until} UTC, which counts as a denial"));
                row(format!("    loopgate resume {run}{at}"));
                continue;
            }
        }
        let bound = format!("--binding {}", binding.short());
        if requested.approvals > 1 {
            let people = requested.approvals;
            row(format!("    {people} tokens of `loopgate serve` have to approve it"));
        } else {
            let yes = if *is_question { "answer" } else { "approve" };
            let stated = if *is_question { " TEXT" } else { "" };
            row(format!("    loopgate {yes} {run} {key}{stated} {bound}{at}"));
        }
        row(format!("    loopgate deny {run} {key} --why TEXT {bound}{at}"));
    }
    text
}

/// A time that is left, in its largest unit.
fn left(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// What a work item concerns beside itself: a tool gets it without the model, so it is in no parameter.
fn scope_of(scope: &Scope) -> String {
    let Scope { account, account_name, asset, person, item: _ } = scope;
    let all = [("account", account), ("account_name", account_name), ("asset", asset), ("person", person)];
    let given = all.into_iter().filter_map(|(key, value)| Some(format!("{key} {}", value.as_deref()?)));
    given.collect::<Vec<_>>().join(", ")
}

/// What is asked of a person: an answer, or consent to an effect.
pub(crate) fn kind_of(requested: &PersonRequest) -> String {
    if requested.is_question {
        "a question".to_owned()
    } else {
        format!("effect {}", requested.effect.name())
    }
}

/// What a person has to know of an action before they decide, in lines: every byte of its parameters, with what does not
/// show written out, what is easily overlooked, and why they are asked.
pub(crate) fn details(requested: &PersonRequest) -> Vec<String> {
    let shown = shown(&requested.parameters);
    let mut lines: Vec<String> = shown.text.lines().map(str::to_owned).collect();
    lines.push(format!("{}, {}", counted(shown.bytes, "byte"), counted(shown.values, "value")));
    lines.extend(shown.warnings.iter().map(|warning| format!("mind: {warning}")));
    lines.push(format!("asked because: {}", requested.why));
    if !requested.reason.is_empty() {
        lines.push(format!("the model says: {}", requested.reason));
    }
    lines
}

/// An action that waits, for programs.
fn in_json(started: &Started, requested: &PersonRequest) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(PersonRequestReport::new(started, requested))?;
    let shown = shown(&requested.parameters);
    let rest = json!({
        "run": started.run,
        "item": started.item.id,
        "title": started.item.title,
        "scope": started.item.scope,
        "bytes": shown.bytes,
        "values": shown.values,
        "warnings": shown.warnings,
    });
    if let (Value::Object(value), Value::Object(rest)) = (&mut value, rest) {
        value.extend(rest);
    }
    Ok(value)
}

fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", stream::grouped(n), if n == 1 { "" } else { "s" })
}

/// How much of a binding has to be given.
pub(crate) const BINDING_DIGITS: usize = 12;
