//! Folds the root of a schema into one object: no provider takes alternatives there.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::has_kind;
use super::schema::{Omitted, SchemaFit, require, short, size};

/// The properties of an object and of its alternatives.
#[derive(Debug, Default)]
struct Merged {
    /// What is said of each property, in the order in which they are named.
    properties: Map<String, Value>,
    /// The schemas of each property as text, by its name.
    known: BTreeSet<(String, String)>,
    required: Vec<String>,
    /// The alternatives, in words.
    alternatives: Vec<String>,
}

impl<'a> SchemaFit<'a> {
    /// The whole schema.
    ///
    /// # Errors
    /// It is for no object, or too large.
    pub(super) fn root(&mut self) -> Result<Value, Omitted> {
        let nothing = Map::new();
        let whole: &'a Value = self.whole;
        let Some(members) = whole.as_object() else { return self.finished(nothing, Merged::default()) };
        let kept = members.iter().filter(|(key, _)| !FOLDED.contains(&key.as_str()));
        let kept = self.members(kept, 0)?;
        let mut folded = Merged::default();
        if !self.fold(whole, 0, &mut folded)? {
            return Err("its parameters are not an object");
        }
        self.finished(kept, folded)
    }

    fn finished(&mut self, kept: Map<String, Value>, folded: Merged) -> Result<Value, Omitted> {
        let mut root = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        if let Some(words) = folded.words() {
            self.change("the alternatives at the root are folded into one object");
            let stated = kept.get("description").and_then(Value::as_str).unwrap_or_default();
            let space = if stated.is_empty() { "" } else { " " };
            root.insert("description".to_owned(), format!("{stated}{space}{words}").into());
        }
        for (key, value) in kept {
            root.entry(key).or_insert(value);
        }
        let several = |mut schemas: Value| match schemas.as_array_mut() {
            Some(all) if all.len() == 1 => all.pop().unwrap_or_default(),
            _ => merged(&schemas).unwrap_or_else(|| json!({"anyOf": schemas})),
        };
        let properties: Map<String, Value> =
            folded.properties.into_iter().map(|(name, schemas)| (name, several(schemas))).collect();
        root.insert("properties".to_owned(), properties.into());
        require(folded.required.iter().map(String::as_str), &mut root);
        let mut root = self.completed(root);
        let definitions = self.definitions()?;
        if !definitions.is_empty() {
            root.insert("$defs".to_owned(), definitions.into());
        }
        Ok(root.into())
    }

    /// Adds a schema at the root, with what it refers to. Whether it is for objects.
    fn fold(&mut self, schema: &'a Value, depth: usize, folded: &mut Merged) -> Result<bool, Omitted> {
        self.spend(1)?;
        let Some(members) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return Ok(false) };
        let kind = members.get("type");
        if kind.is_some_and(|kind| !kind.is_null() && !is_object_word(kind)) {
            return Ok(false);
        }
        let own = members.iter().filter(|(key, _)| matches!(key.as_str(), "properties" | "required"));
        let own = self.members(own, depth)?;
        for (name, schema) in own.get("properties").and_then(Value::as_object).into_iter().flatten() {
            folded.add(name, schema);
        }
        let required = own.get("required").and_then(Value::as_array).into_iter().flatten();
        folded.required.extend(required.filter_map(Value::as_str).map(ToOwned::to_owned));
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            self.change("the `$ref` at the root is written out");
            if let Some(found) = self.target(reference)
                && !self.fold(found, depth + 1, folded)?
            {
                return Ok(false);
            }
        }
        let listed = |key: &str| members.get(key).and_then(Value::as_array).into_iter().flatten();
        for arm in listed("allOf") {
            self.change("`allOf` at the root is written out");
            // A part without properties may be a condition.
            self.fold(arm, depth + 1, folded)?;
        }
        for (key, says) in [("anyOf", "one of"), ("oneOf", "exactly one of")] {
            let mut arms: Vec<Merged> = Vec::new();
            let mut has_arms = false;
            for arm in listed(key) {
                has_arms = true;
                let mut one = Merged::default();
                if self.fold(arm, depth + 1, &mut one)? {
                    arms.push(one);
                }
            }
            if has_arms && arms.is_empty() {
                return Ok(false);
            }
            folded.choose(says, arms);
        }
        for key in ["enum", "not", "const"].into_iter().filter(|key| members.contains_key(*key)) {
            self.spend(members.get(key).map_or(0, size))?;
            self.change(format!("`{key}` at the root is left out"));
        }
        Ok(true)
    }
}

impl Merged {
    fn add(&mut self, name: &str, schema: &Value) {
        if self.known.insert((name.to_owned(), schema.to_string()))
            && let Some(schemas) = self.properties.entry(name).or_insert_with(|| json!([])).as_array_mut()
        {
            schemas.push(schema.clone());
        }
    }

    /// Adds alternatives: the properties of all, and as required what each requires.
    fn choose(&mut self, says: &str, arms: Vec<Self>) {
        let Some(first) = arms.first() else { return };
        let sets: Vec<BTreeSet<&String>> = arms.iter().map(|arm| arm.required.iter().collect()).collect();
        let of_all = first.required.iter().filter(|name| sets.iter().all(|set| set.contains(name)));
        let of_all: Vec<String> = of_all.cloned().collect();
        let mut words: Vec<String> = Vec::new();
        for arm in arms.iter().take(MAX_WORDS).map(Self::needs) {
            if !words.contains(&arm) {
                words.push(arm);
            }
        }
        if words.len() > 1 {
            self.alternatives.push(format!("Give what {says} these needs: {}.", words.join(" or ")));
        }
        self.required.extend(of_all);
        for arm in arms {
            for (name, schemas) in &arm.properties {
                schemas.as_array().into_iter().flatten().for_each(|schema| self.add(name, schema));
            }
            self.alternatives.extend(arm.alternatives);
        }
    }

    /// What one alternative needs, in words: its required properties, with the value where there is one, or those that it has.
    fn needs(&self) -> String {
        let value = |name: &String| {
            let value = self.properties.get(name)?.as_array()?.first()?.get("const")?;
            Some(format!("{name} = {}", short(&value.to_string())))
        };
        match self.required.as_slice() {
            [] => {
                let named: Vec<&str> = self.properties.keys().take(MAX_WORDS).map(String::as_str).collect();
                if named.is_empty() {
                    "no more".to_owned()
                } else {
                    format!("{} (optional)", named.join(", "))
                }
            }
            all => {
                let named =
                    all.iter().take(MAX_WORDS).map(|name| value(name).unwrap_or_else(|| name.clone()));
                named.collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn words(&self) -> Option<String> {
        let some: Vec<&str> = self.alternatives.iter().take(MAX_WORDS).map(String::as_str).collect();
        (!some.is_empty()).then(|| some.join(" "))
    }
}

/// One schema for several that each name some values.
fn merged(schemas: &Value) -> Option<Value> {
    let mut values: Vec<Value> = Vec::new();
    let mut known = BTreeSet::new();
    let mut kind = None;
    for schema in schemas.as_array()? {
        let members = schema.as_object()?;
        let is_value = |key: &str| matches!(key, "const" | "enum" | "type" | "title" | "description");
        if !members.keys().all(|key| is_value(key)) {
            return None;
        }
        let given = match (members.get("const"), members.get("enum")) {
            (Some(one), None) => std::slice::from_ref(one),
            (None, Some(Value::Array(all))) => all,
            _ => return None,
        };
        values.extend(given.iter().filter(|value| known.insert(value.to_string())).cloned());
        let stated = members.get("type");
        if *kind.get_or_insert(stated) != stated {
            return None;
        }
    }
    let mut merged = Map::new();
    merged.extend(kind.flatten().map(|kind| ("type".to_owned(), kind.clone())));
    merged.insert("enum".to_owned(), values.into());
    Some(merged.into())
}

fn is_object_word(kind: &Value) -> bool {
    ["object", "Object", "OBJECT", "dict", "map"].iter().any(|word| has_kind(kind, word))
}

/// Keywords of the root that are folded into one object, or that no provider takes there.
const FOLDED: [&str; 10] =
    ["type", "properties", "required", "$ref", "anyOf", "oneOf", "allOf", "enum", "not", "const"];
/// How deep alternatives may hold alternatives.
const MAX_DEPTH: usize = 16;
/// How many alternatives, and names of each, are said in words.
const MAX_WORDS: usize = 12;
