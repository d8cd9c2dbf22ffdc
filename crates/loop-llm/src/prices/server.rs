//! What a model costs at a server: by the provider's own list, by its maker's list behind a gateway, nothing on this machine.

use std::sync::Arc;

use loop_core::types::Price;
use url::Url;

use super::model::{ModelPrices, Period};
use super::table::{SUPPLEMENT, TABLE};
use super::{PriceRow, list_of, listed};
use crate::http::is_loopback;

/// Why a server charges a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedBy {
    /// The user's own rows, or the provider's own server with the provider's list.
    List,
    /// A gateway passes on a model of another list, whose price is taken; what the gateway adds is not known.
    Gateway,
    /// The server is on this machine, and nothing is charged.
    Local,
}

/// Other names before the `/` of a gateway's models than those of providers, and the list of each.
const MAKERS: [(&str, &str); 4] =
    [("google", "google"), ("vertex_ai", "google"), ("x-ai", "x-ai"), ("mistralai", "mistral")];

/// Lists whose names mean one model wherever they are given without a maker: no other server has these names for models of its own.
const CLOSED: [&str; 4] = ["openai", "anthropic", "google", "x-ai"];

/// How the names of models begin that are on those lists and that anybody can run.
const OPEN: [&str; 2] = ["gpt-oss", "gemma"];

/// Providers whose servers each user runs, which charge by no list.
const SELF_HOSTED: [&str; 4] = ["vllm", "ollama", "lm-studio", "llama-cpp"];

/// The price of a model at the server with this base URL, at `at` seconds since 1970, and why the server charges it.
/// `None`: it is not known, and never 0 unless the server is on this machine.
///
/// `provider` is one of those that are known by name; `base_url` is where the model is called, `None` for the provider's own
/// server. A known model that a gateway passes on (`anthropic/claude-…`, also without the maker's name, also with a date)
/// has the price of its list, also where the gateway is on this machine: it spends money elsewhere.
///
/// ```
/// use loop_llm::prices::{ChargedBy, at_server};
///
/// let here = Some("http://127.0.0.1:11434/v1");
/// let (row, by) = at_server("openai-chat", "llama3.1", here, 1_764_000_000).unwrap();
/// assert_eq!((row.price.input, by), (0, ChargedBy::Local));
/// ```
pub fn at_server(
    provider: &str,
    model: &str,
    base_url: Option<&str>,
    at: u64,
) -> Option<(PriceRow, ChargedBy)> {
    if let Some(list) = list_of(provider, base_url) {
        return Some((listed(list, model)?.row(at)?, ChargedBy::List));
    }
    let is_here = base_url.and_then(|url| Url::parse(url).ok()).is_some_and(|url| is_loopback(&url));
    if let Some(known) = passed_on(provider, model, is_here).filter(|_| base_url.is_some()) {
        return Some((known.row(at)?, ChargedBy::Gateway));
    }
    let free = ModelPrices::new(provider, model, [Period { from: None, price: Price::flat(0, 0) }], "");
    Some((Arc::new(free).row(at)?, ChargedBy::Local)).filter(|_| is_here)
}

/// The known names of a provider's models, as that provider writes them. If `model` begins with a maker's name, as
/// `anthropic/…` does, they are the names of that maker's models, with that prefix.
pub fn names(provider: &str, model: &str) -> Vec<String> {
    let own = list_of(provider, None);
    let made_by = made_by(model).filter(|_| own != Some("openrouter"));
    let before = made_by.map_or_else(String::new, |(maker, ..)| format!("{maker}/"));
    let lists = made_by.map(|(_, list, _)| list).or(own).map_or(CLOSED.to_vec(), |list| vec![list]);
    let all = TABLE.models.iter().chain(&SUPPLEMENT.models).filter(|row| row.is_priced());
    all.filter(|row| lists.contains(&&*row.provider)).map(|row| format!("{before}{}", row.id)).collect()
}

/// The known model that a gateway passes on under this name.
fn passed_on(provider: &str, model: &str, is_here: bool) -> Option<&'static Arc<ModelPrices>> {
    let named = made_by(model);
    let name = named.map_or(model, |(_, _, name)| name).trim().to_lowercase();
    if SELF_HOSTED.contains(&provider) || is_here && OPEN.iter().any(|open| name.starts_with(open)) {
        return None;
    }
    let own = list_of(provider, None).into_iter().chain(CLOSED);
    named
        .map_or_else(|| own.collect(), |(_, list, _)| vec![list])
        .into_iter()
        .find_map(|list| listed(list, &name))
}

/// The maker's name, its list, and the name of the model there.
fn made_by(model: &str) -> Option<(&str, &'static str, &str)> {
    let (maker, name) = model.split_once('/')?;
    let lower = maker.trim().to_lowercase();
    let other = || Some(MAKERS.iter().find(|(known, _)| *known == lower)?.1);
    Some((maker, list_of(&lower, None).or_else(other)?, name))
}
