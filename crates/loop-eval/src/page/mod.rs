//! Report pages: one HTML file each, without scripts and external resources, with the same content as the text report.
//!
//! Every text that a page shows is escaped here, since a work item's id or a tool's error may contain anything. The
//! content security policy in the head also forbids scripts, forms and external resources.

mod head;
mod markdown;
mod picture;
mod text;

use std::fmt::Write as _;

pub use crate::interval::Interval;
pub use markdown::{Cites, MarkPiece, markdown_html, marked_html};
pub use picture::Picture;
pub use text::{escape_into, escaped, shortened};

/// A page that is being written.
///
/// ```
/// use loop_eval::page::{PageCell, Page};
///
/// let mut page = Page::new("Eval", "2 runs");
/// page.table(&["case", "runs"], [vec![PageCell::text("<b>"), PageCell::number(2)]]);
/// let html = page.finish();
/// assert!(html.contains("<td class=\"w\">&lt;b&gt;</td><td class=\"n\">2</td>"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    html: String,
    /// Where the content begins, after the head.
    content: usize,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCell(Content, CellStyle);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// A text, and the number of the part of this page that it links to.
    Link(String, usize),
    Picture(Picture),
}

impl Content {
    /// Whether it is one short word, such as an id, which must not break at its hyphens.
    fn is_word(&self) -> bool {
        matches!(self, Self::Text(text) if text.chars().count() <= 20 && !text.contains(char::is_whitespace))
    }
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellStyle {
    Plain,
    Number,
    BadNumber,
    Good,
    Bad,
}

impl PageCell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(Content::Text(text.into()), CellStyle::Plain)
    }

    /// A text, coloured by whether all is well, that links to the part of this page with this number: [`Page::part`].
    pub fn link(text: impl Into<String>, part: usize, is_good: bool) -> Self {
        Self(Content::Link(text.into(), part), if is_good { CellStyle::Good } else { CellStyle::Bad })
    }

    /// A number, aligned to the right.
    pub fn number(number: impl ToString) -> Self {
        Self(Content::Text(number.to_string()), CellStyle::Number)
    }

    /// A text in the colour for success.
    pub fn good(text: impl Into<String>) -> Self {
        Self(Content::Text(text.into()), CellStyle::Good)
    }

    /// A text in the colour for failure.
    pub fn bad(text: impl Into<String>) -> Self {
        Self(Content::Text(text.into()), CellStyle::Bad)
    }

    /// A number in the colour for failure.
    pub fn bad_number(number: impl ToString) -> Self {
        Self(Content::Text(number.to_string()), CellStyle::BadNumber)
    }

    /// A text in the colour for success or failure.
    pub fn judged(text: impl Into<String>, is_good: bool) -> Self {
        if is_good { Self::good(text) } else { Self::bad(text) }
    }

    /// A picture.
    pub fn picture(picture: Picture) -> Self {
        Self(Content::Picture(picture), CellStyle::Plain)
    }
}

impl Page {
    /// A page with this title and a lead line below it.
    pub fn new(title: &str, lead: &str) -> Self {
        let title = escaped(title);
        let mut html = head::BEFORE_TITLE.to_owned();
        let _ = write!(html, "<title>{title}</title>{}", head::AFTER_TITLE);
        let content = html.len();
        let _ = writeln!(html, "<h1>{title}</h1>");
        let mut page = Self { html, content };
        if !lead.is_empty() {
            page.paragraph(lead);
        }
        page
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.html, "<h2>{}</h2>", escaped(text));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.html, "<p>{}</p>", escaped(text));
    }

    /// Adds a line with the overall verdict, in colour.
    pub fn verdict(&mut self, text: &str, is_good: bool) {
        let class = if is_good { "good" } else { "bad" };
        let _ = writeln!(self.html, "<p class=\"verdict {class}\">{}</p>", escaped(text));
    }

    /// Adds preformatted text in a monospaced font.
    pub fn preformatted(&mut self, text: &str) {
        let _ = writeln!(self.html, "<pre>{}</pre>", escaped(text));
    }

    /// Adds a list. An empty list adds nothing.
    pub fn list(&mut self, items: impl IntoIterator<Item = impl AsRef<str>>) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return;
        }
        self.html.push_str("<ul>\n");
        for item in items {
            let _ = writeln!(self.html, "<li>{}</li>", escaped(item.as_ref()));
        }
        self.html.push_str("</ul>\n");
    }

    /// Adds a table. It scrolls sideways if it is wider than the window.
    pub fn table(&mut self, heads: &[&str], rows: impl IntoIterator<Item = Vec<PageCell>>) {
        let rows: Vec<Vec<PageCell>> = rows.into_iter().collect();
        // It can be reached by keyboard, since it can be moved.
        let label = escaped(&heads.join(", "));
        let _ = writeln!(
            self.html,
            "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{label}\"><table>"
        );
        self.html.push_str("<thead><tr>");
        for (at, head) in heads.iter().enumerate() {
            // A head is at the edge at which its column is.
            let first = rows.first().and_then(|row| row.get(at));
            let is_number = first
                .is_some_and(|PageCell(_, look)| matches!(look, CellStyle::Number | CellStyle::BadNumber));
            let class = if is_number { " class=\"n\"" } else { "" };
            let _ = write!(self.html, "<th scope=\"col\"{class}>{}</th>", escaped(head));
        }
        self.html.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            // Of cells that lead to parts, those of which all are good are hidden with them.
            let is_link = |cell: &&PageCell| matches!(cell.0, Content::Link(..));
            let mut links = row.iter().filter(is_link).peekable();
            let is_good = links.peek().is_some() && links.all(|cell| cell.1 == CellStyle::Good);
            self.html.push_str(if is_good { "<tr class=\"part-good\">" } else { "<tr>" });
            for PageCell(content, look) in row {
                let class = match look {
                    CellStyle::Plain if content.is_word() => " class=\"w\"",
                    CellStyle::Plain => "",
                    CellStyle::Number => " class=\"n\"",
                    CellStyle::BadNumber => " class=\"n bad\"",
                    CellStyle::Good => " class=\"good\"",
                    CellStyle::Bad => " class=\"bad\"",
                };
                let content = match content {
                    Content::Text(text) => escaped(&text),
                    Content::Link(text, part) => format!("<a href=\"#part-{part}\">{}</a>", escaped(&text)),
                    Content::Picture(picture) => picture.svg(),
                };
                let _ = write!(self.html, "<td{class}>{content}</td>");
            }
            self.html.push_str("</tr>\n");
        }
        self.html.push_str("</tbody>\n</table></div>\n");
    }

    /// Adds a switch that hides the good parts of the page, and the rows that only link to good parts.
    pub fn only_bad_parts(&mut self, text: &str) {
        let _ = writeln!(
            self.html,
            "<p><label><input type=\"checkbox\" id=\"only-bad\"> {}</label></p>",
            escaped(text)
        );
    }

    /// Adds a collapsible part with a number. A bad part is open.
    pub fn part(&mut self, number: usize, title: &str, is_good: bool, write: impl FnOnce(&mut Self)) {
        let (class, open) = if is_good { ("good", "") } else { ("bad", " open") };
        let title = escaped(title);
        let _ = writeln!(
            self.html,
            "<details class=\"part-{class}\" id=\"part-{number}\"{open}><summary class=\"{class}\">{title}</summary>"
        );
        write(self);
        self.html.push_str("</details>\n");
    }

    /// Adds a picture. It scrolls sideways if it is wider than the window.
    pub fn picture(&mut self, picture: &Picture) {
        let _ = writeln!(
            self.html,
            "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"picture\">{}</div>",
            picture.svg()
        );
    }

    /// Adds a legend: colours as `#rrggbb` with their meanings.
    pub fn legend(&mut self, colours: &[(&'static str, &str)]) {
        self.html.push_str("<p class=\"legend\">");
        for (colour, meaning) in colours {
            let _ = write!(
                self.html,
                "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" \
                 fill=\"{colour}\"/></svg> {}</span>",
                escaped(meaning)
            );
        }
        self.html.push_str("</p>\n");
    }

    /// Adds untrusted Markdown, rendered by [`markdown_html`] without links.
    pub fn markdown(&mut self, text: &str) {
        self.html.push_str("<div class=\"document\">\n");
        self.html.push_str(&markdown_html(text, &|_| None));
        self.html.push_str("</div>\n");
    }

    /// The content between the head and the end of the page, for the page of a server.
    pub fn content(&self) -> &str {
        self.html.get(self.content..).unwrap_or_default()
    }

    /// The complete HTML.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.html.push_str("</main>\n</body>\n</html>\n");
        self.html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_text_of_the_page_wherever_it_is() {
        // A work item's id, a tool's error, a model's name may be anything.
        let hostile = "</title></pre><script>alert('\"&')</script>\u{202e}\u{1b}[2J\u{200b}";
        let mut page = Page::new(hostile, hostile);
        page.heading(hostile);
        page.verdict(hostile, false);
        page.preformatted(hostile);
        page.list([hostile]);
        page.table(
            &[hostile],
            [vec![PageCell::text(hostile), PageCell::bad(hostile), PageCell::number(hostile)]],
        );
        page.table(&[hostile], [vec![PageCell::link(hostile, 1, true)]]);
        page.only_bad_parts(hostile);
        page.part(1, hostile, true, |page| page.paragraph(hostile));
        page.legend(&[("#000000", hostile)]);
        page.markdown(hostile);
        let mut picture = Picture::new(hostile, 1);
        picture.bar((0, 10), "#000000", hostile);
        page.picture(&picture);
        let html = page.finish();
        assert_eq!(html.matches("<script").count(), 0, "{html}");
        assert_eq!(html.matches("</title>").count(), 1 + 2, "{html}");
        assert_eq!(html.matches("</pre>").count(), 1, "{html}");
        assert!(!html.contains(['\u{202e}', '\u{1b}', '\u{200b}']), "{html}");
        assert!(html.contains("[U+202E]") && html.contains("[U+001B]"), "{html}");
        // No attribute can be left either: what is in quotes has none of its own.
        assert!(!html.contains("alert('"), "{html}");
    }
}
