//! `cargo xtask drawings`: the pictures of the documentation, made from text.
//!
//! Each `docs/drawings/NAME.txt` gives `docs/drawings/NAME.svg`; the form of a text is in [`scene`]. The crates by layer are
//! laid out from the table of `cargo xtask layers`. A text with the line `enum: NAME` must name every variant of that enum
//! of `loop-core`, so that a drawing cannot miss one.

mod layered;
mod scene;
mod svg;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::drawings::scene::Scene;
use crate::layers;
use crate::workspace::{self, Failure};

/// Where texts and pictures are.
const FOLDER: &str = "docs/drawings";
/// The drawing whose boxes and arrows come from the table of layers.
const CRATES: &str = "crates";

/// Draws every picture, or with `check` compares each with its text.
pub(crate) fn run(check: bool) -> Result<(), Failure> {
    let root = workspace::root();
    if check {
        workspace::report("drawings", &find_problems(root)?)?;
        println!("drawings: every picture is that of its text");
        return Ok(());
    }
    let (drawn, problems) = draw(root)?;
    workspace::report("drawings", &problems)?;
    for (file, picture) in drawn {
        fs::write(root.join(&file), picture).map_err(|error| Failure::Check(format!("{file}: {error}")))?;
        println!("drawings: {file}");
    }
    Ok(())
}

/// What is wrong with a text, and each picture that is not the one of its text.
pub(crate) fn find_problems(root: &Path) -> Result<Vec<String>, Failure> {
    let (drawn, mut problems) = draw(root)?;
    for (file, picture) in drawn {
        if fs::read_to_string(root.join(&file)).ok().as_deref() != Some(picture.as_str()) {
            problems.push(format!("{file}: not the picture of its text; run `cargo xtask drawings`"));
        }
    }
    Ok(problems)
}

/// The pictures by their files, and what is wrong with the texts.
fn draw(root: &Path) -> Result<(BTreeMap<String, String>, Vec<String>), Failure> {
    let (mut drawn, mut problems) = (BTreeMap::new(), Vec::new());
    for path in workspace::files_below(&root.join(FOLDER), "txt")? {
        let file = workspace::shown(root, &path);
        let text = workspace::read(&path)?;
        let is_crates = path.file_stem().is_some_and(|stem| stem == CRATES);
        let scene = if is_crates { layered::scene(&text, &layers::ARROWS) } else { Scene::parse(&text) };
        let scene = match scene {
            Ok(scene) => scene,
            Err(problem) => {
                problems.push(format!("{file}:{problem}"));
                continue;
            }
        };
        problems.extend(scene.problems().into_iter().map(|problem| format!("{file}: {problem}")));
        for name in &scene.enums {
            let missing = missing_variants(root, name, &scene.words())?;
            problems.extend(missing.into_iter().map(|problem| format!("{file}: {problem}")));
        }
        let picture = workspace::shown(root, &path.with_extension("svg"));
        drawn.insert(picture, svg::picture(&scene));
    }
    Ok((drawn, problems))
}

/// The variants of an enum of `loop-core` that a drawing does not name.
fn missing_variants(root: &Path, name: &str, words: &str) -> Result<Vec<String>, Failure> {
    for path in workspace::files_below(&root.join("crates/loop-core/src"), "rs")? {
        if let Some(variants) = variants(&workspace::read(&path)?, name) {
            let is_named = |variant: &String| {
                words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == *variant)
            };
            let missing = variants.into_iter().filter(|variant| !is_named(variant));
            return Ok(missing
                .map(|variant| format!("`{variant}` of the enum {name} is not in it"))
                .collect());
        }
    }
    Ok(vec![format!("there is no enum {name} in crates/loop-core/src")])
}

/// The variants of an enum as they are written in JSON, if the text declares it.
fn variants(text: &str, name: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once(&format!("pub enum {name} {{\n"))?;
    let body = rest.lines().take_while(|line| *line != "}");
    let of_line = body.filter_map(|line| {
        let word = line.strip_prefix("    ")?.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        word.starts_with(|c: char| c.is_ascii_uppercase()).then(|| snake(word))
    });
    Some(of_line.collect())
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_picture_is_that_of_its_text() {
        let problems = find_problems(workspace::root()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn variants_are_read_from_the_source() {
        let text = "pub enum A {\n    /// One.\n    OneAtATime,\n    Run {\n        /// X.\n        Of: u32,\n    },\n}\nB\n";
        assert_eq!(variants(text, "A").unwrap(), ["one_at_a_time", "run"]);
        assert_eq!(variants(text, "B"), None);
    }
}
