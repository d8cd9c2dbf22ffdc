//! `examples/api`: tools made from the OpenAPI document of a service, against the service itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::service::Service;
use crate::common::{Shell, root, timeless};

const ITEM: &str = "examples/api/messages/M-17.json";

fn section<'a>(outcome: &'a Value, name: &str) -> &'a str {
    let mut sections = outcome["document"]["sections"].as_array().unwrap().iter();
    sections.find(|known| known["type"] == name).unwrap()["body"].as_str().unwrap()
}

#[test]
#[ignore = "needs Python: cargo xtask servers api"]
fn the_orders_of_a_customer_lead_to_the_shipment_that_failed() {
    // S0-2, S0-33, S0-77, S0-79, S0-80
    let (service, shell) = (Service::start(), Shell::new());
    let domain = service.domain(&shell).display().to_string();
    let check = shell.run(&["domain", "check", &domain]);
    assert_eq!(check.code, 0, "{}", check.err);
    let run = || shell.json(&["run", &domain, ITEM, "--json", "--no-save"]);
    let outcome = run();
    assert_eq!(outcome["stop"]["reason"], "confident", "{outcome:#}");
    let evidence = outcome["evidence"].as_array().unwrap();
    let called: Vec<_> =
        evidence.iter().map(|one| (one["tool"].as_str().unwrap(), one["status"].as_str().unwrap())).collect();
    let shipment = ("fetch_shipment", "ok");
    assert_eq!(called, [("list_orders", "ok"), shipment, shipment, shipment]);
    // Three pages, and no order of another customer.
    let orders: Vec<&str> =
        evidence[0]["data"].as_array().unwrap().iter().map(|order| order["id"].as_str().unwrap()).collect();
    assert_eq!(orders, ["O-201", "O-202", "O-203", "O-204", "O-205"]);
    let cause = section(&outcome, "cause");
    assert!(cause.contains("- detail: Delivery failed: the address label is damaged [E4]"), "{cause}");
    assert_eq!(timeless(outcome), timeless(run()));
}

#[test]
#[ignore = "needs Python: cargo xtask servers api"]
fn a_credit_is_given_once_and_only_after_a_person_has_agreed() {
    // I-26, K8, S4-36
    let (service, shell) = (Service::start(), Shell::new());
    let domain = service.domain(&shell);
    let script = format!("scripted/{}", domain.join("scripts/gives-credit.json").display());
    let models = ["--model", &format!("base={script}"), "--model", &format!("selector={script}")];
    let domain = domain.display().to_string();
    let ran = shell.run(&[&["run", &domain, ITEM], &models[..]].concat());
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("add_credit  (effect write_keyed, the model calls it a2)"), "{}", ran.out);
    let credits = || service.get("/orders/O-203/credits");
    assert_eq!(credits(), json!([]), "nothing has happened");
    // The command that was printed is the one that continues.
    let command = ran.out.lines().find_map(|line| line.trim().strip_prefix("loopgate approve ")).unwrap();
    let arguments: Vec<&str> = std::iter::once("approve").chain(command.split(' ')).collect();
    let ran = shell.run(&arguments);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("A credit of 12.50 euros was given [E3]."), "{}", ran.out);
    let given =
        json!([{ "id": "CR-1", "order": "O-203", "amount": 12.5, "reason": "Late delivery of O-203" }]);
    assert_eq!(credits(), given);
    shell.run(&arguments).fails_with(&["approved already", "counts once"]);
    assert_eq!(credits(), given);
}

#[test]
#[ignore = "needs Python: cargo xtask servers api"]
fn the_tools_of_the_example_are_those_of_the_services_own_document() {
    // K10: what the example says of the requests is what the import says, except for what its comments name.
    let (service, shell) = (Service::start(), Shell::new());
    let document = shell.file("openapi.json", &service.get("/openapi.json").to_string());
    let base = format!("http://{}", service.address);
    let document = document.display().to_string();
    let imported = shell.run(&["tools", "import", "openapi", &document, "--base-url", &base]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    let written = std::fs::read_to_string(service.domain(&shell).join("loopgate.toml")).unwrap();
    let lines = |text: &str, key: &str| -> BTreeSet<String> {
        text.lines().filter(|line| line.starts_with(key)).map(str::to_owned).collect()
    };
    let headers = |text: &str| lines(text, "[tools.");
    let only_imported: Vec<String> = headers(&imported.out).difference(&headers(&written)).cloned().collect();
    let left_out = [
        "[tools.add_credit.parameters.idempotency_key]",
        "[tools.list_credits.http]",
        "[tools.list_credits.parameters.order]",
        "[tools.list_credits]",
        "[tools.list_orders.parameters.after]",
        "[tools.list_orders.parameters.customer]",
    ];
    assert_eq!(only_imported, left_out);
    assert!(headers(&written).is_subset(&headers(&imported.out)), "{}", imported.out);
    let urls = lines(&written, "url = ");
    assert!(urls.contains(&format!("url = \"{base}/customers/{{scope.account}}/orders\"")), "{urls:?}");
    for url in urls.iter().filter(|url| !url.contains("scope.account")) {
        assert!(imported.out.contains(url.as_str()), "{url}");
    }
    assert!(lines(&imported.out, "body = ").is_superset(&lines(&written, "body = ")), "{}", imported.out);
}

#[test]
fn the_readme_names_the_port_of_the_service_and_of_the_domain() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(read("examples/api/service.py").contains("default=8093"));
    assert!(read("examples/README.md").contains("http://127.0.0.1:8093/openapi.json"));
    assert_eq!(read("examples/api/loopgate.toml").matches("127.0.0.1:8093").count(), 6);
}
