//! The OpenAPI document, generated from the table of routes.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::table::{self, Answer, OF_CALLERS, Route};
use crate::problem::HttpProblem;

/// The OpenAPI 3.1 document of the API.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    let problem = generator.subschema_for::<HttpProblem>().to_value();
    for route in table::routes() {
        let mut responses = Map::new();
        for Answer { status, describe, content } in &route.answers {
            let content: Map<String, Value> = content
                .iter()
                .map(|(kind, schema)| ((*kind).to_owned(), json!({ "schema": schema(&mut generator) })))
                .collect();
            let mut response = json!({ "description": describe });
            if !content.is_empty() {
                insert(&mut response, "content", Value::Object(content));
            }
            responses.insert(status.to_string(), response);
        }
        for status in problems(&route) {
            let content = json!({ "application/problem+json": { "schema": problem } });
            let response = json!({ "description": describe(status), "content": content });
            responses.entry(status.to_string()).or_insert(response);
        }
        let parameters: Vec<Value> = route
            .parameters
            .iter()
            .map(|parameter| {
                json!({
                    "name": parameter.name,
                    "in": parameter.within,
                    "description": parameter.describe,
                    "required": parameter.within == "path",
                    "schema": (parameter.schema)(&mut generator),
                })
            })
            .collect();
        let mut operation = json!({ "operationId": route.id, "summary": route.summary });
        if !parameters.is_empty() {
            insert(&mut operation, "parameters", Value::Array(parameters));
        }
        if let Some(body) = route.body {
            let content = json!({ "application/json": { "schema": body(&mut generator) } });
            insert(&mut operation, "requestBody", json!({ "required": true, "content": content }));
        }
        insert(&mut operation, "responses", Value::Object(responses));
        if !route.has_caller() {
            insert(&mut operation, "security", json!([]));
        }
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        insert(methods, &route.method.to_ascii_lowercase(), operation);
    }
    let schemas = generator.take_definitions(/*apply_transforms*/ true);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Loopgate",
            "version": "1",
            "description": "Submit work items to bounded agent loops, watch the runs, decide what waits for a person, and read what each run came to.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    list_names(&mut document);
    document
}

/// Replaces alternatives that are single names by an `enum`, since code generators do not turn such alternatives into
/// an enumeration.
fn list_names(value: &mut Value) {
    if let Value::Object(members) = value
        && let Some((names, described)) = members.get("oneOf").and_then(names_of)
    {
        members.shift_remove("oneOf");
        members.insert("type".to_owned(), json!("string"));
        members.insert("enum".to_owned(), json!(names));
        let whole = members.get("description").and_then(Value::as_str).unwrap_or_default();
        members.insert("description".to_owned(), json!(format!("{whole} {described}").trim()));
    }
    // The tag of an alternative is a list of one name.
    if let Value::Object(members) = value
        && let Some(Value::String(_)) = members.get("const")
    {
        let name = members.shift_remove("const");
        members.insert("enum".to_owned(), json!([name]));
    }
    match value {
        Value::Object(members) => members.values_mut().for_each(list_names),
        Value::Array(elements) => elements.iter_mut().for_each(list_names),
        _ => {}
    }
}

/// The names in these alternatives, and their descriptions. `None`: one of them is not a single name.
fn names_of(alternatives: &Value) -> Option<(Vec<String>, String)> {
    let mut names = Vec::new();
    let mut described = Vec::new();
    for alternative in alternatives.as_array()? {
        let meaning = alternative.get("description").and_then(Value::as_str);
        // Those without a description are one list already.
        let listed = alternative.get("enum").and_then(Value::as_array);
        let own: Vec<&str> = match (alternative.get("const"), listed) {
            (Some(name), _) => vec![name.as_str()?],
            (None, Some(listed)) => listed.iter().map(Value::as_str).collect::<Option<_>>()?,
            (None, None) => return None,
        };
        if let (Some(meaning), [name]) = (meaning, own.as_slice()) {
            described.push(format!("`{name}`: {meaning}"));
        }
        names.extend(own.into_iter().map(str::to_owned));
    }
    Some((names, described.join(" ")))
}

/// The statuses of the problems that a route can return, in order.
fn problems(route: &Route) -> Vec<u16> {
    let of_callers = OF_CALLERS.into_iter().filter(|_| route.has_caller());
    let of_roles = [403].into_iter().filter(|_| route.has_role());
    let mut problems: Vec<u16> = route.problems.iter().copied().chain(of_callers).chain(of_roles).collect();
    problems.sort_unstable();
    problems
}

fn describe(status: u16) -> &'static str {
    match status {
        400 => "The body, the query or a header cannot be read.",
        401 => "The request names no caller.",
        403 => "The caller does not have the role, or another caller submitted the run.",
        404 => "There is no such thing for this caller.",
        409 => "The run is not in a state for this.",
        413 => "The body is too large.",
        422 => "The request can be read and is wrong.",
        429 => {
            "There is too much to do, or too many requests had a wrong token; `Retry-After` says when to send it again."
        }
        _ => {
            "The server is ending, or its journal is not available; `Retry-After` says when to send it again."
        }
    }
}

fn insert(value: &mut Value, key: &str, member: Value) {
    if let Value::Object(object) = value {
        object.insert(key.to_owned(), member);
    }
}
