//! Names of MCP tools in a domain.

use std::collections::BTreeMap;

use crate::config::{ServerConfig, ToolKind};
use crate::file::File;
use crate::review::one_line;

/// The most characters of a tool's name. Providers set this limit.
const NAME_MAX: usize = 64;

/// The name, after the server's prefix, of the tool that reads resources.
const READ_RESOURCE: &str = "read_resource";

/// What a server offers: one of its tools, or its resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerOffer {
    /// The tool of this name on the server.
    Tool(String),
    /// Its resources, which one tool reads.
    Resources,
}

/// A server whose tools get names.
pub(crate) struct Offer<'a> {
    pub(crate) server: &'a str,
    pub(crate) config: &'a ServerConfig,
    pub(crate) tools: Vec<&'a str>,
    pub(crate) has_resources: bool,
}

/// Why a tool of a server is not a tool of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// The domain file excludes it: by `only`, or by a table with `enabled = false`.
    Unwanted,
    /// It cannot have its name, for this reason.
    Unnamed(String),
}

/// The names of each tool, by server and tool. A tool with several tables has several.
pub(crate) type Names<'a> = BTreeMap<(&'a str, ServerOffer), Result<Vec<String>, LeftOut>>;

/// Names every tool and resource that the servers offer.
pub(crate) fn names<'a>(file: &File, offers: &[Offer<'a>]) -> Names<'a> {
    let mut names = Names::new();
    // What would have each automatic name.
    let mut wanted: BTreeMap<String, Vec<(&'a str, ServerOffer)>> = BTreeMap::new();
    for offer in offers {
        let resources = offer.has_resources.then_some(ServerOffer::Resources);
        let tools = offer.tools.iter().map(|tool| ServerOffer::Tool((*tool).to_owned()));
        for offered in tools.chain(resources) {
            let key = (offer.server, offered);
            match tables(file, offer, &key.1) {
                Some(tables) => drop(names.insert(key, tables)),
                None => wanted.entry(automatic(offer, &key.1)).or_default().push(key),
            }
        }
    }
    for (name, mut all) in wanted {
        all.sort();
        let collide = all.iter().map(|(_, offered)| shown(offered)).collect::<Vec<_>>().join(" and ");
        for key in &all {
            let named = match all.len() {
                1 => is_free(file, &name).map(|()| vec![name.clone()]),
                _ => Err(LeftOut::Unnamed(format!("{collide} would all be called `{name}`"))),
            };
            names.insert(key.clone(), named);
        }
    }
    names
}

/// A tool or the resources, in words for messages.
pub(crate) fn shown(offered: &ServerOffer) -> String {
    match offered {
        ServerOffer::Tool(tool) => format!("`{}`", one_line(tool)),
        ServerOffer::Resources => "the resources".to_owned(),
    }
}

/// The prefix of the names of this server's tools.
pub(crate) fn prefix(server: &str, config: &ServerConfig) -> String {
    let prefix = sanitized(config.prefix.as_deref().unwrap_or(server));
    if prefix.is_empty() { prefix } else { format!("{prefix}_") }
}

/// The names of the tables of this tool, or that it is excluded. `None`: no table names it, so it gets a generated
/// name.
fn tables(file: &File, offer: &Offer<'_>, offered: &ServerOffer) -> Option<Result<Vec<String>, LeftOut>> {
    let ServerOffer::Tool(tool) = offered else { return None };
    let named = file.config.tools.iter().filter(|(_, config)| {
        config.kind == ToolKind::Mcp
            && config.server.as_deref() == Some(offer.server)
            && config.tool.as_deref() == Some(tool)
    });
    let named: Vec<_> = named.collect();
    let enabled = named.iter().filter(|(_, config)| config.enabled);
    let enabled: Vec<String> = enabled.map(|(name, _)| (*name).to_owned()).collect();
    if !named.is_empty() {
        return Some(if enabled.is_empty() { Err(LeftOut::Unwanted) } else { Ok(enabled) });
    }
    let is_wanted = offer.config.only.as_ref().is_none_or(|only| only.contains(tool));
    (!is_wanted).then_some(Err(LeftOut::Unwanted))
}

fn automatic(offer: &Offer<'_>, offered: &ServerOffer) -> String {
    let prefix = prefix(offer.server, offer.config);
    match offered {
        ServerOffer::Tool(tool) => format!("{prefix}{}", sanitized(tool)),
        ServerOffer::Resources => format!("{prefix}{READ_RESOURCE}"),
    }
}

/// The name, with `_` for each character that is not allowed.
fn sanitized(name: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if is_fine(c) { c } else { '_' }).collect()
}

/// Fails if a tool of a server must not have this name.
fn is_free(file: &File, name: &str) -> Result<(), LeftOut> {
    let unnamed = |why: String| Err(LeftOut::Unnamed(why));
    if name.len() > NAME_MAX {
        return unnamed(format!("its name `{name}` would have more than {NAME_MAX} characters"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return unnamed(format!("its name `{name}` would not begin with a letter"));
    }
    let mut tables = file.config.tools.iter();
    if tables.any(|(table, config)| table == name && !config.enabled && config.kind == ToolKind::Mcp) {
        return Err(LeftOut::Unwanted);
    }
    let is_other =
        |config: &crate::config::ToolConfig| config.kind != ToolKind::Mcp || config.server.is_some();
    let taken = file.config.tools.iter().filter(|(_, config)| config.enabled).any(|(table, config)| {
        table == name && is_other(config) || config.aliases.iter().any(|alias| alias == name)
    });
    if taken || file.config.output.as_ref().is_some_and(|output| output.name == name) {
        return unnamed(format!("the domain file has another tool that is called `{name}`"));
    }
    Ok(())
}
