//! The Markdown layout of a reply: headings, fenced blocks, thinking, and the assumed end of an unclosed fence.

use std::borrow::Cow;
use std::ops::Range;

use crate::types::{is_invisible, is_joiner, steps};

/// Longer fences count as fences of this length.
const FENCE_MAX: usize = 64;

/// The positions of headings and fenced blocks in a text, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) headings: Vec<Heading>,
    pub(crate) blocks: Vec<FencedBlock>,
    /// The thinking between tags outside of fences, tags included. Headings and blocks inside it do not count.
    pub(crate) thoughts: Vec<Range<usize>>,
    /// Where the first thinking without an end begins. A contract after it may be part of the thinking.
    pub(crate) open_thought: Option<usize>,
}

/// A top-level `##` heading outside of fences.
#[derive(Debug)]
pub(crate) struct Heading {
    /// The whole line, its line break included.
    pub(crate) line: Range<usize>,
    /// The heading's text without the `#` characters.
    pub(crate) text: Range<usize>,
}

/// A fenced block.
#[derive(Debug)]
pub(crate) struct FencedBlock {
    /// From the opening fence to the end of the closing one, line breaks included.
    pub(crate) whole: Range<usize>,
    /// The text between the fences.
    pub(crate) content: Range<usize>,
    /// Whether a closing fence was found.
    pub(crate) closed: bool,
}

impl Layout {
    /// The layout of `text`.
    ///
    /// A fence is unclosed when no closing fence follows, or when the next fence line of its kind opens another
    /// block. It then ends before the next `##` line, or with the text. So does thinking without an end.
    pub(crate) fn of(text: &str) -> Self {
        let mut lines = lines_of(text);
        let has_thoughts =
            text.contains('<') && ["<", "</"].iter().any(|open| thought_tags(text, open).next().is_some());
        let ends: Vec<Range<usize>> =
            if has_thoughts { thought_tags(text, "</").collect() } else { Vec::new() };
        let mut layout = Self::default();
        let mut n = 0;
        while let Some(line) = lines.get(n).cloned() {
            steps::count(1);
            let content = content_of(text, &line);
            if let Some(fence) = Fence::opened_by(content) {
                let (end, closed) = end_of_block(text, &lines, n, fence);
                let last = lines.get(end - 1).map_or(line.end, |last| last.end);
                let inner_end =
                    if closed { lines.get(end - 1).map_or(last, |close| close.start) } else { last };
                layout.blocks.push(FencedBlock {
                    whole: line.start..last,
                    content: line.end..inner_end.max(line.end),
                    closed,
                });
                n = end;
                continue;
            }
            if has_thoughts && let Some(thought) = layout.thought(text, &line, &lines, n, &ends) {
                n += lines.iter().skip(n).take_while(|line| line.end <= thought.end).count();
                // What follows the thinking in its last line is a line of its own.
                if let Some(line) = lines.get_mut(n) {
                    line.start = line.start.max(thought.end);
                }
                layout.thoughts.push(thought);
                continue;
            }
            if let Some(text) = heading_text(content, line.start) {
                layout.headings.push(Heading { line, text });
            }
            n += 1;
        }
        layout
    }

    /// The pieces of a text of this length outside of blocks and thinking.
    pub(crate) fn outside(&self, length: usize) -> Vec<Range<usize>> {
        let blocks = self.blocks.iter().map(|block| block.whole.clone());
        let mut gaps: Vec<Range<usize>> = blocks.chain(self.thoughts.iter().cloned()).collect();
        gaps.sort_unstable_by_key(|gap| gap.start);
        gaps.push(length..length);
        let mut at = 0;
        let between = gaps.into_iter().map(|gap| std::mem::replace(&mut at, gap.end)..gap.start);
        between.filter(|piece| !piece.is_empty()).collect()
    }

    /// The thinking that begins in `line`, or that ends there where its opening tag is missing.
    fn thought(
        &mut self,
        text: &str,
        line: &Range<usize>,
        lines: &[Range<usize>],
        n: usize,
        ends: &[Range<usize>],
    ) -> Option<Range<usize>> {
        let content = content_of(text, line);
        let is_first =
            |tag: &Range<usize>| content.get(..tag.start).is_some_and(|before| before.trim().is_empty());
        // A chat template may write the opening tag, so that a reply holds the closing one alone.
        if let Some(end) = thought_tags(content, "</").next().filter(is_first)
            && ends.first().is_some_and(|first| first.start == line.start + end.start)
            && self.thoughts.is_empty()
            && (self.headings.is_empty()
                || lines.iter().skip(n + 1).any(|line| is_heading(content_of(text, line))))
        {
            self.headings.clear();
            self.blocks.clear();
            return Some(0..line.start + end.end);
        }
        let start = thought_tags(content, "<").find(|tag| {
            is_first(tag) || !content.get(..tag.start).is_some_and(|before| before.ends_with('`'))
        })?;
        let at = line.start + start.start;
        match ends.get(ends.partition_point(|end| end.start < at)) {
            Some(end) => Some(at..end.end),
            None if is_first(&start) => {
                self.open_thought.get_or_insert(at);
                let next = lines.iter().skip(n + 1).find(|line| is_heading(content_of(text, line)));
                Some(at..next.map_or(text.len(), |next| next.start))
            }
            None => None,
        }
    }
}

/// The tags between which models write their thinking.
const THOUGHTS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// The positions of the tags of thinking that begin with `open`: `<` or `</`.
pub(crate) fn thought_tags<'a>(text: &'a str, open: &'static str) -> impl Iterator<Item = Range<usize>> + 'a {
    text.match_indices(open).filter_map(move |(at, _)| {
        let rest = text.as_bytes().get(at + open.len()..)?;
        let tag = THOUGHTS.iter().find(|tag| {
            rest.get(..tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag.as_bytes()))
                && rest.get(tag.len()) == Some(&b'>')
        })?;
        Some(at..at + open.len() + tag.len() + 1)
    })
}

/// Line breaks that no string of JSON holds as they are.
const PLAIN_BREAKS: [char; 4] = ['\n', '\r', '\u{b}', '\u{c}'];

/// A line feed in place of another line break, a carriage return aside. Separators of Unicode end a line only where a
/// text has no other break, since JSON permits them in its strings.
pub(crate) fn line_feed(c: char, has_plain: &mut bool) -> char {
    *has_plain |= PLAIN_BREAKS.contains(&c);
    match c {
        '\u{b}' | '\u{c}' => '\n',
        '\u{85}' | '\u{2028}' | '\u{2029}' if !*has_plain => '\n',
        c => c,
    }
}

/// A reply with line feeds, or carriage returns before them, as its only line breaks.
pub(crate) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    // Most texts are ruled out by bytes: these breaks, and the first bytes of the separators of Unicode.
    let may_break = |byte: &u8| matches!(byte, b'\r' | 0xb | 0xc | 0xc2 | 0xe2);
    let is_plain =
        text.as_bytes().chunks(32).all(|bytes| !bytes.iter().fold(false, |any, it| any | may_break(it)));
    if is_plain || !text.contains(['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']) {
        return Cow::Borrowed(text);
    }
    let mut has_plain = text.contains(PLAIN_BREAKS);
    let following = text.chars().skip(1).map(Some).chain([None]);
    let fed = text.chars().zip(following).map(|(c, next)| match c {
        '\r' if next.is_some_and(|next| next != '\n') => '\n',
        c => line_feed(c, &mut has_plain),
    });
    Cow::Owned(fed.collect())
}

/// A fence's character and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    mark: u8,
    length: usize,
}

impl Fence {
    /// The fence that `line` opens, if it opens one.
    pub(crate) fn opened_by(line: &str) -> Option<Self> {
        let (fence, rest) = Self::split(line)?;
        // A backtick in the info string makes it inline code.
        (fence.mark == b'~' || !rest.contains('`')).then_some(fence)
    }

    /// Whether `line` closes this fence.
    pub(crate) fn is_closed_by(self, line: &str) -> bool {
        Self::split(line).is_some_and(|(other, rest)| {
            other.mark == self.mark && other.length >= self.length && rest.trim().is_empty()
        })
    }

    fn split(line: &str) -> Option<(Self, &str)> {
        let trimmed = line.trim_start_matches(' ');
        if line.len() - trimmed.len() > 3 {
            return None;
        }
        let mark = *trimmed.as_bytes().first()?;
        if mark != b'`' && mark != b'~' {
            return None;
        }
        let length = trimmed.bytes().take_while(|byte| *byte == mark).count();
        // With few distinct lengths, `end_of_block` visits each line at most a fixed number of times.
        let counted = length.min(FENCE_MAX);
        (length >= 3).then(|| (Self { mark, length: counted }, trimmed.get(length..).unwrap_or_default()))
    }
}

/// The fenced blocks of a text, from the opening fence to the closing one, in order.
pub fn fenced(text: &str) -> Vec<Range<usize>> {
    Layout::of(text).blocks.into_iter().map(|block| block.whole).collect()
}

/// Whether a line is a top-level `##` heading.
pub(crate) fn is_heading(line: &str) -> bool {
    heading_text(line, 0).is_some()
}

/// The index after the block's last line, and whether it was closed.
fn end_of_block(text: &str, lines: &[Range<usize>], open: usize, fence: Fence) -> (usize, bool) {
    let mut next_heading = None;
    for (n, line) in lines.iter().enumerate().skip(open + 1) {
        steps::count(1);
        let content = content_of(text, line);
        if fence.is_closed_by(content) {
            return (n + 1, true);
        }
        if next_heading.is_none() && is_heading(content) {
            next_heading = Some(n);
        }
        let opens_another = Fence::split(content)
            .is_some_and(|(other, _)| other.mark == fence.mark && other.length >= fence.length);
        // A nested block with an info string is legal inside a fence. After a heading it shows that the fence was not
        // closed.
        if opens_another && next_heading.is_some() {
            break;
        }
    }
    (next_heading.unwrap_or(lines.len()), false)
}

fn heading_text(line: &str, start: usize) -> Option<Range<usize>> {
    // Most lines begin with another visible character.
    if line.bytes().next().is_some_and(|first| first != b'#' && matches!(first, b'!'..=b'~')) {
        return None;
    }
    // Characters that no reader sees do not make a line another one.
    let is_blank = |c: char| c.is_whitespace() || is_invisible(c);
    let marks = line.trim_start_matches(|c| is_invisible(c) || is_joiner(c)).strip_prefix('#')?;
    let rest = marks.trim_start_matches(is_invisible).strip_prefix('#')?;
    if !(rest.is_empty() || rest.starts_with(is_blank)) {
        return None;
    }
    let text = rest.trim_matches(is_blank);
    let text = match text.trim_end_matches('#') {
        bare if bare.len() < text.len() && (bare.is_empty() || bare.ends_with(is_blank)) => {
            bare.trim_end_matches(is_blank)
        }
        _ => text,
    };
    let offset = start + (line.len() - rest.trim_start_matches(is_blank).len());
    Some(offset..offset + text.len())
}

/// The title in a line of another heading than a `##` one: of another level, without a blank, or in bold.
pub(crate) fn loose_title(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.starts_with('#') && !is_heading(line) {
        return Some(line.trim_matches('#').trim());
    }
    let bold = |mark| line.strip_suffix(':').unwrap_or(line).strip_prefix(mark)?.strip_suffix(mark);
    bold("**").or_else(|| bold("__")).map(str::trim)
}

fn content_of<'a>(text: &'a str, line: &Range<usize>) -> &'a str {
    text.get(line.clone()).unwrap_or_default().trim_end_matches(['\n', '\r'])
}

fn lines_of(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let range = start..start + line.len();
            start = range.end;
            range
        })
        .collect()
}
