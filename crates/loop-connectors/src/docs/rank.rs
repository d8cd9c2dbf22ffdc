//! Which passages fit some words: BM25 over two fields, with the document's own score as a tail wind.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::docs::passage::Passage;

/// How soon another occurrence of a word stops to count.
const SATURATION: f64 = 1.2;
/// How much a long passage must say more.
const LENGTH: f64 = 0.75;
/// How often a word of a heading or of the file's name counts.
const HEADING: u32 = 3;
/// How much of its whole document's score a passage gets, so that the steps of the right procedure are found although the
/// words of the question are in its introduction.
const DOCUMENT: f64 = 0.5;

/// Words that stand everywhere.
const STOP_WORDS: [&str; 78] = [
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "each", "else", "every", "for", "from",
    "get", "had", "has", "have", "he", "her", "his", "how", "if", "in", "into", "is", "it", "its", "me",
    "my", "no", "not", "of", "on", "or", "our", "out", "please", "she", "so", "than", "that", "the", "their",
    "them", "then", "there", "they", "this", "to", "up", "was", "we", "were", "what", "when", "where",
    "which", "who", "will", "with", "would", "you", "your", "yours",
];

/// The words of all passages, counted once.
#[derive(Debug)]
pub(crate) struct Index {
    passages: Field,
    documents: Field,
    /// The document of each passage.
    document_of: Vec<usize>,
}

/// Texts as counts of words.
#[derive(Debug, Default)]
struct Field {
    /// By word: each text that holds it, with how often.
    postings: HashMap<String, Vec<(usize, u32)>>,
    lengths: Vec<u32>,
}

impl Index {
    /// The index over passages, which are in the order of their documents.
    pub(crate) fn over(passages: &[Passage]) -> Self {
        let mut index =
            Self { passages: Field::default(), documents: Field::default(), document_of: Vec::new() };
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let mut last: Option<&str> = None;
        for passage in passages {
            if last.is_some_and(|last| last != passage.path) {
                index.documents.add(std::mem::take(&mut counts));
            }
            last = Some(&passage.path);
            let words = words_of(passage);
            for (word, count) in &words {
                *counts.entry(word.clone()).or_default() += count;
            }
            index.document_of.push(index.documents.lengths.len());
            index.passages.add(words);
        }
        index.documents.add(counts);
        index
    }

    /// The positions of the passages that hold any of the words, best first; at most `max`.
    pub(crate) fn best(&self, question: &str, max: usize) -> Vec<usize> {
        let requested: BTreeSet<String> = words(question).collect();
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
    fn add(&mut self, words: BTreeMap<String, u32>) {
        let at = self.lengths.len();
        self.lengths.push(words.values().sum());
        for (word, count) in words {
            self.postings.entry(word).or_default().push((at, count));
        }
    }

    /// The texts that hold any of the words. Words are taken in their order, so that sums are the same each time.
    fn scores(&self, requested: &BTreeSet<String>) -> BTreeMap<usize, f64> {
        let texts = self.lengths.len() as f64;
        let average = f64::from(self.lengths.iter().sum::<u32>()) / texts.max(1.0);
        let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
        for word in requested {
            let Some(postings) = self.postings.get(word) else {
                continue;
            };
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

/// The words of a passage, with those of its headings and its file counted more.
fn words_of(passage: &Passage) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let name = passage.path.rsplit_once('.').map_or(passage.path.as_str(), |(stem, _)| stem);
    for word in words(&passage.heading()).chain(words(name)) {
        *counts.entry(word).or_default() += HEADING;
    }
    for word in words(&passage.text) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The stems of a text's words, without stop words.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 1 && STOP_WORDS.binary_search(&word.as_str()).is_err())
        .map(|word| stem(&word))
}

/// The word without a plural or an ending of English verbs; words with digits stay as they are.
fn stem(word: &str) -> String {
    if word.chars().any(|c| c.is_ascii_digit()) {
        return word.to_owned();
    }
    let plural = match word {
        _ if word.len() > 4 && word.ends_with("ies") => format!("{}y", word.trim_end_matches("ies")),
        _ if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") => {
            word.strip_suffix('s').unwrap_or(word).to_owned()
        }
        _ => word.to_owned(),
    };
    let root = ["ing", "ed"]
        .into_iter()
        .find_map(|ending| plural.strip_suffix(ending).filter(|root| root.chars().count() > 3));
    let root = root.unwrap_or(&plural);
    // `failing` and `fail`, `restarting` and `restart` meet; so do `delete`, `deleted` and `deleting`, `stopped` and `stop`.
    let root = root.strip_suffix('e').filter(|root| root.chars().count() > 2).unwrap_or(root);
    let mut last = root.chars().rev();
    match (last.next(), last.next()) {
        (Some(a), Some(b)) if a == b && !matches!(a, 'l' | 's') && root.len() < plural.len() => {
            root.strip_suffix(a).unwrap_or(root).to_owned()
        }
        _ => root.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::docs::passage::passages;

    fn best(documents: &[(&str, &str)], question: &str) -> Vec<String> {
        let all: Vec<Passage> = documents.iter().flat_map(|(path, text)| passages(path, text)).collect();
        Index::over(&all).best(question, 12).into_iter().map(|at| all[at].place()).collect()
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
