//! Reasoning that stands in the text between tags.

/// Parts text at `<think>` and `</think>`, wherever it is cut.
#[derive(Debug, Default)]
pub(super) struct Tags {
    held: String,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but blanks so far.
    #[default]
    Before,
    Inside,
    /// Nothing but blanks since.
    Between,
    After,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Reasoning(String),
    Text(String),
}

impl Tags {
    /// What can be told after this piece.
    pub(super) fn push(&mut self, piece: &str) -> Vec<Part> {
        self.held.push_str(piece);
        let mut parts = Vec::new();
        loop {
            match self.state {
                State::Before => {
                    let text = self.held.trim_start();
                    if let Some(rest) = text.strip_prefix(OPEN) {
                        self.held = rest.to_owned();
                        self.state = State::Inside;
                        continue;
                    }
                    if OPEN.starts_with(text) {
                        return parts;
                    }
                    self.state = State::After;
                }
                State::Inside => {
                    if let Some((reasoning, text)) = self.held.split_once(CLOSE) {
                        push(&mut parts, Part::Reasoning(reasoning.to_owned()));
                        self.held = text.to_owned();
                        self.state = State::Between;
                        continue;
                    }
                    let kept = begun(&self.held, CLOSE);
                    let told = self.held.len() - kept;
                    let rest = self.held.split_off(told);
                    push(&mut parts, Part::Reasoning(std::mem::replace(&mut self.held, rest)));
                    return parts;
                }
                State::Between => {
                    self.held = self.held.trim_start().to_owned();
                    if self.held.is_empty() {
                        return parts;
                    }
                    self.state = State::After;
                }
                State::After => {
                    push(&mut parts, Part::Text(std::mem::take(&mut self.held)));
                    return parts;
                }
            }
        }
    }

    /// What was held back.
    pub(super) fn finish(&mut self) -> Vec<Part> {
        let held = std::mem::take(&mut self.held);
        let mut parts = Vec::new();
        push(&mut parts, if self.state == State::Inside { Part::Reasoning(held) } else { Part::Text(held) });
        parts
    }
}

fn push(parts: &mut Vec<Part>, part: Part) {
    let (Part::Reasoning(text) | Part::Text(text)) = &part;
    if !text.is_empty() {
        parts.push(part);
    }
}

/// How many bytes at the end of `text` are a beginning of `word`.
fn begun(text: &str, word: &str) -> usize {
    (1..word.len())
        .rev()
        .find(|bytes| word.get(..*bytes).is_some_and(|head| text.ends_with(head)))
        .unwrap_or(0)
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
