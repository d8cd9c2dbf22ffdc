//! Names of generated tools and parameters.

use std::collections::BTreeSet;

use crate::openapi::document::{Method, Operation};

/// The most characters of a tool's name. Some providers set this limit.
const TOOL_MAX: usize = 60;
/// The most characters of a parameter's name, without a number that makes it unique.
const PARAMETER_MAX: usize = 50;
/// Prefixes of names of operations that only read.
const READS: [&str; 8] = ["fetch", "get", "list", "find", "search", "read", "query", "show"];
/// A name that placeholders reserve.
const CALL_KEY: &str = "call_key";

/// The name of an operation's tool, from its id, or else from method and path. It is not in `taken`.
pub(crate) fn tool(operation: &Operation<'_>, taken: &mut BTreeSet<String>) -> String {
    let own = operation.id().map(snake).filter(|name| name.chars().any(|c| c.is_ascii_alphanumeric()));
    let is_own = own.is_some();
    let name = own.unwrap_or_else(|| {
        let words = operation.path.split('/').filter(|segment| !segment.is_empty());
        let words: Vec<String> = words
            .map(|segment| match segment.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
                Some(parameter) => format!("by_{}", snake(parameter)),
                None => snake(segment),
            })
            .filter(|word| !word.is_empty())
            .collect();
        words.join("_")
    });
    let first = name.split('_').next().unwrap_or_default().to_owned();
    let is_read = operation.method == Method::Get;
    let name = match (is_read, READS.contains(&&*first)) {
        (true, true) if first == "get" => format!("fetch{}", name.trim_start_matches("get")),
        (true, true) => name,
        (true, false) => format!("fetch_{name}"),
        // What changes something must not be called as if it did not.
        (false, true) => format!("{}_{name}", operation.method.key()),
        (false, false) if is_own => name,
        (false, false) => format!("{}_{name}", operation.method.key()),
    };
    unique(begun(&cut(&name, TOOL_MAX)), taken)
}

/// The name of a parameter: as in the API if it is valid, else made valid. It is not in `taken`.
pub(crate) fn parameter(name: &str, taken: &mut BTreeSet<String>) -> String {
    let is_plain = name.len() <= PARAMETER_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let plain = if is_plain { name.to_owned() } else { begun(&cut(&snake(name), PARAMETER_MAX)) };
    let plain = if plain == CALL_KEY { format!("the_{plain}") } else { plain };
    unique(plain, taken)
}

/// A part of a variable's name: capital letters, digits and `_`.
pub(crate) fn variable_part(text: &str, max: usize) -> String {
    cut(&snake(text), max).to_ascii_uppercase()
}

/// A name in small letters, with `_` between its words.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut before = ' ';
    let mut rest = name.chars().take(200).peekable();
    while let Some(c) = rest.next() {
        let ends_capitals = before.is_ascii_uppercase() && rest.peek().is_some_and(char::is_ascii_lowercase);
        let begins_word = before.is_ascii_lowercase() || before.is_ascii_digit() || ends_capitals;
        if c.is_ascii_uppercase() && begins_word {
            snake.push('_');
        }
        if c.is_ascii_alphanumeric() {
            snake.push(c.to_ascii_lowercase());
        } else if !snake.ends_with('_') {
            snake.push('_');
        }
        before = c;
    }
    snake.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

fn cut(name: &str, max: usize) -> String {
    name.chars().take(max).collect::<String>().trim_end_matches('_').to_owned()
}

/// The name, with a letter at its beginning.
fn begun(name: &str) -> String {
    match name.chars().next() {
        None => "x".to_owned(),
        Some(c) if c.is_ascii_alphabetic() => name.to_owned(),
        Some(_) => format!("x_{name}"),
    }
}

fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 2_u32;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}_{number}");
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(method: Method, path: &str, id: Option<&str>) -> String {
        let (item, node) = (json!({}), id.map_or_else(|| json!({}), |id| json!({ "operationId": id })));
        tool(&Operation { method, path, item: &item, node: &node }, &mut BTreeSet::new())
    }

    #[test]
    fn tools_that_fetch_are_named_after_what_they_fetch() {
        // S0-78
        use Method::{Delete, Get, Post};
        for (method, path, id, expected) in [
            (Get, "/pets", Some("listPets"), "list_pets"),
            (Get, "/pets/{petId}", Some("getPetById"), "fetch_pet_by_id"),
            (Get, "/repos", Some("issues/list-for-repo"), "fetch_issues_list_for_repo"),
            (Get, "/pods", Some("listCoreV1NamespacedPod"), "list_core_v1_namespaced_pod"),
            (Get, "/x", Some("getHTTPServerURL"), "fetch_http_server_url"),
            (Get, "/pets/{petId}/toys", None, "fetch_pets_by_pet_id_toys"),
            (Get, "/", None, "fetch"),
            (Get, "/", Some("\u{1F600}"), "fetch"),
            (Post, "/pets", None, "post_pets"),
            (Post, "/pets", Some("createPet"), "create_pet"),
            (Delete, "/pets", Some("getPets"), "delete_get_pets"),
            (Post, "/x", Some("2fa"), "x_2fa"),
        ] {
            assert_eq!(named(method, path, id).trim_end_matches('_'), expected, "{id:?}");
        }
        assert!(named(Get, "/", Some(&"x".repeat(500))).len() <= TOOL_MAX);
    }

    #[test]
    fn names_are_unique_and_cannot_mean_anything_else() {
        // K10
        let mut taken = BTreeSet::new();
        for (name, expected) in [
            ("petId", "petId"),
            ("petId", "petId_2"),
            ("page[size]", "page_size"),
            ("scope.account", "scope_account"),
            ("call_key", "the_call_key"),
            ("X-Request-ID", "x_request_id"),
            ("", "x"),
            ("\u{0}", "x_2"),
            ("7days", "x_7days"),
        ] {
            assert_eq!(parameter(name, &mut taken), expected);
        }
    }
}
