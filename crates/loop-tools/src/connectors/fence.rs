//! A text as a block that nothing in it can end.

/// The text between fences that are longer than any in it.
pub(crate) fn fenced(text: &str, language: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("a", ""), "```\na\n```");
        assert_eq!(fenced("```\nx", "json"), "````json\n```\nx\n````");
    }
}
