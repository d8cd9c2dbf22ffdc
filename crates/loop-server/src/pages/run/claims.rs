//! The claims part of a run's page: whether each value of the document is found in the evidence, contradicted or not
//! checked.
//!
//! All versions of all sections are checked together, so that each piece of evidence is read once. Results change when
//! a section changes, and when evidence arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use loop_claims::{Claim, ClaimSources, ClaimTotals, Grounding, Reader};
use loop_core::Run;
use loop_core::reply::Section;
use loop_core::spec::SectionSpec;
use loop_core::types::EvidenceId;
use loop_eval::page::{Cites, markdown_html, marked_html};
use maud::{Markup, PreEscaped, html};

use super::evidence::EvidencePart;
use super::shown::{PagePosition, nothing};
use crate::pages::span::{Changing, EventSpan};
use crate::pages::text::{counted, t};

/// The most claims of a page, over all versions and events.
const MAX_CLAIMS: usize = 100_000;
/// The most values in the list.
const MAX_LISTED: usize = 300;

#[derive(Debug)]
pub(super) struct ClaimPart {
    /// The versions to check, in the order of their numbers in the reader.
    read: Vec<Section>,
    /// `None`: the run has not ended, or has no values.
    reader: Option<Reader>,
    /// The sections with a rule of their own, each with whether their values are checked.
    looks_in: BTreeMap<Arc<str>, bool>,
    /// Whether the values of the other sections are checked.
    looks: bool,
    versions: Vec<VersionClaims>,
    totals: Changing<ClaimTotals>,
    left: usize,
}

impl Default for ClaimPart {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            reader: None,
            looks_in: BTreeMap::new(),
            looks: false,
            versions: Vec::new(),
            totals: Changing::default(),
            left: MAX_CLAIMS,
        }
    }
}

/// The claims of a version of a section.
#[derive(Debug)]
struct VersionClaims {
    heading: Arc<str>,
    /// Its number in the reader. `None`: its values are not checked.
    searched: Option<usize>,
    /// The events at which the document has it. `None`: another version of the same event replaced it.
    span: Option<EventSpan>,
    claims: Vec<ClaimHistory>,
    /// The event from which on it is unknown where its values are found. `None`: it is always known.
    unknown: Option<u64>,
}

/// A value, with its result at each event.
#[derive(Debug)]
struct ClaimHistory {
    number: usize,
    /// Its place in the section's body.
    at: Range<usize>,
    value: Arc<str>,
    looks: Changing<ClaimLook>,
}

/// The result of checking a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClaimLook {
    state: Grounding,
    /// The first evidence that contains it or contradicts it.
    evidence: Option<EvidenceId>,
    why: Arc<str>,
}

impl ClaimLook {
    fn of(claim: &Claim) -> Self {
        Self { state: claim.state, evidence: claim.evidence.first().copied(), why: Arc::clone(&claim.why) }
    }

    /// Whether the result has nothing to say besides the place.
    fn is_plain(&self) -> bool {
        self.state == Grounding::Found && self.why.is_empty()
    }

    fn words(&self) -> String {
        let place = match self.evidence {
            Some(EvidenceId::ITEM) => ", the work item".to_owned(),
            Some(id) => format!(", {id}"),
            None => String::new(),
        };
        let state = match self.state {
            Grounding::Found => "found",
            Grounding::Contradicted => "contradicted",
            Grounding::NotChecked => "not checked",
        };
        if self.why.is_empty() { format!("{state}{place}") } else { format!("{state}: {}{place}", self.why) }
    }
}

impl ClaimPart {
    /// Begins with the first state of a run.
    pub(super) fn begin(&mut self, run: &Run) {
        let spec = run.spec();
        let own = |section: &SectionSpec| Some((Arc::clone(&section.id), section.grounding?.looks()));
        self.looks_in = spec.sections().iter().filter_map(own).collect();
        self.looks = spec.gate.grounding.looks();
    }

    /// Adds a version of a section, and returns its number.
    pub(super) fn add(&mut self, section: &Section) -> usize {
        let looks = self.looks_in.get(&section.id).copied().unwrap_or(self.looks);
        let searched = looks.then(|| {
            self.read.push(section.clone());
            self.read.len() - 1
        });
        let heading = Arc::clone(&section.heading);
        self.versions.push(VersionClaims {
            heading,
            searched,
            span: None,
            claims: Vec::new(),
            unknown: None,
        });
        self.versions.len() - 1
    }

    /// Sets the events at which the document has a version.
    pub(super) fn set_span(&mut self, version: usize, span: EventSpan) {
        if let Some(version) = self.versions.get_mut(version) {
            version.span = Some(span);
        }
    }

    /// Checks all values. `since` has the event from which on each piece of evidence is known.
    pub(super) fn end(&mut self, run: &Run, since: &BTreeMap<EvidenceId, u64>) {
        let started = run.started();
        let sources = ClaimSources {
            evidence: run.evidence(),
            tools: &run.spec().tools,
            item: &started.item,
            unix_ms: started.unix_ms,
            utc_offset: started.utc_offset,
            locale: run.spec().gate.locale,
        };
        let read: Vec<&Section> = self.read.iter().collect();
        let reader = Reader::new(&read, sources);
        let arrived: BTreeSet<u64> = since.values().copied().collect();
        let since = |id: EvidenceId| if id == EvidenceId::ITEM { Some(0) } else { since.get(&id).copied() };
        for version in &mut self.versions {
            let (Some(span), Some(number)) = (version.span, version.searched) else { continue };
            let within = arrived.iter().copied().filter(|at| *at > span.from && span.shows(*at));
            let events: BTreeSet<u64> = std::iter::once(span.from).chain(within).collect();
            for at in events {
                if self.left == 0 {
                    version.claims.iter_mut().for_each(|claim| claim.looks.end(at));
                    version.unknown = Some(at);
                    break;
                }
                let claims = reader.claims(number, |id| since(id).is_some_and(|since| since <= at));
                self.left = self.left.saturating_sub(claims.len());
                version.take(&claims, reader.first_number(number), at);
            }
        }
        self.reader = Some(reader);
        self.count();
    }

    /// Counts the values of each state at each event.
    fn count(&mut self) {
        let mut steps: BTreeMap<u64, Vec<(Grounding, bool)>> = BTreeMap::new();
        for version in &self.versions {
            for (span, look) in version.claims.iter().flat_map(|claim| claim.looks.iter()) {
                let span = version.within(*span);
                steps.entry(span.from).or_default().push((look.state, true));
                if let Some(until) = span.until {
                    steps.entry(until).or_default().push((look.state, false));
                }
            }
        }
        let mut totals = ClaimTotals::default();
        for (at, changes) in steps {
            for (state, comes) in changes {
                let total = match state {
                    Grounding::Found => &mut totals.found,
                    Grounding::Contradicted => &mut totals.contradicted,
                    Grounding::NotChecked => &mut totals.not_checked,
                };
                *total = if comes { total.saturating_add(1) } else { total.saturating_sub(1) };
            }
            self.totals.set(at, totals);
        }
    }

    /// For each piece of evidence, the numbers of the values that link to it.
    pub(super) fn led_to(&self) -> BTreeMap<EvidenceId, BTreeSet<usize>> {
        let mut led: BTreeMap<EvidenceId, BTreeSet<usize>> = BTreeMap::new();
        for claim in self.versions.iter().flat_map(|version| &version.claims) {
            for id in claim.looks.iter().filter_map(|(_, look)| look.evidence) {
                led.entry(id).or_default().insert(claim.number);
            }
        }
        led
    }

    /// The first places of values in a text.
    pub(super) fn places(&self, text: &str) -> BTreeMap<usize, Range<usize>> {
        self.reader.as_ref().map_or_else(BTreeMap::new, |reader| reader.places(text))
    }

    /// A version's body with its values marked.
    pub(super) fn marked(
        &self,
        version: usize,
        body: &str,
        cites: Cites<'_>,
        shown: &PagePosition,
        evidence: &EvidencePart,
    ) -> Markup {
        let Some(version) = self.versions.get(version).filter(|version| !version.claims.is_empty()) else {
            return PreEscaped(markdown_html(body, cites));
        };
        let ranges: Vec<Range<usize>> = version.claims.iter().map(|claim| claim.at.clone()).collect();
        let html = |n: usize, piece: &str, is_last: bool| match version.claims.get(n) {
            Some(claim) => version.mark(claim, piece, is_last, shown, evidence).into_string(),
            None => piece.to_owned(),
        };
        PreEscaped(marked_html(body, cites, &ranges, &html))
    }

    /// The counts of each state, and the values that are not copied from the cited evidence.
    pub(super) fn html(&self, shown: &PagePosition, evidence: &EvidencePart) -> Markup {
        let (against, rows): (Vec<ClaimRow<'_>>, Vec<ClaimRow<'_>>) = self
            .versions
            .iter()
            .flat_map(|version| version.claims.iter().map(move |claim| (version, claim)))
            .flat_map(|(version, claim)| {
                claim.looks.iter().map(move |(span, look)| (version, claim, span, look))
            })
            .filter(|(.., look)| !look.is_plain())
            .map(|(version, claim, span, look)| (version, claim, version.within(*span), look))
            .partition(|(.., look)| look.state == Grounding::Contradicted);
        let led = |claim: &ClaimHistory, look: &ClaimLook| {
            let place = look.evidence.and_then(|id| evidence.place(id, claim.number));
            html! {
                @match place {
                    Some(place) => { a href={ "#" (place) } { (t(&look.words())) } }
                    None => { (t(&look.words())) }
                }
            }
        };
        let stated = self.totals.iter().find(|(_, totals)| *totals != ClaimTotals::default());
        let first = rows.iter().map(|(_, _, span, _)| span.from).min();
        html! {
            (nothing(shown, stated.map(|(span, _)| span.from), "The text states no value that is checked."))
            @for (span, totals) in self.totals.iter() {
                @if *totals != ClaimTotals::default() {
                    p.claims data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                        "Values: " span.v.v-found { (totals.found) } " found, "
                        span.v.v-contradicted { (totals.contradicted) } " contradicted, "
                        span.v.v-not_checked { (totals.not_checked) } " not checked."
                        @if totals.contradicted == 0 { " The evidence contradicts none of them." }
                    }
                }
            }
            @if !against.is_empty() {
                ul.against {
                    @for (version, claim, span, look) in against.iter().take(MAX_LISTED) {
                        li data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                            strong { (t(&claim.value)) " [?]" } " in " (t(&version.heading)) " — " (led(claim, look))
                        }
                    }
                }
                (left_out(against.len()))
            }
            @if let Some(from) = first {
                details.more data-from=(from) hidden[shown.is_before(from)] {
                    summary { "Other values that are not copied from the cited evidence" }
                    div.wide tabindex="0" role="region" aria-label="Values" {
                        table.stack {
                            thead { tr { th scope="col" { "value" } th scope="col" { "section" } th scope="col" { "what was found out" } } }
                            tbody {
                                @for (version, claim, span, look) in rows.iter().take(MAX_LISTED) {
                                    tr data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                                        th scope="row" { (t(&claim.value)) }
                                        td data-label="section" { (t(&version.heading)) }
                                        td { (led(claim, look)) }
                                    }
                                }
                            }
                        }
                    }
                    (left_out(rows.len()))
                }
            }
            @if let Some(from) = self.versions.iter().filter_map(|version| version.unknown).min() {
                p.rest data-from=(from) hidden[shown.is_before(from)] {
                    "There are too many values: from event " (from) " on it is not shown what was found out about some of them."
                }
            }
        }
    }
}

/// A value of a version with its result at these events.
type ClaimRow<'a> = (&'a VersionClaims, &'a ClaimHistory, EventSpan, &'a ClaimLook);

/// The number of lines that are left out of a list.
fn left_out(lines: usize) -> Markup {
    html! {
        @if lines > MAX_LISTED {
            p.rest { "… " (counted((lines - MAX_LISTED) as u64, "more line is", "more lines are")) " left out here. The text has all marks." }
        }
    }
}

impl VersionClaims {
    /// Adds the results at an event. `first`: the number of the first value.
    fn take(&mut self, claims: &[Claim], first: usize, at: u64) {
        if self.claims.is_empty() {
            let history = |(n, claim): (usize, &Claim)| ClaimHistory {
                number: first + n,
                at: claim.at.clone(),
                value: Arc::clone(&claim.value),
                looks: Changing::default(),
            };
            self.claims = claims.iter().enumerate().map(history).collect();
        }
        for (history, claim) in self.claims.iter_mut().zip(claims) {
            history.looks.set(at, ClaimLook::of(claim));
        }
    }

    /// The part of a span in which the document has the version.
    fn within(&self, span: EventSpan) -> EventSpan {
        EventSpan { until: span.until.or(self.span.and_then(|own| own.until)), ..span }
    }

    /// A piece of a value with its mark at each event.
    fn mark(
        &self,
        claim: &ClaimHistory,
        piece: &str,
        is_last: bool,
        shown: &PagePosition,
        evidence: &EvidencePart,
    ) -> Markup {
        // What is so at all events of its version needs no events of its own.
        let is_one = claim.looks.len() == 1 && self.unknown.is_none();
        html! {
            @for (span, look) in claim.looks.iter() {
                @let from = (!is_one).then_some(span.from);
                @let until = if is_one { None } else { span.until };
                @let is_hidden = !is_one && shown.hides(*span);
                @let class = format!("v v-{}", look.state.name());
                @let place = look.evidence.and_then(|id| evidence.place(id, claim.number));
                @let inner = html! {
                    (PreEscaped(piece))
                    @if is_last && look.state == Grounding::Contradicted { span.flag aria-hidden="true" { "[?]" } }
                    @if is_last && !look.is_plain() { span.sr { " (" (t(&look.words())) ")" } }
                };
                @match place {
                    Some(place) => {
                        a.(class) href={ "#" (place) } title=(t(&look.words())) data-from=[from] data-until=[until] hidden[is_hidden] { (inner) }
                    }
                    None => {
                        span.(class) title=(t(&look.words())) data-from=[from] data-until=[until] hidden[is_hidden] { (inner) }
                    }
                }
            }
            @if let Some(from) = self.unknown {
                span data-from=(from) hidden[shown.is_before(from)] { (PreEscaped(piece)) }
            }
        }
    }
}
