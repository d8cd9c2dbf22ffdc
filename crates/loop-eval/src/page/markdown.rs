//! Renders untrusted Markdown as inert HTML, for the documents that runs write.
//!
//! It supports what documents of runs use: headings, paragraphs, lists, quotes, fenced code, rules and tables, and in a
//! line bold text and code. Everything else, such as links, images and HTML, is shown as text. For every input, the
//! result is text between a fixed set of tags without attributes. The only exception is links of citations (`[E1]`),
//! whose targets the caller sets.

use std::fmt::Write as _;
use std::ops::Range;

use super::text::{escape_into, escaped};

/// The block that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Paragraph,
    List(&'static str),
    Quote,
    Table,
}

impl Block {
    /// Ends this block and begins another.
    fn give_way(&mut self, html: &mut String, next: Self) {
        self.end(html);
        *self = next;
    }

    fn end(self, html: &mut String) {
        match self {
            Self::None => {}
            Self::Paragraph => html.push_str("</p>\n"),
            Self::List(tag) => {
                let _ = writeln!(html, "</li></{tag}>");
            }
            Self::Quote => html.push_str("</p></blockquote>\n"),
            Self::Table => html.push_str("</tbody></table></div>\n"),
        }
    }
}

/// The link of a citation by its evidence number: a fragment such as `E1`. `None`: no link, the citation is shown as
/// text.
pub type Cites<'a> = &'a dyn Fn(u32) -> Option<String>;

/// The HTML of a piece of a marked part: the number of the part, the piece as HTML, and whether it is the last piece. A
/// part has several pieces if it contains markup or a citation.
pub type MarkPiece<'a> = &'a dyn Fn(usize, &str, bool) -> String;

/// Renders Markdown as inert HTML. Headings, lists, quotes, code, rules and tables are rendered. Links, images and HTML
/// are shown as text. Citations outside of code become links within the page.
pub fn markdown_html(text: &str, cites: Cites<'_>) -> String {
    marked_html(text, cites, &[], &|_, piece, _| piece.to_owned())
}

/// [`markdown_html`] with these byte ranges of the text marked, except within blocks of code. A range that overlaps the
/// one before it is not marked.
pub fn marked_html(text: &str, cites: Cites<'_>, ranges: &[Range<usize>], marked: MarkPiece<'_>) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 4);
    let (mut parts, mut end) = (Vec::with_capacity(ranges.len()), 0);
    for (number, range) in ranges.iter().enumerate() {
        if range.start >= end && range.start < range.end {
            parts.push((number, range.clone()));
            end = range.end;
        }
    }
    let line_of = InlineText { text, cites, parts: &parts, marked };
    write(&mut html, text, line_of);
    html
}

/// How the text of a line is rendered.
#[derive(Clone, Copy)]
struct InlineText<'a> {
    /// The whole text, which contains the line.
    text: &'a str,
    cites: Cites<'a>,
    parts: &'a [(usize, Range<usize>)],
    marked: MarkPiece<'a>,
}

impl InlineText<'_> {
    /// Writes a piece of the text, with its marks.
    fn plain(&self, html: &mut String, piece: &str) {
        let Some(Range { start: from, end: to }) = range_of(self.text, piece) else {
            escape_into(html, piece);
            return;
        };
        let first = self.parts.partition_point(|(_, range)| range.end <= from);
        let mut at = from;
        for (number, range) in self.parts.iter().skip(first).take_while(|(_, range)| range.start < to) {
            let (start, end) = (range.start.max(at), range.end.min(to));
            let (before, marked) = (piece.get(at - from..start - from), piece.get(start - from..end - from));
            if let (Some(before), Some(marked)) = (before, marked) {
                escape_into(html, before);
                html.push_str(&(self.marked)(*number, &escaped(marked), range.end <= to));
                at = end;
            }
        }
        escape_into(html, piece.get(at - from..).unwrap_or_default());
    }
}

/// The byte range of a piece within its text, by address. `None`: it is empty, or not a piece of this text.
fn range_of(text: &str, piece: &str) -> Option<Range<usize>> {
    let from = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let range = from..from.checked_add(piece.len())?;
    (!range.is_empty() && range.end <= text.len()).then_some(range)
}

fn write(html: &mut String, text: &str, line_of: InlineText<'_>) {
    let inline = |text: &str| inline(text, line_of);

    let (mut block, mut lines) = (Block::None, text.lines().peekable());
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if let Some(fence) = fence(trimmed) {
            block.give_way(html, Block::None);
            html.push_str("<pre>");
            for code in lines.by_ref().take_while(|code| !code.trim().starts_with(fence)) {
                let _ = writeln!(html, "{}", escaped(code));
            }
            html.push_str("</pre>\n");
        } else if trimmed.is_empty() {
            block.give_way(html, Block::None);
        } else if let Some((level, title)) = heading(trimmed) {
            block.give_way(html, Block::None);
            let _ = writeln!(html, "<h{level}>{}</h{level}>", inline(title));
        } else if is_rule(trimmed) {
            block.give_way(html, Block::None);
            html.push_str("<hr>\n");
        } else if let Some(quoted) = trimmed.strip_prefix('>') {
            let quoted = inline(quoted.trim());
            if block == Block::Quote {
                let _ = write!(html, "\n{quoted}");
            } else {
                block.give_way(html, Block::Quote);
                let _ = write!(html, "<blockquote><p>{quoted}");
            }
        } else if let Some((tag, item)) = item(trimmed) {
            if block == Block::List(tag) {
                let _ = write!(html, "</li>\n<li>{}", inline(item));
            } else {
                block.give_way(html, Block::List(tag));
                let _ = write!(html, "<{tag}>\n<li>{}", inline(item));
            }
        } else if block == Block::Table && trimmed.contains('|') {
            row(html, trimmed, "td", line_of);
        } else if trimmed.contains('|') && lines.peek().is_some_and(|next| is_table_rule(next)) {
            block.give_way(html, Block::Table);
            lines.next();
            html.push_str("<div class=\"wide\"><table><tbody>\n");
            row(html, trimmed, "th", line_of);
        } else if matches!(block, Block::None | Block::Table) {
            block.give_way(html, Block::Paragraph);
            let _ = write!(html, "<p>{}", inline(trimmed));
        } else {
            let _ = write!(html, "\n{}", inline(trimmed));
        }
    }
    block.end(html);
}

/// The fence that begins a block of code.
fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

/// The level of a heading, below those of the page itself, and its text.
fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (1..=6).contains(&level).then_some(())?;
    Some(((level + 1).clamp(3, 4), title.strip_prefix(' ')?.trim()))
}

fn is_rule(line: &str) -> bool {
    line.len() >= 3 && ['-', '*', '_'].iter().any(|mark| line.chars().all(|c| c == *mark))
}

/// The kind of list that an item belongs to, and its text.
fn item(line: &str) -> Option<(&'static str, &str)> {
    if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some(("ul", item));
    }
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - rest.len();
    let item = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))?;
    (1..=9).contains(&digits).then_some(("ol", item))
}

fn is_table_rule(line: &str) -> bool {
    let line = line.trim();
    line.contains('-') && line.contains('|') && line.chars().all(|c| matches!(c, '-' | '|' | ':' | ' '))
}

fn row(html: &mut String, line: &str, tag: &str, of: InlineText<'_>) {
    html.push_str("<tr>");
    for cell in line.trim_matches('|').split('|') {
        let _ = write!(html, "<{tag}>{}</{tag}>", inline(cell.trim(), of));
    }
    html.push_str("</tr>\n");
}

/// Renders bold text and code in a line. The rest stays text.
fn inline(text: &str, of: InlineText<'_>) -> String {
    let (mut html, mut at) = (String::new(), 0);
    let mut marks = ["`", "**"].map(|mark| next_mark(text, 0, mark));
    loop {
        // A mark is looked for again once it is passed, so that a line is read as often as it has kinds of marks.
        for found in &mut marks {
            if let Some(MarkSpan { mark, .. }) = found.take_if(|one| one.inner.start < at + one.mark.len()) {
                *found = next_mark(text, at, mark);
            }
        }
        let filled = marks.iter().flatten().filter(|one| !one.inner.is_empty());
        let Some(MarkSpan { mark, inner }) =
            filled.min_by_key(|one| one.inner.start - one.mark.len()).cloned()
        else {
            break;
        };
        cited(&mut html, text.get(at..inner.start - mark.len()).unwrap_or_default(), of);
        at = inner.end + mark.len();
        let inner = text.get(inner).unwrap_or_default();
        if mark == "`" {
            html.push_str("<code>");
            of.plain(&mut html, inner);
            html.push_str("</code>");
        } else {
            html.push_str("<strong>");
            cited(&mut html, inner, of);
            html.push_str("</strong>");
        }
    }
    cited(&mut html, text.get(at..).unwrap_or_default(), of);
    html
}

/// Renders citations, `[E1]` or `[E1, E3]`, as links where they have a target.
fn cited(html: &mut String, text: &str, of: InlineText<'_>) {
    let (mut rest, mut plain) = (text, text);
    while let Some((_, after)) = rest.split_once('[') {
        let end =
            after.find(|c: char| !matches!(c, 'E' | '0'..='9' | ',' | ';' | ' ')).unwrap_or(after.len());
        let (inside, following) = after.split_at(end);
        rest = after;
        if !following.starts_with(']') {
            continue;
        }
        of.plain(html, plain.get(..plain.len() - after.len()).unwrap_or_default());
        for part in inside.split_inclusive([',', ';']) {
            let id = part.trim_end_matches([',', ';']).trim();
            let number = id.strip_prefix('E').and_then(|digits| digits.parse().ok());
            match number.and_then(of.cites) {
                Some(target) => {
                    let link = format!("<a href=\"#{}\">{}</a>", escaped(&target), escaped(id));
                    html.push_str(&escaped(part).replacen(id, &link, 1));
                }
                None => html.push_str(&escaped(part)),
            }
        }
        (rest, plain) = (following, following);
    }
    of.plain(html, plain);
}

/// Bold text or code: its delimiter and the range of its content.
#[derive(Clone)]
struct MarkSpan {
    mark: &'static str,
    inner: Range<usize>,
}

fn next_mark(text: &str, at: usize, mark: &'static str) -> Option<MarkSpan> {
    let start = at + text.get(at..)?.find(mark)? + mark.len();
    let end = start + text.get(start..)?.find(mark)?;
    Some(MarkSpan { mark, inner: start..end })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by it")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut html = String::new();
        html.push_str(&markdown_html(text, &|_| None));
        assert_eq!(html, expected);
    }

    #[test]
    fn citations_lead_to_their_evidence_outside_of_code() {
        let known = |number| (number < 3).then(|| format!("E{number}"));
        let html = markdown_html("a [E1], [E1; E2, E9] `[E1]` **b [E2]** [E1 [E] [x](E1)", &known);
        let [one, two] = [1, 2].map(|n| format!("<a href=\"#E{n}\">E{n}</a>"));
        assert_eq!(
            html,
            format!(
                "<p>a [{one}], [{one}; {two}, E9] <code>[E1]</code> <strong>b [{two}]</strong> [E1 [E] [x](E1)</p>\n"
            )
        );
    }

    #[test]
    fn marked_parts_are_marked_across_markup_and_outside_of_citations() {
        let text = "- a **42 GB** of `web-1` is <b> [E1], 7 % in [E2, 3 days\n\n```\n42 GB\n```\n| x | 9 h |\n|---|---|\n";
        let range = |part: &str| text.find(part).map(|at| at..at + part.len()).unwrap();
        // One spans bold words, one the citation, one begins within another.
        let ranges =
            [range("a **42 GB**"), range("42 GB"), range("web-1"), range("<b> [E1], 7 %"), range("9 h")];
        let html = marked_html(text, &|number| Some(format!("E{number}")), &ranges, &|n, piece, is_last| {
            format!("<{n}>{piece}{}", if is_last { "!" } else { "" })
        });
        assert_eq!(
            html,
            "<ul>\n<li><0>a <strong><0>42 GB</strong> of <code><2>web-1!</code> is <3>&lt;b&gt; [<a href=\"#E1\">E1</a><3>], 7 %! \
             in [E2, 3 days</li></ul>\n<pre>42 GB\n</pre>\n<div class=\"wide\"><table><tbody>\n\
             <tr><th>x</th><th><4>9 h!</th></tr>\n</tbody></table></div>\n"
        );
    }

    #[test]
    fn what_documents_hold_is_shown_as_such() {
        check("# A\n\ntwo\nlines\n## B", "<h3>A</h3>\n<p>two\nlines</p>\n<h3>B</h3>\n");
        check(
            "- a **b** [E1]\n- `c`\n\n1. d",
            "<ul>\n<li>a <strong>b</strong> [E1]</li>\n<li><code>c</code></li></ul>\n<ol>\n<li>d</li></ol>\n",
        );
        check("> q\n> r\n\n---", "<blockquote><p>q\nr</p></blockquote>\n<hr>\n");
        check("```sh\n<b> & **x**\n```\nafter", "<pre>&lt;b&gt; &amp; **x**\n</pre>\n<p>after</p>\n");
        check(
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "<div class=\"wide\"><table><tbody>\n<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td>2</td></tr>\n</tbody></table></div>\n",
        );
        // What is not closed is what it is written in.
        check("a ** b ` c", "<p>a ** b ` c</p>\n");
        check("```\nno end", "<pre>no end\n</pre>\n");
        check("#no heading\n- \n-x", "<p>#no heading\n-\n-x</p>\n");
    }

    // Issue 40, H1
    #[test]
    fn a_line_takes_time_in_proportion_to_its_length() {
        let ns = |line: &str| {
            let ran = || std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            let ns = || ran().split(' ').next().unwrap().parse::<u64>().unwrap();
            let before = ns();
            let html = markdown_html(line, &|_| None);
            assert!(html.len() < 10 * line.len() + 100);
            ns() - before
        };
        for piece in ["`a` ", "**a** ", "` ", "****", "`` ", "[E1", "[E1] ", "|", "` **a", "<"] {
            let (few, many) = (ns(&piece.repeat(4_000)), ns(&piece.repeat(32_000)));
            assert!(many < 24 * few + 100_000_000, "{piece:?}: {few} ns, then {many}");
        }
        let line = format!("{}**a** **b**", "`a` ".repeat(40_000));
        assert!(ns(&line) < 24 * ns(&line[..line.len() / 8]) + 100_000_000);
    }

    #[test]
    fn links_pictures_and_markup_are_text() {
        check(
            "[x](javascript:alert(1)) ![y](https://a.example/z.png)",
            "<p>[x](javascript:alert(1)) ![y](https://a.example/z.png)</p>\n",
        );
        check(
            "<a href=x onclick=y>**<img src=x onerror=z>**</a>",
            "<p>&lt;a href=x onclick=y&gt;<strong>&lt;img src=x onerror=z&gt;</strong>&lt;/a&gt;</p>\n",
        );
    }

    #[test]
    fn every_tag_is_closed_whatever_the_text_is() {
        // Texts of the characters that mean something, each by its number.
        let pieces = [
            "#", "- ", "1. ", "> ", "```", "`", "**", "|", "|-|", "\n", "\n\n", "x", "<", "\"", "\u{202e}",
            " ",
        ];
        let mut state = 1_u64;
        for _ in 0..4_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            let mut html = String::new();
            html.push_str(&markdown_html(&text, &|_| None));
            let mut open = Vec::new();
            for tag in html.split('<').skip(1).map(|part| part.split_once('>').unwrap().0) {
                let name = tag.split(' ').next().unwrap();
                match name.strip_prefix('/') {
                    Some(closed) => assert_eq!(open.pop(), Some(closed), "{text:?} {html}"),
                    None if name == "hr" => {}
                    None => open.push(name),
                }
                assert!(tag == "div class=\"wide\"" || !tag.contains(' '), "{text:?} {html}");
            }
            assert!(open.is_empty() && !html.contains('\u{202e}'), "{text:?} {html}");
            // Marks are around text, and change nothing else.
            let boundary = |at: usize| text.floor_char_boundary(at % (text.len() + 1));
            let [a, b, c] = [state >> 20, state >> 30, state >> 40].map(|at| boundary(at as usize));
            let mut ranges = [a.min(b)..a.max(b), b.min(c)..b.max(c)];
            ranges.sort_by_key(|range| range.start);
            let marked = marked_html(&text, &|_| None, &ranges, &|_, piece, _| {
                assert!(!piece.is_empty() && !piece.contains('<'), "{text:?} {piece}");
                format!("<i>{piece}</i>")
            });
            assert_eq!(marked.replace("<i>", "").replace("</i>", ""), html, "{text:?} {ranges:?}");
        }
    }
}
