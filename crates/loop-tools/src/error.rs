//! Why a registry could not be built: for the operator, before any run begins.

/// Why a registry was not built. Each message is one line and names the tool to repair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name could not be sent to a model.
    #[error(
        "tool `{name}`: its name must be 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and begin with a letter or `_`"
    )]
    InvalidName {
        /// The name as declared.
        name: String,
    },
    /// An alias could not be sent to a model.
    #[error(
        "tool `{tool}`: its alias `{alias}` must be 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and begin with a letter or `_`"
    )]
    InvalidAlias {
        /// The tool's name.
        tool: String,
        /// The alias as declared.
        alias: String,
    },
    /// The tool declares no effect, so policy could not decide about it.
    #[error("tool `{tool}`: it declares no effect; say `read`, a kind of write, `egress` or `exec`")]
    MissingEffect {
        /// The tool's name.
        tool: String,
    },
    /// Two tools have one name.
    #[error("tool `{tool}`: another tool has this name")]
    DuplicateName {
        /// The name.
        tool: String,
    },
    /// An alias is already in use.
    #[error("tool `{tool}`: its alias `{alias}` is already a name of `{taken_by}`")]
    AliasTaken {
        /// The tool that declares the alias.
        tool: String,
        /// The alias.
        alias: String,
        /// The tool that the alias means already.
        taken_by: String,
    },
    /// The parameters are not described as an object.
    #[error(
        "tool `{tool}`: its schema must be a JSON Schema with \"type\": \"object\"; a list, a text or an enum is wrapped in a struct, and no parameters are `struct X {{}}`"
    )]
    NotAnObjectSchema {
        /// The tool's name.
        tool: String,
    },
    /// The schema is invalid, or refers to something outside of itself.
    #[error("tool `{tool}`: its schema does not compile: {message}")]
    InvalidSchema {
        /// The tool's name.
        tool: String,
        /// What is wrong, and where.
        message: String,
    },
    /// A number is 0 with which the tool would never run, or be cancelled at once.
    #[error("tool `{tool}`: its `{field}` must be at least 1")]
    Zero {
        /// The tool's name.
        tool: String,
        /// The field of its declaration.
        field: &'static str,
    },
}
