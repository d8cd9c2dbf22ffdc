//! Filling a tool's parameters from what was said and what was found.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value, json};

use super::history::{Conversation, Tool, plain};
use super::records::Record;
use super::schema::{Field, Form, Role};
use super::user_request::{Assigned, Kind, Stands, is_denial, kind_of};
use crate::offline::shape::Candidates;
use crate::offline::words::{overlap, parts, stem};

/// How many words a query has at most, and how many characters a free text has.
const QUERY_WORDS: usize = 8;
const PROSE: usize = 400;

/// Endings of companies' names.
const COMPANIES: [&str; 9] = ["Inc", "Ltd", "LLC", "GmbH", "AG", "Corp", "SA", "BV", "plc"];

/// What a tool is filled from.
#[derive(Clone, Copy)]
pub(super) struct Filler<'t> {
    pub(super) conversation: &'t Conversation<'t>,
    pub(super) tool: &'t Tool<'t>,
    /// Whom or what it is about.
    pub(super) subject: Option<&'t str>,
    /// What is known of that.
    pub(super) record: Option<&'t Record>,
    /// Whether it takes the result.
    pub(super) is_output: bool,
}

/// Arguments, and what is missing.
pub(super) struct Filled {
    pub(super) arguments: Map<String, Value>,
    pub(super) missing: Vec<String>,
}

impl<'t> Filler<'t> {
    pub(super) fn fill(&self) -> Filled {
        let has_required = self.tool.fields.iter().any(|field| field.required);
        let mut filled = Filled { arguments: Map::new(), missing: Vec::new() };
        for field in &self.tool.fields {
            let wanted = field.required
                || match self.tool.kind {
                    // Narrowing what is looked for is left to the one who asks.
                    Kind::Look | Kind::Other if !self.is_output => !has_required && field.role != Role::Id,
                    Kind::Update | Kind::Delete if !self.is_output => self.assigned(field).is_some(),
                    _ => true,
                };
            match self.value(field).filter(|_| wanted) {
                Some(value) => {
                    filled.arguments.insert(field.name.to_owned(), value);
                }
                None if field.required => filled.missing.push(field.name.to_owned()),
                None => {}
            }
        }
        self.place_target(&mut filled);
        filled
    }

    /// The same with an empty value for what is required and nothing says.
    pub(super) fn forced(&self) -> Map<String, Value> {
        let Filled { mut arguments, missing } = self.fill();
        for field in self.tool.fields.iter().filter(|field| missing.iter().any(|name| name == field.name)) {
            arguments.insert(field.name.to_owned(), empty(field));
        }
        arguments
    }

    /// `move Bob to EPAM` does not say what becomes EPAM: the only thing that is missing, or that there is.
    fn place_target(&self, filled: &mut Filled) {
        if self.tool.kind != Kind::Update || self.is_output {
            return;
        }
        let Some(assigned) =
            self.conversation.user_request.assigned.iter().find(|one| self.is_without_field(one))
        else {
            return;
        };
        let mut open = self
            .tool
            .fields
            .iter()
            .filter(|field| field.role != Role::Id && !filled.arguments.contains_key(field.name));
        let only = open.next().filter(|_| open.next().is_none());
        if let Some((field, value)) = only.and_then(|field| Some((field, cast(field, &assigned.value)?))) {
            filled.missing.retain(|name| name != field.name);
            filled.arguments.insert(field.name.to_owned(), value);
        }
    }

    fn value(&self, field: &Field<'_>) -> Option<Value> {
        match &field.form {
            Form::Boolean => self.truth(field),
            Form::List(item) => self.list(field, item),
            Form::Object(fields) => self.object(fields),
            Form::Text | Form::Integer | Form::Number => self.one(field),
        }
    }

    fn one(&self, field: &Field<'_>) -> Option<Value> {
        if !field.choices.is_empty() {
            return self.choice(field);
        }
        let assigned = self.assigned(field).and_then(|one| cast(field, &one.value));
        assigned
            .or_else(|| self.spelled(field))
            .or_else(|| if field.role == Role::Id { self.id(field) } else { None })
            .or_else(|| cast(field, &plain(self.known(field)?)))
            .or_else(|| self.stated(field))
            .or_else(|| field.default.cloned())
    }

    fn looks_up(&self) -> bool {
        self.tool.is_read() && !self.is_output
    }

    /// Whether what nothing else is said of stays as the record has it.
    fn keeps(&self) -> bool {
        self.is_output || self.tool.kind == Kind::Update
    }

    /// What the record has under its name, or for a tool that is demanded the result that was read last.
    fn known(&self, field: &Field<'_>) -> Option<&'t Value> {
        let is_demanded = self.conversation.demanded.contains(&self.tool.name);
        let stated = || if is_demanded { self.conversation.stated(field.name) } else { None };
        self.record.and_then(|record| record.get(field.name)).or_else(stated).filter(|_| self.keeps())
    }

    /// What the command itself says of it.
    fn stated(&self, field: &Field<'_>) -> Option<Value> {
        match field.form {
            Form::Integer | Form::Number => self.number(field),
            _ if !field.shapes.is_empty() => None,
            _ => self.by_role(field).filter(|text| !text.trim().is_empty()).map(Value::String),
        }
    }

    /// A name of the shape that its examples have.
    fn spelled(&self, field: &Field<'_>) -> Option<Value> {
        if field.shapes.is_empty() {
            return None;
        }
        let candidates = Candidates::of(&self.conversation.user_request.text, /*with_paths*/ false);
        cast(field, candidates.find(&field.shapes).first()?)
    }

    fn assigned(&self, field: &Field<'_>) -> Option<&'t Assigned> {
        // What is to become so is not so yet, and cannot be found by it.
        let counts = |one: &&Assigned| one.is_label || !self.looks_up();
        // What was said last corrects what was said before.
        self.conversation.user_request.assigned.iter().filter(counts).rfind(|one| fits(field, one))
    }

    /// Whether nothing is said of what becomes so but whose it is.
    fn is_without_field(&self, assigned: &Assigned) -> bool {
        assigned.field.iter().all(|word| {
            self.conversation.user_request.is_in_subject(word)
                || stem(word).is_none_or(|stem| self.tool.nouns.contains(&stem))
        })
    }

    fn choice(&self, field: &Field<'_>) -> Option<Value> {
        let is_same = |choice: &Value, text: &str| plain(choice).eq_ignore_ascii_case(text);
        let choose = |text: &str| {
            field.choices.iter().find(|choice| is_same(choice, text)).map(|choice| (*choice).clone())
        };
        let assigned = self.assigned(field).and_then(|one| choose(&one.value));
        let known = || choose(&plain(self.known(field)?));
        // The longest first: `very high` holds `high`.
        let named = || {
            let stated =
                field.choices.iter().filter(|choice| self.conversation.user_request.says(&plain(choice)));
            stated.max_by_key(|choice| plain(choice).len()).map(|choice| (*choice).clone())
        };
        let only =
            || field.choices.first().filter(|_| field.choices.len() == 1).map(|choice| (*choice).clone());
        assigned.or_else(known).or_else(named).or_else(only).or_else(|| field.default.cloned())
    }

    /// Which one: as it was said, or as it was found.
    fn id(&self, field: &Field<'_>) -> Option<Value> {
        let user_request = &self.conversation.user_request;
        let is_of =
            |word: &str| word == "id" || stem(word).is_some_and(|stem| self.tool.nouns.contains(&stem));
        let spoken = user_request.words.windows(2).find_map(|pair| match pair {
            [before, word] if is_of(&before.low) && word.low.chars().any(|c| c.is_ascii_digit()) => {
                Some(word.text.trim_start_matches('#'))
            }
            _ => None,
        });
        let marked = || user_request.words.iter().find_map(|word| word.text.strip_prefix('#'));
        if let Some(id) = spoken.or_else(marked) {
            return cast(field, id);
        }
        let record = self.record?;
        let of_noun = format!("{}_id", self.tool.noun);
        let id = record.get(field.name).filter(|_| field.words.len() > 1).or_else(|| record.get(&of_noun));
        cast(field, &plain(id.or_else(|| record.id())?))
    }

    fn number(&self, field: &Field<'_>) -> Option<Value> {
        let currencies = ["usd", "eur", "gbp", "chf"];
        let own = currencies.iter().find(|currency| field.words.iter().any(|word| word == *currency));
        let is_money = own.is_some() || field.role == Role::Money;
        let numbers = self.conversation.user_request.numbers.iter().filter(|number| {
            !number.is_id && number.currency.is_none_or(|is| is_money && own.is_none_or(|own| *own == is))
        });
        let scored = numbers.map(|number| {
            let beside: BTreeSet<String> = number.beside.iter().filter_map(|word| stem(word)).collect();
            let money = if is_money && number.currency.is_some() { 4 } else { 0 };
            (money + 2 * overlap(&beside, &field.stems), number)
        });
        let mut scored: Vec<_> = scored.collect();
        // Of equals the first one.
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let (score, number) = scored.first()?;
        let is_sure = *score > 0 || (field.required && scored.len() == 1 && !self.looks_up());
        if is_sure { rendered(field, number.value) } else { None }
    }

    fn by_role(&self, field: &Field<'_>) -> Option<String> {
        let user_request = &self.conversation.user_request;
        let is_firm = self.tool.noun == "company"
            || self.tool.noun == "organisation"
            || self.tool.noun == "organization";
        let role = if field.role == Role::Name && is_firm { Role::Company } else { field.role };
        let subject = || self.subject.or_else(|| user_request.subjects().next());
        let firm = |name: &&str| {
            name.rsplit(' ').next().is_some_and(|last| COMPANIES.contains(&last.trim_end_matches('.')))
        };
        let has_place = self.tool.fields.iter().any(|field| field.role == Role::Place);
        let found = match role {
            Role::Name => subject(),
            Role::Mail => user_request.mail(),
            Role::Company => user_request
                .name(Stands::Belongs)
                .or_else(|| user_request.name(Stands::Place).filter(|_| !has_place))
                .or_else(|| user_request.subjects().find(firm))
                .or_else(|| subject().filter(|_| is_firm)),
            Role::Place => user_request.name(Stands::Place),
            Role::Date => user_request.words.iter().map(|word| word.text.as_str()).find(|word| is_date(word)),
            Role::Query => return Some(self.keywords()),
            Role::Prose => return self.prose(field),
            Role::Money => return self.money(),
            Role::Id | Role::Other => user_request.quoted(),
        };
        found.map(str::to_owned)
    }

    /// The words to search for: those of the command that are neither verbs nor what the tool is about.
    fn keywords(&self) -> String {
        let user_request = &self.conversation.user_request;
        let wanted = user_request.words.iter().filter(|word| {
            let stated = ["named", "called"].contains(&word.low.as_str()) || kind_of(&word.low).is_some();
            !stated && stem(&word.low).is_some_and(|stem| !self.tool.nouns.contains(&stem))
        });
        wanted.map(|word| word.text.as_str()).take(QUERY_WORDS).collect::<Vec<_>>().join(" ")
    }

    /// What follows `for` where a need is asked for, and else the text itself.
    fn prose(&self, field: &Field<'_>) -> Option<String> {
        let user_request = &self.conversation.user_request;
        if let Some(quoted) = user_request.quoted() {
            return Some(quoted.to_owned());
        }
        if self.looks_up() {
            return None;
        }
        let needs = ["need", "needs", "interest", "project", "purpose", "topic", "subject", "request"];
        let behind = user_request.text.split_once(" for ").map(|(_, behind)| behind);
        if field.words.iter().any(|word| needs.contains(&word.as_str()))
            && let Some(behind) = behind
        {
            let end = behind.find(['.', ',', ';', '\n']).unwrap_or(behind.len());
            let phrase = behind.get(..end).unwrap_or_default();
            let bare = ["a ", "an ", "the "].iter().find_map(|article| phrase.strip_prefix(article));
            return Some(bare.unwrap_or(phrase).trim().to_owned());
        }
        Some(user_request.text.chars().take(PROSE).collect())
    }

    fn money(&self) -> Option<String> {
        let number =
            self.conversation.user_request.numbers.iter().find(|number| number.currency.is_some())?;
        let currency = number.currency.unwrap_or_default().to_uppercase();
        Some(format!("{} {currency}", number.value))
    }

    fn truth(&self, field: &Field<'_>) -> Option<Value> {
        if let Some(assigned) = self.assigned(field) {
            let yes = ["true", "yes", "on"].contains(&assigned.value.to_lowercase().as_str());
            return Some(Value::Bool(yes));
        }
        let wanted: BTreeSet<String> = field.words.iter().filter_map(|word| stem(word)).collect();
        let words = &self.conversation.user_request.words;
        if let Some(at) =
            words.iter().position(|word| stem(&word.low).is_some_and(|stem| wanted.contains(&stem)))
        {
            return Some(Value::Bool(!words.iter().take(at).rev().take(3).any(|word| is_denial(&word.low))));
        }
        let known = self.record.filter(|_| self.keeps()).and_then(|record| record.get(field.name)).cloned();
        known.filter(Value::is_boolean).or_else(|| field.default.cloned())
    }

    fn list(&self, field: &Field<'_>, item: &Field<'_>) -> Option<Value> {
        let user_request = &self.conversation.user_request;
        let stated = item.choices.iter().filter(|choice| user_request.says(&plain(choice)));
        let stated: Vec<Value> = stated.map(|choice| (*choice).clone()).collect();
        if !stated.is_empty() {
            return Some(Value::Array(stated));
        }
        if field.role == Role::Name || field.words.iter().any(|word| word == "names") {
            let names: Vec<Value> = user_request.subjects().map(Value::from).collect();
            return Some(Value::Array(names)).filter(|_| user_request.subjects().next().is_some());
        }
        if let Form::Object(fields) = &item.form {
            let records = self.conversation.made.iter().flat_map(|made| &made.reported.records);
            let rows = records.filter_map(|record| Filler { record: Some(record), ..*self }.row(fields));
            let rows: Vec<Value> = rows.collect();
            return if rows.is_empty() { None } else { Some(Value::Array(rows)) };
        }
        self.assigned(field)
            .map(|one| one.value.split(", ").map(Value::from).collect())
            .or_else(|| field.default.cloned())
    }

    /// A record in the form of an object; `None` where something that is required is not in it.
    fn row(&self, fields: &[Field<'_>]) -> Option<Value> {
        let record = self.record?;
        let mut members = Map::new();
        for field in fields {
            match record.get(field.name).and_then(|value| cast(field, &plain(value))) {
                Some(value) => {
                    members.insert(field.name.to_owned(), value);
                }
                None if field.required => return None,
                None => {}
            }
        }
        (!members.is_empty()).then_some(Value::Object(members))
    }

    fn object(&self, fields: &[Field<'_>]) -> Option<Value> {
        let mut members = Map::new();
        if fields.is_empty() {
            // A free form: what is to become what.
            let assigned = self.conversation.user_request.assigned.iter();
            let pairs =
                assigned.filter_map(|one| Some((one.field.last()?.clone(), Value::from(one.value.as_str()))));
            members.extend(pairs);
        }
        for field in fields {
            let is_change = self.tool.kind == Kind::Update && !self.is_output;
            let wanted = field.required || !is_change || self.assigned(field).is_some();
            match self.value(field).filter(|_| wanted) {
                Some(value) => {
                    members.insert(field.name.to_owned(), value);
                }
                None if field.required && self.is_output => {
                    members.insert(field.name.to_owned(), empty(field));
                }
                None if field.required => return None,
                None => {}
            }
        }
        (!members.is_empty()).then_some(Value::Object(members))
    }
}

/// Whether what is said to become something is this field.
fn fits(field: &Field<'_>, assigned: &Assigned) -> bool {
    let named: Vec<String> = assigned.field.iter().flat_map(|word| parts(word)).collect();
    field.words.iter().any(|word| {
        let root = stem(word);
        word != "id" && named.iter().any(|stated| stated == word || (root.is_some() && stem(stated) == root))
    }) && !(field.role == Role::Id && field.words.len() > 1)
}

/// A text as a value of the field's form.
fn cast(field: &Field<'_>, text: &str) -> Option<Value> {
    match field.form {
        Form::Integer | Form::Number => {
            let digits = text.trim_start_matches(['#', '$', '€', '£']).replace(',', "");
            let digits = digits.split_whitespace().next()?;
            rendered(field, digits.parse().ok()?)
        }
        Form::Boolean => match text.to_lowercase().as_str() {
            "true" | "yes" => Some(Value::Bool(true)),
            "false" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        Form::Text => Some(Value::String(text.to_owned())),
        Form::List(_) | Form::Object(_) => None,
    }
}

fn rendered(field: &Field<'_>, value: f64) -> Option<Value> {
    let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
    match field.form {
        Form::Text => Some(Value::String(value.to_string())),
        _ if is_whole => Some(json!(value as i64)),
        Form::Number => Number::from_f64(value).map(Value::Number),
        _ => None,
    }
}

/// The value that says that nothing was found.
fn empty(field: &Field<'_>) -> Value {
    let is_unknown = |choice: &&&Value| {
        ["unknown", "other", "none", "unspecified"].contains(&plain(choice).to_lowercase().as_str())
    };
    if let Some(unknown) = field.choices.iter().find(is_unknown) {
        return (*unknown).clone();
    }
    match &field.form {
        Form::Text => json!(""),
        Form::Integer | Form::Number => json!(0),
        Form::Boolean => json!(false),
        Form::List(_) => json!([]),
        Form::Object(fields) => {
            let required = fields.iter().filter(|field| field.required);
            Value::Object(required.map(|field| (field.name.to_owned(), empty(field))).collect())
        }
    }
}

fn is_date(word: &str) -> bool {
    let mut parts = word.split('-');
    let mut digits = |count: usize| {
        parts.next().is_some_and(|part| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    digits(4) && digits(2) && digits(2)
}
