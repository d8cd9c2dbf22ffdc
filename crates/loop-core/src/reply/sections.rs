//! The reply grammar of documents: sections under `##` headings, text before the first, fenced blocks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::markdown::{Fence, Layout, is_heading, line_feed, thought_tags};
use crate::reply::parse_warning::ParseWarning;
use crate::spec::SectionSpec;
use crate::types::{is_invisible, is_joiner, numbered_entity, steps};

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
pub(crate) fn parse(text: &str, layout: &Layout, hidden: &[Range<usize>], names: &Names<'_>) -> ParsedReply {
    let mut reply = ParsedReply { sections: Vec::new(), parse_warnings: Vec::new() };
    if layout.blocks.iter().any(|block| !block.closed) {
        reply.parse_warnings.push(ParseWarning::UnclosedFence);
    }
    let mut drafts: Vec<SectionDraft> = Vec::new();
    // A map by id, since a reply may have as many headings as lines.
    let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let first = layout.headings.first().map_or(text.len(), |heading| heading.line.start);
    let preamble = body(text, 0..first, hidden);
    if !preamble.is_empty() {
        places.insert(PREAMBLE.into(), drafts.len());
        drafts.push(SectionDraft::preamble(preamble));
    }
    let mut has_uncut = false;
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
        has_uncut |=
            declaration.is_none() && body.is_empty() && !(held_only_contract && names.is_title(written));
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
                if !body.is_empty() && body != earlier.body {
                    earlier.body.push_str("\n\n");
                    earlier.body.push_str(&body);
                    earlier.is_joined = true;
                }
                reply.parse_warnings.push(ParseWarning::DoubledHeading { section: id });
            }
            None => {
                places.insert(Arc::clone(&id), drafts.len());
                let known = declaration.is_some();
                drafts.push(SectionDraft { id, heading: written, body, known, is_joined: false });
            }
        }
    }
    // The words of a reply on one line are all in a heading.
    if has_uncut && drafts.iter().all(|draft| draft.body.is_empty()) {
        drafts.insert(0, SectionDraft::preamble(body(text, 0..text.len(), hidden)));
    }
    reply.sections = drafts.into_iter().map(SectionDraft::into_section).collect();
    reply
}

/// A section while its reply is parsed. A repeated heading appends to its body.
struct SectionDraft<'a> {
    id: Arc<str>,
    heading: &'a str,
    body: String,
    known: bool,
    is_joined: bool,
}

impl SectionDraft<'_> {
    fn preamble(body: String) -> Self {
        Self { id: PREAMBLE.into(), heading: "", body, known: true, is_joined: false }
    }

    fn into_section(self) -> ProposedSection {
        let body = if self.is_joined { self.body.trim() } else { &self.body };
        ProposedSection { id: self.id, heading: self.heading.into(), body: body.into(), known: self.known }
    }
}

/// The declared sections by the normalised forms of their headings and ids.
pub(crate) struct Names<'a>(BTreeMap<String, &'a SectionSpec>);

impl<'a> Names<'a> {
    pub(crate) fn of(declared: &'a [SectionSpec]) -> Self {
        let mut names = BTreeMap::new();
        for section in declared {
            for name in [&section.heading, &section.id] {
                // The first declared section with a name has it.
                names.entry(key(name)).or_insert(section);
            }
        }
        names.remove("");
        Self(names)
    }

    pub(crate) fn of_heading(&self, heading: &str) -> Option<&'a SectionSpec> {
        self.0.get(&key(heading)).copied()
    }

    /// Whether a heading is at most a title: short, and not a declared heading with more text in its line.
    fn is_title(&self, heading: &str) -> bool {
        const MAX_TITLE: usize = 40;
        let key = key(heading);
        key.chars().nth(MAX_TITLE).is_none() && !self.0.keys().any(|name| key.starts_with(name.as_str()))
    }
}

/// The form in which headings are compared. Emphasis may be inside of a word, so blanks do not count.
fn key(heading: &str) -> String {
    plain_heading(heading).replace(' ', "")
}

/// The text of a heading without emoji, case, punctuation, invisible characters and tags.
pub(crate) fn plain_heading(heading: &str) -> String {
    let mut plain = String::new();
    let mut rest = heading;
    while let Some((c, length)) = first_shown(rest) {
        rest = rest.get(length..).unwrap_or_default();
        let keycap = rest.starts_with(['\u{fe0f}', '\u{20e3}']);
        if is_invisible(c) || is_joiner(c) {
            continue;
        }
        if c.is_alphanumeric() && !keycap {
            plain.extend(c.to_lowercase());
        } else if !plain.is_empty() && !plain.ends_with(' ') {
            plain.push(' ');
        }
    }
    plain.trim_end().to_owned()
}

/// The first character that a reader of Markdown sees, and its bytes: an entity is its character, a tag is a blank.
fn first_shown(text: &str) -> Option<(char, usize)> {
    let first = text.chars().next()?;
    let until = |end: char| text.char_indices().take(MAX_ENTITY).find(|(_, c)| *c == end).map(|(at, _)| at);
    let read = match first {
        '&' => until(';').and_then(|end| Some((entity(text.get(1..end)?)?, end + 1))),
        '<' if text.get(1..)?.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic()) => {
            until('>').map(|end| (' ', end + 1))
        }
        _ => None,
    };
    Some(read.unwrap_or((first, first.len_utf8())))
}

/// Longer entities and tags are read as text.
const MAX_ENTITY: usize = 32;

/// The named entities of letters that headings of European languages hold, each before its letter.
const LETTERS: &str =
    "auml ä ouml ö uuml ü szlig ß eacute é egrave è ecirc ê agrave à ccedil ç ntilde ñ aring å oslash ø";

/// The character of an entity. One that is not a letter separates words.
fn entity(name: &str) -> Option<char> {
    if name.starts_with('#') {
        return numbered_entity(name).and_then(char::from_u32);
    }
    let mut words = LETTERS.split(' ').skip_while(|word| !name.eq_ignore_ascii_case(word));
    let letter = words.nth(1).and_then(|letter| letter.chars().next());
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    letter.or(is_name.then_some(' '))
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

/// A reply without the thinking between tags.
pub(crate) fn without_thoughts(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(body(text, 0..text.len(), &Layout::of(text).thoughts))
}

pub(crate) fn body(text: &str, range: Range<usize>, hidden: &[Range<usize>]) -> String {
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

/// Whether a line begins a JSON object that may be a contract without a fence.
fn begins_object(line: &str) -> bool {
    let object = line.trim_start_matches(' ');
    object.starts_with('{') && line.len() - object.len() <= 3
}

/// Whether a line is certainly outside of an object.
fn is_no_object(line: &str) -> bool {
    let has_thought = || ["<", "</"].iter().any(|open| thought_tags(line, open).next().is_some());
    line.trim().is_empty() || is_heading(line) || Fence::opened_by(line).is_some() || has_thought()
}

/// How many braces a line of JSON opens and does not close. Strings end in their line.
fn open_braces(line: &str) -> i64 {
    let (mut open, mut in_string, mut escaped) = (0, false, false);
    for byte in line.bytes() {
        match byte {
            b'"' if !escaped => in_string = !in_string,
            b'{' if !in_string => open += 1,
            b'}' if !in_string => open -= 1,
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    open
}

/// Shows a reply while it streams, line by line, without the contract.
///
/// ```
/// let mut view = loop_core::reply::LiveText::default();
/// assert_eq!(view.push("## Situation\nThe disk is fu"), "## Situation\n");
/// assert_eq!(view.push("ll.\n```json\n{\"analysis_confidence\": \"high\"}\n```\n"), "The disk is full.\n");
/// assert_eq!(view.finish(), "");
/// ```
#[derive(Debug, Default)]
pub struct LiveText {
    line: String,
    /// Whether the text has a line break other than the separators of Unicode.
    has_plain_breaks: bool,
    held: Option<(OpenBlock, String)>,
}

/// What is held back until its end is known.
#[derive(Clone, Copy, Debug)]
enum OpenBlock {
    /// A fenced block, which may be the contract.
    Block(Fence),
    /// Thinking between tags. It is not shown.
    Thought,
    /// A JSON object on lines of its own, which may be the contract, with as many open braces.
    Object(i64),
}

impl LiveText {
    /// Adds a piece of the reply, and returns the text that may be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::new();
        for c in piece.chars() {
            // A carriage return ends its line, unless a line feed follows.
            if c != '\n' && self.line.ends_with('\r') {
                self.line.pop();
                self.line.push('\n');
                self.end_line(&mut shown);
            }
            let c = line_feed(c, &mut self.has_plain_breaks);
            self.line.push(c);
            if c == '\n' {
                self.end_line(&mut shown);
            }
        }
        shown
    }

    /// Ends the reply, and returns the rest of the text.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.end_line(&mut shown);
        // Thinking without an end is over at the next heading.
        while let Some((OpenBlock::Thought, held)) =
            self.held.take_if(|(held, _)| matches!(held, OpenBlock::Thought))
        {
            let lines = held.split_inclusive('\n').skip(1).skip_while(|line| !is_heading(line.trim_end()));
            lines.for_each(|line| self.take_line(line, &mut shown));
        }
        self.release(&mut shown);
        shown
    }

    fn end_line(&mut self, shown: &mut String) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, shown);
        }
    }

    fn take_line(&mut self, mut line: &str, shown: &mut String) {
        if let Some((kind @ (OpenBlock::Block(_) | OpenBlock::Object(_)), held)) = &mut self.held {
            let content = line.trim_end_matches(['\n', '\r']);
            let (is_over, is_end) = match kind {
                OpenBlock::Object(open) => {
                    *open += open_braces(content);
                    (is_no_object(content), *open <= 0)
                }
                OpenBlock::Block(fence) => (is_heading(content), fence.is_closed_by(content)),
                OpenBlock::Thought => (false, false),
            };
            if !is_over {
                held.push_str(line);
            }
            if is_over || is_end {
                self.release(shown);
            }
            if !is_over {
                return;
            }
        }
        // A line may hold the end of one thought and the beginning of another.
        loop {
            if let Some(fence) =
                Fence::opened_by(line.trim_end_matches(['\n', '\r'])).filter(|_| self.held.is_none())
            {
                self.held = Some((OpenBlock::Block(fence), line.to_owned()));
                return;
            }
            if self.held.is_none() && begins_object(line) && !is_no_object(line) {
                let open = open_braces(line);
                self.held = Some((OpenBlock::Object(open), line.to_owned()));
                if open <= 0 {
                    self.release(shown);
                }
                return;
            }
            let is_thought = self.held.is_some();
            let tag = thought_tags(line, if is_thought { "</" } else { "<" }).next();
            let before = tag.as_ref().and_then(|tag| line.get(..tag.start)).unwrap_or(line);
            match (&mut self.held, tag) {
                (Some((_, held)), None) => held.push_str(line),
                (Some(_), Some(tag)) => {
                    self.held = None;
                    line = line.get(tag.end..).unwrap_or_default();
                    if !line.trim().is_empty() {
                        continue;
                    }
                }
                (None, Some(tag)) if !before.ends_with('`') => {
                    shown.push_str(before);
                    self.held = Some((OpenBlock::Thought, String::new()));
                    line = line.get(tag.start..).unwrap_or_default();
                    continue;
                }
                (None, _) => shown.push_str(line),
            }
            return;
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
