//! The reply grammar of documents: sections under `##` headings, text before the first, fenced blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::markdown::{Fence, Layout, is_heading};
use crate::reply::parse_warning::ParseWarning;
use crate::spec::SectionSpec;
use crate::types::steps;

/// The id of the text before the first heading.
pub const PREAMBLE: &str = "preamble";

/// A section as a reply proposes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProposedSection {
    /// The section's id in the domain, or a slug of the heading where the domain declares none.
    pub id: Arc<str>,
    /// The heading as written, emoji included. Empty for the preamble.
    pub heading: Arc<str>,
    /// The body as trimmed Markdown, without the contract block.
    pub body: Arc<str>,
    /// Whether the domain declares the section.
    pub known: bool,
}

/// The parts of a reply.
#[derive(Debug)]
pub(crate) struct ParsedReply {
    pub(crate) sections: Vec<ProposedSection>,
    pub(crate) parse_warnings: Vec<ParseWarning>,
}

/// Splits `text` into sections, leaving out the byte ranges in `hidden` (the contract).
pub(crate) fn parse(
    text: &str,
    layout: &Layout,
    hidden: &[Range<usize>],
    declared: &[SectionSpec],
) -> ParsedReply {
    let mut reply = ParsedReply { sections: Vec::new(), parse_warnings: Vec::new() };
    if layout.blocks.iter().any(|block| !block.closed) {
        reply.parse_warnings.push(ParseWarning::UnclosedFence);
    }
    let mut drafts: Vec<Draft> = Vec::new();
    // A map by id, since a reply may have as many headings as lines.
    let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let names = Names::of(declared);
    let first = layout.headings.first().map_or(text.len(), |heading| heading.line.start);
    let preamble = body(text, 0..first, hidden);
    if !preamble.is_empty() {
        places.insert(PREAMBLE.into(), drafts.len());
        drafts.push(Draft {
            id: PREAMBLE.into(),
            heading: "",
            body: preamble,
            known: true,
            is_joined: false,
        });
    }
    for (n, heading) in layout.headings.iter().enumerate() {
        steps::count(1);
        let end = layout.headings.get(n + 1).map_or(text.len(), |next| next.line.start);
        let written = text.get(heading.text.clone()).unwrap_or_default();
        let body = body(text, heading.line.end..end, hidden);
        let held_only_contract = body.is_empty()
            && hidden
                .get(hidden.partition_point(|range| range.start < heading.line.end))
                .is_some_and(|range| range.end <= end);
        let declaration = names.of_heading(written);
        if declaration.is_none() && held_only_contract {
            continue; // A heading over the contract alone, such as `## Confidence`, is part of the contract.
        }
        let id: Arc<str> =
            declaration.map_or_else(|| slug(written).into(), |section| Arc::clone(&section.id));
        if declaration.is_none() {
            reply.parse_warnings.push(ParseWarning::UnknownHeading { heading: written.into() });
        }
        match places.get(&id).and_then(|at| drafts.get_mut(*at)) {
            Some(earlier) => {
                if !body.is_empty() {
                    earlier.body.push_str("\n\n");
                    earlier.body.push_str(&body);
                    earlier.is_joined = true;
                }
                reply.parse_warnings.push(ParseWarning::DoubledHeading { section: id });
            }
            None => {
                places.insert(Arc::clone(&id), drafts.len());
                let known = declaration.is_some();
                drafts.push(Draft { id, heading: written, body, known, is_joined: false });
            }
        }
    }
    reply.sections = drafts.into_iter().map(Draft::into_section).collect();
    reply
}

/// A section while its reply is parsed. A repeated heading appends to its body.
struct Draft<'a> {
    id: Arc<str>,
    heading: &'a str,
    body: String,
    known: bool,
    is_joined: bool,
}

impl Draft<'_> {
    fn into_section(self) -> ProposedSection {
        let body = if self.is_joined { self.body.trim() } else { &self.body };
        ProposedSection { id: self.id, heading: self.heading.into(), body: body.into(), known: self.known }
    }
}

/// The declared sections by the normalised forms of their headings and ids.
struct Names<'a>(BTreeMap<String, &'a SectionSpec>);

impl<'a> Names<'a> {
    fn of(declared: &'a [SectionSpec]) -> Self {
        let mut names = BTreeMap::new();
        for section in declared {
            for name in [&section.heading, &section.id] {
                // The first declared section with a name has it.
                names.entry(plain_heading(name)).or_insert(section);
            }
        }
        names.remove("");
        Self(names)
    }

    fn of_heading(&self, heading: &str) -> Option<&'a SectionSpec> {
        self.0.get(&plain_heading(heading)).copied()
    }
}

/// The text of a heading without emoji, case and punctuation. Headings are compared in this form.
pub(crate) fn plain_heading(heading: &str) -> String {
    let mut plain = String::new();
    for (c, next) in heading.chars().zip(heading.chars().skip(1).map(Some).chain([None])) {
        let keycap = matches!(next, Some('\u{fe0f}' | '\u{20e3}'));
        if c.is_alphanumeric() && !keycap {
            plain.extend(c.to_lowercase());
        } else if !plain.is_empty() && !plain.ends_with(' ') {
            plain.push(' ');
        }
    }
    plain.trim_end().to_owned()
}

/// The emoji before a heading. Empty if there is none.
pub(crate) fn emoji_of(heading: &str) -> &str {
    let mut end = 0;
    let mut chars = heading.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let keycap = chars.peek().is_some_and(|(_, next)| matches!(next, '\u{fe0f}' | '\u{20e3}'));
        if c.is_alphanumeric() && !keycap {
            break;
        }
        end = start + c.len_utf8();
    }
    let mark = heading.get(..end).unwrap_or_default().trim();
    if mark.is_ascii() { "" } else { mark }
}

fn slug(heading: &str) -> String {
    let plain = plain_heading(heading).replace(' ', "_");
    match plain.as_str() {
        // A heading must not give an empty id or that of the preamble.
        "" | PREAMBLE => format!("section_{plain}"),
        _ => plain,
    }
}

fn body(text: &str, range: Range<usize>, hidden: &[Range<usize>]) -> String {
    let mut out = String::new();
    let mut at = range.start;
    // They are in order and do not overlap.
    let from = hidden.partition_point(|gap| gap.end <= range.start);
    for gap in hidden.iter().skip(from).take_while(|gap| gap.start < range.end) {
        steps::count(1);
        out.push_str(text.get(at..gap.start.max(at)).unwrap_or_default());
        at = gap.end.min(range.end).max(at);
    }
    out.push_str(text.get(at..range.end).unwrap_or_default());
    // Indentation of the first line may be code, so only whole blank lines are removed before it.
    let lead = out.lines().take_while(|line| line.trim().is_empty()).count();
    let trimmed: String = out.split_inclusive('\n').skip(lead).collect();
    trimmed.trim_end().to_owned()
}

/// Shows a reply while it streams, line by line, without the contract.
///
/// ```
/// let mut view = loop_core::LiveText::default();
/// assert_eq!(view.push("## Situation\nThe disk is fu"), "## Situation\n");
/// assert_eq!(view.push("ll.\n```json\n{\"analysis_confidence\": \"high\"}\n```\n"), "The disk is full.\n");
/// assert_eq!(view.finish(), "");
/// ```
#[derive(Debug, Default)]
pub struct LiveText {
    line: String,
    held: Option<(Fence, String)>,
}

impl LiveText {
    /// Adds a piece of the reply, and returns the text that may be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::new();
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take_line(line, &mut shown);
            }
        }
        shown
    }

    /// Ends the reply, and returns the rest of the text.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(line, &mut shown);
        }
        self.release(&mut shown);
        shown
    }

    fn take_line(&mut self, line: String, shown: &mut String) {
        let content = line.trim_end_matches(['\n', '\r']);
        match &mut self.held {
            Some((fence, held)) if !is_heading(content) => {
                let closes = fence.is_closed_by(content);
                held.push_str(&line);
                if closes {
                    self.release(shown);
                }
            }
            Some(_) => {
                self.release(shown);
                shown.push_str(&line);
            }
            None => match Fence::opened_by(content) {
                Some(fence) => self.held = Some((fence, line)),
                None => shown.push_str(&line),
            },
        }
    }

    fn release(&mut self, shown: &mut String) {
        if let Some((_, held)) = self.held.take()
            && !held.contains("analysis_confidence")
        {
            shown.push_str(&held);
        }
    }
}
