//! The configuration as a tree in which every value knows where it was written.
//!
//! The file, the profile and the command line are merged here, before the values are typed. So an error in a value that
//! a profile replaced points at the profile, and an error in a setting names the setting.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::similar::hint;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At this byte of the file.
    File(usize),
    /// In a setting, given as it is shown: `--set limits.passes=3`.
    Setting(Arc<str>),
    /// In the preset of this name.
    Preset(Arc<str>),
}

/// An error, and its place if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) origin: Option<Origin>,
    /// What is wrong and how to fix it.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self { origin: Some(origin), message: message.into() }
    }

    /// The error at `origin`, unless it has a place already.
    pub(crate) fn at(mut self, origin: &Origin) -> Self {
        self.origin.get_or_insert_with(|| origin.clone());
        self
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: NodeValue,
    pub(crate) origin: Origin,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum NodeValue {
    Text(String),
    /// Wider than TOML's integers, for values that a program sets.
    Integer(i128),
    /// As it was written, so that amounts of money are read without rounding.
    Float(String),
    Boolean(bool),
    List(Vec<Node>),
    /// In the order of the file.
    Table(Vec<Entry>),
}

impl NodeValue {
    /// The tree of a program's value, as if it were written in a file. Absent members are left out.
    pub(crate) fn of(value: &impl Serialize, origin: &Origin) -> Self {
        Self::of_json(serde_json::to_value(value).unwrap_or_default(), origin)
    }

    fn of_json(value: Value, origin: &Origin) -> Self {
        let node = |value| Node { value: Self::of_json(value, origin), origin: origin.clone() };
        match value {
            Value::Null => Self::Table(Vec::new()),
            Value::Bool(is) => Self::Boolean(is),
            Value::Number(number) => match number.as_i128() {
                Some(whole) => Self::Integer(whole),
                None => Self::Float(number.to_string()),
            },
            Value::String(text) => Self::Text(text),
            Value::Array(elements) => Self::List(elements.into_iter().map(node).collect()),
            Value::Object(members) => {
                let members = members.into_iter().filter(|(_, value)| !value.is_null());
                let entry = |(key, value)| Entry { key, origin: origin.clone(), node: node(value) };
                Self::Table(members.map(entry).collect())
            }
        }
    }
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Where the key is written.
    pub(crate) origin: Origin,
    pub(crate) node: Node,
}

/// Tables whose keys are names from the file. A setting cannot add a key to them.
const NAMED: [(&[&str], &str); 3] =
    [(&["tools"], "tool"), (&["sources"], "source"), (&["tools", "*", "parameters"], "parameter")];

/// A key whose value is a choice with a number. It is replaced as a whole.
const CHOICE: &str = "on_tool_error";

/// A fix for a common syntax error at this byte. `None`: the error is another one.
fn slip(text: &str, at: usize) -> Option<&'static str> {
    let (before, after) = text.split_at_checked(at)?;
    let (is_digit, is_quote) = (|c: char| c.is_ascii_digit(), |c: char| "“”„‘’‚«»".contains(c));
    let decimals = after.strip_prefix(',').filter(|_| before.ends_with(is_digit));
    if after.starts_with(is_quote) || before.ends_with(is_quote) {
        Some("these are typographic quotes; write straight ones: \"…\"")
    } else if decimals.is_some_and(|it| it.starts_with(is_digit)) {
        Some("write a decimal point: 0.10, and nothing between thousands")
    } else if before.ends_with('[') && before.trim_end_matches('[').ends_with('\n') {
        Some("write the heads of a list all as [[NAME]], and that of a table once as [NAME]")
    } else {
        None
    }
}

impl Node {
    /// The tree of a file.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            let cure = slip(text, at).unwrap_or("correct it there");
            Fault::new(Origin::File(at), format!("{message}; {cure}"))
        })?;
        let mut root = node_of(&DeValue::Table(table.into_inner()), &|at| Origin::File(at), 0)?;
        root.settle_aliases()?;
        Ok(root)
    }

    /// The tree of a preset.
    pub(crate) fn preset(name: &str, text: &str) -> Result<Self, Fault> {
        let origin = Origin::Preset(name.into());
        let table = DeTable::parse(text).map_err(|error| Fault::new(origin.clone(), error.message()))?;
        node_of(&DeValue::Table(table.into_inner()), &|_| origin.clone(), 0)
    }

    /// The value of a setting: TOML if it parses, else the text itself.
    fn setting(value: &str, origin: &Origin) -> Self {
        let parsed = DeValue::parse(value).ok().and_then(|value| {
            let at = |_| origin.clone();
            node_of(value.get_ref(), &at, 0).ok()
        });
        let text = || Self { value: NodeValue::Text(value.to_owned()), origin: origin.clone() };
        parsed.unwrap_or_else(text)
    }

    /// The entries of a table. Empty for other values.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            NodeValue::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The entry with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value without its place, for comparison.
    pub(crate) fn data(&self) -> Value {
        match &self.value {
            NodeValue::Text(text) => json!(text),
            NodeValue::Integer(number) => json!(*number as i64),
            NodeValue::Float(written) => json!({ "float": written }),
            NodeValue::Boolean(is) => json!(is),
            NodeValue::List(elements) => elements.iter().map(Self::data).collect(),
            NodeValue::Table(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.data())).collect())
            }
        }
    }

    /// The node of this key, mutable.
    pub(crate) fn table_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            NodeValue::Table(entries) => entries.iter_mut().find(|it| it.key == key).map(|it| &mut it.node),
            _ => None,
        }
    }

    /// Removes the entries whose keys do not fit.
    pub(crate) fn retain(&mut self, fits: impl Fn(&str) -> bool) {
        if let NodeValue::Table(entries) = &mut self.value {
            entries.retain(|entry| fits(&entry.key));
        }
    }

    /// Removes and returns the entry with this key.
    pub(crate) fn take(&mut self, key: &str) -> Option<Entry> {
        let NodeValue::Table(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(at))
    }

    /// Where the value at `path` was written, or the nearest one above it. Lists are walked by position.
    pub(crate) fn origin_of(&self, path: &[&str]) -> Origin {
        let (mut node, mut origin) = (self, &self.origin);
        for step in path {
            match &node.value {
                NodeValue::Table(_) => match node.get(step) {
                    Some(entry) => (node, origin) = (&entry.node, &entry.origin),
                    None => break,
                },
                NodeValue::List(elements) => match step.parse().ok().and_then(|at: usize| elements.get(at)) {
                    Some(element) => (node, origin) = (element, &element.origin),
                    None => break,
                },
                _ => break,
            }
        }
        origin.clone()
    }

    /// Merges `over` into this tree: tables key by key, other values replace the old ones.
    pub(crate) fn merge(&mut self, over: Node) {
        match (&mut self.value, over) {
            (NodeValue::Table(entries), Node { value: NodeValue::Table(new), .. }) => {
                for entry in new {
                    match entries.iter_mut().find(|old| old.key == entry.key) {
                        Some(old) if entry.key == CHOICE => *old = entry,
                        Some(old) => {
                            old.origin = entry.origin;
                            old.node.merge(entry.node);
                        }
                        None => entries.push(entry),
                    }
                }
            }
            (_, over) => *self = over,
        }
    }

    /// Sets the value at a dotted path.
    pub(crate) fn set(&mut self, path: &str, value: &str, option: &str) -> Result<(), Fault> {
        let origin = Origin::Setting(option.into());
        let mut steps: Vec<&str> = path.split('.').map(str::trim).collect();
        if steps.iter().any(|step| step.is_empty()) {
            return Err(Fault::new(origin, "a part of the key is empty; write it as `limits.passes=3`"));
        }
        if steps.first() == Some(&"profiles") {
            return Err(Fault::new(origin, "a profile cannot be set; set the key itself"));
        }
        if let [table @ "limits", name] = steps[..] {
            steps = vec![table, own_limit(name)];
        }
        let value = Self::setting(value, &origin);
        self.put(&steps, 0, value, &origin)
    }

    /// Sets a node at a path whose tables exist.
    pub(crate) fn put_at(&mut self, path: &[&str], value: Self) -> Result<(), Fault> {
        let origin = value.origin.clone();
        self.put(path, 0, value, &origin)
    }

    fn put(&mut self, path: &[&str], depth: usize, value: Node, origin: &Origin) -> Result<(), Fault> {
        let Some(step) = path.get(depth) else {
            *self = value;
            return Ok(());
        };
        let above = path.get(..depth).unwrap_or_default();
        let NodeValue::Table(entries) = &mut self.value else {
            let message = format!("`{}` is not a table; set it as a whole", above.join("."));
            return Err(Fault::new(origin.clone(), message));
        };
        let named = NAMED.iter().find(|(pattern, _)| {
            pattern.len() == above.len()
                && pattern.iter().zip(above).all(|(known, step)| *known == "*" || known == step)
        });
        let place = entries.iter().position(|entry| entry.key == *step);
        if let (None, Some((_, what))) = (place, named) {
            let known: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
            let hint = hint(step, known, "there are");
            return Err(Fault::new(origin.clone(), format!("there is no {what} `{step}`; {hint}")));
        }
        let place = place.unwrap_or_else(|| {
            let node = Node { value: NodeValue::Table(Vec::new()), origin: origin.clone() };
            entries.push(Entry { key: (*step).to_owned(), origin: origin.clone(), node });
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(place) else { return Ok(()) };
        if depth + 1 == path.len() {
            entry.origin = origin.clone();
        }
        entry.node.put(path, depth + 1, value, origin)
    }

    /// Renames aliases of limits to their canonical names, in the file and in its profiles.
    fn settle_aliases(&mut self) -> Result<(), Fault> {
        let NodeValue::Table(entries) = &mut self.value else { return Ok(()) };
        for entry in entries {
            match (entry.key.as_str(), &mut entry.node.value) {
                ("limits", NodeValue::Table(limits)) => {
                    let meant: Vec<String> =
                        limits.iter().map(|entry| own_limit(&entry.key).to_owned()).collect();
                    for (entry, own) in
                        limits.iter_mut().zip(&meant).filter(|(entry, own)| entry.key != **own)
                    {
                        if meant.iter().filter(|other| *other == own).count() > 1 {
                            let name = &entry.key;
                            let message = format!("`{name}` means `{own}`, which is there as well; keep one");
                            return Err(Fault::new(entry.origin.clone(), message));
                        }
                        entry.key.clone_from(own);
                    }
                }
                ("profiles", NodeValue::Table(profiles)) => {
                    for profile in profiles {
                        profile.node.settle_aliases()?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The canonical key of a limit. For example, `max_steps` is an alias of `passes`.
pub(crate) fn own_limit(name: &str) -> &str {
    match name {
        "max_passes" | "max_steps" => "passes",
        "max_tool_calls" => "tool_calls",
        "timeout_ms" => "wall_ms",
        other => other,
    }
}

fn node_of(value: &DeValue<'_>, origin: &impl Fn(usize) -> Origin, at: usize) -> Result<Node, Fault> {
    let nested = |spanned: &Spanned<DeValue<'_>>| node_of(spanned.get_ref(), origin, spanned.span().start);
    let value = match value {
        DeValue::String(text) => NodeValue::Text(text.to_string()),
        DeValue::Integer(integer) => {
            let whole = i64::from_str_radix(integer.as_str(), integer.radix());
            NodeValue::Integer(i128::from(whole.map_err(|_| {
                Fault::new(origin(at), format!("the number {integer} is too large; write a smaller one"))
            })?))
        }
        DeValue::Float(float) => NodeValue::Float(float.as_str().to_owned()),
        DeValue::Boolean(flag) => NodeValue::Boolean(*flag),
        DeValue::Datetime(moment) => NodeValue::Text(moment.to_string()),
        DeValue::Array(elements) => {
            NodeValue::List(elements.iter().map(nested).collect::<Result<_, Fault>>()?)
        }
        DeValue::Table(table) => {
            let mut members: Vec<_> = table.iter().collect();
            // The reader sorts by name; the order of the file is the order in which prompts list things.
            members.sort_by_key(|(key, _)| key.span().start);
            let entries = members.into_iter().map(|(key, value)| {
                let key_origin = origin(key.span().start);
                Ok(Entry { key: key.get_ref().to_string(), origin: key_origin, node: nested(value)? })
            });
            NodeValue::Table(entries.collect::<Result<_, Fault>>()?)
        }
    };
    Ok(Node { value, origin: origin(at) })
}
