//! The topics of `loopgate help`: stop reasons, their classes, states of runs, the environment, and the domain folder.

use clap::Command;
use clap::error::ErrorKind;
use loop_core::StopReason;
use loop_core::types::{StopClass, edits};

use crate::output::cut;

/// Adds the topics to the command line, each as a subcommand of `help`.
pub(crate) fn topics(program: Command) -> Command {
    let topic = |name: &'static str, about: String| {
        let command = Command::new(name).hide(true).disable_help_flag(true);
        command.about(about.replace("{docs}", DOCS)).help_template("{about}")
    };
    let is_addition =
        |reason: &StopReason| matches!(reason, StopReason::EffectBlocked | StopReason::TierChanged);
    let reason = |reason: &'static StopReason| {
        let (name, class, about) = (reason.name(), reason.class(), reason.about());
        let head = match is_addition(reason) {
            true => format!("{name} (an addition: it ends no run and changes no class)"),
            false => format!("{name} (class {}, exit code {})", class.name(), class.exit_code()),
        };
        let more = format!("One run:     loopgate why RUN\nAll reasons: {{docs}}/stop-reasons.md#{name}");
        topic(name, format!("{head}\n\n{about}\n\n{more}"))
    };
    let word = |(name, text): (&'static str, &str)| match StopClass::ALL.iter().find(|it| it.name() == name) {
        Some(class) => {
            let of = StopReason::all().iter().filter(|it| it.class() == *class && !is_addition(it));
            let reasons = of.map(|it| it.name()).collect::<Vec<_>>().join(", ");
            let head = format!("{name} (a class of outcomes, exit code {})", class.exit_code());
            topic(
                name,
                format!("{head}\n\n{text}\n\nIts reasons: {reasons}\nOne of them: loopgate help REASON"),
            )
        }
        None => topic(name, format!("{name} (a state of a run that has not ended)\n\n{text}")),
    };
    let words = include_str!("help_words.txt").trim_end().split("\n\n").filter_map(|it| it.split_once('\n'));
    let environment = topic("environment", include_str!("help_environment.txt").to_owned());
    let domain = include_str!("help_domain.txt").replace("{docs}", DOCS);
    let program = program.subcommands(StopReason::all().iter().map(reason)).subcommand(environment);
    let program = program.subcommands(words.map(word));
    program.mut_subcommand("domain", |command| command.after_help(domain))
}

/// The error of an unknown topic, with the most similar one. `program` has the topics.
pub(crate) fn unknown(program: &Command) -> clap::Error {
    let words: Vec<_> = std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    let wanted = cut(&words.join(" "), 60);
    let near = program.get_subcommands().map(Command::get_name).min_by_key(|name| edits(&wanted, name));
    let line = format!("there is no topic `{wanted}`; the nearest is `{}`\n", near.unwrap_or_default());
    clap::Error::raw(ErrorKind::InvalidSubcommand, line)
}

/// The URL of the reference.
const DOCS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/reference");
