//! Improves the error of a command line: what was probably meant.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, Error};

/// Whether DOMAIN is given and can be a domain, for commands that have it. A work item in its place is not.
///
/// # Errors
/// The arguments are swapped: the domain comes after the work item.
pub(crate) fn domain_named(program: &mut Command, matches: &ArgMatches) -> Result<bool, Error> {
    let Some((name, below)) = matches.subcommand() else {
        let arguments: Vec<&str> = program.get_positionals().map(|arg| arg.get_id().as_str()).collect();
        let values = |id: &&str| matches.try_get_many::<PathBuf>(id).ok().flatten();
        let paths: Vec<&PathBuf> = arguments.iter().filter_map(values).flatten().collect();
        let [item, rest @ ..] = &*paths else { return Ok(true) };
        if arguments.first() != Some(&"domain") || !is_item(item) {
            return Ok(true);
        }
        let Some(domain) = rest.iter().find(|path| path.join("loopgate.toml").is_file()) else {
            return Ok(false);
        };
        let (domain, item) = (domain.display(), item.display());
        let message = format!("the arguments are swapped; write {domain} {item}, with the domain first");
        return Err(program.error(ErrorKind::ValueValidation, message));
    };
    program.find_subcommand_mut(name).map_or(Ok(true), |command| domain_named(command, below))
}

/// Whether a path is standard input, or a file that does not belong to a domain.
fn is_item(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
    path == Path::new("-") || path.is_file() && !is_toml
}

/// A plainer error for a value that is not a number, or for a missing run before an option.
fn plainer(error: &Error) -> Option<Error> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (option, value) = (of(ContextKind::InvalidArg)?, of(ContextKind::InvalidValue)?);
    let why = match (option, error.source().and_then(|it| it.downcast_ref::<ParseIntError>())) {
        ("--evidence [<DETAIL>]", _) => format!("the run comes first: loopgate show {value} --evidence"),
        (_, Some(wrong)) if matches!(wrong.kind(), IntErrorKind::InvalidDigit | IntErrorKind::Empty) => {
            "expected a whole number".to_owned()
        }
        _ => return None,
    };
    let message =
        format!("invalid value '{value}' for '{option}': {why}\n\nFor more information, try '--help'.\n");
    Some(Error::raw(error.kind(), message))
}

/// The error of an unknown option, with the option that other programs call so.
pub(crate) fn advised(mut error: Error) -> Error {
    if let Some(plainer) = plainer(&error) {
        return plainer;
    }
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
        && matches!(option.as_str(), "--verbose" | "-v" | "--debug" | "--quiet" | "-q")
    {
        let tip = "`run -v` says more, `run --progress always` shows each step, `never` none, and `--events` prints each event";
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The error of an unknown command, with the list of commands if none is similar.
pub(crate) fn with_commands(mut error: Error, program: &Command, words: &[OsString]) -> Error {
    let mut command = program;
    while let Some(below) = words.iter().find_map(|word| command.find_subcommand(word)) {
        command = below;
    }
    let is_similar = error.get(ContextKind::SuggestedSubcommand).is_some();
    if error.kind() == ErrorKind::InvalidSubcommand && !is_similar && command.get_name() != program.get_name()
    {
        let names = command.get_subcommands().map(|it| format!("`{} {}`", command.get_name(), it.get_name()));
        let tip = format!("there is {}", names.collect::<Vec<_>>().join(", "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
