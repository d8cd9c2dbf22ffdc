//! Words that mix writing systems: letters of one can be taken for letters of another (homoglyphs).

use unicode_script::{Script, UnicodeScript};

/// The name of look-alike letters in the list of scripts.
const LOOK_ALIKE: &str = "look-alike";

/// The names of the writing systems that a word mixes, Latin first. `None`: it mixes none. A single look-alike letter
/// is enough. Chinese, Japanese and Korean are not counted, since they are written with Latin words among them.
pub(crate) fn mixed(word: &str) -> Option<Vec<&'static str>> {
    if word.is_ascii() {
        return None;
    }
    let mut scripts: Vec<&str> = word.chars().filter_map(script).collect();
    scripts.sort_by_key(|name| (*name != Script::Latin.full_name(), *name));
    scripts.dedup();
    (scripts.len() > 1 || scripts.contains(&LOOK_ALIKE)).then_some(scripts)
}

/// The name of the writing system of a letter. `None`: it is not a letter, or belongs to no system.
fn script(c: char) -> Option<&'static str> {
    match c {
        // Latin letters in wide, mathematical or circled form.
        '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => Some(LOOK_ALIKE),
        '\u{2100}'..='\u{214f}' | '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f189}' => Some(LOOK_ALIKE),
        c if !c.is_alphabetic() => None,
        c => match c.script() {
            Script::Common | Script::Inherited => None,
            Script::Han | Script::Hiragana | Script::Katakana | Script::Hangul | Script::Bopomofo => None,
            script => Some(script.full_name()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_two_systems_in_one_word_are_seen() {
        let cases: [(&str, &[&str]); 16] = [
            ("plain", &[]),
            ("café", &[]),
            ("привет", &[]),
            ("iPhone手机", &[]),
            ("東京タワー", &[]),
            ("naïve-123", &[]),
            ("x1²", &[]),
            ("p\u{430}ypal.com", &["Latin", "Cyrillic"]),
            ("\u{430}\u{440}\u{440}\u{4cf}\u{435}.com", &["Latin", "Cyrillic"]),
            ("g\u{3bf}\u{3bf}gle", &["Latin", "Greek"]),
            ("\u{ff41}\u{ff44}\u{ff41}", &[LOOK_ALIKE]),
            ("\u{1d44e}da", &["Latin", LOOK_ALIKE]),
            ("\u{13aa}oogle", &["Latin", "Cherokee"]),
            ("ʼn\u{2bc}Djamena", &[]),
            // Runic, which had no name here once.
            ("\u{16ad}\u{16aa}b", &["Latin", "Runic"]),
            ("\u{585}range", &["Latin", "Armenian"]),
        ];
        for (word, expected) in cases {
            assert_eq!(mixed(word).unwrap_or_default(), expected, "{word}");
        }
    }
}
