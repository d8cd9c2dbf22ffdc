//! Converts a JSON Schema of a document to the type of a parameter, as far as parameters have such types.

use loop_core::spec::ArgSpec;
use loop_tools::schema::SchemaCheck;
use serde_json::{Map, Number, Value, json};

use crate::openapi::document::{Document, Gap};
use crate::openapi::text::line;

/// How deeply schemas are followed.
const DEPTH_MAX: usize = 12;
/// The most values of an enumeration, and the most characters of them all.
const ENUM_MAX: usize = 100;
const ENUM_CHARS_MAX: usize = 2_000;
/// The most characters of an example or a default.
const EXAMPLE_CHARS: usize = 100;
/// The most examples.
const EXAMPLES_MAX: usize = 2;

/// Types of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    Array,
}

/// The type and the limits of a parameter, in terms of a domain file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParamType {
    pub(crate) kind: Kind,
    pub(crate) one_of: Option<Vec<Value>>,
    pub(crate) minimum: Option<Number>,
    pub(crate) maximum: Option<Number>,
    pub(crate) min_length: Option<u32>,
    pub(crate) max_length: Option<u32>,
    pub(crate) min_items: Option<u32>,
    pub(crate) max_items: Option<u32>,
    pub(crate) items: Option<Box<ParamType>>,
    pub(crate) examples: Vec<Value>,
    pub(crate) default: Option<Value>,
    pub(crate) description: String,
    /// The format, for example `date-time`. Empty: none.
    pub(crate) format: String,
    /// What the schema says and the parameter cannot, in words for a comment.
    pub(crate) left_out: Vec<&'static str>,
}

/// A schema merged with those that it refers to.
#[derive(Debug, Default)]
pub(crate) struct MergedSchema<'a> {
    kinds: Vec<&'a str>,
    one_of: Option<Vec<&'a Value>>,
    keys: Map<String, Value>,
    pub(crate) properties: Vec<(&'a str, &'a Value)>,
    pub(crate) required: Vec<&'a str>,
    items: Option<&'a Value>,
    /// The alternatives of `oneOf` and `anyOf`, if there are several.
    variants: Vec<&'a Value>,
    /// Whether it is `readOnly`: only responses have it.
    is_read_only: bool,
}

/// Keys that are taken from the first schema that has them.
const KEYS: [&str; 14] = [
    "default",
    "description",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::String, Self::Integer, Self::Number, Self::Boolean, Self::Array]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    fn of_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(_) => Some(Self::String),
            Value::Bool(_) => Some(Self::Boolean),
            Value::Number(number) if number.is_i64() || number.is_u64() => Some(Self::Integer),
            Value::Number(_) => Some(Self::Number),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl ParamType {
    /// A text of any kind.
    pub(crate) fn text() -> Self {
        Self::of(Kind::String)
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            one_of: None,
            minimum: None,
            maximum: None,
            min_length: None,
            max_length: None,
            min_items: None,
            max_items: None,
            items: None,
            examples: Vec::new(),
            default: None,
            description: String::new(),
            format: String::new(),
            left_out: Vec::new(),
        }
    }

    /// The type that a schema describes. Without a type, it is a text if `is_text` says that it is sent as one.
    ///
    /// # Errors
    /// A parameter has no such type.
    pub(crate) fn read(document: &Document, schema: &Value, is_text: bool) -> Result<Self, Gap> {
        Self::within(document, schema, is_text, 0)
    }

    fn within(document: &Document, schema: &Value, is_text: bool, depth: usize) -> Result<Self, Gap> {
        if depth > DEPTH_MAX {
            return Err(Gap::because("it nests too deeply"));
        }
        let merged = MergedSchema::read(document, schema)?;
        let mut plain = merged.plain(document, is_text, depth)?;
        if merged.is_read_only {
            return Err(Gap::OnlyAnswers);
        }
        merged.add_details(&mut plain);
        Ok(plain)
    }

    /// Adds an example if it is short and valid.
    pub(crate) fn add_example(&mut self, value: &Value) {
        if self.examples.len() < EXAMPLES_MAX && self.fits(value) && !self.examples.contains(value) {
            self.examples.push(value.clone());
        }
    }

    /// Whether a value is short and valid for this type.
    fn fits(&self, value: &Value) -> bool {
        let is_short = value.to_string().chars().count() <= EXAMPLE_CHARS;
        let text_is_clean = value.as_str().is_none_or(|text| line(text, EXAMPLE_CHARS) == text);
        let rebuilt = ArgSpec::from_schema(&self.schema()).rebuild(value);
        let is_taken = SchemaCheck::new(&self.schema()).is_ok_and(|schema| schema.accepts(value));
        is_short && text_is_clean && is_taken && rebuilt.is_ok_and(|rebuilt| rebuilt == *value)
    }

    fn schema(&self) -> Value {
        let mut schema = json!({ "type": self.kind.name() });
        let mut put = |key: &str, value: Option<Value>| {
            if let (Some(value), Some(members)) = (value, schema.as_object_mut()) {
                members.insert(key.to_owned(), value);
            }
        };
        put("enum", self.one_of.clone().map(Value::Array));
        put("minimum", self.minimum.clone().map(Value::from));
        put("maximum", self.maximum.clone().map(Value::from));
        put("minLength", self.min_length.map(Value::from));
        put("maxLength", self.max_length.map(Value::from));
        put("minItems", self.min_items.map(Value::from));
        put("maxItems", self.max_items.map(Value::from));
        put("items", self.items.as_deref().map(Self::schema));
        schema
    }
}

impl<'a> MergedSchema<'a> {
    /// Merges a schema with those that it refers to.
    ///
    /// # Errors
    /// A reference leads nowhere, or there are too many nodes.
    pub(crate) fn read(document: &'a Document, schema: &'a Value) -> Result<Self, Gap> {
        let mut merged = Self::default();
        merged.add(document, schema, 0)?;
        Ok(merged)
    }

    fn add(&mut self, document: &'a Document, schema: &'a Value, depth: usize) -> Result<(), Gap> {
        if depth > DEPTH_MAX {
            return Err(Gap::because("it nests too deeply"));
        }
        // In 3.1 a reference may have neighbours, for example a description.
        self.take_keys(schema);
        let schema = document.follow(schema)?;
        self.take_keys(schema);
        let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
        match schema.get("type") {
            Some(Value::String(kind)) if self.kinds.is_empty() => self.kinds.push(kind),
            Some(Value::Array(kinds)) if self.kinds.is_empty() => {
                self.kinds.extend(kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null"));
            }
            _ => {}
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array)
            && self.one_of.is_none()
        {
            self.one_of = Some(values.iter().filter(|value| !value.is_null()).collect());
        }
        if let Some(only) = schema.get("const")
            && self.one_of.is_none()
        {
            self.one_of = Some(vec![only]);
        }
        self.is_read_only |= schema.get("readOnly") == Some(&Value::Bool(true));
        self.required.extend(list("required").filter_map(Value::as_str));
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if !self.properties.iter().any(|(known, _)| known == name) {
                self.properties.push((name, property));
            }
        }
        self.items = self.items.or_else(|| schema.get("items"));
        for part in list("allOf") {
            self.add(document, part, depth + 1)?;
        }
        for key in ["oneOf", "anyOf"] {
            let mut variants = Vec::new();
            for variant in list(key) {
                if !says_nothing(document.follow(variant)?) {
                    variants.push(variant);
                }
            }
            match variants.as_slice() {
                [] => {}
                [only] => self.add(document, only, depth + 1)?,
                several => self.variants.extend(several),
            }
        }
        Ok(())
    }

    fn take_keys(&mut self, schema: &Value) {
        for key in KEYS {
            if let Some(value) = schema.get(key)
                && !self.keys.contains_key(key)
                && !value.is_object()
            {
                self.keys.insert(key.to_owned(), value.clone());
            }
        }
    }

    /// Whether it is an object.
    pub(crate) fn is_object(&self) -> bool {
        self.kinds.contains(&"object") || self.kinds.is_empty() && !self.properties.is_empty()
    }

    /// Whether the elements of the list are objects. `None`: it is not a list.
    pub(crate) fn is_list_of_objects(&self, document: &Document) -> Option<bool> {
        let is_list = self.kinds.contains(&"array") || self.kinds.is_empty();
        let items = self.items.filter(|_| is_list)?;
        Some(MergedSchema::read(document, items).is_ok_and(|items| items.is_object() || items.has_variants()))
    }

    /// Whether it has several alternatives.
    pub(crate) fn has_variants(&self) -> bool {
        !self.variants.is_empty()
    }

    fn plain(&self, document: &Document, is_text: bool, depth: usize) -> Result<ParamType, Gap> {
        if self.is_object() {
            return Err(Gap::because("it is an object"));
        }
        if !self.variants.is_empty() && self.kinds.is_empty() {
            return self.plain_of_variants(document, is_text, depth);
        }
        let mut plain = match self.kinds.as_slice() {
            [] if self.items.is_some() => ParamType::of(Kind::Array),
            [] => match self.one_of.iter().flatten().next().and_then(|value| Kind::of_value(value)) {
                Some(kind) => ParamType::of(kind),
                None if is_text || self.keys.contains_key("format") || self.keys.contains_key("pattern") => {
                    ParamType::text()
                }
                None => return Err(Gap::because("the document names no type for it")),
            },
            [only] => ParamType::of(
                Kind::of(only).ok_or_else(|| Gap::because(format!("its type is `{}`", line(only, 20))))?,
            ),
            ["integer", "number"] | ["number", "integer"] => ParamType::of(Kind::Number),
            several if several.contains(&"string") => {
                let mut plain = ParamType::text();
                plain.left_out.push("it may also have another type");
                plain
            }
            _ => return Err(Gap::because("it may have one of several types")),
        };
        if plain.kind == Kind::Array {
            let items = self.items.ok_or_else(|| Gap::because("it is a list of anything"))?;
            let items = ParamType::within(document, items, is_text, depth + 1)
                .map_err(|why| Gap::because(format!("it is a list, and of its elements: {why}")))?;
            if items.kind == Kind::Array {
                return Err(Gap::because("it is a list of lists"));
            }
            plain.items = Some(Box::new(items));
        }
        Ok(plain)
    }

    /// The type that several alternatives share, or else a text.
    fn plain_of_variants(&self, document: &Document, is_text: bool, depth: usize) -> Result<ParamType, Gap> {
        let mut all = Vec::new();
        for variant in &self.variants {
            let plain = ParamType::within(document, variant, is_text, depth + 1)
                .map_err(|_| Gap::because("it has one of several forms"))?;
            all.push(plain);
        }
        let (mut kinds, mut one_of) = (Vec::new(), Some(Vec::new()));
        for plain in &all {
            kinds.push(plain.kind);
            one_of = one_of.zip(plain.one_of.clone()).map(|(all, more)| [all, more].concat());
        }
        kinds.dedup();
        match (kinds.as_slice(), all.into_iter().next()) {
            ([kind], Some(first)) if *kind == Kind::Array => {
                Ok(ParamType { items: first.items, ..ParamType::of(Kind::Array) })
            }
            ([kind], _) => Ok(ParamType { one_of, ..ParamType::of(*kind) }),
            (kinds, _) if kinds.contains(&Kind::String) => {
                let mut plain = ParamType::text();
                plain.left_out.push("it may also have another type");
                Ok(plain)
            }
            _ => Err(Gap::because("it has one of several forms")),
        }
    }

    fn add_details(&self, plain: &mut ParamType) {
        let text = |key: &str| self.keys.get(key).and_then(Value::as_str).unwrap_or_default();
        let excludes = |key: &str| self.keys.get(key) == Some(&Value::Bool(true));
        plain.description = text("description").to_owned();
        plain.format = line(text("format"), 30);
        if !text("pattern").is_empty() {
            plain.left_out.push("its pattern");
        }
        if let Some(values) = &self.one_of {
            let values: Vec<Value> = values
                .iter()
                .filter(|value| Kind::of_value(value) == Some(plain.kind))
                .map(|it| (*it).clone())
                .collect();
            let chars: usize = values.iter().map(|value| value.to_string().len()).sum();
            let is_clean =
                |value: &Value| value.as_str().is_none_or(|text| line(text, ENUM_CHARS_MAX) == text);
            if values.is_empty() || !values.iter().all(is_clean) {
                plain.left_out.push("its values");
            } else if values.len() > ENUM_MAX || chars > ENUM_CHARS_MAX {
                plain.left_out.push("its values, which are too many");
            } else {
                plain.one_of = Some(values);
            }
        }
        if matches!(plain.kind, Kind::Integer | Kind::Number) {
            let is_whole = plain.kind == Kind::Integer;
            // Up to 3.0 a bound is excluded by a flag beside it, since 3.1 by a bound of its own.
            let bound = |key: &str, beyond: &str, step: f64| {
                let (own, excluded) = (number(self.keys.get(key)), number(self.keys.get(beyond)));
                let is_excluded = excludes(beyond) || excluded.is_some();
                let bound = excluded.or(own)?;
                let inward = if step > 0.0 { bound.ceil() } else { bound.floor() };
                Some(match (is_whole, is_excluded && inward == bound) {
                    (true, true) => (bound + step, false),
                    (true, false) => (inward, false),
                    (false, _) => (bound, is_excluded),
                })
            };
            let (low, high) =
                (bound("minimum", "exclusiveMinimum", 1.0), bound("maximum", "exclusiveMaximum", -1.0));
            if low.zip(high).is_some_and(|((low, _), (high, _))| low > high) {
                plain.left_out.push("its bounds, between which there is nothing");
            } else {
                plain.minimum = low.and_then(|(low, _)| number_of(low));
                plain.maximum = high.and_then(|(high, _)| number_of(high));
                if [low, high].into_iter().flatten().any(|(_, is_excluded)| is_excluded) {
                    plain.left_out.push("that a bound itself is not allowed");
                }
            }
        }
        let length = |key: &str| {
            self.keys.get(key).and_then(Value::as_u64).and_then(|length| u32::try_from(length).ok())
        };
        if plain.kind == Kind::Array {
            (plain.min_items, plain.max_items) = (length("minItems"), length("maxItems"));
            if plain.min_items.zip(plain.max_items).is_some_and(|(low, high)| low > high) {
                (plain.min_items, plain.max_items) = (None, None);
                plain.left_out.push("its lengths, between which there is nothing");
            }
        }
        if plain.kind == Kind::String {
            (plain.min_length, plain.max_length) = (length("minLength"), length("maxLength"));
            if plain.min_length.zip(plain.max_length).is_some_and(|(low, high)| low > high) {
                (plain.min_length, plain.max_length) = (None, None);
                plain.left_out.push("its lengths, between which there is nothing");
            }
        }
        if let Some(default) = self.keys.get("default").filter(|default| !default.is_null()) {
            if plain.fits(default) {
                plain.default = Some(default.clone());
            } else {
                plain.left_out.push("its default");
            }
        }
        let examples = self.keys.get("examples").and_then(Value::as_array);
        for example in self.keys.get("example").into_iter().chain(examples.into_iter().flatten()) {
            plain.add_example(example);
        }
    }
}

/// A bound that can be compared exactly.
fn number(value: Option<&Value>) -> Option<f64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    value.and_then(Value::as_f64).filter(|number| number.abs() <= EXACT)
}

/// A bound as a domain file writes it: an integer if it is whole.
fn number_of(bound: f64) -> Option<Number> {
    if bound.fract() == 0.0 { Some((bound as i64).into()) } else { Number::from_f64(bound) }
}

/// Whether an alternative only adds a condition, or is `null`.
fn says_nothing(schema: &Value) -> bool {
    let is_null = schema.get("type").and_then(Value::as_str) == Some("null")
        || schema.get("enum").and_then(Value::as_array).is_some_and(|all| all.iter().all(Value::is_null));
    let says = ["type", "enum", "const", "properties", "items", "allOf", "oneOf", "anyOf", "format"];
    is_null || !says.iter().any(|key| schema.get(key).is_some())
}
