//! Stop sequences, which the protocol lacks: the text is cut here.

use std::sync::Arc;

use crate::openai_chat::think::begun;

/// Cuts a streamed text at the first stop sequence. The size of the deltas does not change the result.
#[derive(Debug, Default)]
pub(super) struct StopCutter {
    stops: Vec<Arc<str>>,
    /// The possible beginning of a stop sequence.
    held: String,
    /// The stop sequence that was found.
    found: Option<Arc<str>>,
}

impl StopCutter {
    pub(super) fn new(stops: &[Arc<str>]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).map(Arc::clone).collect();
        Self { stops, ..Self::default() }
    }

    /// Whether there are no stop sequences.
    pub(super) fn is_idle(&self) -> bool {
        self.stops.is_empty()
    }

    /// The stop sequence that was found.
    pub(super) fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// The text that is certain after this delta.
    pub(super) fn push(&mut self, piece: &str) -> String {
        if self.found.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        // The stop sequence that is complete first, as if the text were streamed byte by byte.
        let ends = self.stops.iter().filter_map(|stop| {
            let at = self.held.find(&**stop)?;
            Some((at + stop.len(), at, stop))
        });
        if let Some((_, at, stop)) = ends.min_by_key(|(end, at, _)| (*end, *at)) {
            self.found = Some(Arc::clone(stop));
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let kept = self.stops.iter().map(|stop| begun(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text that was held back.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::StopCutter;

    #[test]
    fn the_text_ends_before_the_stop_that_is_complete_first() {
        let check = |stops: &[&str], text: &str, reported: &str, found: Option<&str>| {
            let stops: Vec<_> = stops.iter().map(|stop| (*stop).into()).collect();
            for cut in 0..=text.len() {
                let (first, second) = text.split_at(text.floor_char_boundary(cut));
                let mut pieces = StopCutter::new(&stops);
                let mut all = pieces.push(first) + &pieces.push(second);
                all += &pieces.finish();
                assert_eq!((&*all, pieces.found()), (reported, found), "{text} cut at {cut}");
            }
            let mut letters = StopCutter::new(&stops);
            let mut all: String = text.chars().map(|c| letters.push(c.encode_utf8(&mut [0; 4]))).collect();
            all += &letters.finish();
            assert_eq!((&*all, letters.found()), (reported, found), "{text} letter by letter");
        };
        check(&["END"], "Ä text. ENDing", "Ä text. ", Some("END"));
        check(&["abcd", "c"], "xabcd", "xab", Some("c"));
        check(&["abc", "bc"], "xabc", "x", Some("abc"));
        check(&["END", ""], "only the ENd, EN", "only the ENd, EN", None);
        check(&["aab"], "aaab", "a", Some("aab"));
        check(&["é€"], "é é€", "é ", Some("é€"));
    }
}
