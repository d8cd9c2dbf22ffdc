//! An OpenAPI document: its version, its operations, and its references.

use std::cell::Cell;
use std::fmt;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::import::OPENAPI_BYTES_MAX;
use crate::openapi::text::line;
use crate::openapi::yaml;

/// The most references that are followed in a row.
const HOPS_MAX: usize = 32;
/// The most nodes that are read for one operation. Without it, references that repeat each other could take forever.
const FUEL: u32 = 50_000;
/// The most characters of a text of the document in a message.
const SHOWN: usize = 80;
/// The same of a path.
const PATH_SHOWN: usize = 200;
/// HTTP methods of a document for which no tool is generated.
const OTHER_METHODS: [&str; 4] = ["head", "options", "trace", "query"];

/// A document of version 3.0, 3.1 or 3.2.
#[derive(Debug)]
pub(crate) struct Document {
    root: Value,
    /// How many more nodes may be read for the current operation.
    fuel: Cell<u32>,
}

/// Methods that a tool may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Delete,
    Patch,
}

/// An operation: a method at a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    /// What all operations of the path share.
    pub(crate) item: &'a Value,
    pub(crate) node: &'a Value,
}

/// Why a part of a document has no counterpart in a tool, in words for a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Only responses have it, so a tool does not need it.
    OnlyAnswers,
    /// A reason.
    Because(String),
}

impl Method {
    const ALL: [Self; 5] = [Self::Get, Self::Put, Self::Post, Self::Delete, Self::Patch];

    /// The method as a domain file has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Patch => "PATCH",
        }
    }

    /// The key as a document has it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Post => "post",
            Self::Delete => "delete",
            Self::Patch => "patch",
        }
    }
}

impl Gap {
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self::Because(why.into())
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnlyAnswers => "only answers have it",
            Self::Because(why) => why,
        })
    }
}

impl<'a> Operation<'a> {
    pub(crate) fn id(&self) -> Option<&'a str> {
        self.text("operationId").filter(|id| !id.trim().is_empty())
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &'a str> {
        self.node.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.node.get(key).and_then(Value::as_str)
    }

    /// `GET /pets`: method and path in the form of `--only`.
    pub(crate) fn place(&self) -> String {
        format!("{} {}", self.method.name(), self.path)
    }
}

impl Document {
    /// Parses a document: JSON if it begins with a brace, else YAML.
    ///
    /// # Errors
    /// It cannot be read, or is of another version. The message is one line.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.len() > OPENAPI_BYTES_MAX {
            return Err(format!("it is over {} MiB; give a part of it", OPENAPI_BYTES_MAX >> 20));
        }
        let text = text.trim_start_matches('\u{feff}');
        let root = if text.trim_start().starts_with('{') {
            let not_json = |error: serde_json::Error| format!("it is not JSON: {error}; correct it");
            // YAML may begin with a brace too.
            serde_json::from_str(text).or_else(|error| yaml::parse(text).map_err(|_| not_json(error)))?
        } else {
            yaml::parse(text).map_err(|message| {
                format!("it is neither JSON nor YAML that can be read: {}; correct it", line(&message, 200))
            })?
        };
        let version = |key: &str| match root.get(key) {
            Some(Value::String(text)) => Some(line(text, SHOWN)),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        if let Some(swagger) = version("swagger") {
            return Err(format!(
                "it is Swagger {swagger}, and OpenAPI 3.0, 3.1 or 3.2 is needed; convert it, for example with `npx swagger2openapi`"
            ));
        }
        let Some(version) = version("openapi") else {
            return Err(
                "it is not an OpenAPI document: the key `openapi` is missing; give one of version 3.0, 3.1 or 3.2"
                    .to_owned(),
            );
        };
        let is_of = |known: &str| version == known || version.starts_with(&format!("{known}."));
        if !["3.0", "3.1", "3.2"].into_iter().any(is_of) {
            return Err(format!("it is OpenAPI {version}, and only 3.0, 3.1 and 3.2 are read; convert it"));
        }
        Ok(Self { root, fuel: Cell::new(FUEL) })
    }

    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// The title and the version of the API on one line. Empty: it has neither.
    pub(crate) fn title(&self) -> String {
        let text = |key: &str| self.root.pointer(key).and_then(Value::as_str).unwrap_or_default();
        line(&format!("{} {}", line(text("/info/title"), 60), line(text("/info/version"), 20)), SHOWN)
    }

    /// Every operation that a tool can make, in the order of the document.
    pub(crate) fn operations(&self) -> Vec<Operation<'_>> {
        let paths = self.root.get("paths").and_then(Value::as_object);
        let paths = paths.into_iter().flatten().filter(|(path, _)| path.starts_with('/'));
        let operations = paths.flat_map(|(path, own)| {
            self.refuel();
            let item = self.follow(own).unwrap_or(own);
            Method::ALL.into_iter().filter_map(move |method| {
                let mut items = [item, own].into_iter();
                let node = items.find_map(|item| item.get(method.key()).filter(|node| node.is_object()))?;
                // Some documents keep their operations elsewhere.
                let node = self.follow(node).ok().filter(|node| node.is_object()).unwrap_or(node);
                Some(Operation { method, path, item, node })
            })
        });
        operations.collect()
    }

    /// Operations and paths for which no tool is generated, each with its reason: other methods, and paths that cannot
    /// be read.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let paths = self.root.get("paths").and_then(Value::as_object).into_iter().flatten();
        let mut lines = Vec::new();
        for (path, own) in paths.filter(|(path, _)| !path.starts_with("x-")) {
            self.refuel();
            let path = line(path, PATH_SHOWN);
            if !path.starts_with('/') {
                lines.push(format!("{path}: the path does not begin with `/`"));
                continue;
            }
            let item = self.follow(own).unwrap_or_else(|gap| {
                lines.push(format!("{path}: {gap}"));
                own
            });
            let others = item.get("additionalOperations").and_then(Value::as_object).into_iter().flatten();
            let others = others.map(|(method, _)| line(method, SHOWN));
            let Some(members) = item.as_object() else {
                lines.push(format!("{path}: it is not an object"));
                continue;
            };
            let odd = Method::ALL.iter().map(|method| method.key());
            for method in odd.filter(|method| members.get(*method).is_some_and(|own| !own.is_object())) {
                lines.push(format!("{} {path}: it is not an object", method.to_uppercase()));
            }
            let known =
                OTHER_METHODS.iter().filter(|method| item.get(**method).is_some_and(Value::is_object));
            for method in known.map(|method| method.to_ascii_uppercase()).chain(others) {
                lines.push(format!("{method} {path}: a tool does not send this method"));
            }
        }
        lines
    }

    /// Resets the budget of nodes for the next operation.
    pub(crate) fn refuel(&self) {
        self.fuel.set(FUEL);
    }

    /// The node itself, or the target if it is a reference.
    ///
    /// # Errors
    /// The reference leads to another document, to nothing, or to itself.
    pub(crate) fn follow<'a>(&'a self, node: &'a Value) -> Result<&'a Value, Gap> {
        let mut node = node;
        for _ in 0..HOPS_MAX {
            let Some(left) = self.fuel.get().checked_sub(1) else {
                return Err(Gap::because("the document says too much about it"));
            };
            self.fuel.set(left);
            let Some(reference) = node.get("$ref").and_then(Value::as_str) else { return Ok(node) };
            let shown = || line(reference, SHOWN);
            let Some(pointer) = reference.strip_prefix('#') else {
                return Err(Gap::because(format!(
                    "`{}` is in another document, which is not fetched",
                    shown()
                )));
            };
            let found = self.root.pointer(&decoded(pointer));
            node = found.ok_or_else(|| Gap::because(format!("`{}` leads to nothing", shown())))?;
        }
        Err(Gap::because("its references lead in a circle"))
    }

    /// The members of an object, with references resolved.
    pub(crate) fn members<'a>(&'a self, node: Option<&'a Value>) -> Option<&'a Map<String, Value>> {
        node.and_then(|node| self.follow(node).ok()).and_then(Value::as_object)
    }
}

/// A fragment of a URL with its percent signs decoded.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
