//! Scripts.

/// Whether a character is of a script that sets no spaces between words.
pub fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3005}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}
