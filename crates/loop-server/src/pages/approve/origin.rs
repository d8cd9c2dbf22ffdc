//! The table with the origin of each value of a call.

use loop_runtime::report::{PersonRequestReport, TracedValue, ValueOrigin, ValuePlace};
use maud::{Markup, html};

use crate::pages::runs::encoded;
use crate::pages::text::{cut, t};

/// The most bytes of a value in the table.
const MAX_VALUE: usize = 120;

/// The values of a call with their origins.
pub(super) fn table(report: &PersonRequestReport, run: &str) -> Markup {
    let left_out = report.origins_left_out;
    html! {
        @if !report.origins.is_empty() {
            h3 { "Where each value came from" }
            div.wide tabindex="0" role="region" aria-label="Where each value came from" {
                table.stack {
                    thead { tr { th scope="col" { "parameter" } th scope="col" { "value" } th scope="col" { "came from" } th scope="col" { "found in" } } }
                    tbody {
                        @for it in &report.origins { (row(it, run)) }
                        @if left_out > 0 { tr { td colspan="4" { strong.warn {
                            (left_out) " more values are not traced: read them in the parameters above"
                        } } } }
                    }
                }
            }
        }
    }
}

fn row(it: &TracedValue, run: &str) -> Markup {
    let value = it.value.as_str().map_or_else(|| it.value.to_string(), str::to_owned);
    let look = match it.origin {
        ValueOrigin::UntrustedText(_) | ValueOrigin::Model => "warn",
        ValueOrigin::User
        | ValueOrigin::Domain
        | ValueOrigin::Plan
        | ValueOrigin::Tool(_)
        | ValueOrigin::TrustedField(_) => "good",
    };
    html! {
        tr {
            th scope="row" { code { (t(&it.pointer)) } @if it.authority { " " span.pill.warn { "says whom it reaches" } } }
            td data-label="value" { (t(&cut(&value, MAX_VALUE).text)) @if value.len() > MAX_VALUE { "…" } }
            td data-label="came from" { strong.(look) { (t(&it.origin.to_string())) } }
            td data-label="found in" { (found(&it.found_in, run)) }
        }
    }
}

fn found(places: &[ValuePlace], run: &str) -> Markup {
    html! {
        @if places.is_empty() { span.quiet { "nowhere" } }
        @for (n, place) in places.iter().enumerate() {
            @if n > 0 { ", " }
            @if let ValuePlace::Evidence { evidence, .. } = place {
                a href={ "/runs/" (encoded(run)) "#" (evidence) } { (t(&place.to_string())) }
            } @else { (t(&place.to_string())) }
            @if place.is_untrusted() { " " span.pill.warn { "untrusted" } }
        }
    }
}
