//! `cargo xtask publish --dry-run`: checks that every crate can be published, in the order of their dependencies.

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

/// The most keywords of a package in the registry.
const MAX_KEYWORDS: usize = 5;

/// Checks the metadata of each crate, then packages all of them, and builds each package unless this is `quick`.
pub(crate) fn run(dry_run: bool, quick: bool) -> Result<(), Failure> {
    if !dry_run {
        let message = "publish: give --dry-run; `cargo publish --workspace` publishes what it has checked";
        return Err(Failure::Usage(message.to_owned()));
    }
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let metadata = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| Failure::Check(format!("cargo metadata cannot be read: {error}")))?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let published: Vec<&Value> = packages.into_iter().flatten().filter(|it| is_published(it)).collect();
    let problems: Vec<String> = published.iter().flat_map(|package| problems(package)).collect();
    workspace::report("publish", &problems)?;
    println!("publish: {} crates have what a registry shows", published.len());
    // What is committed is not a part of this question, and CI has a clean tree anyway.
    let quick = quick.then_some("--no-verify");
    cmd!(shell, "cargo publish --workspace --dry-run --locked --allow-dirty {quick...}").run()?;
    Ok(())
}

fn is_published(package: &Value) -> bool {
    // An empty list of registries is `publish = false`.
    package.get("publish").is_none_or(|publish| publish.as_array().is_none_or(|to| !to.is_empty()))
}

/// Missing metadata of a package.
fn problems(package: &Value) -> Vec<String> {
    let text = |field: &str| package.get(field).and_then(Value::as_str).unwrap_or_default();
    let count = |field: &str| package.get(field).and_then(Value::as_array).map_or(0, Vec::len);
    let name = text("name");
    let missing =
        ["description", "license", "repository", "readme"].into_iter().filter(|field| text(field).is_empty());
    let mut problems: Vec<String> =
        missing.map(|field| format!("{name} has no `{field}` in its Cargo.toml")).collect();
    if count("categories") == 0 {
        problems.push(format!("{name} has no `categories` in its Cargo.toml"));
    }
    if !(1..=MAX_KEYWORDS).contains(&count("keywords")) {
        problems
            .push(format!("{name} has {} keywords; a registry takes 1 to {MAX_KEYWORDS}", count("keywords")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_crate_without_what_a_registry_shows_is_named() {
        let whole = json!({
            "name": "a", "description": "A.", "license": "MIT", "repository": "https://example.com", "readme": "README.md",
            "keywords": ["a"], "categories": ["config"], "publish": null
        });
        assert!(is_published(&whole));
        assert_eq!(problems(&whole), Vec::<String>::new());
        let bare = json!({"name": "b", "keywords": ["1", "2", "3", "4", "5", "6"], "readme": null});
        assert!(is_published(&bare));
        assert_eq!(problems(&bare).len(), 6, "{:?}", problems(&bare));
        assert!(!is_published(&json!({"name": "c", "publish": []})));
    }
}
