//! Words, stems and shapes: all that the stub understands of a text.

use std::collections::BTreeSet;

const STOP: &str = " a about after again all also an and any are as at be been before but by can could did do does for \
    from get give had has have her him his how if in into is it its just may me might more most my no not of off on one \
    only or our out over own please she should so some such than that the their them then there these they this to too \
    two under up us use used using very was we were what when where which while who why will with would you your ";

/// The stems of a text's words, without stop words and numbers.
pub(super) fn stems(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter_map(|word| stem(&word.to_lowercase()))
        .collect()
}

/// How many stems two texts share.
pub(super) fn overlap(a: &BTreeSet<String>, b: &BTreeSet<String>) -> usize {
    a.intersection(b).count()
}

/// The stem of a lower-case word; `None` for stop words, short words and numbers.
pub(super) fn stem(word: &str) -> Option<String> {
    let word = word.trim_matches('\'').trim_end_matches("'s");
    if word.chars().count() < 3
        || STOP.contains(&format!(" {word} "))
        || !word.chars().any(char::is_alphabetic)
    {
        return None;
    }
    for ending in
        ["ations", "ation", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "ly", "y", "s", "e"]
    {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= 3
        {
            return Some(stem.to_owned());
        }
    }
    Some(word.to_owned())
}

/// A number and its noun: `1 word`, `2 words`.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The words of a text that may be names: kept whole with `-`, `.`, `@` and `_` inside.
pub(super) fn names(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || "-.@_".contains(c)))
        .map(|word| word.trim_matches(['-', '.', '_', '@']))
        .filter(|word| word.len() >= 3)
        .collect()
}

/// The words of a text that may be paths of files: with a `/` inside, and an ending.
pub(super) fn paths(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .filter(|word| !word.contains("://"))
        .flat_map(|word| word.split(|c: char| !(c.is_alphanumeric() || "-./@_+".contains(c))))
        .map(|word| word.trim_matches(['-', '.', '/']))
        .filter(|word| is_path(word))
        .collect()
}

fn is_path(word: &str) -> bool {
    let parts = word.rsplit_once('/');
    let has_file = parts.is_some_and(|(folder, file)| !folder.is_empty() && file.contains('.'));
    has_file && !word.contains("://") && !word.contains(char::is_whitespace)
}

/// The form of a name: by it the stub knows which names a tool looks up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An e-mail address.
    Mail,
    /// The path of a file.
    Path,
    /// Runs of letters and digits by length, and the marks between them: `HAR-LT-014` is `a3-a2-93`.
    Runs(String),
}

impl Shape {
    /// The shape of an example; `None` where it is plain words, which anything could be.
    pub(super) fn of(example: &str) -> Option<Self> {
        if is_path(example) {
            return Some(Self::Path);
        }
        let at = example.find('@');
        if let Some((user, host)) = at.and_then(|at| example.split_at_checked(at)) {
            let host = host.trim_start_matches('@');
            let sound =
                !user.is_empty() && host.contains('.') && !host.contains('@') && !example.contains(' ');
            return sound.then_some(Self::Mail);
        }
        let named = example.chars().any(|c| c.is_ascii_digit()) && !example.contains(char::is_whitespace);
        named.then(|| Self::Runs(runs(example)))
    }

    /// Whether a name has this shape.
    pub(super) fn fits(&self, name: &str) -> bool {
        Self::of(name).as_ref() == Some(self)
    }
}

fn runs(text: &str) -> String {
    let class = |c: char| match c {
        c if c.is_numeric() => '9',
        c if c.is_alphabetic() => 'a',
        c => c,
    };
    let mut out = String::new();
    let mut chars = text.chars().map(class).peekable();
    while let Some(c) = chars.next() {
        let mut length = 1;
        while c.is_alphanumeric() && chars.next_if_eq(&c).is_some() {
            length += 1;
        }
        out.push(c);
        if c.is_alphanumeric() {
            out.push_str(&length.to_string());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_tells_names_apart() {
        let host = Shape::of("HAR-LT-014");
        assert!(host.as_ref().is_some_and(|host| host.fits("fen-sv-202") && !host.fits("BJ-HAR-07")));
        assert!(Shape::of("a.b@c.example").is_some_and(|mail| mail.fits("x@y.example") && !mail.fits("x@y")));
        assert_eq!(Shape::of("slow laptop"), None);
        assert_eq!(Shape::of("backup"), None);
    }

    #[test]
    fn names_lose_the_marks_around_them() {
        assert_eq!(names("(HAR-LT-014), mail a.b@c.example."), ["HAR-LT-014", "mail", "a.b@c.example"]);
    }

    #[test]
    fn paths_are_files_in_folders_and_no_addresses() {
        let text =
            "See `src/run/resume.rs:12`, ./docs/a.md. Not https://host.example/a.b, and/or, main.rs, 1/2.";
        assert_eq!(paths(text), ["src/run/resume.rs", "docs/a.md"]);
        assert_eq!(Shape::of("src/main.rs"), Some(Shape::Path));
        assert!(paths(text).iter().all(|path| Shape::Path.fits(path)));
        assert_ne!(Shape::of("https://host.example/a1.b"), Some(Shape::Path));
    }

    #[test]
    fn stems_join_forms_of_a_word() {
        assert_eq!(stems("backups failing"), stems("Backup failed"));
        assert!(stems("the and of 12").is_empty());
    }
}
