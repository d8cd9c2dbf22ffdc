//! Documents cut at their headings into passages.
//!
//! A short document is one passage: its steps are of no use without its title, and its keywords are of no use without its
//! steps. A longer one is cut at its headings, short parts stay with the part above them, and long ones are cut between
//! paragraphs.

/// The most characters of a document that is one passage.
pub(crate) const WHOLE_CHARS: usize = 2_000;
/// The most characters of a passage of a longer document, unless one paragraph alone is longer.
const PART_CHARS: usize = 1_200;

/// A document or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The document's path below the folder.
    pub(crate) path: String,
    /// The headings above it, outermost first; empty before the first heading.
    pub(crate) trail: Vec<String>,
    /// The text, without the last of these headings; headings inside it are in it.
    pub(crate) text: String,
}

impl Passage {
    /// The headings in one line.
    pub(crate) fn heading(&self) -> String {
        self.trail.join(" › ")
    }

    /// `path › heading`.
    pub(crate) fn place(&self) -> String {
        if self.trail.is_empty() {
            self.path.clone()
        } else {
            format!("{} › {}", self.path, self.heading())
        }
    }
}

/// The passages of a document, in its order.
pub(crate) fn passages(path: &str, text: &str) -> Vec<Passage> {
    let parts = parts(text);
    let whole: usize = parts.iter().map(|part| part.text.chars().count()).sum();
    let mut passages: Vec<Passage> = Vec::new();
    if whole <= WHOLE_CHARS {
        let title = parts.iter().find_map(|part| part.trail.first().cloned());
        let trail: Vec<String> = title.into_iter().collect();
        let bodies: Vec<String> = parts.iter().map(|part| part.below(&trail)).collect();
        if !bodies.is_empty() {
            passages.push(Passage { path: path.to_owned(), trail, text: bodies.join("\n\n") });
        }
        return passages;
    }
    for part in parts {
        let last =
            passages.last_mut().filter(|last| !last.trail.is_empty() && part.trail.starts_with(&last.trail));
        if let Some(last) = last {
            let below = part.below(&last.trail);
            if last.text.chars().count() + below.chars().count() <= PART_CHARS {
                last.text = format!("{}\n\n{below}", last.text);
                continue;
            }
        }
        for text in pieces(&part.text) {
            passages.push(Passage { path: path.to_owned(), trail: part.trail.clone(), text });
        }
    }
    passages
}

/// The text under one heading.
struct Part {
    trail: Vec<String>,
    text: String,
}

impl Part {
    /// The text as it is in a passage with this trail: under those of its headings that the trail lacks.
    fn below(&self, trail: &[String]) -> String {
        let shared = self.trail.iter().zip(trail).take_while(|(a, b)| a == b).count();
        match self.trail.get(shared..).unwrap_or_default() {
            [] => self.text.clone(),
            own => format!("#### {}\n\n{}", own.join(" › "), self.text),
        }
    }
}

/// A text cut between paragraphs; a fence is one paragraph, whatever is in it.
fn pieces(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut fenced = false;
    for part in text.split("\n\n") {
        match paragraphs.last_mut().filter(|_| fenced) {
            Some(open) => {
                open.push_str("\n\n");
                open.push_str(part);
            }
            None => paragraphs.push(part.to_owned()),
        }
        let marks = part.lines().filter(|line| line.trim_start().starts_with("```")).count();
        fenced ^= !marks.is_multiple_of(2);
    }
    let mut pieces: Vec<String> = Vec::new();
    for paragraph in paragraphs {
        let fits = |last: &String| last.chars().count() + paragraph.chars().count() <= PART_CHARS;
        match pieces.last_mut().filter(|last| fits(last)) {
            Some(last) => {
                last.push_str("\n\n");
                last.push_str(&paragraph);
            }
            None => pieces.push(paragraph),
        }
    }
    pieces
}

/// The text under each heading, in order. A heading inside a fence is text.
fn parts(text: &str) -> Vec<Part> {
    let mut cutter = Cutter { trail: Vec::new(), body: Vec::new(), parts: Vec::new() };
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        match fence {
            Some(open) => {
                if trimmed.starts_with(open) {
                    fence = None;
                }
                cutter.body.push(line);
            }
            None => {
                fence = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
                match heading(line) {
                    Some((level, heading)) => cutter.turn(level, heading),
                    None => cutter.body.push(line),
                }
            }
        }
    }
    cutter.close();
    cutter.parts
}

struct Cutter<'a> {
    /// Each with its level.
    trail: Vec<(usize, String)>,
    body: Vec<&'a str>,
    parts: Vec<Part>,
}

impl Cutter<'_> {
    fn turn(&mut self, level: usize, heading: &str) {
        self.close();
        self.trail.retain(|(above, _)| *above < level);
        self.trail.push((level, heading.to_owned()));
    }

    fn close(&mut self) {
        let text = self.body.join("\n").trim().to_owned();
        self.body.clear();
        if !text.is_empty() {
            let trail = self.trail.iter().map(|(_, heading)| heading.clone()).collect();
            self.parts.push(Part { trail, text });
        }
    }
}

/// `## Text ##` is level 2 with `Text`.
fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let is_heading = (1..=6).contains(&level) && rest.starts_with([' ', '\t']);
    let text = rest.trim().trim_end_matches('#').trim_end();
    (is_heading && !text.is_empty()).then_some((level, text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<(String, String)> {
        passages("x.md", text).into_iter().map(|passage| (passage.place(), passage.text)).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(place, text)| ((*place).to_owned(), (*text).to_owned())).collect();
        assert_eq!(seen(text), expected);
    }

    #[test]
    fn a_short_document_is_one_passage() {
        let text = "before\n\n# A\nin a\n\n## B ##\nin b\n### C\nin c\n## D\n\n#tag is text\n";
        let whole = "before\n\nin a\n\n#### B\n\nin b\n\n#### B › C\n\nin c\n\n#### D\n\n#tag is text";
        check(text, &[("x.md › A", whole)]);
        check("only text", &[("x.md", "only text")]);
        check("\n\n", &[]);
        check("# A\n\n## B\n\n# \n", &[("x.md › A", "#### B\n\n#")]);
    }

    #[test]
    fn a_long_document_is_cut_at_its_headings_and_short_parts_stay_together() {
        let long = "word ".repeat(400);
        let text = format!("# A\nin a\n## B\nin b\n## C\n{long}\n## D\nin d\n### E\nin e");
        let long = long.trim();
        let expected = [
            ("x.md › A", "in a\n\n#### B\n\nin b"),
            ("x.md › A › C", long),
            ("x.md › A › D", "in d\n\n#### E\n\nin e"),
        ];
        check(&text, &expected);
    }

    #[test]
    fn a_long_part_is_cut_between_paragraphs_and_not_inside_a_fence() {
        let long = "word ".repeat(200);
        let long = long.trim();
        let fence = format!("```\na\n\n{long}\n```");
        let text = format!("# A\n{long}\n\n{long}\n\n{fence}");
        check(&text, &[("x.md › A", long), ("x.md › A", long), ("x.md › A", &fence)]);
    }

    #[test]
    fn a_heading_inside_a_fence_is_text() {
        let text = "# A\n```sh\n# a comment\n```\n~~~\n## no\n~~~\nend";
        check(text, &[("x.md › A", text.strip_prefix("# A\n").unwrap())]);
    }
}
