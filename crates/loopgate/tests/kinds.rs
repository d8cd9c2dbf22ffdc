//! One domain with a tool of each kind: a run calls each of them once, and its outcome holds what each returned.

use serde_json::{Value, json};

use crate::common::provider::{Provider, Says};
use crate::common::{Ran, Shell};

/// The domain, with the servers' addresses still to be filled in. PostgreSQL is in the suite of servers.
const DOMAIN: &str = r#"
version = 1
name = "kinds"
goal = "Answer a message about an order."

[[section]]
id = "answer"
heading = "Answer"
required = true
cite = true

[item]
kind = "message"

[item.scope]
account = "/customer"

[sources.shop]
kind = "sqlite"
made_from = "shop.sql"

[tools.fetch_orders]
kind = "sql"
source = "shop"
effect = "read"
when = "always"
description = "Fetch the customer's orders"
query = "SELECT id, part FROM orders WHERE customer = :scope_account"

[tools.search_rules]
kind = "docs"
folder = "rules"
effect = "read"
when = "always"
description = "Search the rules"

[tools.fetch_stock]
kind = "http"
effect = "read"
when = "always"
description = "Fetch what is in stock of a part"
parameters.part = { required = true }
http.url = "HTTP/parts/{part}"
http.plain_http = true
http.private = ["HTTP_PLACE"]

[tools.fetch_invoice]
kind = "http"
effect = "read"
when = "always"
description = "Fetch an invoice"
parameters.number = { required = true }
http.url = "GRAPHQL/graphql"
http.graphql = "query ($number: String!) { invoice(number: $number) { total } }"
http.select = "/data/invoice"
http.plain_http = true
http.private = ["GRAPHQL_PLACE"]

[tools.show_hours]
kind = "command"
effect = "read"
when = "always"
description = "Show the opening hours of a day"
parameters.day = { required = true, enum = ["monday", "tuesday"] }
command = { program = "cat", args = ["--", "hours-{day}.txt"] }

[tools.read_note]
kind = "files"
effect = "read"
when = "always"
description = "Read a note"
files = { folder = "notes", do = "read" }

[tools.read_result]
kind = "results"

[tools.ask_customer]
kind = "question"
when = "Only the customer knows"
description = "Ask the customer a question"

[gate]
people = true

[contract]
nonce = "require"

[models.selector]
provider = "scripted"
script = "replies.json"

[models.base]
provider = "scripted"
script = "replies.json"
"#;

fn action(id: &str, tool: &str, parameters: &Value) -> Value {
    json!({ "action_id": id, "action_type": tool, "reason": "it is needed", "priority": "required", "parameters": parameters })
}

/// A reply with this body of its section, and what it requests.
fn reply(body: &str, confidence: &str, actions: &[Value]) -> Value {
    let contract = json!({
        "nonce": "{{nonce}}", "analysis_confidence": confidence, "confidence_reason": "as it says", "ai_actions": actions,
    });
    json!({ "for": "main", "text": format!("## Answer\n\n{body}\n\n```json\n{contract}\n```") })
}

/// What stands in the domain's folder, and the servers that it asks.
fn world(shell: &Shell) -> (String, Provider, Provider) {
    let stock = Provider::replying(vec![Says::Body(json!({ "part": "P-4", "in_stock": 31 }))]);
    let invoices =
        Provider::replying(vec![Says::Body(json!({ "data": { "invoice": { "total": "17.20" } } }))]);
    let place = |server: &Provider| {
        let rest = server.url.strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap().to_owned()
    };
    // The longer names first.
    let domain = DOMAIN
        .replace("HTTP_PLACE", &place(&stock))
        .replace("GRAPHQL_PLACE", &place(&invoices))
        .replace("\"HTTP/", &format!("\"{}/", stock.url))
        .replace("\"GRAPHQL/", &format!("\"{}/", invoices.url));
    let rows: Vec<String> = (1..=150).map(|id| format!("({id}, 'part number {id}', 'C-7')")).collect();
    let orders =
        format!("CREATE TABLE orders (id, part, customer); INSERT INTO orders VALUES {};", rows.join(", "));
    let first = [
        action("a1", "fetch_orders", &json!({})),
        action("a2", "search_rules", &json!({ "query": "returns of pumps" })),
        action("a3", "fetch_stock", &json!({ "part": "P-4" })),
        action("a4", "fetch_invoice", &json!({ "number": "I-9" })),
        action("a5", "show_hours", &json!({ "day": "monday" })),
        action("a6", "read_note", &json!({ "path": "C-7.md" })),
    ];
    let second = [
        action("b1", "read_result", &json!({ "evidence": "E1", "search": "number 149" })),
        action("b2", "ask_customer", &json!({ "question": "Which colour has the pump?" })),
    ];
    let last = "There are 31 in stock [E3], the invoice is 17.20 [E4], and the pump is green [E8].";
    let replies = json!({ "version": 1, "replies": [
        { "for": "select", "text": "[]" },
        reply("It is looked up.", "low", &first),
        reply("One thing is left [E1].", "medium", &second),
        reply(last, "high", &[]),
    ] });
    for (name, text) in [
        ("shop.sql", &*orders),
        ("rules/returns.md", "# Returns\n\nReturns of pumps are free for thirty days.\n"),
        ("hours-monday.txt", "Monday: nine to five\n"),
        ("notes/C-7.md", "Calls back on Fridays.\n"),
        ("message.json", r#"{"id": "M-1", "title": "My pump", "customer": "C-7"}"#),
        ("replies.json", &replies.to_string()),
        ("loopgate.toml", &domain),
    ] {
        shell.file(&format!("kinds/{name}"), text);
    }
    (shell.state.path().join("kinds").display().to_string(), stock, invoices)
}

#[test]
fn a_run_calls_a_tool_of_each_kind_and_holds_what_each_returned() {
    // S0-33, S0-69, S0-79, S0-80, S4-36
    let shell = Shell::new();
    let (folder, stock, invoices) = world(&shell);
    let check = shell.run(&["domain", "check", &folder]);
    assert_eq!(check.code, 0, "{}", check.err);
    let ran = shell.run(&["run", &folder, &format!("{folder}/message.json"), "--evidence", "full", "--json"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let pending = shell.json(&["pending", "--json"]);
    let waits = &pending["pending"][0];
    let text = |key: &str| waits[key].as_str().unwrap_or_else(|| panic!("{key}: {pending:#}")).to_owned();
    assert!(waits.to_string().contains("Which colour has the pump?"), "{pending:#}");
    let answered: Ran = shell.run(&["answer", &text("run"), &text("action"), "It is green."]);
    assert_eq!(answered.code, 0, "{}{}", answered.out, answered.err);
    assert!(answered.out.contains("the pump is green [E8]."), "{}", answered.out);

    let outcome = shell.json(&["show", &text("run"), "--json"]);
    assert_eq!(outcome["stop"]["reason"], "confident", "{outcome:#}");
    let evidence = outcome["evidence"].as_array().unwrap();
    // Tool, what its data holds, and what the model read of it.
    let expected = [
        ("fetch_orders", "part number 150", "| 1 | part number 1 |"),
        ("search_rules", "Returns of pumps are free", "### returns.md"),
        ("fetch_stock", "\"in_stock\":31", "| P-4 |"),
        ("fetch_invoice", "\"total\":\"17.20\"", "| 17.20 |"),
        ("show_hours", "Monday: nine to five", "Monday: nine to five"),
        ("read_note", "Calls back on Fridays.", "1\tCalls back on Fridays."),
        ("read_result", "part number 149", "part number 149"),
        ("ask_customer", "It is green.", "It is green."),
    ];
    let called: Vec<&str> = evidence.iter().map(|one| one["tool"].as_str().unwrap()).collect();
    assert_eq!(called, expected.map(|(tool, _, _)| tool), "each once, in this order");
    for (one, (tool, data, markdown)) in evidence.iter().zip(expected) {
        assert_eq!(one["status"], "ok", "{one:#}");
        let held = one["data"].to_string();
        assert!(held.contains(data), "{tool}: {held}");
        let read = one["markdown"].as_str().unwrap();
        assert!(read.contains(markdown), "{tool}: {read}");
    }
    let body = outcome["document"]["sections"][0]["body"].as_str().unwrap();
    assert_eq!(body, "There are 31 in stock [E3], the invoice is 17.20 [E4], and the pump is green [E8].");
    // The servers were asked once each, although the run was resumed.
    let [asked] = &stock.received()[..] else { panic!("{:?}", stock.received()) };
    assert!(asked.starts_with("GET /v1/parts/P-4 HTTP/1.1"), "{asked}");
    let [asked] = &invoices.received()[..] else { panic!("{:?}", invoices.received()) };
    assert!(asked.ends_with(r#""variables":{"number":"I-9"}}"#), "{asked}");
}
