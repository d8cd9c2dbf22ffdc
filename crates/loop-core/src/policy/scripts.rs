//! Which writing system a letter belongs to, as far as letters of one can be taken for letters of another.

/// A writing system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Script {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Cherokee,
    Coptic,
    Lisu,
    Hebrew,
    Arabic,
    Georgian,
    /// Letters that were made to look like Latin ones: wide, mathematical, circled.
    LookAlike,
    /// Chinese, Japanese and Korean, which are written with Latin words among them.
    EastAsian,
    Other,
}

impl Script {
    /// The writing system of a letter; nothing for what is no letter.
    pub(crate) fn of(c: char) -> Option<Self> {
        match c {
            'a'..='z' | 'A'..='Z' => Some(Self::Latin),
            _ if c.is_ascii() => None,
            '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => {
                Some(Self::LookAlike)
            }
            '\u{2100}'..='\u{214f}' | '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f189}' => {
                Some(Self::LookAlike)
            }
            _ if !c.is_alphabetic() => None,
            '\u{aa}'..='\u{24f}' | '\u{250}'..='\u{2af}' | '\u{1d00}'..='\u{1d25}' => Some(Self::Latin),
            '\u{1e00}'..='\u{1eff}' | '\u{2c60}'..='\u{2c7f}' | '\u{a720}'..='\u{a7ff}' => Some(Self::Latin),
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Some(Self::Greek),
            '\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' | '\u{2de0}'..='\u{2dff}' => Some(Self::Cyrillic),
            '\u{a640}'..='\u{a69f}' => Some(Self::Cyrillic),
            '\u{530}'..='\u{58f}' => Some(Self::Armenian),
            '\u{590}'..='\u{5ff}' => Some(Self::Hebrew),
            '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{8a0}'..='\u{8ff}' => Some(Self::Arabic),
            '\u{10a0}'..='\u{10ff}' | '\u{1c90}'..='\u{1cbf}' => Some(Self::Georgian),
            '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => Some(Self::Cherokee),
            '\u{2c80}'..='\u{2cff}' => Some(Self::Coptic),
            '\u{a4d0}'..='\u{a4ff}' => Some(Self::Lisu),
            '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{318f}' | '\u{31a0}'..='\u{31ff}' => {
                Some(Self::EastAsian)
            }
            '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' => {
                Some(Self::EastAsian)
            }
            '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}' => Some(Self::EastAsian),
            _ => Some(Self::Other),
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latin => "Latin",
            Self::Greek => "Greek",
            Self::Cyrillic => "Cyrillic",
            Self::Armenian => "Armenian",
            Self::Cherokee => "Cherokee",
            Self::Coptic => "Coptic",
            Self::Lisu => "Lisu",
            Self::Hebrew => "Hebrew",
            Self::Arabic => "Arabic",
            Self::Georgian => "Georgian",
            Self::LookAlike => "look-alike",
            Self::EastAsian => "East Asian",
            Self::Other => "other",
        }
    }
}

/// The writing systems that a word mixes, where it mixes some that are not written together; look-alikes count alone.
pub(crate) fn mixed(word: &str) -> Option<Vec<Script>> {
    if word.is_ascii() {
        return None;
    }
    let mut scripts: Vec<Script> = word.chars().filter_map(Script::of).collect();
    scripts.sort();
    scripts.dedup();
    scripts.retain(|script| *script != Script::EastAsian);
    (scripts.len() > 1 || scripts.contains(&Script::LookAlike)).then_some(scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_two_systems_in_one_word_are_seen() {
        let cases: [(&str, &[Script]); 14] = [
            ("plain", &[]),
            ("café", &[]),
            ("привет", &[]),
            ("iPhone手机", &[]),
            ("東京タワー", &[]),
            ("naïve-123", &[]),
            ("x1²", &[]),
            ("p\u{430}ypal.com", &[Script::Latin, Script::Cyrillic]),
            ("\u{430}\u{440}\u{440}\u{4cf}\u{435}.com", &[Script::Latin, Script::Cyrillic]),
            ("g\u{3bf}\u{3bf}gle", &[Script::Latin, Script::Greek]),
            ("\u{ff41}\u{ff44}\u{ff41}", &[Script::LookAlike]),
            ("\u{1d44e}da", &[Script::Latin, Script::LookAlike]),
            ("\u{13aa}oogle", &[Script::Latin, Script::Cherokee]),
            ("\u{585}range", &[Script::Latin, Script::Armenian]),
        ];
        for (word, expected) in cases {
            assert_eq!(mixed(word).unwrap_or_default(), expected, "{word}");
        }
    }
}
