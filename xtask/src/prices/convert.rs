//! Converts the data of the price package to the lines of our table.
//!
//! What the table cannot represent is left out, with a note. Prices stay decimal text, without any calculation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::prices::rules;

/// The providers whose chat models are included, by the package's names.
const PROVIDERS: [&str; 9] =
    ["anthropic", "azure", "deepseek", "google", "groq", "mistral", "openai", "openrouter", "x-ai"];
/// The package's name for each class of token, and ours.
const CLASSES: [(&str, &str); 5] = [
    ("input_mtok", "in"),
    ("output_mtok", "out"),
    ("cache_read_mtok", "read"),
    ("cache_write_mtok", "write"),
    ("cache_write_1h_mtok", "write_long"),
];
/// Prices for input that our requests never have: searches by the provider, audio and video.
const NEVER_REQUESTED: [&str; 5] = [
    "web_searches_kcount",
    "storage_searches_kcount",
    "input_audio_mtok",
    "cache_audio_read_mtok",
    "input_video_mtok",
];
/// Parts of the names of models without chat.
const NO_CHAT: [&str; 8] = ["audio", "embed", "image", "live", "moderation", "realtime", "transcribe", "tts"];
/// Hours that apply from Monday to Friday, according to comments on DeepSeek's models in the package. Its data cannot
/// express that.
const WORKING_DAYS: [(&str, &str, &str); 2] =
    [("deepseek", "01:00", "04:00"), ("deepseek", "06:00", "10:00")];
/// The most decimal places of a price for a million tokens.
const PLACES: usize = 6;

/// The result of converting a package.
#[derive(Debug, Default)]
pub(super) struct ConvertedPackage {
    /// The providers in which models of a provider are looked up that it does not list itself.
    pub(super) fallback: BTreeMap<String, Vec<String>>,
    /// One object for each model, by provider, in the package's order, which decides between rules.
    pub(super) models: Vec<Value>,
    /// How many of them have a price.
    pub(super) priced: usize,
    /// What was left out or rounded, and why.
    pub(super) notes: Notes,
}

/// Reasons, each with the models that it applies to.
#[derive(Debug, Default)]
pub(super) struct Notes(pub(super) BTreeMap<String, BTreeSet<String>>);

impl Notes {
    fn add(&mut self, reason: impl Into<String>, what: impl Into<String>) {
        self.0.entry(reason.into()).or_default().insert(what.into());
    }
}

/// Converts the chat models of our providers.
pub(super) fn convert(package: &Value) -> ConvertedPackage {
    let mut converted = ConvertedPackage::default();
    for name in PROVIDERS {
        let providers = list(package, "providers").iter();
        let Some(provider) = providers.into_iter().find(|provider| text(provider, "id") == name) else {
            converted.notes.add("a provider is not in the package", name);
            continue;
        };
        let fallback: Vec<String> = list(provider, "fallback_model_providers")
            .iter()
            .filter_map(Value::as_str)
            .filter(|other| PROVIDERS.contains(other))
            .map(str::to_owned)
            .collect();
        if !fallback.is_empty() {
            converted.fallback.insert(name.to_owned(), fallback);
        }
        let mut lines = Vec::new();
        for model in list(provider, "models") {
            let called = format!("{name}/{}", text(model, "id"));
            let mut line = named(name, model, &called, &mut converted.notes);
            match price(&mut line, name, model, &called, &mut converted.notes) {
                Ok(()) => converted.priced += 1,
                Err(reason) => converted.notes.add(format!("left out: {reason}"), called),
            }
            lines.push(line);
        }
        // A model without a price keeps its name, so that the rule of another one does not take it.
        let takes_more = |line: &Map<String, Value>| {
            let rules = line.get("match").and_then(Value::as_array).into_iter().flatten();
            rules.filter_map(Value::as_str).any(|rule| rule.contains('*'))
        };
        let keeps_all = lines.iter().any(|line| line.contains_key("prices") && takes_more(line));
        let kept = lines.into_iter().filter(|line| keeps_all || line.contains_key("prices"));
        converted.models.extend(kept.map(Value::Object));
    }
    converted
}

/// A line with only the model's names.
fn named(provider: &str, model: &Value, called: &str, notes: &mut Notes) -> Map<String, Value> {
    let id = text(model, "id");
    let (rules, schema_violations) = rules::rules(model.get("match").unwrap_or(&Value::Null));
    for schema_violation in schema_violations {
        notes.add(format!("a rule was left out: {schema_violation}"), called);
    }
    let mut line = Map::new();
    line.insert("provider".to_owned(), json!(provider));
    line.insert("id".to_owned(), json!(id));
    if rules != [id] {
        line.insert("match".to_owned(), json!(rules));
    }
    line
}

/// Adds the price to a model's line, or a note why that is not possible.
fn price(
    line: &mut Map<String, Value>,
    provider: &str,
    model: &Value,
    called: &str,
    notes: &mut Notes,
) -> Result<(), String> {
    let id = text(model, "id");
    if provider == "openrouter" && id.ends_with(":batch") {
        return Err("is for batches, which are never sent".to_owned());
    }
    if NO_CHAT.iter().any(|part| id.contains(part)) {
        return Err("does not chat".to_owned());
    }
    let prices = model.get("prices").unwrap_or(&Value::Null);
    let conditional = match prices {
        Value::Array(conditional) => conditional.iter().collect(),
        _ => Vec::new(),
    };
    let mut periods = Vec::new();
    if conditional.is_empty() {
        periods.push(period(None, rates(prices, called, notes)?));
    }
    for condition in conditional {
        let rates = rates(condition.get("prices").unwrap_or(&Value::Null), called, notes)?;
        let mut period = period(condition.get("constraint"), rates);
        if let Some((from, until)) = hours(condition.get("constraint"))
            && WORKING_DAYS.contains(&(provider, from, until))
        {
            period.insert("days".to_owned(), json!("mon-fri"));
        }
        periods.push(period);
    }
    if let Some(context) = model.get("context_window").and_then(Value::as_u64) {
        line.insert("context".to_owned(), json!(context));
    }
    line.insert("prices".to_owned(), json!(periods));
    let service = service(model, called, notes);
    if !service.is_empty() {
        line.insert("service".to_owned(), json!(service));
    }
    Ok(())
}

/// The prices of the service tiers in our order, in which the last active one counts. In the package the first does.
fn service(model: &Value, called: &str, notes: &mut Notes) -> Vec<Map<String, Value>> {
    let mut service = Vec::new();
    for variant in list(model, "price_variants").iter().rev() {
        let when = variant.get("when").and_then(Value::as_object).into_iter().flatten();
        let when: Vec<(&str, &str)> =
            when.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
        let tier = match when.as_slice() {
            // The standard price, which is there already.
            [("service_tier", "default")] => continue,
            [("service_tier", tier)] => tier,
            [("processing", "batch")] => continue,
            _ => {
                let shown: Vec<String> = when.iter().map(|(key, value)| format!("{key}={value}")).collect();
                notes.add(format!("a price was left out: it depends on {}", shown.join(" and ")), called);
                continue;
            }
        };
        match rates(variant.get("prices").unwrap_or(&Value::Null), called, notes) {
            Ok(rates) => {
                let mut row = period(variant.get("constraint"), rates);
                row.insert("tier".to_owned(), json!(tier));
                service.push(row);
            }
            Err(reason) => {
                notes.add(format!("a price of a class of service was left out: it {reason}"), called);
            }
        }
    }
    service
}

/// Adds the period in which a price applies.
fn period(constraint: Option<&Value>, mut rates: Map<String, Value>) -> Map<String, Value> {
    if let Some(date) = constraint.and_then(|it| it.get("start_date")) {
        rates.insert("from".to_owned(), date.clone());
    }
    if let Some((from, until)) = hours(constraint) {
        rates.insert("hours".to_owned(), json!(format!("{from}-{until}")));
    }
    rates
}

fn hours(constraint: Option<&Value>) -> Option<(&str, &str)> {
    let constraint = constraint?;
    constraint.get("start_time")?.as_str().zip(constraint.get("end_time")?.as_str())
}

/// One price: each token class, and all of them again for each input threshold at which one changes.
fn rates(prices: &Value, called: &str, notes: &mut Notes) -> Result<Map<String, Value>, String> {
    let Some(members) = prices.as_object() else { return Err("has no price".to_owned()) };
    for key in members.keys() {
        let is_known = key == "is" || CLASSES.iter().any(|(name, _)| name == key);
        if !is_known && !NEVER_REQUESTED.contains(&key.as_str()) {
            return Err(format!("is priced by `{key}` too"));
        }
    }
    let has = |class: &str| members.contains_key(class);
    if !has("input_mtok") && !has("output_mtok") {
        return Err("has no price".to_owned());
    }
    if !has("input_mtok") || !has("output_mtok") {
        return Err("has no price for input or for output".to_owned());
    }
    let mut starts = BTreeSet::new();
    for (name, _) in CLASSES {
        let tiers = members.get(name).map_or(&[][..], |price| list(price, "tiers"));
        starts.extend(tiers.iter().filter_map(|tier| tier.get("start")?.as_u64()));
    }
    let mut row = classes(members, None, called, notes)?;
    let above = starts.into_iter().map(|start| {
        let mut above = classes(members, Some(start), called, notes)?;
        above.insert("above".to_owned(), json!(start));
        Ok(above)
    });
    let above = above.collect::<Result<Vec<_>, String>>()?;
    if !above.is_empty() {
        row.insert("tiers".to_owned(), json!(above));
    }
    Ok(row)
}

/// The rate of each class above this threshold.
fn classes(
    members: &Map<String, Value>,
    start: Option<u64>,
    called: &str,
    notes: &mut Notes,
) -> Result<Map<String, Value>, String> {
    let mut row = Map::new();
    for (name, ours) in CLASSES {
        let Some(price) = members.get(name) else { continue };
        let tiers = list(price, "tiers").iter();
        let reached = tiers.filter(|tier| tier.get("start").and_then(Value::as_u64) <= start);
        let reached = reached.max_by_key(|tier| tier.get("start").and_then(Value::as_u64));
        let written = match (price, reached) {
            (Value::String(flat), _) => flat.as_str(),
            (_, Some(tier)) => text(tier, "price"),
            (_, None) => text(price, "base"),
        };
        let (exact, rounded) = decimal(written)?;
        if rounded {
            notes.add("a price was rounded up to a millionth of a dollar for a million tokens", called);
        }
        row.insert(ours.to_owned(), json!(exact));
    }
    Ok(row)
}

/// A price without trailing zeros, and whether it was rounded up to what one token can cost.
fn decimal(written: &str) -> Result<(String, bool), String> {
    let (whole, places) = written.split_once('.').unwrap_or((written, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(places) {
        return Err(format!("has the price `{written}`, which is not a plain decimal"));
    }
    let places = places.trim_end_matches('0');
    let kept = places.get(..PLACES.min(places.len())).unwrap_or_default();
    let millionths: u64 = format!("{whole}{kept:0<PLACES$}")
        .parse()
        .map_err(|_| format!("has the price `{written}`, which is too much"))?;
    let rounded = places.len() > PLACES;
    let millionths = millionths + u64::from(rounded);
    let (whole, places) = (millionths / 1_000_000, millionths % 1_000_000);
    let shown = format!("{whole}.{places:06}");
    Ok((shown.trim_end_matches('0').trim_end_matches('.').to_owned(), rounded))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    fn package(provider: &str, model: Value) -> Value {
        json!({ "version": "1", "providers": [{ "id": provider, "models": [model] }] })
    }

    /// The one model of a package, and the notes on it.
    fn one(provider: &str, mut model: Value) -> (Option<Value>, Vec<String>) {
        model["match"] = json!({ "equals": model["id"] });
        let converted = convert(&package(provider, model));
        let notes = converted.notes.0.into_iter().filter(|(reason, _)| !reason.starts_with("a provider"));
        let priced = converted.models.into_iter().find(|model| model.get("prices").is_some());
        (priced, notes.map(|(reason, _)| reason).collect())
    }

    #[test]
    fn a_price_keeps_its_digits_and_loses_its_noughts() {
        for (written, exact) in [("3", "3"), ("0.10", "0.1"), ("2.500000", "2.5"), ("0.003625", "0.003625")] {
            assert_eq!(decimal(written), Ok((exact.to_owned(), false)));
        }
        assert_eq!(decimal("0.0833333333"), Ok(("0.083334".to_owned(), true)));
        assert_eq!(decimal("0.9999999"), Ok(("1".to_owned(), true)));
        for written in ["", "1e-6", "-1", ".5"] {
            assert!(decimal(written).is_err(), "{written}");
        }
    }

    #[test]
    fn tiers_of_single_classes_become_whole_rows() {
        let tier = |start: u64, price: &str| json!({ "start": start, "price": price });
        let prices = json!({
            "input_mtok": { "base": "1", "tiers": [tier(100, "2"), tier(200, "3")] },
            "output_mtok": { "base": "4", "tiers": [tier(200, "5")] },
            "cache_read_mtok": "0.5",
        });
        let (line, notes) = one("openai", json!({ "id": "m", "prices": prices }));
        assert_eq!(
            line.unwrap()["prices"],
            json!([{
                "in": "1", "out": "4", "read": "0.5",
                "tiers": [
                    { "above": 100, "in": "2", "out": "4", "read": "0.5" },
                    { "above": 200, "in": "3", "out": "5", "read": "0.5" },
                ],
            }])
        );
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn dates_hours_and_classes_of_service_keep_their_order_of_precedence() {
        let price = |input: &str| json!({ "input_mtok": input, "output_mtok": "1" });
        let model = json!({
            "id": "m",
            "prices": [
                { "prices": price("1") },
                { "prices": price("2"), "constraint": { "start_date": "2026-09-10" } },
                { "prices": price("4"), "constraint": { "start_time": "01:00", "end_time": "04:00" } },
            ],
            "price_variants": [
                { "when": { "service_tier": "default" }, "prices": {} },
                { "when": { "service_tier": "flex" }, "prices": price("0.5") },
                { "when": { "processing": "batch" }, "prices": price("0.4") },
                { "when": { "speed": "fast" }, "prices": price("9") },
            ],
        });
        let (line, notes) = one("deepseek", model);
        let line = line.unwrap();
        assert_eq!(
            line["prices"],
            json!([
                { "in": "1", "out": "1" },
                { "in": "2", "out": "1", "from": "2026-09-10" },
                { "in": "4", "out": "1", "hours": "01:00-04:00", "days": "mon-fri" },
            ])
        );
        assert_eq!(line["service"], json!([{ "in": "0.5", "out": "1", "tier": "flex" }]));
        assert_eq!(notes, ["a price was left out: it depends on speed=fast"]);
    }

    #[test]
    fn what_does_not_chat_or_has_no_price_for_text_is_left_out_and_named() {
        let text = json!({ "input_mtok": "1", "output_mtok": "2" });
        let drawn = json!({ "input_mtok": "1", "output_mtok": "2", "output_image_mtok": "3" });
        for (model, expected) in [
            (json!({ "id": "x-embed-1", "prices": text }), "left out: does not chat"),
            (json!({ "id": "m", "prices": drawn }), "left out: is priced by `output_image_mtok` too"),
            (json!({ "id": "m:free", "prices": {} }), "left out: has no price"),
            (
                json!({ "id": "m", "prices": { "input_mtok": "1" } }),
                "left out: has no price for input or for output",
            ),
        ] {
            assert_eq!(one("openai", model), (None, vec![expected.to_owned()]));
        }
    }

    #[test]
    fn a_model_without_a_price_is_kept_by_name_where_another_rule_could_take_it() {
        let text = json!({ "input_mtok": "1", "output_mtok": "2" });
        let models = |starts: &str| {
            json!({ "providers": [{ "id": "google", "models": [
                { "id": "g-tts", "match": { "equals": "g-tts" }, "prices": text },
                { "id": "g", "match": { starts: "g" }, "prices": text },
            ]}]})
        };
        let wide = convert(&models("starts_with"));
        assert_eq!(wide.models[0], json!({ "provider": "google", "id": "g-tts" }));
        assert_eq!((wide.models.len(), wide.priced), (2, 1));
        assert_eq!(convert(&models("equals")).models.len(), 1);
    }

    #[test]
    fn an_unknown_provider_is_not_taken_and_a_missing_one_is_told() {
        let prices = json!({ "input_mtok": "1", "output_mtok": "2" });
        let converted = convert(&package("acme", json!({ "id": "m", "prices": prices })));
        assert!(converted.models.is_empty());
        assert_eq!(converted.notes.0.values().next().unwrap().len(), PROVIDERS.len());
    }
}
