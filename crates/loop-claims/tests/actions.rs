//! That an action happened is claimed from an effect of the run that ran.

use loop_claims::{ClaimSources, claims};
use loop_core::types::{Effect, Locale, Status};
use loop_core::{Evidence, WorkItem};
use loop_testkit::{findings, tool};
use serde_json::json;

use crate::values::START;

/// What is found out about the actions of a body, where `issue_refund` ended as `refund` and `send_mail` as `mail`.
fn read(refund: Status, mail: Status, body: &str) -> Vec<String> {
    let tools = [
        tool("fetch_order", Effect::Read),
        tool("issue_refund", Effect::WriteKeyed),
        tool("send_mail", Effect::Egress),
    ];
    let order = json!({"order": "A-1", "history": ["paid", "refunded by desk"]});
    let evidence: Vec<Evidence> = [
        ("fetch_order", Status::Ok, order),
        ("issue_refund", refund, json!({})),
        ("send_mail", mail, json!({})),
    ]
    .iter()
    .zip(1..)
    .map(|((name, status, data), id)| loop_testkit::evidence(id, name, *status, data))
    .collect();
    let item = WorkItem::new("T-7", "ticket", "", "");
    let sources = ClaimSources {
        evidence: &evidence,
        tools: &tools,
        item: &item,
        unix_ms: START,
        utc_offset: 0,
        locale: Locale::En,
    };
    let found = claims(&findings(body), sources);
    found
        .iter()
        .filter(|it| it.kind.name() == "action")
        .map(|it| format!("{}: {}: {}", it.value, it.state.name(), it.why))
        .collect()
}

#[test]
fn what_ran_happened_and_what_was_denied_or_failed_did_not() {
    const UNKNOWN: &str = "not_checked: no effect of the run is cited for it";
    for (refund, body, expected) in [
        (Status::Ok, "The order was refunded [E2].", "refunded: found: "),
        (
            Status::Denied,
            "The order was refunded [E2].",
            "refunded: contradicted: the call of E2 ended as denied",
        ),
        (
            Status::PermanentError,
            "We have refunded it [E2].",
            "refunded: contradicted: the call of E2 ended as permanent error",
        ),
        (Status::InDoubt, "The order was refunded [E2].", &format!("refunded: {UNKNOWN}")),
        // A read that reports it supports it, and one that does not says nothing.
        (Status::Denied, "The order was refunded earlier [E1].", "refunded: found: "),
        (Status::Denied, "The order was cancelled [E1].", &format!("cancelled: {UNKNOWN}")),
        // Without a citation only what was denied and did not run contradicts it.
        (
            Status::Denied,
            "Your order was refunded.",
            "refunded: contradicted: the call of E2 ended as denied",
        ),
        (Status::Ok, "Your order was refunded.", &format!("refunded: {UNKNOWN}")),
        (Status::Denied, "A mail was sent.", &format!("sent: {UNKNOWN}")),
        (
            Status::Denied,
            "Die Bestellung wurde erstattet [E2].",
            "erstattet: contradicted: the call of E2 ended as denied",
        ),
        (
            Status::Denied,
            "La commande a été remboursée [E2].",
            "remboursée: contradicted: the call of E2 ended as denied",
        ),
        (
            Status::Denied,
            "El pedido fue reembolsado [E2].",
            "reembolsado: contradicted: the call of E2 ended as denied",
        ),
    ] {
        assert_eq!(read(refund, Status::Ok, body), [expected], "{refund:?}: {body}");
    }
}

#[test]
fn what_is_to_happen_or_did_not_is_no_claim() {
    for body in [
        "It will be refunded [E2].",
        "It was not refunded [E2].",
        "It can be refunded once it is approved [E2].",
    ] {
        assert_eq!(read(Status::Denied, Status::Ok, body), [""; 0], "{body}");
    }
}
