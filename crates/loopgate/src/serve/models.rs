//! `loopgate model list`: lists the models with known prices.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use loop_core::types::{Price, Rates};
use loop_domain::prices::read_prices;
use loop_llm::prices::{ModelPrices, Prices, list_of, origin};
use serde_json::{Value, json};

use crate::args::ReportArgs;
use crate::context::places;
use crate::output::{Failure, grouped};

/// The columns of a name. A longer name gets a line of its own.
const NAME: usize = 39;

pub(crate) fn models(args: &ModelsArgs) -> Result<ExitCode, Failure> {
    let own = places::prices();
    let prices = match &own {
        Some(path) => Prices::with_own(read_prices(path)?),
        None => Prices::default(),
    };
    let mut models: Vec<&ModelPrices> = prices.all().map(AsRef::as_ref).collect();
    // Stable: the order within a provider is that in which names are looked up.
    models.sort_by(|one, other| one.provider.cmp(&other.provider));
    let mut providers: Vec<&str> = models.iter().map(|model| &*model.provider).collect();
    providers.dedup();
    if let Some(wanted) = args.provider.as_deref() {
        let is_wanted = |provider: &str| provider == wanted || Some(provider) == list_of(wanted, None);
        if !providers.iter().any(|provider| is_wanted(provider)) {
            let known = providers.join(", ");
            return Err(Failure::new(format!(
                "--provider {wanted}: no prices of it are known; there are {known}"
            )));
        }
        models.retain(|model| is_wanted(&model.provider));
    }
    if let Some(pattern) = args.pattern.as_deref().map(str::to_lowercase) {
        models.retain(|model| format!("{}/{}", model.provider, model.id).to_lowercase().contains(&pattern));
        if models.is_empty() {
            return Err(Failure::new(format!(
                "no price is known of a model whose name holds `{pattern}`; `loopgate model list` lists all"
            )));
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let all: Vec<Value> = models.iter().map(|model| as_json(model, now)).collect();
    let from = own.as_ref().map(|path| path.display().to_string());
    let whole = json!({ "table": origin(), "own": from, "models": all });
    args.json.print(&whole, || list(&models, own.as_deref(), now))?;
    Ok(ExitCode::SUCCESS)
}

fn list(models: &[&ModelPrices], own: Option<&Path>, now: u64) -> String {
    let mut text = format!("Prices by {}, in dollars for a million tokens.\n", origin());
    if let Some(own) = own {
        let _ = writeln!(text, "Before them come those of {}.", own.display());
    }
    text.push_str("`-` is as dear as input, or as a short cache write.\n");
    let mut provider = None;
    for model in models {
        if provider.replace(&model.provider) != Some(&model.provider) {
            let heads = ["in", "out", "read", "write", "long", "context"];
            let _ = writeln!(text, "\n{}", row(&model.provider, heads.map(str::to_owned)));
        }
        add(&mut text, model, now);
    }
    text
}

/// Adds the lines of one model: its prices and their conditions.
fn add(text: &mut String, model: &ModelPrices, now: u64) {
    let Some(price) = model.at(now) else { return };
    let context = model.context_tokens.map_or_else(|| "-".to_owned(), grouped);
    add_price(text, &format!("  {}", model.id), price, context);
    let mut add_other = |label: &str, price: &Price| {
        add_price(text, &format!("    {label}"), price, String::new());
    };
    for (hours, price) in model.by_hour() {
        add_other(&hours.to_string(), price);
    }
    for period in model.periods() {
        if let Some(from) = period.from.filter(|from| from.start() > now) {
            add_other(&format!("from {from}"), &period.price);
        }
    }
    let mut notes: Vec<String> = Vec::new();
    let tiers = tiers(model);
    if !tiers.is_empty() {
        notes.push(format!("other prices for {}", tiers.join(", ")));
    }
    if &*model.source != origin() {
        let dated = model.dated.map(|day| format!(", {day}")).unwrap_or_default();
        notes.push(format!("{}{dated}", model.source));
    }
    for note in notes {
        let _ = writeln!(text, "    {note}");
    }
}

/// Adds the lines of one price: for all inputs, then for large ones.
fn add_price(text: &mut String, label: &str, price: &Price, context: String) {
    let _ = writeln!(text, "{}", row(label, cells(base(price), context)));
    for (tokens, rates) in thresholds(price) {
        let label = format!("    above {} input tokens", grouped(tokens));
        let _ = writeln!(text, "{}", row(&label, cells(rates, String::new())));
    }
}

/// A row with a name. A long name gets a line of its own.
fn row(name: &str, cells: [String; 6]) -> String {
    let [input, output, read, write, long, context] = cells;
    let cells = format!("{input:>9}{output:>9}{read:>9}{write:>9}{long:>9}{context:>11}");
    let line = match name.chars().count() {
        0..=NAME => format!("{name:NAME$}{cells}"),
        _ => format!("{name}\n{:NAME$}{cells}", ""),
    };
    line.trim_end().to_owned()
}

/// The rates of the token classes, without those that follow from others.
fn cells(rates: [Option<u64>; 5], context: String) -> [String; 6] {
    let [input, output, read, write, long] = rates.map(|rate| rate.map_or_else(|| "-".to_owned(), usd));
    [input, output, read, write, long, context]
}

fn base(price: &Price) -> [Option<u64>; 5] {
    [Some(price.input), Some(price.output), price.cache_read, price.cache_write, price.cache_write_long]
}

fn thresholds(price: &Price) -> impl Iterator<Item = (u64, [Option<u64>; 5])> {
    price.above.iter().map(|above| {
        let rates = [
            Some(above.input),
            Some(above.output),
            above.cache_read,
            above.cache_write,
            above.cache_write_long,
        ];
        (above.input_tokens, rates)
    })
}

fn as_json(model: &ModelPrices, now: u64) -> Value {
    let later = model.periods().filter(|period| period.from.is_some_and(|from| from.start() > now));
    let later: Vec<Value> = later
        .map(|period| {
            let from = period.from.map(|from| from.to_string());
            json!({ "from": from, "usd_per_million": price_json(&period.price) })
        })
        .collect();
    let by_hour = model
        .by_hour()
        .map(|(hours, price)| json!({ "hours": hours.to_string(), "usd_per_million": price_json(price) }));
    let by_hour: Vec<Value> = by_hour.collect();
    let tiers = tiers(model);
    json!({
        "provider": &*model.provider,
        "model": &*model.id,
        "usd_per_million": model.at(now).map(price_json),
        "by_hour": by_hour,
        "later": later,
        "service_tiers": tiers,
        "context_tokens": model.context_tokens,
        "max_output_tokens": model.max_output_tokens,
        "source": &*model.source,
        "dated": model.dated.map(|day| day.to_string()),
    })
}

fn price_json(price: &Price) -> Value {
    let rates = |rates: Rates| {
        json!({
            "input": usd(rates.input),
            "output": usd(rates.output),
            "cache_read": usd(rates.cache_read),
            "cache_write": usd(rates.cache_write),
            "cache_write_long": usd(rates.cache_write_long),
        })
    };
    let above = price.above.iter().map(|above| {
        json!({
            "input_tokens": above.input_tokens,
            "usd_per_million": rates(price.rates(above.input_tokens.saturating_add(1))),
        })
    });
    let above: Vec<Value> = above.collect();
    let mut whole = rates(price.rates(0));
    if let Some(members) = whole.as_object_mut().filter(|_| !above.is_empty()) {
        members.insert("above".to_owned(), Value::Array(above));
    }
    whole
}

/// The service tiers with a price of their own, each once.
fn tiers(model: &ModelPrices) -> Vec<&str> {
    let mut tiers: Vec<&str> = model.tiers().collect();
    tiers.sort_unstable();
    tiers.dedup();
    tiers
}

/// Exact dollars for a million tokens, from pico-dollars for one.
fn usd(per_token: u64) -> String {
    let exact = format!("{}.{:06}", per_token / 1_000_000, per_token % 1_000_000);
    exact.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// List only models whose PROVIDER/NAME contains this text
    pub(crate) pattern: Option<String>,
    /// List only models of this provider, by its name in a domain or in the table
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}
