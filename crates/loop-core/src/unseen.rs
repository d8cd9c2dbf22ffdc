//! Characters that nobody sees: the one list by which text from outside is cleaned and compared.

/// Whether a text says nothing that anybody could see.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_unseen(c))
}

/// Whether a reader does not see this character, although it changes what is read: marks that turn the direction of
/// text, zero-width marks, line separators, invisible operators, tags, hidden selectors, private use.
///
/// The joiners U+200C and U+200D and the selectors of text and emoji are not among them: several scripts and emoji
/// need them. Control characters are not either; whoever cleans text decides which line breaks stay.
pub fn is_unseen(c: char) -> bool {
    match c {
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator, zero-width space, direction marks.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => true,
        // Line separators, embeddings and overrides; word joiner, invisible operators, isolates.
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Byte order mark, interlinear annotation.
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Variation selectors can carry bytes, tags spell ASCII.
        '\u{fe00}'..='\u{fe0d}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Nobody can say what a reader sees of these.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        _ => false,
    }
}
