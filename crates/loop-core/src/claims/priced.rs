//! Which amounts of a piece of evidence are money, and of which currency.

use serde_json::{Map, Value as Json};

use crate::claims::chunk::folded;
use crate::claims::unit::{Unit, currency_of, currency_of_code};

/// The only currency that a text names, by code or symbol. `None`: none, or several.
pub(super) fn currency_named(text: &str) -> Option<Unit> {
    let of_symbol = |c: char| currency_of(c);
    let of_word = |word: &str| match word.len() {
        3 => currency_of_code(&word.to_ascii_uppercase())
            .filter(|_| word.bytes().all(|byte| byte.is_ascii_alphabetic())),
        _ => None,
    };
    let words = text.split(|c: char| !c.is_alphanumeric()).filter_map(of_word);
    let mut named = text.chars().filter_map(of_symbol).chain(words);
    let first = named.next()?;
    named.all(|code| code == first).then(|| Unit::money(first))
}

/// The currency that a record names for its amounts.
pub(super) fn currency_in(members: &Map<String, Json>) -> Option<Unit> {
    let names = [
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
    ];
    let code = names.iter().find_map(|name| members.get(*name))?.as_str()?;
    currency_of_code(&code.to_uppercase()).map(Unit::money)
}

/// Whether the name of a field is of an amount of money, where its record names a currency.
pub(super) fn is_price(name: &str) -> bool {
    let name = folded(name);
    PRICES.iter().any(|word| name.contains(word))
}

/// Words in the name of a field that holds money.
const PRICES: &[&str] = &[
    "amount", "price", "total", "cost", "fee", "balance", "refund", "paid", "sum", "tax", "value", "net",
    "gross", "due", "fare", "charge", "rate", "shipping", "preis", "betrag", "summe", "prix", "montant",
    "precio", "importe", "wert", "valor", "valeur",
];
