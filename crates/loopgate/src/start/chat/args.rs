//! The arguments of `loopgate chat`.

use std::path::PathBuf;

use crate::args::{JournalArgs, SettingArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArgs {
    /// The domain folder, or its loopgate.toml [default with --continue: the one of the chat, with its settings]
    #[arg(required_unless_present = "continues")]
    pub(crate) domain: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Continue the chat whose last turn is this run: its id, the beginning of one, or the latest chat of the journal
    #[arg(long = "continue", value_name = "RUN", num_args = 0..=1, default_missing_value = "last")]
    pub(crate) continues: Option<String>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Record every exchange with a model to this file; the provider `recorded` plays it back
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

const CHAT_HELP: &str = "Each line is a turn, and a run in the journal. Answers go to standard output, everything else to \
    standard error. Ctrl-C stops a turn. A second Ctrl-C, Ctrl-D or /quit ends the chat. A call that changes something \
    and is not approved by the domain needs your approval. --continue takes a chat up again where it was left.\n\n\
    Exit codes: 0 the chat ended, 1 it could not begin or a piped line is too long, 2 wrong usage, 3 an effect that a turn asked \
    for did not happen, 5 a turn waits for a person, 7 a turn left an effect whose outcome is unknown, 129, 130 and 143 ended by a \
    signal.";
