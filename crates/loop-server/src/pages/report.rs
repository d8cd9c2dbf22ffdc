//! A page of titled lines in a file: what `loopgate report --html` writes.

use maud::html;

use super::shell::{self, PagePlace};
use super::text::t;

/// A part of a report: what it answers, and its entries, each with the lines below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportPart {
    /// What it answers, for example `Why it stopped`.
    pub title: &'static str,
    /// The entries, each with its lines. A part without any is shown with its title alone.
    pub entries: Vec<(String, Vec<String>)>,
}

/// The page of a report: it loads nothing, and every text in it is escaped.
pub fn report(title: &str, parts: &[ReportPart]) -> String {
    let content = html! {
        h1 { (t(title)) }
        @for ReportPart { title, entries } in parts {
            section.part {
                h2 { (title) }
                @for (entry, lines) in entries {
                    p { strong { (t(entry)) } }
                    @if !lines.is_empty() { ul { @for line in lines { li { (t(line)) } } } }
                }
            }
        }
    };
    shell::page(PagePlace::File, title, &content)
}
