//! `cargo xtask site`: the documentation as a site with a search, and `llms.txt`, in `target/site`.
//!
//! `docs/SUMMARY.md` lists the pages. They are laid out in the folders that they have in the repository, with the files
//! that they link to, so each link works as it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use xshell::{Shell, cmd};

use crate::browser;
use crate::fetching::fetch;
use crate::links::{joined, links};
use crate::workspace::{self, Failure};

/// The version of mdBook that builds the site.
const MDBOOK: &str = "0.5.4";
const TOOLS: &str = "target/tools";
/// The table of contents.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";
/// The settings of mdBook, and styles.
const SETTINGS: &str = "docs/site";
/// Where the pages are laid out.
const SOURCE: &str = "target/site-source";
const SITE: &str = "target/site";

/// Builds the site with mdBook and checks it: each link, and in a browser a share of the pages, or `all`.
pub(crate) fn run(mdbook: &Path, all: bool) -> Result<(), Failure> {
    let start = Instant::now();
    let root = workspace::root();
    workspace::report("site", &find_problems(root)?)?;
    let shell = Shell::new()?;
    shell.change_dir(root);
    let pages = listed(&shell, root)?;
    lay_out(&shell, root, &pages)?;
    cmd!(shell, "{mdbook} build {SOURCE}").env("RUST_LOG", "warn").run()?;
    let source = root.join(SOURCE).join("src");
    for file in workspace::files_below(&source, "md")? {
        let built = Path::new(SITE).join(workspace::shown(&source, &file));
        shell.copy_file(&file, &built)?;
        // The page of a folder.
        if built.ends_with("README.md") {
            shell.copy_file(built.with_extension("html"), built.with_file_name("index.html"))?;
        }
    }
    shell.write_file(format!("{SITE}/llms.txt"), index(&pages))?;
    shell.write_file(
        format!("{SITE}/llms-full.txt"),
        pages.iter().map(Page::with_source).collect::<String>(),
    )?;
    workspace::report("site", &dead_links(&root.join(SITE))?)?;
    println!("site: {} pages in {SITE}, {:.1} s", pages.len(), start.elapsed().as_secs_f64());
    browser::look_at_site(&root.join(SITE), all)
}

/// Installs mdBook, unless it is there, and returns its path. It is not optimised: it is installed in a third of the time,
/// and builds the site in seconds all the same.
pub(crate) fn installed() -> Result<PathBuf, Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let mdbook = workspace::root().join(TOOLS).join("bin/mdbook");
    let version = cmd!(shell, "{mdbook} --version").quiet().ignore_stderr().read();
    if version.ok() != Some(format!("mdbook v{MDBOOK}")) {
        let features = ["--no-default-features", "--features", "search"];
        let how = ["--locked", "--debug", "--quiet", "--force", "--root", TOOLS];
        let install = cmd!(shell, "cargo install mdbook --version {MDBOOK} {features...} {how...}");
        fetch(&install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    Ok(mdbook)
}

/// A page of the site.
struct Page {
    /// The part of the table of contents.
    part: String,
    title: String,
    /// From the root of the repository, and of the site.
    file: PathBuf,
    text: String,
}

impl Page {
    /// What the page is for: its first sentence, or its title where a heading follows.
    fn purpose(&self) -> String {
        let mut blocks = self.text.split("\n\n").map(str::trim);
        let title = blocks.next().unwrap_or_default().trim_start_matches(['#', ' ']);
        let first = blocks.find(|text| !text.starts_with('!')).filter(|text| !text.starts_with('#'));
        let Some(first) = first else { return title.to_owned() };
        let line = format!("{} ", first.replace('\n', " ").replace("**", ""));
        let sentence = line.find(". ").map_or(&*line, |end| &line[..=end]).trim();
        let mut plain = String::new();
        let mut rest = sentence;
        while let Some((before, after)) = rest.split_once("](") {
            let (text, link) = before.rsplit_once('[').unwrap_or((before, ""));
            plain = plain + text + link;
            rest = after.split_once(')').map_or("", |(_, rest)| rest);
        }
        plain + rest
    }

    fn with_source(&self) -> String {
        format!("<!-- {} -->\n\n{}\n", self.file.display(), self.text)
    }
}

/// The pages in the order of the table of contents.
fn listed(shell: &Shell, root: &Path) -> Result<Vec<Page>, Failure> {
    let (mut pages, mut part) = (Vec::new(), String::new());
    let summary = workspace::read(&root.join(SUMMARY))?;
    for line in summary.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut part);
        }
        for (_, link) in links(line) {
            let title = line.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
            let file = page_file(root, link);
            let page = root.join(&file);
            let is_made = root.join("docs").join(link).is_dir() && !page.exists();
            let text = if is_made { listing(shell, &summary, &page)? } else { workspace::read(&page)? };
            pages.push(Page { part: part.clone(), title, file, text });
        }
    }
    Ok(pages)
}

/// The file to which a link of the table of contents leads: a folder becomes a page.
fn page_file(root: &Path, link: &str) -> PathBuf {
    let path = joined(Path::new("docs"), link);
    if root.join(&path).is_dir() { path.join("README.md") } else { path }
}

/// The text of a page that lists the files of its folder. Markdown files that are not pages are linked as text.
fn listing(shell: &Shell, summary: &str, page: &Path) -> Result<String, Failure> {
    let folder = page.parent().unwrap_or(page);
    let shown = workspace::shown(workspace::root(), folder);
    let mut text = format!("# {shown}\n\nThis page lists the files of the folder `{shown}`.\n\n");
    for file in shell.read_dir(folder)? {
        let name = workspace::shown(folder, &file);
        let is_text = name.ends_with(".md") && !summary.contains(&format!("/{name})"));
        let link = if is_text { name.replace(".md", ".txt") } else { name.clone() };
        text += &format!("- [{name}]({link})\n");
    }
    Ok(text)
}

/// Pages of `docs` that the table of contents does not list, or lists twice. `links` finds entries without a page.
pub(crate) fn find_problems(root: &Path) -> Result<Vec<String>, Failure> {
    let summary = workspace::read(&root.join(SUMMARY))?;
    let listed: Vec<PathBuf> = links(&summary).map(|(_, link)| page_file(root, link)).collect();
    let mut problems = Vec::new();
    for file in workspace::files_below(&root.join("docs"), "md")? {
        let file = workspace::shown(root, &file);
        match listed.iter().filter(|it| **it == Path::new(&file)).count() {
            0 if file != SUMMARY => problems.push(format!("{file}: {SUMMARY} does not list it")),
            0 | 1 => {}
            _ => problems.push(format!("{file}: {SUMMARY} lists it more than once")),
        }
    }
    Ok(problems)
}

/// Writes the pages, and the files that they link to, into the folder from which mdBook builds.
fn lay_out(shell: &Shell, root: &Path, pages: &[Page]) -> Result<(), Failure> {
    shell.remove_path(SOURCE)?;
    shell.create_dir(SOURCE)?;
    for file in shell.read_dir(SETTINGS)? {
        shell.copy_file(file, SOURCE)?;
    }
    let source = Path::new(SOURCE).join("src");
    for page in pages {
        shell.write_file(source.join(&page.file), &page.text)?;
        for (_, link) in links(&page.text) {
            let to = link.split('#').next().unwrap_or_default();
            let target = joined(page.file.parent().unwrap_or(root), to);
            let is_there = root.join(&target).exists();
            let file = if is_there { target.clone() } else { target.with_extension("md") };
            if root.join(&file).is_file() && !to.ends_with(".md") {
                shell.write_file(source.join(&target), shell.read_binary_file(&file)?)?;
            }
        }
    }
    let summary = workspace::read(&root.join(SUMMARY))?;
    let lines = summary.lines().map(|line| match links(line).next() {
        Some((_, link)) => line.replace(link, &page_file(root, link).display().to_string()),
        None => line.to_owned(),
    });
    shell.write_file(source.join("SUMMARY.md"), lines.collect::<Vec<_>>().join("\n"))?;
    Ok(())
}

/// What `llms.txt` says: <https://llmstxt.org> describes its form.
fn index(pages: &[Page]) -> String {
    let mut text = String::new();
    let mut part = "";
    for page in pages {
        if text.is_empty() {
            text = format!("# {}\n\n> {}\n", page.title, page.purpose());
        }
        if page.part != part {
            part = &page.part;
            text += &format!("\n## {part}\n\n");
        }
        text += &format!("- [{}]({}): {}\n", page.title, page.file.display(), page.purpose());
    }
    text
}

/// Links of the built site to a file or an anchor that is not there.
fn dead_links(site: &Path) -> Result<Vec<String>, Failure> {
    let mut pages = BTreeMap::new();
    for path in workspace::files_below(site, "html")? {
        let text = workspace::read(&path)?;
        pages.insert(path, text);
    }
    let anchors = |text| attributes(text, "id").collect::<BTreeSet<&str>>();
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path, anchors(text))).collect();
    let mut problems = Vec::new();
    for (path, text) in &pages {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
            let mut target =
                if to.is_empty() { path.clone() } else { joined(path.parent().unwrap_or(site), to) };
            if target.is_dir() {
                target.push("index.html");
            }
            let is_dead = match anchors.get(&target) {
                Some(anchors) => !anchor.is_empty() && !anchors.contains(anchor),
                None => !target.is_file(),
            };
            if is_dead && !to.contains(':') {
                let page = workspace::shown(site, path);
                problems
                    .push(format!("{page}: the link `{link}` leads nowhere; does {SUMMARY} list the page?"));
            }
        }
    }
    Ok(problems)
}

/// The values of an attribute in a page.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let tags = html.split('<').filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag);
    tags.filter_map(move |tag| tag.split_once(&*start)?.1.split_once('"')).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_page_is_listed_once() {
        let problems = find_problems(workspace::root()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn the_index_has_the_first_sentence_of_each_page() {
        let page = |part: &str, text: &str| Page {
            part: part.to_owned(),
            title: "T".to_owned(),
            file: PathBuf::from("docs/t.md"),
            text: text.to_owned(),
        };
        let pages = [
            page("Start", "# T\n\n![a](b.svg)\n\nReads **all** of\n[a page](p.md#x), e.g.that. More.\n"),
            page("Start", "# 3. Decide\n\n## Forced by\n\nText. More.\n"),
            page("More", "# T\n\n`[a]` is short\n"),
        ];
        let expected = "# T\n\n> Reads all of a page, e.g.that.\n\n## Start\n\n- [T](docs/t.md): Reads all of a page, e.g.that.\n\
                        - [T](docs/t.md): 3. Decide\n\n## More\n\n- [T](docs/t.md): `[a]` is short\n";
        assert_eq!(index(&pages), expected);
    }

    #[test]
    fn links_are_the_attributes_of_tags() {
        let html = "<a class=\"x\" href=\"b.html#c\">href=\"no\"</a><a href=\"\">d</a><img src=\"e.png\">";
        assert_eq!(attributes(html, "href").collect::<Vec<_>>(), ["b.html#c", ""]);
        assert_eq!(attributes(html, "src").collect::<Vec<_>>(), ["e.png"]);
    }
}
