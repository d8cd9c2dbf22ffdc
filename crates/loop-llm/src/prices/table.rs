//! The tables that come with the program, as they are written and as they are used.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use loop_core::types::{Price, PriceAbove};
use serde::Deserialize;

use super::date::Date;
use super::model::{Hours, ModelPrices, Tariff};
use super::pattern::Pattern;

/// What `cargo xtask prices` makes of the published package.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("table.json")).expect("a test reads the committed table"));

/// What the package lacks; each row names its source.
pub(super) static SUPPLEMENT: LazyLock<Table> = LazyLock::new(|| {
    Table::read(include_str!("supplement.json")).expect("a test reads the committed supplement")
});

/// Where [`TABLE`] is from: each run names it, and few look a price up. It is the first line of the file, before the models.
pub(super) static ORIGIN: LazyLock<Arc<str>> = LazyLock::new(|| {
    let (head, _) = include_str!("table.json").split_once('\n').expect("a test reads the head");
    Table::read(&format!("{head}]}}")).expect("a test reads the head").origin
});

/// A table of prices.
#[derive(Debug)]
pub(super) struct Table {
    /// In one line: the package, its version, the day.
    pub(super) origin: Arc<str>,
    /// Lists in which a list's models are looked for that it does not have.
    pub(super) fallback: BTreeMap<String, Vec<String>>,
    /// In the order in which their rules are asked.
    pub(super) models: Vec<Arc<ModelPrices>>,
}

impl Table {
    fn read(text: &str) -> Result<Self, String> {
        let written: PriceFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if written.format != 1 || written.unit != "usd_per_million_tokens" {
            return Err("a table of another format".to_owned());
        }
        let dated: Date = written.dated.parse()?;
        let origin: Arc<str> = match &written.version {
            Some(version) => format!("{} {version}, {dated}", written.package).into(),
            None => written.package.into(),
        };
        let models = written.models.into_iter().map(|line| {
            let id = Arc::clone(&line.id);
            line.model(&origin, dated).map(Arc::new).map_err(|message| format!("{id}: {message}"))
        });
        Ok(Self { models: models.collect::<Result<_, String>>()?, fallback: written.fallback, origin })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    format: u32,
    package: String,
    #[serde(default)]
    version: Option<String>,
    dated: String,
    unit: String,
    #[serde(default)]
    fallback: BTreeMap<String, Vec<String>>,
    models: Vec<ModelRow>,
}

/// A model; one without prices takes its names away from the rules after it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelRow {
    provider: Arc<str>,
    id: Arc<str>,
    /// Rules in place of the id alone.
    #[serde(default)]
    r#match: Vec<String>,
    context: Option<u64>,
    max_output: Option<u64>,
    #[serde(default)]
    prices: Vec<RowPeriod>,
    #[serde(default)]
    service: Vec<RowPeriod>,
    source: Option<Arc<str>>,
    dated: Option<String>,
}

/// Prices in dollars for a million tokens, and when they hold. The last that holds counts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowPeriod {
    from: Option<String>,
    /// `01:00-04:00`, in UTC.
    hours: Option<String>,
    days: Option<Days>,
    /// The class of service.
    tier: Option<Arc<str>>,
    r#in: String,
    out: String,
    read: Option<String>,
    write: Option<String>,
    write_long: Option<String>,
    #[serde(default)]
    tiers: Vec<LineTier>,
}

#[derive(Debug, Deserialize)]
enum Days {
    #[serde(rename = "mon-fri")]
    MondayToFriday,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineTier {
    /// Input tokens of the whole call above which these prices hold.
    above: u64,
    r#in: String,
    out: String,
    read: Option<String>,
    write: Option<String>,
    write_long: Option<String>,
}

impl ModelRow {
    fn model(self, origin: &Arc<str>, dated: Date) -> Result<ModelPrices, String> {
        let rules = match self.r#match.is_empty() {
            true => vec![Pattern::new(&self.id)],
            false => self.r#match.iter().map(|rule| Pattern::new(rule)).collect(),
        };
        let service = self.service.into_iter().map(|period| {
            let tier = period.tier.clone().ok_or("a price of a class of service without its name")?;
            Ok((tier, period.when()?))
        });
        Ok(ModelPrices {
            provider: self.provider,
            id: self.id,
            context_tokens: self.context,
            max_output_tokens: self.max_output,
            source: self.source.unwrap_or_else(|| Arc::clone(origin)),
            dated: Some(self.dated.map_or(Ok(dated), |day| day.parse())?),
            rules,
            service: service.collect::<Result<_, String>>()?,
            periods: self.prices.into_iter().map(RowPeriod::when).collect::<Result<_, String>>()?,
        })
    }
}

impl RowPeriod {
    fn when(self) -> Result<Tariff, String> {
        let above = self.tiers.into_iter().map(|tier| {
            Ok(PriceAbove {
                input_tokens: tier.above,
                input: token(&tier.r#in)?,
                output: token(&tier.out)?,
                cache_read: tier.read.as_deref().map(token).transpose()?,
                cache_write: tier.write.as_deref().map(token).transpose()?,
                cache_write_long: tier.write_long.as_deref().map(token).transpose()?,
            })
        });
        let working_days = matches!(self.days, Some(Days::MondayToFriday));
        let hours = match (&self.hours, working_days) {
            (Some(text), _) => Some(hours(text, working_days)),
            (None, true) => return Err("days without hours".to_owned()),
            (None, false) => None,
        };
        Ok(Tariff {
            from: self.from.map(|day| day.parse()).transpose()?,
            hours: hours.transpose()?,
            price: Price {
                input: token(&self.r#in)?,
                output: token(&self.out)?,
                cache_read: self.read.as_deref().map(token).transpose()?,
                cache_write: self.write.as_deref().map(token).transpose()?,
                cache_write_long: self.write_long.as_deref().map(token).transpose()?,
                above: above.collect::<Result<_, String>>()?,
            },
        })
    }
}

/// Pico-dollars for one token, from dollars for a million: a millionth of a dollar for a million tokens is one.
fn token(usd_per_million: &str) -> Result<u64, String> {
    let refused = || format!("`{usd_per_million}` is not a price with at most six decimal places");
    let (whole, places) = usd_per_million.split_once('.').unwrap_or((usd_per_million, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || places.len() > 6 || !is_digits(whole) || !is_digits(places) {
        return Err(refused());
    }
    format!("{whole}{places:0<6}").parse().map_err(|_| refused())
}

/// Hours from `01:00-04:00`.
fn hours(text: &str, working_days: bool) -> Result<Hours, String> {
    let second = |clock: &str| {
        let (hour, minute) = clock.split_once(':')?;
        let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 3_600 + minute * 60)
    };
    let read = text.split_once('-').and_then(|(start, end)| second(start).zip(second(end)));
    let read = read.map(|(start, end)| Hours { start, end, working_days });
    read.ok_or_else(|| format!("`{text}` is not a range of hours; write 01:00-04:00"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn prices_are_read_to_the_last_digit() {
        for (text, expected) in [
            ("3", 3_000_000),
            ("0.1", 100_000),
            ("0.003625", 3_625),
            ("0.000001", 1),
            ("0", 0),
            ("2.50", 2_500_000),
        ] {
            assert_eq!(token(text), Ok(expected), "{text}");
        }
        for text in ["", ".5", "1e-6", "-1", "0.0000001", "$1", "18446744073710"] {
            assert!(token(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hours_are_read_and_others_refused() {
        let read = hours("01:00-04:30", true).unwrap();
        assert_eq!((read.start, read.end), (3_600, 16_200));
        assert_eq!(read.to_string(), "01:00-04:30 UTC, Monday to Friday");
        assert_eq!(hours("23:05-00:00", false).unwrap().to_string(), "23:05-00:00 UTC");
        for text in ["", "1", "01:00", "24:00-01:00", "01:60-02:00", "a:b-c:d"] {
            assert!(hours(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn both_committed_tables_are_read_and_every_row_of_the_supplement_names_its_source() {
        assert!(TABLE.models.len() > 500);
        assert_eq!(*ORIGIN, TABLE.origin);
        let mut names: Vec<(&str, &str)> =
            TABLE.models.iter().map(|row| (&*row.provider, &*row.id)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "a name stands twice in one list");
        let written: PriceFile = serde_json::from_str(include_str!("supplement.json")).unwrap();
        for line in &written.models {
            assert!(line.source.is_some() && line.dated.is_some(), "{}", line.id);
            let is_listed = |row: &Arc<ModelPrices>| {
                row.provider == line.provider && row.is_priced() && (row.id == line.id || row.takes(&line.id))
            };
            assert!(!TABLE.models.iter().any(is_listed), "the table has {}; take it out here", line.id);
        }
        assert_eq!(SUPPLEMENT.models.len(), written.models.len());
    }

    #[test]
    fn a_table_of_another_format_is_refused() {
        let table = |format: u32, unit: &str| {
            format!(r#"{{"format":{format},"package":"p","dated":"2026-11-20","unit":"{unit}","models":[]}}"#)
        };
        assert!(Table::read(&table(1, "usd_per_million_tokens")).is_ok());
        assert!(Table::read(&table(2, "usd_per_million_tokens")).is_err());
        assert!(Table::read(&table(1, "usd_per_token")).is_err());
        assert!(Table::read("{}").is_err());
    }
}
