//! Citations: `[E1]` or `[E1, E3]` outside of code.

use std::collections::BTreeSet;

use crate::ids::EvidenceId;
use crate::layout::Layout;

/// The evidence that a body cites, each once, in order of number.
pub fn citations(body: &str) -> Vec<EvidenceId> {
    let layout = Layout::of(body);
    let mut cited = BTreeSet::new();
    let mut at = 0;
    for block in &layout.blocks {
        prose(body.get(at..block.whole.start).unwrap_or_default(), &mut cited);
        at = block.whole.end;
    }
    prose(body.get(at..).unwrap_or_default(), &mut cited);
    cited.into_iter().collect()
}

fn prose(text: &str, cited: &mut BTreeSet<EvidenceId>) {
    let mut rest = text;
    while let Some(at) = rest.find(['[', '`']) {
        let (mark, after) = rest.split_at(at).1.split_at(1);
        rest = if mark == "`" {
            skip_code(after)
        } else {
            match after.split_once(']').and_then(|(inner, after)| Some((numbers(inner)?, after))) {
                Some((ids, after)) => {
                    cited.extend(ids);
                    after
                }
                None => after,
            }
        };
    }
}

/// What follows a code span that one back-tick has opened; a span without an end is no span.
fn skip_code(after: &str) -> &str {
    let more = after.bytes().take_while(|byte| *byte == b'`').count();
    let content = after.get(more..).unwrap_or_default();
    let mut at = 0;
    while let Some(open) = content.get(at..).and_then(|rest| rest.find('`')) {
        let start = at + open;
        let run = content.bytes().skip(start).take_while(|byte| *byte == b'`').count();
        if run == more + 1 {
            return content.get(start + run..).unwrap_or_default();
        }
        at = start + run;
    }
    content
}

fn numbers(inner: &str) -> Option<Vec<EvidenceId>> {
    inner
        .split([',', ';'])
        .map(|part| {
            let digits = part.trim().strip_prefix('E')?;
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok().map(EvidenceId)).flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(body: &str, expected: &[u32]) {
        let expected: Vec<EvidenceId> = expected.iter().copied().map(EvidenceId).collect();
        assert_eq!(citations(body), expected, "{body}");
    }

    #[test]
    fn citations_stand_outside_of_code() {
        check("full [E1], and [E3, E2]; again [E1].", &[1, 2, 3]);
        check("`[E1]` and ``x ` [E2]`` but [E4]", &[4]);
        check("```\n[E1]\n```\n[E2]\n~~~\n[E3]\n", &[2]);
        check("[E], [e1], [E1x], [F1], [E1 E2], E5, [E99999999999]", &[]);
        check("[see [E7]] and [E8](link)", &[7, 8]);
        check("an open ` tick [E1]", &[1]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(body in "[\\[\\]E0-9,; `~\n#é]{0,60}") {
            citations(&body);
        }
    }
}
