//! The work items of a batch. Items with the same content are one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use loop_core::WorkItem;
use loop_core::types::Digest;
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::save::SaveTarget;
use loop_tools::files;

use crate::context::places;
use crate::output::{Failure, one_line, stream};
use crate::start::run_args::{RunArgs, is_lines};

/// The most faulty items that are named, one line each.
const MAX_FAULTS: usize = 10;

/// The most bytes of a file with one item a line.
const MAX_LINES_BYTES: u64 = 1 << 30;

/// A work item, which may be given several times.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) item: WorkItem,
    /// The digest of the domain and of the item's content, from which its keys are derived.
    pub(super) digest: Digest,
    /// Where it is from. A path that is given several times occurs as often.
    pub(super) origins: Vec<String>,
}

impl Item {
    /// The key of the item's run number `nth`.
    pub(super) fn key(&self, nth: u32) -> Arc<str> {
        format!("item {} {nth}", self.digest).into()
    }
}

/// Reads all items. Items with the same content are one.
pub(super) fn read(args: &RunArgs, domain: &Domain, runner: &Runner) -> Result<Vec<Item>, Failure> {
    let of_domain = domain_digest(domain, runner);
    let (mut items, mut by_digest) = (Vec::<Item>::new(), BTreeMap::new());
    let mut faults = Vec::new();
    for read in args.items.iter().flat_map(|path| read_path(domain, path)) {
        let (origin, item) = match read {
            Ok(read) => read,
            Err(failure) => {
                faults.push(failure);
                continue;
            }
        };
        let digest = digest(of_domain, &item)?;
        let at = *by_digest.entry(digest).or_insert(items.len());
        match items.get_mut(at) {
            Some(same) => same.origins.push(origin),
            None => {
                let item = args.request.on(item)?;
                items.push(Item { item, digest, origins: vec![origin] });
            }
        }
    }
    match faults.split_last() {
        None if items.is_empty() => {
            Err(Failure::new("no work item is given; name files, or a .jsonl file with items"))
        }
        None => Ok(items),
        Some((last, before)) => {
            for fault in before.iter().take(MAX_FAULTS) {
                stream::note(format!("loopgate: {}", fault.line()));
            }
            let more = before.len().saturating_sub(MAX_FAULTS);
            let more = if more > 0 { format!(" ({more} other faults are not shown)") } else { String::new() };
            Err(Failure::new(format!("{}{more}; nothing was started", last.line())))
        }
    }
}

fn read_path(domain: &Domain, path: &Path) -> Vec<Result<(String, WorkItem), Failure>> {
    let origin = path.display().to_string();
    if !is_lines(path) {
        return vec![places::item(domain, path).map(|item| (origin, item))];
    }
    let bytes = match places::beginning(path, MAX_LINES_BYTES + 1) {
        Ok(bytes) if bytes.len() as u64 > MAX_LINES_BYTES => {
            return vec![Err(Failure::new(format!("{origin}: more than 1 GiB; split it")))];
        }
        Ok(bytes) => bytes,
        Err(error) => return vec![Err(Failure::new(format!("{origin}: {error}; give a JSON Lines file")))],
    };
    let text = String::from_utf8(bytes).map_err(|error| files::no_text(&error));
    let text = match text {
        Ok(text) => text,
        Err(error) => return vec![Err(Failure::new(format!("{origin}: {error}; give a JSON Lines file")))],
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(nth, line)| read_line(domain, path, nth + 1, line)).collect()
}

/// Reads an item from a line. Without an id, it gets one from the file and the line.
fn read_line(domain: &Domain, path: &Path, nth: usize, line: &str) -> Result<(String, WorkItem), Failure> {
    let origin = format!("{}:{nth}", path.display());
    if !line.trim_start().starts_with('{') {
        return Err(Failure::new(format!("{origin}: not a JSON object; give one item a line")));
    }
    // The id of an item without one is the file's name before its last dot.
    let named = format!("{}:{nth}", path.with_extension("").display()).replace('.', "_");
    let item = domain.item(line, &named).map_err(|error| match domain.item(line, &origin) {
        Err(error) => Failure::from(error),
        Ok(_) => Failure::from(error),
    })?;
    Ok((origin, item))
}

/// Fails if the outcomes of two items would be saved to the same file.
pub(super) fn expect_own_files(items: &[Item], target: &SaveTarget) -> Result<(), Failure> {
    let SaveTarget::File(file) = target else { return Ok(()) };
    let name = file.to_string_lossy();
    // A file without either is one for all runs, and was written so.
    if name.contains("{run}") || !name.contains("{item}") {
        return Ok(());
    }
    let mut by_id = BTreeMap::new();
    for item in items {
        let origin = item.origins.first().map(String::as_str).unwrap_or_default();
        if let Some(other) = by_id.insert(&*item.item.id, origin) {
            let id = one_line(&item.item.id);
            return Err(Failure::new(format!(
                "{other} and {origin}: two items with the id `{id}`, and save.file ({name}) has one file for both; give them ids of their own, or write {{run}} in save.file; nothing was started"
            )));
        }
    }
    Ok(())
}

/// A digest of everything besides the item that a run's result depends on: settings, prompts, tools, and whether it is
/// saved.
fn domain_digest(domain: &Domain, runner: &Runner) -> Digest {
    let parts = [runner.spec().hash(), domain.prompts.hash(), domain.registry.manifest_hash()];
    Digest::of("batch domain", parts.map(|part| part.to_string()).join(" ").as_bytes())
}

/// The digest of an item, without its caller and trace.
fn digest(of_domain: Digest, item: &WorkItem) -> Result<Digest, Failure> {
    let plain = WorkItem { caller: None, trace: None, traceparent: None, ..item.clone() };
    let text = format!("{of_domain} {}", serde_json::to_string(&plain)?);
    Ok(Digest::of("batch item", text.as_bytes()))
}

/// The id of a batch, from its domain and its items in any order.
pub(super) fn batch_id(items: &[Item]) -> Arc<str> {
    let mut digests: Vec<String> = items.iter().map(|item| item.digest.to_string()).collect();
    digests.sort_unstable();
    let id = Digest::of("batch", digests.join(" ").as_bytes()).to_string();
    id.chars().take(32).collect::<String>().into()
}
