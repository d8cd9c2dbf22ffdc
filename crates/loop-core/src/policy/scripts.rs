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

/// The name of the writing system of a letter. `None`: the character is not a letter, or it does not count.
fn script(c: char) -> Option<&'static str> {
    match c {
        // The micro sign is used with Latin units, the tatweel stretches Arabic words, and these marks are East Asian.
        '\u{b5}' | '\u{640}' | '\u{3000}'..='\u{303f}' | '\u{30fc}' | '\u{ff70}' => None,
        // Latin letters that are combined with others, raised, lowered, phonetic or joined, and Roman numerals.
        '\u{363}'..='\u{36f}' | '\u{1d2c}'..='\u{1dbf}' | '\u{2090}'..='\u{209c}' => Some(LOOK_ALIKE),
        '\u{2071}' | '\u{207f}' | '\u{2160}'..='\u{2188}' | '\u{ab30}'..='\u{ab6f}' => Some(LOOK_ALIKE),
        '\u{fb00}'..='\u{fb06}' | '\u{10780}'..='\u{107bf}' | '\u{1df00}'..='\u{1dfff}' => Some(LOOK_ALIKE),
        // Latin letters in wide, mathematical or circled form.
        '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => Some(LOOK_ALIKE),
        '\u{2100}'..='\u{214f}' | '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f189}' => Some(LOOK_ALIKE),
        c if !c.is_alphabetic() => None,
        c => match c.script() {
            // Marks inside the words of several scripts, such as the vowels of Arabic.
            Script::Inherited => None,
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
        let cases: [(&str, &[&str]); 22] = [
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
            ("10\u{b5}F", &[]),
            ("\u{645}\u{640}\u{62d}\u{64e}", &[]),
            ("iPhone\u{30b1}\u{30fc}\u{30b9}", &[]),
            // An apostrophe that is a letter of no script, a Roman numeral, a lowered and a raised letter.
            ("o\u{2bc}neil", &["Latin", "Common"]),
            ("\u{217c}ogin", &["Latin", LOOK_ALIKE]),
            ("p\u{2090}ypal", &["Latin", LOOK_ALIKE]),
            ("p\u{1d43}ypal", &["Latin", LOOK_ALIKE]),
            ("\u{16ad}\u{16aa}b", &["Latin", "Runic"]),
            ("\u{585}range", &["Latin", "Armenian"]),
        ];
        for (word, expected) in cases {
            assert_eq!(mixed(word).unwrap_or_default(), expected, "{word}");
        }
    }
}
