//! Which candidates a model's reply names.

use serde_json::{Deserializer, Value};

/// The most candidates that are kept.
pub(crate) const KEPT: usize = 3;

/// The positions that a reply names: at most three, in its order, each below `count` and named once.
///
/// The reply should be `[{"index": 0, "reason": "why"}]`; a fence or prose around it is passed over, and so is an array
/// that names nothing. Bad entries are left out. Empty: the code decides.
pub(crate) fn selection(reply: &str, count: usize) -> Vec<usize> {
    let mut from = 0;
    while let Some(at) = reply.get(from..).and_then(|rest| rest.find('[')).map(|offset| from + offset) {
        let mut values =
            Deserializer::from_str(reply.get(at..).unwrap_or_default()).into_iter::<Vec<Value>>();
        match values.next() {
            Some(Ok(entries)) => {
                let named = named(&entries, count);
                if !named.is_empty() {
                    return named;
                }
                from = at + values.byte_offset().max(1);
            }
            _ => from = at + 1,
        }
    }
    Vec::new()
}

fn named(entries: &[Value], count: usize) -> Vec<usize> {
    let mut named = Vec::new();
    for entry in entries {
        let index = entry.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        if let Some(index) = index
            && index < count
            && named.len() < KEPT
            && !named.contains(&index)
        {
            named.push(index);
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(reply: &str, expected: &[usize]) {
        assert_eq!(selection(reply, 9), expected, "{reply}");
    }

    #[test]
    fn a_selection_is_read_in_its_order() {
        // S0-73, S0-75
        check(r#"[{"index": 4, "reason": "why"}, {"index": 0}]"#, &[4, 0]);
        check(r#"[{"index": 8, "reason": "a ] and a [ in \" a text"}]"#, &[8]);
    }

    #[test]
    fn a_fence_or_prose_around_it_is_passed_over() {
        check("```json\n[{\"index\": 2}]\n```", &[2]);
        check(r#"Of the 9 [see above], I take [1] and so: [{"index": 1}]. Not [{"index": 3}]."#, &[1]);
        check(r#"{"selected": [{"index": 5}]}"#, &[5]);
        check(r#"[] [{"index": 5}]"#, &[5]);
    }

    #[test]
    fn bad_entries_are_left_out() {
        // S0-d12
        check(
            r#"[{"index": 9}, {"index": -1}, {"index": 1}, {"index": 1}, {"index": 99999999999999999999}]"#,
            &[1],
        );
        check(r#"[{"index": 1}, {"index": 2}, {"index": 3}, {"index": 4}]"#, &[1, 2, 3]);
        check(r#"[{"index": "1"}, {"index": 1.5}, {"index": null}, {}, 3, "4", [5], {"index": 6}]"#, &[6]);
    }

    #[test]
    fn a_reply_that_names_nothing_selects_nothing() {
        // S0-76
        for reply in
            ["", "[]", "[", "none of them", "[0, 2]", r#"[{"index": 9}]"#, r#"[{"index": 1"#, "[[[[[["]
        {
            check(reply, &[]);
        }
        assert_eq!(selection(r#"[{"index": 0}]"#, 0), [0; 0]);
    }

    proptest! {
        #[test]
        fn whatever_the_reply_the_selection_is_sound(reply in "[\\[\\]{}\":,0-9aindexé ]{0,60}", count in 0_usize..5) {
            let named = selection(&reply, count);
            prop_assert!(named.len() <= KEPT);
            prop_assert!(named.iter().all(|index| *index < count));
        }
    }
}
