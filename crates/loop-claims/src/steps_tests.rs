//! Tests that reading values takes time in proportion to the texts, counted in steps, and what holds for any text.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use crate::steps::counted;
use crate::{Claim, ClaimSources, Grounding, claims};
use loop_core::reply::{Document, Section};
use loop_core::types::{
    Arguments, CommandKey, Data, Evidence, EvidenceId, Locale, Millis, Observation, Slot, Status, WorkItem,
};

fn read(body: &str, data: Data) -> Vec<Claim> {
    let section = Section {
        id: "findings".into(),
        heading: "Findings".into(),
        heading_text: "Findings".into(),
        emoji: "".into(),
        body: body.into(),
        pass: 1,
        at: Millis(0),
        evidence: Vec::new(),
        bad_citations: Vec::new(),
        replaced: None,
        known: true,
    };
    let evidence = [Evidence {
        id: EvidenceId(1),
        key: CommandKey::new(1, Slot::Action(0)),
        pass: 1,
        tool: "fetch".into(),
        parameters: Arguments::from("{}"),
        observation: Arc::new(Observation::new(Status::Ok, "", "", data)),
        shortened: false,
    }];
    let item = WorkItem::new("T-1", "ticket", "", "");
    let sources =
        ClaimSources { evidence: &evidence, item: &item, unix_ms: 0, utc_offset: 0, locale: Locale::En };
    claims(&Document { sections: vec![section] }, sources)
}

/// Compares 500 and 2,000 pieces of a document and of its evidence: four times the text may take about four times the
/// steps.
#[track_caller]
fn check(piece: impl Fn(usize) -> String) {
    let steps = |pieces: usize| {
        let text: String = (0..pieces).map(&piece).collect();
        counted::of(|| {
            read(&format!("{text} [E1]"), Data::text(text.as_str()));
        })
    };
    let (few, many) = (steps(500), steps(2_000));
    assert!(few > 0 && many <= 6 * few + 2_000, "{few} steps, then {many}, for pieces like {:?}", piece(1));
}

#[test]
fn reading_values_takes_steps_in_proportion_to_the_texts() {
    let pieces: [&dyn Fn(usize) -> String; 36] = [
        &|n| format!("It holds {n} GB. "),
        &|n| format!("It holds {n} GB "),
        &|_| "42 GB ".to_owned(),
        &|_| "1.5 % ".to_owned(),
        &|n| format!("1.{n:030} % "),
        &|_| "web-1 ".to_owned(),
        &|_| "Anna ".to_owned(),
        // With four digits each is an id.
        &|n| format!("Anna{n:04} Meier "),
        &|_| "\"".to_owned(),
        &|n| format!("\"a b {n}\" "),
        &|_| "\"a a a a a a a a a a\" ".to_owned(),
        &|_| "1 ".to_owned(),
        &|_| "1,".to_owned(),
        &|_| "1-".to_owned(),
        &|_| ".".to_owned(),
        &|_| "no backup. ".to_owned(),
        &|_| "no ".to_owned(),
        &|_| "| a | 1 |\n".to_owned(),
        &|_| "2026-11-26 ".to_owned(),
        &|_| "total 3 of ".to_owned(),
        &|_| "[E1] ".to_owned(),
        &|_| "年".to_owned(),
        // Hostile texts: long strings of digits, nested quotation marks, many days, citations and ranges.
        &|_| "12345678901234567890".to_owned(),
        &|_| "1 234 567 ".to_owned(),
        &|_| "\u{201c}\u{201e}«".to_owned(),
        &|_| "\u{201c}\"a b\"\u{201d} ".to_owned(),
        &|n| format!("{:02}:{:02}+02:00 ", n % 24, n % 60),
        &|n| format!("2026-11-{:02}T03:10:00+01:00 ", n % 28 + 1),
        &|_| "1-2-3-".to_owned(),
        &|_| "[E1], ".to_owned(),
        &|_| "7 GB [E1] ".to_owned(),
        &|_| "+1, -1, ".to_owned(),
        &|_| "1 h and 1 min and ".to_owned(),
        &|_| "佐藤 美咲さん、昨日は".to_owned(),
        &|_| "PT1H1M1S".to_owned(),
        &|_| "3 of 3 of ".to_owned(),
    ];
    for piece in pieces.into_iter().step_by(counted::step(4)) {
        check(piece);
    }
}

#[test]
fn looking_for_values_takes_steps_in_proportion_to_the_evidence() {
    // Many equal values, a list under a long name, lists within lists, records of many kinds.
    let steps = |many: usize, data: &dyn Fn(usize) -> serde_json::Value| {
        let body: String = (0..many).map(|_| "There are 7 jobs, no backup exists [E1]. ").collect();
        counted::of(|| _ = read(&body, Data::from(data(many))))
    };
    let long = "n".repeat(5_000);
    let nested = |many: usize| (0..40).fold(json!(vec![7; many]), |inner, _| json!({"jobs": [inner]}));
    let records = |many: usize| {
        json!((0..many).map(|n| json!({"kind": format!("k{n}"), "jobs": 7})).collect::<Vec<_>>())
    };
    let shapes: [&dyn Fn(usize) -> serde_json::Value; 4] = [
        &|many| json!({"jobs": vec![7; many]}),
        &|many| json!({long.clone(): vec![7; many]}),
        &nested,
        &records,
    ];
    for (at, shape) in shapes.into_iter().enumerate() {
        let (few, many) = (steps(counted::pieces(1_000), shape), steps(counted::pieces(4_000), shape));
        assert!(few > 0 && many <= 6 * few + 2_000, "shape {at}: {few} steps, then {many}");
    }
}

fn state_of(body: &str, data: Data) -> Vec<Grounding> {
    read(body, data).into_iter().map(|claim| claim.state).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: counted::pieces(256) as u32, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_and_each_value_is_a_part_of_its_section(body in "\\PC{0,120}", data in "\\PC{0,120}") {
        for claim in read(&body, Data::text(data.as_str())) {
            prop_assert_eq!(body.get(claim.at.clone()), Some(&*claim.value));
        }
    }

    #[test]
    fn texts_of_the_characters_of_values_are_read(body in "[0-9.,:%$€GBh \"\n\\[\\]E|#-]{0,80}") {
        for claim in read(&body, Data::text(body.as_str())) {
            prop_assert_eq!(body.get(claim.at.clone()), Some(&*claim.value));
        }
    }

    #[test]
    fn a_copied_value_is_grounded_and_one_that_nothing_has_is_not(
        size in 10_u32..1_000_000, other in 10_u32..1_000_000, cents in 0_u32..100,
    ) {
        let body = format!("It holds {size} GB for ${size}.{cents:02} under INV-{size} [E1].");
        let copied = json!({"size_gb": size, "price": format!("${size}.{cents:02}"), "invoice": format!("INV-{size}")});
        prop_assert!(state_of(&body, Data::from(copied)).iter().all(|state| *state == Grounding::Grounded));
        prop_assume!(other != size);
        let lied = json!({"size_gb": other, "price": format!("${other}.{cents:02}"), "invoice": format!("INV-{other}")});
        let rounds = |a: u32, b: u32| a.abs_diff(b) <= 500_000 / 1_000 && a > 999;
        prop_assume!(!rounds(size, other));
        prop_assert_eq!(state_of(&body, Data::from(lied)), [Grounding::Ungrounded; 3]);
    }

    #[test]
    fn the_same_value_in_another_form_is_grounded(size in 1_u64..100_000, day in 1_u32..29, month in 1_u32..13) {
        let data = json!({"bytes": size * 1_000_000, "unit": "x", "at": format!("2026-{month:02}-{day:02}T10:20:30Z"), "size_mb": size});
        let (whole, part) = (size / 1_000, size % 1_000);
        let body = format!("It holds {whole}.{part:03} GB since {day:02}.{month:02}.2026 at 10:20 [E1].");
        prop_assert!(state_of(&body, Data::from(data)).iter().all(|state| *state == Grounding::Grounded));
    }

    #[test]
    fn the_names_of_fields_and_their_order_do_not_hide_a_value(n in 100_u32..100_000, before in "[a-z]{1,8}", after in "[a-z]{1,8}") {
        let data = json!({before: "x", "N": {"deep": [{"v": n}]}, after: null});
        prop_assert_eq!(state_of(&format!("There were {n} [E1]."), Data::from(data)), [Grounding::Grounded]);
    }
}
