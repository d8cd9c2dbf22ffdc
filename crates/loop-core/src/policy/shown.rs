//! The parameters of a call as an approver sees them: every byte, with invisible characters and terminal controls
//! escaped, and with warnings about what could be overlooked.

use std::fmt::Write as _;

use serde_json::Value;

use crate::policy::scalar::is_unclear;
use crate::policy::scripts::mixed;
use crate::types::{canonical, pointer_step, sorted};

/// A list with more elements than this gets a warning.
const LONG_LIST: usize = 10;

/// A text with more bytes than this gets a warning.
const LONG_TEXT: usize = 1_000;

/// The maximum number of words of one text, and of its invisible characters, that warnings name.
const WORDS: usize = 3;

/// The parameters of a call as an approver sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownArgs {
    /// The parameters as JSON on several lines, complete. Characters that are invisible, control a terminal or only
    /// look like a blank are escaped.
    pub text: String,
    /// Bytes of the parameters as the tool receives them.
    pub bytes: u64,
    /// How many strings, numbers and booleans they hold.
    pub values: u64,
    /// What an approver might overlook, one line each: invisible characters, mixed scripts in a word, several
    /// addresses in a text, long values. Empty if there is nothing.
    pub warnings: Vec<String>,
}

/// Renders the parameters of a call, a JSON text, for an approver.
pub fn shown(parameters: &str) -> ShownArgs {
    let mut text = String::new();
    let mut look = DisplayCheck { values: 0, warnings: Vec::new() };
    match serde_json::from_str::<Value>(parameters) {
        Ok(value) => {
            write(&value, 0, &mut text);
            look.value("", &value);
        }
        Err(_) => {
            look.warnings.push("the parameters are not JSON".to_owned());
            look.text("", parameters);
            string(parameters, &mut text);
        }
    }
    ShownArgs { text, bytes: parameters.len() as u64, values: look.values, warnings: look.warnings }
}

/// A value as JSON in one line, with unclear characters escaped, cut to `max` characters.
pub(crate) fn quoted(value: &Value, max: usize) -> String {
    let mut text = String::new();
    match value {
        Value::String(value) => string(value, &mut text),
        other => text.push_str(&canonical(other)),
    }
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth + 1);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => _ = write!(out, "{value}"),
        Value::String(text) => string(text, out),
        Value::Array(elements) if elements.is_empty() => out.push_str("[]"),
        Value::Object(members) if members.is_empty() => out.push_str("{}"),
        Value::Array(elements) => {
            out.push('[');
            for (n, element) in elements.iter().enumerate() {
                out.push_str(if n == 0 { "\n" } else { ",\n" });
                out.push_str(&indent);
                write(element, depth + 1, out);
            }
            _ = write!(out, "\n{}]", "  ".repeat(depth));
        }
        Value::Object(members) => {
            out.push('{');
            for (n, (name, member)) in sorted(members).into_iter().enumerate() {
                out.push_str(if n == 0 { "\n" } else { ",\n" });
                out.push_str(&indent);
                string(name, out);
                out.push_str(": ");
                write(member, depth + 1, out);
            }
            _ = write!(out, "\n{}}}", "  ".repeat(depth));
        }
    }
}

/// A text as a JSON string, with unclear characters escaped as well.
fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_unclear(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct DisplayCheck {
    values: u64,
    warnings: Vec<String>,
}

impl DisplayCheck {
    fn value(&mut self, pointer: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => self.values += 1,
            Value::String(text) => {
                self.values += 1;
                self.text(pointer, text);
            }
            Value::Array(elements) => {
                if elements.len() > LONG_LIST {
                    self.warn(pointer, &format!("has {} elements", elements.len()));
                }
                for (n, element) in elements.iter().enumerate() {
                    self.value(&format!("{pointer}/{n}"), element);
                }
            }
            Value::Object(members) => {
                for (name, member) in sorted(members) {
                    let pointer = format!("{pointer}/{}", pointer_step(name));
                    self.letters(&pointer, name, "has a name that ");
                    self.value(&pointer, member);
                }
            }
        }
    }

    fn text(&mut self, pointer: &str, text: &str) {
        if text.len() > LONG_TEXT {
            self.warn(pointer, &format!("has {} bytes", text.len()));
        }
        let addresses = text.matches('@').count();
        if addresses > 1 && text.len() <= LONG_TEXT {
            self.warn(pointer, &format!("holds {addresses} addresses"));
        }
        self.letters(pointer, text, "");
    }

    fn letters(&mut self, pointer: &str, text: &str, lead: &str) {
        // Line breaks and tabs are escaped visibly, so they need no warning.
        let mut hidden: Vec<char> =
            text.chars().filter(|c| is_unclear(*c) && !matches!(c, '\n' | '\t' | '\r')).collect();
        if !hidden.is_empty() {
            let count = hidden.len();
            hidden.sort();
            hidden.dedup();
            let named: Vec<String> =
                hidden.iter().take(WORDS).map(|c| format!("U+{:04X}", u32::from(*c))).collect();
            let more = if hidden.len() > WORDS { " and others" } else { "" };
            self.warn(
                pointer,
                &format!("{lead}holds {count} characters that do not show: {}{more}", named.join(", ")),
            );
        }
        for (word, scripts) in
            text.split_whitespace().filter_map(|word| Some((word, mixed(word)?))).take(WORDS)
        {
            let word = quoted(&Value::from(word), 40);
            self.warn(pointer, &format!("{lead}has {} letters in one word: {word}", scripts.join(" and ")));
        }
    }

    fn warn(&mut self, pointer: &str, what: &str) {
        let whole = quoted(&Value::from(pointer), 80);
        let place = if pointer.is_empty() { "the whole" } else { whole.trim_matches('"') };
        self.warnings.push(format!("{place} {what}"));
    }
}
