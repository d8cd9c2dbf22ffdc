//! Errors in templates.

/// An error in a domain's own template. An operator repairs it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// No template has this file name.
    #[error("prompts/{file}: no template has this name; there are {known}")]
    UnknownTemplate {
        /// The file's name.
        file: String,
        /// The known file names, separated by commas.
        known: String,
    },
    /// The text is not a valid template.
    #[error("prompts/{file}:{line}: {message}")]
    Syntax {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// A required variable does not appear in the rendered text.
    #[error("prompts/{file}: the anchor `{{{{ {anchor} }}}}` is missing; put it where the {what} belongs")]
    MissingAnchor {
        /// The file's name.
        file: String,
        /// The variable's name.
        anchor: &'static str,
        /// The content of the variable.
        what: &'static str,
    },
    /// An unknown variable.
    #[error("prompts/{file}:{line}: no template has a variable `{name}`; there are {known}")]
    UnknownVariable {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The variable's name.
        name: String,
        /// The known variables, separated by commas.
        known: String,
    },
    /// A variable that differs from run to run is in the system part, which must be the same for all runs.
    #[error(
        "prompts/{file}: `{{{{ {name} }}}}` differs from run to run; put it below the line `<!-- user -->`"
    )]
    RunVariableInSystem {
        /// The file's name.
        file: String,
        /// The variable's name.
        name: &'static str,
    },
    /// A variable that differs from run to run is in a file that must be the same for all runs.
    #[error("prompts/{file}: `{{{{ {name} }}}}` differs from run to run, and this file is the same for all")]
    RunVariable {
        /// The file's name.
        file: String,
        /// The variable's name.
        name: &'static str,
    },
    /// The separator line between the system part and the user part is missing.
    #[error(
        "prompts/{file}: the line `<!-- user -->` is missing; put it between the system part and the user part"
    )]
    MissingUserPart {
        /// The file's name.
        file: String,
    },
}
