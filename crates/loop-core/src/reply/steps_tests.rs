//! Tests that parsing a reply takes time in proportion to its length, counted in steps.

use proptest::prelude::*;

use crate::reply::citation::citations;
use crate::reply::contract::{self, ContractRules, Echoes};
use crate::reply::loose::lay_out;
use crate::reply::markdown::Layout;
use crate::reply::merge::{Document, MergeContext};
use crate::reply::sections::{self, Names};
use crate::spec::{NonceMode, SectionSpec};
use crate::types::steps::counted;
use crate::types::{Arguments, Millis};

/// Parses a reply and merges it twice, as a run does.
fn read(text: &str) {
    let echoes = Echoes::default();
    let rules = ContractRules { nonce: "n", mode: NonceMode::Prefer, echoes: &echoes };
    let declared = [SectionSpec::new("loose", "Loose")];
    let names = Names::of(&declared);
    let (text, layout, _) = lay_out(text, &names);
    let text = &*text;
    let found = contract::find(text, &layout, rules);
    let parsed = sections::parse(text, &layout, &found.hidden, &names);
    let context = MergeContext { declared: &[], pass: 1, at: Millis(0), citable: &[] };
    let (document, _) = Document::default().merged(&parsed.sections, context);
    document.merged(&parsed.sections, context);
    citations(text);
}

/// Compares 1,000 and 4,000 pieces, or a quarter of them: four times the text may take about four times the steps.
#[track_caller]
fn check(piece: impl Fn(usize) -> String) {
    let steps = |pieces: usize| counted::of(|| read(&(0..pieces).map(&piece).collect::<String>()));
    let (few, many) = (steps(counted::pieces(1_000)), steps(counted::pieces(4_000)));
    assert!(many <= 5 * few + 1_000, "{few} steps, then {many}, for pieces like {:?}", piece(1));
}

#[test]
fn reading_a_reply_takes_steps_in_proportion_to_its_length() {
    // B9
    check(|n| format!("## heading {n}\ntext\n"));
    check(|_| "## the same\ntext\n".to_owned());
    check(|_| "```a\n## h\n~~~~x\n".to_owned());
    check(|n| format!("{} ", "`".repeat(1 + n % 97)));
    check(|_| "[".to_owned());
    check(|_| "[E1, ".to_owned());
    check(|_| "[ \t ".to_owned());
    check(|n| format!("## h{n}\n```json\n{{\"analysis_confidence\": {n}\n```\n"));
    check(|n| format!("```\n{{\"analysis_confidence\": \"low\", \"n\": {n}}}\n```\n"));
    check(|_| "# loose\n```\n".to_owned());
    check(|_| "**loose**\n{\"analysis_confidence\": \"low\"}\n".to_owned());
    check(|_| "{\"analysis_confidence\": \"low\"} ".to_owned());
}

#[test]
fn looking_for_repeated_members_takes_steps_in_proportion_to_their_number() {
    // B9, G5: an item or arguments of tens of thousands of members.
    let steps = |members: usize, name: fn(usize) -> String| {
        let members: Vec<String> = (0..members).map(|n| format!("\"{}\": [{n}]", name(n))).collect();
        let text = format!("{{{}}}", members.join(","));
        counted::of(|| _ = Arguments::from(&*text).repeated())
    };
    for name in [|n| format!("m{n}"), |n: usize| format!("m{}", n / 2), |_| "m".to_owned()] {
        let (few, many) = (steps(1_000, name), steps(4_000, name));
        // Names grow by a letter.
        assert!(few >= 1_000 && many <= 6 * few, "{few} steps, then {many}");
    }
}

#[test]
fn fences_that_grow_shorter_are_not_each_searched_to_the_end() {
    // B9: 64 lengths of two kinds are distinguished, so a line is looked at no more than 128 times for its fences.
    let longest = counted::pieces(4_000);
    let lines: String = (0..longest).map(|n| format!("{}a\n## h\n", "`".repeat(longest - n))).collect();
    let text = format!("{lines}{}\n", "`".repeat(longest + 1_000));
    assert!(counted::of(|| drop(Layout::of(&text))) < 130 * (2 * longest + 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: counted::pieces(64) as u32, ..ProptestConfig::default() })]
    #[test]
    fn no_mixture_of_lines_takes_more(lines in prop::collection::vec(
        prop_oneof![
            Just("## a".to_owned()), "## [a-f]{3}", Just("```".to_owned()), "[`]{3,9}x", "[~]{3,9}", Just("~~~x".to_owned()),
            "[\\[E1, `]{0,12}", Just("# loose".to_owned()), Just("{\"analysis_confidence\": \"low\"}".to_owned()), Just(String::new()),
        ], 1..12)) {
        let piece = format!("{}\n", lines.join("\n"));
        let steps = |times: usize| counted::of(|| read(&piece.repeat(times)));
        let (few, many) = (steps(100), steps(400));
        prop_assert!(many <= 5 * few + 1_000, "{few} steps, then {many}");
    }
}
