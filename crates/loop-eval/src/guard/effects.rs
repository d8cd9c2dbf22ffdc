//! What recorded tools do to the world: as somebody said, or else by their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use loop_tools::files;
use serde_json::Value;

/// Which tools only read.
///
/// Recordings do not tell. What is not said is guessed from the words of a tool's name, and for a shell from the first
/// word of each of its commands; what no list knows may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolEffects {
    stated: BTreeMap<String, ActionKind>,
}

/// What a call does to the world, as far as repeats are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActionKind {
    /// Nothing.
    Read,
    /// It changes something, unless it fails.
    Write,
    /// It may change something, even if it fails.
    Run,
}

/// Why tool effects could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EffectsError {
    /// The file could not be read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not one JSON object of strings.
    #[error("{path}:{source}: a file of effects is one JSON object: {{\"tool\": \"read\"}}", path = path.display())]
    Json {
        /// The path.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// An effect has a name that is none.
    #[error(
        "the effect of `{tool}` is `{effect}`, which is none: read, write, write_idempotent, write_keyed, \
         write_irreversible, egress or exec"
    )]
    Unknown {
        /// The tool's name.
        tool: String,
        /// What was said.
        effect: String,
    },
}

impl ToolEffects {
    /// What somebody says: tool to effect, by the names `read`, `write`, `write_idempotent`, `write_keyed`,
    /// `write_irreversible`, `egress` and `exec`.
    ///
    /// # Errors
    ///
    /// Another name.
    pub fn new(stated: BTreeMap<String, String>) -> Result<Self, EffectsError> {
        let stated = stated.into_iter().map(|(tool, effect)| match &*effect {
            "read" => Ok((tool, ActionKind::Read)),
            "write" | "write_idempotent" | "write_keyed" | "write_irreversible" | "egress" => {
                Ok((tool, ActionKind::Write))
            }
            "exec" => Ok((tool, ActionKind::Run)),
            _ => Err(EffectsError::Unknown { tool, effect }),
        });
        Ok(Self { stated: stated.collect::<Result<_, _>>()? })
    }

    /// What a file says: one JSON object from tools to effects.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is something else.
    pub fn read_file(path: &Path) -> Result<Self, EffectsError> {
        let text = files::text(path, files::MAX_BYTES)
            .map_err(|source| EffectsError::File { path: path.to_owned(), source })?;
        let stated = serde_json::from_str(&text)
            .map_err(|source| EffectsError::Json { path: path.to_owned(), source })?;
        Self::new(stated)
    }

    /// These, and of what they do not say what `other` says.
    pub fn or(mut self, other: &Self) -> Self {
        for (tool, action) in &other.stated {
            self.stated.entry(tool.clone()).or_insert(*action);
        }
        self
    }

    /// Whether a call of a tool only reads.
    pub fn is_read(&self, tool: &str, arguments: &Value) -> bool {
        self.action(tool, arguments) == ActionKind::Read
    }

    pub(super) fn action(&self, tool: &str, arguments: &Value) -> ActionKind {
        if let Some(action) = self.stated.get(tool) {
            return *action;
        }
        let of_command = |command| if only_reads(command) { ActionKind::Read } else { ActionKind::Run };
        if is_shell(tool) {
            return shell_command(tool, arguments).map_or(ActionKind::Run, of_command);
        }
        if ORDERS.iter().filter_map(|key| arguments.get(key)?.as_str()).any(is_order_to_write) {
            return ActionKind::Write;
        }
        let mut chosen = CHOICES.iter().filter_map(|key| arguments.get(key)?.as_str());
        let own = chosen.clone().find(|command| command.split_whitespace().next() == Some(tool));
        if let Some(command) = own.filter(|_| is_in(tool, LOOKS)) {
            // Recordings of shells often name a tool after the first word of its command.
            return of_command(command);
        }
        let chosen = chosen.find(|chosen| !chosen.contains(char::is_whitespace));
        let looks = chosen.and_then(by_words).or_else(|| by_words(tool));
        looks.map_or(ActionKind::Run, |looks| if looks { ActionKind::Read } else { ActionKind::Write })
    }
}

fn is_shell(tool: &str) -> bool {
    SHELLS.contains(&tool.to_ascii_lowercase().as_str())
}

/// The command that a call of a shell runs.
pub(super) fn shell_command<'a>(tool: &str, arguments: &'a Value) -> Option<&'a str> {
    let mut keys = COMMAND.iter().filter(|_| is_shell(tool));
    keys.find_map(|key| arguments.get(key).and_then(Value::as_str))
}

/// Tools whose argument is a command.
const SHELLS: &[&str] = &[
    "bash",
    "cmd",
    "exec",
    "execute_bash",
    "execute_command",
    "run",
    "run_command",
    "run_in_terminal",
    "run_shell_command",
    "sh",
    "shell",
    "terminal",
];

/// Where such a tool has its command.
const COMMAND: &[&str] = &["command", "cmd", "script", "input"];

/// Words that say that something is changed.
const WRITES: &[&str] = &[
    "add",
    "append",
    "apply",
    "approve",
    "archive",
    "assign",
    "book",
    "buy",
    "cancel",
    "change",
    "clear",
    "close",
    "commit",
    "configure",
    "copy",
    "create",
    "delete",
    "disable",
    "drop",
    "edit",
    "enable",
    "exchange",
    "execute",
    "insert",
    "install",
    "kill",
    "make",
    "merge",
    "mkdir",
    "modify",
    "move",
    "mv",
    "order",
    "patch",
    "pay",
    "post",
    "publish",
    "purge",
    "push",
    "put",
    "refund",
    "register",
    "remove",
    "rename",
    "replace",
    "reply",
    "reset",
    "restart",
    "return",
    "rm",
    "run",
    "save",
    "schedule",
    "send",
    "set",
    "start",
    "stop",
    "store",
    "submit",
    "terminate",
    "transfer",
    "update",
    "upload",
    "upsert",
    "withdraw",
    "write",
];

/// Words that say that something is looked at.
const READS: &[&str] = &[
    "browse",
    "calculate",
    "cat",
    "check",
    "compare",
    "count",
    "describe",
    "diff",
    "explain",
    "fetch",
    "file",
    "find",
    "get",
    "glob",
    "grep",
    "head",
    "inspect",
    "list",
    "load",
    "lookup",
    "ls",
    "open",
    "peek",
    "ping",
    "preview",
    "pwd",
    "query",
    "read",
    "retrieve",
    "search",
    "show",
    "stat",
    "strings",
    "tail",
    "think",
    "validate",
    "verify",
    "view",
    "wc",
    "whoami",
];

/// Arguments that say which of a tool's actions is meant: an editor's `view`, a client's `GET`.
const CHOICES: &[&str] = &["command", "action", "operation", "method"];

/// Arguments that hold an order to a database, and how one begins that changes something.
const ORDERS: &[&str] = &["sql", "statement"];

fn is_order_to_write(order: &str) -> bool {
    let first = order.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    !matches!(first.as_str(), "select" | "with" | "show" | "explain" | "describe" | "pragma" | "values")
}

/// What is looked at by opening it; any other thing that is opened or filed is made.
const LOOKED_AT: &[&str] = &["document", "file", "files", "folder", "link", "page", "tab", "url"];

/// Whether a name says that something is looked at; nothing where it has no verb that is known.
fn by_words(name: &str) -> Option<bool> {
    let words = words(name);
    // Only the first verb counts: what follows it may be a thing of the same name, as in `get_order`.
    let at = words.iter().position(|word| is_in(word, READS) || is_in(word, WRITES))?;
    let (verb, next) = (words.get(at)?, words.get(at + 1));
    let looks = is_in(verb, READS)
        && match (verb.as_str(), next.map(String::as_str)) {
            ("check", Some("in" | "out")) => false,
            ("file" | "open", Some(next)) => is_in(next, LOOKED_AT),
            _ => true,
        };
    let and_writes = words.windows(2).any(
        |pair| matches!(pair, [joint, word] if matches!(joint.as_str(), "and" | "or") && is_in(word, WRITES)),
    );
    Some(looks && !and_writes)
}

fn is_in(word: &str, list: &[&str]) -> bool {
    list.contains(&word)
}

/// The words of a name, lower-case: `crm__getUser-byId` has four and a prefix.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && after_lower {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_numeric();
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// Commands that only look, by their first word.
const LOOKS: &[&str] = &[
    "cat",
    "cd",
    "cmp",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "file",
    "find",
    "grep",
    "head",
    "hexdump",
    "id",
    "jq",
    "less",
    "locate",
    "ls",
    "md5sum",
    "more",
    "nl",
    "od",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sed",
    "sha256sum",
    "sort",
    "stat",
    "strings",
    "tail",
    "test",
    "tree",
    "true",
    "type",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "xxd",
];

/// What makes one of them write.
const BUT: &[(&str, &[&str])] = &[
    ("find", &["-delete", "-exec", "-execdir", "-ok", "-fprint", "-fls"]),
    ("sed", &["-i", "--in-place", "-ni", "-Ei", "-ri"]),
    ("sort", &["-o", "--output"]),
];

/// Second words of `git` that only look.
const GIT: &[&str] =
    &["blame", "describe", "diff", "grep", "log", "ls-files", "rev-parse", "shortlog", "show", "status"];

/// Whether every part of a command line only reads, and nothing goes into a file.
fn only_reads(command: &str) -> bool {
    let quiet = command.replace("2>&1", "").replace(">/dev/null", "").replace("> /dev/null", "");
    let quiet = quiet.replace("2>/dev/null", "").replace("&>/dev/null", "");
    if quiet.contains(['>', '`']) || quiet.contains("$(") || quiet.contains("<(") || quiet.contains("<<") {
        return false;
    }
    let mut some = false;
    for part in quiet.split(['&', ';', '|', '\n']) {
        let mut words = part.split_whitespace();
        let Some(first) = words.next() else { continue };
        some = true;
        let looks = match first {
            "git" => words.next().is_some_and(|second| is_in(second, GIT)),
            _ => {
                is_in(first, LOOKS)
                    && BUT.iter().filter(|(of, _)| *of == first).all(|(_, flags)| {
                        words.clone().all(|word| !flags.iter().any(|flag| is_flag(word, flag)))
                    })
            }
        };
        if !looks {
            return false;
        }
    }
    some
}

/// Whether a word is a flag, or a flag with its value behind it.
fn is_flag(word: &str, flag: &str) -> bool {
    word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', '.']))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(tool: &str, is_read: bool) {
        assert_eq!(ToolEffects::default().is_read(tool, &json!({})), is_read, "{tool}");
    }

    #[test]
    fn names_are_known_by_their_words() {
        for tool in [
            "get_user_details",
            "find_user_id_by_email",
            "crm__search_contacts",
            "list-orders",
            "getInvoice",
            "tickets.get",
            "calculate",
            "think",
            "ls",
            "cat",
            "open",
            "find_file",
            "search",
            "readFile",
            "get_order",
            "get_book",
            "check_return_policy",
            "list_all_product_types",
            "wiki-view-page",
            "fetch_post",
        ] {
            check(tool, true);
        }
        for tool in [
            "update_order",
            "cancel_reservation",
            "book_reservation",
            "edit",
            "create",
            "submit",
            "python",
            "transfer_to_human_agents",
            "find_and_replace",
            "get_or_create",
            "setState",
            "scroll_down",
            "frobnicate",
            "return_delivered_order_items",
            "run_query",
            "file_complaint",
            "open_ticket",
            "check_in_guest",
            "",
        ] {
            check(tool, false);
        }
    }

    #[test]
    fn an_argument_may_say_which_deed_is_meant() {
        let is_read = |tool: &str, arguments: Value| ToolEffects::default().is_read(tool, &arguments);
        assert!(is_read("str_replace_editor", json!({ "command": "view", "path": "a" })));
        assert!(!is_read("str_replace_editor", json!({ "command": "str_replace", "path": "a" })));
        assert!(!is_read("str_replace_editor", json!({ "command": "view then edit" })));
        assert!(!is_read("edit", json!({ "command": "edit\nlist = show(all)" })));
        assert!(is_read("cat", json!({ "command": "cat notes.txt" })));
        assert!(!is_read("cat", json!({ "command": "cat notes.txt > copy.txt" })));
        assert!(is_read("search_dir", json!({ "command": "search_dir \"def main\"" })));
        assert!(is_read("http_request", json!({ "method": "GET" })));
        assert!(!is_read("http_request", json!({ "method": "POST" })));
        assert!(!is_read("http_request", json!({})));
        assert!(is_read("query_database", json!({ "sql": "SELECT 1" })));
        assert!(!is_read("query_database", json!({ "sql": " delete from t" })));
        assert!(is_read("query_database", json!({ "query": "delete" })));
    }

    #[track_caller]
    fn command(line: &str, is_read: bool) {
        assert_eq!(ToolEffects::default().is_read("bash", &json!({ "command": line })), is_read, "{line}");
    }

    #[test]
    fn shells_are_known_by_the_first_word_of_each_command() {
        for line in [
            "ls -la",
            "cat a.txt | grep -n foo | head -n 3",
            "cd src && rg TODO",
            "git status --short",
            "git log -3",
            "sed -n 1,20p main.rs",
            "find . -name '*.rs' 2>/dev/null",
            "grep x y 2>&1",
            "pwd; ls",
        ] {
            command(line, true);
        }
        for line in [
            "rm -rf x",
            "sed -i s/a/b/ f",
            "sed -i.bak s/a/b/ f",
            "ls > out",
            "env A=1 make",
            "echo hi >> log",
            "git commit -m x",
            "git",
            "find . -delete",
            "pytest -q",
            "cat a; make",
            "echo $(rm x)",
            "cat <<EOF",
            "",
            "ls `rm x`",
            "cat a & rm a",
        ] {
            command(line, false);
        }
        assert!(!ToolEffects::default().is_read("bash", &json!({})));
    }

    #[test]
    fn what_is_said_comes_first() {
        let stated = |pairs: &[(&str, &str)]| {
            ToolEffects::new(pairs.iter().map(|(tool, effect)| ((*tool).into(), (*effect).into())).collect())
        };
        let effects = stated(&[("frobnicate", "read"), ("get_token", "write_keyed")]).unwrap();
        assert!(effects.is_read("frobnicate", &json!({})));
        assert!(!effects.is_read("get_token", &json!({})));
        let both = effects.or(&stated(&[("frobnicate", "exec"), ("poke", "read")]).unwrap());
        assert!(both.is_read("frobnicate", &json!({})) && both.is_read("poke", &json!({})));
        let error = stated(&[("a", "reads")]).unwrap_err().to_string();
        assert!(error.starts_with("the effect of `a` is `reads`, which is none: read, write,"), "{error}");
    }
}
