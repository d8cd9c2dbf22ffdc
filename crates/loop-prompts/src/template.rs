//! Templates: the built-in files, a domain's overrides, and the anchors that an override must keep.

use std::collections::BTreeMap;

use loop_core::Digest;
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::error::PromptError;

/// The mark between the system part and the user part of a template file.
const USER_MARK: &str = "<!-- user -->";

/// A template file: its name, its built-in text, and the variables that must show up in what it renders.
#[derive(Debug)]
pub(crate) struct TemplateFile {
    pub(crate) name: &'static str,
    pub(crate) builtin: &'static str,
    /// Whether it has a system part before the user part.
    pub(crate) has_system: bool,
    /// Variable, and what it holds, for the message.
    anchors: &'static [(&'static str, &'static str)],
}

pub(crate) const ANALYSIS: TemplateFile = TemplateFile {
    name: "analysis.md",
    builtin: include_str!("../templates/analysis.md"),
    has_system: true,
    anchors: &[
        ("sections", "section list"),
        ("tools", "tool lines"),
        ("nonce", "nonce of the contract"),
        ("item", "work item"),
        ("evidence", "evidence"),
        ("executed", "executed tools"),
        ("landing", "instructions of the last call"),
    ],
};

pub(crate) const REFINEMENT: TemplateFile = TemplateFile {
    name: "refinement.md",
    builtin: include_str!("../templates/refinement.md"),
    has_system: false,
    anchors: &[
        ("evidence", "new evidence"),
        ("executed", "executed tools"),
        ("index", "index of the sections"),
        ("landing", "instructions of the last call"),
    ],
};

pub(crate) const LANDING: TemplateFile = TemplateFile {
    name: "landing.md",
    builtin: include_str!("../templates/landing.md"),
    has_system: false,
    anchors: &[("cause", "reason for the last call"), ("nonce", "nonce of the contract")],
};

pub(crate) const PICKER: TemplateFile = TemplateFile {
    name: "picker.md",
    builtin: include_str!("../templates/picker.md"),
    has_system: true,
    anchors: &[("tools", "tool lines"), ("item", "work item")],
};

pub(crate) const REPAIR: TemplateFile = TemplateFile {
    name: "repair.md",
    builtin: include_str!("../templates/repair.md"),
    has_system: true,
    anchors: &[("nonce", "nonce of the contract"), ("reply", "reply")],
};

pub(crate) const FILTER: TemplateFile = TemplateFile {
    name: "filter.md",
    builtin: include_str!("../templates/filter.md"),
    has_system: true,
    anchors: &[("title", "work item's title"), ("results", "results")],
};

const ALL: [&TemplateFile; 6] = [&ANALYSIS, &REFINEMENT, &LANDING, &PICKER, &REPAIR, &FILTER];

/// Every variable that a template may use. One that is not set renders as nothing and is false.
const VARIABLES: [&str; 14] = [
    "kind", "goal", "sections", "tools", "nonce", "title", "item", "evidence", "executed", "landing", "index", "cause",
    "reply", "results",
];

/// The templates in use, compiled.
#[derive(Debug)]
pub(crate) struct Templates {
    environment: Environment<'static>,
    hash: Digest,
}

impl Templates {
    /// The built-in files, with `overrides` (file name, text) in place of some of them.
    pub(crate) fn new(overrides: BTreeMap<String, String>) -> Result<Self, PromptError> {
        if let Some(file) = overrides.keys().find(|file| ALL.iter().all(|known| known.name != file.as_str())) {
            let known = ALL.map(|file| file.name).join(", ");
            return Err(PromptError::UnknownTemplate { file: file.clone(), known });
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let mut hashed = String::new();
        for file in ALL {
            let text = overrides.get(file.name).map_or(file.builtin, String::as_str);
            hashed.push_str(file.name);
            hashed.push('\0');
            hashed.push_str(text);
            hashed.push('\0');
            add(&mut environment, file, text)?;
        }
        let templates = Self { environment, hash: Digest::of("prompts", hashed.as_bytes()) };
        for file in ALL.iter().filter(|file| overrides.contains_key(file.name)) {
            templates.check_anchors(file)?;
        }
        Ok(templates)
    }

    pub(crate) fn hash(&self) -> Digest {
        self.hash
    }

    /// The system part of a file; nothing for one without.
    pub(crate) fn system(&self, file: &TemplateFile, variables: &[(&str, Value)]) -> String {
        if file.has_system { self.render(&format!("{}#system", file.name), variables).unwrap_or_default() } else { String::new() }
    }

    /// The user part of a file.
    pub(crate) fn user(&self, file: &TemplateFile, variables: &[(&str, Value)]) -> String {
        self.render(file.name, variables).unwrap_or_default()
    }

    fn render(&self, name: &str, variables: &[(&str, Value)]) -> Result<String, minijinja::Error> {
        let mut all: BTreeMap<&str, Value> = VARIABLES.iter().map(|name| (*name, Value::from(""))).collect();
        all.insert("target", Value::from(""));
        all.insert("picked", Value::from(0));
        all.extend(variables.iter().cloned());
        let text = self.environment.get_template(name)?.render(all)?;
        Ok(text.trim_end().to_owned())
    }

    /// Renders a file with a sign in place of each anchor and looks for the signs.
    fn check_anchors(&self, file: &TemplateFile) -> Result<(), PromptError> {
        let sign = |name: &str| format!("anchor-{name}-7f3a");
        let syntax = |error: minijinja::Error| syntax_error(file.name, &error);
        let mut signed: Vec<(&str, Value)> = VARIABLES.iter().map(|name| (*name, Value::from(sign(name)))).collect();
        let full = self.both_parts(file, &signed).map_err(syntax)?;
        // The instructions of the last call stand in place of others, so those are looked at without it.
        signed.retain(|(name, _)| *name != "landing");
        let plain = self.both_parts(file, &signed).map_err(syntax)?;
        for (anchor, what) in file.anchors {
            let sign = sign(anchor);
            if !full.contains(&sign) && !plain.contains(&sign) {
                return Err(PromptError::MissingAnchor { file: file.name.to_owned(), anchor, what });
            }
        }
        Ok(())
    }

    fn both_parts(&self, file: &TemplateFile, variables: &[(&str, Value)]) -> Result<String, minijinja::Error> {
        let mut text = self.render(file.name, variables)?;
        if file.has_system {
            text.push_str(&self.render(&format!("{}#system", file.name), variables)?);
        }
        Ok(text)
    }
}

fn add(environment: &mut Environment<'static>, file: &TemplateFile, text: &str) -> Result<(), PromptError> {
    let syntax = |error: minijinja::Error| syntax_error(file.name, &error);
    if !file.has_system {
        return environment.add_template_owned(file.name, text.to_owned()).map_err(syntax);
    }
    let Some((system, user)) = text.split_once(USER_MARK) else {
        return Err(PromptError::MissingUserPart { file: file.name.to_owned() });
    };
    environment.add_template_owned(format!("{}#system", file.name), system.to_owned()).map_err(syntax)?;
    let above = system.matches('\n').count();
    environment.add_template_owned(file.name, user.trim_start().to_owned()).map_err(|error| {
        let mut error = syntax_error(file.name, &error);
        if let PromptError::Syntax { line, .. } = &mut error {
            *line += above;
        }
        error
    })
}

fn syntax_error(file: &str, error: &minijinja::Error) -> PromptError {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    PromptError::Syntax { file: file.to_owned(), line: error.line().unwrap_or(1), message }
}
