//! `loopgate tools import openapi`: what an operator sees.

use serde_json::json;

use crate::common::Shell;
use crate::common::provider::{Provider, Says};

const SHOP: &str = "openapi: 3.0.3\ninfo: { title: Shop, version: '1' }\nservers: [{ url: 'https://shop.example.com/v1' }]\n\
    paths:\n  /orders/{orderId}:\n    get: { operationId: getOrder, tags: [orders], parameters: [{ name: orderId, in: path, required: true, schema: { type: integer } }] }\n    \
    delete: { operationId: cancelOrder, tags: [orders], parameters: [{ name: orderId, in: path, required: true, schema: { type: integer } }] }\n";

#[test]
fn tools_are_printed_and_load_in_a_domain() {
    let shell = Shell::new();
    let document = shell.file("shop.yaml", SHOP);
    let document = document.to_str().unwrap();
    let listed = shell.run(&["tools", "import", "openapi", document, "--list"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    let page = include_str!("../../../docs/how-to/tools/openapi.md");
    assert!(page.contains(&format!("--list\n{}$", listed.out)), "{}", listed.out);
    let made = shell.run(&["tools", "import", "openapi", document, "--only", "orders"]);
    assert_eq!(made.code, 0, "{}", made.err);
    for line in made.err.lines() {
        assert!(page.contains(line), "{line}");
    }
    let around = "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n";
    let file = shell.file("shop/loopgate.toml", &format!("{around}{}", made.out));
    let tools = shell.run(&["tools", file.to_str().unwrap()]);
    assert_eq!(tools.code, 0, "{}", tools.err);
    assert!(tools.out.contains("fetch_order (read") && !tools.out.contains("cancel_order"), "{}", tools.out);
}

#[test]
fn a_tool_that_the_page_imports_asks_the_server() {
    // S0-33
    let shell = Shell::new();
    let server = Provider::replying(vec![Says::Body(json!({ "id": 7, "state": "late" }))]);
    let document = shell.file("shop.yaml", SHOP);
    let document = document.to_str().unwrap();
    let args = ["tools", "import", "openapi", document, "--only", "orders", "--base-url", &server.url];
    let made = shell.run(&args);
    assert_eq!(made.code, 0, "{}", made.err);
    let around = "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n";
    let file = shell.file("shop/loopgate.toml", &format!("{around}{}", made.out));
    let called = shell.run(&["tools", file.to_str().unwrap(), "call", "fetch_order", r#"{"orderId": 7}"#]);
    assert_eq!(called.code, 0, "{}", called.err);
    assert!(called.out.contains("| 7 | late |"), "{}{}", called.out, called.err);
    let received = server.received();
    assert!(received[0].starts_with("GET /v1/orders/7 HTTP/1.1"), "{received:?}");
}

#[test]
fn what_cannot_be_imported_is_one_line() {
    let shell = Shell::new();
    let document = shell.file("shop.yaml", SHOP);
    let document = document.to_str().unwrap();
    let swagger = shell.file("old.yaml", "swagger: '2.0'\n");
    let binary = shell.file("a.bin", "");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    for (args, says) in [
        (vec![document, "--only", "getOder"], "no operation fits; the nearest are `getOrder`"),
        (vec!["/no/such/file"], "cannot be read"),
        (vec![swagger.to_str().unwrap()], "2.0"),
        (vec![binary.to_str().unwrap()], "not UTF-8 text"),
        (vec![document, "--base-url", "ftp://x"], "--base-url ftp://x"),
    ] {
        let ran = shell.run(&[&["tools", "import", "openapi"], &args[..]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{says}");
        assert!(ran.err.contains(says) && ran.err.trim().lines().count() == 1, "{}", ran.err);
    }
}
