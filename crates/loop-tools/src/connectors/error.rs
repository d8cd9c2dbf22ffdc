//! Why a connector could not be made: for the operator, before any run begins.

/// Why a connector could not be made. Each message is one line: what, where, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// The path does not exist.
    #[error("{path}: there is no such {what}; correct the path or put the {what} there")]
    Missing {
        /// What was expected there.
        what: &'static str,
        /// The path.
        path: String,
    },
    /// The file or folder cannot be read.
    #[error("{path}: cannot be read: {message}; check what it is and who may read it")]
    Unreadable {
        /// The path.
        path: String,
        /// The system's message.
        message: String,
    },
    /// The file is not a database.
    #[error("{path}: SQLite cannot open it: {message}; name a SQLite file, or a script with `made_from`")]
    NotADatabase {
        /// The path.
        path: String,
        /// SQLite's message.
        message: String,
    },
    /// Another program locks the file for longer than the busy timeout.
    #[error(
        "{path}: another program holds it locked; end what that program does with it, or raise `busy_timeout_ms`"
    )]
    Locked {
        /// The path.
        path: String,
    },
    /// A script fails.
    #[error("{place}: SQLite refuses the script: {message}; correct it there")]
    Script {
        /// The script, with its line where that is known.
        place: String,
        /// SQLite's message.
        message: String,
    },
    /// The database that a script makes cannot be written.
    #[error("{path}: the database made from a script cannot be written: {message}; make the folder writable")]
    Cache {
        /// The path that it should have.
        path: String,
        /// The system's message.
        message: String,
    },
    /// A query cannot be prepared.
    #[error("tool `{tool}`: its query does not prepare: {message}; correct the SQL")]
    Query {
        /// The tool's name.
        tool: String,
        /// SQLite's message.
        message: String,
    },
    /// A query of a read-only tool writes, or returns no rows.
    #[error("tool `{tool}`: its query must be one SELECT that changes nothing: {message}; write one SELECT")]
    NotASelect {
        /// The tool's name.
        tool: String,
        /// What the query is instead.
        message: String,
    },
    /// A file that the tool must write is write-protected.
    #[error("{path}: cannot be written: {message}; make it writable")]
    WriteProtected {
        /// The path.
        path: String,
        /// The system's message.
        message: String,
    },
    /// A tool that changes data uses a database that is opened for reading only.
    #[error(
        "tool `{tool}`: its effect `{effect}` changes data, and {path} is opened for reading only; open it for writing"
    )]
    NotWritable {
        /// The tool's name.
        tool: String,
        /// Its effect.
        effect: &'static str,
        /// The path of the database.
        path: String,
    },
    /// The statement of a tool that changes data does something else.
    #[error(
        "tool `{tool}`: with the effect `{effect}` its query must be one INSERT, UPDATE or DELETE: {message}; write one, or correct the effect"
    )]
    NotAChange {
        /// The tool's name.
        tool: String,
        /// Its effect.
        effect: &'static str,
        /// What the query is instead.
        message: String,
    },
    /// A statement that is to be dropped the second time cannot know that it is the second time.
    #[error(
        "tool `{tool}`: with the effect `write_keyed` its query must store `:call_key`, and does not name it; do so, or correct the effect"
    )]
    Unkeyed {
        /// The tool's name.
        tool: String,
    },
    /// A query names a value that is neither a parameter nor part of the scope.
    #[error("tool `{tool}`: its query names `{name}`, which nobody gives it; use one of {known}")]
    UnknownName {
        /// The tool's name.
        tool: String,
        /// The name as written.
        name: String,
        /// The names that it may use.
        known: String,
    },
    /// Two columns of a query have the same name.
    #[error("tool `{tool}`: its query has two columns `{column}`; rename one with AS")]
    DoubledColumn {
        /// The tool's name.
        tool: String,
        /// The column.
        column: String,
    },
    /// A parameter of a document tool is not declared.
    #[error(
        "tool `{tool}`: the parameter `{name}` that holds the words to look for is not a declared text; declare it, or correct `query_parameter`"
    )]
    NoQueryParameter {
        /// The tool's name.
        tool: String,
        /// The parameter.
        name: String,
    },
    /// A setting of a tool is wrong.
    #[error("{message}")]
    Setting {
        /// The setting's key.
        key: &'static str,
        /// What is wrong, and how to fix it.
        message: String,
    },
    /// Something in the definition of an HTTP tool is wrong.
    #[error("tool `{tool}`: {}: {message}", at_http(.key))]
    Http {
        /// The tool's name.
        tool: String,
        /// The key below `http`, with dots between its parts. Empty: the definition as a whole.
        key: String,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// A setting of an MCP server is wrong.
    #[error("server `{server}`: {}{message}", at_server(.key))]
    Server {
        /// The server's name.
        server: String,
        /// The key, with dots between its parts. Empty: the server as a whole.
        key: String,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// A file of certificates cannot be used.
    #[error("{path}: {message}; name a PEM file with the certificates of your authority")]
    Certificates {
        /// The path.
        path: String,
        /// What is wrong with it. It shows nothing of the file.
        message: String,
    },
    /// TLS cannot be used on this machine.
    #[error(
        "TLS cannot be used on this machine: {message}; install its certificates, for example `ca-certificates`"
    )]
    Tls {
        /// The library's message.
        message: String,
    },
    /// A folder holds no document that can be searched.
    #[error("{path}: holds no .md, .markdown or .txt file; name a folder that does")]
    NoDocuments {
        /// The folder.
        path: String,
    },
}

/// A message of the system or of SQLite on one line.
pub(crate) fn one_line(message: impl std::fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An outside text in one visible line of at most `max` characters, with `…` behind them where it is cut.
#[cfg(any(feature = "http", feature = "postgres"))]
pub(crate) fn short_line(text: &str, max: usize) -> String {
    let line = one_line(crate::text::clean(text).0);
    match line.char_indices().nth(max) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// A key of an HTTP tool's definition as it is written.
fn at_http(key: &str) -> String {
    if key.is_empty() { "`http`".to_owned() } else { format!("`http.{key}`") }
}

/// A key of a server's settings as it is written.
fn at_server(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("`{key}`: ") }
}
