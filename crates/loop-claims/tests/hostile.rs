//! What a document and evidence from outside can do: any text is read, and the work grows with its length.

use loop_claims::Grounding;
use loop_core::types::Locale;
use proptest::prelude::*;
use serde_json::json;

use crate::values::read;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_and_each_value_is_where_it_says(body in "\\PC{0,80}", text in "\\PC{0,80}") {
        for locale in [Locale::En, Locale::De, Locale::Ja] {
            for claim in read(locale, &[json!({"text": text, "list": [text.len(), 3.5]})], &format!("{body} [E1].")) {
                let whole = format!("{body} [E1].");
                prop_assert_eq!(whole.get(claim.at.clone()), Some(&*claim.value));
            }
        }
    }

    // A number that the evidence has is found, however it is grouped.
    #[test]
    fn a_number_of_the_evidence_is_never_contradicted(number in 1_000_u64..9_999_999_999) {
        let digits = number.to_string();
        let mut grouped = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        for written in [digits, grouped] {
            let claims = read(Locale::En, &[json!({"size": number})], &format!("It holds {written} files [E1]."));
            prop_assert!(claims.iter().all(|it| it.state == Grounding::Found), "{:?}", claims);
        }
    }
}
