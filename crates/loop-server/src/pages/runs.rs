//! The runs of a journal: what waits for people first, what they cost by day and domain, why they stopped, and a list.

use std::collections::BTreeMap;

use loop_core::PicoUsd;
use loop_runtime::report::{ListedRun, ListedState, ListedTotals};
use maud::{Markup, html};

use super::run::look_of;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, grouped, t, time};

/// How many runs are on a page.
pub const RUNS_PER_PAGE: usize = 50;
/// How many days, stop reasons and waiting runs are shown.
const MAX_DAYS: usize = 31;
const MAX_REASONS: usize = 12;
const MAX_WAITING: usize = 20;
/// How many domains have a colour of their own.
const COLOURS: usize = 5;
/// Bytes of a title that are shown.
const MAX_TITLE: usize = 120;

/// Which runs are listed. A run fits if it fits all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunsFilter {
    /// The domain's name. Empty: any.
    pub domain: String,
    /// A class of stops, a stop reason or a state, such as `waiting`. Empty: any.
    pub outcome: String,
    /// A tag. Empty: any.
    pub tag: String,
    /// A part of the run's id, the item's id or its title, in any case of letters. Empty: any.
    pub text: String,
    /// Runs that began on this day or later, as `2026-11-26` (UTC). Empty: any.
    pub since: String,
}

impl RunsFilter {
    fn fits(&self, run: &ListedRun, since: Option<u64>) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let text = self.text.to_lowercase();
        let holds = |value: &str| value.to_lowercase().contains(&text);
        is(&self.domain, &run.domain)
            && (self.outcome.is_empty()
                || self.outcome == run.outcome()
                || self.outcome == run.state.name()
                || run.reason.as_deref() == Some(self.outcome.as_str()))
            && (self.tag.is_empty() || run.tags.contains(&self.tag))
            && since.is_none_or(|since| run.started_unix_ms >= since)
            && (text.is_empty() || holds(&run.run) || holds(&run.item) || holds(&run.title))
    }

    fn since_unix_ms(&self) -> Option<u64> {
        let day: jiff::civil::Date = self.since.trim().parse().ok()?;
        let at = day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
        u64::try_from(at).ok()
    }

    /// The filter as the query of an address, without its beginning.
    fn query(&self) -> String {
        let all = [
            ("domain", &self.domain),
            ("outcome", &self.outcome),
            ("tag", &self.tag),
            ("text", &self.text),
            ("since", &self.since),
        ];
        let given = all.iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
    }
}

/// A text as a value in the query of an address.
pub(super) fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A day, and of each domain what its runs cost, in pico-dollars, and how many they are.
type Day = (String, BTreeMap<String, (u64, u64)>);

/// The runs of a journal as their page shows them.
#[derive(Clone, Debug)]
pub struct RunsPage {
    filter: RunsFilter,
    domains: Vec<String>,
    outcomes: Vec<String>,
    rows: Vec<ListedRun>,
    totals: ListedTotals,
    /// Cost and runs by day and domain, newest day first.
    days: Vec<Day>,
    reasons: Vec<(String, String, u64)>,
    waiting: Vec<ListedRun>,
    waiting_in_all: usize,
    /// The cursor of the next page. `None`: it is the last.
    next: Option<String>,
    is_first: bool,
}

impl RunsPage {
    /// What the page shows of these runs, newest first. `before` is the cursor of the page: runs that come after it in the
    /// list. One that is not a cursor begins at the newest run.
    pub fn of(all: &[ListedRun], filter: RunsFilter, before: Option<&str>) -> Self {
        let since = filter.since_unix_ms();
        let fitting: Vec<&ListedRun> = all.iter().filter(|run| filter.fits(run, since)).collect();
        let cursor = before.and_then(read_cursor);
        let is_after = |run: &&&ListedRun| {
            cursor
                .as_ref()
                .is_none_or(|(ms, id)| (run.started_unix_ms, run.run.as_str()) < (*ms, id.as_str()))
        };
        let mut rest = fitting.iter().filter(is_after);
        let rows: Vec<ListedRun> = rest.by_ref().take(RUNS_PER_PAGE).map(|run| (**run).clone()).collect();
        let next = rest.next().and(rows.last()).map(|last| format!("{}.{}", last.started_unix_ms, last.run));
        let waiting: Vec<&ListedRun> = all.iter().filter(|run| run.state == ListedState::Waiting).collect();
        let mut names: Vec<String> = all.iter().map(|run| run.domain.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let mut outcomes: Vec<String> = all.iter().map(|run| run.outcome().to_owned()).collect();
        outcomes.sort_unstable();
        outcomes.dedup();
        let owned: Vec<ListedRun> = fitting.iter().map(|run| (*run).clone()).collect();
        Self {
            domains: names,
            outcomes,
            totals: ListedTotals::of(&owned),
            days: days(&fitting),
            reasons: reasons(&fitting),
            waiting_in_all: waiting.len(),
            waiting: waiting.into_iter().take(MAX_WAITING).cloned().collect(),
            rows,
            next,
            is_first: cursor.is_none(),
            filter,
        }
    }

    /// The address of the next page. `None`: it is the last.
    pub fn next_page(&self) -> Option<String> {
        let cursor = encoded(self.next.as_deref()?);
        let query = self.filter.query();
        Some(if query.is_empty() {
            format!("/?before={cursor}")
        } else {
            format!("/?{query}&before={cursor}")
        })
    }
}

fn read_cursor(text: &str) -> Option<(u64, String)> {
    let (ms, id) = text.split_once('.')?;
    Some((ms.parse().ok()?, id.to_owned()))
}

fn days(runs: &[&ListedRun]) -> Vec<Day> {
    let mut days: BTreeMap<String, BTreeMap<String, (u64, u64)>> = BTreeMap::new();
    for run in runs {
        let day = time(run.started_unix_ms).get(..10).unwrap_or_default().to_owned();
        let (cost, count) = days.entry(day).or_default().entry(run.domain.clone()).or_default();
        *cost = cost.saturating_add(run.cost.pico_usd);
        *count += 1;
    }
    days.into_iter().rev().take(MAX_DAYS).collect()
}

/// Class or state, reason, and how many runs, the most frequent first.
fn reasons(runs: &[&ListedRun]) -> Vec<(String, String, u64)> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for run in runs {
        let reason = run.reason.clone().unwrap_or_else(|| run.state.name().to_owned());
        *counts.entry((run.outcome().to_owned(), reason)).or_default() += 1;
    }
    let mut all: Vec<_> = counts.into_iter().map(|((class, reason), count)| (class, reason, count)).collect();
    all.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
    all.truncate(MAX_REASONS);
    all
}

/// The page of the runs of a journal.
pub fn runs(page: &RunsPage) -> String {
    let content = html! {
        h1 { "Runs" }
        (page.waiting_html())
        (page.filters_html())
        p { (page.totals_html()) }
        div.two {
            section aria-labelledby="days-title" { h2 #days-title { "Cost by day and domain" } (page.days_html()) }
            section aria-labelledby="reasons-title" { h2 #reasons-title { "Why they stopped" } (page.reasons_html()) }
        }
        section aria-labelledby="list-title" { h2 #list-title { "List" } (page.list_html()) }
    };
    shell::page(PagePlace::Server, "Runs", &content)
}

impl RunsPage {
    fn waiting_html(&self) -> Markup {
        html! {
            @if !self.waiting.is_empty() {
                section.notice aria-labelledby="waiting-title" {
                    h2 #waiting-title { (counted(self.waiting_in_all as u64, "run waits", "runs wait")) " for a person" }
                    ul {
                        @for run in &self.waiting {
                            li {
                                a href={ "/runs/" (encoded(&run.run)) "/approve" } { (t(&run.item)) ": " (t(&cut(&run.title, MAX_TITLE).text)) }
                                " " span.quiet { (t(&run.domain)) ", since " (time(run.started_unix_ms)) " UTC" }
                            }
                        }
                    }
                    @if self.waiting_in_all > self.waiting.len() { p { a href="/?outcome=waiting" { "All that wait" } } }
                }
            }
        }
    }

    fn filters_html(&self) -> Markup {
        let RunsFilter { domain, outcome, tag, text, since } = &self.filter;
        html! {
            form.filters method="get" action="/" role="search" aria-label="Which runs" {
                div { label for="f-text" { "Id or title" } input #f-text type="search" name="text" value=(t(text)); }
                (choice("domain", "Domain", &self.domains, domain))
                (choice("outcome", "Outcome", &self.outcomes, outcome))
                div { label for="f-tag" { "Tag" } input #f-tag type="text" name="tag" value=(t(tag)); }
                div { label for="f-since" { "Since (UTC)" } input #f-since type="date" name="since" value=(t(since)); }
                div { button type="submit" { "Show" } }
                @if self.filter != RunsFilter::default() { div { a href="/" { "All runs" } } }
            }
        }
    }

    fn totals_html(&self) -> Markup {
        let outcomes = self.totals.by_outcome.iter();
        let outcomes: Vec<String> =
            outcomes.map(|(name, count)| format!("{} {}", grouped(*count), name.replace('_', " "))).collect();
        html! {
            strong { (counted(self.totals.runs, "run", "runs")) }
            @if !outcomes.is_empty() { ": " (t(&outcomes.join(", "))) "; cost " (super::run::cost(&self.totals.spent())) }
        }
    }

    fn days_html(&self) -> Markup {
        let cost =
            |domains: &BTreeMap<String, (u64, u64)>| domains.values().map(|(cost, _)| *cost).sum::<u64>();
        let largest = self.days.iter().map(|(_, domains)| cost(domains)).max().unwrap_or(0).max(1);
        let colour =
            |domain: &str| self.domains.iter().position(|it| it == domain).map_or(0, |at| at % COLOURS);
        html! {
            @if self.days.is_empty() { p { "There is no such run." } } @else {
                p.legend {
                    @for domain in &self.domains { span { i.{ "c-" (colour(domain)) } {} (t(domain)) } }
                }
                table.bars {
                    thead { tr { th scope="col" { "day" } th.n scope="col" { "runs" } th.n scope="col" { "cost" } th scope="col" { "by domain" } } }
                    tbody {
                        @for (day, domains) in &self.days {
                            tr {
                                th.w scope="row" { (day) }
                                td.n { (grouped(domains.values().map(|(_, runs)| runs).sum())) }
                                td.n { (PicoUsd(cost(domains)).to_string()) }
                                td.bar { (stacked(domains, largest, &colour)) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn reasons_html(&self) -> Markup {
        let largest = self.reasons.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
        html! {
            table.bars {
                thead { tr { th scope="col" { "reason" } th scope="col" { "outcome" } th.n scope="col" { "runs" } th scope="col" { "share" } } }
                tbody {
                    @for (class, reason, count) in &self.reasons {
                        tr {
                            th.w scope="row" { a href={ "/?outcome=" (encoded(reason)) } { (t(reason)) } }
                            td { span.pill.(look_of(class)) { (t(&class.replace('_', " "))) } }
                            td.n { (grouped(*count)) }
                            td.bar { (bar(&[(0, 1_000 * count / largest)], &format!("{count} runs"))) }
                        }
                    }
                }
            }
        }
    }

    fn list_html(&self) -> Markup {
        html! {
            div.wide tabindex="0" role="region" aria-label="Table of runs" {
                table {
                    thead { tr {
                        th scope="col" { "begun (UTC)" }
                        th scope="col" { "item" }
                        th scope="col" { "domain" }
                        th scope="col" { "outcome" }
                        th.n scope="col" { "events" }
                        th.n scope="col" { "cost" }
                        th scope="col" { "tags" }
                        th scope="col" { "run" }
                    } }
                    tbody { @for run in &self.rows { (row(run)) } }
                }
            }
            nav.pager aria-label="Pages of the list" {
                @if !self.is_first {
                    @let query = self.filter.query();
                    a href={ "/" @if !query.is_empty() { "?" (query) } } { "Newest" }
                }
                @if let Some(next) = self.next_page() { a rel="next" href=(next) { "Older ›" } }
            }
        }
    }
}

fn row(run: &ListedRun) -> Markup {
    html! {
        tr {
            td.w { (time(run.started_unix_ms)) }
            th scope="row" {
                a href={ "/runs/" (encoded(&run.run)) } { (t(&cut(&run.item, MAX_TITLE).text)) ": " (t(&cut(&run.title, MAX_TITLE).text)) }
            }
            td { (t(&run.domain)) }
            td {
                span.pill.(look_of(run.outcome())) { (t(&run.outcome().replace('_', " "))) }
                @if let Some(reason) = &run.reason { " " (t(reason)) }
                @if let Some(trouble) = &run.trouble { " " (t(trouble)) }
            }
            td.n { (grouped(run.entries)) }
            td.n { @match run.cost.usd { Some(_) => { (PicoUsd(run.cost.pico_usd).to_string()) }, None => { "unknown" } } }
            td { (t(&run.tags.join(", "))) }
            td.w { code { (t(run.run.get(..8).unwrap_or(&run.run))) } @if run.imported { " imported" } }
        }
    }
}

/// A choice among names, or none.
fn choice(name: &str, label: &str, names: &[String], chosen: &str) -> Markup {
    let is_other = !chosen.is_empty() && !names.iter().any(|name| name == chosen);
    html! {
        div {
            label for={ "f-" (name) } { (label) }
            select id={ "f-" (name) } name=(name) {
                option value="" selected[chosen.is_empty()] { "any" }
                @if is_other { option value=(t(chosen)) selected { (t(chosen)) } }
                @for it in names { option value=(t(it)) selected[it == chosen] { (t(it)) } }
            }
        }
    }
}

fn stacked(domains: &BTreeMap<String, (u64, u64)>, largest: u64, colour: &dyn Fn(&str) -> usize) -> Markup {
    let mut before = 0_u64;
    let mut bars = Vec::new();
    for (domain, (cost, _)) in domains {
        let end = before.saturating_add(*cost);
        let scaled = |amount: u64| (u128::from(amount) * 1_000 / u128::from(largest)) as u64;
        bars.push((domain, scaled(before), scaled(end), *cost));
        before = end;
    }
    html! {
        svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (domain, from, to, cost) in &bars {
                rect.{ "c-" (colour(domain)) } x=(from) y="0" width=(to - from) height="12" {
                    title { (t(domain)) ": " (PicoUsd(*cost).to_string()) }
                }
            }
        }
    }
}

/// A bar of a table of bars, from and to thousandths.
fn bar(parts: &[(u64, u64)], title: &str) -> Markup {
    html! {
        svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (from, to) in parts { rect.k-model x=(from) y="0" width=(to - from) height="12" { title { (title) } } }
        }
    }
}
