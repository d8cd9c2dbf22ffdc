//! `tools.lock` next to `loopgate.toml`: the tools of each MCP server as they were when an operator trusted them.

#[cfg(all(feature = "mcp", unix))]
use std::fs;
#[cfg(all(feature = "mcp", unix))]
use std::io::{ErrorKind, Write};
#[cfg(all(feature = "mcp", unix))]
use std::path::{Path, PathBuf};

#[cfg(all(feature = "mcp", unix))]
use loop_tools::files;
use loop_tools::lock::Lock;
use schemars::generate::SchemaSettings;
use serde_json::Value;

#[cfg(all(feature = "mcp", unix))]
use crate::error::DomainError;
#[cfg(all(feature = "mcp", unix))]
use crate::review::one_line;

/// The name of the file in a domain's folder.
pub(crate) const LOCK: &str = "tools.lock";

/// Reads the lock in `folder`. Empty if there is none.
///
/// # Errors
/// It cannot be read, has another format, or was written by a newer program.
#[cfg(all(feature = "mcp", unix))]
pub(crate) fn read(folder: &Path) -> Result<Lock, DomainError> {
    let path = folder.join(LOCK);
    let text = match files::text(&path, files::MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock::default()),
        Err(error) => return Err(DomainError::Unreadable { path, message: error.to_string() }),
    };
    Lock::parse(&text).map_err(|error| {
        let advice =
            "restore it, or delete it and trust the servers again with `loopgate tools DOMAIN trust`";
        let message = if error.is_newer { error.message } else { format!("{}; {advice}", error.message) };
        DomainError::Invalid { path, line: error.line, column: error.column, message }
    })
}

/// Fails if an entry of `server` was edited by hand after it was trusted.
#[cfg(all(feature = "mcp", unix))]
pub(crate) fn verify(lock: &Lock, server: &str, folder: &Path) -> Result<(), DomainError> {
    let Some(tool) = lock.servers.get(server).and_then(|locked| locked.edited()) else { return Ok(()) };
    let path = folder.join(LOCK);
    // The place of the digest, for a person. The file was read a moment ago.
    let text = files::text(&path, files::MAX_BYTES).unwrap_or_default();
    let at = text.find(tool.digest.as_str()).filter(|_| !tool.digest.is_empty()).unwrap_or_default();
    let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let message = format!(
        "server `{server}`: what is written of its tool `{}` does not fit the digest, so it was edited by hand; look at \
         `loopgate tools DOMAIN diff {server}`, then run `loopgate tools DOMAIN trust {server}`",
        one_line(&tool.name)
    );
    Err(DomainError::Invalid { path, line, column: 1, message })
}

/// Writes the lock in `folder`, in one atomic step.
///
/// # Errors
/// The folder cannot be written to.
#[cfg(all(feature = "mcp", unix))]
pub(crate) fn write(lock: &Lock, folder: &Path) -> Result<PathBuf, DomainError> {
    let path = folder.join(LOCK);
    let failed = |message: String| DomainError::Unwritable { path: path.clone(), message };
    // Of this process alone, and in the same folder: only there a rename replaces the file at once.
    let beside = folder.join(format!(".{LOCK}.{}", std::process::id()));
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(lock.text().as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&beside, &path));
    if let Err(error) = replaced {
        // It may never have been there.
        let _ = fs::remove_file(&beside);
        return Err(failed(error.to_string()));
    }
    Ok(path)
}

/// The JSON Schema of `tools.lock`, for editors.
pub fn lock_schema() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Lock>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), LOCK.into());
    }
    schema
}
