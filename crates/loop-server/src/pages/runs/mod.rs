//! The runs of a journal: what waits for people first, what they cost by day and domain, why they stopped, and a list.

mod tally;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

#[cfg(feature = "http")]
use loop_core::types::RunId;
use loop_core::types::{Cost, PicoUsd};
use loop_inspect::listed::{ListedRun, ListedState};
#[cfg(feature = "http")]
use loop_runtime::journal::RunLine;
#[cfg(feature = "http")]
use loop_runtime::journal::label::RunLabel;
use maud::{Markup, html};

use super::run::look_of;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, day, grouped, heads, t, time};
pub(super) use tally::{KeptRuns, RunOrder, RunTally};

/// How many runs are on a page.
pub const RUNS_PER_PAGE: usize = 50;
/// How many days, stop reasons and waiting runs are shown.
const MAX_DAYS: usize = 31;
const MAX_REASONS: usize = 12;
const MAX_WAITING: usize = 20;
/// How many domains have a colour of their own.
const COLOURS: usize = 5;
/// Characters of an id that are shown: its time to the millisecond, so that two are seldom the same.
const SHORT_ID: usize = 13;
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
    fn fits(&self, run: &ListedRun, since: Option<&str>) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let text = self.text.to_lowercase();
        let holds = |value: &str| value.to_lowercase().contains(&text);
        is(&self.domain, &run.domain)
            && (self.outcome.is_empty()
                || self.outcome == run.outcome()
                || self.outcome == run.state.name()
                || run.reason.as_deref() == Some(self.outcome.as_str()))
            && (self.tag.is_empty() || run.tags.contains(&self.tag))
            && since.is_none_or(|since| *day(run.started_unix_ms) >= *since)
            && (text.is_empty() || holds(&run.run) || holds(&run.item) || holds(&run.title))
    }

    /// Whether the kind of a run says whether it fits.
    fn is_of_kinds(&self) -> bool {
        self.tag.is_empty() && self.text.is_empty()
    }

    /// The first day. `None`: any, or it is not a day.
    fn since_day(&self) -> Option<String> {
        let day: jiff::civil::Date = self.since.trim().parse().ok()?;
        Some(day.strftime("%Y-%m-%d").to_string())
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
    runs: u64,
    by_outcome: BTreeMap<String, u64>,
    spent: Cost,
    /// Cost and runs by day and domain, newest day first.
    days: Vec<Day>,
    reasons: Vec<(String, String, u64)>,
    waiting: Vec<ListedRun>,
    waiting_in_all: usize,
    /// The cursor of the next page. `None`: it is the last.
    next: Option<String>,
    is_first: bool,
    /// Whether there are older runs, which are in no total.
    is_cut: bool,
}

impl RunsPage {
    /// What the page shows of these runs. `before` is the cursor of the page: runs that come after it in the list. One that
    /// is not a cursor begins at the newest run.
    pub fn of(all: &[ListedRun], filter: RunsFilter, before: Option<&str>) -> Self {
        let mut runs = KeptRuns::default();
        let (ended, tally) = (Arc::make_mut(&mut runs.ended), Arc::make_mut(&mut runs.tally));
        for run in all {
            if matches!(run.state, ListedState::Ended | ListedState::Damaged) {
                tally.add(run);
                ended.insert(RunOrder::of(run), Arc::new(run.clone()));
            } else {
                runs.open.push(run.clone());
            }
        }
        runs.open.sort_unstable_by_key(|run| std::cmp::Reverse(RunOrder::of(run)));
        Self::kept(&runs, &|_| true, filter, before)
    }

    /// The same of the runs that are kept, as far as the caller `sees` their domains. Without a filter by tag or text no run
    /// is read but those of the page.
    pub(super) fn kept(
        runs: &KeptRuns,
        sees: &dyn Fn(&str) -> bool,
        filter: RunsFilter,
        before: Option<&str>,
    ) -> Self {
        let since = filter.since_day();
        let since = since.as_deref();
        let fits = |run: &ListedRun| sees(&run.domain) && filter.fits(run, since);
        let open: Vec<&ListedRun> = runs.open.iter().filter(|run| sees(&run.domain)).collect();
        let mut seen = RunTally::default();
        open.iter().for_each(|run| seen.add(run));
        seen.with(&runs.tally, |kind| sees(&kind.domain));
        let mut fitting = RunTally::default();
        if filter.is_of_kinds() {
            fitting.with(&seen, |kind| kind.fits(&filter, since));
        } else {
            let all = open.iter().copied().chain(runs.ended.values().map(|run| &**run));
            all.filter(|run| fits(run)).for_each(|run| fitting.add(run));
        }
        let cursor = before.and_then(read_cursor);
        let is_after = |run: &ListedRun| {
            cursor.as_ref().is_none_or(|at| (run.started_unix_ms, run.run.as_str()) < (at.unix_ms, &*at.run))
        };
        let older = cursor.as_ref().map_or(Bound::Unbounded, |at| Bound::Excluded(at.clone()));
        let older = runs.ended.range((Bound::Unbounded, older)).rev().map(|(_, run)| &**run);
        let newest = open.iter().copied().filter(|run| is_after(run));
        let mut rest = merged(newest, older).filter(|run| fits(run));
        let rows: Vec<ListedRun> = rest.by_ref().take(RUNS_PER_PAGE).cloned().collect();
        let next = rest.next().and(rows.last()).map(|last| format!("{}.{}", last.started_unix_ms, last.run));
        let waiting: Vec<&ListedRun> =
            open.iter().copied().filter(|run| run.state == ListedState::Waiting).collect();
        let mut spent = Cost::default();
        let mut by_outcome: BTreeMap<String, u64> = BTreeMap::new();
        for (key, kind) in fitting.kinds() {
            *by_outcome.entry(key.outcome.clone()).or_default() += kind.runs;
            spent.known = spent.known.plus(kind.cost.known);
            spent.unknown_calls = spent.unknown_calls.saturating_add(kind.cost.unknown_calls);
        }
        Self {
            domains: seen.names(|kind| &kind.domain),
            outcomes: seen.names(|kind| &kind.outcome),
            runs: by_outcome.values().sum(),
            by_outcome,
            spent,
            days: days(&fitting),
            reasons: reasons(&fitting),
            waiting_in_all: waiting.len(),
            waiting: waiting.into_iter().take(MAX_WAITING).cloned().collect(),
            rows,
            next,
            is_first: cursor.is_none(),
            is_cut: runs.is_cut,
            filter,
        }
    }

    #[cfg(feature = "http")]
    /// The runs of the page.
    pub(super) fn ids(&self) -> Vec<RunId> {
        self.rows.iter().map(|run| RunId::new(run.run.as_str())).collect()
    }

    #[cfg(feature = "http")]
    /// Sets how many entries the runs of the page have: one that has ended may still be saved.
    pub(super) fn count_entries(&mut self, lines: &[RunLine]) {
        for row in &mut self.rows {
            if let Some(line) = lines.iter().find(|line| line.run.as_str() == row.run) {
                row.entries = line.entries;
            }
        }
    }

    #[cfg(feature = "http")]
    /// Sets the labels of the runs of the page.
    pub(super) fn set_labels(&mut self, mut labels: BTreeMap<RunId, RunLabel>) {
        self.rows.iter_mut().for_each(|row| row.label = labels.remove(&RunId::new(row.run.as_str())));
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

fn read_cursor(text: &str) -> Option<RunOrder> {
    let (ms, run) = text.split_once('.')?;
    Some(RunOrder { unix_ms: ms.parse().ok()?, run: run.to_owned() })
}

/// Two lists as one, each from the newest run to the oldest.
fn merged<'a>(
    one: impl Iterator<Item = &'a ListedRun>,
    other: impl Iterator<Item = &'a ListedRun>,
) -> impl Iterator<Item = &'a ListedRun> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    let is_older = |run: &ListedRun, than: &ListedRun| {
        (run.started_unix_ms, &run.run) < (than.started_unix_ms, &than.run)
    };
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if is_older(first, second) => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

fn days(runs: &RunTally) -> Vec<Day> {
    let mut days: BTreeMap<String, BTreeMap<String, (u64, u64)>> = BTreeMap::new();
    for (key, kind) in runs.kinds() {
        let (cost, count) = days.entry(key.day.clone()).or_default().entry(key.domain.clone()).or_default();
        *cost = cost.saturating_add(kind.cost.known.0);
        *count += kind.runs;
    }
    days.into_iter().rev().take(MAX_DAYS).collect()
}

/// Class or state, reason, and how many runs, the most frequent first.
fn reasons(runs: &RunTally) -> Vec<(String, String, u64)> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (key, kind) in runs.kinds() {
        *counts.entry((&key.outcome, &key.reason)).or_default() += kind.runs;
    }
    let owned = |((class, reason), count): ((&str, &str), u64)| (class.to_owned(), reason.to_owned(), count);
    let mut all: Vec<_> = counts.into_iter().map(owned).collect();
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
        @if page.runs == 0 {
            (page.empty_html())
        } @else {
            div.two {
                section aria-labelledby="days-title" { h2 #days-title { "Cost by day and domain" } (page.days_html()) }
                section aria-labelledby="reasons-title" { h2 #reasons-title { "Why they stopped" } (page.reasons_html()) }
            }
            section aria-labelledby="list-title" { h2 #list-title { "List" } (page.list_html()) }
        }
    };
    shell::page(PagePlace::Server, "Runs", &content)
}

impl RunsPage {
    fn waiting_html(&self) -> Markup {
        html! {
            @if !self.waiting.is_empty() {
                section.notice.caution aria-labelledby="waiting-title" {
                    h2 #waiting-title { (counted(self.waiting_in_all as u64, "run waits", "runs wait")) " for a person" }
                    ul {
                        @for run in &self.waiting {
                            li {
                                a href={ "/runs/" (encoded(&run.run)) "/approve" } { (title(run)) }
                                " " span.quiet { (t(&run.domain)) ", since " (time(run.started_unix_ms)) " UTC" }
                            }
                        }
                    }
                    @if self.waiting_in_all > self.waiting.len() { p { a href="/?outcome=waiting" { "All that wait" } } }
                }
            }
        }
    }

    fn empty_html(&self) -> Markup {
        html! {
            p.empty {
                @if self.filter == RunsFilter::default() { "There are no runs yet." }
                @else { "No run fits these filters. " a href="/" { "Show all runs" } }
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
        let outcomes = self.by_outcome.iter();
        let outcomes: Vec<String> =
            outcomes.map(|(name, count)| format!("{} {}", grouped(*count), name.replace('_', " "))).collect();
        html! {
            strong { (counted(self.runs, "run", "runs")) }
            @if !outcomes.is_empty() { ": " (t(&outcomes.join(", "))) "; cost " (super::run::cost(&self.spent)) }
            @if self.is_cut { ". Older runs are not counted here; `loopgate runs` lists all." }
        }
    }

    fn days_html(&self) -> Markup {
        let cost =
            |domains: &BTreeMap<String, (u64, u64)>| domains.values().map(|(cost, _)| *cost).sum::<u64>();
        let largest = self.days.iter().map(|(_, domains)| cost(domains)).max().unwrap_or(0).max(1);
        let colour =
            |domain: &str| self.domains.iter().position(|it| it == domain).map_or(0, |at| at % COLOURS);
        html! {
            p.legend {
                @for domain in &self.domains { span { i.{ "c-" (colour(domain)) } {} (t(domain)) } }
            }
            table.bars {
                (heads(&["day", "#runs", "#cost", "by domain"]))
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

    fn reasons_html(&self) -> Markup {
        let largest = self.reasons.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
        html! {
            table.bars {
                (heads(&["reason", "outcome", "#runs", "share"]))
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
                table.stack.list {
                    (heads(&["begun (UTC)", "item", "domain", "outcome", "#events", "#cost", "tags", "run"]))
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

/// Item and title of a run, as far as there is room.
fn title(run: &ListedRun) -> Markup {
    let part = |text: &str| {
        let cut = cut(text, MAX_TITLE);
        html! { (t(&cut.text)) @if cut.left_out > 0 { "…" } }
    };
    html! { (part(&run.item)) ": " (part(&run.title)) }
}

fn row(run: &ListedRun) -> Markup {
    html! {
        tr {
            td.w data-label="begun" { (time(run.started_unix_ms)) }
            th scope="row" {
                a href={ "/runs/" (encoded(&run.run)) } { (title(run)) }
            }
            td data-label="domain" { (t(&run.domain)) }
            td {
                span.pill.(look_of(run.outcome())) { (t(&run.outcome().replace('_', " "))) }
                @if let Some(reason) = &run.reason { " " (t(reason)) }
                @if let Some(trouble) = &run.trouble { " " (t(trouble)) }
                @if let Some(label) = &run.label { " " span.pill.(label.label.name()) { "labelled " (label.label.name()) } }
            }
            td.n data-label="events" { (grouped(run.entries)) }
            td.n data-label="cost" { @match run.cost.usd { Some(_) => { (PicoUsd(run.cost.pico_usd).to_string()) }, None => { "unknown" } } }
            td data-label="tags" { (t(&run.tags.join(", "))) }
            td.w data-label="run" { code { (t(run.run.get(..SHORT_ID).unwrap_or(&run.run))) } @if run.imported { " imported" } }
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
