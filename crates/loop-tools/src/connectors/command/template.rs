//! Arguments with placeholders: read when the tool is made, filled in for each call.

use std::path::Path;

use serde_json::{Map, Value};

use crate::connectors::command::program::takes_script_after;
use crate::connectors::error::ConnectorError;
use crate::connectors::placeholders::{KEY, OWN, TextPart, Values, parts};
use crate::connectors::scope::stated_part_of;

/// The arguments of a program, and what it reads, with placeholders.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    args: Vec<ArrayElement>,
    stdin: Option<ArrayElement>,
}

/// One element of the array as it is written.
#[derive(Clone, Debug)]
struct ArrayElement {
    pieces: Vec<Piece>,
    /// Whether it comes after a `--`, where a program takes nothing for an option any more.
    is_behind_dashes: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(String),
    Parameter(Parameter),
    Own(&'static str),
}

/// A parameter of the tool.
#[derive(Clone, Debug, PartialEq)]
struct Parameter {
    name: String,
    is_array: bool,
    is_required: bool,
    default: Option<Value>,
}

/// What a program is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilledCommand {
    pub(crate) args: Vec<String>,
    pub(crate) stdin: Option<String>,
}

impl Template {
    /// Reads the arguments of `program`; `schema` declares the parameters. Of them, `target` need not be used.
    ///
    /// # Errors
    /// A placeholder is unknown or in a place where a caller could choose an option, or a parameter is not used.
    pub(crate) fn read(
        program: &Path,
        args: &[String],
        stdin: Option<&str>,
        schema: &Value,
        target: Option<&str>,
    ) -> Result<Self, ConnectorError> {
        let declared = DeclaredParameters::of(schema);
        let mut is_behind_dashes = false;
        let mut elements: Vec<ArrayElement> = Vec::new();
        for (at, text) in args.iter().enumerate() {
            let wrong = |message: String| ConnectorError::Setting { key: "args", message };
            let pieces = pieces(text, &declared).map_err(wrong)?;
            let element = ArrayElement { pieces, is_behind_dashes };
            let before = at.checked_sub(1).and_then(|at| args.get(at)).map(String::as_str);
            element.check(text, before, program).map_err(wrong)?;
            is_behind_dashes |= text == "--";
            elements.push(element);
        }
        let stdin = stdin.map(|text| -> Result<ArrayElement, ConnectorError> {
            let wrong = |message: String| ConnectorError::Setting { key: "stdin", message };
            let pieces = pieces(text, &declared).map_err(wrong)?;
            let has_array = pieces
                .iter()
                .any(|piece| matches!(piece, Piece::Parameter(Parameter { is_array: true, .. })));
            if has_array {
                return Err(wrong(format!("`{text}` has a list in it, which is for `args`; declare a text")));
            }
            Ok(ArrayElement { pieces, is_behind_dashes: true })
        });
        let template = Self { args: elements, stdin: stdin.transpose()? };
        let unused = declared.names().find(|name| Some(*name) != target && !template.uses(name));
        match unused {
            None => Ok(template),
            Some(name) => {
                let message =
                    format!("the parameter `{name}` is nowhere in it; write `{{{name}}}`, or take it out");
                Err(ConnectorError::Setting { key: "args", message })
            }
        }
    }

    /// Whether the key of the call is given to the program.
    pub(crate) fn has_key(&self) -> bool {
        self.pieces().any(|piece| *piece == Piece::Own(KEY))
    }

    /// The arguments of one call.
    ///
    /// # Errors
    /// A value that the program must not be given, in words for the caller.
    pub(crate) fn fill(&self, given: &Values<'_>) -> Result<FilledCommand, String> {
        let mut args = Vec::new();
        for element in &self.args {
            for text in element.fill(given)?.into_iter().flatten() {
                args.push(element.guarded(text)?);
            }
        }
        let stdin = self.stdin.as_ref().map(|element| element.fill(given)).transpose()?;
        Ok(FilledCommand { args, stdin: stdin.flatten().map(|texts| texts.concat()) })
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.args.iter().chain(&self.stdin).flat_map(|element| &element.pieces)
    }

    fn uses(&self, parameter: &str) -> bool {
        self.pieces().any(|piece| matches!(piece, Piece::Parameter(it) if it.name == parameter))
    }
}

impl ArrayElement {
    /// Refuses a place at which a value could be something else than a value.
    fn check(&self, text: &str, before: Option<&str>, program: &Path) -> Result<(), String> {
        if self.pieces.iter().all(|piece| matches!(piece, Piece::Literal(_))) {
            return Ok(());
        }
        let arrays = self
            .pieces
            .iter()
            .filter(|piece| matches!(piece, Piece::Parameter(Parameter { is_array: true, .. })));
        if arrays.count() > 0 && self.pieces.len() > 1 {
            return Err(format!(
                "`{text}` has a list within a text; write the list in an element of its own"
            ));
        }
        if let (Some(Piece::Literal(first)), false) = (self.pieces.first(), self.is_behind_dashes)
            && first.chars().all(|c| c == '-')
        {
            return Err(format!("`{text}` lets the caller choose an option; write the option out"));
        }
        let own = match self.pieces.first() {
            Some(Piece::Literal(first)) if !self.is_behind_dashes => {
                Some((first.as_str(), /*joined*/ true))
            }
            Some(Piece::Literal(_) | Piece::Parameter(_) | Piece::Own(_)) | None => None,
        };
        let mut options = before.map(|before| (before, /*joined*/ false)).into_iter().chain(own);
        if let Some((option, _)) =
            options.find(|(option, joined)| takes_script_after(program, option, *joined))
        {
            let shown = program.display();
            return Err(format!(
                "`{shown}` takes what follows `{option}` for a script; put the script in a file and its values behind it"
            ));
        }
        // One with a `=` has its value.
        let is_option = |text: &&str| text.starts_with('-') && text.len() > 1 && !text.contains('=');
        let Some(option) = before.filter(is_option) else { return Ok(()) };
        let may_be_absent = self.pieces.iter().find_map(|piece| match piece {
            Piece::Parameter(it) => {
                (it.is_array || (it.default.is_none() && !it.is_required)).then_some(&it.name)
            }
            Piece::Literal(_) | Piece::Own(_) => None,
        });
        match may_be_absent {
            Some(name) if option != "--" => Err(format!(
                "`{option}` would stand there without `{{{name}}}` where that is absent or empty; make `{name}` required, write \
                 `--option={{{name}}}`, or put `--` before it"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Its texts: those of a list, else one. `None`: a value is not given, and half an element would mean something else.
    fn fill(&self, given: &Values<'_>) -> Result<Option<Vec<String>>, String> {
        let values = self.pieces.iter().map(|piece| piece.value(given));
        let values = values.collect::<Result<Option<Vec<_>>, _>>()?.map(|values| values.concat());
        Ok(values.map(|values| if self.pieces.len() == 1 { values } else { vec![values.concat()] }))
    }

    /// The text, unless the program would take it for an option.
    fn guarded(&self, text: String) -> Result<String, String> {
        let is_chosen = !matches!(self.pieces.first(), Some(Piece::Literal(_)) | None);
        if is_chosen && !self.is_behind_dashes && text.starts_with('-') {
            let shown: String = text.chars().take(40).collect();
            return Err(format!("`{shown}` begins with `-`, so the program would take it for an option"));
        }
        Ok(text)
    }
}

impl Piece {
    fn value(&self, given: &Values<'_>) -> Result<Option<Vec<String>>, String> {
        let text = match self {
            Self::Literal(text) => text.clone(),
            Self::Own(KEY) => given.key.to_owned(),
            Self::Own(name) => {
                let part = stated_part_of(given.scope, name.trim_start_matches("scope."));
                // Without it the program would do its work for all of them.
                let text = part.ok_or_else(|| format!("the work item has no `{name}`"))?;
                checked(name, text.to_string())?
            }
            Self::Parameter(Parameter { name, is_array, is_required, default }) => {
                let value = given.parameters.get(name).filter(|value| !value.is_null()).or(default.as_ref());
                match value {
                    None if *is_required => return Err(format!("`{name}` is missing")),
                    None => return Ok(None),
                    Some(Value::Array(elements)) if *is_array => {
                        return elements
                            .iter()
                            .map(|one| text_of(name, one))
                            .collect::<Result<_, _>>()
                            .map(Some);
                    }
                    Some(value) => text_of(name, value)?,
                }
            }
        };
        Ok(Some(vec![text]))
    }
}

/// A value as one argument.
fn text_of(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => checked(name, text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(format!("`{name}` has a value in it that is not a text, a number or a boolean"))
        }
    }
}

fn checked(name: &str, text: String) -> Result<String, String> {
    if text.contains('\0') {
        return Err(format!("`{name}` has a NUL character in it"));
    }
    Ok(text)
}

/// The parameters that a schema declares.
struct DeclaredParameters<'a> {
    properties: Option<&'a Map<String, Value>>,
    required: Vec<&'a str>,
}

impl<'a> DeclaredParameters<'a> {
    fn of(schema: &'a Value) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        Self {
            properties: schema.get("properties").and_then(Value::as_object),
            required: required.into_iter().flatten().filter_map(Value::as_str).collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.properties.into_iter().flat_map(|all| all.keys().map(String::as_str))
    }

    fn is_required(&self, name: &str) -> bool {
        self.required.contains(&name)
    }

    fn piece(&self, name: &str) -> Result<Piece, String> {
        if let Some(own) = OWN.into_iter().find(|own| *own == name) {
            return Ok(Piece::Own(own));
        }
        let Some(property) = self.properties.and_then(|all| all.get(name)) else {
            let known: Vec<String> = self.names().chain(OWN).map(|name| format!("{{{name}}}")).collect();
            return Err(format!("there is no parameter for `{{{name}}}`; use one of {}", known.join(", ")));
        };
        let is_array = property.get("type").and_then(Value::as_str) == Some("array");
        let default = property.get("default").cloned();
        Ok(Piece::Parameter(Parameter {
            name: name.to_owned(),
            is_array,
            is_required: self.is_required(name),
            default,
        }))
    }
}

/// The pieces of one element. `{{` and `}}` are braces.
fn pieces(text: &str, declared: &DeclaredParameters<'_>) -> Result<Vec<Piece>, String> {
    let parts = parts(text)
        .ok_or_else(|| format!("`{text}` has a brace alone; write `{{{{` or `}}}}` for a brace"))?;
    let pieces = parts.into_iter().map(|part| match part {
        TextPart::Placeholder(name) => declared.piece(&name),
        TextPart::Text(text) if text.contains('\0') => {
            Err("it has a NUL character in it; take that out".to_owned())
        }
        TextPart::Text(text) => Ok(Piece::Literal(text)),
    });
    let pieces: Vec<_> = pieces.collect::<Result<_, _>>()?;
    Ok(if pieces.is_empty() { vec![Piece::Literal(String::new())] } else { pieces })
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
