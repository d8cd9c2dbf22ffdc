//! `loopgate tools DOMAIN diff` and `trust`: compares the tools of a domain's MCP servers with the trusted ones, and
//! trusts them.
//!
//! Each line of a server's text has a mark, so that it cannot look like output of this program.

use std::fmt::Write as _;
use std::process::ExitCode;

use futures::future::join_all;
use loop_domain::review::{McpServers, PartChange, ServerReview, ServerTrust, ToolChange, ToolReview};
use loop_runtime::report::counted;

use crate::args::DomainArgs;
use crate::context::{Signals, places};
use crate::output::{Failure, cut, one_line, stream};

/// The most characters of a line of a server's text. A longer line is wrapped.
const LINE_CHARS: usize = 110;

/// The most lines of a part of a server's text.
const LINES_MAX: usize = 100;

/// The exit code of `diff` if something differs.
const DIFFERS: u8 = 1;

/// The exit code of `diff` if a server could not be asked, or there is none.
const NOT_ASKED: u8 = 2;

pub(crate) async fn diff(domain: &DomainArgs, server: Option<&str>) -> ExitCode {
    let asked = match asked(domain, server).await {
        Ok((_, asked)) => asked,
        Err(failure) => {
            failure.report();
            return ExitCode::from(NOT_ASKED);
        }
    };
    let mut text = String::new();
    for review in &asked.reviews {
        head(&mut text, review, &found(review));
        for tool in review.tools.iter().filter(|tool| tool.change != ToolChange::Same) {
            let names = called(tool);
            let _ = match &tool.change {
                ToolChange::New => writeln!(text, "  new: {}{names}, {}", tool.tool, effect(tool)),
                ToolChange::Gone => writeln!(text, "  gone: {}", tool.tool),
                _ => writeln!(text, "  changed: {}{names}", tool.tool),
            };
            if tool.change == ToolChange::New {
                about(&mut text, tool);
            }
            changes(&mut text, tool);
        }
        rest(&mut text, review);
    }
    stream::print(&text);
    let differs = asked.reviews.iter().any(ServerReview::differs);
    match (asked.has_failed, differs) {
        (true, _) => ExitCode::from(NOT_ASKED),
        (false, true) => ExitCode::from(DIFFERS),
        (false, false) => ExitCode::SUCCESS,
    }
}

pub(crate) async fn trust(domain: &DomainArgs, server: Option<&str>) -> Result<ExitCode, Failure> {
    let (servers, asked) = asked(domain, server).await?;
    if asked.reviews.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let path = servers.trust(&asked.reviews)?;
    let mut text = String::new();
    for review in &asked.reviews {
        head(&mut text, review, &format!("trusted in {}", path.display()));
        for tool in &review.tools {
            let what = match tool.change {
                ToolChange::Gone => "gone".to_owned(),
                _ => effect(tool),
            };
            let _ = writeln!(text, "  {}{}, {what}", tool.tool, called(tool));
            if tool.change != ToolChange::Gone {
                about(&mut text, tool);
            }
            changes(&mut text, tool);
        }
        rest(&mut text, review);
    }
    stream::print(&text);
    let is_undeclared = |tool: &ToolReview| !tool.is_declared && tool.names.is_ok();
    if asked.reviews.iter().flat_map(|review| &review.tools).any(is_undeclared) {
        stream::note(
            "a call of a tool without a declared effect needs an approval: declare it with a table [tools.NAME] with \
             `kind = \"mcp\"` and `effect`",
        );
    }
    Ok(if asked.has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The reviews of servers.
struct AskedServers {
    reviews: Vec<ServerReview>,
    /// Whether a server could not be asked.
    has_failed: bool,
}

/// Asks one server, or all in parallel. Each failure is a line on standard error.
async fn asked(domain: &DomainArgs, server: Option<&str>) -> Result<(McpServers, AskedServers), Failure> {
    let servers = places::servers(domain)?;
    let names: Vec<&str> = match server {
        Some(name) => {
            servers.check(name)?;
            vec![name]
        }
        None => servers.names().collect(),
    };
    let mut signals = Signals::new()?;
    let answers = join_all(names.iter().map(|name| servers.review(name)));
    let answers = signals.unless_received(answers).await;
    let mut asked = AskedServers { reviews: Vec::new(), has_failed: false };
    for answer in answers {
        match answer {
            Ok(review) => asked.reviews.push(review),
            Err(message) => {
                asked.has_failed = true;
                stream::note(format!("loopgate: {message}"));
            }
        }
    }
    Ok((servers, asked))
}

fn head(text: &mut String, review: &ServerReview, what: &str) {
    let own = match review.calls_itself.as_str() {
        "" => String::new(),
        own => format!(" (it calls itself `{}`)", cut(own, LINE_CHARS)),
    };
    let _ = writeln!(text, "server {}{own}: {what}", review.server);
}

/// The number of differences.
fn found(review: &ServerReview) -> String {
    match review.trust {
        ServerTrust::Trusted => {}
        ServerTrust::NotYet => return "not trusted yet".to_owned(),
        ServerTrust::Changed => {
            return "its program, arguments or URL are not those that were trusted".to_owned();
        }
    }
    let number = |is: fn(&ToolChange) -> bool| review.tools.iter().filter(|tool| is(&tool.change)).count();
    let counted = [
        (number(|change| matches!(change, ToolChange::New)), "new"),
        (number(|change| matches!(change, ToolChange::Parts(_) | ToolChange::Edited)), "changed"),
        (number(|change| matches!(change, ToolChange::Gone)), "gone"),
        (number(|change| matches!(change, ToolChange::Same)), "as trusted"),
    ];
    let counted = counted.iter().filter(|(number, _)| *number > 0);
    let counted: Vec<String> = counted.map(|(number, what)| format!("{number} {what}")).collect();
    if counted.is_empty() { "no tools".to_owned() } else { counted.join(", ") }
}

/// The tool's names in the domain.
fn called(tool: &ToolReview) -> String {
    match &tool.names {
        Ok(names) => format!(" -> {}", names.join(", ")),
        Err(_) if tool.change == ToolChange::Gone => String::new(),
        Err(why) => format!(" -> not in the domain ({why})"),
    }
}

fn effect(tool: &ToolReview) -> String {
    let declared = if tool.is_declared { "" } else { ", not declared" };
    format!("{}{declared}", tool.effect.name())
}

/// The server's description of a tool: everything that a model would read, and its claims.
fn about(text: &mut String, tool: &ToolReview) {
    if let Some(title) = &tool.title {
        let _ = writeln!(text, "    title: {}", cut(title, LINE_CHARS));
    }
    marked(text, "    | ", tool.description.lines());
    marked(text, "    > ", tool.input_schema.lines());
    if !tool.claims.is_empty() {
        let claims = cut(&tool.claims.join(", "), LINE_CHARS * 2);
        let _ = writeln!(text, "    the server claims, which decides nothing: {claims}");
    }
}

/// The differences of a tool.
fn changes(text: &mut String, tool: &ToolReview) {
    match &tool.change {
        ToolChange::Edited => {
            text.push_str("    what tools.lock has of it was edited by hand, and is refused until it is trusted again\n");
        }
        ToolChange::Parts(parts) => parts.iter().for_each(|part| changed(text, part)),
        _ => {}
    }
}

fn changed(text: &mut String, change: &PartChange) {
    let invisible = match change.invisible {
        0 => String::new(),
        invisible => format!(", with {} that cannot be seen", characters(invisible)),
    };
    let _ = writeln!(text, "    its {} changed{invisible}", change.part);
    marked(text, "      - ", change.before.iter().map(String::as_str));
    marked(text, "      + ", change.after.iter().map(String::as_str));
}

fn characters(number: usize) -> String {
    counted(number as u64, "character")
}

/// The resources, and what of a server's lists cannot be used.
fn rest(text: &mut String, review: &ServerReview) {
    for (uri, about) in review.resources.iter().take(LINES_MAX) {
        let (uri, about) = (cut(uri, LINE_CHARS), cut(about, LINE_CHARS));
        let _ = writeln!(text, "  resource {uri}: {about}");
    }
    let more = review.resources.len().saturating_sub(LINES_MAX);
    if more > 0 {
        let _ = writeln!(text, "  {more} more resources");
    }
    for line in &review.left_out {
        let _ = writeln!(text, "  left out: {}", cut(line, LINE_CHARS * 2));
    }
}

/// Lines of a server's text with a mark, wrapped.
fn marked<'a>(text: &mut String, mark: &str, lines: impl Iterator<Item = &'a str>) {
    let mut shown = 0_usize;
    let mut left = 0_usize;
    for line in lines {
        let line = one_line(line);
        let characters: Vec<char> = line.chars().collect();
        for part in characters.chunks(LINE_CHARS) {
            if shown == LINES_MAX {
                left += 1;
                continue;
            }
            shown += 1;
            let _ = writeln!(text, "{mark}{}", part.iter().collect::<String>());
        }
    }
    if left > 0 {
        let _ = writeln!(text, "{mark}... {left} more lines are not shown");
    }
}
