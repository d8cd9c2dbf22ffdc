//! The page of a journal's runs: what waits for people, the list with its filter, charts over time, and stop reasons.

mod charts;
mod filter;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::types::{Cost, PicoUsd, RunId};
use loop_inspect::listed::{ListedRun, ListedState};
#[cfg(feature = "http")]
use loop_runtime::journal::RunLine;
#[cfg(feature = "http")]
use loop_runtime::journal::label::RunLabel;
use maud::{Markup, html};

use super::run::look_of;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, duration, grouped, heads, t, time};
use charts::{Charts, stacked};
pub use filter::RunsFilter;
pub(super) use filter::encoded;
pub(super) use tally::{KeptRuns, RunOrder, RunTally};

/// The runs on one page.
pub const RUNS_PER_PAGE: usize = 50;
/// The most stop reasons and waiting runs.
const MAX_REASONS: usize = 12;
const MAX_WAITING: usize = 20;
/// The characters of an id that are shown. They are its time to the millisecond, so they seldom collide.
const SHORT_ID: usize = 13;
/// The most bytes of a title.
const MAX_TITLE: usize = 120;

/// The content of the page of runs.
#[derive(Clone, Debug)]
pub struct RunsPage {
    filter: RunsFilter,
    domains: Vec<String>,
    outcomes: Vec<String>,
    rows: Vec<ListedRun>,
    runs: u64,
    by_outcome: BTreeMap<String, u64>,
    spent: Cost,
    charts: Charts,
    /// The values that there are to choose from.
    models: Vec<String>,
    confidences: Vec<String>,
    all_reasons: Vec<String>,
    reasons: Vec<(String, String, u64)>,
    waiting: Vec<ListedRun>,
    waiting_in_all: usize,
    /// The cursor of the next page. `None`: it is the last.
    next: Option<String>,
    is_first: bool,
    /// Whether there are older runs, which no total includes.
    is_cut: bool,
    /// The parts of the filter that are not valid, and why.
    wrong: Option<String>,
    /// How many ended runs are not yet in the search index.
    unsearched: u64,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct SearchHits {
    /// The runs. `None`: there was no search.
    pub(super) runs: Option<BTreeSet<RunId>>,
    /// How many runs are not yet in the index.
    pub(super) left: u64,
    /// Why there was no search.
    pub(super) wrong: Option<String>,
}

impl RunsPage {
    /// The content of the page for these runs. `before` is the cursor of the page. If it is not valid, the page begins
    /// with the newest run.
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
        Self::kept(&runs, &|_| true, filter, before, SearchHits::default())
    }

    /// The content of the page for the cached runs, as far as the caller `sees` their domains. The totals of all runs
    /// are counted already.
    pub(super) fn kept(
        runs: &KeptRuns,
        sees: &dyn Fn(&str) -> bool,
        filter: RunsFilter,
        before: Option<&str>,
        found: SearchHits,
    ) -> Self {
        let (wanted, wrong) = filter.wanted(found.runs);
        let fits = |run: &ListedRun| sees(&run.domain) && filter.fits(run, &wanted);
        let open: Vec<&ListedRun> = runs.open.iter().filter(|run| sees(&run.domain)).collect();
        let mut seen = RunTally::default();
        open.iter().for_each(|run| seen.add(run));
        seen.with(&runs.tally, |kind| sees(&kind.domain));
        let all = || open.iter().copied().chain(runs.ended.values().map(|run| &**run));
        let mut fitting = RunTally::default();
        if filter.fits_all() {
            fitting = seen.clone();
        } else {
            all().filter(|run| fits(run)).for_each(|run| fitting.add(run));
        }
        let cursor = before.and_then(read_cursor);
        let (rows, next) = sorted(&filter, all().filter(|run| fits(run)), cursor.as_ref());
        let next = rows.last().filter(|_| next);
        let next = next.map(|run| format!("{}.{}.{}", filter.sort_key(run), run.started_unix_ms, run.run));
        let rows = rows.into_iter().cloned().collect();
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
            charts: Charts::of(&fitting, &seen.names(|kind| &kind.domain)),
            models: seen.names(|kind| &kind.model),
            confidences: seen.names(|kind| &kind.confidence),
            all_reasons: seen.names(|kind| if kind.has_reason { &kind.reason } else { "" }),
            reasons: reasons(&fitting),
            waiting_in_all: waiting.len(),
            waiting: waiting.into_iter().take(MAX_WAITING).cloned().collect(),
            rows,
            next,
            is_first: cursor.is_none(),
            is_cut: runs.is_cut,
            wrong: found.wrong.or(wrong),
            unsearched: found.left,
            filter,
        }
    }

    #[cfg(feature = "http")]
    /// The runs of the page.
    pub(super) fn ids(&self) -> Vec<RunId> {
        self.rows.iter().map(|run| RunId::new(run.run.as_str())).collect()
    }

    #[cfg(feature = "http")]
    /// Sets the number of entries of the runs on the page. An ended run gets another entry when it is saved.
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

    /// The URL of the next page. `None`: it is the last.
    pub fn next_page(&self) -> Option<String> {
        let cursor = encoded(self.next.as_deref()?);
        let address = self.filter.address();
        let sign = if address.contains('?') { '&' } else { '?' };
        Some(format!("{address}{sign}before={cursor}"))
    }
}

/// Parses a cursor: the sort key of the last run on a page, and its order among runs with the same key.
fn read_cursor(text: &str) -> Option<(u64, RunOrder)> {
    let mut parts = text.splitn(3, '.');
    let mut number = || parts.next()?.parse().ok();
    let (key, unix_ms) = (number()?, number()?);
    Some((key, RunOrder { unix_ms, run: parts.next()?.to_owned() }))
}

/// The runs of a page in order, and whether there are more. Only those of the page are sorted.
fn sorted<'a>(
    filter: &RunsFilter,
    all: impl Iterator<Item = &'a ListedRun>,
    after: Option<&(u64, RunOrder)>,
) -> (Vec<&'a ListedRun>, bool) {
    let after = after.map(|(key, at)| (*key, at.unix_ms, at.run.as_str()));
    let place = |run: &'a ListedRun| (filter.sort_key(run), run.started_unix_ms, run.run.as_str());
    let mut all: Vec<_> = all.map(|run| (place(run), run)).collect();
    all.retain(|(place, _)| after.is_none_or(|after| *place < after));
    let has_more = all.len() > RUNS_PER_PAGE;
    if has_more {
        all.select_nth_unstable_by(RUNS_PER_PAGE, |(a, _), (b, _)| b.cmp(a));
        all.truncate(RUNS_PER_PAGE);
    }
    all.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    (all.into_iter().map(|(_, run)| run).collect(), has_more)
}

/// The class or state, the reason, and the number of runs, most frequent first.
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

/// The page as HTML. The script reloads elements with `data-live`.
pub fn runs(page: &RunsPage) -> String {
    let content = html! {
        h1 { "Runs" }
        div #live-waiting data-live { (page.waiting_html()) }
        (page.filters_html())
        div #live-totals data-live { (page.totals_html()) }
        label.scripted hidden { input #follow type="checkbox" checked; " Renew the list every few seconds" }
        div #live-list data-live {
            @if page.runs == 0 {
                (page.empty_html())
            } @else {
                section aria-labelledby="list-title" { h2 #list-title { "List" } (page.list_html()) }
            }
        }
        @if page.runs > 0 {
            div #live-charts data-live {
                (page.charts.html())
                section aria-labelledby="reasons-title" { h2 #reasons-title { "Why they stopped" } (page.reasons_html()) }
            }
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
        let RunsFilter {
            domain,
            outcome,
            reason,
            model,
            confidence,
            tag,
            text,
            words,
            cost,
            seconds,
            since,
            sort,
        } = &self.filter;
        let sorts = ["oldest", "cost", "duration", "confidence"].map(str::to_owned);
        html! {
            form.filters method="get" action="/" role="search" aria-label="Which runs" {
                div { label for="f-text" { "Id or title" } input #f-text type="search" name="text" value=(t(text)); }
                div {
                    label for="f-words" { "Words in document or evidence" }
                    input #f-words type="search" name="words" maxlength="400" value=(t(words));
                }
                (choice("domain", "Domain", "any", &self.domains, domain))
                (choice("outcome", "Outcome", "any", &self.outcomes, outcome))
                (choice("reason", "Reason", "any", &self.all_reasons, reason))
                (choice("model", "Model", "any", &self.models, model))
                (choice("confidence", "Confidence", "any", &self.confidences, confidence))
                div { label for="f-cost" { "USD at least" } input #f-cost type="number" min="0" step="any" name="cost" value=(t(cost)); }
                div { label for="f-seconds" { "Seconds at least" } input #f-seconds type="number" min="0" step="any" name="seconds" value=(t(seconds)); }
                div { label for="f-tag" { "Tag" } input #f-tag type="text" name="tag" value=(t(tag)); }
                div { label for="f-since" { "Since (UTC)" } input #f-since type="date" name="since" value=(t(since)); }
                (choice("sort", "Order", "newest", &sorts, sort))
                div { button type="submit" { "Show" } }
                @if self.filter != RunsFilter::default() { div { a href="/" { "All runs" } } }
            }
            @if let Some(wrong) = &self.wrong { p.notice.bad role="alert" { (t(wrong)) } }
        }
    }

    fn totals_html(&self) -> Markup {
        let outcomes = self.by_outcome.iter();
        let outcomes: Vec<String> =
            outcomes.map(|(name, count)| format!("{} {}", grouped(*count), name.replace('_', " "))).collect();
        html! {
            p {
                strong { (counted(self.runs, "run", "runs")) }
                @if !outcomes.is_empty() { ": " (t(&outcomes.join(", "))) "; cost " (super::run::cost(&self.spent)) }
                @if self.is_cut { ". Older runs are not counted here; `loopgate runs` lists all." }
            }
            @if self.unsearched > 0 {
                // How many they are is not for those who see some domains alone.
                p.notice.caution { "Some runs are not searched yet. Search again to see more." }
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
                            td.bar { (stacked(std::iter::once(("k-model".to_owned(), *count)), largest)) }
                        }
                    }
                }
            }
        }
    }

    fn list_html(&self) -> Markup {
        html! {
            form method="get" action="/compare" aria-label="Compare two runs of the list" {
                div.wide tabindex="0" role="region" aria-label="Table of runs" {
                    table.stack.list {
                        thead { tr {
                            th scope="col" { span.sr { "compare" } }
                            (self.head("begun (UTC)", "", false))
                            @for name in ["item", "domain", "outcome"] { th scope="col" { (name) } }
                            (self.head("duration", "duration", true))
                            (self.head("cost", "cost", true))
                            th scope="col" { "model" }
                            (self.head("confidence", "confidence", false))
                            th.n scope="col" { "events" }
                            @for name in ["caller", "tags", "run"] { th scope="col" { (name) } }
                        } }
                        tbody { @for run in &self.rows { (row(run)) } }
                    }
                }
                p { button type="submit" { "Compare the two selected" } }
            }
            nav.pager aria-label="Pages of the list" {
                @if !self.is_first { a href=(self.filter.address()) { "First page" } }
                @if let Some(next) = self.next_page() { a rel="next" href=(next) { "Next page ›" } }
            }
        }
    }

    /// A column head that sorts the list. The time column sorts both ways.
    fn head(&self, name: &str, sort: &str, is_number: bool) -> Markup {
        let by_time = self.filter.is_by_time();
        let (order, next) = match (sort, self.filter.sort.as_str()) {
            ("", "oldest") => (Some("ascending"), ""),
            ("", _) => (by_time.then_some("descending"), if by_time { "oldest" } else { "" }),
            (sort, now) => ((sort == now).then_some("descending"), sort),
        };
        let address = RunsFilter { sort: next.to_owned(), ..self.filter.clone() }.address();
        let sign = match order {
            Some("ascending") => " ↑",
            Some(_) => " ↓",
            None => "",
        };
        html! {
            th class=[is_number.then_some("n")] scope="col" aria-sort=[order] { a href=(address) { (name) (sign) } }
        }
    }
}

/// The item and title of a run, cut to fit.
fn title(run: &ListedRun) -> Markup {
    let part = |text: &str| {
        let cut = cut(text, MAX_TITLE);
        html! { (t(&cut.text)) @if cut.left_out > 0 { "…" } }
    };
    html! { (part(&run.item)) ": " (part(&run.title)) }
}

fn row(run: &ListedRun) -> Markup {
    html! {
        tr data-run=(t(&run.run)) {
            td.pick { input type="checkbox" name="run" value=(t(&run.run)) aria-label={ "Compare " (t(&cut(&run.item, MAX_TITLE).text)) ", begun " (time(run.started_unix_ms)) }; }
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
            td.n data-label="duration" { @if let Some(ms) = run.duration_ms { (duration(ms)) } }
            td.n data-label="cost" { @match run.cost.usd { Some(_) => { (PicoUsd(run.cost.pico_usd).to_string()) }, None => { "unknown" } } }
            td data-label="model" { @if let Some(model) = &run.model { (t(&cut(model, MAX_TITLE).text)) } }
            td data-label="confidence" { @if let Some(confidence) = &run.confidence { (t(confidence)) } }
            td.n data-label="events" { (grouped(run.entries)) }
            td data-label="caller" { @if let Some(caller) = &run.caller { (t(caller)) } }
            td data-label="tags" { (t(&run.tags.join(", "))) }
            td.w data-label="run" { code { (t(run.run.get(..SHORT_ID).unwrap_or(&run.run))) } @if run.imported { " imported" } }
        }
    }
}

/// A selection of one of these names, or of `none`.
fn choice(name: &str, label: &str, none: &str, names: &[String], chosen: &str) -> Markup {
    let is_other = !chosen.is_empty() && !names.iter().any(|name| name == chosen);
    html! {
        div {
            label for={ "f-" (name) } { (label) }
            select id={ "f-" (name) } name=(name) {
                option value="" selected[chosen.is_empty()] { (none) }
                @if is_other { option value=(t(chosen)) selected { (t(chosen)) } }
                @for it in names { option value=(t(it)) selected[it == chosen] { (t(it)) } }
            }
        }
    }
}
