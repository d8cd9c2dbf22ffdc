//! The table of routes, from which both the router and the OpenAPI document are made.

use axum::routing::{MethodRouter, delete, get, post, put};
use loop_runtime::report::Report;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::types::{
    AnswerRequest, ApproveRequest, DenyRequest, DocumentView, DomainList, ForkRequest, HealthView,
    InstructRequest, LabelRequest, OutboxList, PendingList, RetryRequest, StopRequest, SubmitRequest,
};
use super::{Api, events, look, people, runs, system};
use crate::doors::AuditPage;
use crate::engine::{RunPage, RunState, RunView};

/// A row of the table.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Its operation id, for generated clients.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<SchemaOf>,
    pub(super) answers: Vec<Answer>,
    /// The problems that it can return, besides those of every route.
    pub(super) problems: &'static [u16],
    pub(super) handler: fn() -> MethodRouter<Api>,
}

pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A parameter of a path, a query or a header.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) within: &'static str,
    pub(super) describe: &'static str,
    pub(super) schema: SchemaOf,
}

/// A successful response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) describe: &'static str,
    /// The media types of its content, with their schemas. Empty: no content.
    pub(super) content: Vec<(&'static str, SchemaOf)>,
}

/// Problems of every route with a caller: an invalid request, no caller, too many wrong tokens, and a server that is
/// shutting down or failing.
pub(super) const OF_CALLERS: [u16; 4] = [400, 401, 429, 503];

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn parameter(
    within: &'static str,
    name: &'static str,
    schema: SchemaOf,
    describe: &'static str,
) -> Parameter {
    Parameter { name, within, describe, schema }
}

/// The schema of a path segment that every HTTP program reads in the same way.
fn segment(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "string",
        "pattern": r"^[^.%/\\\u0000-\u001f\u007f][^%/\\\u0000-\u001f\u007f]*$",
    })
}

fn key(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]([ -~]*[!-~])?$",
    })
}

/// The schema of an unsigned number. `format` alone would allow negative ones.
fn number(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "integer", "format": "uint64", "minimum": 0, "maximum": u64::MAX })
}

/// The schema of a server-sent event.
fn event(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "pattern": "^[0-9]+$" },
            "event": { "type": "string" },
            "data": { "type": "string", "contentMediaType": "application/json" },
        },
        "required": ["event", "data"],
    })
}

fn up_to<const MAX: u64>(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": MAX })
}

fn run_id() -> Parameter {
    parameter("path", "run", segment, "The run's id.")
}

fn prefer() -> Parameter {
    parameter(
        "header",
        "Prefer",
        schema::<String>,
        "`wait=30`: the answer waits up to so many seconds, at most 60, until the run has ended or waits for a person.",
    )
}

fn answer<T: JsonSchema>(status: u16, describe: &'static str) -> Answer {
    Answer { status, describe, content: vec![("application/json", schema::<T>)] }
}

fn media(kind: &'static str, schema: SchemaOf, describe: &'static str) -> Answer {
    Answer { status: 200, describe, content: vec![(kind, schema)] }
}

fn empty(status: u16, describe: &'static str) -> Answer {
    Answer { status, describe, content: Vec::new() }
}

/// A route that acts on a run.
fn said(path: &'static str, id: &'static str, handler: fn() -> MethodRouter<Api>) -> Route {
    let now = "It is journaled, or the driver of the run has it. The run as it is now.";
    route("POST", path, id, handler).takes(vec![run_id()]).answers(vec![answer::<RunView>(202, now)])
}

/// A route that begins a run from another one.
fn begun(path: &'static str, id: &'static str, handler: fn() -> MethodRouter<Api>) -> Route {
    route("POST", path, id, handler)
        .takes(vec![run_id(), idempotency_key(), prefer()])
        .answers(vec![
            answer::<RunView>(202, "The new run is accepted. Its address is in `Location`."),
            answer::<RunView>(200, "An earlier request with the key began the new run."),
        ])
        .fails(&[400, 404, 409, 413, 422, 429])
}

fn idempotency_key() -> Parameter {
    parameter(
        "header",
        "Idempotency-Key",
        key,
        "Two requests of a caller with one key are one request: the second returns the run of the first. At most 200 characters.",
    )
}

/// A route without parameters and without a response, to be completed.
fn route(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    handler: fn() -> MethodRouter<Api>,
) -> Route {
    let (parameters, answers) = (Vec::new(), Vec::new());
    Route { method, path, id, summary: "", parameters, body: None, answers, problems: &[], handler }
}

impl Route {
    fn says(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    fn takes(self, parameters: Vec<Parameter>) -> Self {
        Self { parameters, ..self }
    }

    fn reads(self, body: SchemaOf) -> Self {
        Self { body: Some(body), ..self }
    }

    fn answers(self, answers: Vec<Answer>) -> Self {
        Self { answers, ..self }
    }

    fn fails(self, problems: &'static [u16]) -> Self {
        Self { problems, ..self }
    }
}

/// Every route.
pub(super) fn routes() -> Vec<Route> {
    let query = |name, schema, describe| parameter("query", name, schema, describe);
    vec![
        route("POST", "/v1/runs", "submit_run", || post(runs::submit))
            .reads(schema::<SubmitRequest>)
            .says("Submit a work item. Accepted means journaled: its run begins, once, even if the server is killed")
            .takes(vec![
                idempotency_key(),
                parameter(
                    "header",
                    "traceparent",
                    schema::<String>,
                    "The span in which you submit, as the W3C says: the run is part of its trace. A header that is not one is ignored.",
                ),
                prefer(),
            ])
            .answers(vec![
                answer::<RunView>(202, "The run is accepted. Its address is in `Location`."),
                answer::<RunView>(200, "An earlier request with the key submitted the run."),
            ])
            .fails(&[400, 404, 413, 422, 429]),
        route("GET", "/v1/runs", "list_runs", || get(runs::list))
            .says("List the runs of the domains that you see, newest first")
            .takes(vec![
                query(
                    "domain",
                    schema::<String>,
                    "Only runs of this domain. One that is not there is refused.",
                ),
                query("state", schema::<RunState>, "Only runs in this state."),
                query(
                    "reason",
                    schema::<String>,
                    "Only runs with this stop reason, or with this class where it is not a reason, such as `in_doubt`. An unknown name is refused.",
                ),
                query(
                    "since",
                    number,
                    "Only runs that began at this time or later, in milliseconds since 1970 (UTC), for example 1795000000000.",
                ),
                query(
                    "until",
                    number,
                    "Only runs that began before this time, in milliseconds since 1970 (UTC).",
                ),
                query("tag", schema::<String>, "Only runs with this tag."),
                query("text", schema::<String>, "Only runs whose item's id or title has this text."),
                query(
                    "words",
                    schema::<String>,
                    "Only runs that have ended with these words in their document or evidence. Words in quotation marks are one phrase.",
                ),
                query("cursor", schema::<String>, "`next` of the page before."),
                query("limit", up_to::<200>, "How many runs, from 1 to 200. Default: 50."),
            ])
            .answers(vec![answer::<RunPage>(200, "A page of the list.")])
            .fails(&[404, 422]),
        route("GET", "/v1/runs/{run}", "get_run", || get(runs::one))
            .says("Look at a run: its state, why it stopped, what it cost")
            .takes(vec![
                run_id(),
                prefer(),
                parameter("header", "If-None-Match", schema::<String>, "The `ETag` of an earlier answer."),
            ])
            .answers(vec![answer::<RunView>(200, "The run."), empty(304, "It is as it was.")])
            .fails(&[404]),
        route("GET", "/v1/runs/{run}/document", "get_document", || get(look::document))
            .says("Read the document of a run, as far as it has come: Markdown, or JSON if `Accept` names it first")
            .takes(vec![run_id()])
            .answers(vec![Answer {
                status: 200,
                describe: "The document.",
                content: vec![
                    ("text/markdown", schema::<String>),
                    ("application/json", schema::<DocumentView>),
                ],
            }])
            .fails(&[404]),
        route("GET", "/v1/runs/{run}/outcome", "get_outcome", || get(look::outcome))
            .says("Read the outcome of a run that has ended: what `loopgate run --json` prints")
            .takes(vec![run_id()])
            .answers(vec![answer::<Report>(200, "The outcome.")])
            .fails(&[404, 409]),
        route("GET", "/v1/runs/{run}/events", "read_events", || get(events::events))
            .says("Read the events of a run as they happen (server-sent events), from the first or from the one after `Last-Event-ID`")
            .takes(vec![
                run_id(),
                parameter(
                    "header",
                    "Last-Event-ID",
                    number,
                    "The id of the last event that you have. Default: none.",
                ),
                query("after", number, "The same, for clients that cannot set the header."),
            ])
            .answers(vec![
                media("text/event-stream", event, "Each journaled event has its number as `id`, its kind as `event`, and its entry as `data`. `text` is a piece of a reply that is being received, `lost` counts those that were left out, and `end` has the run as it ended."),
                empty(204, "The run has ended, and you have all its events."),
            ])
            .fails(&[400, 404, 429]),
        said("/v1/runs/{run}/stop", "stop_run", || post(people::stop))
            .says("Stop a run at its next gate, or now")
            .reads(schema::<StopRequest>)
            .fails(&[400, 404, 409, 413]),
        said("/v1/runs/{run}/resume", "resume_run", || post(people::resume))
            .says("Continue a run that was interrupted")
            .fails(&[404, 409]),
        said("/v1/runs/{run}/instructions", "instruct_run", || post(people::instruct))
            .says("Give a run an instruction, which its next pass reads")
            .reads(schema::<InstructRequest>)
            .fails(&[400, 404, 409, 413, 422]),
        begun("/v1/runs/{run}/fork", "fork_run", || post(runs::fork))
            .says("Continue a run after one of its entries as a new run. No effect that it started later is repeated without an approval")
            .reads(schema::<ForkRequest>),
        begun("/v1/runs/{run}/retry", "retry_run", || post(runs::retry))
            .says("Do the work of a run that has ended again as a new run, with its evidence")
            .reads(schema::<RetryRequest>),
        said("/v1/runs/{run}/approve", "approve_action", || post(people::approve))
            .says("Approve an action that waits, once, as it was shown")
            .reads(schema::<ApproveRequest>)
            .fails(&[400, 404, 409, 413]),
        said("/v1/runs/{run}/deny", "deny_action", || post(people::deny))
            .says("Deny an action that waits")
            .reads(schema::<DenyRequest>)
            .fails(&[400, 404, 409, 413, 422]),
        said("/v1/runs/{run}/answer", "answer_question", || post(people::answer))
            .says("Answer a question of a run")
            .reads(schema::<AnswerRequest>)
            .fails(&[400, 404, 409, 413, 422]),
        route("PUT", "/v1/runs/{run}/label", "label_run", || put(people::label))
            .says("Say what a run that has ended was worth, in place of what was said before: for those who approve, and for its submitter")
            .takes(vec![run_id()])
            .reads(schema::<LabelRequest>)
            .answers(vec![answer::<RunView>(200, "The run with its label.")])
            .fails(&[400, 404, 409, 413, 422]),
        route("DELETE", "/v1/runs/{run}/label", "unlabel_run", || delete(people::unlabel))
            .says("Take the label of a run away")
            .takes(vec![run_id()])
            .answers(vec![answer::<RunView>(200, "The run without a label.")])
            .fails(&[404, 409]),
        route("GET", "/v1/pending", "list_pending", || get(people::pending))
            .says("List the actions and questions that wait for a person")
            .takes(vec![
                query("run", schema::<String>, "Only those of this run."),
                query("domain", schema::<String>, "Only those of this domain."),
            ])
            .answers(vec![answer::<PendingList>(200, "What waits.")])
            .fails(&[400, 404]),
        route("GET", "/v1/domains", "list_domains", || get(system::domains))
            .says("List the domains that you see, and how much they have to do")
            .answers(vec![answer::<DomainList>(200, "The domains.")]),
        route("GET", "/v1/outbox", "list_outbox", || get(system::outbox))
            .says("List the messages of hooks that are not delivered")
            .answers(vec![answer::<OutboxList>(200, "The messages.")]),
        route("DELETE", "/v1/outbox/{message}", "drop_message", || delete(system::drop_message))
            .says("Take a message out of the outbox without delivering it")
            .takes(vec![parameter("path", "message", segment, "The message's id.")])
            .answers(vec![empty(204, "It is dropped.")])
            .fails(&[404]),
        route("GET", "/v1/audit", "list_audit", || get(system::audit))
            .says("List who did what, from where, and who was refused, newest first: for an admin of all domains")
            .takes(vec![
                query("before", number, "Only entries before this number."),
                query("run", schema::<String>, "Only entries of this run."),
                query("limit", up_to::<1000>, "How many entries, from 1 to 1000. Default: 100."),
            ])
            .answers(vec![answer::<AuditPage>(200, "A page of the log.")])
            .fails(&[400]),
        route("GET", "/healthz", "health", || get(system::health))
            .says("Say that the process is there")
            .answers(vec![answer::<HealthView>(200, "It is.")]),
        route("GET", "/readyz", "readiness", || get(system::ready))
            .says("Say whether the server accepts work")
            .answers(vec![answer::<HealthView>(200, "It does."), answer::<HealthView>(503, "It is ending.")]),
        route("GET", "/metrics", "metrics", || get(system::metrics))
            .says("Read the figures of the server in the text format of Prometheus")
            .answers(vec![media("text/plain", schema::<String>, "The figures.")]),
        route("GET", "/openapi.json", "openapi", || get(system::openapi))
            .says("Read this document")
            .answers(vec![media("application/json", any_object, "The document.")]),
    ]
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

impl Route {
    /// Whether it requires a role.
    pub(super) fn has_role(&self) -> bool {
        self.has_caller() && self.path != "/v1/domains"
    }

    /// Whether it requires a caller.
    pub(super) fn has_caller(&self) -> bool {
        !matches!(self.path, "/healthz" | "/readyz" | "/openapi.json")
    }
}
