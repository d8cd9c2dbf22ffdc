//! What a person asks for: words, what is wanted, names, numbers, and what is to become what.

use std::collections::BTreeSet;

use crate::offline::words::{stem, stems};

/// What a verb asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// To see something.
    Look,
    Update,
    Create,
    Delete,
    Send,
    /// To keep a result.
    Save,
    /// It is not known.
    Other,
}

/// Verbs by what they ask for.
const VERBS: [(Kind, &str); 6] = [
    (
        Kind::Look,
        "find search look lookup get show list fetch read check count query retrieve describe display view select \
         load browse calculate compute convert give tell",
    ),
    (
        Kind::Update,
        "update change set rename move make edit modify correct replace assign mark switch raise increase reduce adjust \
         transfer patch",
    ),
    (Kind::Create, "create add register insert open"),
    (Kind::Delete, "delete remove drop cancel erase close"),
    (Kind::Send, "send notify mail email post message"),
    (Kind::Save, "save store record report return extract emit present answer log"),
];

/// Words before a verb that is asked for.
const ASKING: &str =
    " please and then to you also now just must should will can could let's us kindly be would we i ";

/// Words that begin with a capital at the beginning of a sentence, and name nothing.
const NO_NAMES: &str = " a an the this that these those there here he she it we you they i his her its their our your my \
    hello hi hey dear thanks thank ok okay yes no good morning evening day who what which where when why how whose is are \
    was were do does did has have had can could will would shall should may might must if in on at of for from with by to \
    and or but so as please then also now all any every each some mr mrs ms dr usd eur gbp chf id not new named called ";

/// Words inside a name that begin with a small letter.
const PARTICLES: &str = " van von de der den da di del la le ";

/// Words that end a value.
const ENDS_VALUE: &str = " and then but so because please ";

#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) low: String,
    quoted: bool,
    /// It begins a sentence.
    starts: bool,
    /// A part of the sentence ends behind it.
    ends: bool,
    /// It ends in `'s`.
    pub(super) owns: bool,
    /// It ends in a colon, or an equals sign follows.
    labels: bool,
}

/// A name, and how it is in the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) stands: Stands,
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// What is spoken of.
    Subject,
    /// After `of`, `for` and the like: whom the subject belongs to.
    Belongs,
    /// After `in`, `from` and the like.
    Place,
    /// After `to`.
    Target,
}

/// A number, and the words beside it.
#[derive(Debug)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) currency: Option<&'static str>,
    /// The word before it and the two behind it.
    pub(super) beside: Vec<String>,
    /// It is written as a number of something: `#42`, `id 42`.
    pub(super) is_id: bool,
}

/// `field to value`, `field: value`.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) field: Vec<String>,
    pub(super) value: String,
    /// It is the second form.
    pub(super) is_label: bool,
}

/// A text that asks for something.
#[derive(Debug)]
pub(super) struct UserRequest {
    pub(super) text: String,
    pub(super) words: Vec<Word>,
    pub(super) stems: BTreeSet<String>,
    pub(super) asks: Vec<Kind>,
    pub(super) names: Vec<Name>,
    pub(super) numbers: Vec<Number>,
    pub(super) assigned: Vec<Assigned>,
}

/// How much of a text is read. The work for it may grow with its square, as each name is looked for in all of it.
const TEXT_BYTES: usize = 64 << 10;
/// How many things a text speaks of. Each is looked up.
const SUBJECTS: usize = 32;

impl UserRequest {
    /// Reads the first [`TEXT_BYTES`] of a text; `nouns` are words of tools, which name nothing even when they begin with a
    /// capital.
    pub(super) fn read(text: &str, nouns: &BTreeSet<String>) -> Self {
        let text = text.get(..text.floor_char_boundary(TEXT_BYTES)).unwrap_or(text);
        let words = words(text);
        let assigned = assigned(&words);
        let mut names = names(&words, nouns);
        let quoted = words.iter().enumerate().filter(|(_, word)| word.quoted);
        names.extend(quoted.map(|(at, word)| Name { text: word.text.clone(), stands: Stands::Subject, at }));
        names.retain(|name| !assigned.iter().any(|assigned| assigned.value.contains(&name.text)));
        let mut subjects = BTreeSet::new();
        names.retain(|name| {
            name.stands != Stands::Subject
                || (subjects.len() < SUBJECTS && subjects.insert(name.text.clone()))
        });
        let asks = asks(&words);
        if names.is_empty() {
            names.extend(small_name(&words, nouns));
        }
        let (stems, numbers) = (stems(text), numbers(&words));
        Self { text: text.to_owned(), words, stems, asks, names, numbers, assigned }
    }

    pub(super) fn asks_for(&self, kind: Kind) -> bool {
        self.asks.contains(&kind)
    }

    /// Names of what is spoken of.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &str> {
        let subjects = self.names.iter().filter(|name| name.stands == Stands::Subject);
        subjects.map(|name| name.text.as_str())
    }

    /// Whether a word is one of a subject's.
    pub(super) fn is_in_subject(&self, word: &str) -> bool {
        self.subjects().any(|subject| holds_words(subject, word))
    }

    /// The first name that stands so.
    pub(super) fn name(&self, stands: Stands) -> Option<&str> {
        self.names.iter().find(|name| name.stands == stands).map(|name| name.text.as_str())
    }

    /// What stands between quotation marks.
    pub(super) fn quoted(&self) -> Option<&str> {
        self.words.iter().find(|word| word.quoted).map(|word| word.text.as_str())
    }

    /// The first mail address.
    pub(super) fn mail(&self) -> Option<&str> {
        let is_mail = |text: &&str| {
            text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.'))
        };
        self.words.iter().map(|word| word.text.as_str()).find(is_mail)
    }

    /// What a thing of the subject's is called that is asked for: `Bob's mail`, `her city`, `the city of Alice`.
    pub(super) fn belongings(&self) -> BTreeSet<String> {
        let owners = " his her its their ";
        let mut found = BTreeSet::new();
        for (at, word) in self.words.iter().enumerate() {
            if word.owns || owners.contains(&format!(" {} ", word.low)) {
                found.extend(self.words.get(at + 1).and_then(|next| stem(&next.low)));
            }
            let is_whole = |name: &&Name| name.stands == Stands::Subject && name.at == at + 1;
            let before = at.checked_sub(1).and_then(|before| self.words.get(before));
            if word.low == "of" && self.names.iter().any(|name| is_whole(&name)) {
                found.extend(before.and_then(|before| stem(&before.low)));
            }
        }
        found
    }

    /// Whether a value of a list is named.
    pub(super) fn says(&self, value: &str) -> bool {
        holds_words(&self.text, value)
    }
}

/// Whether a text holds a phrase as whole words, in any case.
pub(super) fn holds_words(text: &str, phrase: &str) -> bool {
    let plain = |text: &str| {
        let lower = text.to_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        format!(" {} ", words.join(" "))
    };
    let phrase = plain(phrase);
    !phrase.trim().is_empty() && plain(text).contains(&phrase)
}

/// What a verb asks for.
pub(super) fn kind_of(word: &str) -> Option<Kind> {
    let word = stem(&word.to_lowercase())?;
    VERBS
        .iter()
        .find(|(_, verbs)| verbs.split_whitespace().any(|verb| stem(verb).as_ref() == Some(&word)))
        .map(|(kind, _)| *kind)
}

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        let mut starts = true;
        while let Some(first) = rest.chars().next() {
            let (raw, quoted, after) = quoted(rest, first).unwrap_or_else(|| {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                (word, false, after)
            });
            let tail = raw.trim_end_matches(|c: char| ".,;:!?)]}\"".contains(c));
            // What ends a part of the sentence stands behind a quotation, and within any other word.
            let (marks, after) = if quoted {
                let next = after.trim_start_matches(['.', ',', ';', '!', '?']);
                after.split_at(after.len() - next.len())
            } else {
                (raw.get(tail.len()..).unwrap_or_default(), after)
            };
            let text = if quoted { raw } else { tail.trim_start_matches(['(', '[', '{', '"']) };
            let closes = marks.ends_with(['.', '!', '?']);
            if text == "=" || text == "→" || text == "->" {
                if let Some(last) = words.last_mut() {
                    last.labels = true;
                }
            } else if !text.is_empty() {
                let owner =
                    ["'s", "’s"].iter().find_map(|ending| text.strip_suffix(ending)).filter(|_| !quoted);
                let text = owner.unwrap_or(text);
                words.push(Word {
                    text: text.to_owned(),
                    low: text.to_lowercase(),
                    quoted,
                    starts,
                    ends: !marks.is_empty(),
                    owns: owner.is_some(),
                    labels: raw.ends_with(':') && !quoted,
                });
                starts = closes;
            }
            rest = after.trim_start();
        }
        if let Some(last) = words.last_mut() {
            last.ends = true;
        }
    }
    words
}

/// What stands between quotation marks at the beginning of a text, and what follows.
fn quoted(text: &str, first: char) -> Option<(&str, bool, &str)> {
    let close = match first {
        '"' => '"',
        '\'' => '\'',
        '“' | '„' => '”',
        '«' => '»',
        '`' => '`',
        _ => return None,
    };
    let inner = text.get(first.len_utf8()..)?;
    let end = inner.find(close)?;
    let (inside, after) = (inner.get(..end)?, inner.get(end + close.len_utf8()..)?);
    let is_over = after.chars().next().is_none_or(|next| !next.is_alphanumeric());
    (is_over && !inside.trim().is_empty()).then_some((inside.trim(), true, after))
}

/// What the verbs ask for that stand where one asks.
fn asks(words: &[Word]) -> Vec<Kind> {
    let mut asks = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let requested = word.starts || before.is_none_or(|before| before.ends || is_of(ASKING, before));
        let denied = words.iter().take(at).rev().take(2).any(|word| is_denial(&word.low));
        if let Some(kind) = kind_of(&word.low).filter(|kind| requested && !denied && !asks.contains(kind)) {
            asks.push(kind);
        }
    }
    asks
}

pub(super) fn is_denial(word: &str) -> bool {
    ["not", "don't", "no", "never", "without", "isn't", "doesn't"].contains(&word)
}

fn begins_big(word: &Word) -> bool {
    word.text.chars().next().is_some_and(char::is_uppercase) && !word.text.chars().any(|c| c.is_ascii_digit())
}

fn names(words: &[Word], nouns: &BTreeSet<String>) -> Vec<Name> {
    let is_name = |word: &Word| {
        begins_big(word)
            && !word.quoted
            && !word.labels
            && !word.text.contains('@')
            && !word.low.starts_with("i'")
            && !word.low.starts_with("i’")
            && !is_of(NO_NAMES, word)
            && !(word.starts && kind_of(&word.low).is_some())
            && stem(&word.low).is_none_or(|stem| !nouns.contains(&stem))
    };
    let mut names: Vec<Name> = Vec::new();
    let mut at = 0;
    while let Some(first) = words.get(at) {
        if !is_name(first) {
            at += 1;
            continue;
        }
        let mut text = first.text.clone();
        let mut last = at;
        while words.get(last).is_some_and(|word| !word.ends && !word.owns) {
            let joined = |from: usize| words.get(from).filter(|word| is_name(word));
            let particle = words.get(last + 1).filter(|word| is_of(PARTICLES, word));
            if let Some(next) = joined(last + 1) {
                text = format!("{text} {}", next.text);
                last += 1;
            } else if let (Some(small), Some(next)) = (particle, joined(last + 2)) {
                text = format!("{text} {} {}", small.text, next.text);
                last += 2;
            } else {
                break;
            }
        }
        names.push(Name { text, stands: stands(words, at, &names), at });
        at = last + 1;
    }
    names
}

fn stands(words: &[Word], at: usize, known: &[Name]) -> Stands {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let before = before.filter(|before| !before.ends).map_or("", |before| before.low.as_str());
    match before {
        "to" => Stands::Target,
        "in" | "from" | "similar" => Stands::Place,
        "at" => Stands::Belongs,
        "of" | "for" | "with" | "by" if known.iter().any(|name| name.at < at) => Stands::Belongs,
        _ => Stands::Subject,
    }
}

/// A name in small letters: after `named`, or after a verb and words that are in no tool.
fn small_name(words: &[Word], nouns: &BTreeSet<String>) -> Option<Name> {
    let named = words.iter().position(|word| ["named", "called"].contains(&word.low.as_str()));
    let at = named.map(|at| at + 1).filter(|at| words.get(*at).is_some()).or_else(|| {
        let verb = words.iter().position(|word| {
            word.starts && matches!(kind_of(&word.low), Some(Kind::Look | Kind::Update | Kind::Delete))
        })?;
        let is_noun = |word: &&Word| stem(&word.low).is_none_or(|stem| nouns.contains(&stem));
        let at = verb + 1 + words.iter().skip(verb + 1).take_while(is_noun).count();
        // One or two words are a name; more are a description.
        let rest = words.get(at..).unwrap_or_default();
        let end = rest.iter().position(|word| word.ends || word.owns || is_of(ENDS_VALUE, word));
        end.is_some_and(|end| end <= 1).then_some(at)
    })?;
    let is_plain = |word: &&Word| {
        !word.quoted && !is_of(NO_NAMES, word) && word.low.chars().all(|c| c.is_alphabetic() || c == '-')
    };
    let text = words.get(at).filter(is_plain)?.text.clone();
    Some(Name { text, stands: Stands::Subject, at })
}

/// `to` and `as` behind a verb of change, and labels.
fn assigned(words: &[Word]) -> Vec<Assigned> {
    let mut all = Vec::new();
    let mut changes = false;
    let mut field: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let is_link = ["to", "as"].contains(&word.low.as_str()) && changes && !field.is_empty();
        if is_link || word.labels {
            if word.labels {
                field = vec![word.low.clone()];
            }
            let value = value(words.get(at..).unwrap_or_default(), word.labels);
            // A label at the end of a line is a heading.
            let is_heading = word.labels && words.get(at).is_none_or(|next| next.starts);
            if !value.is_empty() && !is_heading {
                at += value.len();
                let value: Vec<&str> = value.iter().map(|word| word.text.as_str()).collect();
                all.push(Assigned {
                    field: std::mem::take(&mut field),
                    value: value.join(" "),
                    is_label: word.labels,
                });
            }
            continue;
        }
        if kind_of(&word.low) == Some(Kind::Update) {
            changes = true;
            field.clear();
            if word.low.starts_with("rename") {
                field.push("name".to_owned());
            }
        } else if is_of(ENDS_VALUE, word) {
            field.clear();
        } else {
            field.push(word.low.clone());
        }
        if word.ends {
            field.clear();
        }
    }
    all
}

/// The words of a value: to the end of the part of the sentence, and without a label to the next `and` as well.
fn value(words: &[Word], is_label: bool) -> &[Word] {
    let end = words.iter().position(|word| !is_label && is_of(ENDS_VALUE, word)).unwrap_or(words.len());
    let last = words.iter().position(|word| word.ends || word.quoted).map_or(end, |last| end.min(last + 1));
    words.get(..last).unwrap_or_default()
}

/// Whether a word is in a list.
fn is_of(list: &str, word: &Word) -> bool {
    list.contains(&format!(" {} ", word.low))
}

fn numbers(words: &[Word]) -> Vec<Number> {
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let low = |at: Option<usize>| at.and_then(|at| words.get(at)).map_or("", |word| word.low.as_str());
        let (before, next) = (low(at.checked_sub(1)), low(Some(at + 1)));
        let Some((mut value, symbol)) = number(&word.low) else { continue };
        match next {
            "thousand" => value *= 1e3,
            "million" => value *= 1e6,
            _ => {}
        }
        let beside = [before, next, low(Some(at + 2))];
        let currency = symbol.or_else(|| beside.iter().find_map(|word| currency(word)));
        let is_id = word.text.starts_with('#') || ["id", "number", "no", "nr"].contains(&before);
        all.push(Number { value, currency, beside: beside.map(str::to_owned).to_vec(), is_id });
    }
    all
}

fn currency(word: &str) -> Option<&'static str> {
    match word {
        "usd" | "dollar" | "dollars" | "us$" | "$" => Some("usd"),
        "eur" | "euro" | "euros" | "€" => Some("eur"),
        "gbp" | "pound" | "pounds" | "£" => Some("gbp"),
        "chf" | "francs" => Some("chf"),
        _ => None,
    }
}

/// `5,000`, `5k`, `$5.50`, `#42`: its value, and the currency that it is written with.
fn number(word: &str) -> Option<(f64, Option<&'static str>)> {
    let bare = word.trim_start_matches(['$', '€', '£', '#']).trim_end_matches(['$', '€', '£', '%']);
    let symbol = word.chars().next().filter(|c| "$€£".contains(*c)).or(word.chars().last());
    let symbol = symbol.and_then(|c| currency(c.encode_utf8(&mut [0; 4])));
    let (digits, times) = match (bare.strip_suffix('k'), bare.strip_suffix('m')) {
        (Some(thousands), _) => (thousands, 1e3),
        (_, Some(millions)) => (millions, 1e6),
        _ => (bare, 1.0),
    };
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',');
    let value: f64 = digits.replace(',', "").parse().ok().filter(|_| is_number)?;
    Some((value * times, symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> UserRequest {
        UserRequest::read(text, &stems("user search update"))
    }

    #[test]
    fn a_long_text_speaks_of_a_bounded_number_of_things_each_once() {
        let read = |text: &str| {
            let read = self::read(text);
            (read.subjects().count(), read.subjects().next().map(str::to_owned), read.text.len())
        };
        let (subjects, first, _) = read(&"Find User named Alice. ".repeat(500));
        assert_eq!((subjects, first.as_deref()), (1, Some("Alice")));
        let many: String = (0..9_000).map(|n| format!("Find \"thing {n}\". ")).collect();
        let (subjects, first, bytes) = read(&many);
        assert_eq!((subjects, first.as_deref(), bytes), (SUBJECTS, Some("thing 0"), TEXT_BYTES));
    }

    #[track_caller]
    fn names_are(text: &str, expected: &[(&str, Stands)]) {
        let user_request = read(text);
        let names: Vec<_> = user_request.names.iter().map(|name| (name.text.as_str(), name.stands)).collect();
        assert_eq!(names, expected, "{text}");
    }

    #[test]
    fn names_stand_for_what_is_spoken_of_or_where_it_belongs() {
        names_are("Find User named Alice", &[("Alice", Stands::Subject)]);
        names_are("Find Bob and update his company to EPAM", &[("Bob", Stands::Subject)]);
        names_are(
            "Ann Lee of Acme has 5000 USD for a new roof",
            &[("Ann Lee", Stands::Subject), ("Acme", Stands::Belongs)],
        );
        names_are("What is the mail of Ludwig van Beethoven?", &[("Ludwig van Beethoven", Stands::Subject)]);
        names_are("show users from Berlin", &[("Berlin", Stands::Place)]);
        names_are("find user named alice", &[("alice", Stands::Subject)]);
        names_are("find alice", &[("alice", Stands::Subject)]);
        names_are("Hello, how are you?", &[]);
    }

    #[test]
    fn what_is_to_become_what() {
        let pairs = |text: &str| -> Vec<(String, String)> {
            let assigned = read(text).assigned;
            assigned.into_iter().map(|one| (one.field.join(" "), one.value)).collect()
        };
        let owned = |field: &str, value: &str| (field.to_owned(), value.to_owned());
        assert_eq!(pairs("Find Bob and update his company to EPAM"), [owned("his company", "EPAM")]);
        assert_eq!(
            pairs("Set Bob's city to \"New York\" and his company to EPAM."),
            [owned("bob city", "New York"), owned("his company", "EPAM")]
        );
        assert_eq!(pairs("name: Ann Lee, budget = 5k"), [owned("name", "Ann Lee"), owned("budget", "5k")]);
        assert_eq!(pairs("Go to Berlin"), []);
        assert_eq!(pairs("Details:\nBob moved"), []);
    }

    #[test]
    fn verbs_count_where_one_asks() {
        assert_eq!(read("Find Bob and update his company").asks, [Kind::Look, Kind::Update]);
        assert_eq!(read("Please delete order 7").asks, [Kind::Delete]);
        assert_eq!(read("What does the last update say?").asks, []);
        assert_eq!(read("Find Bob, but do not update him").asks, [Kind::Look]);
    }

    #[test]
    fn numbers_know_their_currency() {
        let of = |text: &str| -> Vec<(f64, Option<&str>)> {
            read(text).numbers.iter().map(|number| (number.value, number.currency)).collect()
        };
        assert_eq!(of("has 5,000 USD, or €2k"), [(5000.0, Some("usd")), (2000.0, Some("eur"))]);
        assert_eq!(of("order #42 of A-17"), [(42.0, None)]);
    }
}
