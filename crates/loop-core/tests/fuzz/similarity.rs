//! Similarity of texts: bounds, and symmetry where the measure has it. S3-20.

use loop_core::repeats::ratio_millis;
use loop_core::types::edits;

/// The bytes are two texts, with a line `---` between them.
pub(crate) fn target(data: &[u8]) {
    let whole = String::from_utf8_lossy(data);
    let parts: Vec<&str> = whole.split("\n---\n").collect();
    let text = |at: usize| parts.get(at).copied().unwrap_or_default().chars().take(400).collect::<String>();
    let (a, b, c) = (text(0), text(1), text(2));
    let length = |text: &str| text.chars().count();
    let distance = edits(&a, &b);
    assert_eq!(distance, edits(&b, &a), "edits are symmetric");
    assert_eq!(distance == 0, a == b);
    assert!(distance <= length(&a).max(length(&b)), "{distance}");
    assert!(distance >= length(&a).abs_diff(length(&b)), "{distance}");
    assert!(edits(&a, &c) <= distance + edits(&b, &c), "the triangle");
    let ratio = ratio_millis(&a, &b);
    assert!(ratio <= 1_000, "{ratio}");
    assert_eq!(ratio, ratio_millis(&a, &b), "the same again");
    // Frequent characters of a long text begin no block, so a long text need not be like itself.
    if length(&a) < 200 {
        assert_eq!(ratio_millis(&a, &a), 1_000);
        assert!(a == b || length(&b) >= 200 || ratio < 1_000 || length(&a) == 0 || length(&a) == length(&b));
    }
    assert!(a.is_empty() == b.is_empty() || ratio == 0, "nothing is like nothing alone: {ratio}");
}
