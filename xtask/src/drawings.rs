//! Checks that the drawings in `docs/drawings` are complete: each names every variant or crate that it is about.

use std::path::Path;

use crate::layers;
use crate::workspace::{self, Failure};

/// Drawings that name every variant of an enum of `loop-core`.
const ENUMS: [(&str, &str); 2] = [("phases", "Phase"), ("tool-call", "Verdict")];
/// The drawing that names every crate.
const CRATES: &str = "crates";

/// The names that are missing in a drawing.
pub(crate) fn find_problems(root: &Path) -> Result<Vec<String>, Failure> {
    let ours = layers::ARROWS.iter().map(|(name, _)| (*name).to_owned()).filter(|name| name != "xtask");
    let mut all = vec![(CRATES, ours.collect())];
    for (drawing, name) in ENUMS {
        all.push((drawing, variants(root, name)?));
    }
    let mut problems = Vec::new();
    for (drawing, names) in all {
        let file = format!("docs/drawings/{drawing}.svg");
        let picture = workspace::read(&root.join(&file))?;
        let words: Vec<&str> =
            picture.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)).collect();
        let missing = names.iter().filter(|name| !words.contains(&name.as_str()));
        problems.extend(missing.map(|name| format!("{file}: `{name}` is not in it")));
    }
    Ok(problems)
}

/// The variants of an enum of `loop-core`, by their JSON names.
fn variants(root: &Path, name: &str) -> Result<Vec<String>, Failure> {
    let head = format!("pub enum {name} {{\n");
    for path in workspace::files_below(&root.join("crates/loop-core/src"), "rs")? {
        if let Some((_, rest)) = workspace::read(&path)?.split_once(&head) {
            let body = rest.lines().take_while(|line| *line != "}");
            let of_line = body.filter_map(|line| {
                let word = line.strip_prefix("    ")?.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
                word.starts_with(|c: char| c.is_ascii_uppercase()).then(|| snake(word))
            });
            return Ok(of_line.collect());
        }
    }
    Err(Failure::Check(format!("there is no enum {name} in crates/loop-core/src")))
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_that_no_drawing_names_is_a_problem() {
        let found = variants(workspace::root(), "Verdict");
        assert!(found.is_ok_and(|names| names.len() > 10 && names.contains(&"breaker_open".to_owned())));
    }
}
