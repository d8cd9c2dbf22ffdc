//! What models cost: a dated table that comes with the program, rows of your own before it, and no guesses.
//!
//! **What it does not do.** It makes no requests: no network, no clock, no model client. **The nouns.** [`ModelPrices`], [`Prices`],
//! [`PriceRow`], [`Period`].
//!
//! [`known`] returns a model's whole entry, [`find`] its price at one moment. Both look it up by the name of the
//! provider in a domain file and the model's name at that provider: first in the table that `cargo xtask prices` makes
//! from the published package `genai-prices`, then in a short supplement whose rows each name their source. [`Prices`]
//! puts a user's own rows before both. In each of them an exact name takes precedence over a rule. A model that is in
//! none of them gives `None`: an unknown price is never 0.
//!
//! A price can change by date, by hour of the day and by class of service. [`ModelPrices`] knows all of it;
//! [`PriceRow::price`] is the price of one moment and [`PriceRow::dearest`] the highest price within the next 24 hours,
//! for reserves. `Priced` in `loop-runtime` is a model whose replies carry the price of the moment at which each call
//! began.
//!
//! Prices in files are decimal dollars per million tokens. They are read exactly, into whole pico-dollars per token.

mod date;
mod model;
mod pattern;
mod provider;
mod server;
mod table;

use std::sync::Arc;

use loop_core::types::Price;

pub use date::Date;
pub use model::{Hours, ModelPrices, Period};
pub use provider::list_of;
pub use server::{ChargedBy, at_server, names};

use table::{ORIGIN, SUPPLEMENT, TABLE, Table};

/// Where prices are looked up: the user's own rows first, then the table of this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    own: Vec<Arc<ModelPrices>>,
}

/// What a model costs at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRow {
    /// The price at that moment.
    pub price: Price,
    /// The highest price that a call of the standard class of service can have within 24 hours from that moment.
    pub dearest: Price,
    /// The whole entry of the model.
    pub model: Arc<ModelPrices>,
}

/// A model's entry in the tables of this crate: its prices at any moment, and its context window and output limit if
/// the tables have them. `None`: no price of its tokens is known. No model costs 0 by default.
///
/// `provider` is the name that a domain file gives, such as `openai-chat`.
///
/// ```
/// let model = loop_llm::prices::known("anthropic", "claude-3-haiku").unwrap();
/// assert_eq!(model.context_tokens, Some(200_000));
/// // Pico-dollars a token: $0.25 for a million.
/// assert_eq!(model.at(1_764_000_000).unwrap().input, 250_000);
/// ```
pub fn known(provider: &str, model: &str) -> Option<Arc<ModelPrices>> {
    listed(list_of(provider, None)?, model).map(Arc::clone)
}

/// The price of a model by the tables of this crate, at `at` seconds since 1970: see [`Prices::find`].
pub fn find(provider: &str, model: &str, at: u64) -> Option<PriceRow> {
    Prices::default().find(provider, model, at)
}

impl Prices {
    /// Prices with a user's own rows before all others, in their order.
    pub fn with_own(own: impl IntoIterator<Item = ModelPrices>) -> Self {
        Self { own: own.into_iter().map(Arc::new).collect() }
    }

    /// The price of a model at `at` seconds since 1970; `None`: it is not known.
    ///
    /// `provider` is the name that a domain file gives. The user's own rows are found by that name or by the name of
    /// its list ([`list_of`]). The tables of this crate are searched by the name of the list alone, so that a server on
    /// this machine has no price there.
    pub fn find(&self, provider: &str, model: &str, at: u64) -> Option<PriceRow> {
        let list = list_of(provider, None);
        self.own(provider, model, at).or_else(|| listed(list?, model)?.row(at))
    }

    /// The same as [`find`](Self::find), in the user's own rows alone.
    pub fn own(&self, provider: &str, model: &str, at: u64) -> Option<PriceRow> {
        let list = list_of(provider, None);
        let of_provider =
            |row: &&Arc<ModelPrices>| &*row.provider == provider || Some(&*row.provider) == list;
        named(self.own.iter().filter(of_provider), model)?.row(at)
    }

    /// Every model with a price: the user's own rows, the table, the supplement.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ModelPrices>> {
        let shipped = TABLE.models.iter().chain(&SUPPLEMENT.models);
        self.own.iter().chain(shipped).filter(|model| model.is_priced())
    }
}

/// The source and the date of the table of this crate.
pub fn origin() -> &'static str {
    &ORIGIN
}

/// What comes with the program: the table, then the supplement; in each the list itself, then those it falls back to.
fn listed(list: &str, model: &str) -> Option<&'static Arc<ModelPrices>> {
    let others = TABLE.fallback.get(list).into_iter().flatten();
    let lists: Vec<&str> = std::iter::once(list).chain(others.map(String::as_str)).collect();
    let in_table = |table: &'static Table| {
        lists.iter().find_map(|list| named(table.models.iter().filter(|row| *row.provider == **list), model))
    };
    in_table(&TABLE).or_else(|| in_table(&SUPPLEMENT)).filter(|model| model.is_priced())
}

/// The model of this name: by its id, else by the first rule that takes it; also with a date written without its hyphens.
fn named<'a>(
    models: impl Iterator<Item = &'a Arc<ModelPrices>> + Clone,
    name: &str,
) -> Option<&'a Arc<ModelPrices>> {
    let name = name.trim().to_lowercase();
    let find = |name: &str| {
        let mut exact = models.clone();
        exact
            .find(|model| model.id.eq_ignore_ascii_case(name))
            .or_else(|| models.clone().find(|model| model.takes(name)))
    };
    find(&name).or_else(|| find(&date::with_hyphens(&name)?))
}
