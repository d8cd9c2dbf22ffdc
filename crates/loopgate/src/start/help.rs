//! `loopgate help`: a command, a stop reason, the environment, or what a domain folder has.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use loop_core::StopReason;
use loop_core::types::edits;

use crate::output::{Failure, columns, cut, stream};

/// The variables that this program reads, with what they are for.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY, OPENAI_API_KEY, …", "keys of providers, see docs/reference/keys.md"),
    ("LOOPGATE_PRICES", "a file with prices of your own, see docs/reference/prices.md"),
    ("LOOPGATE_MCP_TOKEN", "the bearer token of `loopgate mcp --http`"),
    ("XDG_STATE_HOME", "the folder of the default journal [default: ~/.local/state]"),
    ("XDG_CACHE_HOME", "the folder of stored results of evals [default: ~/.cache]"),
    ("PGPASSWORD, PGPASSFILE", "the password of a PostgreSQL database"),
    ("HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "the proxy for models and tools"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT, …", "the receiver of traces, see docs/how-to/telemetry.md"),
    ("AWS_ACCESS_KEY_ID, …", "the bucket of blobs, see docs/reference/blobs.md"),
    ("TRACEPARENT", "the span in which a run is requested"),
    ("NO_COLOR, CLICOLOR_FORCE", "no colours, or colours in a pipe too"),
    ("COLUMNS, TERM", "the width of the terminal; `dumb`: nothing changes in place"),
    ("CI", "nothing changes in place, as in the log of a build"),
];

const DOMAIN: &str = include_str!("help_domain.txt");

/// Prints what is known of a topic. `program` is the command line with its help.
pub(crate) fn help(topic: &[String], program: clap::Command) -> Result<ExitCode, Failure> {
    let topic: Vec<&str> = topic.iter().map(String::as_str).collect();
    let text = match topic.as_slice() {
        ["environment"] => {
            let rows = ENVIRONMENT.iter().map(|(name, about)| [(*name).to_owned(), (*about).to_owned()]);
            columns(&rows.collect::<Vec<_>>())
        }
        ["domain"] => DOMAIN.replace("{docs}", DOCS),
        _ => match reason(&topic) {
            Some(text) => text,
            None => return command(&topic, program),
        },
    };
    stream::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// What a stop reason means. `None`: there is no such reason.
fn reason(topic: &[&str]) -> Option<String> {
    let [name] = topic else { return None };
    let name = StopReason::own_name(name);
    let reason = StopReason::all().iter().find(|reason| reason.name() == name)?;
    let (class, about) = (reason.class(), reason.about());
    let mut text = format!("{name} (class {}, exit code {})\n\n{about}\n\n", class.name(), class.exit_code());
    let _ = writeln!(text, "One run:     loopgate why RUN");
    let _ = writeln!(text, "All reasons: {DOCS}/stop-reasons.md#{name}");
    Some(text)
}

/// The help of a command.
fn command(topic: &[&str], program: clap::Command) -> Result<ExitCode, Failure> {
    let mut found = Some(&program);
    for name in topic {
        found = found.and_then(|command| command.find_subcommand(name));
    }
    if found.is_some() {
        let words = std::iter::once("loopgate").chain(topic.iter().copied()).chain(["--help"]);
        if let Err(answer) = program.try_get_matches_from(words)
            && answer.kind() == ErrorKind::DisplayHelp
        {
            return Ok(stream::answered(&answer));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = cut(&topic.join(" "), 60);
    let commands = program.get_subcommands().map(clap::Command::get_name);
    let known = commands.chain(StopReason::all().iter().map(StopReason::name)).chain(["environment"]);
    let mut near: Vec<(usize, &str)> = known.map(|name| (edits(&wanted, name), name)).collect();
    near.retain(|(distance, name)| distance * 3 <= wanted.len() || name.contains(&wanted));
    near.sort_unstable();
    let near: Vec<String> = near.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    let advice = match near.as_slice() {
        [] => "give a command, a stop reason, `environment` or `domain`".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Err(Failure::new(format!("help {wanted}: there is no such topic; {advice}")))
}

/// Where the reference is.
const DOCS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/reference");
