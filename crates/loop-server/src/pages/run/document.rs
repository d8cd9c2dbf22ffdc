//! The document part of a run's page: its sections at each event, and how each of them changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::run::AttemptState;
use loop_core::types::{EvidenceId, Millis};
use loop_core::{Note, Run};
use loop_eval::page::{Cites, markdown_html};
use loop_inspect::diff::line_diff;
use maud::{Markup, PreEscaped, html};

use super::AppliedEntry;
use super::claims::ClaimPart;
use super::evidence::EvidencePart;
use super::shown::{PagePosition, nothing};
use crate::pages::span::{Changing, EventSpan};
use crate::pages::text::{CutText, TextBudget, cut, rest, t};

/// The most bytes of all versions of all sections on a page.
const ROOM: usize = 2 * 1024 * 1024;
/// The most bytes of one version of a section.
const MAX_BYTES: usize = 256 * 1024;
/// The most bytes of a section whose versions are compared line by line, and the most lines of a difference.
const MAX_COMPARED: usize = 256 * 1024;
const MAX_DIFF_LINES: usize = 200;
/// The fewest headings for a table of contents, and the most headings in it.
const MIN_CONTENTS: i64 = 4;
const MAX_CONTENTS: usize = 200;

#[derive(Debug)]
pub(super) struct DocumentPart {
    sections: Vec<SectionHistory>,
    /// The answer of a conversation, from its event on.
    answer: Option<(u64, CutText)>,
    /// The outputs of attempts, each with its state.
    outputs: Vec<Changing<OutputState>>,
    missing: Changing<Vec<Arc<str>>>,
    /// The number of passes and pieces of evidence when it was computed.
    basis: Option<(usize, usize)>,
    claims: ClaimPart,
    room: TextBudget,
    title: &'static str,
}

impl Default for DocumentPart {
    fn default() -> Self {
        Self {
            sections: Vec::new(),
            answer: None,
            outputs: Vec::new(),
            missing: Changing::default(),
            basis: None,
            claims: ClaimPart::default(),
            room: TextBudget::new(ROOM),
            title: "Document",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OutputState {
    value: CutText,
    state: &'static str,
    why: String,
}

/// The versions of a section.
#[derive(Debug)]
struct SectionHistory {
    id: Arc<str>,
    heading: Arc<str>,
    versions: Changing<Version>,
    /// The body of the last version, which the next one is compared with.
    body: Arc<str>,
}

#[derive(Debug, PartialEq, Eq)]
struct Version {
    /// Its number among all versions of all sections.
    number: usize,
    pass: u32,
    at: Millis,
    body: CutText,
    evidence: Vec<EvidenceId>,
    /// Whether everything that it cites is untrusted.
    is_untrusted: bool,
    /// The differences from the version before. Empty for the first.
    diff: Vec<String>,
}

impl DocumentPart {
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        if seen.at == 0 {
            self.claims.begin(seen.run);
        }
        let is_merged = seen.entry.notes.iter().any(|note| matches!(note, Note::Merged { .. }));
        if is_merged || seen.at == 0 {
            self.merged(seen);
        }
        if seen.at == 0 {
            let protocol = &seen.run.spec().protocol;
            self.title = match (protocol.output().is_some(), protocol.properties().states_confidence) {
                (true, _) => "Output",
                (false, true) => "Document",
                (false, false) => "Answer",
            };
        }
        // What is missing follows from the document, the evidence and the passes, and may take as long as reading them.
        let basis = (seen.run.passes().len(), seen.run.evidence().len());
        if is_merged || self.basis != Some(basis) {
            self.basis = Some(basis);
            let missing = if seen.run.passes().is_empty() { Vec::new() } else { seen.run.missing() };
            self.missing.set(seen.at, missing);
        }
        for (n, attempt) in seen.run.attempts().iter().enumerate() {
            let Some(value) = &attempt.output else { continue };
            let (state, why) = match &attempt.state {
                AttemptState::Open => ("open", String::new()),
                AttemptState::Ends => ("to be validated", String::new()),
                AttemptState::Valid => ("valid", String::new()),
                AttemptState::Rejected(rejection) => ("rejected", rejection.to_string()),
            };
            while self.outputs.len() <= n {
                self.outputs.push(Changing::default());
            }
            let Some(output) = self.outputs.get_mut(n) else { continue };
            let pretty = serde_json::from_str::<serde_json::Value>(value).ok();
            let pretty = pretty.and_then(|value| serde_json::to_string_pretty(&value).ok());
            let value = cut(pretty.as_deref().unwrap_or(value), MAX_BYTES);
            output.set(seen.at, OutputState { value, state, why });
        }
        if self.answer.is_none()
            && let Some(answer) = seen.run.outcome().and_then(|outcome| outcome.answer.as_ref())
        {
            self.answer = Some((seen.at, self.room.take(answer, MAX_BYTES)));
        }
    }

    fn merged(&mut self, seen: &AppliedEntry<'_>) {
        let run = seen.run;
        for section in &run.document().sections {
            let known = self.sections.iter_mut().find(|it| it.id == section.id);
            let (diff, history) = match known {
                Some(history) => {
                    let last = history.versions.last();
                    if last.is_some_and(|last| last.evidence == section.evidence)
                        && history.body == section.body
                    {
                        continue;
                    }
                    let is_long = history.body.len().max(section.body.len()) > MAX_COMPARED;
                    let lines = if is_long { Vec::new() } else { line_diff(&history.body, &section.body) };
                    (lines, history)
                }
                None => {
                    self.sections.push(SectionHistory {
                        id: Arc::clone(&section.id),
                        heading: Arc::clone(&section.heading),
                        versions: Changing::default(),
                        body: Arc::clone(&section.body),
                    });
                    let Some(history) = self.sections.last_mut() else { continue };
                    (Vec::new(), history)
                }
            };
            history.body = Arc::clone(&section.body);
            let version = Version {
                number: self.claims.add(section),
                pass: section.pass,
                at: section.at,
                body: self.room.take(&section.body, MAX_BYTES),
                evidence: section.evidence.clone(),
                is_untrusted: rests_on_untrusted(run, &section.evidence),
                diff,
            };
            history.versions.set(seen.at, version);
        }
        for history in &mut self.sections {
            if run.document().get(&history.id).is_none() {
                history.versions.end(seen.at);
            }
        }
    }

    /// `since` has the event from which on each piece of evidence is known.
    pub(super) fn end(&mut self, run: &Run, since: &BTreeMap<EvidenceId, u64>) {
        for (span, version) in self.sections.iter().flat_map(|history| history.versions.iter()) {
            self.claims.set_span(version.number, *span);
        }
        self.claims.end(run, since);
        let place = |id: &str| run.document().sections.iter().position(|section| &*section.id == id);
        self.sections.sort_by_key(|history| place(&history.id).unwrap_or(usize::MAX));
    }

    pub(super) fn claims(&self) -> &ClaimPart {
        &self.claims
    }

    pub(super) fn title(&self) -> &'static str {
        self.title
    }

    /// The first event with any content. `None`: there is none.
    fn first(&self) -> Option<u64> {
        let sections = self.sections.iter().filter_map(|it| it.versions.first());
        let outputs = self.outputs.iter().filter_map(Changing::first);
        sections.chain(outputs).chain(self.answer.as_ref().map(|(from, _)| *from)).min()
    }

    pub(super) fn html(&self, shown: &PagePosition, evidence: &EvidencePart) -> Markup {
        let cites = |number| evidence.target(number);
        html! {
            @for (span, missing) in self.missing.iter() {
                @if !missing.is_empty() {
                    p.bad data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                        "Missing: " (t(&missing.join(", ")))
                    }
                }
            }
            (self.contents(shown))
            @if let Some((from, answer)) = &self.answer {
                div.document data-from=(from) hidden[shown.is_before(*from)] {
                    @for (n, (_, part)) in chapters(&answer.text).iter().enumerate() {
                        div id={ "c-" (n) } { (PreEscaped(markdown_html(part, &cites))) }
                    }
                }
                (rest(answer, &shown.rest))
            }
            (nothing(shown, self.first(), "There is nothing yet."))
            @for (n, output) in self.outputs.iter().enumerate() {
                @let from = output.first().unwrap_or(0);
                h3 data-from=(from) hidden[shown.is_before(from)] { "Attempt " (n + 1) }
                @for (span, output) in output.iter() {
                    div data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                        p { strong.pill.(if output.state == "valid" { "good" } else { "plain" }) { (output.state) } " " (t(&output.why)) }
                        pre tabindex="0" { (t(&output.value.text)) }
                        (rest(&output.value, &shown.rest))
                    }
                }
            }
            @for (n, section) in self.sections.iter().enumerate() {
                div id=(place_of(n, &section.id)) { (section.html(shown, &cites, &self.claims, evidence)) }
            }
        }
    }

    /// The table of contents, at the events at which the text is long.
    fn contents(&self, shown: &PagePosition) -> Markup {
        let chapters = self.answer.as_ref().map(|(from, answer)| (*from, chapters(&answer.text)));
        let mut lines: Vec<(String, &str, EventSpan)> = Vec::new();
        for (n, section) in self.sections.iter().enumerate() {
            let span = section.versions.first().zip(section.versions.iter().last());
            let Some((from, (last, _))) = span.filter(|_| &*section.id != loop_core::reply::PREAMBLE) else {
                continue;
            };
            lines.push((place_of(n, &section.id), &section.heading, EventSpan { from, until: last.until }));
        }
        if let Some((from, chapters)) = &chapters {
            let titled = chapters.iter().enumerate().filter(|(_, (title, _))| !title.is_empty());
            lines.extend(titled.map(|(n, (title, _))| (format!("c-{n}"), *title, EventSpan::since(*from))));
        }
        let mut steps: BTreeMap<u64, i64> = BTreeMap::new();
        for (.., span) in &lines {
            *steps.entry(span.from).or_default() += 1;
            span.until.into_iter().for_each(|until| *steps.entry(until).or_default() -= 1);
        }
        let (mut count, mut is_long) = (0, Changing::default());
        for (at, step) in steps {
            count += step;
            is_long.set(at, count >= MIN_CONTENTS);
        }
        html! {
            @for (span, _) in is_long.iter().filter(|(_, is_long)| *is_long) {
                nav.toc aria-label="Contents" data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                    ol {
                        @for (place, heading, span) in lines.iter().take(MAX_CONTENTS) {
                            li data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                                a href={ "#" (place) } { (t(heading)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The anchor of a section: its id, so that a link to it stays valid while the document grows.
fn place_of(n: usize, id: &str) -> String {
    let is_plain = id.len() <= 80 && id.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c));
    if is_plain { format!("s-{id}") } else { format!("c-{n}") }
}

/// Splits a text by its headings: each part with its heading, which is empty before the first one.
fn chapters(text: &str) -> Vec<(&str, &str)> {
    let (mut parts, mut from, mut at) = (vec![("", text)], 0, 0);
    let mut code = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let fence = ["```", "~~~"].into_iter().find(|fence| trimmed.starts_with(fence));
        code = match code {
            None => fence,
            Some(open) => Some(open).filter(|_| fence != code),
        };
        let title = trimmed.trim_start_matches('#');
        let level = trimmed.len() - title.len();
        if code.is_none() && (1..=6).contains(&level) && title.starts_with(' ') {
            if let Some(last) = parts.last_mut() {
                last.1 = text.get(from..at).unwrap_or_default();
            }
            parts.push((title.trim(), text.get(at..).unwrap_or_default()));
            from = at;
        }
        at += line.len();
    }
    parts.retain(|(_, part)| !part.trim().is_empty());
    parts
}

/// Whether a section has citations, and all of them are of untrusted tool results or of an untrusted work item.
fn rests_on_untrusted(run: &Run, cited: &[EvidenceId]) -> bool {
    let is_untrusted = |id: &EvidenceId| {
        if id.0 == 0 {
            return run.spec().gate.item_untrusted;
        }
        let evidence = loop_core::Evidence::find(run.evidence(), *id);
        evidence.is_some_and(|evidence| evidence.taint(run.spec()).untrusted)
    };
    !cited.is_empty() && cited.iter().all(is_untrusted)
}

impl SectionHistory {
    fn html(
        &self,
        shown: &PagePosition,
        cites: Cites<'_>,
        claims: &ClaimPart,
        evidence: &EvidencePart,
    ) -> Markup {
        html! {
            @for (span, version) in self.versions.iter() {
                div.document data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                    @if &*self.id != loop_core::reply::PREAMBLE { h3 { (t(&self.heading)) } }
                    (claims.marked(version.number, &version.body.text, cites, shown, evidence))
                    (rest(&version.body, &shown.rest))
                    p.quiet {
                        "from pass " (version.pass) ", " (version.at.in_seconds()) " s"
                        @if version.is_untrusted { " · " strong.warn { "rests only on untrusted evidence" } }
                    }
                }
            }
            @if self.versions.len() > 1 {
                @let from = self.versions.iter().nth(1).map_or(0, |(span, _)| span.from);
                details.more data-from=(from) hidden[shown.is_before(from)] {
                    summary { "How “" (t(&self.heading)) "” changed" }
                    ol.history {
                        @for (span, version) in self.versions.iter() {
                            li data-from=(span.from) hidden[shown.is_before(span.from)] {
                                "Pass " (version.pass) ", event "
                                a href="#slider" data-at=(span.from) { (span.from) }
                                @if version.diff.is_empty() && span.from != self.versions.first().unwrap_or(0) {
                                    ": other citations, or too long to compare"
                                }
                                (diff_html(&version.diff))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Lines that differ, each with `-`, `+` or a blank before it.
pub(in crate::pages) fn diff_html(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            pre.diff tabindex="0" {
                @for line in lines.iter().take(MAX_DIFF_LINES) {
                    @match line.chars().next() {
                        Some('+') => { ins { (t(line)) } },
                        Some('-') => { del { (t(line)) } },
                        _ => { (t(line)) },
                    }
                    "\n"
                }
                @if lines.len() > MAX_DIFF_LINES { "… " (lines.len() - MAX_DIFF_LINES) " more lines differ\n" }
            }
        }
    }
}
