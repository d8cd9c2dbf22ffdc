//! Lists of JSON values without brackets.

use serde::de::IgnoredAny;

/// How many objects a text contains, if it consists of objects separated by commas. `None` for any other text.
pub(super) fn count(text: &str) -> Option<usize> {
    let mut rest = text.trim_ascii();
    let mut objects = 0;
    while !rest.is_empty() {
        if objects > 0 {
            rest = rest.strip_prefix(',')?.trim_ascii_start();
        }
        if !rest.starts_with('{') {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        rest = rest.get(values.byte_offset()..)?.trim_ascii_start();
        objects += 1;
    }
    Some(objects)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn objects_are_counted_at_the_outermost_level_alone() {
        assert_eq!(count(""), Some(0));
        assert_eq!(count(r#"{"a":[1,2,{"b":"},{\",\\"}]}"#), Some(1));
        assert_eq!(count("{\"a\":\",\"} ,\n{\"b\":{}},{\"c\":[{},{}]} "), Some(3));
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
        assert_eq!(count(&deep), Some(1));
    }

    #[test]
    fn anything_else_is_refused() {
        let others = [
            "not json",
            "1",
            "[]",
            "{},",
            ",{}",
            "{}{}",
            "{},,{}",
            "{},1",
            "{",
            r#"{"type":"thinking"}],"x":["#,
            r#"{"a":"\x"}"#,
            "{\"a\":\"\n\"}",
        ];
        for other in others {
            assert_eq!(count(other), None, "{other}");
        }
    }
}
