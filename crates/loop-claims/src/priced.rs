//! Which amounts of a piece of evidence are money, and of which currency.

use std::sync::LazyLock;

use crate::chunk::folded;
use crate::json::Members;
use crate::known::Known;
use crate::unit::{Unit, currency_of, currency_of_code};

/// The only currency that a text names, by code or symbol. `None`: none, or several.
pub(super) fn currency_named(text: &str) -> Option<Unit> {
    let mut named = currencies(text);
    let first = named.next()?;
    named.all(|code| code == first).then(|| Unit::money(first))
}

/// The currencies that a text names by a symbol, by a code in capitals or in the name of a field, each once. Other words of
/// three letters are not codes: `ils` is a French word.
pub(super) fn currencies_written(text: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let mut add = |code: &'static str| {
        if !found.contains(&code) {
            found.push(code);
        }
    };
    for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || currency_of(c).is_some())) {
        if !word.is_ascii() || word.contains('$') {
            word.chars().filter_map(currency_of).for_each(&mut add);
        }
        let is_word = (4..=8).contains(&word.len())
            && word.starts_with(['d', 'e', 'f', 'p', 'r', 'y', 'D', 'E', 'F', 'P', 'R', 'Y']);
        if is_word && let Some(code) = Unit::named(word).and_then(|unit| unit.currency()) {
            add(code);
        }
        match word.split_once('_') {
            Some(_) => word.split('_').filter_map(code_of).for_each(&mut add),
            None => word.split(|c| currency_of(c).is_some()).filter_map(currency_of_code).for_each(&mut add),
        }
    }
    found
}

/// The currencies of a text: of its symbols, and of its words of three letters.
fn currencies(text: &str) -> impl Iterator<Item = &'static str> {
    let is_part = |c: char| c.is_alphanumeric() || currency_of(c).is_some();
    text.split(move |c: char| !is_part(c)).flat_map(|run| {
        let (letters, is_ascii) = (run.as_bytes(), run.is_ascii());
        let code = match letters {
            [a, b, c] => {
                let code = [a, b, c].map(|byte| byte.to_ascii_uppercase());
                std::str::from_utf8(&code).ok().and_then(currency_of_code)
            }
            _ => None,
        };
        let has_symbol = !is_ascii || letters.contains(&b'$');
        let symbols = has_symbol.then(|| run.chars().filter_map(currency_of));
        // `EUR€`: next to a symbol a code is a word of its own.
        let words = has_symbol.then(|| run.split(|c: char| !c.is_alphanumeric()).filter_map(code_of));
        code.into_iter().chain(symbols.into_iter().flatten()).chain(words.into_iter().flatten())
    })
}

/// The currency of a word of three letters, in any case.
fn code_of(word: &str) -> Option<&'static str> {
    if word.len() != 3 {
        return None;
    }
    currency_of_code(&word.to_ascii_uppercase())
}

/// Names of fields that hold the currency of their record, the best first.
static CURRENCY_FIELDS: LazyLock<Known> = LazyLock::new(|| {
    Known::ranked(&[
        "currency",
        "currency_code",
        "currencyCode",
        "waehrung",
        "währung",
        "devise",
        "moneda",
        "monnaie",
        "divisa",
        "ccy",
    ])
});

/// The currency that a record names for its amounts.
pub(super) fn currency_in(members: &Members<'_>) -> Option<Unit> {
    let code = members.first_of(&CURRENCY_FIELDS)?.as_str()?;
    currency_of_code(&code.to_uppercase()).map(Unit::money)
}

/// Whether the name of a field is of an amount of money, where its record names a currency.
pub(super) fn is_price(name: &str) -> bool {
    is_price_folded(&folded(name))
}

/// The same of a folded name.
pub(super) fn is_price_folded(name: &str) -> bool {
    PRICES.iter().any(|word| name.contains(word))
}

/// Words in the name of a field that holds money.
const PRICES: &[&str] = &[
    "amount", "price", "total", "cost", "fee", "balance", "refund", "paid", "sum", "tax", "value", "net",
    "gross", "due", "fare", "charge", "rate", "shipping", "preis", "betrag", "summe", "prix", "montant",
    "precio", "importe", "wert", "valor", "valeur",
];
