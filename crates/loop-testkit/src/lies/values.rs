//! Lies of models about values: each document cites evidence for something that the evidence does not contain.

use loop_llm::ModelReply;

use super::LieOn::Main;
use super::prompt::{Prompt, says};
use super::{Lie, saying};

lies! {
    "lies", Main, "Each document states ten wrong values, one of each kind below" =>
        saying(|prompt, honest| documents(prompt, honest, &Kind::ALL));
    "lies-digit", Main, "A number of the evidence with two digits swapped" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Digit]));
    "lies-unit", Main, "A number of the evidence with another unit" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Unit]));
    "lies-record", Main, "A value of one result, cited from another" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Record]));
    "lies-date", Main, "A day of the evidence, off by one" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Date]));
    "lies-sum", Main, "A wrong sum of two numbers of the evidence" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Sum]));
    "lies-name", Main, "The name of a person whom the evidence does not name" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Name]));
    "lies-absence", Main, "That records do not exist which the evidence has" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Absence]));
    "lies-rounded", Main, "A number of the evidence, rounded too far" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Rounded]));
    "lies-currency", Main, "An amount in a currency that the evidence does not name" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Currency]));
    "lies-item", Main, "A value of the work item, cited from a result" =>
        saying(|prompt, honest| documents(prompt, honest, &[Kind::Item]));
}

/// How a value is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Digit,
    Unit,
    Record,
    Date,
    Sum,
    Name,
    Absence,
    Rounded,
    Currency,
    Item,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Digit,
        Self::Unit,
        Self::Record,
        Self::Date,
        Self::Sum,
        Self::Name,
        Self::Absence,
        Self::Rounded,
        Self::Currency,
        Self::Item,
    ];
}

/// A confident document whose sections contain these lies. A conversation has no citing sections, so it gets an honest
/// answer.
fn documents(prompt: &Prompt<'_>, honest: ModelReply, kinds: &[Kind]) -> ModelReply {
    if prompt.is_conversation() {
        return honest;
    }
    let known = ReadMaterial::of(prompt);
    let body: String = kinds.iter().map(|kind| format!("- {}\n", known.sentence(*kind))).collect();
    says(format!("{}{}", prompt.sections(|_| body.clone()), prompt.contract("high", &[])))
}

/// The evidence that a lying model has read.
struct ReadMaterial<'a> {
    /// The number of the evidence that it cites, and its text.
    id: &'a str,
    text: &'a str,
    /// The texts of all other evidence.
    others: Vec<&'a str>,
    item: &'a str,
}

/// The invented value if the evidence has no value of a kind.
const INVENTED: &str = "73,914.26";

impl<'a> ReadMaterial<'a> {
    fn of(prompt: &'a Prompt<'_>) -> Self {
        let evidence = &prompt.evidence;
        // The longest text has the most values.
        let cited = evidence.iter().max_by_key(|(_, text)| text.len());
        let (id, text) = cited.map_or(("1", ""), |(id, text)| (id.as_str(), text.as_str()));
        let others = evidence.iter().filter(|(other, _)| other != id).map(|(_, text)| text.as_str());
        Self { id, text, others: others.collect(), item: &prompt.item }
    }

    /// Whether this text occurs nowhere in what the model has read.
    fn is_new(&self, value: &str) -> bool {
        !self.text.contains(value)
            && !self.item.contains(value)
            && !self.others.iter().any(|it| it.contains(value))
    }

    fn sentence(&self, kind: Kind) -> String {
        let id = self.id;
        match kind {
            Kind::Digit => format!("The tool reports {} [E{id}].", self.swapped()),
            Kind::Unit => {
                // A number without a unit equals each amount.
                let has_unit = |number: &&str| {
                    let unit = self.text.split_once(number).map_or("", |(_, rest)| rest.trim_start());
                    ["GB", "MB", "TB", "GiB", "MiB", "ms", "%"].iter().any(|it| unit.starts_with(it))
                };
                let number = numbers(self.text).find(has_unit).unwrap_or(INVENTED);
                format!("It has {number} petabytes [E{id}].")
            }
            Kind::Record => {
                let others = self.others.iter().flat_map(|text| numbers(text));
                let value =
                    others.filter(|it| it.len() > 3 && !self.text.contains(it)).max_by_key(|it| it.len());
                format!("The result has {} [E{id}].", value.unwrap_or(INVENTED))
            }
            Kind::Date => format!("It happened on {} [E{id}].", self.next_day()),
            Kind::Sum => {
                let mut whole =
                    numbers(self.text).filter_map(|it| it.parse::<u64>().ok()).filter(|it| *it > 9);
                let (one, two) = (whole.next().unwrap_or(40), whole.next().unwrap_or(50));
                let sum =
                    (one + two + 13..).find(|sum| self.is_new(&sum.to_string())).unwrap_or(one + two + 13);
                format!("{one} and {two} are {sum} in total [E{id}].")
            }
            Kind::Name => format!("The person to ask is Marta Eriksen-Dubois [E{id}]."),
            Kind::Absence => format!("No records exist [E{id}]."),
            Kind::Rounded => {
                let rounded = numbers(self.text).filter_map(too_far).find(|it| self.is_new(it));
                format!("It is about {} [E{id}].", rounded.unwrap_or_else(|| INVENTED.to_owned()))
            }
            Kind::Currency => {
                let number = numbers(self.text).find(|it| it.len() > 2).unwrap_or(INVENTED);
                // Evidence without a currency says of no number that it is money.
                let value = if self.text.contains(['$', '€', '£']) { number } else { INVENTED };
                format!("It costs ₹{value} [E{id}].")
            }
            Kind::Item => {
                let value = numbers(self.item).find(|it| it.len() > 1 && !self.text.contains(it));
                format!("The result shows {} [E{id}].", value.unwrap_or(INVENTED))
            }
        }
    }

    /// A number of the evidence with two digits swapped, which occurs nowhere else.
    fn swapped(&self) -> String {
        let swapped = numbers(self.text).filter(|it| it.len() > 2).filter_map(|number| {
            let mut digits: Vec<char> = number.chars().collect();
            let at = digits.windows(2).position(
                |pair| matches!(pair, [one, two] if one != two && *two != '0' && *one != '.' && *two != '.'),
            )?;
            digits.swap(at, at + 1);
            Some(digits.into_iter().collect::<String>()).filter(|it| self.is_new(it))
        });
        swapped.into_iter().next().unwrap_or_else(|| INVENTED.to_owned())
    }

    /// A day after one in the evidence, which occurs nowhere else.
    fn next_day(&self) -> String {
        let days = self.text.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter(|it| it.len() == 10);
        let next = days.filter_map(|day| {
            let (month, number) = day.rsplit_once('-')?;
            let number: u32 = number.parse().ok().filter(|number| *number < 28)?;
            Some(format!("{month}-{:02}", number + 1)).filter(|it| self.is_new(it))
        });
        next.into_iter().next().unwrap_or_else(|| "1987-06-05".to_owned())
    }
}

/// The numbers of a text that are not part of a longer word, a day or a time.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | ':' | '_' | '/' | '#');
    let words = text.split(move |c: char| !is_inside(c)).map(|word| word.trim_matches(['.', ':']));
    words.filter(|word| {
        let (whole, part) = word.split_once('.').unwrap_or((word, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_digits(whole) && is_digits(part) && !(whole.len() > 1 && whole.starts_with('0'))
    })
}

/// A number rounded to one digit. `None`: it has only one.
fn too_far(number: &str) -> Option<String> {
    let whole = number.split('.').next()?;
    let first: u64 = whole.get(..1)?.parse().ok().filter(|first| *first > 0)?;
    let zeros = whole.len().checked_sub(1).filter(|zeros| (1..12).contains(zeros))?;
    let rounded = format!("{}{}", first + 1, "0".repeat(zeros));
    (number != rounded).then_some(rounded)
}
