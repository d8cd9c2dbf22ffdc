//! `loopgate model list`: what is known of prices, for people and for programs.

use crate::common;

use common::{Ran, Shell};
use serde_json::Value;

fn models(shell: &Shell, args: &[&str], own: Option<&str>) -> Ran {
    let mut command = shell.command(&[&["model", "list"], args].concat());
    command.env_remove("LOOPGATE_PRICES");
    if let Some(own) = own {
        command.env("LOOPGATE_PRICES", own);
    }
    command.output().unwrap().into()
}

#[test]
fn the_list_says_where_it_is_from_and_fits_into_a_hundred_columns() {
    let shell = Shell::new();
    let all = models(&shell, &[], None);
    assert_eq!((all.code, all.err.as_str()), (0, ""));
    let first = all.out.lines().next().unwrap();
    assert!(first.starts_with("Prices by genai-prices ") && first.contains(", 20"), "{first}");
    assert!(all.out.lines().count() > 500);
    let widest = all.out.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 100, "{widest}");
    assert!(all.out.lines().all(|line| line.trim_end() == line), "blanks at the end of a line");
}

#[test]
fn a_model_is_shown_with_its_thresholds_and_classes_of_service() {
    let shell = Shell::new();
    let sol = models(&shell, &["--provider", "openai-responses", "6.1-SOL"], None).out;
    let (_, rows) = sol.split_once("\nopenai ").unwrap();
    let cells: Vec<Vec<&str>> = rows.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["in", "out", "read", "write", "long", "context"]);
    assert_eq!(cells[1], ["gpt-6.1-sol", "2", "10", "0.1", "2.5", "-", "1,050,000"]);
    assert_eq!(cells[2], ["above", "272,000", "input", "tokens", "4", "15", "0.2", "5", "-"]);
    assert_eq!(cells[3].join(" "), "other prices for fast, flex, priority");
    assert_eq!(cells.len(), 4);
}

#[test]
fn hours_are_shown_and_names_that_are_too_long_have_a_line_of_their_own() {
    let shell = Shell::new();
    let flash = models(&shell, &["deepseek-flash", "--provider", "deepseek"], None).out;
    assert!(flash.contains("01:00-04:00 UTC, Monday to Friday"), "{flash}");
    let all = models(&shell, &["--provider", "openrouter"], None).out;
    let cells = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let long: Vec<Vec<&str>> =
        cells.filter(|cells| cells.first().is_some_and(|name| name.len() > 37)).collect();
    assert!(long.len() > 5 && long.iter().all(|cells| cells.len() == 1), "{long:?}");
}

#[test]
fn prices_of_ones_own_come_first_and_are_marked() {
    let shell = Shell::new();
    let own = shell.file(
        "prices.toml",
        "version = 1\n[[model]]\nprovider = \"acme\"\nmodel = \"m*\"\n\
         price = { input_usd_per_million = 0.000001, output_usd_per_million = 2.50 }\n",
    );
    let own = own.display().to_string();
    let shown = models(&shell, &["--provider", "acme"], Some(&own));
    assert!(shown.out.contains(&format!("Before them come those of {own}.")), "{}", shown.out);
    let row = shown.out.lines().find(|line| line.starts_with("  m*")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["m*", "0.000001", "2.5", "-", "-", "-", "-"]);
    assert!(shown.out.ends_with(&format!("    {own}\n")), "{}", shown.out);

    let json = models(&shell, &["--json", "acme/"], Some(&own));
    let whole: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(whole["own"], own.as_str());
    assert!(whole["table"].as_str().unwrap().starts_with("genai-prices "));
    let price = &whole["models"][0]["usd_per_million"];
    assert_eq!((price["input"].as_str(), price["cache_read"].as_str()), (Some("0.000001"), Some("0.000001")));
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    let shell = Shell::new();
    for (args, own, expected) in [
        (
            &["--provider", "acme"][..],
            None,
            "loopgate: --provider acme: no prices of it are known; there are ",
        ),
        (
            &["no-such-model"],
            None,
            "loopgate: no price is known of a model whose name holds `no-such-model`; ",
        ),
        (&[], Some("/no/such.toml"), "loopgate: /no/such.toml: cannot be read: "),
    ] {
        let ran = models(&shell, args, own);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{args:?}");
        assert!(ran.err.starts_with(expected) && ran.err.lines().count() == 1, "{}", ran.err);
    }
}
