//! `files` of a tool: the folder whose files it works on, and how.

use schemars::JsonSchema;
use serde::Deserialize;

/// A folder, and what is done with its files.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "files"), allow(dead_code, reason = "only its form is checked"))]
pub(crate) struct FilesConfig {
    /// The folder. Nothing outside of it is reached, by no path and through no link. Names in it that begin with `.` are not there.
    pub(crate) folder: String,
    /// What it does: `list`, `read` and `search` have the effect `read`; `write` and `patch` have one that writes.
    #[serde(rename = "do")]
    pub(crate) work: FilesWorkConfig,
    /// Globs of the files that there are for it, for example `*.md`; one without `/` is of the name alone. Default: all files.
    #[serde(default)]
    pub(crate) include: Vec<String>,
    /// The most bytes that it returns; for `write` and `patch`, the most of a whole file. Default: 262,144.
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: Option<usize>,
    /// The most files that `list`, and lines that `search` returns. Default: 200.
    #[schemars(range(min = 1))]
    pub(crate) max_results: Option<usize>,
}

/// The kinds of work on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FilesWorkConfig {
    /// Lists them with sizes and times.
    List,
    /// Returns lines of one.
    Read,
    /// Finds lines by a text or a regular expression.
    Search,
    /// Creates or replaces one.
    Write,
    /// Replaces one text in one.
    Patch,
}
