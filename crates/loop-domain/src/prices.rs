//! Prices of a domain's models: from its file, else from the user's price file, else from the built-in table.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use loop_core::types::{Price, PriceAbove};
use loop_llm::prices::{ChargedBy, ModelPrices, Period, PriceRow, Prices, at_server};
use loop_llm::{ChatModel, Profile};
use loop_runtime::models::Priced;
use loop_tools::files;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::Value;

use crate::config::{PriceConfig, PriceFileConfig, PriceRowConfig};
use crate::error::DomainError;
use crate::file::SourceFile;
use crate::money::Usd;
use crate::server::ServerModel;
use crate::tree::{Fault, Node};

/// The version of the format of price files that this crate reads.
const VERSION: u32 = 1;

/// Price rows for a domain's models, and the moment for which they are looked up.
#[derive(Debug)]
pub(crate) struct PriceList {
    prices: Prices,
    /// Seconds since 1970.
    at: u64,
}

impl PriceList {
    /// The rows of the user's file first, then the built-in table.
    pub(crate) fn new(own: Vec<ModelPrices>) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { prices: Prices::with_own(own), at }
    }

    /// The price row of a model and the basis on which it is charged, looked up by its base model if that is set.
    /// `None`: its price is not known. `like`: the known provider that its provider is like.
    pub(crate) fn row(
        &self,
        model: &ServerModel,
        like: &str,
        profile: Option<&Profile>,
    ) -> Option<(PriceRow, ChargedBy)> {
        let url = model.base_url.as_deref().or(profile.and_then(|profile| profile.base_url.as_deref()));
        let name = model.base_model.as_deref().unwrap_or(&model.model);
        let own = self.prices.own(&model.provider, name, self.at).map(|own| (own, ChargedBy::List));
        own.or_else(|| at_server(like, name, url, self.at))
    }

    /// The model itself, or one that adds the price to its replies if the price depends on the time.
    pub(crate) fn priced(&self, model: Arc<dyn ChatModel>, row: Option<PriceRow>) -> Arc<dyn ChatModel> {
        match row.filter(|row| row.model.varies(self.at)) {
            Some(row) => Arc::new(Priced::new(model, row.model)),
            None => model,
        }
    }
}

/// Reads a price file. Rows of the same provider and model are merged into one with periods.
///
/// # Errors
/// The first error, with its place.
pub fn read_prices(path: &Path) -> Result<Vec<ModelPrices>, DomainError> {
    let text = files::text(path, files::MAX_BYTES)
        .map_err(|error| DomainError::Unreadable { path: path.to_owned(), message: error.to_string() })?;
    let place = SourceFile { path: path.to_owned(), text };
    rows(&place.text, &path.display().to_string()).map_err(|fault| place.error(fault))
}

/// The JSON Schema of a file with prices of your own, for editors.
pub fn price_schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<PriceFileConfig>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), "prices.toml".into());
    }
    schema
}

fn rows(text: &str, source: &str) -> Result<Vec<ModelPrices>, Fault> {
    let tree = Node::parse(text)?;
    let config = PriceFileConfig::deserialize(&tree)?;
    if config.version != VERSION {
        let message = format!("this loopgate reads the format {VERSION}; write `version = {VERSION}`");
        return Err(Fault::new(tree.origin_of(&["version"]), message));
    }
    let mut grouped: Vec<(&PriceRowConfig, Vec<Period>)> = Vec::new();
    for (nth, row) in config.model.iter().enumerate() {
        let nth = nth.to_string();
        let fault = |keys: &[&str], message: String| {
            Fault::new(tree.origin_of(&[&["model", nth.as_str()][..], keys].concat()), message)
        };
        for (key, text) in [("provider", &row.provider), ("model", &row.model)] {
            if text.trim().is_empty() {
                return Err(fault(&[key], format!("`{key}` is empty; write a name")));
            }
        }
        let from = row.from.as_deref().map(str::parse).transpose();
        let from = from.map_err(|message| fault(&["from"], message))?;
        let price = price_of(&row.price, |keys, message| fault(&[&["price"][..], keys].concat(), message))?;
        let period = Period { from, price };
        let same = |(other, _): &&mut (&PriceRowConfig, Vec<Period>)| {
            other.provider == row.provider && other.model == row.model
        };
        match grouped.iter_mut().find(same) {
            Some((_, periods)) if periods.last().is_some_and(|last| last.from >= period.from) => {
                let message = "the same model has a row before this one that begins as late; give this one a later `from`";
                return Err(fault(&["model"], message.to_owned()));
            }
            Some((_, periods)) => periods.push(period),
            None => grouped.push((row, vec![period])),
        }
    }
    let models = grouped
        .into_iter()
        .map(|(row, periods)| ModelPrices::new(row.provider.trim(), row.model.trim(), periods, source));
    Ok(models.collect())
}

/// A price in the unit of a run. `refused` makes an error from the key below the price and the message.
pub(crate) fn price_of<E>(config: &PriceConfig, refused: impl Fn(&[&str], String) -> E) -> Result<Price, E> {
    let token = |path: &[&str], usd: Usd| usd.per_token().map_err(|message| refused(path, message));
    let cached = |path: &[&str], usd: Option<Usd>| usd.map(|usd| token(path, usd)).transpose();
    let mut above: Vec<PriceAbove> = Vec::new();
    for (nth, config) in config.above.iter().enumerate() {
        let nth = nth.to_string();
        let key = |key: &'static str| ["above", nth.as_str(), key];
        if above.iter().any(|other| other.input_tokens == config.input_tokens) {
            let message = "another row begins above as many tokens; keep one of them".to_owned();
            return Err(refused(&key("input_tokens"), message));
        }
        above.push(PriceAbove {
            input_tokens: config.input_tokens,
            input: token(&key("input_usd_per_million"), config.input_usd_per_million)?,
            output: token(&key("output_usd_per_million"), config.output_usd_per_million)?,
            cache_read: cached(&key("cache_read_usd_per_million"), config.cache_read_usd_per_million)?,
            cache_write: cached(&key("cache_write_usd_per_million"), config.cache_write_usd_per_million)?,
            cache_write_long: cached(
                &key("cache_write_long_usd_per_million"),
                config.cache_write_long_usd_per_million,
            )?,
        });
    }
    Ok(Price {
        input: token(&["input_usd_per_million"], config.input_usd_per_million)?,
        output: token(&["output_usd_per_million"], config.output_usd_per_million)?,
        cache_read: cached(&["cache_read_usd_per_million"], config.cache_read_usd_per_million)?,
        cache_write: cached(&["cache_write_usd_per_million"], config.cache_write_usd_per_million)?,
        cache_write_long: cached(
            &["cache_write_long_usd_per_million"],
            config.cache_write_long_usd_per_million,
        )?,
        above,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use loop_runtime::models::Offline;

    use super::*;

    #[test]
    fn only_a_model_whose_price_depends_on_the_moment_is_wrapped() {
        let own =
            ModelPrices::new("openai-chat", "flat", [Period { from: None, price: Price::flat(1, 1) }], "");
        let list = PriceList::new(vec![own]);
        let is_wrapped = |name: &str| {
            let wanted = ServerModel {
                provider: "openai-chat".to_owned(),
                model: name.to_owned(),
                ..ServerModel::default()
            };
            let row = list.row(&wanted, "openai-chat", None);
            format!("{:?}", list.priced(Arc::new(Offline::new()), row.map(|(row, _)| row)))
                .starts_with("Priced")
        };
        assert!(is_wrapped("gpt-6.1-sol"), "its classes of service have prices of their own");
        assert!(!is_wrapped("flat"));
        assert!(!is_wrapped("unknown"));
    }
}
