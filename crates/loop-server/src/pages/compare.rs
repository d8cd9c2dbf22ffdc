//! The page that compares two runs: settings, decisions, document, evidence, cost and stop.

use loop_inspect::diff::{RunDiff, TextChange, ValueDiff};
use maud::{Markup, html};

use super::run::diff_html;
use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{cut, heads, t};

/// The most bytes of a value.
const MAX_VALUE: usize = 2_000;

/// The most bytes of a title.
const MAX_TITLE: usize = 120;

/// The content of the page that compares two runs.
#[derive(Clone, Debug)]
pub struct ComparePage {
    /// The requested first and second run. Empty: none yet.
    pub asked: [String; 2],
    /// The differences. `None`: nothing was requested yet, or a run cannot be read.
    pub diff: Option<RunDiff>,
    /// Why there is nothing to show. `None`: there is something, or nothing was requested.
    pub trouble: Option<String>,
    /// Runs to compare the first one with: id, and item and title. Empty: there is a second one.
    pub others: Vec<(String, String)>,
}

/// The page of two runs.
pub fn compare(page: &ComparePage) -> String {
    let [a, b] = &page.asked;
    let content = html! {
        h1 { "Compare two runs" }
        form.filters method="get" action="/compare" aria-label="Which runs" {
            div { label for="a" { "Run A" } input #a type="text" name="a" value=(t(a)) size="38" required; }
            div { label for="b" { "Run B" } input #b type="text" name="b" value=(t(b)) size="38" required; }
            div { button type="submit" { "Compare" } }
        }
        @if let Some(trouble) = &page.trouble { p.notice.bad role="alert" { (t(trouble)) } }
        @if let Some(diff) = &page.diff { (content(diff)) }
        @if !page.others.is_empty() {
            section.part {
                h2 { "Compare it with" }
                ul.links { @for (run, title) in &page.others {
                    li { a href={ "/compare?a=" (encoded(a)) "&b=" (encoded(run)) } { (t(&cut(title, MAX_TITLE).text)) } " " span.quiet { (t(run)) } }
                } }
            }
        } @else if page.diff.is_none() && page.trouble.is_none() {
            p { "Give two runs, each by its id or the beginning of it. The page of a run has a link to this page, and in the list of runs two can be selected." }
        }
    };
    shell::page(PagePlace::Server, "Compare two runs", &content)
}

fn content(diff: &RunDiff) -> Markup {
    let values: [(&str, &[ValueDiff]); 6] = [
        ("Stop", &diff.stop),
        ("Cost and usage", &diff.totals),
        ("Settings", &diff.settings),
        ("Programs, prompts and tools", &diff.versions),
        ("Work item", &diff.item),
        ("Evidence", &diff.evidence),
    ];
    html! {
        p {
            "A: " a href={ "/runs/" (encoded(&diff.a)) } { (t(&diff.a)) } ", B: "
            a href={ "/runs/" (encoded(&diff.b)) } { (t(&diff.b)) }
            ". Ids and times are not compared."
        }
        @if diff.equal { p.notice { strong { "Nothing differs." } } }
        @for (title, values) in values.iter().take(4) { (table(title, values)) }
        @if !diff.passes.is_empty() {
            section.part {
                h2 { "Decisions" }
                @for pass in &diff.passes {
                    h3 { @if pass.pass == 0 { "Before pass 1" } @else { "Pass " (pass.pass) } }
                    (rows(&format!("Pass {}", pass.pass), &pass.differences))
                }
            }
        }
        @if !diff.document.is_empty() {
            section.part {
                h2 { "Document" }
                p.quiet { "Lines with − are only in A, lines with + only in B." }
                @for TextChange { name, lines } in &diff.document { h3 { (t(name)) } (diff_html(lines)) }
            }
        }
        @for (title, values) in values.iter().skip(4) { (table(title, values)) }
        @if !diff.prompts.is_empty() {
            section.part {
                h2 { "Prompts" }
                p.quiet { "Of each call that both runs made, what the request before did not have, word by word. " del { "Struck through" } " is only in A, " ins { "underlined" } " only in B." }
                @for TextChange { name, lines } in &diff.prompts {
                    details.prompt {
                        summary { code { (t(name)) } }
                        pre.words tabindex="0" { @for piece in lines { (word_piece(piece)) } }
                    }
                }
            }
        }
    }
}

/// Words with `-`, `+` or a blank before them.
fn word_piece(piece: &str) -> Markup {
    let words = piece.get(1..).unwrap_or_default();
    match piece.as_bytes().first() {
        Some(b'-') => html! { del { span.sr { "[only in A: " } (t(words)) span.sr { "]" } } },
        Some(b'+') => html! { ins { span.sr { "[only in B: " } (t(words)) span.sr { "]" } } },
        _ => html! { (t(words)) },
    }
}

fn table(title: &str, values: &[ValueDiff]) -> Markup {
    html! {
        @if !values.is_empty() { section.part { h2 { (title) } (rows(title, values)) } }
    }
}

fn rows(title: &str, values: &[ValueDiff]) -> Markup {
    let shown = |value: &Option<String>| value.as_deref().map(|value| cut(value, MAX_VALUE).text);
    html! {
        div.wide tabindex="0" role="region" aria-label={ "What differs: " (title) } {
            table.stack.texts {
                (heads(&["what", "A", "B"]))
                tbody {
                    @for value in values {
                        tr {
                            th scope="row" { (t(&cut(&value.name, MAX_VALUE).text)) }
                            @for (name, side) in [("A", &value.a), ("B", &value.b)] {
                                td data-label=(name) { @match shown(side) { Some(text) => { (t(&text)) }, None => { span.quiet { "none" } } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
