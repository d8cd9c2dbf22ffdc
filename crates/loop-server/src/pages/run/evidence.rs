//! The evidence part of a run's page: the tool results by number, which citations link to.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use loop_core::types::{EvidenceId, Status};
use loop_core::{Evidence, Note, Run};
use loop_runtime::tools::markdown_of;
use maud::{Markup, html};

use super::AppliedEntry;
use super::claims::ClaimPart;
use super::shown::{PagePosition, anchor, nothing};
use crate::pages::runs::encoded;
use crate::pages::text::{CutText, TextBudget, rest, t};

/// The most bytes of all evidence on a page, and of one result and its parameters.
const ROOM: usize = 2 * 1024 * 1024;
const MAX_BYTES: usize = 16 * 1024;
const MAX_PARAMETERS: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(super) struct EvidencePart {
    lines: Vec<EvidenceRow>,
    since: BTreeMap<EvidenceId, u64>,
    shortened: BTreeMap<EvidenceId, u64>,
    /// The places in the work item and in each result that values of the document link to.
    places: BTreeMap<EvidenceId, TextPlaces>,
}

/// The places in a text, in order.
#[derive(Debug, Default)]
struct TextPlaces {
    ranges: Vec<Range<usize>>,
    /// Where each value is, by its number.
    of_values: BTreeMap<usize, usize>,
}

#[derive(Debug)]
struct EvidenceRow {
    from: u64,
    /// From this event on, prompts contain only its summary.
    shortened: Option<u64>,
    id: EvidenceId,
    key: loop_core::types::CommandKey,
    tool: Arc<str>,
    parameters: CutText,
    status: Status,
    summary: Arc<str>,
    text: CutText,
    is_untrusted: bool,
    is_private: bool,
    warnings: Vec<Arc<str>>,
    /// The run that was called. `None`: the tool is not a run.
    run: Option<String>,
    /// What it repeats. `None`: nothing.
    note: Option<String>,
}

impl EvidencePart {
    /// Results count once all calls of their pass have settled, so they appear at that event.
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        for evidence in seen.run.evidence().iter().rev() {
            if self.since.contains_key(&evidence.id) {
                break;
            }
            self.since.insert(evidence.id, seen.at);
        }
        for note in &seen.entry.notes {
            if let Note::EvidenceShortened { evidence } = note {
                self.shortened.insert(*evidence, seen.at);
            }
        }
    }

    pub(super) fn end(&mut self, run: &Run) {
        let mut room = TextBudget::new(ROOM);
        let line = |evidence: &Evidence| {
            let Evidence { id, key, tool, parameters, observation, .. } = evidence;
            let taint = evidence.taint(run.spec());
            EvidenceRow {
                from: self.since.get(id).copied().unwrap_or_default(),
                shortened: self.shortened.get(id).copied(),
                id: *id,
                key: *key,
                tool: Arc::clone(tool),
                parameters: room.take(parameters, MAX_PARAMETERS),
                status: observation.status,
                summary: Arc::clone(&observation.summary),
                text: room.take(&markdown_of(observation), MAX_BYTES),
                is_untrusted: taint.untrusted,
                is_private: taint.private,
                run: observation.child.as_ref().and_then(|child| Some(child.run.as_ref()?.to_string())),
                warnings: observation.warnings.clone(),
                note: run.repeat_note(*id).map(|note| note.summary()),
            }
        };
        self.lines = run.evidence().iter().map(line).collect();
    }

    /// The event from which on each result counts.
    pub(super) fn since(&self) -> &BTreeMap<EvidenceId, u64> {
        &self.since
    }

    /// Finds the places in the shown texts that values of the document link to.
    pub(super) fn mark(&mut self, claims: &ClaimPart, item: &CutText) {
        for (id, numbers) in claims.led_to() {
            let at = self.lines.partition_point(|line| line.id < id);
            let line = self.lines.get(at).filter(|line| line.id == id).map(|line| &line.text);
            let text = if id == EvidenceId::ITEM { Some(item) } else { line };
            let Some(text) = text else { continue };
            let mut found: Vec<(usize, Range<usize>)> = claims.places(&text.text).into_iter().collect();
            found.retain(|(number, _)| numbers.contains(number));
            found.sort_by_key(|(_, range)| range.start);
            let mut places = TextPlaces::default();
            for (number, range) in found {
                let last = places.ranges.last();
                if last.is_none_or(|last| last.end <= range.start) {
                    places.ranges.push(range.clone());
                } else if last.is_none_or(|last| last.start != range.start) {
                    continue;
                }
                places.of_values.insert(number, range.start);
            }
            self.places.insert(id, places);
        }
    }

    /// The link target of a value: its place in a result, or the whole result.
    pub(super) fn place(&self, id: EvidenceId, number: usize) -> Option<String> {
        let whole = self.target(id.0)?;
        let at = self.places.get(&id).and_then(|places| places.of_values.get(&number));
        Some(at.map_or_else(|| whole.clone(), |at| place_name(id, *at)))
    }

    /// A text with the anchors of its places.
    fn text(&self, id: EvidenceId, text: &CutText) -> Markup {
        let ranges = self.places.get(&id).map_or(&[][..], |places| &places.ranges);
        let whole = &text.text;
        let part = |range: Range<usize>| whole.get(range).unwrap_or_default();
        let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
        let rest = ranges.last().map_or(0, |range| range.end);
        html! {
            @for (from, range) in starts.zip(ranges) {
                (t(part(from..range.start)))
                mark id=(place_name(id, range.start)) { (t(part(range.clone()))) }
            }
            (t(part(rest..whole.len())))
        }
    }

    /// The link target of a citation.
    pub(super) fn target(&self, number: u32) -> Option<String> {
        let is_known = number == 0 || self.since.contains_key(&EvidenceId(number));
        is_known.then(|| format!("E{number}"))
    }

    pub(super) fn html(&self, shown: &PagePosition, item: &CutText) -> Markup {
        html! {
            details.evidence #E0 {
                summary { b { "E0" } " the work item" }
                pre tabindex="0" { (self.text(EvidenceId::ITEM, item)) }
                (rest(item, &shown.rest))
            }
            @for line in &self.lines {
                details.evidence id={ "E" (line.id.0) } data-from=(line.from) hidden[shown.is_before(line.from)] {
                    summary {
                        b { (line.id.to_string()) } " " (t(&line.tool)) " "
                        span.pill.(if line.status.is_citable() { "good" } else { "bad" }) { (line.status.name().replace('_', " ")) }
                        " " (t(&line.summary))
                        @if line.is_untrusted { " " span.pill.warn { "untrusted" } }
                        @if line.is_private { " " span.pill.plain { "private" } }
                    }
                    p { "Requested as " a href={ "#a" (anchor(line.key)) } { (t(&line.key.to_string())) } " with" }
                    pre tabindex="0" { (t(&line.parameters.text)) }
                    (rest(&line.parameters, &shown.rest))
                    @if let Some(run) = line.run.as_ref().filter(|_| shown.place.is_server()) {
                        p { "It is " a href={ "/runs/" (encoded(run)) } { "run " (t(run)) } "." }
                    }
                    p { "What the model reads:" }
                    pre tabindex="0" { (self.text(line.id, &line.text)) }
                    (rest(&line.text, &shown.rest))
                    @if let Some(note) = &line.note { p { "Note with the result: " (t(note)) "." } }
                    @if let Some(from) = line.shortened {
                        p data-from=(from) hidden[shown.is_before(from)] {
                            "From event " (from) " on prompts show only its summary, because a call did not fit."
                        }
                    }
                    @for warning in &line.warnings { p.quiet { (t(warning)) } }
                }
            }
            (nothing(shown, self.lines.iter().map(|line| line.from).min(), "No tool has returned anything."))
        }
    }
}

/// The anchor of a place in a result.
fn place_name(id: EvidenceId, at: usize) -> String {
    format!("{id}-{at}")
}
