//! Patterns of tool names: `*` matches any characters, every other character itself.

/// Whether `pattern` matches the whole of `name`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        // The first match is enough, since it leaves the most text for the rest of the pattern.
        let Some(at) = left.find(part) else { return false };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters() {
        let cases: [(&str, &str, bool); 27] = [
            ("fetch", "fetch", true),
            ("fetch", "fetch_it", false),
            ("fetch", "Fetch", false),
            ("*", "", true),
            ("*", "anything", true),
            ("**", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("read_*", "read_order", true),
            ("read_*", "read_", true),
            ("read_*", "read", false),
            ("read_*", "bread_order", false),
            ("*_order", "read_order", true),
            ("*_order", "read_orders", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*a", "aba", true),
            ("a*b*a", "abcba", true),
            ("a*b*a", "acba", true),
            ("a*b*c", "ac", false),
            ("*ab*ab*", "abab", true),
            ("*ab*ab*", "aba", false),
            ("a.c", "abc", false),
            ("a?c", "abc", false),
            ("[ab]", "a", false),
            ("*é*", "café au lait", true),
            ("a*\n*b", "a \n b", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern:?} and {name:?}");
        }
    }
}
