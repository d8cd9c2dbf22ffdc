//! The form fields of a work item: one for each property of the domain's item schema, or a title and a text.

use loop_core::WorkItem;
use loop_core::types::is_clean;
use loop_domain::{Domain, ItemSchema};
use maud::{Markup, html};
use serde_json::{Map, Number, Value, json};

use crate::pages::text::t;

/// A field, its content, and its error.
#[derive(Clone, Debug)]
pub(in crate::pages) struct Field {
    /// The property, or `title` or `text` without a schema.
    name: String,
    label: String,
    hint: String,
    kind: FieldKind,
    is_required: bool,
    value: String,
    error: Option<String>,
}

/// The kind of input.
#[derive(Clone, Debug)]
enum FieldKind {
    Line,
    Lines,
    Integer,
    Number,
    /// One of these values.
    Choice(Vec<Value>),
    /// A JSON text.
    Json,
}

/// The fields of a domain's items, with defaults only.
pub(in crate::pages) fn fields(domain: &Domain) -> Vec<Field> {
    match domain.item_schema() {
        Some(schema) => schema
            .properties()
            .map(|(name, property)| Field::of(name, property, schema.requires(name)))
            .collect(),
        None => {
            let text = "Markdown, or a JSON object.";
            let text = json!({"type": "string", "title": "Text", "description": text, "maxLength": u32::MAX});
            let title = "In one line. Without it, the first heading or line of the text is the title.";
            let title = json!({"type": "string", "title": "Title", "description": title});
            vec![Field::of("title", &title, false), Field::of("text", &text, true)]
        }
    }
}

/// Fills the fields from a recorded item. False: it does not fit them.
pub(in crate::pages) fn fill(fields: &mut [Field], domain: &Domain, item: &WorkItem) -> bool {
    match (domain.item_json(item), domain.item_schema()) {
        (Some(json), Some(_)) => {
            for field in fields {
                field.value =
                    json.get(&field.name).map(|value| spelled(&field.kind.text(value))).unwrap_or_default();
            }
            true
        }
        (None, Some(_)) => false,
        (json, None) => {
            let text = spelled(&json.map_or_else(|| item.full.to_string(), |json| format!("{json:#}")));
            fields
                .iter_mut()
                .filter(|field| field.name == "text")
                .for_each(|field| field.value.clone_from(&text));
            true
        }
    }
}

/// A recorded text with invisible characters spelled out, so that a person sees everything that is sent again.
fn spelled(text: &str) -> String {
    let shown = |c| if is_clean(c) { c.to_string() } else { format!("[U+{:04X}]", u32::from(c)) };
    text.chars().map(shown).collect()
}

/// Takes the submitted values, by the names of the form.
pub(in crate::pages) fn take(fields: &mut [Field], given: impl Fn(&str) -> Option<String>) {
    for field in fields {
        let value = given(&field.form_name()).unwrap_or_default();
        field.value = value.replace("\r\n", "\n");
    }
}

/// The work item in the fields as a submission. `None`: something is wrong, and its field or these lines say what.
pub(in crate::pages) fn item(
    fields: &mut [Field],
    schema: Option<&ItemSchema>,
    wrong: &mut Vec<String>,
) -> Option<String> {
    let Some(schema) = schema else { return text_item(fields) };
    let mut object = Map::new();
    for field in fields.iter_mut() {
        match field.parsed() {
            Ok(Some(value)) => _ = object.insert(field.name.clone(), value),
            Ok(None) if field.is_required => field.error = Some("it is required; fill it in".to_owned()),
            Ok(None) => {}
            Err(error) => field.error = Some(error),
        }
    }
    let object = Value::Object(object);
    if fields.iter().any(|field| field.error.is_some()) {
        return None;
    }
    for (pointer, text) in schema.each_violation(&object) {
        let (name, below) =
            pointer.strip_prefix('/').map_or(("", ""), |it| it.split_once('/').unwrap_or((it, "")));
        let name = name.replace("~1", "/").replace("~0", "~");
        let text = if below.is_empty() { text } else { format!("{below}: {text}") };
        match fields.iter_mut().find(|field| field.name == name) {
            Some(field) => {
                field.error =
                    Some(field.error.take().map_or(text.clone(), |error| format!("{error}; {text}")))
            }
            None => wrong.push(format!("{pointer}: {text}").trim_start_matches(": ").to_owned()),
        }
    }
    let is_right = wrong.is_empty() && fields.iter().all(|field| field.error.is_none());
    is_right.then(|| object.to_string())
}

/// The item of a domain without a schema.
fn text_item(fields: &mut [Field]) -> Option<String> {
    let [title, text] = fields else { return None };
    let (heading, body) = (title.value.trim(), text.value.trim());
    if body.is_empty() {
        text.error = Some("write what the run works on, or choose a file".to_owned());
    } else if body.starts_with('{') && !heading.is_empty() {
        title.error = Some("a JSON object has its own title; leave this empty".to_owned());
    } else if heading.is_empty() {
        return Some(body.to_owned());
    } else {
        return Some(format!("# {heading}\n\n{body}"));
    }
    None
}

impl FieldKind {
    fn of(schema: &Value) -> Self {
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return Self::Choice(values.clone());
        }
        let kinds = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => Vec::from_iter(kind.and_then(Value::as_str)),
        };
        // What may be null can be left out.
        let mut kinds = kinds.into_iter().filter(|kind| *kind != "null");
        match (kinds.next(), kinds.next()) {
            (Some("string"), None) => {
                let is_text = schema
                    .get("contentMediaType")
                    .and_then(Value::as_str)
                    .is_some_and(|kind| kind.starts_with("text/"));
                let is_long =
                    schema.get("maxLength").and_then(Value::as_u64).is_some_and(|max| max > MAX_LINE);
                if is_text || is_long { Self::Lines } else { Self::Line }
            }
            (Some("integer"), None) => Self::Integer,
            (Some("number"), None) => Self::Number,
            (Some("boolean"), None) => Self::Choice(vec![Value::Bool(true), Value::Bool(false)]),
            _ => Self::Json,
        }
    }

    /// A value as a person types it.
    fn text(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Json, value) => format!("{value:#}"),
            (_, Value::Null) => String::new(),
            (_, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        }
    }
}

/// The most characters of a text with a single-line input.
const MAX_LINE: u64 = 200;

impl Field {
    fn of(name: &str, property: &Value, is_required: bool) -> Self {
        let text = |key: &str| property.get(key).and_then(Value::as_str);
        let kind = FieldKind::of(property);
        Self {
            name: name.to_owned(),
            label: text("title").unwrap_or(name).to_owned(),
            hint: text("description").unwrap_or_default().to_owned(),
            is_required,
            value: property.get("default").map(|value| kind.text(value)).unwrap_or_default(),
            error: None,
            kind,
        }
    }

    fn form_name(&self) -> String {
        format!("item.{}", self.name)
    }

    /// The typed value. `None`: the field is empty.
    fn parsed(&self) -> Result<Option<Value>, String> {
        let typed = self.value.trim();
        if typed.is_empty() {
            return Ok(None);
        }
        let number = || serde_json::from_str::<Number>(typed).ok();
        let value = match &self.kind {
            FieldKind::Line | FieldKind::Lines => Value::from(typed),
            FieldKind::Integer => {
                let number = number().filter(|number| number.is_i64() || number.is_u64());
                Value::Number(number.ok_or("it is not a whole number; write one, for example 3")?)
            }
            FieldKind::Number => {
                Value::Number(number().ok_or("it is not a number; write one, for example 2.5")?)
            }
            FieldKind::Choice(values) => {
                let value = values.iter().find(|value| self.kind.text(value) == typed);
                value.cloned().ok_or("it is none of these; choose one")?
            }
            FieldKind::Json => serde_json::from_str(typed)
                .map_err(|error| format!("it is not JSON: {error}; correct it there"))?,
        };
        Ok(Some(value))
    }

    /// The field as HTML. Its content stays unchanged, since it is sent again.
    pub(super) fn html(&self, at: usize) -> Markup {
        let Self { label, hint, kind, is_required, value, error, .. } = self;
        let id = format!("field-{at}");
        let described: Vec<String> = [
            (!hint.is_empty(), "hint"),
            (matches!(kind, FieldKind::Json), "json"),
            (error.is_some(), "error"),
        ]
        .into_iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, what)| format!("{id}-{what}"))
        .collect();
        let described = Some(described.join(" ")).filter(|ids| !ids.is_empty());
        let (name, invalid) = (self.form_name(), error.as_ref().map(|_| "true"));
        let required = is_required.then_some("true");
        let is_long = matches!(kind, FieldKind::Lines | FieldKind::Json) || value.contains('\n');
        html! {
            label for=(id) { (t(label)) @if *is_required { " " span.quiet { "(required)" } } }
            @if !hint.is_empty() { p.quiet id={ (id) "-hint" } { (t(hint)) } }
            @if matches!(kind, FieldKind::Json) { p.quiet id={ (id) "-json" } { "In JSON." } }
            @match kind {
                FieldKind::Choice(values) => {
                    select id=(id) name=(name) aria-required=[required] aria-invalid=[invalid] aria-describedby=[described] {
                        option value="" { @if *is_required { "Choose one" } @else { "Not given" } }
                        @for choice in values {
                            @let text = kind.text(choice);
                            option value=(text) selected[text == *value] {
                                @match choice { Value::Bool(true) => "yes", Value::Bool(false) => "no", _ => (t(&text)) }
                            }
                        }
                    }
                }
                _ if is_long => {
                    // A browser leaves the first line break out.
                    textarea id=(id) name=(name) rows="6" aria-required=[required] aria-invalid=[invalid] aria-describedby=[described] { "\n" (value) }
                }
                _ => {
                    @let mode = match kind { FieldKind::Integer => Some("numeric"), FieldKind::Number => Some("decimal"), _ => None };
                    input id=(id) type="text" name=(name) value=(value) inputmode=[mode] autocomplete="off" aria-required=[required]
                        aria-invalid=[invalid] aria-describedby=[described];
                }
            }
            @if let Some(error) = error { p.error id={ (id) "-error" } { (t(error)) } }
        }
    }
}
