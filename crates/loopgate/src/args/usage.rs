//! What is probably meant by a command line that cannot be what was meant.

use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, Error};

/// Whether the argument DOMAIN can be a domain, where the command has one. A work item in its place names none.
///
/// # Errors
/// The domain is behind the work item: the arguments are swapped.
pub(crate) fn domain_named(program: &mut Command, matches: &ArgMatches) -> Result<bool, Error> {
    let (mut command, mut matches) = (program, matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand_mut(name) else { return Ok(true) };
        (command, matches) = (found, below);
    }
    let paths = |id: &str| matches.try_get_many::<PathBuf>(id).ok().flatten().into_iter().flatten();
    let is_positional = command.get_positionals().any(|arg| arg.get_id() == "domain");
    let Some(named) = paths("domain").next().filter(|named| is_positional && is_item(named)) else {
        return Ok(true);
    };
    let ids: Vec<String> = command.get_positionals().map(|arg| arg.get_id().to_string()).collect();
    let behind = ids.iter().filter(|id| *id != "domain").flat_map(|id| paths(id));
    if let Some(domain) = behind.into_iter().find(|path| is_domain(path)) {
        let (domain, item) = (domain.display(), named.display());
        let message = format!(
            "the arguments are swapped: {domain} is the domain and {item} the work item; write {domain} {item}"
        );
        return Err(command.error(ErrorKind::ValueValidation, message));
    }
    Ok(false)
}

/// Whether a path is a file that is no domain's, or standard input.
fn is_item(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
    path == Path::new("-") || path.is_file() && !is_toml
}

fn is_domain(path: &Path) -> bool {
    path.join("loopgate.toml").is_file() || path.is_file() && !is_item(path)
}

/// The error of a command line, with a tip where an option is known elsewhere by another name.
pub(crate) fn advised(mut error: Error) -> Error {
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg).unwrap_or(&ContextValue::None)
    else {
        return error;
    };
    let tip = match option.as_str() {
        "--verbose" | "-v" | "--debug" => {
            "`--progress always` shows each step of a run, and `--events` each event as JSON"
        }
        "--quiet" | "-q" | "--silent" => "`--progress never` shows nothing of a run but its result",
        "--output" | "-o" | "--out" => "the result goes to standard output: write `> FILE`",
        "--input" | "--item" | "-i" => "the work item is an argument: write DOMAIN ITEM",
        "--yes" | "-y" | "--force" => {
            "nothing is approved in advance: `loopgate approve` approves an action that waits"
        }
        "--url" | "--endpoint" | "--api-base" => "the server of a model is `--base-url [TIER=]URL`",
        "--api-key" | "--key" | "--token" => {
            "keys are in the environment, for example OPENAI_API_KEY: `loopgate doctor DOMAIN` says which are missing"
        }
        "--config" | "-c" => {
            "settings are in the domain's loopgate.toml and `--set KEY=VALUE`; `loopgate config` prints those of the user"
        }
        _ => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
