//! Answers and instructions for runs of a durable engine.

use std::process::ExitCode;

use loop_core::run::PersonAnswer;
use loop_core::types::RunId;
use loop_runtime::engine::RunMessage;

use crate::args::PersonArgs;
use crate::context::{client, failed};
use crate::drive::{PersonReply, is_binding};
use crate::output::{Failure, stream};

/// Sends a person's answer to a request of a run.
pub(crate) async fn say(url: &str, args: &PersonArgs, said: PersonReply) -> Result<ExitCode, Failure> {
    let (run, client) = (RunId::new(args.run.as_str()), client(url)?);
    let status = client.status(&run).await.map_err(failed)?;
    let waiting = status.waiting.iter().find(|open| open.key.to_string() == args.action);
    let Some(open) = waiting else {
        let known: Vec<String> = status.waiting.iter().map(|open| open.key.to_string()).collect();
        let waits = if known.is_empty() { "nothing waits in it".to_owned() } else { known.join(", ") };
        return Err(Failure::new(format!("{} of run {run} does not wait; what waits: {waits}", args.action)));
    };
    if let Some(given) = &args.binding
        && !is_binding(given, &open.binding)
    {
        return Err(Failure::new(format!(
            "{} of run {run}: --binding {given} is not its own, so it is not what you were shown; look again with \
             `loopgate engine status {run} --ingress {url}`",
            open.key
        )));
    }
    let (key, binding) = (open.key, open.binding);
    let takes = match (&said, open.is_question) {
        (PersonReply::Approves(_) | PersonReply::Answers(PersonAnswer::Approved), true) => {
            Some("a question: use `loopgate answer` or `deny`")
        }
        (PersonReply::Answers(PersonAnswer::Answered { .. }), false) => {
            Some("an approval request, not a question: use `loopgate approve` or `deny`")
        }
        _ => None,
    };
    if let Some(takes) = takes {
        return Err(Failure::new(format!("{key} of run {run} is {takes}")));
    }
    let message = match said {
        PersonReply::Approves(by) => RunMessage::Approve { key, by, binding },
        PersonReply::Answers(answer) => RunMessage::Answer { key, answer, binding: Some(binding) },
    };
    let posted = client.post(&run, &message).await.map_err(failed)?;
    let when =
        if posted.is_kept { ", and it counts once the other calls of the pass have ended" } else { "" };
    stream::note(format!(
        "run {run} has it{when}; `loopgate engine status {run} --ingress {url}` shows what follows"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Gives a run an instruction.
pub(crate) async fn tell(url: &str, run: &str, text: &str) -> Result<ExitCode, Failure> {
    let run = RunId::new(run);
    client(url)?.post(&run, &RunMessage::Tell(text.into())).await.map_err(failed)?;
    stream::note(format!("run {run} is told"));
    Ok(ExitCode::SUCCESS)
}
