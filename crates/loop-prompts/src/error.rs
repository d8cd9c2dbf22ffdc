//! What can be wrong with a template.

/// What is wrong with a template that a domain brings along: an operator repairs it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// No template has this file name.
    #[error("prompts/{file}: no template has this name; there are {known}")]
    UnknownTemplate {
        /// The file's name.
        file: String,
        /// The names there are.
        known: String,
    },
    /// It is no template.
    #[error("prompts/{file}:{line}: {message}")]
    Syntax {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A part that must be there does not appear in what it renders.
    #[error("prompts/{file}: the anchor `{{{{ {anchor} }}}}` is missing; put it where the {what} belongs")]
    MissingAnchor {
        /// The file's name.
        file: String,
        /// The variable's name.
        anchor: &'static str,
        /// What it holds.
        what: &'static str,
    },
    /// A variable that no template has.
    #[error("prompts/{file}:{line}: no template has a variable `{name}`; there are {known}")]
    UnknownVariable {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The variable's name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// What differs from run to run stands in the part that is the same for all.
    #[error(
        "prompts/{file}: `{{{{ {name} }}}}` differs from run to run; put it below the line `<!-- user -->`"
    )]
    RunVariableInSystem {
        /// The file's name.
        file: String,
        /// The variable's name.
        name: &'static str,
    },
    /// What differs from run to run stands in a file that is the same for all.
    #[error("prompts/{file}: `{{{{ {name} }}}}` differs from run to run, and this file is the same for all")]
    RunVariable {
        /// The file's name.
        file: String,
        /// The variable's name.
        name: &'static str,
    },
    /// The mark between the system part and the user part is missing.
    #[error(
        "prompts/{file}: the line `<!-- user -->` is missing; put it between the system part and the user part"
    )]
    MissingUserPart {
        /// The file's name.
        file: String,
    },
}
