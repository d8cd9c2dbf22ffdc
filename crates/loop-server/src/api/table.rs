//! The table of routes: what makes the router makes the OpenAPI document as well.

use axum::routing::{MethodRouter, delete, get, post};
use loop_runtime::report::Report;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::types::{
    AnswerRequest, ApproveRequest, DenyRequest, DocumentView, DomainList, HealthView, InstructRequest,
    OutboxList, PendingList, StopRequest, SubmitRequest,
};
use super::{Api, events, look, people, runs, system};
use crate::doors::AuditPage;
use crate::engine::{RunPage, RunState, RunView};

/// A row of the table.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Its name for generated clients.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<SchemaOf>,
    pub(super) answers: Vec<Answer>,
    /// The problems that it may come to, besides those of every route.
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

/// An answer that is not a problem.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) describe: &'static str,
    /// The media types of its content, with their schemas. Empty: it has none.
    pub(super) content: Vec<(&'static str, SchemaOf)>,
}

/// Problems of every route that has a caller: no caller, a server that is ending or failing.
pub(super) const OF_CALLERS: [u16; 2] = [401, 503];

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

fn run_id() -> Parameter {
    parameter("path", "run", schema::<String>, "The run's id.")
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

fn empty(status: u16, describe: &'static str) -> Answer {
    Answer { status, describe, content: Vec::new() }
}

/// A route by which a caller says something to a run.
fn said(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    body: Option<SchemaOf>,
    problems: &'static [u16],
    handler: fn() -> MethodRouter<Api>,
) -> Route {
    let now = "It is journaled, or the driver of the run has it. The run as it is now.";
    let (parameters, answers) = (vec![run_id()], vec![answer::<RunView>(202, now)]);
    Route { method: "POST", path, id, summary, parameters, body, answers, problems, handler }
}

/// Every route.
pub(super) fn routes() -> Vec<Route> {
    let query = |name, schema, describe| parameter("query", name, schema, describe);
    vec![
        Route {
            method: "POST",
            path: "/v1/runs",
            id: "submit_run",
            summary: "Submit a work item. Accepted means journaled: its run begins, once, even if the server is killed",
            parameters: vec![
                parameter(
                    "header",
                    "Idempotency-Key",
                    schema::<String>,
                    "Two requests of a caller with one key are one request: the second returns the run of the first. At most 200 characters.",
                ),
                parameter(
                    "header",
                    "traceparent",
                    schema::<String>,
                    "The span in which you submit, as the W3C says: the run is part of its trace. A header that is not one is ignored.",
                ),
                prefer(),
            ],
            body: Some(schema::<SubmitRequest>),
            answers: vec![
                answer::<RunView>(202, "The run is accepted. Its address is in `Location`."),
                answer::<RunView>(200, "An earlier request with the key submitted the run."),
            ],
            problems: &[400, 404, 413, 422, 429],
            handler: || post(runs::submit),
        },
        Route {
            method: "GET",
            path: "/v1/runs",
            id: "list_runs",
            summary: "List the runs of the domains that you see, newest first",
            parameters: vec![
                query(
                    "domain",
                    schema::<String>,
                    "Only runs of this domain. One that is not there is refused.",
                ),
                query("state", schema::<RunState>, "Only runs in this state."),
                query(
                    "reason",
                    schema::<String>,
                    "Only runs with this stop reason, or with this class where it is no reason, such as `in_doubt`. One that there is not is refused.",
                ),
                query(
                    "since",
                    schema::<u64>,
                    "Only runs that began at this time or later, in milliseconds since 1970 (UTC), for example 1795000000000.",
                ),
                query(
                    "until",
                    schema::<u64>,
                    "Only runs that began before this time, in milliseconds since 1970 (UTC).",
                ),
                query("tag", schema::<String>, "Only runs with this tag."),
                query("text", schema::<String>, "Only runs whose item's id or title has this text."),
                query("cursor", schema::<String>, "`next` of the page before."),
                query("limit", schema::<u64>, "How many runs, from 1 to 200. Default: 50."),
            ],
            body: None,
            answers: vec![answer::<RunPage>(200, "A page of the list.")],
            problems: &[400, 422],
            handler: || get(runs::list),
        },
        Route {
            method: "GET",
            path: "/v1/runs/{run}",
            id: "get_run",
            summary: "Look at a run: its state, why it stopped, what it cost",
            parameters: vec![
                run_id(),
                prefer(),
                parameter("header", "If-None-Match", schema::<String>, "The `ETag` of an earlier answer."),
            ],
            body: None,
            answers: vec![answer::<RunView>(200, "The run."), empty(304, "It is as it was.")],
            problems: &[404],
            handler: || get(runs::one),
        },
        Route {
            method: "GET",
            path: "/v1/runs/{run}/document",
            id: "get_document",
            summary: "Read the document of a run, as far as it has come: Markdown, or JSON if `Accept` names it first",
            parameters: vec![run_id()],
            body: None,
            answers: vec![Answer {
                status: 200,
                describe: "The document.",
                content: vec![
                    ("text/markdown", schema::<String>),
                    ("application/json", schema::<DocumentView>),
                ],
            }],
            problems: &[404],
            handler: || get(look::document),
        },
        Route {
            method: "GET",
            path: "/v1/runs/{run}/outcome",
            id: "get_outcome",
            summary: "Read the outcome of a run that has ended: what `loopgate run --json` prints",
            parameters: vec![run_id()],
            body: None,
            answers: vec![answer::<Report>(200, "The outcome.")],
            problems: &[404, 409],
            handler: || get(look::outcome),
        },
        Route {
            method: "GET",
            path: "/v1/runs/{run}/events",
            id: "read_events",
            summary: "Read the events of a run as they happen (server-sent events), from the first or from the one after `Last-Event-ID`",
            parameters: vec![
                run_id(),
                parameter(
                    "header",
                    "Last-Event-ID",
                    schema::<String>,
                    "The id of the last event that you have. Default: none.",
                ),
                query("after", schema::<u64>, "The same, for clients that cannot set the header."),
            ],
            body: None,
            answers: vec![
                Answer {
                    status: 200,
                    describe: "Each journaled event has its number as `id`, its kind as `event`, and its entry as `data`. `text` is a piece of a reply that is being received, `lost` counts those that were left out, and `end` has the run as it ended.",
                    content: vec![("text/event-stream", schema::<String>)],
                },
                empty(204, "The run has ended, and you have all its events."),
            ],
            problems: &[400, 404, 429],
            handler: || get(events::events),
        },
        said(
            "/v1/runs/{run}/stop",
            "stop_run",
            "Stop a run at its next gate, or now",
            Some(schema::<StopRequest>),
            &[400, 404, 409, 413],
            || post(people::stop),
        ),
        said(
            "/v1/runs/{run}/resume",
            "resume_run",
            "Continue a run that was interrupted",
            None,
            &[404, 409],
            || post(people::resume),
        ),
        said(
            "/v1/runs/{run}/instructions",
            "instruct_run",
            "Give a run an instruction, which its next pass reads",
            Some(schema::<InstructRequest>),
            &[400, 404, 409, 413, 422],
            || post(people::instruct),
        ),
        said(
            "/v1/runs/{run}/approve",
            "approve_action",
            "Approve an action that waits, once, as it was shown",
            Some(schema::<ApproveRequest>),
            &[400, 404, 409, 413],
            || post(people::approve),
        ),
        said(
            "/v1/runs/{run}/deny",
            "deny_action",
            "Deny an action that waits",
            Some(schema::<DenyRequest>),
            &[400, 404, 409, 413, 422],
            || post(people::deny),
        ),
        said(
            "/v1/runs/{run}/answer",
            "answer_question",
            "Answer a question of a run",
            Some(schema::<AnswerRequest>),
            &[400, 404, 409, 413, 422],
            || post(people::answer),
        ),
        Route {
            method: "GET",
            path: "/v1/pending",
            id: "list_pending",
            summary: "List the actions and questions that wait for a person",
            parameters: vec![
                query("run", schema::<String>, "Only those of this run."),
                query("domain", schema::<String>, "Only those of this domain."),
            ],
            body: None,
            answers: vec![answer::<PendingList>(200, "What waits.")],
            problems: &[400, 404],
            handler: || get(people::pending),
        },
        Route {
            method: "GET",
            path: "/v1/domains",
            id: "list_domains",
            summary: "List the domains that you see, and how much they have to do",
            parameters: Vec::new(),
            body: None,
            answers: vec![answer::<DomainList>(200, "The domains.")],
            problems: &[],
            handler: || get(system::domains),
        },
        Route {
            method: "GET",
            path: "/v1/outbox",
            id: "list_outbox",
            summary: "List the messages of hooks that are not delivered",
            parameters: Vec::new(),
            body: None,
            answers: vec![answer::<OutboxList>(200, "The messages.")],
            problems: &[],
            handler: || get(system::outbox),
        },
        Route {
            method: "DELETE",
            path: "/v1/outbox/{message}",
            id: "drop_message",
            summary: "Take a message out of the outbox without delivering it",
            parameters: vec![parameter("path", "message", schema::<String>, "The message's id.")],
            body: None,
            answers: vec![empty(204, "It is dropped.")],
            problems: &[404],
            handler: || delete(system::drop_message),
        },
        Route {
            method: "GET",
            path: "/v1/audit",
            id: "list_audit",
            summary: "List who did what, from where, and who was refused, newest first: for an admin of all domains",
            parameters: vec![
                query("before", schema::<u64>, "Only entries before this number."),
                query("run", schema::<String>, "Only entries of this run."),
                query("limit", schema::<u64>, "How many entries, from 1 to 1000. Default: 100."),
            ],
            body: None,
            answers: vec![answer::<AuditPage>(200, "A page of the log.")],
            problems: &[400],
            handler: || get(system::audit),
        },
        Route {
            method: "GET",
            path: "/healthz",
            id: "health",
            summary: "Say that the process is there",
            parameters: Vec::new(),
            body: None,
            answers: vec![answer::<HealthView>(200, "It is.")],
            problems: &[],
            handler: || get(system::health),
        },
        Route {
            method: "GET",
            path: "/readyz",
            id: "readiness",
            summary: "Say whether the server accepts work",
            parameters: Vec::new(),
            body: None,
            answers: vec![answer::<HealthView>(200, "It does."), answer::<HealthView>(503, "It is ending.")],
            problems: &[],
            handler: || get(system::ready),
        },
        Route {
            method: "GET",
            path: "/metrics",
            id: "metrics",
            summary: "Read the figures of the server in the text format of Prometheus",
            parameters: Vec::new(),
            body: None,
            answers: vec![Answer {
                status: 200,
                describe: "The figures.",
                content: vec![("text/plain", schema::<String>)],
            }],
            problems: &[],
            handler: || get(system::metrics),
        },
        Route {
            method: "GET",
            path: "/openapi.json",
            id: "openapi",
            summary: "Read this document",
            parameters: Vec::new(),
            body: None,
            answers: vec![Answer {
                status: 200,
                describe: "The document.",
                content: vec![("application/json", any_object)],
            }],
            problems: &[],
            handler: || get(system::openapi),
        },
    ]
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

impl Route {
    /// Whether it asks for a role of the caller.
    pub(super) fn has_role(&self) -> bool {
        self.has_caller() && self.path != "/v1/domains"
    }

    /// Whether it asks who the caller is.
    pub(super) fn has_caller(&self) -> bool {
        !matches!(self.path, "/healthz" | "/readyz" | "/openapi.json")
    }
}
