//! Templates: the built-in files, a domain's overrides, and the anchors that an override must keep.

use std::collections::BTreeMap;

use loop_core::types::Digest;
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::error::PromptError;

/// The line that separates the system part and the user part of a template file.
const USER_MARK: &str = "<!-- user -->";

/// A template file: its name, its built-in text, and its anchors, the variables that must appear in the rendered text.
#[derive(Debug)]
pub(crate) struct TemplateFile {
    pub(crate) name: &'static str,
    pub(crate) builtin: &'static str,
    pub(crate) form: Layout,
    /// The anchors: variable, and its content for the error message.
    anchors: &'static [(&'static str, &'static str)],
}

/// The parts of a template file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A system part, the separator line, a user part.
    Both,
    /// The text of a turn.
    User,
    /// A system prompt.
    System,
}

pub(crate) const ANALYSIS: TemplateFile = TemplateFile {
    name: "analysis.md",
    builtin: include_str!("../templates/analysis.md"),
    form: Layout::Both,
    anchors: &[
        ("sections", "section list"),
        ("tools", "tool lines"),
        ("nonce", "nonce of the contract"),
        ("item", "work item"),
        ("evidence", "evidence"),
        ("executed", "executed tools"),
        ("final_pass", "instructions of the last call"),
    ],
};

pub(crate) const REFINEMENT: TemplateFile = TemplateFile {
    name: "refinement.md",
    builtin: include_str!("../templates/refinement.md"),
    form: Layout::User,
    anchors: &[
        ("evidence", "new evidence"),
        ("executed", "executed tools"),
        ("index", "index of the sections"),
        ("final_pass", "instructions of the last call"),
    ],
};

pub(crate) const FINAL_PASS: TemplateFile = TemplateFile {
    name: "final_pass.md",
    builtin: include_str!("../templates/final_pass.md"),
    form: Layout::User,
    anchors: &[("cause", "reason for the last call"), ("nonce", "nonce of the contract")],
};

pub(crate) const SELECTOR: TemplateFile = TemplateFile {
    name: "selector.md",
    builtin: include_str!("../templates/selector.md"),
    form: Layout::Both,
    anchors: &[("tools", "tool lines"), ("item", "work item")],
};

pub(crate) const REPAIR: TemplateFile = TemplateFile {
    name: "repair.md",
    builtin: include_str!("../templates/repair.md"),
    form: Layout::Both,
    anchors: &[("nonce", "nonce of the contract"), ("reply", "reply")],
};

pub(crate) const FILTER: TemplateFile = TemplateFile {
    name: "filter.md",
    builtin: include_str!("../templates/filter.md"),
    form: Layout::Both,
    anchors: &[("title", "work item's title"), ("results", "results")],
};

pub(crate) const OPINION: TemplateFile = TemplateFile {
    name: "opinion.md",
    builtin: include_str!("../templates/opinion.md"),
    form: Layout::Both,
    anchors: &[
        ("nonce", "nonce of the answer"),
        ("statements", "statements"),
        ("evidence", "cited evidence"),
    ],
};

pub(crate) const AGENT: TemplateFile = TemplateFile {
    name: "agent.md",
    builtin: include_str!("../templates/agent.md"),
    form: Layout::System,
    anchors: &[("goal", "goal"), ("ending", "rule how the loop is ended")],
};

pub(crate) const ITEM: TemplateFile = TemplateFile {
    name: "item.md",
    builtin: include_str!("../templates/item.md"),
    form: Layout::User,
    anchors: &[("item", "work item")],
};

pub(crate) const LAST_REPLY: TemplateFile = TemplateFile {
    name: "last_reply.md",
    builtin: include_str!("../templates/last_reply.md"),
    form: Layout::User,
    anchors: &[("cause", "reason for the last reply")],
};

pub(crate) const REJECTION: TemplateFile = TemplateFile {
    name: "rejection.md",
    builtin: include_str!("../templates/rejection.md"),
    form: Layout::User,
    anchors: &[("message", "message of the validator")],
};

pub(crate) const INSTRUCTION: TemplateFile = TemplateFile {
    name: "instruction.md",
    builtin: include_str!("../templates/instruction.md"),
    form: Layout::User,
    anchors: &[("instruction", "what a person said")],
};

const ALL: [&TemplateFile; 12] = [
    &ANALYSIS,
    &REFINEMENT,
    &FINAL_PASS,
    &SELECTOR,
    &REPAIR,
    &FILTER,
    &AGENT,
    &ITEM,
    &LAST_REPLY,
    &REJECTION,
    &INSTRUCTION,
    &OPINION,
];

/// Variables that are the same for every run of a domain.
const DOMAIN_VARIABLES: [&str; 7] = ["kind", "goal", "sections", "tools", "ending", "output", "plan"];

/// Variables that differ from run to run, or from call to call.
const RUN_VARIABLES: [&str; 17] = [
    "planned",
    "nonce",
    "title",
    "item",
    "evidence",
    "executed",
    "final_pass",
    "missing",
    "index",
    "cause",
    "reply",
    "results",
    "target",
    "by",
    "message",
    "instruction",
    "statements",
];

/// The only variable that is a number.
const SELECTED: &str = "selected";

/// Every variable that a template may use except [`SELECTED`]. A variable that is not set renders as an empty text and
/// is false.
fn variables() -> impl Iterator<Item = &'static str> {
    DOMAIN_VARIABLES.into_iter().chain(RUN_VARIABLES)
}

/// The templates in use: a domain's own are compiled, those of this crate when they are first rendered.
#[derive(Debug)]
pub(crate) struct Templates {
    environment: Environment<'static>,
    /// The number of lines of each file of the domain before its user part.
    above: BTreeMap<&'static str, usize>,
    hash: Digest,
}

impl Templates {
    /// The built-in files, with `overrides` (file name, text) in place of some of them.
    pub(crate) fn new(overrides: BTreeMap<String, String>) -> Result<Self, PromptError> {
        if let Some(file) = overrides.keys().find(|file| ALL.iter().all(|known| known.name != file.as_str()))
        {
            let known = ALL.map(|file| file.name).join(", ");
            return Err(PromptError::UnknownTemplate { file: file.clone(), known });
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_loader(|name| Ok(builtin(name)));
        let mut templates = Self { environment, above: BTreeMap::new(), hash: Digest::of("prompts", &[]) };
        let mut hashed = String::new();
        for file in ALL {
            let text = overrides.get(file.name).map_or(file.builtin, String::as_str);
            hashed.push_str(file.name);
            hashed.push('\0');
            hashed.push_str(text);
            hashed.push('\0');
        }
        templates.hash = Digest::of("prompts", hashed.as_bytes());
        for (file, text) in ALL.iter().filter_map(|file| Some((file, overrides.get(file.name)?))) {
            templates.add(file, text)?;
            templates.check_anchors(file)?;
        }
        Ok(templates)
    }

    pub(crate) fn hash(&self) -> Digest {
        self.hash
    }

    /// The rendered system part of a file. Empty if it has none.
    pub(crate) fn system(&self, file: &TemplateFile, variables: &[(&str, Value)]) -> String {
        match file.form {
            Layout::Both | Layout::System => self.render(&system_name(file), variables).unwrap_or_default(),
            Layout::User => String::new(),
        }
    }

    /// The rendered user part of a file. Empty if it has none.
    pub(crate) fn user(&self, file: &TemplateFile, variables: &[(&str, Value)]) -> String {
        match file.form {
            Layout::Both | Layout::User => self.render(file.name, variables).unwrap_or_default(),
            Layout::System => String::new(),
        }
    }

    fn render(&self, name: &str, variables: &[(&str, Value)]) -> Result<String, minijinja::Error> {
        let mut all: BTreeMap<&str, Value> = self::variables().map(|name| (name, Value::from(""))).collect();
        all.insert(SELECTED, Value::from(0));
        all.extend(variables.iter().cloned());
        let text = self.environment.get_template(name)?.render(all)?;
        Ok(text.trim_end().to_owned())
    }

    /// Renders a file with a marker as the value of each variable, and checks that the markers of its anchors appear.
    fn check_anchors(&self, file: &TemplateFile) -> Result<(), PromptError> {
        let sign = |name: &str| format!("anchor-{name}-7f3a");
        let mut signed: Vec<(&str, Value)> =
            variables().map(|name| (name, Value::from(sign(name)))).collect();
        let full = self.both_parts(file, &signed)?;
        // The instructions of the last call replace others, so the file is also checked without them.
        signed.retain(|(name, _)| *name != "final_pass");
        let plain = self.both_parts(file, &signed)?;
        // The file must also render with all variables empty.
        self.both_parts(file, &[])?;
        let misplaced = |name: &&str| [&full, &plain].iter().any(|parts| parts.system.contains(&sign(name)));
        if [ANALYSIS.name, AGENT.name].contains(&file.name)
            && let Some(name) = RUN_VARIABLES.into_iter().find(misplaced)
        {
            let file_name = file.name.to_owned();
            return Err(match file.form {
                Layout::Both | Layout::User => PromptError::RunVariableInSystem { file: file_name, name },
                Layout::System => PromptError::RunVariable { file: file_name, name },
            });
        }
        for (anchor, what) in file.anchors {
            let sign = sign(anchor);
            let shows = |parts: &Parts| parts.system.contains(&sign) || parts.user.contains(&sign);
            if !shows(&full) && !shows(&plain) {
                return Err(PromptError::MissingAnchor { file: file.name.to_owned(), anchor, what });
            }
        }
        Ok(())
    }

    fn both_parts(&self, file: &TemplateFile, variables: &[(&str, Value)]) -> Result<Parts, PromptError> {
        let above = self.above.get(file.name).copied().unwrap_or_default();
        let syntax = |above| move |error| syntax_error(file.name, above, &error);
        let system = match file.form {
            Layout::Both | Layout::System => {
                self.render(&system_name(file), variables).map_err(syntax(/*above*/ 0))?
            }
            Layout::User => String::new(),
        };
        let user = match file.form {
            Layout::Both | Layout::User => self.render(file.name, variables).map_err(syntax(above))?,
            Layout::System => String::new(),
        };
        Ok(Parts { system, user })
    }

    /// Compiles a file, and rejects unknown variables.
    fn add(&mut self, file: &TemplateFile, text: &str) -> Result<(), PromptError> {
        let (system, user) = file.parts(text);
        if user.is_none() && file.form != Layout::System {
            return Err(PromptError::MissingUserPart { file: file.name.to_owned() });
        }
        if let Some(system) = system {
            self.compile(file, system_name(file), system, /*above*/ 0)?;
        }
        let Some(user) = user else { return Ok(()) };
        let above = text.len() - user.len();
        let above = text.get(..above).unwrap_or_default().matches('\n').count();
        self.above.insert(file.name, above);
        self.compile(file, file.name.to_owned(), user, above)
    }

    fn compile(
        &mut self,
        file: &TemplateFile,
        name: String,
        text: &str,
        above: usize,
    ) -> Result<(), PromptError> {
        let syntax = |error: minijinja::Error| syntax_error(file.name, above, &error);
        self.environment.add_template_owned(name.clone(), text.to_owned()).map_err(syntax)?;
        let used = self.environment.get_template(&name).map_err(syntax)?.undeclared_variables(false);
        let is_known = |name: &&String| {
            variables().any(|known| known == *name)
                || *name == SELECTED
                || self.environment.globals().any(|(global, _)| global == *name)
        };
        let Some(name) = used.iter().filter(|name| !is_known(name)).min().cloned() else { return Ok(()) };
        let line = text.lines().position(|line| line.contains(&name)).unwrap_or_default();
        let known = variables().chain([SELECTED]).collect::<Vec<_>>().join(", ");
        Err(PromptError::UnknownVariable { file: file.name.to_owned(), line: above + line + 1, name, known })
    }
}

impl TemplateFile {
    /// The system part and the user part of a text of this file, where it has them.
    fn parts<'a>(&self, text: &'a str) -> (Option<&'a str>, Option<&'a str>) {
        match self.form {
            Layout::System => (Some(text), None),
            Layout::User => (None, Some(text)),
            Layout::Both => match text.split_once(USER_MARK) {
                Some((system, user)) => (Some(system), Some(user.trim_start())),
                None => (Some(text), None),
            },
        }
    }
}

/// The text of a part of a built-in file, by the name of its template.
fn builtin(name: &str) -> Option<String> {
    let file = ALL.iter().find(|file| name == file.name || name == system_name(file))?;
    let (system, user) = file.parts(file.builtin);
    let part = if name == file.name { user } else { system };
    part.map(str::to_owned)
}

/// The rendered parts of a file.
struct Parts {
    system: String,
    user: String,
}

fn system_name(file: &TemplateFile) -> String {
    format!("{}#system", file.name)
}

/// `above` is the number of lines of the file before the part that does not compile.
fn syntax_error(file: &str, above: usize, error: &minijinja::Error) -> PromptError {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    PromptError::Syntax { file: file.to_owned(), line: above + error.line().unwrap_or(1), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are compiled late and not checked, so this checks them as it would a domain's.
    #[test]
    fn the_built_in_files_pass_what_is_asked_of_overrides() {
        let all = ALL.iter().map(|file| (file.name.to_owned(), file.builtin.to_owned())).collect();
        let (own, builtin) = (Templates::new(all), Templates::new(BTreeMap::new()));
        let (Ok(own), Ok(builtin)) = (own, builtin) else { panic!("a built-in file is refused") };
        assert_eq!(own.hash(), builtin.hash());
        for file in ALL {
            assert_eq!(builtin.system(file, &[]), own.system(file, &[]), "{}", file.name);
            assert_eq!(builtin.user(file, &[]), own.user(file, &[]), "{}", file.name);
            let is_shown = !builtin.system(file, &[]).is_empty() || !builtin.user(file, &[]).is_empty();
            assert!(is_shown, "{}", file.name);
        }
    }
}
