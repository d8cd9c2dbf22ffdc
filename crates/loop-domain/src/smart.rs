//! Makes the row filter of a tool from its key `smart`: which rows of its results the model reads.

use loop_tools::smart::RowFilter;

use crate::config::{SmartConfig, SmartRowsConfig, ToolConfig, ToolKind};
use crate::error::DomainError;
use crate::file::File;
use crate::similar::hint;

/// The parameter that says what a call looks for, out of the tool's parameters. `None`: the tool does not filter rows,
/// or has no such parameter.
pub(crate) fn target(tool: &ToolConfig, parameters: &[&str]) -> Option<String> {
    let named = match &tool.smart {
        SmartConfig::By(config) => config.target.clone(),
        SmartConfig::Is(_) => None,
    };
    let target = named.unwrap_or_else(|| RowFilter::default().target);
    let chooses = tool.smart.is_on() && tool.kind != ToolKind::Docs;
    (chooses && parameters.contains(&target.as_str())).then_some(target)
}

/// The row filter of the tool. `None`: it has none. Document tools select passages in their own way.
pub(crate) fn row_filter(
    file: &File,
    name: &str,
    tool: &ToolConfig,
    parameters: &[&str],
) -> Result<Option<RowFilter>, DomainError> {
    if !tool.smart.is_on() {
        return Ok(None);
    }
    let wrong = |key: &str, message: String| {
        let path = ["tools", name, "smart", key];
        Err(file.error(if key.is_empty() { path.get(..3).unwrap_or(&path) } else { &path }, message))
    };
    if tool.effect.is_some_and(|effect| !effect.is_read()) {
        return wrong("", "only a tool that reads may be smart; take it out".to_owned());
    }
    let config = match (&tool.smart, tool.kind) {
        (SmartConfig::By(_), ToolKind::Docs) => {
            let message = "the passages of documents are chosen in one way; write `smart = true`";
            return wrong("", message.to_owned());
        }
        (SmartConfig::Is(_), ToolKind::Docs) => return Ok(None),
        (SmartConfig::By(config), _) => config.clone(),
        (SmartConfig::Is(_), _) => SmartRowsConfig::default(),
    };
    for (key, value) in [("threshold", config.threshold), ("fallback", config.fallback)] {
        if value == Some(0) {
            return wrong(key, "it is at least 1; correct it".to_owned());
        }
    }
    if let Some(target) = config.target.as_deref().filter(|target| !parameters.contains(target)) {
        let hint = hint(target, parameters.iter().copied(), "there are");
        return wrong("target", format!("there is no parameter `{target}`; {hint}"));
    }
    let defaults = RowFilter::default();
    Ok(Some(RowFilter {
        threshold: config.threshold.unwrap_or(defaults.threshold),
        instruction: config.filter.filter(|filter| !filter.trim().is_empty()),
        fallback: config.fallback.unwrap_or(defaults.fallback),
        target: config.target.unwrap_or(defaults.target),
    }))
}
