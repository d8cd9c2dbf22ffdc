//! Units, currencies, and the words of amounts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::chunk::folded;
use crate::decimal::Decimal;
use crate::known::Shapes;

/// What a unit measures. Amounts of one dimension are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dimension {
    Bytes,
    /// Bytes where a kilobyte has 1,024.
    BinaryBytes,
    /// Microseconds.
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

    pub(crate) const SECONDS: Self = Self { dimension: Dimension::Time, factor: 1_000_000, binary: None };

    pub(crate) const MILLISECONDS: Self = Self { dimension: Dimension::Time, factor: 1_000, binary: None };

    pub(crate) const BYTES: Self = Self { dimension: Dimension::Bytes, factor: 1, binary: Some(1) };

    /// How many seconds one of it has. `None`: it is not a time, or less than a second.
    pub(crate) fn seconds(&self) -> Option<u64> {
        let second = Self::SECONDS.factor;
        (self.dimension == Dimension::Time && self.factor >= second).then_some(self.factor / second)
    }

    /// The code of its currency.
    pub(crate) fn currency(&self) -> Option<&'static str> {
        match self.dimension {
            Dimension::Money(code) => Some(code),
            _ => None,
        }
    }

    /// Whether it has the size of another unit of its dimension, as `GB` has of `GiB`.
    pub(crate) fn is_size_of(&self, other: &Self) -> bool {
        let sizes = |unit: &Self| [Some(unit.factor), unit.binary];
        sizes(self).iter().flatten().any(|size| sizes(other).iter().flatten().any(|other| size == other))
    }

    /// Whether it is a span of time, also one of months.
    pub(crate) fn is_span(&self) -> bool {
        matches!(self.dimension, Dimension::Time | Dimension::Other("month"))
    }

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

    /// The unit that a word of a text names. Codes of currencies have capitals.
    pub(crate) fn named(word: &str) -> Option<Self> {
        if word.len() > MAX_UNIT {
            return None;
        }
        if let Some(code) = currency_of_code(word) {
            return Some(Self::money(code));
        }
        // As French abbreviates the units of octets.
        let word = match word {
            "US" => return None,
            "Ko" => "kb",
            "Mo" => "mb",
            "Go" => "gb",
            "To" => "tb",
            word => word,
        };
        let is_small = |c: char| c.is_ascii() && !c.is_ascii_uppercase();
        let folded = match word.chars().all(is_small) {
            true => Cow::Borrowed(word),
            false => Cow::Owned(word.to_lowercase()),
        };
        let (shapes, names) = &*NAMES;
        if shapes.may_have(&folded) { names.get(&*folded).cloned() } else { None }
    }

    fn of_bytes(name: &str, factor: u64) -> Self {
        let binary = BINARY.iter().find(|(decimal, _)| *decimal == factor).map(|(_, binary)| *binary);
        // `GiB` has one size only.
        match binary.filter(|_| name.ends_with("ib")) {
            Some(binary) => Self { dimension: Dimension::Bytes, factor: binary, binary: Some(binary) },
            None => Self { dimension: Dimension::Bytes, factor, binary },
        }
    }

    /// The unit that the name of a field has, as in `size_gb`, `durationMs`, `bytes_written` or `amount_usd`.
    pub(crate) fn of_field(name: &str) -> Option<Self> {
        let words = words_of(name);
        let (last, before) = words.split_last()?;
        if matches!(last.as_str(), "c" | "f") && before.iter().any(|word| word.starts_with("temp")) {
            return Self::named(if last == "c" { "°c" } else { "°f" });
        }
        // `kWh` has capitals inside.
        let end =
            name.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default();
        if end.len() > 1
            && !end.starts_with(char::is_uppercase)
            && end.chars().any(char::is_uppercase)
            && let Some(unit) = Self::named(end).filter(|unit| unit.currency().is_none())
        {
            return Some(unit);
        }
        // `pump_m3_h` is a rate, whose number is in cubic metres.
        if matches!(last.as_str(), "h" | "s" | "min" | "d")
            && let Some(unit) = before.last().filter(|word| word.len() > 1).and_then(|word| Self::named(word))
        {
            return Some(unit);
        }
        // `min` is also the least, and a letter alone is often a name.
        let is_time = |word: &String| {
            [
                "wait", "time", "duration", "delay", "turnover", "travel", "latency", "dauer", "durée",
                "duree", "espera", "zeit", "pause", "break", "retard", "retraso", "duracion", "late",
                "overrun", "ziehung", "spätung", "spaetung", "down", "lead", "span", "elapsed", "overtime",
                "talk", "hold", "parada", "arret",
            ]
            .iter()
            .any(|name| word.contains(name))
        };
        if last == "min" && before.iter().any(is_time) {
            return Self::named(last);
        }
        let of_last = match last.as_str() {
            "s" | "h" | "m" | "l" | "t" | "kg" | "g" if !before.is_empty() => Self::named(last),
            "min" | "day" | "year" | "month" | "week" | "second" => None,
            // `price_per_l`.
            _ if before.last().is_some_and(|word| word == "per") => None,
            last if last.len() > 1 => Self::named(last),
            _ => None,
        };
        // `残業時間`.
        if !name.is_ascii()
            && let Some(unit) =
                ["時間", "円", "秒"].iter().find(|unit| name.ends_with(**unit)).and_then(|it| Self::named(it))
        {
            return Some(unit);
        }
        // `tailleMo` has the case of the French units of octets.
        let of_last = of_last.or_else(|| {
            let end = name.get(name.len().checked_sub(2)?..)?;
            matches!(end, "Ko" | "Mo" | "Go").then(|| Self::named(end)).flatten()
        });
        let code = |word: &String| currency_of_code(&word.to_uppercase()).map(Self::money);
        // `precio_eur_mwh` is a price.
        before.iter().find_map(code).or(of_last).or_else(|| code(last)).or_else(|| {
            let is_long = |word: &&String| {
                word.len() > 4
                    || matches!(
                        word.as_str(),
                        "pct" | "days" | "tage" | "tagen" | "dias" | "mins" | "secs" | "hrs"
                    )
            };
            before.iter().rev().find_map(|word| {
                code(word).or_else(|| Some(word).filter(is_long).and_then(|word| Self::named(word)))
            })
        })
    }
}

impl Unit {
    /// The unit behind `per` in the name of a field.
    pub(crate) fn of_rate(name: &str) -> Option<Self> {
        let words = words_of(name);
        if let Some(per) = words.iter().position(|word| word == "per") {
            return Self::named(words.get(per + 1)?);
        }
        // `fee_eur_month`.
        let (last, before) = words.split_last()?;
        let is_money =
            before.iter().any(|word| currency_of_code(&word.to_uppercase()).is_some() || is_fee(word));
        Self::named(last).filter(|unit| is_money && unit.is_span())
    }
}

/// Whether a word in the name of a field is of money that is paid again and again.
fn is_fee(word: &str) -> bool {
    ["price", "rent", "fee", "salary", "preis", "miete", "gehalt", "loyer", "salaire", "renta", "salario"]
        .contains(&word)
}

/// The power of ten by which the name of a field says that an amount of money is larger than the unit, as in `amount_cents`.
/// The currency too, where the name says it.
pub(crate) fn minor_of_field(name: &str) -> Option<(u32, Option<&'static str>)> {
    words_of(name).iter().find_map(|word| match word.as_str() {
        "cents" | "cent" | "minor" => Some((2, None)),
        "pence" => Some((2, Some("GBP"))),
        "micros" => Some((6, None)),
        _ => None,
    })
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
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    CURRENCIES.iter().map(|(_, known)| *known).find(|known| *known == code)
}

/// The power of ten that a word multiplies by.
pub(crate) fn power_of(word: &str) -> Option<u32> {
    // The longest has 9 letters.
    if word.len() > 12 || word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(match &*folded(word) {
        "thousand" | "tausend" | "mille" | "mil" | "千" => 3,
        "million" | "millionen" | "millions" | "millones" | "mio" | "millón" => 6,
        "billion" | "milliarden" | "milliards" | "mrd" | "bn" | "milliarde" | "milliard" => 9,
        "万" => 4,
        "億" => 8,
        _ => return None,
    })
}

/// The words of a field's name, folded: `size_gb`, `sizeGB` and `sizeGb` have two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        let is_sign = !(c.is_alphanumeric() || c == '%' || c == '°');
        let begins = is_sign || c.is_uppercase() && was_small;
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !is_sign) {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The longest name of a unit, in bytes.
const MAX_UNIT: usize = 24;

/// Each name of a unit, in small letters.
static NAMES: LazyLock<(Shapes, BTreeMap<&'static str, Unit>)> = LazyLock::new(|| {
    let mut names = BTreeMap::new();
    for (of_unit, dimension, factor) in UNITS {
        for name in *of_unit {
            let unit = match dimension {
                Dimension::Bytes => Unit::of_bytes(name, *factor),
                other => Unit { dimension: other.clone(), factor: *factor, binary: None },
            };
            names.entry(*name).or_insert(unit);
        }
    }
    names.extend(PERCENT.iter().map(|name| (*name, Unit::PERCENT)));
    for (of_currency, code) in &CURRENCIES {
        names.extend(of_currency.iter().map(|name| (*name, Unit::money(code))));
    }
    (Shapes::of(names.keys().copied()), names)
});

const PERCENT: &[&str] = &[
    "%",
    "％",
    "percent",
    "prozent",
    "pct",
    "pourcent",
    "percentage",
    "パーセント",
    "prozentpunkte",
    "prozentpunkten",
    "puntos",
    "pp",
];

const CURRENCIES: [(&[&str], &str); 27] = [
    (&["dollar", "dollars", "us$", "ドル"], "USD"),
    (&["euro", "euros", "ユーロ"], "EUR"),
    (&["pound", "pounds", "ポンド"], "GBP"),
    (&["yen", "円"], "JPY"),
    (&["franken", "francs"], "CHF"),
    (&[], "CAD"),
    (&[], "AUD"),
    (&["yuan"], "CNY"),
    (&["rupees"], "INR"),
    (&[], "SEK"),
    (&[], "NOK"),
    (&[], "DKK"),
    (&[], "PLN"),
    (&[], "BRL"),
    (&[], "MXN"),
    (&[], "NZD"),
    (&[], "AED"),
    (&[], "SAR"),
    (&[], "SGD"),
    (&[], "HKD"),
    (&[], "ZAR"),
    (&[], "CZK"),
    (&[], "HUF"),
    (&[], "ILS"),
    (&[], "KRW"),
    (&[], "THB"),
    (&[], "CLP"),
];

const BINARY: [(u64, u64); 6] = [
    (1, 1),
    (1_000, 1 << 10),
    (1_000_000, 1 << 20),
    (1_000_000_000, 1 << 30),
    (1_000_000_000_000, 1 << 40),
    (1_000_000_000_000_000, 1 << 50),
];

const UNITS: &[(&[&str], Dimension, u64)] = &[
    (&["byte", "bytes", "octet", "octets"], Dimension::Bytes, 1),
    (&["kb", "kib", "kbyte", "kilobyte", "kilobytes"], Dimension::Bytes, 1_000),
    (&["mb", "mib", "mbyte", "megabyte", "megabytes"], Dimension::Bytes, 1_000_000),
    (&["gb", "gib", "gbyte", "gigabyte", "gigabytes"], Dimension::Bytes, 1_000_000_000),
    (&["tb", "tib", "tbyte", "terabyte", "terabytes"], Dimension::Bytes, 1_000_000_000_000),
    (&["pb", "pib", "petabyte", "petabytes"], Dimension::Bytes, 1_000_000_000_000_000),
    (&["µs", "μs", "us", "microsecond", "microseconds", "mikrosekunden"], Dimension::Time, 1),
    (
        &["ms", "millisecond", "milliseconds", "millisekunden", "millisecondes", "ミリ秒"],
        Dimension::Time,
        1_000,
    ),
    (
        &[
            "s", "sec", "secs", "second", "seconds", "sek", "sekunde", "sekunden", "seconde", "secondes",
            "segundo", "segundos", "秒",
        ],
        Dimension::Time,
        1_000_000,
    ),
    (
        &["min", "mins", "minute", "minutes", "minuten", "minuto", "minutos", "分"],
        Dimension::Time,
        60_000_000,
    ),
    (
        &[
            "h", "hr", "hrs", "hour", "hours", "std", "stunde", "stunden", "heure", "heures", "hora",
            "horas", "時間",
        ],
        Dimension::Time,
        3_600_000_000,
    ),
    (
        &[
            "day", "days", "tag", "tage", "tagen", "jour", "jours", "día", "días", "日間", "night", "nights",
            "nacht", "nächte", "nächten", "nuit", "nuits", "noche", "noches",
        ],
        Dimension::Time,
        86_400_000_000,
    ),
    (
        &["week", "weeks", "woche", "wochen", "semaine", "semaines", "semana", "semanas", "週間"],
        Dimension::Time,
        604_800_000_000,
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
    (&["°c", "celsius"], Dimension::Other("celsius"), 1),
    (&["°f", "fahrenheit"], Dimension::Other("fahrenheit"), 1),
    (&["dbm"], Dimension::Other("decibel-milliwatt"), 1),
    (&["t", "tonnes", "tonne", "tonnen"], Dimension::Mass, 1_000_000_000),
    (&["lb", "lbs"], Dimension::Other("pound"), 1),
    (&["oz"], Dimension::Other("ounce"), 1),
    (&["mwh"], Dimension::Other("watt-hour"), 1_000_000),
    (&["mw"], Dimension::Other("watt"), 1_000_000),
    (&["ft", "feet"], Dimension::Other("foot"), 1),
    (&["mg"], Dimension::Mass, 1),
    (&["g", "gram", "grams", "gramm"], Dimension::Mass, 1_000),
    (&["kg", "kilogram", "kilograms", "kilogramm"], Dimension::Mass, 1_000_000),
    (&["mm"], Dimension::Length, 1),
    (&["cm"], Dimension::Length, 10),
    (&["m", "metre", "metres", "meter", "meters"], Dimension::Length, 1_000),
    (&["km", "kilometre", "kilometres", "kilometer", "kilometers"], Dimension::Length, 1_000_000),
    (&["w", "watt", "watts"], Dimension::Other("watt"), 1),
    (&["kw"], Dimension::Other("watt"), 1_000),
    (&["wh"], Dimension::Other("watt-hour"), 1),
    (&["kwh"], Dimension::Other("watt-hour"), 1_000),
    (&["ha", "hectare", "hectares", "hektar", "hectáreas"], Dimension::Other("hectare"), 1),
    (&["acre", "acres"], Dimension::Other("acre"), 1),
    (&["m²", "m2", "sqm", "qm"], Dimension::Other("square metre"), 1),
    (&["ft²", "ft2", "sqft"], Dimension::Other("square foot"), 1),
    (&["km²", "km2"], Dimension::Other("square kilometre"), 1),
    (&["m³", "m3"], Dimension::Other("cubic metre"), 1),
    (&["l", "litre", "litres", "liter", "liters", "litros"], Dimension::Other("litre"), 1_000),
    (&["ml", "millilitre", "millilitres", "milliliter", "milliliters"], Dimension::Other("litre"), 1),
    (&["mmol"], Dimension::Other("mole"), 1_000),
    (&["µmol", "μmol", "umol"], Dimension::Other("mole"), 1),
    (&["bar"], Dimension::Other("bar"), 1_000),
    (&["mbar", "hpa"], Dimension::Other("bar"), 1),
    (&["kpa"], Dimension::Other("pascal"), 1_000),
    (&["psi"], Dimension::Other("pound per square inch"), 1),
    (&["v", "volt", "volts"], Dimension::Other("volt"), 1_000),
    (&["mv"], Dimension::Other("volt"), 1),
    (&["kv"], Dimension::Other("volt"), 1_000_000),
    (&["db"], Dimension::Other("decibel"), 1),
    (&["rpm"], Dimension::Other("turn per minute"), 1),
    (&["ppm"], Dimension::Other("millionth"), 1),
    (&["mile", "miles"], Dimension::Other("mile"), 1),
    (&["inch", "inches"], Dimension::Other("inch"), 1),
    (&["µg", "μg"], Dimension::Other("microgram"), 1),
    (&["hz"], Dimension::Other("hertz"), 1),
    (&["mhz"], Dimension::Other("hertz"), 1_000_000),
    (&["ghz"], Dimension::Other("hertz"), 1_000_000_000),
    (&["kbit", "kbps"], Dimension::Other("kilobit"), 1),
    (&["mbit", "mbps", "mbit/s"], Dimension::Other("kilobit"), 1_000),
    (&["gbit", "gbps"], Dimension::Other("kilobit"), 1_000_000),
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
        assert_eq!(unit("bytes_written"), Some(Dimension::Bytes));
        assert_eq!(unit("medianHoursToMerge"), Some(Dimension::Time));
        assert_eq!(unit("price_min"), None);
        assert_eq!(unit("temp_c"), Some(Dimension::Other("celsius")));
        assert_eq!(unit("b"), None);
        assert_eq!(unit("jobs"), None);
    }
}
