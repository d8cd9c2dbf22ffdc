//! The live view: shown while it streams, at any chunking the same, and never the contract.

use loop_testkit::*;

use loop_core::reply::LiveText;
use proptest::prelude::*;

fn shown(pieces: &[&str]) -> String {
    let mut view = LiveText::default();
    let mut out: String = pieces.iter().map(|piece| view.push(piece)).collect();
    out.push_str(&view.finish());
    out
}

/// Cuts `text` at these places.
fn pieces<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut places: Vec<usize> =
        cuts.iter().map(|cut| cut % (text.len() + 1)).filter(|at| text.is_char_boundary(*at)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

const LINES: [&str; 16] = [
    "## 🔍 Situation",
    "The disk is full.",
    "```json",
    "```",
    "~~~",
    "{\"analysis_confidence\": \"high\"}",
    "{\"a\": 1}",
    "{",
    "}",
    "",
    "    indented",
    "- ```not a fence",
    "````",
    "## Findings\r",
    "<think>",
    "</think>",
];

#[test]
fn every_chunking_of_a_reply_shows_the_same_and_never_the_contract() {
    let reply = format!(
        "{}## Findings\n\n```sh\ndf -h\n```\n\n{}",
        draft("low").text,
        bare_draft("high").asks("fetch_device", target("ä")).whole_text()
    );
    let whole = shown(&[&reply]);
    assert!(whole.contains("The disk is full.") && whole.contains("df -h"));
    assert!(!whole.contains("analysis_confidence") && !whole.contains("fetch_device"));
    for at in (0..=reply.len()).filter(|at| reply.is_char_boundary(*at)) {
        let (head, tail) = reply.split_at(at);
        assert_eq!(shown(&[head, tail]), whole);
        // What is shown is never taken back.
        let mut view = LiveText::default();
        assert!(whole.starts_with(&view.push(head)), "{head}");
    }
    let bytewise: Vec<String> = reply.chars().map(String::from).collect();
    let bytewise: Vec<&str> = bytewise.iter().map(String::as_str).collect();
    assert_eq!(shown(&bytewise), whole);
}

#[test]
fn a_fence_without_an_end_is_shown_unless_it_holds_the_contract() {
    assert_eq!(shown(&["a\n```\ncode"]), "a\n```\ncode");
    assert_eq!(shown(&["a\n```json\n{\"analysis_confidence\": \"hi"]), "a\n");
    assert_eq!(shown(&["a\n```json\n{\"analysis_confidence\": \"hi\n## B\nb"]), "a\n## B\nb");
}

#[test]
fn a_contract_without_a_fence_is_not_shown() {
    let contract = "{\n  \"analysis_confidence\": \"low\",\n  \"confidence_reason\": \"a } \\\" }\"\n}\n";
    for (reply, wanted) in [
        (format!("## A\nb\n{contract}c\n"), "## A\nb\nc\n"),
        (format!("## A\nb\n  {}", contract.replace('\n', "")), "## A\nb\n"),
        (format!("<think>hm</think>{contract}## A\n"), "## A\n"),
        (format!("{{ is a brace\n\n## A\n{contract}"), "{ is a brace\n\n## A\n"),
        ("{\n  \"a\": 1\n}\nb\n".to_owned(), "{\n  \"a\": 1\n}\nb\n"),
        ("{\n<think>hm\n</think>\nb\n".to_owned(), "{\nb\n"),
    ] {
        assert_eq!(shown(&[&reply]), wanted, "{reply}");
        let letters: Vec<String> = reply.chars().map(String::from).collect();
        assert_eq!(shown(&letters.iter().map(String::as_str).collect::<Vec<_>>()), wanted, "{reply}");
    }
}

#[test]
fn thinking_is_not_shown_and_every_line_break_ends_a_line() {
    // T12
    let contract = "```json\n{\"analysis_confidence\": \"high\"}\n```\n";
    for (reply, wanted) in [
        (format!("<think>\nhm\n## A\n{contract}</think>\n## A\nb\n{contract}"), "## A\nb\n"),
        (format!("a <think>hm</think> b <thinking>\n{contract}</thinking>## A\nb"), "a  b ## A\nb"),
        (format!("<think>\nhm\n## A\nb\n{contract}"), "## A\nb\n"),
        (format!("Use `<think>`.\n{contract}"), "Use `<think>`.\n"),
        ("<think></think>".repeat(100_000), ""),
        (format!("<think>hm</think>{contract}## A\nb"), "## A\nb"),
    ] {
        assert_eq!(shown(&[&reply]), wanted, "{reply}");
        let letters: Vec<String> = reply.chars().map(String::from).collect();
        assert_eq!(shown(&letters.iter().map(String::as_str).collect::<Vec<_>>()), wanted, "{reply}");
    }
    for end in ["\r", "\u{2028}", "\u{85}", "\u{b}", "\u{c}"] {
        assert_eq!(shown(&[&format!("## A\nb\n{contract}").replace('\n', end)]), "## A\nb\n");
    }
}

#[test]
fn what_is_shown_is_what_the_document_holds() {
    // S0-19: for a reply of sections and a contract.
    let draft = draft("high").section("Findings", "b\n\n- c");
    let world = run().start().replied(&draft);
    let squeezed =
        |text: &str| text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(squeezed(&shown(&[&draft.whole_text()])), squeezed(&world.run.document().to_markdown()));
}

proptest! {
    #![proptest_config(crate::common::cases(2_000))]

    #[test]
    fn any_lines_at_any_chunking_show_the_same(
        lines in prop::collection::vec(prop::sample::select(LINES.to_vec()), 0..12),
        cuts in prop::collection::vec(0_usize..400, 0..8),
        ends in any::<bool>(),
    ) {
        let mut text = lines.join("\n");
        if ends {
            text.push('\n');
        }
        let whole = shown(&[&text]);
        prop_assert_eq!(&shown(&pieces(&text, &cuts)), &whole);
        // Nothing is invented: what is shown is the text with whole lines left out.
        let mut rest = text.split_inclusive('\n');
        for line in whole.split_inclusive('\n') {
            prop_assert!(rest.any(|other| other == line), "{:?} is not in {:?}", line, text);
        }
    }
}
