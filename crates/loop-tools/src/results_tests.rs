//! Pages, searches, numbers that no result has, and text that would steer a terminal.

#![allow(clippy::unwrap_used)]

use loop_core::types::{Observation, Scope, Status};
use proptest::prelude::*;

use super::*;
use crate::registry::Registry;

async fn read(results: &[(u32, Data)], parameters: Value) -> Observation {
    let registry =
        Registry::builder().tool(ResultsTool::new(ToolDeclaration::new("read_result"))).build().unwrap();
    assert!(registry.reads_results("read_result"));
    let earlier = |(id, data): &(u32, Data)| EarlierResult {
        id: EvidenceId(*id),
        tool: "fetch_log".into(),
        data: data.clone(),
    };
    let context = ToolContext::new(Scope::default(), "Disk full", "r/1/action-0")
        .with_results(results.iter().map(earlier).collect());
    registry.dispatch("read_result", &parameters, context, &Credentials::none(), 60_000, 4_000).await
}

fn log(lines: usize) -> Data {
    Data::text(
        (1..=lines).map(|n| format!("10:{:02} disk {n} of rack 7 is full\n", n % 60)).collect::<String>(),
    )
}

#[tokio::test]
async fn a_result_is_read_page_by_page_and_no_page_is_cut() {
    let results = [(1, "null".into()), (3, log(1_000))];
    let mut all = String::new();
    let first = read(&results, json!({ "evidence": "E3" })).await;
    assert_eq!(first.status, Status::Ok);
    let pages: usize = first.summary.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(
        first.summary.starts_with("E3 (fetch_log), 1000 lines, page 1 of ") && pages > 5,
        "{}",
        first.summary
    );
    for page in 1..=pages {
        let seen = read(&results, json!({ "evidence": "E3", "page": page })).await;
        assert!(!seen.markdown.contains("[cut:") && seen.markdown.chars().count() <= 4_000);
        all.push_str(seen.data.as_text().unwrap());
    }
    let expected: Vec<String> = log(1_000)
        .as_text()
        .unwrap()
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{}: {line}", at + 1))
        .collect();
    assert_eq!(all.lines().collect::<Vec<_>>(), expected);
    let beyond = read(&results, json!({ "evidence": "E3", "page": pages + 1 })).await;
    assert_eq!(beyond.status, Status::InvalidInput);
    assert!(beyond.text().contains(&format!("it has {pages}")), "{}", beyond.text());
}

#[tokio::test]
async fn a_search_returns_the_lines_that_contain_the_text_with_their_numbers() {
    let seen = read(&[(3, log(1_000))], json!({ "evidence": "3", "search": "DISK 77 OF" })).await;
    assert_eq!(seen.data.as_text().map(|text| &**text), Some("77: 10:17 disk 77 of rack 7 is full\n"));
    assert_eq!(&*seen.summary, "E3 (fetch_log), 1 of 1000 lines, page 1 of 1");
    let none = read(&[(3, log(1_000))], json!({ "evidence": "E3", "search": "fan" })).await;
    assert_eq!(none.status, Status::Empty);
}

#[tokio::test]
async fn a_list_is_read_entry_by_entry_and_other_data_member_by_member() {
    let rows = Data::from(json!([{ "id": 1, "name": "a" }, { "id": 2, "name": "b\nc" }]));
    let seen = read(&[(1, rows)], json!({ "evidence": "[E1]" })).await;
    assert_eq!(
        seen.data.as_text().map(|text| &**text),
        Some("1: {\"id\":1,\"name\":\"a\"}\n2: {\"id\":2,\"name\":\"b\\nc\"}\n")
    );
    let object = Data::from(json!({ "disk": { "free": 3 } }));
    let seen = read(&[(1, object)], json!({ "evidence": "e1", "search": "free" })).await;
    assert_eq!(seen.data.as_text().map(|text| &**text), Some("3:     \"free\": 3\n"));
    assert_eq!(read(&[(1, "null".into())], json!({ "evidence": "E1" })).await.status, Status::Empty);
}

#[tokio::test]
async fn a_number_that_no_result_has_is_answered_with_those_that_there_are() {
    let results = [(1, log(1)), (2, log(1))];
    for (number, message) in [
        ("E9", "there is no result E9; there are E1 to E2"),
        ("E0", "there is no result E0; there are E1 to E2"),
        ("E-1", "`E-1` is not the number of a result, such as E3"),
        ("", "is not"),
        ("E99999999999999999999", "is not the number"),
        ("three", "`three` is not"),
    ] {
        let seen = read(&results, json!({ "evidence": number })).await;
        assert_eq!(seen.status, Status::InvalidInput, "{number}");
        assert!(number.is_empty() || seen.text().contains(message), "{}", seen.text());
    }
    let seen = read(&[], json!({ "evidence": "E1" })).await;
    assert!(seen.text().contains("no tool has returned a result yet"), "{}", seen.text());
}

#[tokio::test]
async fn what_a_tool_returned_cannot_steer_a_terminal_on_another_page_either() {
    let seen =
        read(&[(1, Data::text("a\u{1b}[31mb\u{202e}c\u{e0041}\r\nd"))], json!({ "evidence": "E1" })).await;
    assert_eq!(seen.data.as_text().map(|text| &**text), Some("1: abc\n2: d\n"));
}

#[tokio::test]
async fn a_line_of_eight_megabytes_is_read_in_pages_too() {
    // What grows faster than the line takes hours here.
    let seen =
        read(&[(1, Data::text("x".repeat(8 << 20)))], json!({ "evidence": "E1", "page": 2_000 })).await;
    assert_eq!((seen.status, seen.data.as_text().unwrap().len()), (Status::Ok, PAGE_CHARS));
}

#[tokio::test]
async fn data_that_is_deep_is_not_read_in_a_hundred_times_as_many_pages() {
    // Issue 40, H1: each of these numbers would come after 200 spaces.
    let deep = (0..100).fold(json!(vec![1; 50_000]), |inner, _| json!({ "a": inner }));
    let seen = read(&[(1, Data::from(deep))], json!({ "evidence": "E1", "page": 2 })).await;
    assert!(seen.summary.ends_with("page 2 of 29"), "{}", seen.summary);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_hold_every_character_once_and_none_is_too_long(
        lines in prop::collection::vec("[a-zé€ ]{0,9000}", 0..8),
    ) {
        let numbered: Vec<(usize, &str)> = (1..).zip(lines.iter().map(String::as_str)).collect();
        let page = |wanted: u64| {
            let mut pages = Pages { wanted, count: 0, left: 0, text: String::new() };
            numbered.iter().for_each(|(number, line)| pages.push(&format!("{number}: {line}\n")));
            pages
        };
        let pages: Vec<String> = (1..=page(0).count).map(|wanted| page(wanted).text).collect();
        prop_assert!(pages.iter().all(|page| (1..=PAGE_CHARS).contains(&page.chars().count())));
        let whole: String = numbered.iter().map(|(number, line)| format!("{number}: {line}\n")).collect();
        prop_assert_eq!(pages.concat(), whole);
    }
}
