//! Mutants as `cargo mutants --list --json` names them.

use std::collections::BTreeMap;

use serde_json::Value;

/// A place in a file: line and column, both from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What kind of change a mutant makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The body of a function becomes one value.
    Body,
    /// A binary operator becomes another.
    Binary,
    /// A unary operator is left out.
    Unary,
    /// An arm of a `match` is left out.
    Arm,
    /// The guard of an arm becomes `true` or `false`.
    Guard,
    /// A field is left out of a struct expression with a base.
    Field,
}

/// One change to the source.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Its number in the list, which switches it on.
    pub(crate) id: u32,
    /// The path from the root of the workspace.
    pub(crate) file: String,
    /// What cargo-mutants calls it.
    pub(crate) name: String,
    /// The function that it is in.
    pub(crate) function: String,
    /// Whether the function returns `impl Trait`, which is one type and not that of a replacement.
    pub(crate) is_opaque: bool,
    pub(crate) kind: Kind,
    pub(crate) replacement: String,
    pub(crate) start: Place,
    pub(crate) end: Place,
}

impl Mutant {
    /// The part of the crate that it is in: a folder, or a file of the root.
    pub(crate) fn part(&self) -> &str {
        let path = self.file.split_once("/src/").map_or(self.file.as_str(), |(_, path)| path);
        path.split('/').next().unwrap_or(path)
    }
}

/// Reads a list of mutants.
pub(crate) fn parse(json: &str) -> Result<Vec<Mutant>, String> {
    let list: Vec<Value> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mutants = list.iter().zip(0..).map(|(value, id)| {
        mutant(value, id)
            .ok_or_else(|| format!("mutant {id} has another form than cargo-mutants 27 gives it"))
    });
    mutants.collect()
}

fn mutant(value: &Value, id: u32) -> Option<Mutant> {
    let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
    let place = |of: &str| {
        let place = value.get("span")?.get(of)?;
        let number = |name: &str| usize::try_from(place.get(name)?.as_u64()?).ok();
        Some(Place { line: number("line")?, column: number("column")? })
    };
    let kind = match text("genre")?.as_str() {
        "FnValue" => Kind::Body,
        "BinaryOperator" => Kind::Binary,
        "UnaryOperator" => Kind::Unary,
        "MatchArm" => Kind::Arm,
        "MatchArmGuard" => Kind::Guard,
        "StructField" => Kind::Field,
        _ => return None,
    };
    let of_function = |name: &str| value.get("function")?.get(name)?.as_str();
    Some(Mutant {
        id,
        file: text("file")?,
        name: text("name")?,
        function: of_function("function_name").unwrap_or_default().to_owned(),
        is_opaque: of_function("return_type").is_some_and(|returned| returned.contains("impl ")),
        kind,
        replacement: text("replacement")?,
        start: place("start")?,
        end: place("end")?,
    })
}

/// The mutants of each file.
pub(crate) fn by_file(mutants: &[Mutant]) -> BTreeMap<&str, Vec<&Mutant>> {
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    files
}
