//! Other forms in which models write a document, taken where they leave no doubt, and each reported: headings of another
//! level or in bold, the whole reply in a fence, the contract without one.

use std::borrow::Cow;

use crate::reply::contract;
use crate::reply::markdown::{Fence, Heading, Layout, loose_title, with_line_feeds};
use crate::reply::parse_warning::ParseWarning;
use crate::reply::sections::{Names, body};
use crate::types::steps;

/// A reply with its layout. A reply with a declared `##` heading and a fenced contract keeps both as they are.
pub(crate) fn lay_out<'a>(reply: &'a str, names: &Names<'_>) -> (Cow<'a, str>, Layout, Vec<ParseWarning>) {
    let mut odd = Vec::new();
    let mut text = with_line_feeds(reply);
    let mut layout = Layout::of(&text);
    let mut is_strict = has_declared(&text, &layout, names);
    if let Some(inner) = unwrapped(&text, &layout, is_strict, names) {
        odd.push(ParseWarning::FencedReply);
        layout = Layout::of(&inner);
        text = Cow::Owned(inner);
        is_strict = has_declared(&text, &layout, names);
    }
    let loose = if is_strict { Vec::new() } else { loose_headings(&text, &layout, names) };
    odd.extend(loose.iter().map(|heading| {
        let heading = text.get(heading.line.clone()).unwrap_or_default().trim().into();
        ParseWarning::HeadingOfAnotherForm { heading }
    }));
    layout.headings.extend(loose);
    layout.headings.sort_by_key(|heading| heading.line.start);
    if contract::take_bare(&text, &mut layout) {
        odd.push(ParseWarning::UnfencedContract);
    }
    (text, layout, odd)
}

fn has_declared(text: &str, layout: &Layout, names: &Names<'_>) -> bool {
    let written = |heading: &Heading| text.get(heading.text.clone()).unwrap_or_default();
    layout.headings.iter().any(|heading| names.of_heading(written(heading)).is_some())
}

/// The lines with the name of a declared section, for a reply of which no `##` heading has one.
fn loose_headings(text: &str, layout: &Layout, names: &Names<'_>) -> Vec<Heading> {
    let mut found = Vec::new();
    for piece in layout.outside(text.len()) {
        let mut at = piece.start;
        for line in text.get(piece).unwrap_or_default().split_inclusive('\n') {
            steps::count(1);
            if let Some(title) = loose_title(line)
                && names.of_heading(title).is_some()
                && let Some(start) = text.get(at..).and_then(|rest| rest.find(title))
            {
                let text = at + start..at + start + title.len();
                found.push(Heading { line: at..at + line.len(), text });
            }
            at += line.len();
        }
    }
    found
}

/// A reply without the fence around all of it, its contract aside. `None`: there is no such fence.
fn unwrapped(text: &str, layout: &Layout, is_strict: bool, names: &Names<'_>) -> Option<String> {
    /// The fence closes with the last line, or before a contract, which has two such lines at most.
    const CLOSING: usize = 3;
    const LANGUAGES: [&str; 4] = ["", "markdown", "md", "text"];
    let first = layout.blocks.first()?;
    let is_sound = first.closed && is_strict;
    if is_sound || !body(text, 0..first.whole.start, &layout.thoughts).is_empty() {
        return None;
    }
    let before = text.get(..first.whole.start)?;
    let (line, rest) = text.get(first.whole.start..)?.split_once('\n')?;
    let fence = Fence::opened_by(line)?;
    let language = line.trim().trim_start_matches(['`', '~']).trim();
    if !LANGUAGES.iter().any(|known| known.eq_ignore_ascii_case(language)) {
        return None;
    }
    let mut at = 0;
    let lines = rest.split_inclusive('\n').map(|line| {
        at += line.len();
        (at - line.len()..at, line.trim_end())
    });
    let closing: Vec<_> = lines.filter(|(_, line)| fence.is_closed_by(line)).map(|(at, _)| at).collect();
    closing.get(closing.len().saturating_sub(CLOSING)..)?.iter().find_map(|close| {
        let (inside, after) = (rest.get(..close.start)?, rest.get(close.end..)?);
        let within = Layout::of(inside);
        let is_balanced = within.blocks.iter().all(|block| block.closed);
        let is_document =
            has_declared(inside, &within, names) || !loose_headings(inside, &within, names).is_empty();
        let is_all = is_balanced && is_document && contract::is_alone(after);
        is_all.then(|| [before, inside, after].concat())
    })
}
