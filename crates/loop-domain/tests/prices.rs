//! Where a model of a domain has its price from: its own file, prices of one's own, the table, or nowhere.

use std::fs;
use std::path::Path;

use loop_core::types::{PicoUsd, Price, PriceAbove, Tier};
use loop_domain::prices::read_prices;
use loop_domain::{Domain, LoadOptions, UserModel, UserSettings};

const SECTION: &str = "version = 1\nname = \"x\"\n\n[[section]]\nid = \"a\"\nheading = \"A\"\n\n";

fn load(folder: &Path, text: &str, options: &LoadOptions) -> Result<Domain, String> {
    fs::write(folder.join("loopgate.toml"), format!("{SECTION}{text}")).unwrap();
    Domain::load(folder, options).map_err(|error| {
        let error = error.to_string();
        assert!(!error.contains('\n'), "{error}");
        error.replace(&format!("{}/", folder.display()), "")
    })
}

/// The price of the base model, where this stands in the domain.
#[track_caller]
fn price(folder: &Path, text: &str) -> Option<Price> {
    let domain = load(folder, text, &LoadOptions::default()).unwrap();
    domain.spec.model(Tier::Base).price.clone()
}

fn base(model: &str) -> String {
    format!("[models.base]\nprovider = \"openai-chat\"\nmodel = \"{model}\"\n")
}

const OWN: &str = r#"
version = 1

[[model]]
provider = "openai-chat"
model = "gpt-4o*"
price = { input_usd_per_million = 0.5, output_usd_per_million = 1 }
"#;

#[test]
fn what_the_domain_says_comes_before_ones_own_file_and_that_before_the_table() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let table = Price { cache_read: Some(75_000), ..Price::flat(150_000, 600_000) };
    let mini = base("gpt-4o-mini");
    assert_eq!(price(folder.path(), &mini), Some(table));
    let with_file = format!("{mini}[prices]\nfile = \"own.toml\"\n");
    assert_eq!(price(folder.path(), &with_file), Some(Price::flat(500_000, 1_000_000)));
    let stated = "price = { input_usd_per_million = 7, output_usd_per_million = 8 }\n";
    let with_both = format!("{mini}{stated}[prices]\nfile = \"own.toml\"\n");
    assert_eq!(price(folder.path(), &with_both), Some(Price::flat(7_000_000, 8_000_000)));
    // wire WU12
    assert_eq!(price(folder.path(), &base("gpt-99")), None);
}

#[test]
fn the_file_that_the_domain_names_comes_before_the_one_that_is_given_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let given = folder.path().join("given.toml");
    fs::write(&given, OWN.replace("0.5", "0.25")).unwrap();
    let options = LoadOptions { prices: Some(given), ..LoadOptions::default() };
    for (text, expected) in [("", 250_000), ("[prices]\nfile = \"own.toml\"\n", 500_000)] {
        let domain = load(folder.path(), &format!("{}{text}", base("gpt-4o")), &options).unwrap();
        assert_eq!(domain.spec.model(Tier::Base).price.as_ref().unwrap().input, expected);
    }
}

#[test]
fn a_server_that_is_not_the_providers_own_has_the_price_of_a_known_model_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let elsewhere =
        format!("{}base_url = \"https://gateway.corp/v1?key=canary\"\n", base("openai/gpt-4o-mini"));
    let domain = load(folder.path(), &elsewhere, &LoadOptions::default()).unwrap();
    assert_eq!(domain.spec.model(Tier::Base).price.as_ref().map(|price| price.input), Some(150_000));
    let [note] = domain.price_notes() else { panic!("{:?}", domain.price_notes()) };
    assert!(
        note.starts_with("openai-chat/openai/gpt-4o-mini: at the price of openai/gpt-4o-mini (genai-"),
        "{note}"
    );
    assert!(
        note.ends_with("where https://gateway.corp/v1 charges another, add `price` to [models.base]"),
        "{note}"
    );
    let stated = format!("{elsewhere}price = {{ input_usd_per_million = 1, output_usd_per_million = 1 }}\n");
    assert!(load(folder.path(), &stated, &LoadOptions::default()).unwrap().price_notes().is_empty());
    let elsewhere = format!("{}base_url = \"http://127.0.0.1:9/v1\"\n", base("gpt-4o-mini"));
    let with_file = format!("{elsewhere}[prices]\nfile = \"own.toml\"\n");
    assert_eq!(price(folder.path(), &with_file), Some(Price::flat(500_000, 1_000_000)));
}

#[test]
fn a_provider_whose_server_was_moved_has_the_price_of_a_known_model_there() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let mini = base("gpt-4o-mini");
    for (moved, expected) in [
        ("[providers.openai-chat]\nbase_url = \"http://127.0.0.1:9/v1\"\n", Some(150_000)),
        ("[providers.openai-chat]\nlike = \"groq\"\n", None),
        ("[providers.openai-chat]\nlike = \"vllm\"\nbase_url = \"http://127.0.0.1:9/v1\"\n", Some(0)),
    ] {
        let found = price(folder.path(), &format!("{mini}{moved}")).map(|price| price.input);
        assert_eq!(found, expected, "{moved}");
        let with_file = format!("{mini}{moved}[prices]\nfile = \"own.toml\"\n");
        assert_eq!(price(folder.path(), &with_file), Some(Price::flat(500_000, 1_000_000)));
    }
    let limited = format!("{mini}[providers.openai-chat]\ncalls_at_once = 2\n");
    assert_eq!(price(folder.path(), &limited).map(|price| price.input), Some(150_000));
}

#[test]
fn a_recording_has_the_price_of_the_model_whose_place_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str, models: &[(Tier, &str)]| {
        let models = models.iter().map(|(tier, model)| (*tier, (*model).to_owned())).collect();
        load(folder.path(), text, &LoadOptions { models, ..LoadOptions::default() })
    };
    // Playing needs a file, and nothing of what it holds.
    let recording = folder.path().join("run.jsonl");
    fs::write(&recording, "{\"recording\":1}\n").unwrap();
    let recorded = format!("recorded/{}", recording.display());
    let selections = "[models.selector]\nprovider = \"anthropic\"\nmodel = \"claude-haiku-4-5\"\n";
    let text = format!("{}{selections}", base("gpt-5.5"));
    let before = load(&text, &[]).unwrap().spec;
    let after = load(&text, &[(Tier::Base, &*recorded), (Tier::Selector, &*recorded)]).unwrap().spec;
    for tier in [Tier::Base, Tier::Selector] {
        assert!(before.model(tier).price.as_ref().is_some_and(|price| !price.is_free()));
        assert_eq!(after.model(tier).price, before.model(tier).price, "{tier:?}");
        assert_eq!(&*after.model(tier).provider, "recorded");
    }
    assert_eq!(after.limits, before.limits, "the same calls are granted");
    // The model may be named on the command line as well, and a base model that selects is replaced with it.
    let chain = [(Tier::Base, "openai-chat/gpt-5.5"), (Tier::Base, &recorded), (Tier::Selector, &recorded)];
    let chained = load("", &chain).unwrap().spec;
    assert_eq!(chained.model(Tier::Base).price, before.model(Tier::Base).price);
    assert_eq!(chained.model(Tier::Selector).price, before.model(Tier::Base).price);
    assert_eq!(load(&base("gpt-99"), &[(Tier::Base, &*recorded)]).unwrap().spec.models.base.price, None);
    assert_eq!(
        load("", &[(Tier::Base, &*recorded)]).unwrap().spec.models.base.price,
        Some(Price::flat(0, 0))
    );
}

#[test]
fn a_limit_of_money_needs_a_price_and_a_known_one_brings_the_usual_limit() {
    // S0-45
    let folder = tempfile::tempdir().unwrap();
    let limit = "[limits]\ncost_usd = 0.05\n";
    let load = |text: String| load(folder.path(), &text, &LoadOptions::default());
    // 45-2: a mistake has a message of its own, at its place.
    for (model, starts, part) in [
        (base("gpt-4oo"), "loopgate.toml:10:1: ", "did you mean `gpt-4o`?"),
        (base("zzzzzzzzzzzz"), "loopgate.toml:10:1: ", "the price of openai-chat/zzzzzzzzzzzz is not known"),
        (
            base("own") + "base_url = \"https://h.corp/v1\"\n",
            "loopgate.toml:11:1: ",
            "what https://h.corp/v1 charges for own is not known",
        ),
        (
            base("anthropic/claude-sonet-4-5") + "base_url = \"https://h.corp/v1\"\n",
            "loopgate.toml:10:1: ",
            "did you mean `anthropic/claude-sonnet-4-5`?",
        ),
        (
            base("own") + "base_url = \"h.corp/v1\"\n",
            "loopgate.toml:11:1: ",
            "write http://h.corp/v1 or https://h.corp/v1",
        ),
    ] {
        let error = load(format!("{model}{limit}")).unwrap_err();
        assert!(error.starts_with(starts) && error.contains(part), "{error}");
    }
    let local = load(base("own") + "base_url = \"http://127.0.0.1:9/v1\"\n" + limit).unwrap();
    assert_eq!(local.price_notes(), ["openai-chat/own: local server: cost 0 (http://127.0.0.1:9/v1)"]);
    assert_eq!(load(base("gpt-99")).unwrap().spec.limits.cost, None);
    let known = load(format!("{}{limit}", base("gpt-4o"))).unwrap();
    assert_eq!(known.spec.limits.cost, Some(PicoUsd(50_000_000_000)));
    assert_eq!(load(base("gpt-4o")).unwrap().spec.limits.cost, Some(PicoUsd(PicoUsd::PER_USD / 10)));
}

#[test]
fn thresholds_and_long_caches_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{}[models.base.price]\ninput_usd_per_million = 2\noutput_usd_per_million = 10\n\
         cache_write_usd_per_million = 2.5\ncache_write_long_usd_per_million = 5\n\
         [[models.base.price.above]]\ninput_tokens = 272000\ninput_usd_per_million = 4\n\
         output_usd_per_million = 15\ncache_read_usd_per_million = 0.2\n",
        base("m")
    );
    let above = PriceAbove {
        input_tokens: 272_000,
        input: 4_000_000,
        output: 15_000_000,
        cache_read: Some(200_000),
        cache_write: None,
        cache_write_long: None,
    };
    let expected = Price {
        cache_write: Some(2_500_000),
        cache_write_long: Some(5_000_000),
        above: vec![above],
        ..Price::flat(2_000_000, 10_000_000)
    };
    assert_eq!(price(folder.path(), &text), Some(expected));
}

#[test]
fn a_price_of_ones_own_can_begin_on_a_day_and_covers_what_comes_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.toml");
    let row = |from: &str, input: &str| {
        format!(
            "[[model]]\nprovider = \"acme\"\nmodel = \"m\"\n{from}\
             price = {{ input_usd_per_million = {input}, output_usd_per_million = 1 }}\n"
        )
    };
    fs::write(&path, format!("version = 1\n{}{}", row("", "1"), row("from = 2026-12-01\n", "2"))).unwrap();
    let models = read_prices(&path).unwrap();
    assert_eq!(models.len(), 1, "two rows of one model are two periods of it");
    let day = |text: &str| text.parse::<loop_llm::prices::Date>().unwrap().start();
    let input = |text: &str| models.first().unwrap().at(day(text)).unwrap().input;
    assert_eq!((input("2026-11-30"), input("2026-12-01")), (1_000_000, 2_000_000));
}

#[test]
fn every_slip_in_a_price_file_is_one_line_that_points_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let row = "[[model]]\nprovider = \"p\"\nmodel = \"m\"\n";
    let price = "price = { input_usd_per_million = 1, output_usd_per_million = 1 }\n";
    for (text, expected) in [
        (format!("{row}{price}"), "own.toml:1:1: the key `version` is missing; add it".to_owned()),
        (
            "version = 2\n".to_owned(),
            "own.toml:1:1: this loopgate reads the format 1; write `version = 1`".to_owned(),
        ),
        (format!("version = 1\n{row}"), "own.toml:2:1: the key `price` is missing; add it".to_owned()),
        (
            format!("version = 1\n{row}prize = 1\n{price}"),
            "own.toml:5:1: unknown key `prize`; did you mean `price`?".to_owned(),
        ),
        (
            format!("version = 1\n{row}from = \"1 May\"\n{price}"),
            "own.toml:5:1: `1 May` is not a date; write it as 2026-11-20".to_owned(),
        ),
        (
            format!("version = 1\n{row}{}", price.replace("= 1,", "= 0.0000001,")),
            "own.toml:5:11: a price for a million tokens has at most 6 digits behind the point; round it up"
                .to_owned(),
        ),
        (
            format!("version = 1\n{row}{}", price.replace("= 1,", "= \"dear\",")),
            "own.toml:5:35: `dear` is not an amount of dollars; write dollars such as 0.10".to_owned(),
        ),
        (
            format!("version = 1\n{row}{price}{row}{price}"),
            "own.toml:8:1: the same model has a row before this one that begins as late; give this one a later `from`"
                .to_owned(),
        ),
        (
            format!("version = 1\n{}{price}", row.replace("\"m\"", "\" \"")),
            "own.toml:4:1: `model` is empty; write a name".to_owned(),
        ),
    ] {
        fs::write(folder.path().join("own.toml"), &text).unwrap();
        let domain = "[prices]\nfile = \"own.toml\"\n";
        let error = load(folder.path(), domain, &LoadOptions::default()).unwrap_err();
        assert_eq!(error, expected, "{text}");
    }
    let missing = load(folder.path(), "[prices]\nfile = \"none.toml\"\n", &LoadOptions::default());
    let expected =
        "loopgate.toml:9:1: none.toml: there is no such file; correct the path or make the file".to_owned();
    assert_eq!(missing.unwrap_err(), expected);
    let options = LoadOptions { prices: Some("/none/such.toml".into()), ..LoadOptions::default() };
    let error = load(folder.path(), "", &options).unwrap_err();
    assert!(error.starts_with("/none/such.toml: cannot be read: "), "{error}");
}

#[test]
fn the_file_in_the_documentation_is_read() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/prices.md"))
            .unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.toml");
    fs::write(&path, text).unwrap();
    let models = read_prices(&path).unwrap();
    let names: Vec<&str> = models.iter().map(|model| &*model.id).collect();
    assert_eq!(names, ["gpt-6.2-sol*", "large"]);
    let large = models.last().unwrap();
    let january = "2027-01-01".parse::<loop_llm::prices::Date>().unwrap().start();
    assert_eq!(large.at(january - 1).unwrap().input, 3_000_000);
    assert_eq!(large.at(january).unwrap().rates(200_001).input, 4_000_000);
}

#[test]
fn a_base_model_says_what_a_server_of_somebody_else_serves() {
    // wire WQ04
    let folder = tempfile::tempdir().unwrap();
    let named = format!(
        "{}base_url = \"https://gateway.example.org/v1\"\nbase_model = \"gpt-4o-mini\"\n",
        base("prod-a")
    );
    assert_eq!(price(folder.path(), &named).map(|price| price.input), Some(150_000));
}

// 45-3
#[test]
fn a_users_file_is_read_and_each_slip_in_it_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    assert_eq!(UserSettings::read(&path).unwrap(), UserSettings::default());
    fs::write(&path, "model = \"a/b\"\njournal = \"j.db\"\n").unwrap();
    let read = UserSettings::read(&path).unwrap();
    assert_eq!(
        (read.model.as_deref(), read.journal.as_deref(), read.domain),
        (Some("a/b"), Some("j.db"), None)
    );
    for (text, expected) in [
        ("domain = \"d\"\nmodl = \"a/b\"\n", "config.toml:2:1: unknown key `modl`; did you mean `model`?"),
        ("model = 1\n", "config.toml:1:"),
        ("model", "config.toml:1:"),
    ] {
        fs::write(&path, text).unwrap();
        let error = UserSettings::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    fs::write(&path, b"model = \"a/b\"\n# \xff").unwrap();
    let error = UserSettings::read(&path).unwrap_err().to_string();
    assert!(error.contains("not UTF-8 text: see line 2, byte 17 of the file"), "{error}");
}

// 45-3
#[test]
fn the_model_of_a_user_replaces_the_files_and_is_replaced_by_one_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let user = |model: &str| UserModel {
        place: "LOOPGATE_MODEL".to_owned(),
        tier: Tier::Base,
        model: model.to_owned(),
        base_url: None,
        is_general: false,
    };
    let with = |user, models| LoadOptions { user_model: Some(user), models, ..LoadOptions::default() };
    let named = |options: &LoadOptions| {
        load(folder.path(), &base("gpt-4o"), options).map(|it| it.spec.model(Tier::Base).model.to_string())
    };
    assert_eq!(named(&with(user("ollama/x"), Vec::new())).as_deref(), Ok("x"));
    let given = vec![(Tier::Base, "offline/y".to_owned())];
    assert_eq!(named(&with(user("ollama/x"), given)).as_deref(), Ok("y"));
    let error = named(&with(user("olama/x"), Vec::new())).unwrap_err();
    assert_eq!(error, "LOOPGATE_MODEL: unknown provider `olama`; did you mean `ollama`?");
}
