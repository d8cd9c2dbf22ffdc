//! The lists of keys in `docs/reference/domain-file.md` are made of the schema. `UPDATE_SCHEMA=1` writes them anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use loop_core::spec::Limits;
use serde_json::Value;

const BEGIN: &str = "<!-- the keys, made of the schema -->\n";
const END: &str = "\n<!-- end of keys -->\n";

#[test]
fn the_reference_has_every_key_of_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/domain-file.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the mark before the keys");
    let (_, tail) = rest.split_once(END).expect("the mark after the keys");
    let schema = loop_domain::schema();
    let mut keys = Keys { schema: &schema, page: String::new(), seen: BTreeSet::new() };
    keys.table("", &schema);
    assert!(keys.seen.len() > 40, "{:?}", keys.seen);
    let made = format!("{head}{BEGIN}{}{END}{tail}", keys.page);
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &made).unwrap();
        return;
    }
    assert!(page == made, "{} is stale; run this test with UPDATE_SCHEMA=1", path.display());
}

struct Keys<'a> {
    schema: &'a Value,
    page: String,
    /// The definitions that the page has, by name. A definition is listed where the first key leads to it.
    seen: BTreeSet<&'a str>,
}

impl<'a> Keys<'a> {
    /// Lists the keys of a table, then the tables that its keys lead to.
    fn table(&mut self, path: &str, table: &'a Value) {
        let heading = match path {
            "" => "### The top of the file".to_owned(),
            path => format!("### `[{path}]`\n\n{}", text(table)).trim_end().to_owned(),
        };
        write!(self.page, "\n{heading}\n\n").unwrap();
        let mut below = Vec::new();
        for (key, property) in members(table) {
            let (mut tables, mut values) = (Vec::new(), Vec::new());
            self.visit(property, "", &mut tables, &mut values);
            let mut line = text(property);
            values.retain(|(name, _)| !line.contains(&format!("`{name}`")));
            let listed: Vec<String> = values
                .iter()
                .map(|(name, about)| match about.trim_end_matches('.') {
                    "" => format!("`{name}`"),
                    about => format!("`{name}` ({about})"),
                })
                .collect();
            if !listed.is_empty() {
                write!(line, " Values: {}.", listed.join(", ")).unwrap();
            }
            let is_required =
                table["required"].as_array().is_some_and(|keys| keys.iter().any(|it| it == key));
            let mark = if is_required { " (required)" } else { "" };
            writeln!(self.page, "- `{key}`{mark}: {}", line.trim_end_matches(" Default: none.")).unwrap();
            for (name, form) in tables {
                // A part of a table that a profile lays over has the keys of the whole.
                if name != "Profile" && !name.starts_with("PartOf") && self.seen.insert(name) {
                    let dot = if path.is_empty() { "" } else { "." };
                    let inner = match &*form {
                        "[]" => format!("[{path}{dot}{key}]"),
                        form => format!("{path}{dot}{key}{form}"),
                    };
                    below.push((inner, &self.schema["definitions"][name]));
                }
            }
        }
        for (path, table) in below {
            self.table(&path, table);
        }
    }

    /// Collects the tables that a value may be, each with what follows its key in a path, and the words that it may be.
    fn visit(
        &self,
        value: &'a Value,
        form: &str,
        tables: &mut Vec<(&'a str, String)>,
        words: &mut Vec<(String, String)>,
    ) {
        if let Some(name) = value["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            let definition = &self.schema["definitions"][name];
            if members(definition).is_empty() {
                self.visit(definition, form, tables, words);
            } else {
                tables.push((name, form.to_owned()));
            }
        }
        if let Some(word) = value["const"].as_str() {
            words.push((word.to_owned(), text(value)));
        }
        // A form with a number, such as `{ escalate_after = 2 }`.
        for key in value["properties"].as_object().into_iter().flat_map(|keys| keys.keys()) {
            words.push((format!("{{ {key} = N }}"), text(value)));
        }
        let listed = value["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.extend(listed.map(|word| (word.to_owned(), String::new())));
        for choices in ["allOf", "anyOf", "oneOf"] {
            for choice in value[choices].as_array().into_iter().flatten() {
                self.visit(choice, form, tables, words);
            }
        }
        for (key, form) in [("additionalProperties", format!("{form}.NAME")), ("items", "[]".to_owned())] {
            if value[key].is_object() {
                self.visit(&value[key], &form, tables, words);
            }
        }
    }
}

/// The keys of a table, those of its alternatives included.
fn members(table: &Value) -> Vec<(&String, &Value)> {
    let alternatives = ["oneOf", "anyOf"].map(|choices| table[choices].as_array().into_iter().flatten());
    let tables = [table].into_iter().chain(alternatives.into_iter().flatten());
    let keys = tables.filter_map(|table| table["properties"].as_object()).flatten();
    keys.filter(|(_, property)| property["description"].is_string()).collect()
}

/// The description as one line, without links to Rust items.
fn text(value: &Value) -> String {
    let description = value["description"].as_str().unwrap_or_default();
    let mut line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some((before, rest)) = line.split_once("[`") {
        let Some((name, rest)) = rest.split_once("`]") else { break };
        let rest = rest.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.1)).unwrap_or(rest);
        line = format!("{before}`{name}`{rest}");
    }
    line
}

#[test]
fn the_defaults_of_the_limits_are_those_of_the_code() {
    let code = serde_json::to_value(Limits { requested_calls: 0, ..Limits::default() }).unwrap();
    let schema = loop_domain::schema();
    let mut compared = 0;
    for (key, property) in members(&schema["definitions"]["Limits"]) {
        let line = text(property);
        let (_, default) = line.split_once("Default: ").expect(key);
        let default: String =
            default.chars().filter(|c| *c != ',').take_while(|c| !" .".contains(*c)).collect();
        let of_code = match &**key {
            "requested_calls" => Limits::default().requested_calls.into(),
            "depth" => Limits::default().depth.into(),
            "messages" => Limits::agent().messages.into(),
            "cost_usd" | "cost_mode" => continue,
            key => code[key].clone(),
        };
        match of_code {
            Value::Null => assert_eq!(default, "no", "limits.{key}: {line}"),
            number => assert_eq!(default, number.to_string(), "limits.{key}: {line}"),
        }
        compared += 1;
    }
    assert!(compared > 14, "{compared}");
    assert_eq!(Limits::default().cost.unwrap().0, 100_000_000_000, "the default of `cost_usd` is 0.10");
}
