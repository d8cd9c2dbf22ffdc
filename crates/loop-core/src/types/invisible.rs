//! Invisible characters: the one list by which outside text is cleaned and compared.

/// Whether a text has no visible character. Joiners, variation selectors, control characters and letters that are drawn
/// as a blank do not count as visible.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_invisible(c) || is_drawn_as_nothing(c))
}

/// Whether a cleaned text keeps this character: line feeds, tabs, and every character that is neither a control
/// character nor [invisible](is_invisible). Prompts, tool results and people's answers are cleaned by it.
pub fn is_clean(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c))
}

/// Whether this character only changes how its neighbours are drawn, as several scripts and emoji need it: joiners, the
/// grapheme joiner, variation selectors of text and emoji. Names and secrets are compared without them.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{34f}' | '\u{fe0e}' | '\u{fe0f}')
}

/// Whether this character is drawn as nothing by itself, although a text may need it.
pub(crate) fn is_drawn_as_nothing(c: char) -> bool {
    match c {
        // Fillers of Hangul, a Khmer inherent vowel, the blank of Braille.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' => true,
        c => is_joiner(c),
    }
}

/// Whether this character is invisible but changes what is read: direction marks, zero-width characters, line
/// separators, invisible operators, tags, hidden variation selectors, private use.
///
/// [Joiners](is_joiner) and control characters are not among them. The caller decides which line breaks stay.
pub fn is_invisible(c: char) -> bool {
    match c {
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator, zero-width space, direction marks.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => true,
        // Line separators, embeddings and overrides; word joiner, invisible operators, isolates.
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Byte order mark, interlinear annotation.
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Variation selectors can carry bytes, tags spell ASCII.
        '\u{fe00}'..='\u{fe0d}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Private use: how a reader sees these is unknown.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        _ => false,
    }
}

/// The code of the character that an HTML entity names by its number, such as `#65` and `#x41`.
pub(crate) fn numbered_entity(name: &str) -> Option<u32> {
    let number = name.strip_prefix('#')?;
    match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_blank;

    #[test]
    fn a_text_of_joiners_fillers_and_control_characters_alone_is_blank() {
        assert!(is_blank("\u{200b}\u{200d}\u{2060}\u{feff}\u{fe0f}\u{3164}\u{0}\u{1b} \n"));
        // What joins something is part of it.
        assert!(!is_blank("\u{1f469}\u{200d}\u{1f4bb}"));
        assert!(!is_blank("\u{200d}."));
    }
}
