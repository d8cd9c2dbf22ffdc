//! Parses YAML into JSON within limits: aliases cannot multiply a document, and nesting cannot exhaust the stack.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

/// How deeply lists and tables may nest.
const DEPTH_MAX: usize = 100;
/// The most nodes of a document after all aliases are expanded. 16 bytes of text count as one node.
const COST_MAX: usize = 4_000_000;

/// A list or a table that is not complete.
enum OpenNode {
    List { anchor: usize, items: Vec<Value> },
    Table { anchor: usize, members: Map<String, Value>, key: Option<String> },
}

#[derive(Default)]
struct Reader {
    open: Vec<OpenNode>,
    anchors: BTreeMap<usize, (Value, usize)>,
    cost: usize,
}

/// Parses the first document of a YAML text. Names of members become text. A later member replaces an earlier one of
/// its name.
///
/// # Errors
/// It is not YAML, or exceeds a limit. The message is one line.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = error.marker();
            format!("line {}, column {}: {}", at.line(), at.col() + 1, error.info())
        })?;
        let read = reader.take(event).map_err(|message| format!("line {}: {message}", span.start.line()))?;
        if let Some(root) = read {
            return Ok(root);
        }
    }
    Ok(Value::Null)
}

impl Reader {
    /// Applies a parser event. `Some`: the document is complete.
    fn take(&mut self, event: Event<'_>) -> Result<Option<Value>, String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.add(value, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(OpenNode::List { anchor, items: Vec::new() }),
            Event::MappingStart(anchor, _) => {
                self.begin(OpenNode::Table { anchor, members: Map::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenNode::List { anchor, items }) => self.add(Value::Array(items), anchor),
                Some(OpenNode::Table { anchor, members, .. }) => self.add(Value::Object(members), anchor),
                None => Ok(None),
            },
            Event::Alias(anchor) => {
                let Some((value, cost)) = self.anchors.get(&anchor) else {
                    return Err("an alias names an anchor that it is part of; write the value out".to_owned());
                };
                let (value, cost) = (value.clone(), *cost);
                self.pay(cost)?;
                self.add(value, 0)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(None),
        }
    }

    fn begin(&mut self, open: OpenNode) -> Result<Option<Value>, String> {
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("it nests deeper than {DEPTH_MAX} levels; flatten it"));
        }
        self.open.push(open);
        Ok(None)
    }

    fn add(&mut self, value: Value, anchor: usize) -> Result<Option<Value>, String> {
        self.pay(own_cost(&value))?;
        if anchor > 0 {
            let cost = cost(&value);
            self.pay(cost)?;
            self.anchors.insert(anchor, (value.clone(), cost));
        }
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(OpenNode::List { items, .. }) => items.push(value),
            Some(OpenNode::Table { members, key, .. }) => match key.take() {
                Some(key) => {
                    members.insert(key, value);
                }
                None => *key = Some(name_of(&value)?),
            },
        }
        Ok(None)
    }

    fn pay(&mut self, cost: usize) -> Result<(), String> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > COST_MAX {
            return Err("with its aliases replaced it is too large; give a part of it".to_owned());
        }
        Ok(())
    }
}

/// The cost of a node without its children.
fn own_cost(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 16,
        _ => 1,
    }
}

/// The cost of a node with all of its children. The depth is limited before.
fn cost(value: &Value) -> usize {
    own_cost(value)
        + match value {
            Value::Array(items) => items.iter().map(cost).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| name.len() / 16 + cost(value)).sum::<usize>()
            }
            _ => 0,
        }
}

/// The name of a member as text. For example, the responses of an operation have numbers as names.
fn name_of(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => {
            Err("the name of a member is a list or a table; write a text".to_owned())
        }
    }
}

/// A scalar by the core schema of YAML 1.2.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return text.into();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => {}
    }
    let whole = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(digits), _) => i64::from_str_radix(digits, 16).ok(),
        (_, Some(digits)) => i64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    };
    if let Some(whole) = whole {
        return whole.into();
    }
    let is_number = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number = text.parse().ok().filter(|_| is_number).and_then(Number::from_f64);
    number.map_or_else(|| text.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_becomes_json() {
        let text = "openapi: 3.0.3\nlong: 3.1\nyes: no\non: ~\nn: [0x1F, 0o17, -7, 1.5, 1e3, .5, 1.2.3, inf, .nan, e, 0x]\nquoted: ['7', \"a\\nb\", !!str 7]\n\
                    block: |\n  a\n  b\n200: {a: true}\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({
                "openapi": "3.0.3", "long": 3.1, "yes": "no", "on": null,
                "n": [31, 15, -7, 1.5, 1000.0, 0.5, "1.2.3", "inf", ".nan", "e", "0x"],
                "quoted": ["7", "a\nb", "7"], "block": "a\nb\n", "200": { "a": true },
            })
        );
        assert_eq!(parse("a: &x {b: 1}\nc: *x\n").unwrap(), json!({ "a": { "b": 1 }, "c": { "b": 1 } }));
        assert_eq!(parse("").unwrap(), Value::Null);
        assert_eq!(parse("--- 1\n--- 2\n").unwrap(), json!(1), "the first document");
    }

    #[test]
    fn what_is_not_yaml_is_one_line_with_its_place() {
        for (text, says) in [
            ("a: [1", "line "),
            ("a: *nowhere", "line 1"),
            ("a: &x [*x]", "line 1"),
            ("? [a]\n: b", "line 1: the name of a member is a list or a table"),
            ("a: \"\\q\"", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn neither_aliases_nor_nesting_exhaust_anything() {
        // K10
        let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for at in 1..30 {
            let before = at - 1;
            laughs += &format!("a{at}: &a{at} [{}]\n", vec![format!("*a{before}"); 9].join(", "));
        }
        assert!(parse(&laughs).unwrap_err().contains("too large"), "billion laughs");
        let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 10_000].join(", "));
        assert!(parse(&long).unwrap_err().contains("too large"), "a long text many times");
        let flow = "[".repeat(200_000);
        assert!(parse(&flow).is_err());
        let block: String = (0..20_000).map(|at| format!("{}a:\n", " ".repeat(at % 500))).collect();
        let _ = parse(&block);
        let deep = "- ".repeat(50_000) + "x";
        assert!(parse(&deep).unwrap_err().contains("nests deeper"), "nesting");
    }
}
