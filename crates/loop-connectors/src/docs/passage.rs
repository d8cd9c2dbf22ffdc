//! Documents cut at their headings into passages.

/// A part of a document under one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The document's path below the folder.
    pub(crate) path: String,
    /// The headings above it, outermost first; empty before the first heading.
    pub(crate) trail: Vec<String>,
    /// The text, without its heading.
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

/// The passages of a document, in its order. A heading inside a fence is text.
pub(crate) fn passages(path: &str, text: &str) -> Vec<Passage> {
    let mut cutter = Cutter {
        path,
        trail: Vec::new(),
        body: Vec::new(),
        passages: Vec::new(),
    };
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
    cutter.passages
}

struct Cutter<'a> {
    path: &'a str,
    /// Each with its level.
    trail: Vec<(usize, String)>,
    body: Vec<&'a str>,
    passages: Vec<Passage>,
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
            self.passages.push(Passage {
                path: self.path.to_owned(),
                trail,
                text,
            });
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
mod tests {
    use super::*;

    #[test]
    fn a_document_is_cut_at_its_headings() {
        let text = "before\n\n# A\nin a\n\n## B ##\nin b\n### C\nin c\n## D\n\n#tag is text\n";
        let seen: Vec<(String, String)> = passages("x.md", text)
            .into_iter()
            .map(|passage| (passage.place(), passage.text))
            .collect();
        let expected = [
            ("x.md", "before"),
            ("x.md › A", "in a"),
            ("x.md › A › B", "in b"),
            ("x.md › A › B › C", "in c"),
            ("x.md › A › D", "#tag is text"),
        ];
        assert_eq!(
            seen,
            expected.map(|(place, text)| (place.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn a_heading_inside_a_fence_is_text() {
        let text = "# A\n```sh\n# a comment\n```\n~~~\n## no\n~~~\nend";
        let seen = passages("x.md", text);
        assert_eq!(seen.len(), 1);
        assert!(seen.iter().all(|passage| passage.text.ends_with("end")));
    }

    #[test]
    fn headings_without_text_give_no_passage() {
        assert_eq!(
            passages("x.md", "# A\n\n## B\n\n# \n"),
            [Passage {
                path: "x.md".to_owned(),
                trail: vec!["A".to_owned(), "B".to_owned()],
                text: "#".to_owned(),
            }]
        );
        assert!(passages("x.md", "\n\n").is_empty());
    }
}
