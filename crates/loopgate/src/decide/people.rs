//! `loopgate pending`, `approve`, `deny`, `answer` and `tell`: what waits for people, and their decisions and
//! instructions.

use std::fmt::Write as _;
use std::process::ExitCode;

use loop_core::policy::shown;
use loop_core::run::{AnswerFault, PersonAnswer, PersonRequest};
use loop_core::types::CommandKey;
use loop_core::{EventKind, Run};
use loop_runtime::journal::versions::not_on_engine;
use loop_runtime::journal::{Journal, Recorded, replay};
use loop_runtime::people::PeopleReport;
use loop_runtime::report::{EffectPlanReport, PersonRequestReport};
use loop_runtime::run::{StartError, expire};
use serde_json::{Value, json};

use super::engine;
use crate::args::name_of;
use crate::args::{EngineArgs, GoOnArgs, JournalArgs, PersonArgs, ReportArgs};
use crate::context::{FoundRun, find, places, unverified};
use crate::drive::{PersonReply, approver, is_binding};
use crate::output::{Failure, at_journal, stream};
use crate::shown::people;

/// `loopgate pending`: prints the pending requests of one run or of all.
pub(crate) async fn pending(args: PendingArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let lines = match &args.run {
        Some(run) => vec![find(journal.as_ref(), run).await?],
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
                let (run, at) = (&line.run, at_journal(args.journal.journal.as_deref()));
                let _ = writeln!(
                    text,
                    "run {run}: it was not answered in time, which counts as a denial\n    loopgate resume {run}{at}\n"
                );
            }
            continue;
        }
        unverified(&line.run, &recorded);
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
        let _ = writeln!(
            text,
            "{}",
            people::in_words(&run, &recorded.manifest, now, args.journal.journal.as_deref())
        );
        for requested in &requested {
            listed.push(in_json(&run, &recorded.manifest, requested)?);
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
    let claim = name_of("--as", args.claim.as_deref())?;
    say(args.person, PersonReply::Approves(approver(claim))).await
}

/// `loopgate deny`.
pub(crate) async fn deny(args: DenyArgs) -> Result<ExitCode, Failure> {
    let why = match args.why.as_deref().map(str::trim) {
        None => "a person refused it",
        Some("") => return Err(Failure::new("--why is empty; say why, or leave it out")),
        Some(why) => why,
    };
    say(args.person, PersonReply::Answers(PersonAnswer::Denied { why: why.into() })).await
}

/// `loopgate answer`.
pub(crate) async fn answer(args: AnswerArgs) -> Result<ExitCode, Failure> {
    let text = args.text.trim();
    if text.is_empty() {
        return Err(Failure::new("the answer is empty; give some text, or refuse with `loopgate deny`"));
    }
    say(args.person, PersonReply::Answers(PersonAnswer::Answered { text: text.into() })).await
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
    let found = FoundRun::open(&args.run, &args.go_on.again).await?;
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

async fn say(args: PersonArgs, said: PersonReply) -> Result<ExitCode, Failure> {
    if let Some(url) = &args.engine.ingress {
        return engine::say(url, &args, said).await;
    }
    if args.run == "last" && args.binding.is_none() {
        return Err(Failure::new(
            "`last` may be another run than the one that you were shown; give its id, or --binding with what \
             `loopgate pending` shows",
        ));
    }
    let found = FoundRun::any(&args.run, &args.go_on.again).await?;
    found.check_driver()?;
    let key = key_of(&found.run, &args.action)?;
    let own = found.run.binding(&key);
    if let Some(given) = &args.binding
        && !own.is_some_and(|own| is_binding(given, &own))
    {
        return Err(Failure::new(format!(
            "{key} of run {}: --binding {given} is not its own, so it is not what you were shown; look again with \
             `loopgate pending {}{}`",
            found.id(),
            found.id(),
            args.go_on.again.at()
        )));
    }
    let now = found.recorded.now().max(found.run.now());
    let may = match &said {
        PersonReply::Approves(by) => found.run.may_approve(now, &key, by, own.as_ref()),
        PersonReply::Answers(answer) => found.run.may_answer(now, &key, answer, own.as_ref()),
    };
    if let Err(fault) = may {
        if matches!(fault, AnswerFault::Expired { .. }) {
            // From now on, whatever a clock is set to. The process that drives it journals that as well.
            let _ = expire(found.journal.as_ref(), found.id()).await;
        }
        return Err(refused(&found, &key, fault, &args.go_on.again.at()));
    }
    let kind = match said {
        PersonReply::Approves(by) => EventKind::ApprovedBy { key, by, binding: own },
        PersonReply::Answers(answer) => EventKind::PersonAnswered { key, answer, binding: own },
    };
    found.go_on(vec![kind], &args.go_on).await
}

/// The action that a person names, by its key or by the model's id for it.
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

/// Why an answer does not count, with advice.
fn refused(found: &FoundRun, key: &CommandKey, fault: AnswerFault, at: &str) -> Failure {
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

/// Whether the journal has an expired deadline for an action.
fn has_expired(found: &FoundRun, key: &CommandKey) -> bool {
    let people = PeopleReport::of(&found.recorded);
    people.of_action(key).is_some_and(|requested| requested.answer.as_deref() == Some("expired"))
}

/// Whether the journal has an expired deadline for any request of the run.
fn has_silence(recorded: &Recorded) -> bool {
    PeopleReport::of(recorded)
        .requested
        .iter()
        .any(|requested| requested.answer.as_deref() == Some("expired"))
}

/// A pending request as JSON.
fn in_json(run: &Run, manifest: &str, requested: &PersonRequest) -> Result<Value, Failure> {
    let started = run.started();
    let mut value = serde_json::to_value(PersonRequestReport::new(run, manifest, requested))?;
    let shown = shown(&requested.parameters);
    let rest = json!({
        "run": started.run,
        "item": started.item.id,
        "title": started.item.title,
        "scope": started.item.scope,
        "plan": EffectPlanReport::of(run),
        "bytes": shown.bytes,
        "values": shown.values,
        "warnings": shown.warnings,
    });
    if let (Value::Object(value), Value::Object(rest)) = (&mut value, rest) {
        value.extend(rest);
    }
    Ok(value)
}

#[derive(Debug, clap::Args)]
pub(crate) struct PendingArgs {
    /// The run's id, the beginning of one, or `last` [default: every run that waits]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is checked of who runs this command. If `gate.approvals` is 2, it is refused: two tokens of `loopgate serve` \
                  have to approve."
)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// Who approves, in your own words; it is journaled, and shown as unverified
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) claim: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// Reason, which the model reads
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// The answer
    pub(crate) text: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TellArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The instruction
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}
