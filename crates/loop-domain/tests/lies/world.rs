//! The domains that are lied to: the help desk, whose runs write a document, and the people register, whose runs are
//! conversations or end with an output. Each has a tool that writes, and none may use it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loop_core::spec::{CostMode, Limits};
use loop_core::types::{PicoUsd, Price};
use loop_core::{Outcome, RunSpec, WorkItem};
use loop_domain::{Domain, LoadOptions};
use loop_llm::codec::Api;
use loop_mock::{Lie, LoopbackServer, ReceivedRequest, Service};
use loop_runtime::{
    journal::{Entry, Journal, MemoryJournal},
    models::Offline,
    report::{Report, explain},
    run::DriveResult,
};
use tempfile::TempDir;

/// What the models cost.
pub(super) fn price() -> Price {
    Price::flat(1_000_000, 4_000_000)
}

/// How long one run may take before it counts as one that does not end.
const LONGEST: Duration = Duration::from_secs(620);

/// A domain in a folder of its own.
pub(super) struct World {
    pub(super) name: &'static str,
    folder: TempDir,
    item: &'static str,
    /// The tiers that have a model.
    tiers: &'static [&'static str],
}

/// What a run showed.
pub(super) struct Shown {
    /// The name of the behaviour.
    pub(super) lie: &'static str,
    pub(super) outcome: Outcome,
    pub(super) spec: Arc<RunSpec>,
    pub(super) requests: Vec<ReceivedRequest>,
    /// What the journal holds.
    pub(super) entries: Vec<Entry>,
    /// How many answers were lies.
    pub(super) lied: usize,
    /// The outcome as JSON, and the certificate in words.
    pub(super) report: String,
    pub(super) words: String,
    /// Whether the run waits for a person.
    pub(super) waits: bool,
}

/// A tool of the desk that writes, which nobody approved.
const CLOSE: &str = r#"
[tools.close_ticket]
kind = "sql"
source = "helpdesk"
effect = "write_irreversible"
description = "Close a ticket for good"
when = "The work is done"
query = "UPDATE tickets SET status = 'closed' WHERE id = :ticket AND account_id = :scope_account"

[tools.close_ticket.parameters.ticket]
type = "string"
description = "The number of the ticket"
required = true
min_length = 1
"#;

/// What the register's runs end with, where they end with an output.
const RECORD: &str = r#"
[output]
name = "save_people"
description = "Save whom the request names, once all of them were looked up"

[output.schema]
type = "object"
required = ["people"]
additionalProperties = false

[output.schema.properties.people]
type = "array"
maxItems = 50

[output.schema.properties.people.items]
type = "object"
required = ["name", "company"]

[output.schema.properties.people.items.properties]
name = { type = "string", minLength = 1 }
company = { type = "string" }
"#;

impl World {
    pub(super) fn desk() -> Self {
        let item = include_str!("../../../../examples/helpdesk/tickets/T-1042.json");
        let world = Self::copy("desk", "helpdesk", item);
        let file = world.folder.path().join("loopgate.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let text =
            text.replace("made_from = \"helpdesk.sql\"", "made_from = \"helpdesk.sql\"\nwritable = true");
        let text =
            text.replacen("[tools.fetch_device_info]", &format!("{CLOSE}\n[tools.fetch_device_info]"), 1);
        std::fs::write(&file, text).unwrap();
        world.warmed()
    }

    pub(super) fn crm() -> Self {
        Self::copy("crm", "crm", "search_user Alice, get_user_by_id 42, and say who they work for.").warmed()
    }

    pub(super) fn record() -> Self {
        let world =
            Self::copy("record", "crm", "search_user Alice, get_user_by_id 42, and save who they work for.");
        let file = world.folder.path().join("loopgate.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let ends = text.replacen("type = \"conversation\"", "type = \"output\"", 1);
        assert_ne!(ends, text);
        std::fs::write(&file, ends.replacen("\n[sources.crm]", &format!("{RECORD}\n[sources.crm]"), 1))
            .unwrap();
        world.warmed()
    }

    fn copy(name: &'static str, example: &str, item: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
        copy(&from, folder.path());
        let tiers: &[&str] = if name == "desk" { &["base", "selector"] } else { &["base"] };
        Self { name, folder, item, tiers }
    }

    /// The same once its database is made, which all runs share.
    fn warmed(self) -> Self {
        Domain::load(self.folder.path(), &LoadOptions::default()).unwrap();
        self
    }

    fn load(&self, lie: &Lie, api: Api, mode: CostMode, url: &str) -> Domain {
        let mut set: Vec<(String, String)> = Vec::new();
        let mut put = |key: &str, value: &str| set.push((key.to_owned(), value.to_owned()));
        put("limits.cost_usd", "0.10");
        put("limits.cost_mode", mode.name());
        put("limits.output_tokens", "2048");
        // A machine with other work takes minutes for a reply that comes byte by byte.
        put("limits.wall_ms", "1200000");
        if self.name == "desk" {
            put("limits.selector_ms", "500000");
        }
        for tier in self.tiers {
            put(&format!("models.{tier}.provider"), api.name());
            put(&format!("models.{tier}.model"), "offline-1");
            put(&format!("models.{tier}.base_url"), url);
            put(&format!("models.{tier}.price.input_usd_per_million"), "1.0");
            put(&format!("models.{tier}.price.output_usd_per_million"), "4.0");
            put(&format!("models.{tier}.timeout_ms"), "400000");
        }
        // Values are checked where a lie is about them.
        if lie.name.starts_with("lies") {
            put("gate.grounding", "demand");
        }
        // What never ends is cut off in time: nothing else waits so short.
        if lie.name.starts_with("stalls") {
            put("models.base.timeout_ms", "600");
        }
        let options = LoadOptions { set, ..LoadOptions::default() };
        Domain::load(self.folder.path(), &options).unwrap()
    }

    fn item(&self, domain: &Domain) -> WorkItem {
        domain.item(self.item, "item").unwrap()
    }

    /// One run against a server that lies.
    pub(super) async fn run(&self, lie: &'static Lie, api: Api, mode: CostMode) -> Result<Shown, String> {
        let server = LoopbackServer::start(Service::of(Arc::new(Offline::new())).lying(lie)).unwrap();
        let domain = self.load(lie, api, mode, &server.base_url());
        let journal = Arc::new(MemoryJournal::new());
        let prepared = domain.unsaved_loop().leave_when_waiting().with_journal(Arc::clone(&journal) as _);
        let spec = Arc::clone(prepared.spec());
        let handle = prepared.run(self.item(&domain)).start().await.map_err(|error| error.to_string())?;
        let (id, started) = (handle.id().clone(), Arc::clone(handle.started()));
        let driven = tokio::time::timeout(LONGEST, handle.driven()).await;
        let (outcome, waits) = match driven.map_err(|_| "the run does not end".to_owned())? {
            DriveResult::Ended(outcome) => (outcome, false),
            DriveResult::Waiting(waiting) => (waiting.outcome, true),
        };
        // What the clients left is over on the server's side too.
        let begun = server.requests().len() as u64;
        let requests = server.ended(begun).await;
        let lied = requests.iter().filter(|request| request.lied).count();
        server.shutdown().await;
        let report =
            serde_json::to_string(&Report::new(&started, &outcome)).map_err(|error| error.to_string())?;
        let words = explain(&outcome.stop);
        let entries = journal.read(&id).await.map_err(|error| error.to_string())?.entries;
        Ok(Shown { entries, lie: lie.name, outcome, spec, requests, lied, report, words, waits })
    }
}

impl Shown {
    pub(super) fn limits(&self) -> &Limits {
        &self.spec.limits
    }

    /// What the dearest reply truly cost that the server has generated.
    pub(super) fn dearest(&self) -> PicoUsd {
        let usages = self.requests.iter().filter_map(|request| request.usage.as_ref());
        usages.map(|usage| price().of(usage)).max().unwrap_or_default()
    }

    /// What the replies truly cost that the server has generated.
    pub(super) fn truth(&self) -> PicoUsd {
        let usages = self.requests.iter().filter_map(|request| request.usage.as_ref());
        usages.fold(PicoUsd(0), |sum, usage| sum.plus(price().of(usage)))
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == ".loopgate" || name == "saved" {
            continue;
        }
        let target = to.join(&name);
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
