//! `loopgate serve tokens`: adds, lists and removes tokens for `loopgate serve`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use loop_core::types::PicoUsd;
use loop_server::caller::Role;
use loop_server::doors::tokens::{NewToken, Token, TokenFile};
use serde_json::json;

use crate::args::{ReportArgs, age, one_of};
use crate::output::{Failure, cut, row, stream};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokensCommand {
    /// Add a token to a file, and print it once
    #[command(after_help = ADD_HELP)]
    Add(AddArgs),
    /// List the tokens of a file, without what they are
    List {
        #[command(flatten)]
        file: FileArgs,
        #[command(flatten)]
        json: ReportArgs,
    },
    /// Remove a token from a file; a server that reads the file refuses it within a second
    Remove {
        /// The token's name
        name: String,
        #[command(flatten)]
        file: FileArgs,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// The file of tokens; `add` makes it if it is missing
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The token's name, which approvals and the audit log have: 1 to 64 letters, digits, `.`, `_` and `-`
    name: String,
    /// What its holder may do; a role does not include another one, and `admin` includes all
    #[arg(long = "role", value_parser = one_of(ROLES), value_name = "ROLE", required = true)]
    roles: Vec<Role>,
    /// A domain that its holder sees [default: all]
    #[arg(long = "domain", value_name = "NAME")]
    domains: Vec<String>,
    /// What the runs of its holder may cost a day by UTC, in US dollars [default: the budgets of the domains alone]
    #[arg(long, value_name = "USD")]
    day_usd: Option<PicoUsd>,
    /// After how long it opens nothing any more (90m, 12h, 30d) [default: it does not expire]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
    #[command(flatten)]
    file: FileArgs,
}

const ADD_HELP: &str = "The token is printed on standard output and kept nowhere: the file has its hash. Give each person and each \
    program a token of its own: the name is what approvals and the audit log show, and two approvals of one token are one \
    person.";

const ROLES: [(&str, &str, Role); 4] = [
    ("submit", "Begins runs, and stops and instructs those that it began", Role::Submit),
    ("read", "Reads runs, their documents and events", Role::Read),
    ("approve", "Decides actions that wait for a person, and answers questions", Role::Approve),
    ("admin", "Everything, on every run of its domains", Role::Admin),
];

pub(crate) fn tokens(command: TokensCommand) -> Result<ExitCode, Failure> {
    match command {
        TokensCommand::Add(args) => add(args),
        TokensCommand::List { file: FileArgs { file }, json } => list(&TokenFile::at(file), json),
        TokensCommand::Remove { name, file: FileArgs { file } } => {
            if TokenFile::at(&file).remove(&name)? {
                stream::note(format!("removed: {name}"));
                return Ok(ExitCode::SUCCESS);
            }
            let (name, file) = (cut(&name, 80), file.display());
            Err(Failure::new(format!(
                "{file}: there is no token {name}; `loopgate serve tokens list --file {file}` lists them"
            )))
        }
    }
}

fn add(args: AddArgs) -> Result<ExitCode, Failure> {
    let AddArgs { name, roles, domains, day_usd, expires, file: FileArgs { file } } = args;
    if day_usd == Some(PicoUsd(0)) {
        return Err(Failure::new("--day-usd 0 lets no run call a model; give an amount, or leave it out"));
    }
    let domains: BTreeSet<Arc<str>> = domains.into_iter().map(Arc::from).collect();
    let expires = expires.map(|after| Timestamp::now().checked_add(after)).transpose();
    let expires = expires.map_err(|_| Failure::new("--expires: it is too far away; give a shorter time"))?;
    let secret = TokenFile::at(&file).add(NewToken {
        name: name.as_str().into(),
        roles: roles.into_iter().collect(),
        domains: Some(domains).filter(|domains| !domains.is_empty()),
        day_limit: day_usd,
        expires,
    })?;
    stream::print(&format!("{}\n", secret.reveal()));
    let until = expires.map_or_else(String::new, |expires| format!(", until {}", shown(expires)));
    stream::note(format!(
        "added:   {name} to {}{until}; this is the only time that it is shown",
        file.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn list(file: &TokenFile, json: ReportArgs) -> Result<ExitCode, Failure> {
    let tokens = file.read()?;
    let now = Timestamp::now();
    if json.json {
        let token = |token: &Token| {
            json!({
                "name": token.name,
                "roles": token.roles,
                "domains": token.domains,
                "day_usd": token.day_limit.map(|limit| limit.to_string()),
                "created": token.created.to_string(),
                "expires": token.expires.map(|expires| expires.to_string()),
                "is_expired": token.is_expired(now),
            })
        };
        let value = json!({ "version": 1, "tokens": tokens.iter().map(token).collect::<Vec<_>>() });
        stream::print_report(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for token in &tokens {
        let roles: Vec<&str> = token.roles.iter().map(|role| name_of(*role)).collect();
        let domains = match &token.domains {
            None => "all domains".to_owned(),
            Some(domains) => domains.iter().map(|name| &**name).collect::<Vec<_>>().join(", "),
        };
        let budget = token.day_limit.map_or_else(String::new, |limit| format!(", {limit} a day"));
        let expires = match token.expires {
            None => "does not expire".to_owned(),
            Some(at) if token.is_expired(now) => format!("expired {}", shown(at)),
            Some(at) => format!("expires {}", shown(at)),
        };
        row(&mut text, &format!("{}  {}  {domains}{budget}  {expires}", token.name, roles.join(", ")));
    }
    stream::print(&text);
    if tokens.is_empty() {
        stream::note("there are no tokens in it");
    }
    Ok(ExitCode::SUCCESS)
}

fn name_of(role: Role) -> &'static str {
    ROLES.iter().find(|(_, _, known)| *known == role).map_or("", |(name, ..)| name)
}

fn shown(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Parses a duration such as `30d`.
fn lifetime(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number and a unit: 90m, 12h, 30d or 8w".to_owned();
    age(text).filter(|age| !age.is_zero()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_has_a_number_and_a_unit() {
        assert_eq!(lifetime("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(lifetime("90m"), Ok(Duration::from_secs(5_400)));
        for wrong in ["", "d", "0d", "-1d", "30", "30y", "1.5d", "99999999999999999999d", "ä"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
