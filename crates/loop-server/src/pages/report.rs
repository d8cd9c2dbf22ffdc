//! The page of one run for an auditor: what `loopgate report --html` writes.

use loop_inspect::report::ReportPart;
use maud::html;

use super::shell::{self, PagePlace};
use super::text::t;

/// The page of a report. It loads nothing, and every text in it is escaped.
pub fn report(title: &str, parts: &[ReportPart]) -> String {
    let content = html! {
        h1 { (t(title)) }
        @for part in parts {
            section.part {
                h2 { (t(&part.title)) }
                @for entry in &part.entries {
                    p { strong { (t(&entry.text)) } }
                    @if !entry.lines.is_empty() { ul { @for line in &entry.lines { li { (t(line)) } } } }
                }
            }
        }
    };
    shell::page(PagePlace::File, title, &content)
}
