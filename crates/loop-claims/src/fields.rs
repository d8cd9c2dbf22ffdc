//! The values of the fields of JSON: what a field is named says what its value is.

use std::sync::{Arc, LazyLock};

use crate::absence::{ANYTHING, stem, unaccented};
use crate::chunk::folded;
use crate::date::{Day, Time};
use crate::decimal::{Decimal, Number};
use crate::field::FieldName;
use crate::formula::Formula;
use crate::json::{Json, Members};
use crate::known::Known;
use crate::priced::currency_in;
use crate::scan::Scan;
use crate::span;
use crate::steps;
use crate::unit::Unit;
use crate::wanted::Exactness;

/// The longest text that says that a field has no value: `not found`.
const MAX_NOTHING: usize = 9;

impl Scan<'_> {
    /// A value under a name: of its field, or of what holds it.
    pub(super) fn json(&mut self, value: &Json<'_>, name: &Arc<FieldName>, unit: Option<&Unit>) {
        steps::count(1);
        match value {
            Json::Null | Json::Bool(false) => self.absent_field(name),
            Json::Bool(true) => {}
            Json::Number(number) => {
                let number = number.as_str();
                let Some(amount) = Decimal::of_json(number) else { return };
                self.field_amount(number, amount, name, unit);
                self.instant(amount, name);
                if amount == Decimal::whole(0) {
                    self.absent(ANYTHING);
                    self.absent_field(name);
                }
                self.field += 1;
                self.words(number);
            }
            Json::String(text) => {
                if text.len() <= MAX_NOTHING && says_nothing(text) {
                    self.absent_field(name);
                }
                // A number as a person writes it: `1.480,00`.
                let written = || {
                    let read = Number::read(text, self.query.locale)?;
                    text.contains([',', '.']).then_some(read.amount)
                };
                if name.is_missing && !self.query.absent.is_empty() {
                    for word in
                        folded(text).split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2)
                    {
                        self.absent(stem(&unaccented(word)));
                    }
                }
                let amount = || Decimal::of_json(text).or_else(written);
                match begins_as_number(text).then(amount).flatten() {
                    Some(amount) => {
                        self.field_amount(text, amount, name, unit);
                        self.field += 1;
                        self.words(text);
                    }
                    None => {
                        if name.is_duration && text.len() < 9 {
                            self.clock_duration(text);
                        }
                        self.text(text, unit);
                    }
                }
            }
            Json::Array(elements) => {
                if elements.is_empty() {
                    self.absent(ANYTHING);
                    self.absent_field(name);
                }
                self.records(elements, name);
                if self.query.asked.spans {
                    self.spans_between(elements);
                }
                self.mates.begin_list();
                for element in elements {
                    self.json(element, name, unit);
                }
                self.mates.end_list();
            }
            Json::Object(members) => {
                if members.is_empty() {
                    self.absent_field(name);
                }
                if self.query.asked.spans {
                    self.spans(members);
                }
                // `{"value": 139, "unit": "mmol/L"}`.
                let of_record = unit_in(members);
                let own = currency_in(members);
                let outer = own.as_ref().and_then(|own| self.currency.replace(own.clone()));
                let was_own = std::mem::replace(&mut self.is_own_currency, own.is_some());
                self.path.push(Arc::clone(name));
                self.mates.begin();
                for (key, value) in members.iter() {
                    let field = self.field_name(key);
                    self.name(&field);
                    let outer = std::mem::replace(&mut self.rate, field.rate.clone());
                    let of_record = of_record.as_ref().filter(|_| field.is_measure);
                    let holds_records = match value {
                        Json::Array(elements) => elements.first().is_some_and(Json::is_object),
                        other => other.is_object(),
                    };
                    if field.is_unit && holds_records {
                        self.json(value, &field, unit);
                        self.rate = outer;
                        continue;
                    }
                    // `salary_month: {amount, currency}` is money.
                    let outer_unit = unit.filter(|unit| own.is_none() || !unit.is_span());
                    self.json(value, &field, field.unit.as_ref().or(of_record).or(outer_unit));
                    self.rate = outer;
                }
                self.path.pop();
                self.mates.end();
                self.is_own_currency = was_own;
                if own.is_some() {
                    self.currency = outer;
                }
            }
        }
    }

    /// `02:10` of a duration: minutes and seconds, or hours and minutes.
    fn clock_duration(&mut self, text: &str) {
        let Some((first, second)) = text.split_once(':') else { return };
        if let (Ok(first), Ok(second)) = (first.parse::<u64>(), second.parse::<u64>())
            && second < 60
            && let Some(small) = first.checked_mul(60).and_then(|minutes| minutes.checked_add(second))
        {
            let large = small.saturating_mul(60);
            for seconds in [small, large] {
                self.amount(Decimal::whole(seconds), Some(&Unit::SECONDS));
            }
        }
    }

    /// The durations between the days and times of a record.
    fn spans(&mut self, members: &Members<'_>) {
        for (seconds, of) in span::spans(members, self.query.locale) {
            self.span(seconds, &of);
        }
    }

    /// The durations between records that follow each other.
    fn spans_between(&mut self, elements: &[Json<'_>]) {
        for (seconds, of) in span::between_records(elements, self.query.locale) {
            self.span(seconds, &format!("{of} of records"));
        }
    }

    pub(super) fn span(&mut self, seconds: u64, of: &str) {
        {
            let (hits, of) = (&mut self.hits, Arc::<str>::from(of));
            self.query.wanted.amount(Decimal::whole(seconds), Some(&Unit::SECONDS), |number, exactness| {
                if exactness == Exactness::Exact {
                    Self::hit(hits, number, Some(Formula::Between { of: Arc::clone(&of) }));
                }
            });
        }
    }

    /// A number of a field, in each unit that it can have.
    pub(super) fn field_amount(
        &mut self,
        written: &str,
        amount: Decimal,
        name: &FieldName,
        unit: Option<&Unit>,
    ) {
        let has_point = written.contains(['.', ',']);
        let is_money = name.is_price || self.is_own_currency && has_point;
        if let Some((power, code)) = name.minor {
            let currency = code.map(Unit::money).or_else(|| self.currency());
            if let Some(amount) = amount.over_power_of_ten(power) {
                self.amount(amount, currency.as_ref());
            }
            return;
        }
        if name.is_share && unit.is_none() && amount.to_whole().is_none() {
            // A rate of 0.19 is 19 %.
            if let Some(percent) = amount.times(100) {
                self.amount(percent, Some(&Unit::PERCENT));
            }
        }
        let is_money = unit.is_none() && is_money && !name.is_share;
        let currency = if is_money { self.currency() } else { None };
        self.amount(amount, unit.or(currency.as_ref()));
        if unit.is_some() {
            return;
        }
        if let Some(currency) = &currency {
            // Many systems keep amounts in the smallest coin.
            if amount.to_whole().is_some()
                && let Some(amount) = amount.over_power_of_ten(2)
            {
                self.amount(amount, Some(currency));
            }
            return;
        }
        if name.is_size && amount.to_whole().is_some_and(|number| number >= 1_000) {
            self.amount(amount, Some(&Unit::BYTES));
        }
        if name.is_duration {
            self.amount(amount, Some(&Unit::SECONDS));
            self.amount(amount, Some(&Unit::MILLISECONDS));
        }
    }

    /// An instant in seconds or milliseconds since 1970, where the name of its field says that it is one.
    pub(super) fn instant(&mut self, amount: Decimal, name: &FieldName) {
        let is_instant = |number: &u64| name.is_instant && *number > 100_000_000;
        let Some(number) = amount.to_whole().filter(is_instant) else { return };
        let seconds = if number > 100_000_000_000 { number / 1_000 } else { number };
        let Ok(seconds) = i64::try_from(seconds) else { return };
        for clock in [0, self.query.clock] {
            let by_clock = seconds.saturating_add(i64::from(clock) * 60);
            if let Some(day) = Day::of_unix_days(by_clock.div_euclid(86_400)) {
                self.day(day);
            }
            if let Some(time) = Time::of_unix_seconds(by_clock) {
                self.time(time);
                self.time(time.in_utc(clock));
            }
        }
    }
}

/// Whether a text may be a number: it begins with a digit, a sign or a point. Some begin with a minus of three bytes.
fn begins_as_number(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | 0xe2))
}

/// Whether a text says that a field has no value.
fn says_nothing(text: &str) -> bool {
    const NOTHING: [&str; 9] = ["", "0", "none", "no", "false", "missing", "not found", "n/a", "null"];
    let is_it = |text: &str| NOTHING.iter().any(|word| word.eq_ignore_ascii_case(text));
    if text.is_ascii() { is_it(text) } else { is_it(&folded(text)) }
}

/// Names of fields that hold the unit of their record, the best first.
static UNIT_FIELDS: LazyLock<Known> =
    LazyLock::new(|| Known::ranked(&["unit", "units", "uom", "einheit", "unité", "unite", "unidad", "単位"]));

/// The unit that a record names for its values.
fn unit_in(members: &Members<'_>) -> Option<Unit> {
    let name = members.first_of(&UNIT_FIELDS)?.as_str()?;
    Unit::named(name).or_else(|| Unit::named(name.split('/').next()?))
}
