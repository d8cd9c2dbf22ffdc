//! Where the values of a call came from: whether an authorised source gave each, and where in the run it is found.

use loop_core::Run;
use loop_core::policy::{RunSources, SoughtValue, Sources};
use loop_core::run::PersonRequest;
use loop_core::types::EvidenceId;
use maud::{Markup, html};
use serde_json::Value;

use crate::pages::runs::encoded;
use crate::pages::text::{cut, t};

/// How many values are traced, how many places of each are named, and bytes of a value that are shown again.
const MAX_VALUES: usize = 256;
const MAX_PLACES: usize = 6;
const MAX_VALUE: usize = 120;

/// A row of the table of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueOrigin {
    Traced(TracedValue),
    /// So many further values are not traced.
    LeftOut(usize),
}

/// A value of a call, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracedValue {
    /// Its JSON pointer within the parameters.
    pointer: String,
    value: String,
    /// Whether the work item, a person or a trusted tool gave exactly this value before the model used it.
    is_given: bool,
    /// Whether the value says whom the call reaches.
    is_authority: bool,
    places: Vec<Found>,
}

/// A place in the run that holds a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Scope,
    Item { is_untrusted: bool },
    Instruction(usize),
    Evidence { id: EvidenceId, tool: String, is_untrusted: bool },
}

/// The values of a call with their origins.
pub(super) fn of(run: &Run, requested: &PersonRequest) -> Vec<ValueOrigin> {
    let Ok(parameters) = requested.parameters.value() else { return Vec::new() };
    let mut leaves = Vec::new();
    collect(parameters, String::new(), &mut leaves);
    let left_out = leaves.len().saturating_sub(MAX_VALUES);
    leaves.truncate(MAX_VALUES);
    let started = run.started();
    let history = started.history.as_ref();
    let sources = RunSources {
        spec: run.spec(),
        item: &started.item,
        evidence: run.evidence(),
        instructions: run.instructions(),
        requested_before: history.map_or(&[][..], |history| &history.requested),
        user_texts: history.map_or(&[][..], |history| &history.user_texts),
    };
    let Some(tool) = run.spec().tool(&requested.tool) else { return Vec::new() };
    let sought: Vec<_> = leaves.iter().map(|(path, value)| SoughtValue::of(tool, path, value)).collect();
    let given = sources.hold(&sought);
    let authority = tool.policy.authority.as_slice();
    let is_authority = |pointer: &str| {
        authority.iter().any(|it| {
            let (mut own, mut of) = (pointer.split('/'), it.split('/'));
            of.all(|step| own.next().is_some_and(|own| step == "*" || step == own))
        })
    };
    let traced = leaves.iter().zip(given).map(|((pointer, value), source)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        ValueOrigin::Traced(TracedValue {
            is_given: source.is_some(),
            is_authority: is_authority(pointer),
            places: places(run, text.trim()),
            value: text,
            pointer: pointer.clone(),
        })
    });
    traced.chain((left_out > 0).then_some(ValueOrigin::LeftOut(left_out))).collect()
}

fn collect<'v>(value: &'v Value, pointer: String, leaves: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => leaves.push((pointer, value)),
        Value::Array(elements) => {
            for (n, element) in elements.iter().enumerate() {
                collect(element, format!("{pointer}/{n}"), leaves);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(member, format!("{pointer}/{name}"), leaves);
            }
        }
    }
}

fn places(run: &Run, value: &str) -> Vec<Found> {
    if value.is_empty() {
        return Vec::new();
    }
    let item = &run.started().item;
    let scope = &item.scope;
    let parts = [&scope.account, &scope.account_name, &scope.asset, &scope.item, &scope.person];
    let mut found = Vec::new();
    if parts.into_iter().flatten().any(|part| **part == *value) {
        found.push(Found::Scope);
    }
    if [&item.id, &item.title, &item.full].into_iter().any(|text| holds(text, value)) {
        found.push(Found::Item { is_untrusted: run.spec().gate.item_untrusted });
    }
    let instructions = run.instructions().iter().enumerate();
    found.extend(
        instructions.filter(|(_, it)| holds(&it.text, value)).map(|(n, _)| Found::Instruction(n + 1)),
    );
    for evidence in run.evidence() {
        let observation = &evidence.observation;
        if holds(&observation.data, value) || holds(&observation.markdown, value) {
            let policy = run.spec().tool(&evidence.tool).map(|tool| &tool.policy);
            found.push(Found::Evidence {
                id: evidence.id,
                tool: evidence.tool.to_string(),
                is_untrusted: policy.is_none_or(|policy| policy.returns_untrusted),
            });
        }
    }
    found
}

/// Whether a text holds a value as a word of its own.
fn holds(text: &str, value: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(value).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + value.len()..).and_then(|text| text.chars().next());
        let (first, last) = (value.chars().next(), value.chars().next_back());
        !(is_word(before) && is_word(first) || is_word(after) && is_word(last))
    })
}

/// The values with their origins.
pub(super) fn table(origins: &[ValueOrigin], run: &str) -> Markup {
    html! {
        @if !origins.is_empty() {
            h3 { "Where each value came from" }
            div.wide tabindex="0" role="region" aria-label="Where each value came from" {
                table.stack {
                    thead { tr { th scope="col" { "parameter" } th scope="col" { "value" } th scope="col" { "given by an authorised source" } th scope="col" { "found in" } } }
                    tbody {
                        @for row in origins {
                            @match row {
                                ValueOrigin::Traced(it) => { tr {
                                    th scope="row" { code { (t(&it.pointer)) } @if it.is_authority { " " span.pill.warn { "says whom it reaches" } } }
                                    td data-label="value" { (t(&cut(&it.value, MAX_VALUE).text)) @if it.value.len() > MAX_VALUE { "…" } }
                                    td data-label="given by an authorised source" { @if it.is_given { span.good { "yes" } } @else { strong.warn { "no" } } }
                                    td data-label="found in" { (found(&it.places, run)) }
                                } }
                                ValueOrigin::LeftOut(values) => { tr { td colspan="4" { strong.warn {
                                    (values) " more values are not traced: read them in the parameters above"
                                } } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn found(places: &[Found], run: &str) -> Markup {
    html! {
        @if places.is_empty() { span.quiet { "nowhere: the model wrote it" } }
        @for (n, place) in places.iter().take(MAX_PLACES).enumerate() {
            @if n > 0 { ", " }
            @match place {
                Found::Scope => { "the item's scope" }
                Found::Item { is_untrusted } => { "the work item" @if *is_untrusted { " (untrusted)" } }
                Found::Instruction(n) => { "instruction " (n) }
                Found::Evidence { id, tool, is_untrusted } => {
                    a href={ "/runs/" (encoded(run)) "#" (id.to_string()) } { (id.to_string()) } " " (t(tool))
                    @if *is_untrusted { " " span.pill.warn { "untrusted" } }
                }
            }
        }
        @if places.len() > MAX_PLACES { " and " (places.len() - MAX_PLACES) " more" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_traced_are_counted() {
        // K8
        let html = table(&[ValueOrigin::LeftOut(44)], "r1").into_string();
        assert!(html.contains("44 more values are not traced"), "{html}");
    }

    #[test]
    fn a_value_is_found_as_a_word_of_its_own() {
        assert!(holds("id 42, done", "42") && holds("42", "42") && holds("to: a@b.example.", "a@b.example"));
        assert!(!holds("id 142", "42") && !holds("4200", "42") && !holds("xa@b.example", "a@b.example"));
        assert!(holds("1420 and 42", "42"));
    }
}
