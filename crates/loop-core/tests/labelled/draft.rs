//! What runs of the set are made with: chance from a seed, a run that grows call by call, and small worlds of names.

use std::collections::BTreeMap;

use loop_core::types::{Digest, Status, canonical};
use serde_json::{Value, json};

use super::score::Step;

/// Chance that is the same each time (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    /// Chance for one run, by its id.
    pub(crate) fn of(id: &str) -> Self {
        let Digest(hash) = Digest::of("labelled", id.as_bytes());
        Self(hash.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both possible.
    pub(crate) fn number(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn times(&mut self, low: u64, high: u64) -> usize {
        usize::try_from(self.number(low, high)).unwrap()
    }

    pub(crate) fn select<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.next() as usize % of.len()]
    }

    /// `n` different ones, in a random order.
    pub(crate) fn some<'a, T>(&mut self, of: &'a [T], n: usize) -> Vec<&'a T> {
        let mut all: Vec<&T> = of.iter().collect();
        for at in (1..all.len()).rev() {
            all.swap(at, self.next() as usize % (at + 1));
        }
        all.truncate(n);
        all
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}

/// A run that is being written.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) steps: Vec<Step>,
    pub(crate) effects: BTreeMap<String, &'static str>,
    pub(crate) loop_from: Option<usize>,
    turn: u64,
    serial: u64,
}

impl Draft {
    fn call(&mut self, tool: &str, arguments: Value, reported: impl ToText, failed: bool) {
        let result = reported.to_text();
        // As some providers write them: JSON in a text.
        let arguments = match arguments {
            Value::String(text) => serde_json::from_str(&text).unwrap(),
            arguments => arguments,
        };
        let may_have_run = failed && self.effects.get(tool) == Some(&"exec");
        let (status, result) = match status(tool, &arguments, &result, failed) {
            // A program may have changed something before it failed.
            None if may_have_run => (Some(Status::Ok), format!("failed: {result}")),
            status => (status, result),
        };
        let (turn, tool) = (self.turn, tool.to_owned());
        self.steps.push(Step { turn, tool, arguments, result, is_error: failed, status });
    }

    fn with(&mut self, tool: &str, effect: &'static str) {
        let known = self.effects.insert(tool.to_owned(), effect);
        assert!(known.is_none_or(|known| known == effect), "{tool} is both {known:?} and {effect}");
    }

    pub(crate) fn read(&mut self, tool: &str, arguments: Value, reported: impl ToText) {
        self.with(tool, "read");
        self.call(tool, arguments, reported, false);
    }

    pub(crate) fn read_fails(&mut self, tool: &str, arguments: Value, reported: impl ToText) {
        self.with(tool, "read");
        self.call(tool, arguments, reported, true);
    }

    pub(crate) fn write(&mut self, tool: &str, arguments: Value, reported: impl ToText) {
        self.with(tool, "write");
        self.call(tool, arguments, reported, false);
    }

    pub(crate) fn write_fails(&mut self, tool: &str, arguments: Value, reported: impl ToText) {
        self.with(tool, "write");
        self.call(tool, arguments, reported, true);
    }

    pub(crate) fn exec(&mut self, tool: &str, arguments: Value, reported: impl ToText) {
        self.with(tool, "exec");
        self.call(tool, arguments, reported, false);
    }

    /// A shell command. What only looks is another tool, since effects are those of tools.
    pub(crate) fn shell(&mut self, command: &str, reported: &str) {
        self.command(command, reported, false);
    }

    pub(crate) fn shell_fails(&mut self, command: &str, reported: &str) {
        self.command(command, reported, true);
    }

    fn command(&mut self, command: &str, reported: &str, failed: bool) {
        let only_looks = LOOKS.iter().any(|first| command.starts_with(first));
        let (tool, effect) = if only_looks { ("look", "read") } else { ("bash", "exec") };
        self.with(tool, effect);
        self.call(tool, json!({ "command": command }), reported, failed);
    }

    /// The next call is the first that should be refused.
    pub(crate) fn loops(&mut self) {
        assert!(self.loop_from.is_none());
        self.loop_from = Some(self.steps.len());
    }

    /// The user says something.
    pub(crate) fn turn(&mut self) {
        self.turn += 1;
    }

    /// A number that the run has not seen.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

/// How the shell commands begin that only look.
const LOOKS: &[&str] = &["cat ", "git status", "grep ", "head ", "ls ", "sed -n ", "tail ", "wc "];

/// What a result says that is not ready (its `status` or `state`).
const WAITS: &[&str] = &["pending", "queued", "running", "processing", "in_progress", "not_ready"];

/// What a failure says that may pass.
const MAY_PASS: &[&str] = &[
    "timed out",
    "timeout",
    "too many requests",
    "overloaded",
    "unavailable",
    "connection reset",
    "connection lost",
    "connection refused",
    "rate limit",
    "try again later",
    "429",
    "502",
    "503",
    "504",
];

/// How a call ended. `None`: a success, or a failure of unknown kind.
fn status(tool: &str, arguments: &Value, result: &str, failed: bool) -> Option<Status> {
    let lower = result.to_lowercase();
    if failed {
        return MAY_PASS.iter().any(|words| lower.contains(words)).then_some(Status::RetryableError);
    }
    let is_small = |members: &serde_json::Map<String, Value>| {
        members.len() <= 6 && members.values().all(|value| !value.is_array() && !value.is_object())
    };
    let waits = serde_json::from_str::<Value>(result).is_ok_and(|value| {
        let word = |key: &str| value[key].as_str().is_some_and(|word| WAITS.contains(&word));
        value.as_object().is_some_and(is_small) && (word("status") || word("state"))
    });
    let sleeps = tool.split('_').any(|word| word == "wait" || word == "sleep")
        || arguments["command"].as_str().is_some_and(|command| command.contains("sleep "));
    (waits || sleeps).then_some(Status::Pending)
}

/// A result as a tool writes it.
pub(crate) trait ToText {
    fn to_text(self) -> String;
}

impl ToText for Value {
    fn to_text(self) -> String {
        canonical(&self)
    }
}

impl ToText for &str {
    fn to_text(self) -> String {
        self.to_owned()
    }
}

impl ToText for &String {
    fn to_text(self) -> String {
        self.clone()
    }
}

impl ToText for String {
    fn to_text(self) -> String {
        self
    }
}

/// A small world: what its tools are called.
pub(crate) struct World {
    pub(crate) noun: &'static str,
    pub(crate) get: &'static str,
    pub(crate) list: &'static str,
    pub(crate) search: &'static str,
    pub(crate) update: &'static str,
    pub(crate) delete: &'static str,
    pub(crate) id: &'static str,
    pub(crate) prefix: &'static str,
    pub(crate) field: &'static str,
    pub(crate) values: [&'static str; 4],
}

impl World {
    /// The name of one of its things.
    pub(crate) fn thing(&self, n: u64) -> String {
        format!("{}{}", self.prefix, 1000 + n * 37)
    }

    /// The arguments that name a thing.
    pub(crate) fn name(&self, n: u64) -> Value {
        json!({ self.id: self.thing(n) })
    }

    /// What reading a thing tells.
    pub(crate) fn record(&self, n: u64, value: &str) -> Value {
        json!({ self.id: self.thing(n), self.field: value, "revision": n % 7 })
    }
}

pub(crate) const WORLDS: &[World] = &[
    World {
        noun: "order",
        get: "get_order_details",
        list: "list_orders",
        search: "search_orders",
        update: "update_order",
        delete: "cancel_order",
        id: "order_id",
        prefix: "#O",
        field: "state_of_order",
        values: ["packed", "shipped", "delivered", "returned"],
    },
    World {
        noun: "ticket",
        get: "tickets.get",
        list: "tickets.list",
        search: "tickets.search",
        update: "tickets.update",
        delete: "tickets.delete",
        id: "id",
        prefix: "T-",
        field: "priority",
        values: ["low", "normal", "high", "urgent"],
    },
    World {
        noun: "contact",
        get: "crm__get_contact",
        list: "crm__list_contacts",
        search: "crm__search_contacts",
        update: "crm__update_contact",
        delete: "crm__delete_contact",
        id: "contact",
        prefix: "cn_",
        field: "segment",
        values: ["lead", "customer", "partner", "former"],
    },
    World {
        noun: "invoice",
        get: "getInvoice",
        list: "listInvoices",
        search: "findInvoices",
        update: "setInvoiceState",
        delete: "removeInvoice",
        id: "number",
        prefix: "INV-",
        field: "paid",
        values: ["no", "partly", "yes", "written off"],
    },
    World {
        noun: "event",
        get: "calendar_read_event",
        list: "calendar_list_events",
        search: "calendar_search_events",
        update: "calendar_move_event",
        delete: "calendar_delete_event",
        id: "event",
        prefix: "ev",
        field: "room",
        values: ["Oak", "Elm", "Birch", "Maple"],
    },
    World {
        noun: "server",
        get: "describe_server",
        list: "list_servers",
        search: "query_servers",
        update: "configure_server",
        delete: "terminate_server",
        id: "host",
        prefix: "srv-",
        field: "image",
        values: ["jammy", "noble", "bookworm", "trixie"],
    },
    World {
        noun: "book",
        get: "fetch_book",
        list: "browse_books",
        search: "search_catalogue",
        update: "edit_book",
        delete: "withdraw_book",
        id: "shelfmark",
        prefix: "QA",
        field: "shelf",
        values: ["north", "south", "stacks", "reading room"],
    },
    World {
        noun: "reservation",
        get: "get_reservation_details",
        list: "list_reservations",
        search: "search_reservations",
        update: "update_reservation",
        delete: "cancel_reservation",
        id: "reservation_id",
        prefix: "R",
        field: "cabin",
        values: ["basic", "economy", "business", "first"],
    },
    World {
        noun: "page",
        get: "wiki-view-page",
        list: "wiki-list-pages",
        search: "wiki-search",
        update: "wiki-edit-page",
        delete: "wiki-delete-page",
        id: "title",
        prefix: "Page ",
        field: "owner",
        values: ["ops", "sales", "legal", "design"],
    },
];

pub(crate) const FILES: &[&str] = &[
    "src/main.rs",
    "src/lib.rs",
    "src/config.rs",
    "app/models/user.py",
    "app/views.py",
    "tests/test_api.py",
    "web/index.html",
    "web/styles.css",
    "docs/intro.md",
    "Makefile",
    "deploy/values.yaml",
    "scripts/release.sh",
];

pub(crate) const FAILURES: &[&str] = &[
    "Error: no such record",
    "Error: permission denied",
    "ValueError: amount must be positive",
    "{\"error\":\"unknown field\"}",
    "Error: file not found",
    "Error: the account is closed",
];

/// Failures that may pass.
pub(crate) const PASSING: &[&str] = &[
    "503 Service Unavailable",
    "Error: request timed out after 10 s",
    "429 Too Many Requests",
    "{\"error\":\"temporarily unavailable, try again later\"}",
    "Error: connection reset by peer",
    "502 Bad Gateway",
    "Error: the model is overloaded",
];

/// Subjects of searches: words of which no two sets are the same.
pub(crate) const SUBJECTS: &[&[&str]] = &[
    &["refund", "damaged", "parcel"],
    &["password", "reset", "locked", "account"],
    &["vpn", "certificate", "expired"],
    &["holiday", "carry", "over", "rule"],
    &["printer", "paper", "jam", "tray"],
    &["export", "customer", "csv"],
    &["gluten", "menu", "supplier"],
    &["night", "shift", "allowance"],
    &["backup", "restore", "database"],
    &["warranty", "battery", "laptop"],
    &["visa", "invitation", "letter"],
    &["invoice", "dispute", "deadline"],
];

/// Reads that have nothing to do with the rest, each with a result of its own.
pub(crate) fn aside(rng: &mut Rng, draft: &mut Draft, times: usize) {
    for _ in 0..times {
        let n = 500 + draft.fresh();
        let world = rng.select(WORLDS);
        draft.read(world.get, world.name(n), world.record(n, rng.select::<&str>(&world.values)));
    }
}
