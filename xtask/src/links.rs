//! Checks the links between the pages of the docs: each must lead to an existing file and heading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::workspace::{self, Failure};

/// Every broken link.
pub(crate) fn find_problems(root: &Path) -> Result<Vec<String>, Failure> {
    let mut pages = BTreeMap::new();
    for folder in ["docs", "examples"] {
        for path in workspace::files_below(&root.join(folder), "md")? {
            pages.insert(path.clone(), workspace::read(&path)?);
        }
    }
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let path = root.join(name);
        if path.is_file() {
            pages.insert(path.clone(), workspace::read(&path)?);
        }
    }
    let headings: BTreeMap<&PathBuf, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path, anchors(text))).collect();
    let mut problems = Vec::new();
    for (path, text) in &pages {
        for (number, link) in links(text) {
            let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if to.is_empty() { path.clone() } else { joined(path.parent().unwrap_or(root), to) };
            let is_missing = match headings.get(&target) {
                Some(headings) => !anchor.is_empty() && !headings.contains(anchor),
                None => !target.exists(),
            };
            if is_missing {
                let file = workspace::shown(root, path);
                problems.push(format!("{file}:{number}: the link `{link}` leads nowhere"));
            }
        }
    }
    Ok(problems)
}

/// The lines outside of blocks of code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// The links of a page to other files of ours, and within it.
pub(crate) fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text)
        .flat_map(|(number, line)| {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            targets.map(move |(target, _)| (number, target))
        })
        .filter(|(_, link)| !link.contains(':') && !link.contains(' '))
}

/// The anchors of a page's headings, in the format of code hosts.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
    });
    headings
        .map(|heading| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

pub(crate) fn joined(folder: &Path, to: &str) -> PathBuf {
    let mut path = folder.to_owned();
    for part in Path::new(to).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_link_leads_somewhere() {
        let problems = find_problems(workspace::root()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn headings_become_anchors() {
        let text = "# What a *reply* may hold\n```\n# none\n```\n### `[models.base]`, `--set` and more\n";
        let expected = ["what-a-reply-may-hold", "modelsbase---set-and-more"];
        assert_eq!(anchors(text), expected.map(str::to_owned).into());
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md#c) and [d](https://e.f)\n```\n[g](h.md)\n```\n[i](#j)\n";
        assert_eq!(links(text).collect::<Vec<_>>(), [(1, "b.md#c"), (5, "#j")]);
        assert_eq!(joined(Path::new("/a/b"), "../c/d.md"), Path::new("/a/c/d.md"));
    }
}
