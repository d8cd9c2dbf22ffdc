//! Prices: which row a model has, at which moment and in which class of service.

use loop_core::types::{PicoUsd, Price, PriceAbove, Usage};
use loop_llm::prices::{ChargedBy, Date, ModelPrices, Period, Prices, at_server, find, known, names, origin};
use proptest::prelude::*;

/// Seconds since 1970, from `2026-11-18 09:59`.
fn at(text: &str) -> u64 {
    let (day, clock) = text.split_once(' ').unwrap_or((text, "00:00"));
    let (hour, minute) = clock.split_once(':').unwrap();
    let seconds = hour.parse::<u64>().unwrap() * 3_600 + minute.parse::<u64>().unwrap() * 60;
    day.parse::<Date>().unwrap().start() + seconds
}

const NOON: &str = "2026-11-20 12:00";

#[track_caller]
fn price(provider: &str, model: &str, moment: &str) -> Price {
    find(provider, model, at(moment)).unwrap_or_else(|| panic!("{provider}/{model} has no price")).price
}

#[test]
fn what_the_providers_publish_is_what_is_found() {
    // Dollars for a million tokens: fresh input, output, cache read; in millionths.
    for (provider, model, input, output, read) in [
        ("openai", "gpt-6.2-sol", 2_000_000, 10_000_000, Some(100_000)),
        ("openai-responses", "gpt-6-luna", 100_000, 500_000, Some(10_000)),
        ("openai-chat", "gpt-4o-mini", 150_000, 600_000, Some(75_000)),
        ("anthropic", "claude-opus-5-5", 4_000_000, 20_000_000, Some(200_000)),
        ("anthropic", "claude-haiku-5-5", 100_000, 500_000, Some(10_000)),
        ("gemini", "gemini-4-argon", 2_000_000, 10_000_000, Some(100_000)),
        ("gemini", "gemini-2.5-flash", 300_000, 2_500_000, Some(30_000)),
        ("xai", "grok-4.7", 2_000_000, 6_000_000, Some(500_000)),
        ("deepseek", "deepseek-v4-pro", 660_000, 1_980_000, Some(22_000)),
        ("mistral", "mistral-small-2603", 150_000, 600_000, Some(15_000)),
        ("groq", "openai/gpt-oss-120b", 150_000, 600_000, Some(75_000)),
        ("openrouter", "anthropic/claude-opus-5.5", 4_000_000, 20_000_000, Some(200_000)),
    ] {
        let found = price(provider, model, NOON);
        assert_eq!(
            (found.input, found.output, found.cache_read),
            (input, output, read),
            "{provider}/{model}"
        );
    }
    assert!(origin().starts_with("genai-prices "), "{}", origin());
}

#[test]
fn a_model_that_nobody_knows_has_no_price_and_never_one_of_nothing() {
    // wire WU12
    for (provider, model) in [
        ("openai", "gpt-99"),
        ("openai", ""),
        ("acme", "gpt-4o"),
        ("ollama", "gpt-4o"),
        ("compatible", "claude-opus-5-5"),
        ("anthropic", "gpt-4o"),
        // Names that a rule on chat models would take, of models that are not priced by tokens of text.
        ("gemini", "gemini-2.5-flash-image"),
        ("gemini", "gemini-2.5-pro-tts"),
        ("mistral", "devstral-small:free"),
    ] {
        assert_eq!(find(provider, model, at(NOON)), None, "{provider}/{model}");
    }
}

#[test]
fn a_known_model_has_its_window_and_its_price() {
    let sonnet = known("anthropic", "claude-3-7-sonnet-20250219").unwrap();
    assert_eq!((&*sonnet.id, sonnet.context_tokens), ("claude-3-7-sonnet-latest", Some(200_000)));
    let now = at(NOON);
    assert_eq!(
        sonnet.at(now).cloned(),
        find("anthropic", "claude-3-7-sonnet-20250219", now).map(|row| row.price)
    );
    assert_eq!(known("anthropic", "gpt-4o"), None);
    assert_eq!(known("ollama", "gpt-4o"), None);
    // Known by name as a model without a price of tokens: it takes its name away from the rules, and is not an answer.
    assert_eq!(known("gemini", "gemini-2.5-flash-image"), None);
}

#[test]
fn names_are_found_by_id_then_by_rule_with_dates_and_in_any_case() {
    let sol = price("openai", "gpt-6.1-sol", NOON);
    assert_eq!(price("openai", "gpt-6.1-sol-2026-09-29", NOON), sol);
    assert_eq!(price("openai", "gpt-6.1-sol-20260929", NOON), sol, "a date without its hyphens");
    assert_eq!(price("openai", " GPT-6.1-Sol ", NOON), sol);
    assert_eq!(find("openai", "gpt-6.1-sol-20261399", at(NOON)), None);
    // A longer name of its own is not the shorter one with an ending.
    assert_ne!(price("openai", "gpt-4o-mini", NOON), price("openai", "gpt-4o", NOON));
    assert_eq!(
        price("anthropic", "claude-opus-5-5-20261001", NOON),
        price("anthropic", "claude-opus-5-5", NOON)
    );
}

#[test]
fn a_deployment_has_the_price_of_its_base_model_and_none_by_its_own_name() {
    // wire WQ04
    assert_eq!(find("azure", "prod-a", at(NOON)), None);
    assert_eq!(price("azure", "gpt-6.1-sol", NOON), price("openai", "gpt-6.1-sol", NOON));
    assert_eq!(price("azure", "gpt-6.2-sol", NOON), price("openai", "gpt-6.2-sol", NOON));
}

#[test]
fn a_price_is_that_of_the_day_on_which_the_request_began() {
    // wire WU13
    let (before, after) = ("2026-11-30 23:59", "2026-12-01 00:00");
    assert_eq!(price("gemini", "gemini-4-argon", before).input, 2_000_000);
    assert_eq!(price("gemini", "gemini-4-argon", after).input, 4_000_000);
    // What is reserved on the evening before covers the morning after.
    let evening = find("gemini", "gemini-4-argon", at("2026-11-30 18:00")).unwrap();
    assert_eq!((evening.price.input, evening.dearest.input), (2_000_000, 4_000_000));
    assert!(evening.model.varies(at("2026-11-30 18:00")));
    let day_before = find("gemini", "gemini-4-argon", at("2026-11-29 18:00")).unwrap();
    assert_eq!(day_before.dearest, day_before.price);
    assert!(!find("gemini", "gemini-4-argon", at(after)).unwrap().model.varies(at(after)));
}

#[test]
fn a_price_is_that_of_the_hour_at_which_the_request_began() {
    // wire WU16: 18 November 2026 is a Wednesday.
    let (peak, calm) = (300_000, 150_000);
    for (moment, expected) in [
        ("2026-11-18 00:59", calm),
        ("2026-11-18 01:00", peak),
        ("2026-11-18 03:59", peak),
        ("2026-11-18 04:00", calm),
        ("2026-11-18 09:59", peak),
        ("2026-11-18 10:00", calm),
        ("2026-11-21 09:59", calm),
        ("2026-11-22 01:00", calm),
        ("2026-11-23 01:00", peak),
    ] {
        assert_eq!(price("deepseek", "deepseek-flash", moment).input, expected, "{moment}");
    }
    // Whoever starts in a calm hour is held to the peak of the day after it.
    for (moment, dearest) in [
        ("2026-11-18 10:00", peak),
        ("2026-11-20 10:00", calm),
        ("2026-11-22 00:00", calm),
        ("2026-11-22 01:01", peak),
    ] {
        let row = find("deepseek", "deepseek-flash", at(moment)).unwrap();
        assert_eq!((row.dearest.input, row.model.varies(at(moment))), (dearest, true), "{moment}");
    }
}

#[test]
fn large_inputs_and_long_caches_are_in_the_table() {
    // wire WU11
    let usage = Usage { input: 50_000, cache_read: 250_000, output: 1_000, ..Usage::default() };
    let cost = price("openai", "gpt-6.1-sol", NOON).of(&usage);
    assert_eq!(cost, PicoUsd(50_000 * 4_000_000 + 250_000 * 200_000 + 1_000 * 15_000_000));
    let haiku = price("anthropic", "claude-haiku-5-5", NOON);
    assert_eq!(haiku.rates(100_000).cache_write_long, 200_000);
    assert_eq!(haiku.rates(100_001).cache_write_long, 1_000_000);
    // wire WU17
    let opus = price("anthropic", "claude-opus-5-5", NOON);
    let long = Usage { cache_write_long: 1_000, ..Usage::default() };
    assert_eq!(opus.of(&long), PicoUsd(1_000 * 2 * opus.input));
    let short = Usage { cache_write_short: 1_000, ..Usage::default() };
    assert_eq!(opus.of(&short), PicoUsd(1_000 * opus.input * 5 / 4));
}

fn own(provider: &str, model: &str, input: u64) -> ModelPrices {
    let period = Period { from: None, price: Price::flat(input, input) };
    ModelPrices::new(provider, model, [period], "prices.toml")
}

#[test]
fn ones_own_rows_come_first_and_may_name_servers_of_ones_own() {
    let prices = Prices::with_own([
        own("ollama", "qwen*", 1),
        own("openai", "gpt-4o", 2),
        own("openai-chat", "gpt-4o*", 3),
        own("acme", "*", 4),
    ]);
    let input =
        |provider: &str, model: &str| prices.find(provider, model, at(NOON)).map(|row| row.price.input);
    assert_eq!(input("ollama", "qwen3:8b"), Some(1));
    assert_eq!(input("ollama", "llama"), None);
    assert_eq!(input("openai", "gpt-4o"), Some(2), "before the table");
    assert_eq!(input("openai-responses", "gpt-4o"), Some(2), "by the name of the list");
    assert_eq!(input("openai-chat", "gpt-4o"), Some(2), "an exact name before a rule");
    assert_eq!(input("openai-chat", "gpt-4o-mini"), Some(3));
    assert_eq!(input("openai", "gpt-4o-mini"), Some(150_000), "another name of the same list is not meant");
    assert_eq!(input("acme", "anything"), Some(4));
    assert_eq!(prices.own("openai", "gpt-4o-mini", at(NOON)), None);
    assert_eq!(prices.all().next().map(|model| &*model.id), Some("qwen*"));
}

#[test]
fn ones_own_prices_can_change_on_a_day() {
    let period = |from: Option<&str>, input| Period {
        from: from.map(|day| day.parse().unwrap()),
        price: Price::flat(input, 0),
    };
    let periods = [period(None, 1), period(Some("2026-12-01"), 2)];
    let prices = Prices::with_own([ModelPrices::new("acme", "m", periods, "prices.toml")]);
    let input = |moment: &str| prices.find("acme", "m", at(moment)).unwrap().price.input;
    assert_eq!((input("2026-11-30 23:59"), input("2026-12-01 00:00")), (1, 2));
}

#[test]
fn a_price_with_thresholds_of_ones_own_is_kept_whole() {
    let above = PriceAbove {
        input_tokens: 10,
        input: 2,
        output: 2,
        cache_read: None,
        cache_write: None,
        cache_write_long: None,
    };
    let price = Price { above: vec![above], ..Price::flat(1, 1) };
    let model = ModelPrices::new("acme", "m", [Period { from: None, price: price.clone() }], "here");
    let row = Prices::with_own([model]).find("acme", "m", 0).unwrap();
    assert_eq!((&row.price, &row.dearest), (&price, &price));
    assert!(!row.model.varies(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_call_of_the_next_day_costs_more_than_what_was_reserved(
        nth in any::<prop::sample::Index>(),
        start in 1_780_000_000_u64..1_800_000_000,
        later in 0_u64..86_400,
        input in 0_u64..400_000,
        cache_read in 0_u64..400_000,
        output in 0_u64..10_000,
    ) {
        let all = Prices::default();
        let models: Vec<_> =
            all.all().filter(|model| model.by_hour().next().is_some() || model.periods().count() > 1).collect();
        let model = nth.get(&models);
        let usage = Usage { input, cache_read, output, ..Usage::default() };
        let reserved = model.dearest(start).unwrap().ceiling(input + cache_read, output);
        prop_assert!(reserved >= model.at(start + later).unwrap().of(&usage), "{}/{}", model.provider, model.id);
    }
}

// 45-2
#[test]
fn a_server_charges_by_its_provider_by_the_model_that_it_passes_on_or_nothing_on_this_machine() {
    let (here, there) = ("http://127.0.0.1:4000/v1", "https://gateway.corp/v1");
    let sonnet = price("anthropic", "claude-sonnet-4-5", NOON);
    let resold = price("openrouter", "anthropic/claude-sonnet-4.5", NOON);
    let free = Price::flat(0, 0);
    for (provider, model, url, expected) in [
        ("anthropic", "claude-sonnet-4-5", None, Some((&sonnet, ChargedBy::List))),
        (
            "anthropic",
            "claude-sonnet-4-5",
            Some("https://api.anthropic.com"),
            Some((&sonnet, ChargedBy::List)),
        ),
        // Gateways: by the maker, without it, with a date, over another protocol, and on this machine.
        ("anthropic", "claude-sonnet-4-5", Some(there), Some((&sonnet, ChargedBy::Gateway))),
        ("compatible", "anthropic/claude-sonnet-4-5", Some(there), Some((&sonnet, ChargedBy::Gateway))),
        ("openai-chat", "claude-sonnet-4-5-20250929", Some(there), Some((&sonnet, ChargedBy::Gateway))),
        ("openai-chat", "Anthropic/Claude-Sonnet-4-5", Some(here), Some((&sonnet, ChargedBy::Gateway))),
        (
            "compatible",
            "openrouter/anthropic/claude-sonnet-4.5",
            Some(there),
            Some((&resold, ChargedBy::Gateway)),
        ),
        // Servers of one's own.
        ("ollama", "llama3.1", Some("http://localhost:11434/v1"), Some((&free, ChargedBy::Local))),
        ("vllm", "openai/gpt-4o", Some("http://[::1]:8000/v1"), Some((&free, ChargedBy::Local))),
        ("compatible", "anything", Some("http://127.9.9.9/v1"), Some((&free, ChargedBy::Local))),
        ("openai-chat", "openai/gpt-oss-20b", Some(here), Some((&free, ChargedBy::Local))),
        ("openai-chat", "mistralai/Mistral-7B-Instruct-v0.3", Some(here), Some((&free, ChargedBy::Local))),
        // What is charged is not known.
        ("compatible", "anything", Some(there), None),
        ("openai-chat", "together/llama-3", Some(there), None),
        ("openai-chat", "claude-sonet-4-5", Some(there), None),
        ("anthropic", "gpt-4o", None, None),
        ("vllm", "openai/gpt-4o", Some("https://gpu.corp/v1"), None),
        ("ollama", "llama3.1", Some("http://10.0.0.7:11434/v1"), None),
        ("compatible", "anything", Some("http://localhost.corp/v1"), None),
        ("compatible", "anything", Some("http://0.0.0.0/v1"), None),
        ("compatible", "anything", None, None),
    ] {
        let found = at_server(provider, model, url, at(NOON)).map(|(row, by)| (row.price, by));
        assert_eq!(found, expected.map(|(price, by)| (price.clone(), by)), "{provider}/{model} at {url:?}");
    }
    assert!(names("anthropic", "x").contains(&"claude-sonnet-4-5".to_owned()));
    assert!(names("compatible", "anthropic/x").contains(&"anthropic/claude-sonnet-4-5".to_owned()));
    assert!(names("openrouter", "anthropic/x").contains(&"anthropic/claude-opus-5.5".to_owned()));
}
