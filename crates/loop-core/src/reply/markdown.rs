//! The Markdown layout of a reply: headings, fenced blocks, and the assumed end of an unclosed fence.

use std::ops::Range;

use crate::types::steps;

/// Longer fences count as fences of this length.
const FENCE_MAX: usize = 64;

/// The positions of headings and fenced blocks in a text, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) headings: Vec<Heading>,
    pub(crate) blocks: Vec<Block>,
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
pub(crate) struct Block {
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
    /// block. It then ends before the next `##` line, or with the text.
    pub(crate) fn of(text: &str) -> Self {
        let lines = lines_of(text);
        let mut layout = Self::default();
        let mut n = 0;
        while let Some(line) = lines.get(n) {
            steps::count(1);
            let content = content_of(text, line);
            if let Some(fence) = Fence::opened_by(content) {
                let (end, closed) = end_of_block(text, &lines, n, fence);
                let last = lines.get(end - 1).map_or(line.end, |last| last.end);
                let inner_end =
                    if closed { lines.get(end - 1).map_or(last, |close| close.start) } else { last };
                layout.blocks.push(Block {
                    whole: line.start..last,
                    content: line.end..inner_end.max(line.end),
                    closed,
                });
                n = end;
                continue;
            }
            if let Some(text) = heading_text(content, line.start) {
                layout.headings.push(Heading { line: line.clone(), text });
            }
            n += 1;
        }
        layout
    }
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
pub(crate) fn fenced(text: &str) -> Vec<Range<usize>> {
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
    let rest = line.strip_prefix("##")?;
    if !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let text = rest.trim();
    let text = match text.trim_end_matches('#') {
        bare if bare.len() < text.len() && (bare.is_empty() || bare.ends_with([' ', '\t'])) => {
            bare.trim_end()
        }
        _ => text,
    };
    let offset = start + 2 + (rest.len() - rest.trim_start().len());
    Some(offset..offset + text.len())
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
