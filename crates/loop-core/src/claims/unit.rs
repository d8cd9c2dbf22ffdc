//! Units, currencies, and the words of amounts.

use crate::claims::decimal::Decimal;

/// What a unit measures. Amounts of one dimension are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dimension {
    Bytes,
    /// Bytes where a kilobyte has 1,024.
    BinaryBytes,
    /// Milliseconds.
    Time,
    /// Milligrams.
    Mass,
    /// Millimetres.
    Length,
    /// Millivolts, milliwatts, watt-hours, hertz, degrees: by its name, of one size each.
    Other(&'static str),
    Percent,
    /// By its code in ISO 4217.
    Money(&'static str),
}

/// A unit of an amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) dimension: Dimension,
    factor: u64,
    /// The factor where a kilobyte has 1,024 bytes. `None`: it has but one size.
    binary: Option<u64>,
}

impl Unit {
    pub(crate) const PERCENT: Self = Self { dimension: Dimension::Percent, factor: 1, binary: None };

    /// A count: it equals amounts without a unit, and no others.
    pub(crate) const COUNT: Self = Self { dimension: Dimension::Other("count"), factor: 1, binary: None };

    pub(crate) fn money(code: &'static str) -> Self {
        Self { dimension: Dimension::Money(code), factor: 1, binary: None }
    }

    /// The amount in the smallest unit of each dimension in which it can be compared.
    pub(crate) fn in_base(&self, amount: Decimal) -> impl Iterator<Item = (Dimension, Decimal)> {
        self.factors().filter_map(move |(dimension, factor)| Some((dimension, amount.times(factor)?)))
    }

    /// The factors by which an amount is divided to be in this unit, with the dimension that each is for.
    pub(crate) fn factors(&self) -> impl Iterator<Item = (Dimension, u64)> {
        let binary = self.binary.map(|factor| (Dimension::BinaryBytes, factor));
        [(self.dimension.clone(), self.factor)].into_iter().chain(binary)
    }

    /// The unit that a word names.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let folded = word.to_lowercase();
        if let Some((_, code)) = CURRENCIES.iter().find(|(names, _)| names.contains(&&*folded)) {
            return Some(Self::money(code));
        }
        if PERCENT.contains(&&*folded) {
            return Some(Self::PERCENT);
        }
        let (_, dimension, factor) = UNITS.iter().find(|(names, ..)| names.contains(&&*folded))?;
        let binary = match dimension {
            Dimension::Bytes => {
                BINARY.iter().find(|(decimal, _)| decimal == factor).map(|(_, binary)| *binary)
            }
            _ => None,
        };
        // `GiB` has one size only.
        let is_binary = folded.ends_with("ib") || folded.ends_with("ibyte") || folded.ends_with("ibytes");
        match binary {
            Some(binary) if is_binary && folded != "b" => {
                Some(Self { dimension: dimension.clone(), factor: binary, binary: Some(binary) })
            }
            binary => Some(Self { dimension: dimension.clone(), factor: *factor, binary }),
        }
    }

    /// The unit that the name of a field ends with, as in `size_gb`, `durationMs` or `amount_usd`.
    pub(crate) fn of_field(name: &str) -> Option<Self> {
        let last = last_word(name)?;
        // A field `count_s` or `b` names something else.
        (last.len() > 1 || (last == "s" && name.len() > 1)).then(|| Self::named(&last)).flatten()
    }
}

/// The currency of a symbol.
pub(crate) fn currency_of(symbol: char) -> Option<&'static str> {
    Some(match symbol {
        '$' => "USD",
        '€' => "EUR",
        '£' => "GBP",
        '¥' | '￥' | '円' => "JPY",
        '₹' => "INR",
        _ => return None,
    })
}

/// The currency of a code in capitals.
pub(crate) fn currency_of_code(code: &str) -> Option<&'static str> {
    CURRENCIES.iter().map(|(_, known)| *known).find(|known| *known == code)
}

/// The power of ten that a word multiplies by.
pub(crate) fn power_of(word: &str) -> Option<u32> {
    Some(match &*word.to_lowercase() {
        "thousand" | "tausend" | "mille" | "mil" | "千" => 3,
        "million" | "millionen" | "millions" | "millones" | "mio" | "millón" => 6,
        "billion" | "milliarden" | "milliards" | "mrd" | "bn" | "milliarde" | "milliard" => 9,
        "万" => 4,
        "億" => 8,
        _ => return None,
    })
}

/// The last word of a field's name, folded: `size_gb` and `sizeGb` end with `gb`.
fn last_word(name: &str) -> Option<String> {
    let last = name.rsplit(['_', '-', '.', ' ']).next()?;
    let chars: Vec<char> = last.chars().collect();
    let mut begin = chars.len();
    // From the end to a capital that follows a small letter; `sizeGB` ends with `gb`.
    for (n, pair) in chars.windows(2).enumerate().rev() {
        if let [before, after] = pair
            && after.is_uppercase()
            && !before.is_uppercase()
        {
            begin = n + 1;
            break;
        }
    }
    let word: String =
        if begin == chars.len() { last.to_owned() } else { chars.into_iter().skip(begin).collect() };
    (!word.is_empty()).then(|| word.to_lowercase())
}

const PERCENT: [&str; 8] = ["%", "％", "percent", "prozent", "pct", "pourcent", "percentage", "パーセント"];

const CURRENCIES: [(&[&str], &str); 15] = [
    (&["usd", "dollar", "dollars", "us$"], "USD"),
    (&["eur", "euro", "euros"], "EUR"),
    (&["gbp", "pound", "pounds"], "GBP"),
    (&["jpy", "yen", "円"], "JPY"),
    (&["chf", "franken", "francs"], "CHF"),
    (&["cad"], "CAD"),
    (&["aud"], "AUD"),
    (&["cny", "rmb", "yuan"], "CNY"),
    (&["inr", "rupees"], "INR"),
    (&["sek"], "SEK"),
    (&["nok"], "NOK"),
    (&["dkk"], "DKK"),
    (&["pln"], "PLN"),
    (&["brl"], "BRL"),
    (&["mxn"], "MXN"),
];

const BINARY: [(u64, u64); 6] = [
    (1, 1),
    (1_000, 1 << 10),
    (1_000_000, 1 << 20),
    (1_000_000_000, 1 << 30),
    (1_000_000_000_000, 1 << 40),
    (1_000_000_000_000_000, 1 << 50),
];

const UNITS: [(&[&str], Dimension, u64); 29] = [
    (&["byte", "bytes", "octet", "octets"], Dimension::Bytes, 1),
    (&["kb", "kib", "kbyte", "kilobyte", "kilobytes"], Dimension::Bytes, 1_000),
    (&["mb", "mib", "mbyte", "megabyte", "megabytes"], Dimension::Bytes, 1_000_000),
    (&["gb", "gib", "gbyte", "gigabyte", "gigabytes"], Dimension::Bytes, 1_000_000_000),
    (&["tb", "tib", "tbyte", "terabyte", "terabytes"], Dimension::Bytes, 1_000_000_000_000),
    (&["pb", "pib", "petabyte", "petabytes"], Dimension::Bytes, 1_000_000_000_000_000),
    (&["ms", "millisecond", "milliseconds", "millisekunden", "millisecondes"], Dimension::Time, 1),
    (
        &[
            "s", "sec", "secs", "second", "seconds", "sekunde", "sekunden", "seconde", "secondes", "segundo",
            "segundos", "秒",
        ],
        Dimension::Time,
        1_000,
    ),
    (&["min", "mins", "minute", "minutes", "minuten", "minuto", "minutos", "分"], Dimension::Time, 60_000),
    (
        &["h", "hr", "hrs", "hour", "hours", "stunde", "stunden", "heure", "heures", "hora", "horas", "時間"],
        Dimension::Time,
        3_600_000,
    ),
    (
        &["day", "days", "tag", "tage", "tagen", "jour", "jours", "día", "días", "日間"],
        Dimension::Time,
        86_400_000,
    ),
    (
        &["week", "weeks", "woche", "wochen", "semaine", "semaines", "semana", "semanas", "週間"],
        Dimension::Time,
        604_800_000,
    ),
    (
        &["month", "months", "monat", "monate", "monaten", "mois", "mes", "meses", "か月"],
        Dimension::Other("month"),
        1,
    ),
    (
        &["year", "years", "jahr", "jahre", "jahren", "ans", "année", "années", "año", "años", "年間"],
        Dimension::Other("month"),
        12,
    ),
    (&["mg"], Dimension::Mass, 1),
    (&["g", "gram", "grams", "gramm"], Dimension::Mass, 1_000),
    (&["kg", "kilogram", "kilograms", "kilogramm"], Dimension::Mass, 1_000_000),
    (&["mm"], Dimension::Length, 1),
    (&["cm"], Dimension::Length, 10),
    (&["metre", "metres", "meter", "meters"], Dimension::Length, 1_000),
    (&["km", "kilometre", "kilometres", "kilometer", "kilometers"], Dimension::Length, 1_000_000),
    (&["w", "watt", "watts"], Dimension::Other("watt"), 1),
    (&["kw"], Dimension::Other("watt"), 1_000),
    (&["wh"], Dimension::Other("watt-hour"), 1),
    (&["kwh"], Dimension::Other("watt-hour"), 1_000),
    (&["hz"], Dimension::Other("hertz"), 1),
    (&["mhz"], Dimension::Other("hertz"), 1_000_000),
    (&["ghz"], Dimension::Other("hertz"), 1_000_000_000),
    (&["mbit", "mbps", "mbit/s"], Dimension::Other("megabit"), 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn base(amount: u64, unit: &str) -> Vec<(Dimension, Decimal)> {
        let unit = Unit::named(unit).into_iter();
        unit.flat_map(|unit| unit.in_base(Decimal::whole(amount)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn amounts_of_the_same_size_meet_in_a_dimension() {
        let meet =
            |a: Vec<(Dimension, Decimal)>, b: Vec<(Dimension, Decimal)>| a.iter().any(|it| b.contains(it));
        assert!(meet(base(1_000, "MB"), base(1, "GB")));
        assert!(meet(base(1_024, "MB"), base(1, "GB")));
        assert!(meet(base(1, "GiB"), base(1_024, "MiB")));
        assert!(!meet(base(42, "GB"), base(42, "TB")));
        assert!(meet(base(90, "minutes"), base(5_400, "s")));
        assert!(!meet(base(5, "hours"), base(5, "GB")));
    }

    #[test]
    fn fields_name_their_unit_at_the_end() {
        let unit = |name| Unit::of_field(name).map(|unit| unit.dimension);
        assert_eq!(unit("size_gb"), Some(Dimension::Bytes));
        assert_eq!(unit("sizeGB"), Some(Dimension::Bytes));
        assert_eq!(unit("durationMs"), Some(Dimension::Time));
        assert_eq!(unit("amount_usd"), Some(Dimension::Money("USD")));
        assert_eq!(unit("used_percent"), Some(Dimension::Percent));
        assert_eq!(unit("uptime_s"), Some(Dimension::Time));
        assert_eq!(unit("b"), None);
        assert_eq!(unit("jobs"), None);
    }
}
