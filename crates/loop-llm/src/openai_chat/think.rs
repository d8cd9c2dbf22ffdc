//! Reasoning between tags in the text.

/// Splits text at `<think>` and `</think>`, across chunk boundaries.
///
/// Some servers omit the opening tag. The text before a `</think>` then counts as reasoning if it came in the same delta
/// as the tag, after nothing but whitespace. That is the case in a reply that is not streamed, and in a stream whose
/// first delta contains the tag. In any other stream that text was reported by then, as it is not held back for a tag
/// that may never follow. It stays text, and so does the tag.
#[derive(Debug, Default)]
pub(super) struct Tags {
    held: String,
    /// How many bytes at the beginning of `held` are known to be whitespace.
    blanks: usize,
    state: TagPos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TagPos {
    /// Only whitespace so far.
    #[default]
    Before,
    Inside,
    /// Only whitespace since the closing tag.
    Between,
    After,
}

/// A part of the split text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Reasoning(String),
    Text(String),
}

impl Tags {
    /// The parts that are certain after this delta.
    pub(super) fn push(&mut self, piece: &str) -> Vec<Part> {
        self.held.push_str(piece);
        let mut parts = Vec::new();
        loop {
            match self.state {
                TagPos::Before => {
                    let invisible = self.held.get(self.blanks..).unwrap_or_default();
                    let text = invisible.trim_start();
                    self.blanks += invisible.len() - text.len();
                    if let Some(rest) = text.strip_prefix(OPEN) {
                        self.held = rest.to_owned();
                        self.state = TagPos::Inside;
                        continue;
                    }
                    if OPEN.starts_with(text) || (text != CLOSE && CLOSE.starts_with(text)) {
                        return parts;
                    }
                    if let Some((reasoning, rest)) = text.split_once(CLOSE)
                        && !reasoning.contains(OPEN)
                    {
                        push(&mut parts, Part::Reasoning(reasoning.to_owned()));
                        self.held = rest.to_owned();
                        self.state = TagPos::Between;
                        continue;
                    }
                    self.state = TagPos::After;
                }
                TagPos::Inside => {
                    if let Some((reasoning, text)) = self.held.split_once(CLOSE) {
                        push(&mut parts, Part::Reasoning(reasoning.to_owned()));
                        self.held = text.to_owned();
                        self.state = TagPos::Between;
                        continue;
                    }
                    let kept = begun(&self.held, CLOSE);
                    let reported = self.held.len() - kept;
                    let rest = self.held.split_off(reported);
                    push(&mut parts, Part::Reasoning(std::mem::replace(&mut self.held, rest)));
                    return parts;
                }
                TagPos::Between => {
                    self.held = self.held.trim_start().to_owned();
                    if self.held.is_empty() {
                        return parts;
                    }
                    self.state = TagPos::After;
                }
                TagPos::After => {
                    push(&mut parts, Part::Text(std::mem::take(&mut self.held)));
                    return parts;
                }
            }
        }
    }

    /// The text that was held back.
    pub(super) fn finish(&mut self) -> Vec<Part> {
        let held = std::mem::take(&mut self.held);
        let mut parts = Vec::new();
        push(&mut parts, if self.state == TagPos::Inside { Part::Reasoning(held) } else { Part::Text(held) });
        parts
    }
}

fn push(parts: &mut Vec<Part>, part: Part) {
    let (Part::Reasoning(text) | Part::Text(text)) = &part;
    if !text.is_empty() {
        parts.push(part);
    }
}

/// How many bytes at the end of `text` are a prefix of `word`.
pub(crate) fn begun(text: &str, word: &str) -> usize {
    (1..word.len())
        .rev()
        .find(|bytes| word.get(..*bytes).is_some_and(|head| text.ends_with(head)))
        .unwrap_or(0)
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(pieces: &[&str]) -> (String, String) {
        let (mut tags, mut reasoning, mut visible) = (Tags::default(), String::new(), String::new());
        let mut parts: Vec<Part> = pieces.iter().flat_map(|piece| tags.push(piece)).collect();
        parts.extend(tags.finish());
        for part in parts {
            match part {
                Part::Reasoning(text) => reasoning.push_str(&text),
                Part::Text(text) => visible.push_str(&text),
            }
        }
        (reasoning, visible)
    }

    #[test]
    fn the_opening_tag_may_be_missing() {
        for (pieces, reasoning, visible) in [
            (&["a</think>b"][..], "a", "b"),
            (&["\n", " a\n</think>\n\n", " b</think>"], "a\n", "b</think>"),
            (&["</think>", "b"], "", "b"),
            (&["</", "think", ">b"], "", "b"),
            (&["</", "thin"], "", "</thin"),
            (&["</", "b>"], "", "</b>"),
            // The text before the tag was reported with the delta before.
            (&["a", "</think>b"], "", "a</think>b"),
            // Not at the beginning, so it is not a tag.
            (&["a<think>b</think>c"], "", "a<think>b</think>c"),
        ] {
            let wanted = (reasoning.to_owned(), visible.to_owned());
            assert_eq!(parted(pieces), wanted, "{pieces:?}");
        }
    }

    #[test]
    fn blanks_are_looked_at_once() {
        // Takes half an hour if all whitespace is scanned again for each.
        let blanks = vec![" "; 1_000_000];
        let (reasoning, visible) = parted(&[&blanks[..], &["a"]].concat());
        assert_eq!((reasoning.len(), visible.len()), (0, 1_000_001));
        let tagged = parted(&[&blanks[..], &["<think>a</think>"], &blanks[..], &["b"]].concat());
        assert_eq!(tagged, ("a".to_owned(), "b".to_owned()));
    }
}
