//! Which passages fit some words: BM25 over two fields, with the document's own score as a tail wind.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::connectors::docs::passage::Passage;

/// How soon another occurrence of a word stops to count.
const SATURATION: f64 = 1.2;
/// How much a long passage must say more.
const LENGTH: f64 = 0.75;
/// How often a word of a heading or of the file's name counts.
const HEADING: u32 = 3;
/// How much of its whole document's score a passage gets, so that the steps of the right procedure are found although the
/// words of the question are in its introduction.
const DOCUMENT: f64 = 0.5;

/// Words that are common in all texts.
const STOP_WORDS: [&str; 78] = [
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "each", "else", "every", "for", "from",
    "get", "had", "has", "have", "he", "her", "his", "how", "if", "in", "into", "is", "it", "its", "me",
    "my", "no", "not", "of", "on", "or", "our", "out", "please", "she", "so", "than", "that", "the", "their",
    "them", "then", "there", "they", "this", "to", "up", "was", "we", "were", "what", "when", "where",
    "which", "who", "will", "with", "would", "you", "your", "yours",
];

/// The words of all passages, counted once.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// A number for each word, from 0 in the order in which they came.
    numbers: HashMap<String, usize>,
    passages: Field,
    documents: Field,
    /// The document of each passage.
    document_of: Vec<usize>,
}

/// Texts as counts of words.
#[derive(Debug, Default)]
struct Field {
    /// By the number of a word: each text that holds it, with how often.
    postings: Vec<Vec<(usize, u32)>>,
    lengths: Vec<u32>,
}

impl Index {
    /// The index over passages, which are in the order of their documents.
    pub(crate) fn over(passages: &[Passage]) -> Self {
        let mut index = Self::default();
        let mut last: Option<&str> = None;
        for passage in passages {
            if last != Some(&passage.path) {
                index.documents.begin();
            }
            last = Some(&passage.path);
            index.document_of.push(index.documents.lengths.len().saturating_sub(1));
            index.passages.begin();
            let name = passage.path.rsplit_once('.').map_or(passage.path.as_str(), |(stem, _)| stem);
            for (text, times) in [(&*passage.heading(), HEADING), (name, HEADING), (&passage.text, 1)] {
                each_word(text, |word| index.add(word, times));
            }
        }
        index
    }

    /// Counts a word of the last passage so many times.
    fn add(&mut self, word: &str, times: u32) {
        let number = match self.numbers.get(word) {
            Some(number) => *number,
            None => {
                let next = self.numbers.len();
                self.numbers.insert(word.to_owned(), next);
                next
            }
        };
        self.passages.add(number, times);
        self.documents.add(number, times);
    }

    /// The positions of the passages that hold any of the words, best first; at most `max`.
    pub(crate) fn best(&self, question: &str, max: usize) -> Vec<usize> {
        let mut requested = BTreeSet::new();
        each_word(question, |word| {
            requested.insert(word.to_owned());
        });
        // Words are taken in their order, so that sums are the same each time.
        let requested: Vec<usize> =
            requested.iter().filter_map(|word| self.numbers.get(word)).copied().collect();
        let passages = self.passages.scores(&requested);
        let documents = self.documents.scores(&requested);
        let mut ranked: Vec<(usize, f64)> = passages
            .into_iter()
            .map(|(at, score)| {
                let document = self.document_of.get(at).and_then(|document| documents.get(document));
                (at, score + DOCUMENT * document.copied().unwrap_or_default())
            })
            .collect();
        // Between equals the order of the passages decides: by path, then by place in the document.
        ranked.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        ranked.into_iter().take(max).map(|(at, _)| at).collect()
    }
}

impl Field {
    /// Begins the next text.
    fn begin(&mut self) {
        self.lengths.push(0);
    }

    /// Counts a word of the text that was begun last so many times.
    fn add(&mut self, number: usize, times: u32) {
        let at = self.lengths.len().saturating_sub(1);
        if let Some(length) = self.lengths.last_mut() {
            *length += times;
        }
        if self.postings.len() <= number {
            self.postings.resize_with(number + 1, Vec::new);
        }
        let Some(postings) = self.postings.get_mut(number) else { return };
        match postings.last_mut() {
            Some((text, count)) if *text == at => *count += times,
            _ => postings.push((at, times)),
        }
    }

    /// The texts that hold any of the words.
    fn scores(&self, requested: &[usize]) -> BTreeMap<usize, f64> {
        let texts = self.lengths.len() as f64;
        let average = f64::from(self.lengths.iter().sum::<u32>()) / texts.max(1.0);
        let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
        for word in requested {
            let Some(postings) = self.postings.get(*word) else { continue };
            let holding = postings.len() as f64;
            let rarity = (1.0 + (texts - holding + 0.5) / (holding + 0.5)).ln();
            for (at, count) in postings {
                let length = f64::from(self.lengths.get(*at).copied().unwrap_or_default());
                let count = f64::from(*count);
                let long = 1.0 - LENGTH + LENGTH * length / average.max(1.0);
                *scores.entry(*at).or_default() +=
                    rarity * count * (SATURATION + 1.0) / (count + SATURATION * long);
            }
        }
        scores
    }
}

/// Calls `take` with the stem of each of a text's words, without stop words.
fn each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut lower = String::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if word.is_ascii() {
            lower.clear();
            lower.push_str(word);
            lower.make_ascii_lowercase();
        } else {
            lower = word.to_lowercase();
        }
        if lower.chars().nth(1).is_some() && STOP_WORDS.binary_search(&&*lower).is_err() {
            stem(&mut lower);
            take(&lower);
        }
    }
}

/// Takes the plural or an ending of English verbs from a word; words with digits stay as they are.
fn stem(word: &mut String) {
    if word.bytes().any(|byte| byte.is_ascii_digit()) {
        return;
    }
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.trim_end_matches("ies").len());
        word.push('y');
    } else if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
        word.pop();
    }
    let has_more_than = |root: &str, chars: usize| root.chars().nth(chars).is_some();
    let singular = word.len();
    let mut roots = ["ing", "ed"].into_iter().filter_map(|ending| word.strip_suffix(ending));
    if let Some(root) = roots.find(|root| has_more_than(root, 3)).map(str::len) {
        word.truncate(root);
    }
    // `failing` and `fail`, `restarting` and `restart` meet; so do `delete`, `deleted` and `deleting`, `stopped` and `stop`.
    if word.strip_suffix('e').is_some_and(|root| has_more_than(root, 2)) {
        word.pop();
    }
    let mut last = word.chars().rev();
    if let (Some(a), Some(b)) = (last.next(), last.next())
        && a == b
        && !matches!(a, 'l' | 's')
        && word.len() < singular
    {
        word.pop();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::connectors::docs::passage::passages;

    fn best(documents: &[(&str, &str)], question: &str) -> Vec<String> {
        let all: Vec<Passage> = documents.iter().flat_map(|(path, text)| passages(path, text)).collect();
        Index::over(&all).best(question, 12).into_iter().map(|at| all[at].place()).collect()
    }

    fn stem(word: &str) -> String {
        let mut word = word.to_owned();
        super::stem(&mut word);
        word
    }

    #[test]
    fn the_stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn forms_of_a_word_meet() {
        for forms in [
            ["backups", "backup"],
            ["failing", "failed"],
            ["fails", "fail"],
            ["policies", "policy"],
            ["deleted", "deleting"],
            ["delete", "deleted"],
            ["stopped", "stop"],
            ["restarting", "restart"],
            ["licences", "licence"],
        ] {
            assert_eq!(stem(forms[0]), stem(forms[1]), "{forms:?}");
        }
        assert_eq!(
            [stem("status"), stem("class"), stem("ring"), stem("0x80070005s")].join(" "),
            "status class ring 0x80070005s"
        );
    }

    #[test]
    fn the_passage_that_holds_the_rare_words_comes_first() {
        // S0-76: a ranking without a model.
        let documents = [
            ("a.md", "# Disk\nThe laptop disk is full."),
            ("b.md", "# Backup\nThe laptop backup failed."),
            ("c.md", "# Laptop\nThe laptop is a laptop."),
        ];
        assert_eq!(best(&documents, "why did the backups fail on the laptop")[0], "b.md › Backup");
        assert_eq!(best(&documents, "zebra"), [""; 0]);
        assert_eq!(best(&documents, "the is a"), [""; 0]);
    }

    #[test]
    fn headings_and_names_count_more_than_text() {
        let documents = [
            ("a.md", "# Printing\nRestart the queue, then look at the tray."),
            ("b.md", "# Queue\nLook at the tray and the paper, then wait."),
        ];
        assert_eq!(best(&documents, "queue")[0], "b.md › Queue");
        let documents = [("x.md", "tray paper"), ("queue-stuck.md", "tray paper")];
        assert_eq!(best(&documents, "queue tray")[0], "queue-stuck.md");
    }

    #[test]
    fn the_right_document_lifts_its_passages() {
        let long = "Other words that say nothing of it. ".repeat(60);
        let vpn =
            format!("# Tunnel down\nKeywords: branch, offline, tunnel\n## Steps\nRestart it.\n\n{long}");
        let mail = format!("# Mail\nKeywords: mailbox\n## Steps\nRestart it.\n\n{long}");
        let seen = best(&[("mail.md", &mail), ("vpn.md", &vpn)], "branch offline restart");
        let steps: Vec<&String> = seen.iter().filter(|place| place.ends_with("Steps")).collect();
        assert_eq!(steps, ["vpn.md › Tunnel down › Steps", "mail.md › Mail › Steps"]);
    }

    #[test]
    fn equals_stand_in_the_order_of_their_paths() {
        let documents = [("a.md", "same words"), ("b.md", "same words"), ("c.md", "same words")];
        assert_eq!(best(&documents, "words"), ["a.md", "b.md", "c.md"]);
    }
}
