//! Tools of kind `run`: each call starts a run of another domain.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_runtime::run::RunAsTool;
use serde_json::{Value, json};

use crate::config::ToolConfig;
use crate::domain::{Domain, LoadOptions};
use crate::error::DomainError;
use crate::file::File;
use crate::tools::{ToolSecrets, declaration, schema};

/// The domain that the tool `name` calls. Missing environment variables of that domain count as missing for this one.
pub(crate) fn domain(
    file: &File,
    options: &LoadOptions,
    name: &str,
    folder: &str,
    profile: Option<&str>,
    secrets: &mut ToolSecrets,
) -> Result<Arc<Domain>, DomainError> {
    let path = file.resolve(&["tools", name, "domain"], folder);
    let about = |message: String| file.error(&["tools", name, "domain"], message);
    let mut callers = file.callers.clone();
    callers.push(whole(file.path()));
    // What the user says of models holds for the whole tree; what is set is about this domain.
    let options = LoadOptions {
        profile: profile.map(str::to_owned),
        user_model: options.user_model.clone(),
        prices: options.prices.clone(),
        uncalibrated: options.uncalibrated,
        cwd: options.cwd.clone(),
        ..LoadOptions::default()
    };
    let mut called = File::read(&path, &options)?;
    if callers.contains(&whole(called.path())) {
        return Err(about(format!("`{folder}` would call itself without end; name another domain")));
    }
    called.callers = callers;
    let domain = Domain::made(called, &options)?;
    if let Some(error) = domain.unpriced("it is called", "take the limit out") {
        return Err(error);
    }
    domain.lacks(secrets);
    Ok(Arc::new(domain))
}

/// The tool that calls the domain. Its arguments become the work item: the parameter `task` alone as a text, declared
/// parameters as JSON.
pub(crate) fn tool(
    file: &File,
    name: &str,
    tool: &ToolConfig,
    domain: Arc<Domain>,
) -> Result<RunAsTool, DomainError> {
    let is_declared = tool.parameters.names().next().is_some();
    // Who trusts the tool trusts what the domain does now.
    let definition = json!([domain.spec.hash().to_string(), domain.registry.manifest_hash().to_string()]);
    let declaration = declaration(file, name, tool, schema(tool))?.defined_by(&definition);
    let origin: Arc<str> = format!("the call of {name}").into();
    let runner = domain.to_loop();
    Ok(RunAsTool::new(declaration, runner, move |arguments| {
        let text = match arguments.get(RunAsTool::TASK).and_then(Value::as_str).filter(|_| !is_declared) {
            Some(task) => task.to_owned(),
            None => arguments.to_string(),
        };
        domain.item(&text, &origin).map_err(|error| error.to_string())
    }))
}

/// The canonical path of a file, for comparison.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
